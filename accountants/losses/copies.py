"""Independent copies of one randomizer under two inputs: binomial where two log-ratios say all."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from fedrec_auditor.accountants.losses.hockey_stick import log_ratio
from fedrec_auditor.accountants.losses.pairs import Array, AtomicPair, ListedPair, Pair

# Log-probability below which an output is left out of a composition, which only lowers the bound.
_NEGLIGIBLE = -200.0
# How many products of probabilities are summed up to compose copies of either orientation, about.
_MOST_PRODUCTS = 2**31
# Copies above which a number of outputs that no double can be as unlikely as is left out.
_MANY_COPIES = 2**20
# Minus the logarithm of a probability that is 0 in doubles.
_RARE = 750.0
# Outputs up to which the grid of a composition is laid through the largest loss.
_FEW_OUTPUTS = 64


def loss_pair(log_p: Array, log_q: Array) -> Pair:
    """The privacy losses of one copy; outputs of a probability below e^-200 are left out."""
    loss = log_ratio(log_p, log_q)
    seen = (log_p > _NEGLIGIBLE) & np.isfinite(loss)
    infinite = min(1.0, float(np.exp(log_p[np.isposinf(loss)]).sum()))
    losses, log_p = loss[seen], log_p[seen]
    if len(losses) <= _FEW_OUTPUTS:
        return AtomicPair(tuple(losses.tolist()), tuple(log_p.tolist()), infinite)
    return ListedPair.of(losses, log_p, infinite)


def different_ratios(log_p: Array, log_q: Array) -> Array:
    """The different log-ratios of outputs that are possible at all, rising, to 12 digits."""
    possible = ~(np.isneginf(log_p) & np.isneginf(log_q))
    return np.unique(np.round(log_ratio(log_p, log_q)[possible], 12))


def orientations(log_p: Array, log_q: Array, copies: int, groups: int) -> tuple[list[int], bool]:
    """In how many of the copies to exchange two inputs, and whether the worst number is among them.

    Copies of one group see the same order. Two bits of rates p > q may be told apart the best in
    (0, 1) against (1, 0), unless that is the same or one output is impossible under one input. In
    that case, let s be the probability that one copy does not show it: with i of n copies
    exchanged, and e^eps >= 1, the divergence is

        1 - s^(n-i) + max(0, s^(n-i) - e^eps s^i) <= max(1 - s^(n-i), 1 - e^eps s^i) <= 1 - s^n,

    which is that of i = 0.
    """
    if groups == 1:
        return [0], True
    more, less, p, _, rest = _two_ratios(log_p, log_q)
    if math.isclose(p, rest, rel_tol=1e-14) or not 0.0 < more - less < math.inf:
        return [0], True
    # The mean of (copies - i) i is a sixth of the square.
    tried = max(2, min(groups + 1, 6 * _MOST_PRODUCTS // copies**2))
    numbers = np.linspace(0, groups, tried).round()[:-1]
    return [int(k) * (copies // groups) for k in numbers], tried == groups + 1


def counted(log_p: Array, log_q: Array, copies: int, exchanged: int = 0) -> tuple[Array, Array]:
    """Log-probabilities under either input of all that ``copies`` show: of one copy, its outputs.

    Of several, of two different ratios at most, it is the number of outputs that speak for the
    first input: binomial or, with the inputs ``exchanged`` in some copies, a sum of two binomial
    ones. Of millions of copies the numbers that the first input makes less likely than a double can
    be are left out (Bernstein), which only lowers a divergence.
    """
    if copies == 1:
        return log_p, log_q
    more, less, p, q, rest = _two_ratios(log_p, log_q)
    plain, low, high = copies - exchanged, 0, copies - exchanged
    if copies > _MANY_COPIES:
        width = math.sqrt(2.0 * _RARE * plain * p * (1.0 - p)) + _RARE
        low, high = max(low, math.floor(plain * p - width)), min(high, math.ceil(plain * p + width))
    numbers = np.arange(low, high + 1)
    if not math.isfinite(more - less) or (copies <= _MANY_COPIES and not exchanged):
        return stats.binom.logpmf(numbers, copies, p), stats.binom.logpmf(numbers, copies, q)
    # Not by log-factorials, which lose too many digits here.
    masses = np.convolve(
        stats.binom.pmf(numbers, plain, p),
        stats.binom.pmf(np.arange(exchanged + 1), exchanged, rest),
    )
    with np.errstate(divide="ignore"):
        first = np.log(masses)
    numbers = low + np.arange(len(first))
    return first, first - (plain * less - exchanged * more + numbers * (more - less))


def _two_ratios(log_p: Array, log_q: Array) -> tuple[float, float, float, float, float]:
    """The larger and the smaller log-ratio, where two differ at most, and three probabilities.

    Of outputs of the larger one under the first input and the second, and of the others under the
    second.
    """
    possible = ~(np.isneginf(log_p) & np.isneginf(log_q))
    log_p, log_q = log_p[possible], log_q[possible]
    ratio = log_ratio(log_p, log_q)
    top = np.round(ratio, 12) == np.round(ratio.max(), 12)
    p, q, rest = (
        min(1.0, float(np.exp(log_mass).sum()))
        for log_mass in (log_p[top], log_q[top], log_q[~top])
    )
    more = float(ratio[top].max())
    return more, more if top.all() else float(ratio[~top].max()), p, q, rest
