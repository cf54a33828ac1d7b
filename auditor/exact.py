"""Lower bounds that need no sample: the output probabilities of the mechanism are known."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.grid import least_epsilon
from fedrec_auditor.accountants.statements.bound import (
    Bound,
    Side,
    Witness,
    check_delta,
    check_epsilon,
)
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.mechanisms.base import Critical, Divergent, Mechanism

Law = NDArray[np.float64]
"""Log-probabilities of outputs."""
Pair = tuple[int, int, Law, Law]
"""Two inputs, and the laws of one copy."""
Together = tuple[int, int, Law, Law, int]
"""Two inputs, the laws of all copies, and how many of these see the inputs exchanged."""
# Relative error a probability may have by rounding, for each output added up: it is given away, or
# a claim that holds with equality would be refuted, by an infinite epsilon in the worst case.
_ROUNDING = 2.0**-46
# Log-probability below which an output is left out of a composition, which only lowers the bound.
_NEGLIGIBLE = -200.0
# An epsilon above which a curve is taken to have no end.
_LARGEST = 2.0**1022
# How many products of probabilities are summed up to compose pairs of either orientation, about.
_MOST_PRODUCTS = 2**31
# Cells of the finest grid on which losses are composed: 64 MB of complex numbers.
_MOST_CELLS = 2**22
# Copies above which the finest grid takes seconds, and those that are composed at most.
_FINE_COPIES = 2**17
_MOST_COPIES = 2**25
# Copies above which a number of outputs that no double can be as unlikely as is left out.
_MANY_COPIES = 2**20
# Minus the logarithm of a probability that is 0 in doubles.
_RARE = 750.0


def has_curve(mechanism: Mechanism, delta: float) -> bool:
    """Whether ``exact_lower_bound`` has an answer at ``delta``: it always has one at 0."""
    if delta == 0 or isinstance(mechanism, Divergent):
        return True
    critical = mechanism.critical()
    return critical is not None and critical.exhaustive


def exact_lower_bound(mechanism: Mechanism, scope: Scope, delta: float = 0.0) -> Bound:
    """No epsilon below this one holds for ``mechanism`` at ``delta``: a proof, not an estimate.

    At delta 0 it is the largest log-ratio of one output's probability under two inputs, times the
    copies that may take the worst pair at once; infinite where an output is possible under one
    input and impossible under the other, or where the ratio has no bound. At delta > 0 it is the
    least epsilon at which the hockey-stick divergence of the worst pair is at most delta; this
    needs finitely many outputs or a mechanism that is ``Divergent`` (InputError otherwise). It is
    a lower bound always, and the exact epsilon but for these, which the source names: several
    copies of outputs of more than two different ratios are composed on a grid from below, which
    may cost 0.1 of epsilon and the witness; copies that may see unlike pairs are tried with equal
    ones, and of a single asymmetric pair with as many of either orientation as time allows. The
    witness names the pair.
    """
    if check_delta(delta) > 0:
        return _at_delta(mechanism, scope, delta)
    critical = mechanism.critical()
    if critical is None:
        return _bound(math.inf, scope, 0.0, None, "the log-ratio of the outputs has no bound")
    laws = _laws(mechanism, critical)
    high, low = laws.max(axis=0), laws.min(axis=0)
    ratios = np.where(np.isneginf(high), 0.0, high - np.where(np.isneginf(high), 0.0, low))
    output = int(np.argmax(ratios))
    a, b = int(np.argmax(laws[:, output])), int(np.argmin(laws[:, output]))
    witness = Witness(
        input_a=critical.name_input(critical.inputs[a]),
        input_b=critical.name_input(critical.inputs[b]),
        output=critical.name_output(critical.outputs[output]),
        probability_a=_plain(laws[a, output]),
        probability_b=_plain(laws[b, output]),
        copies=critical.copies,
        note=_note(critical, laws[b, output]),
    )
    return _bound(float(ratios[output]) * critical.copies, scope, 0.0, witness)


def delta_at(mechanism: Mechanism, epsilon: float) -> float:
    """The least delta at which ``mechanism`` is (epsilon, delta)-private, exactly.

    The largest hockey-stick divergence sum(max(0, P - e^eps Q)) over ordered pairs of inputs;
    InputError unless the mechanism is ``Divergent`` or its outputs are finitely many, and for
    several copies unless these have at most two ratios and all combinations of pairs that the
    copies may see are tried.
    """
    check_epsilon(epsilon)
    if isinstance(mechanism, Divergent):
        return mechanism.divergence(epsilon)
    critical, pairs = _pairs(mechanism)
    found, all_tried = _together(critical, pairs)
    if not all_tried:
        raise InputError(
            f"Expected copies that see one pair, or one pair of at most two ratios and few copies, "
            f"got {critical.copies} copies. Ask for one copy, or for a lower bound."
        )
    return max(
        min(1.0, float(np.sum(np.exp(p) * -np.expm1(np.minimum(epsilon - _ratio(p, q), 0.0)))))
        for _, _, p, q, _ in found
    )


def _on_curve(mechanism: Divergent, scope: Scope, delta: float) -> Bound:
    """The least epsilon on a privacy curve that is known, from below."""

    def holds(epsilon: float) -> bool:
        return mechanism.divergence(epsilon) * (1.0 - _ROUNDING) <= delta

    low, high = 0.0, 0.0 if holds(0.0) else 1.0
    while not holds(high) and high < _LARGEST:
        low, high = high, 2.0 * high
    if not holds(high):
        low = math.inf
    while math.nextafter(low, high) < high and high - low > 1e-12 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return _bound(low, scope, delta, None, "the mechanism's own curve")


def _at_delta(mechanism: Mechanism, scope: Scope, delta: float) -> Bound:
    if isinstance(mechanism, Divergent):
        known = mechanism.critical()
        # One with a finite law, too, has a witness.
        if known is None or not known.exhaustive or known.copies > 1:
            return _on_curve(mechanism, scope, delta)
    critical, pairs = _pairs(mechanism)
    copies = critical.copies
    if copies > 1 and _many_ratios(pairs):
        least = max(_composed(p, q, copies, delta) for _, _, p, q in pairs)
        return _bound(least, scope, delta, None, f"{copies} copies on a grid from below")
    found, all_tried = _together(critical, pairs)
    epsilon, chosen = 0.0, None
    for a, b, p, q, exchanged in found:
        # The divergence is the largest P(S) - e^eps Q(S) over the sets S of largest ratio.
        order = np.argsort(-_ratio(p, q))
        in_p, in_q = np.cumsum(np.exp(p[order])), np.logaddexp.accumulate(q[order])
        sure = in_p * max(0.0, 1.0 - _ROUNDING * max(len(p), copies))
        reached = _ratio(_log(np.maximum(sure - delta, 0.0)), in_q)
        k = int(np.argmax(reached))
        if chosen is None or reached[k] > epsilon:
            epsilon = max(epsilon, float(reached[k]))
            chosen = Witness(
                input_a=critical.name_input(critical.inputs[a]),
                input_b=critical.name_input(critical.inputs[b]),
                output=f"the {k + 1} of {len(p)} outputs that speak most for the first input",
                probability_a=min(1.0, float(in_p[k])),
                probability_b=min(1.0, math.exp(in_q[k])),
                copies=copies,
                note=_note_together(copies, exchanged),
            )
    note = "" if all_tried else f"{copies} copies from below, as not all pairs of inputs are tried"
    return _bound(epsilon, scope, delta, chosen, note)


def _together(critical: Critical, pairs: list[Pair]) -> tuple[list[Together], bool]:
    """Laws of all copies under two inputs, and whether a worst pair of inputs is among them.

    Two bits of rates p > q may be told apart the best in (0, 1) against (1, 0). So a single pair of
    two ratios is composed one way round in some groups and exchanged in others, unless that is the
    same or one output is impossible under one input. In that case, let s be the chance that one
    copy does not show it: with i of n copies exchanged, and e^eps >= 1, the divergence is

        1 - s^(n-i) + max(0, s^(n-i) - e^eps s^i) <= max(1 - s^(n-i), 1 - e^eps s^i) <= 1 - s^n,

    which is that of i = 0.
    """
    copies, groups = critical.copies, critical.groups
    if copies > 1 and _many_ratios(pairs):
        ratios = max(len(_different_ratios(p, q)) for _, _, p, q in pairs)
        raise InputError(
            f"Expected outputs of at most two ratios for {copies} copies, got {ratios}. "
            "Ask for one copy."
        )
    same = [(a, b, *_copied(p, q, copies), 0) for a, b, p, q in pairs]
    if groups == 1 or copies == 1:
        return same, True
    if len(pairs) > 2:
        return same, False
    a, b, p, q = pairs[0]
    possible = ~(np.isneginf(p) & np.isneginf(q))
    p, q = p[possible], q[possible]
    top = _top(p, q)
    shown, hidden = (float(np.exp(law[kind]).sum()) for law, kind in ((p, top), (q, ~top)))
    finite = np.isfinite(_ratio(p, q)).all()
    if top.all() or not finite or math.isclose(shown, hidden, rel_tol=1e-14):
        return same, True
    # The mean of (copies - i) i is a sixth of the square.
    tried = max(2, min(groups + 1, 6 * _MOST_PRODUCTS // copies**2))
    size = copies // groups
    mixed = [
        (a, b, *_exchanged(p, q, copies - int(k) * size, int(k) * size), int(k) * size)
        for k in np.linspace(0, groups, tried).round()[1:-1]
    ]
    return same + mixed, tried == groups + 1


def _exchanged(p: Law, q: Law, plain: int, exchanged: int) -> tuple[Law, Law]:
    """The log-laws of the number of outputs that speak for the first vector.

    ``plain`` copies see the two inputs in their order, ``exchanged`` ones the other way round. Two
    finite ratios, which differ by as much either way round, so that the number says all: a sum of
    two binomial ones.
    """
    ratio, top = _ratio(p, q), _top(p, q)
    more, less = float(ratio[top].max()), float(ratio[~top].min())
    shown = np.convolve(
        stats.binom.pmf(np.arange(plain + 1), plain, np.exp(p[top]).sum()),
        stats.binom.pmf(np.arange(exchanged + 1), exchanged, np.exp(q[~top]).sum()),
    )
    first = _log(shown)
    return first, first - (plain * less - exchanged * more + np.arange(len(first)) * (more - less))


def _pairs(mechanism: Mechanism) -> tuple[Critical, list[Pair]]:
    """Every ordered pair of critical inputs with the two log-laws of one copy."""
    critical = mechanism.critical()
    if critical is None or not critical.exhaustive:
        raise InputError(
            f"Expected a mechanism with finitely many outputs at delta > 0, got {mechanism}. "
            "Ask for delta 0, or measure with an estimator."
        )
    laws = _laws(mechanism, critical)
    return critical, [
        (a, b, laws[a], laws[b]) for a, b in itertools.permutations(range(len(laws)), 2)
    ]


def _copied(p: Law, q: Law, copies: int) -> tuple[Law, Law]:
    """The log-laws of ``copies`` independent outputs, as far as they tell the inputs apart.

    If outputs have two different ratios only, the number of those of the larger ratio says all:
    binomial under either input. Of millions of copies the numbers that the first input makes less
    likely than a double can be are left out (Bernstein), which only lowers a divergence.
    """
    if copies == 1:
        return p, q
    top = _top(p, q)
    rates = [min(1.0, float(np.exp(law[top]).sum())) for law in (p, q)]
    ratio = _different_ratios(p, q)
    if copies <= _MANY_COPIES or not np.isfinite(ratio).all():
        counts = np.arange(copies + 1)
        first, second = (stats.binom.logpmf(counts, copies, rate) for rate in rates)
        return first, second
    mean = copies * rates[0]
    width = math.sqrt(2.0 * _RARE * mean * (1.0 - rates[0])) + _RARE
    low, high = math.floor(mean - width), math.ceil(mean + width)
    counts = np.arange(max(0, low), min(copies, high) + 1)
    # Not by log-factorials, which lose too many digits here.
    first = _log(stats.binom.pmf(counts, copies, rates[0]))
    more, less = float(_ratio(p, q)[top].max()), float(_ratio(p, q)[~top].max())
    return first, first - (counts * more + (copies - counts) * less)


def _many_ratios(pairs: list[Pair]) -> bool:
    return any(len(_different_ratios(p, q)) > 2 for _, _, p, q in pairs)


def _different_ratios(p: Law, q: Law) -> Law:
    """The different log-ratios of outputs that are possible at all, rising, to 12 digits."""
    possible = ~(np.isneginf(p) & np.isneginf(q))
    return np.unique(np.round(_ratio(p, q)[possible], 12))


def _top(p: Law, q: Law) -> NDArray[np.bool_]:
    """Where the outputs of the largest ratio are."""
    return np.asarray(np.round(_ratio(p, q), 12) == _different_ratios(p, q)[-1])


def _composed(p: Law, q: Law, copies: int, delta: float) -> float:
    """A lower bound on the least epsilon of many copies at ``delta``; of up to 2^17 within 0.1.

    Losses are rounded down to a grid and convolved; what is cut off, and 2^-52 a copy for the
    rounding of the convolution, is taken from the divergence. Of very many copies the grid is
    coarser, and the mean of what rounding took is given back, less a deviation (Hoeffding) of
    which the chance is taken from delta: within a few hundredths. The first 2^25 copies
    stand for any more.
    """
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    many = copies > _FINE_COPIES
    copies = min(copies, _MOST_COPIES)
    loss = _ratio(p, q)
    seen = (p > _NEGLIGIBLE) & np.isfinite(loss)
    mean = float(np.exp(p[seen]) @ loss[seen])
    spread = math.sqrt(copies * max(float(np.exp(p[seen]) @ loss[seen] ** 2) - mean**2, 0.0))
    width = min(copies, 1.0 + 40.0 * spread / max(np.ptp(loss[seen]), 1e-300)) * np.ptp(loss[seen])
    step = max(0.1 / copies, float(width) / (_MOST_CELLS // 8 if many else _MOST_CELLS))
    infinite = float(np.exp(p[np.isposinf(loss)]).sum())
    cell = np.floor(loss[seen] / step).astype(np.int64)
    low = int(cell.min())
    mass = np.bincount(cell - low, weights=np.exp(p[seen]))
    total = DensePLDPmf(step, low, mass, infinite, False).self_compose(copies)
    # In logs: dp-accounting's own conversion underflows beyond a loss of 745, and says too much.
    chance = np.flip(np.maximum(total._probs, 0.0))
    at = np.flip(total._lower_loss + np.arange(len(chance))) * step
    charged = delta + copies * 2.0**-52
    if many:
        spent = 1e-4 * delta
        mean = float(np.exp(p[seen]) @ (loss[seen] - cell * step))
        at += max(0.0, copies * mean - step * math.sqrt(copies * math.log(1.0 / spent) / 2.0))
        charged = delta + spent + copies * 2.0**-46
    possible = chance > 0.0
    log_p = np.log(chance[possible])
    log_q = log_p - at[possible]
    if infinite > 0:  # its own, as composing adds what it cuts off
        ever = 1.0 - (1.0 - min(infinite, 1.0)) ** copies
        log_p = np.append(math.log(ever), log_p)
        log_q = np.append(-math.inf, log_q)
    return least_epsilon(log_p, log_q, min(charged, 1.0))


def _ratio(log_p: Law, log_q: Law) -> Law:
    """ln(p/q) of log-probabilities: inf for q = 0 < p, -inf for p = 0, and so for 0/0."""
    possible = ~np.isneginf(log_p)
    return np.where(possible, log_p - np.where(possible, log_q, 0.0), -np.inf)


def _log(p: Law) -> Law:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _plain(log_p: float) -> float:
    """e^log_p; infinite for a density beyond the doubles, as long vectors have."""
    with np.errstate(over="ignore"):
        return float(np.exp(log_p))


def _laws(mechanism: Mechanism, critical: Critical) -> Law:
    """Log-probabilities of one copy, critical inputs by critical outputs."""
    part = critical.part or mechanism
    return part.log_prob(critical.outputs[None], critical.inputs[:, None])


def _bound(
    epsilon: float, scope: Scope, delta: float, witness: Witness | None, note: str = ""
) -> Bound:
    source = "exact hockey-stick divergence" if delta > 0 else "exact log-ratio"
    return Bound(
        epsilon=epsilon,
        delta=delta,
        side=Side.LOWER,
        scope=scope,
        source=f"{source}: {note}" if note else source,
        witness=witness,
    )


def _note(critical: Critical, log_b: float) -> str:
    if np.isneginf(log_b):
        return "The output is impossible under the second input: seeing it rules that input out."
    if critical.copies > 1:
        return f"{critical.copies} independent copies may take this pair at once."
    return ""


def _note_together(copies: int, exchanged: int) -> str:
    if copies == 1:
        return ""
    swapped = f"; the inputs are exchanged in {exchanged} of {copies}" if exchanged else ""
    return f"probabilities of all copies together{swapped}"
