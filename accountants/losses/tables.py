"""Tables of probabilities: ratios and divergences, of copies too; densities as masses of cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.composition import epsilon_below
from fedrec_auditor.accountants.losses.divergences import (
    WorstEvent,
    hockey_stick,
    log_ratio,
    worst_event,
)
from fedrec_auditor.accountants.losses.pairs import Array, AtomicPair, ListedPair, Pair
from fedrec_auditor.accountants.statements import Bound, Scope, Side, Witness

ROUNDING = 2.0**-46
"""Relative error a probability may have by rounding, for each output added up.

It is subtracted, or a claim that holds with equality would be refuted, by an infinite epsilon in
the worst case.
"""
# Outputs of an event that are named, at most.
_NAMED = 4
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


class _Joint(NamedTuple):
    """Log-probabilities of all that the copies show under inputs number ``a`` and ``b``.

    ``exchanged`` of the copies see the inputs in the other order.
    """

    a: int
    b: int
    exchanged: int
    log_p: Array
    log_q: Array


@dataclass(frozen=True, slots=True)
class ProbabilityTable:
    """Log-probabilities (inputs, outputs) of one of ``copies`` independent outputs.

    ``copies`` and ``groups`` are those of ``WorstCase``. ``name_input`` and ``name_output`` put a
    row or a column in words; at delta > 0 outputs need no names, and ``name_event`` may put several
    columns in words. Outputs may be left out: no ratio or divergence over fewer of them is above
    the true one.
    """

    log_probs: Array
    name_input: Callable[[int], str]
    name_output: Callable[[int], str] = str
    copies: int = 1
    groups: int = 1
    name_event: Callable[[NDArray[np.intp]], str] | None = None

    def lower_bound(self, scope: Scope, delta: float) -> Bound:
        """The exact lower bound over all pairs of inputs, with a witness: ``exact_lower_bound``."""
        return self._at_delta(scope, delta) if delta > 0 else self._at_zero(scope)

    def delta_at(self, epsilon: float) -> float:
        """The largest hockey-stick divergence at ``epsilon``; InputError if it is not known."""
        if (ratios := self._ratios()) > 2:
            raise InputError(
                f"Expected outputs of at most two ratios for {self.copies} copies, got {ratios}. "
                "Ask for one copy."
            )
        together, all_tried = self._together()
        if not all_tried:
            raise InputError(
                f"Expected copies that see one pair, or one pair of at most two ratios and few "
                f"copies, got {self.copies} copies. Ask for one copy, or for a lower bound."
            )
        return max(hockey_stick(joint.log_p, joint.log_q, epsilon) for joint in together)

    def _pairs(self) -> Iterator[tuple[Array, ...]]:
        """The log-probabilities of one copy under every ordered pair of inputs."""
        return itertools.permutations(self.log_probs, 2)

    def _ratios(self) -> int:
        """How many different ratios an output of one of several copies may have; 0 for one copy."""
        return max(len(different_ratios(*pair)) for pair in self._pairs()) if self.copies > 1 else 0

    def _together(self) -> tuple[list[_Joint], bool]:
        """What all copies show of every ordered pair of inputs, and whether a worst pair is there.

        A single pair only is tried with its inputs exchanged in some groups of the copies.
        """
        rows, exchanged, all_tried = self.log_probs, [0], self.groups == 1
        if len(rows) == 2:
            exchanged, all_tried = orientations(rows[0], rows[1], self.copies, self.groups)
        tried = [(a, b, 0) for a, b in itertools.permutations(range(len(rows)), 2)]
        tried += [(0, 1, number) for number in exchanged[1:]]
        return [
            _Joint(a, b, number, *counted(rows[a], rows[b], self.copies, number))
            for a, b, number in tried
        ], all_tried

    def _at_zero(self, scope: Scope) -> Bound:
        ratios = log_ratio(self.log_probs.max(axis=0), self.log_probs.min(axis=0))
        output = int(np.argmax(ratios))
        column = self.log_probs[:, output]
        a, b = int(np.argmax(column)), int(np.argmin(column))
        note = ""
        if np.isneginf(column[b]):
            note = (
                "The output is impossible under the second input: seeing it rules that input out."
            )
        elif self.copies > 1:
            note = f"{self.copies} independent copies may take this pair at once."
        # Infinite for a density beyond the doubles, as long vectors have.
        with np.errstate(over="ignore"):
            mass_a, mass_b = (float(np.exp(column[k])) for k in (a, b))
        witness = self._witness(a, b, self.name_output(output), mass_a, mass_b, note)
        epsilon = max(0.0, float(ratios[output])) * self.copies
        return exact_bound(epsilon, scope, 0.0, "exact log-ratio", witness)

    def _at_delta(self, scope: Scope, delta: float) -> Bound:
        source = "exact hockey-stick divergence"
        if self._ratios() > 2:
            least = max(
                epsilon_below(((loss_pair(*pair), self.copies),), delta) for pair in self._pairs()
            )
            return exact_bound(least, scope, delta, f"{source}: {self.copies} copies from below")
        together, all_tried = self._together()
        if not all_tried:
            source += f": {self.copies} copies from below, as not all pairs of inputs are tried"

        def by_ratio(joint: _Joint) -> NDArray[np.intp]:
            ratio = -log_ratio(joint.log_p, joint.log_q)
            if self.name_event is None:
                return np.argsort(ratio)
            # Columns of one ratio, but for rounding, in their own order.
            return np.argsort(np.round(ratio, 9), kind="stable")

        def event(joint: _Joint) -> WorstEvent:
            order = by_ratio(joint)
            rounding = ROUNDING * max(len(order), self.copies)
            return worst_event(joint.log_p[order], joint.log_q[order], delta, rounding)

        events = [event(joint) for joint in together]
        k = max(range(len(events)), key=lambda k: max(0.0, events[k].epsilon))
        worst, joint = events[k], together[k]
        note = "probabilities of all copies together" if self.copies > 1 else ""
        if joint.exchanged:
            note += f"; the inputs are exchanged in {joint.exchanged} of {self.copies}"
        said = f"the {worst.size} of {len(joint.log_p)} outputs that speak most for the first input"
        chosen = by_ratio(joint)[: worst.size]
        if self.name_event is not None:
            said = self.name_event(chosen)
        elif self.copies == 1 and len(chosen) <= _NAMED and self.name_output is not str:
            said += f": {' or '.join(map(self.name_output, chosen.tolist()))}"
        masses = min(1.0, worst.mass_p), min(1.0, float(np.exp(worst.log_mass_q)))
        witness = self._witness(joint.a, joint.b, said, *masses, note)
        return exact_bound(max(0.0, worst.epsilon), scope, delta, source, witness)

    def _witness(self, a: int, b: int, output: str, p: float, q: float, note: str) -> Witness:
        return Witness(
            input_a=self.name_input(a),
            input_b=self.name_input(b),
            output=output,
            probability_a=p,
            probability_b=q,
            copies=self.copies,
            note=note,
        )


def exact_bound(
    epsilon: float, scope: Scope, delta: float, source: str, witness: Witness | None = None
) -> Bound:
    """A calculated lower bound, which holds with certainty."""
    return Bound(
        epsilon=epsilon, delta=delta, side=Side.LOWER, scope=scope, source=source, witness=witness
    )


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


_ORDER = 16
AGREEMENT = 1e-10
"""Largest relative difference of the two quadratures on a cell that is kept."""
_HALVINGS = 24
_MOST_CELLS = 1 << 14
Densities = Callable[[Array], Array]


def _clenshaw_curtis(order: int) -> tuple[Array, Array]:
    """Nodes on [-1, 1], both ends included, and weights: exact on polynomials of that degree."""
    nodes = np.cos(np.pi * np.arange(order + 1) / order)
    degrees = np.arange(order + 1)
    moments = np.where(degrees % 2 == 0, 2.0 / (1.0 - np.where(degrees == 1, 0, degrees) ** 2.0), 0)
    chebyshev = np.polynomial.chebyshev.chebvander(nodes, order)
    return np.asarray(nodes), np.asarray(np.linalg.solve(chebyshev.T, moments), dtype=np.float64)


_NODES, _FINE_WEIGHTS = _clenshaw_curtis(_ORDER)
_COARSE_WEIGHTS = _clenshaw_curtis(_ORDER // 2)[1]


@dataclass(frozen=True, slots=True)
class Cells:
    """Disjoint cells of the line with the masses of several densities on them.

    ``masses`` has shape (densities, cells), ``cell`` the index of the given interval that each
    cell lies in, and ``doubt`` (densities,) is about what lies in the cells that were left out.
    """

    masses: Array
    cell: NDArray[np.int64]
    low: Array
    high: Array
    doubt: Array


def integrate(densities: Densities, edges: Array) -> Cells:
    """Masses between rising ``edges``: relative error about ``AGREEMENT`` on every cell kept.

    ``densities`` maps points (n,) to values (d, n). Intervals are halved until quadratures of
    order 16 and 8 (Clenshaw and Curtis 1960: nested, and both ends are nodes, so that no jump
    hides next to one) agree for all densities; what still disagrees after 24 halvings, around a
    jump or a kink, is left out. A hockey-stick divergence over the cells kept is therefore not
    above the true one.
    """
    low, high = edges[:-1], edges[1:]
    cell = np.arange(len(low))
    kept: list[tuple[NDArray[Any], ...]] = []
    doubt = np.zeros(1)
    for last in [False] * _HALVINGS + [True]:
        middle, half = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
        points = middle[:, None] + half[:, None] * _NODES
        with np.errstate(all="ignore"):
            values = densities(points.ravel()).reshape(-1, *points.shape)
            fine, coarse = values @ _FINE_WEIGHTS * half, values[..., ::2] @ _COARSE_WEIGHTS * half
            known = np.all(np.abs(fine - coarse) <= AGREEMENT * np.abs(fine), axis=0)
        kept.append((fine[:, known], cell[known], low[known], high[known]))
        low, middle, high, cell = low[~known], middle[~known], high[~known], cell[~known]
        if last or not len(low) or len(low) > _MOST_CELLS:
            doubt = np.nansum(np.abs(fine[:, ~known]) + np.abs(coarse[:, ~known]), axis=1)
            break
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        cell = np.concatenate([cell, cell])
    masses, cells, lows, highs = (np.concatenate(part, axis=-1) for part in zip(*kept, strict=True))
    return Cells(masses, cells.astype(np.int64), lows, highs, doubt)


def edges_around(points: Array) -> Array:
    """Rising edges, dense where ``points`` are and reaching 2^40 times as far on either side."""
    low, middle, high = np.quantile(points, [0.05, 0.5, 0.95])
    spread = max(high - low, abs(middle) * 1e-9, 1e-300)
    far = spread * np.sinh(np.linspace(-28.0, 28.0, 449))
    inner = np.quantile(points, np.linspace(0.0, 1.0, 129))
    return np.unique(np.concatenate([middle + far, inner]))
