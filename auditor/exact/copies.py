"""The joint distributions of many independent outputs under two inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.losses.hockey_stick import log_ratio
from fedrec_auditor.accountants.losses.pairs import AtomicPair, ListedPair, Pair

Array = NDArray[np.float64]
# Log-probability below which an output is left out of a composition, which only lowers the bound.
_NEGLIGIBLE = -200.0
# How many products of probabilities are summed up to compose pairs of either orientation, about.
_MOST_PRODUCTS = 2**31
# Copies above which a number of outputs that no double can be as unlikely as is left out.
_MANY_COPIES = 2**20
# Minus the logarithm of a probability that is 0 in doubles.
_RARE = 750.0
# Outputs up to which the grid of a composition is laid through the largest loss.
_FEW_OUTPUTS = 64


@dataclass(frozen=True, slots=True)
class InputPair:
    """Inputs number ``a`` and ``b`` and the log-probabilities of all outputs under either.

    ``exchanged`` of the copies see the inputs in the other order.
    """

    a: int
    b: int
    log_p: Array
    log_q: Array
    exchanged: int = 0


def ratio_count(pair: InputPair) -> int:
    """How many different ratios the possible outputs have."""
    return len(_different_ratios(pair.log_p, pair.log_q))


def loss_pair(pair: InputPair) -> Pair:
    """The privacy losses of one copy; outputs of a probability below e^-200 are left out."""
    loss = log_ratio(pair.log_p, pair.log_q)
    seen = (pair.log_p > _NEGLIGIBLE) & np.isfinite(loss)
    infinite = min(1.0, float(np.exp(pair.log_p[np.isposinf(loss)]).sum()))
    losses, log_p = loss[seen], pair.log_p[seen]
    if len(losses) <= _FEW_OUTPUTS:
        return AtomicPair(tuple(losses.tolist()), tuple(log_p.tolist()), infinite)
    return ListedPair.of(losses, log_p, infinite)


def together(pairs: list[InputPair], copies: int, groups: int) -> tuple[list[InputPair], bool]:
    """The distributions of all copies, and whether a worst pair of inputs is among them.

    At most two ratios, if there are several copies. Two bits of rates p > q may be told apart the
    best in (0, 1) against (1, 0). So a single pair of two ratios is composed one way round in some
    groups and exchanged in others, unless that is the same or one output is impossible under one
    input. In that case, let s be the probability that one copy does not show it: with i of n copies
    exchanged, and e^eps >= 1, the divergence is

        1 - s^(n-i) + max(0, s^(n-i) - e^eps s^i) <= max(1 - s^(n-i), 1 - e^eps s^i) <= 1 - s^n,

    which is that of i = 0.
    """
    same = [_copied(pair, copies) for pair in pairs]
    if groups == 1 or copies == 1:
        return same, True
    if len(pairs) > 2:
        return same, False
    pair = pairs[0]
    possible = ~(np.isneginf(pair.log_p) & np.isneginf(pair.log_q))
    pair = replace(pair, log_p=pair.log_p[possible], log_q=pair.log_q[possible])
    top = _top(pair.log_p, pair.log_q)
    first_kind, second_kind = (
        float(np.exp(pair.log_p[top]).sum()),
        float(np.exp(pair.log_q[~top]).sum()),
    )
    finite = np.isfinite(log_ratio(pair.log_p, pair.log_q)).all()
    if top.all() or not finite or math.isclose(first_kind, second_kind, rel_tol=1e-14):
        return same, True
    # The mean of (copies - i) i is a sixth of the square.
    tried = max(2, min(groups + 1, 6 * _MOST_PRODUCTS // copies**2))
    size = copies // groups
    mixed = [
        _exchanged(pair, copies - int(k) * size, int(k) * size)
        for k in np.linspace(0, groups, tried).round()[1:-1]
    ]
    return same + mixed, tried == groups + 1


def _exchanged(pair: InputPair, plain: int, exchanged: int) -> InputPair:
    """The distributions of the number of outputs that speak for the first vector.

    ``plain`` copies see the two inputs in their order, ``exchanged`` ones the other way round. Two
    finite ratios, which differ by as much either way round, so that the number says all: a sum of
    two binomial ones.
    """
    p, q = pair.log_p, pair.log_q
    ratio, top = log_ratio(p, q), _top(p, q)
    more, less = float(ratio[top].max()), float(ratio[~top].min())
    counts = np.convolve(
        stats.binom.pmf(np.arange(plain + 1), plain, np.exp(p[top]).sum()),
        stats.binom.pmf(np.arange(exchanged + 1), exchanged, np.exp(q[~top]).sum()),
    )
    first = _log(counts)
    losses = plain * less - exchanged * more + np.arange(len(first)) * (more - less)
    return InputPair(pair.a, pair.b, first, first - losses, exchanged)


def _copied(pair: InputPair, copies: int) -> InputPair:
    """The distributions of ``copies`` independent outputs, as far as they tell the inputs apart.

    If outputs have two different ratios only, the number of those of the larger ratio says all:
    binomial under either input. Of millions of copies the numbers that the first input makes less
    likely than a double can be are left out (Bernstein), which only lowers a divergence.
    """
    if copies == 1:
        return pair
    p, q = pair.log_p, pair.log_q
    top = _top(p, q)
    rates = [min(1.0, float(np.exp(log_mass[top]).sum())) for log_mass in (p, q)]
    ratio = _different_ratios(p, q)
    if copies <= _MANY_COPIES or not np.isfinite(ratio).all():
        counts = np.arange(copies + 1)
        first, second = (stats.binom.logpmf(counts, copies, rate) for rate in rates)
        return replace(pair, log_p=first, log_q=second)
    mean = copies * rates[0]
    width = math.sqrt(2.0 * _RARE * mean * (1.0 - rates[0])) + _RARE
    low, high = math.floor(mean - width), math.ceil(mean + width)
    counts = np.arange(max(0, low), min(copies, high) + 1)
    # Not by log-factorials, which lose too many digits here.
    first = _log(stats.binom.pmf(counts, copies, rates[0]))
    more, less = float(log_ratio(p, q)[top].max()), float(log_ratio(p, q)[~top].max())
    return replace(pair, log_p=first, log_q=first - (counts * more + (copies - counts) * less))


def _different_ratios(p: Array, q: Array) -> Array:
    """The different log-ratios of outputs that are possible at all, rising, to 12 digits."""
    possible = ~(np.isneginf(p) & np.isneginf(q))
    return np.unique(np.round(log_ratio(p, q)[possible], 12))


def _top(p: Array, q: Array) -> NDArray[np.bool_]:
    """Where the outputs of the largest ratio are."""
    return np.asarray(np.round(log_ratio(p, q), 12) == _different_ratios(p, q)[-1])


def _log(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(p)
