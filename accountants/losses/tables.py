"""Tables of the output probabilities of a mechanism, with exact lower bounds on epsilon, and
integration of densities to probabilities.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.composition import compute_lower_epsilon
from fedrec_auditor.accountants.losses.divergences import (
    WorstEvent,
    compute_hockey_stick,
    compute_log_ratios,
    find_worst_event,
)
from fedrec_auditor.accountants.losses.pairs import Array, ArrayPair, AtomicPair, Pair
from fedrec_auditor.accountants.statements import Bound, Scope, Side, Witness

ROUNDING_ERROR = 2.0**-46
"""Possible relative rounding error of a probability, per output that is summed.

This error is subtracted from a probability. Otherwise a claim that holds with equality would be
refuted, in the worst case by an infinite epsilon.
"""
# Largest number of outputs that the text of an event names.
_NAMED = 4
# Log-probability below which a composition leaves an output out; that only lowers the bound.
_NEGLIGIBLE = -200.0
# Largest number of products of probabilities that the exchanged copies may need in total.
_MOST_PRODUCTS = 2**31
# Number of copies above which numbers of outputs with probabilities below the smallest double are
# left out.
_MANY_COPIES = 2**20
# Minus the logarithm of a probability that is 0 in double precision.
_RARE = 750.0
# Largest number of outputs for which the grid of a composition goes through the largest loss.
_FEW_OUTPUTS = 64


class _Joint(NamedTuple):
    """Log-probabilities of the joint outputs of all copies of a mechanism under two inputs.

    - ``row_a``, ``row_b``: row indices of the two inputs.
    - ``n_exchanged``: number of copies in which the two inputs are exchanged.
    - ``log_p``, ``log_q``: log-probabilities under the first and the second input.
    """

    row_a: int
    row_b: int
    n_exchanged: int
    log_p: Array
    log_q: Array


@dataclass(frozen=True, slots=True)
class ProbabilityTable:
    """Log-probabilities of each output under each input, for a mechanism that is used several
    times.

    - ``log_probs``: log-probabilities of one use, (inputs, outputs). Omitted outputs never raise a
      bound.
    - ``name_input``: function that returns the text of an input, given its row index.
    - ``name_output``: function that returns the text of an output, given its column index; not
      needed at delta > 0.
    - ``n_copies``: number of independent uses ("copies"). Neighbouring data sets may differ in the
      inputs of all copies.
    - ``n_groups``: number of equally large groups of copies. In a data set, all copies of a group
      share one input.
    - ``name_event``: function that returns the text of an event, given the column indices of its
      outputs, or None.
    """

    log_probs: Array
    name_input: Callable[[int], str]
    name_output: Callable[[int], str] = str
    n_copies: int = 1
    n_groups: int = 1
    name_event: Callable[[NDArray[np.intp]], str] | None = None

    def compute_bound(self, scope: Scope, delta: float) -> Bound:
        """Computes a lower bound on epsilon at ``delta``, without sampling error: the largest over
        all pairs of inputs.

        ``scope`` is the scope of the bound. Its witness is the pair of inputs, and an output or
        event that attains the bound.

        A ratio is the quotient of an output's probabilities under two inputs. The bound is exact in
        three cases:

        - ``delta`` is 0.
        - There is one copy.
        - The outputs have at most two different ratios, and all combinations of the groups' inputs
          can be tried.

        With more than two ratios, a bound for several copies at delta > 0 has no witness.
        """
        return self._bound_at_delta(scope, delta) if delta > 0 else self._bound_at_zero(scope)

    def compute_delta(self, epsilon: float) -> float:
        """Computes the largest hockey-stick divergence at ``epsilon`` of all copies together, over
        all pairs of inputs.

        Raises InputError in two cases:

        - There are several copies, and the outputs of a copy have more than two different
          probability ratios.
        - There are several groups of copies, with too many combinations of inputs to try.
        """
        if (ratios := self._count_ratios()) > 2:
            raise InputError(
                f"Expected outputs with at most 2 distinct likelihood ratios if n_copies > 1, got "
                f"{ratios} with n_copies={self.n_copies}. Set n_copies=1, or use compute_bound."
            )
        together, all_tried = self._list_joint_outputs()
        if not all_tried:
            raise InputError(
                "Expected n_groups=1, or 2 inputs with n_copies**2 * (n_groups + 1) at most "
                f"{6 * _MOST_PRODUCTS:,}, got {len(self.log_probs)} inputs, n_groups="
                f"{self.n_groups}, n_copies={self.n_copies}. Set n_groups=1, or use compute_bound "
                "for a lower bound."
            )
        return max(compute_hockey_stick(joint.log_p, joint.log_q, epsilon) for joint in together)

    def _iter_pairs(self) -> Iterator[tuple[Array, ...]]:
        """The log-probabilities of one copy under every ordered pair of inputs."""
        return itertools.permutations(self.log_probs, 2)

    def _count_ratios(self) -> int:
        """Number of different probability ratios of the outputs of one copy, if there are several
        copies; otherwise 0.
        """
        pairs = self._iter_pairs() if self.n_copies > 1 else ()
        return max((len(list_log_ratios(*pair)) for pair in pairs), default=0)

    def _list_joint_outputs(self) -> tuple[list[_Joint], bool]:
        """Joint outputs of all copies under each ordered pair of inputs, and whether the worst pair
        is among them.

        If there are only two inputs, they are also exchanged in some groups of the copies.
        """
        rows, exchanged, all_tried = self.log_probs, [0], self.n_groups == 1
        if len(rows) == 2:
            exchanged, all_tried = list_n_exchanged(rows, self.n_copies, self.n_groups)
        tried = [(a, b, 0) for a, b in itertools.permutations(range(len(rows)), 2)]
        tried += [(0, 1, number) for number in exchanged[1:]]
        return [
            _Joint(a, b, number, *merge_copies_log_probs(rows[a], rows[b], self.n_copies, number))
            for a, b, number in tried
        ], all_tried

    def _bound_at_zero(self, scope: Scope) -> Bound:
        ratios = compute_log_ratios(self.log_probs.max(axis=0), self.log_probs.min(axis=0))
        output = int(np.argmax(ratios))
        column = self.log_probs[:, output]
        a, b = int(np.argmax(column)), int(np.argmin(column))
        note = ""
        if np.isneginf(column[b]):
            note = "Input B never gives this output, so an adversary who sees it rules input B out."
        elif self.n_copies > 1:
            note = f"Epsilon is the sum of the log-ratios of all {self.n_copies} independent parts."
        # A density may exceed the largest double, as densities of long vectors do; it is then
        # infinite.
        with np.errstate(over="ignore"):
            mass_a, mass_b = (float(np.exp(column[k])) for k in (a, b))
        witness = self._make_witness(a, b, self.name_output(output), mass_a, mass_b, note)
        epsilon = max(0.0, float(ratios[output])) * self.n_copies
        return make_exact_bound(epsilon, scope, 0.0, "exact log-ratio", witness)

    def _bound_at_delta(self, scope: Scope, delta: float) -> Bound:
        source = "exact hockey-stick divergence"
        if self._count_ratios() > 2:
            least = max(
                compute_lower_epsilon(((make_loss_pair(*pair), self.n_copies),), delta)
                for pair in self._iter_pairs()
            )
            source = f"lower bound of the hockey-stick divergence of all {self.n_copies} parts"
            return make_exact_bound(least, scope, delta, source)
        together, all_tried = self._list_joint_outputs()
        if not all_tried:
            source = f"lower bound of the {source} of all {self.n_copies} parts, over some pairs"

        # Indices of the joint outputs, by descending ratio of their probabilities.
        def by_ratio(joint: _Joint) -> NDArray[np.intp]:
            ratio = -compute_log_ratios(joint.log_p, joint.log_q)
            if self.name_event is None:
                return np.argsort(ratio)
            # Columns whose ratios agree up to rounding keep their order.
            return np.argsort(np.round(ratio, 9), kind="stable")

        # Event of joint outputs that gives the largest epsilon.
        def event(joint: _Joint) -> WorstEvent:
            order = by_ratio(joint)
            rounding = ROUNDING_ERROR * max(len(order), self.n_copies)
            return find_worst_event(joint.log_p[order], joint.log_q[order], delta, rounding)

        events = [event(joint) for joint in together]
        k = max(range(len(events)), key=lambda k: max(0.0, events[k].epsilon))
        worst, joint = events[k], together[k]
        note = "the probabilities are those of all parts together" if self.n_copies > 1 else ""
        if joint.n_exchanged:
            note += f"; the inputs are exchanged in {joint.n_exchanged} of {self.n_copies}"
        chosen = by_ratio(joint)[: worst.n_outputs]
        n = f"one of the {len(chosen)} outputs" if len(chosen) > 1 else "the output"
        text = f"{n} (of {len(joint.log_p)}) with the largest ratio of probabilities"
        if self.name_event is not None:
            text = self.name_event(chosen)
        elif self.n_copies == 1 and len(chosen) <= _NAMED and self.name_output is not str:
            text = " or ".join(map(self.name_output, chosen.tolist()))
        masses = min(1.0, worst.mass_p), min(1.0, float(np.exp(worst.log_mass_q)))
        witness = self._make_witness(joint.row_a, joint.row_b, text, *masses, note)
        return make_exact_bound(max(0.0, worst.epsilon), scope, delta, source, witness)

    def _make_witness(self, a: int, b: int, output: str, p: float, q: float, note: str) -> Witness:
        return Witness(
            input_a=self.name_input(a),
            input_b=self.name_input(b),
            output=output,
            probability_a=p,
            probability_b=q,
            copies=self.n_copies,
            note=note,
        )


def make_exact_bound(
    epsilon: float, scope: Scope, delta: float, source: str, witness: Witness | None = None
) -> Bound:
    """Makes a lower bound with confidence 1 from an exactly calculated ``epsilon``.

    ``source`` describes the method, and ``witness`` is the evidence (two inputs and an output).
    """
    return Bound(
        epsilon=epsilon, delta=delta, side=Side.LOWER, scope=scope, source=source, witness=witness
    )


def make_loss_pair(log_p: Array, log_q: Array) -> Pair:
    """Builds the pair of distributions of one use of a mechanism from the log-probabilities of its
    outputs under two inputs, (outputs,).

    The pair is represented by its privacy losses. Outputs with a probability below e^-200 are
    omitted.
    """
    loss = compute_log_ratios(log_p, log_q)
    seen = (log_p > _NEGLIGIBLE) & np.isfinite(loss)
    infinite = min(1.0, float(np.exp(log_p[np.isposinf(loss)]).sum()))
    losses, log_p = loss[seen], log_p[seen]
    if len(losses) <= _FEW_OUTPUTS:
        return AtomicPair(tuple(losses.tolist()), tuple(log_p.tolist()), infinite)
    return ArrayPair.from_losses(losses, log_p, infinite)


def list_log_ratios(log_p: Array, log_q: Array) -> Array:
    """Returns the different log-ratios ln(p/q) of the outputs, in ascending order, rounded to 12
    digits.

    ``log_p`` and ``log_q`` are log-probabilities, (outputs,). Outputs that are impossible under
    both inputs are omitted.
    """
    possible = ~(np.isneginf(log_p) & np.isneginf(log_q))
    return np.unique(np.round(compute_log_ratios(log_p, log_q)[possible], 12))


def list_n_exchanged(log_probs: Array, copies: int, groups: int) -> tuple[list[int], bool]:
    """Lists the numbers of exchanged copies to try in a search for the largest hockey-stick
    divergence.

    Two data sets are compared. A copy gets the input a in the first and b in the second data set.
    An exchanged copy gets b in the first and a in the second.

    - ``log_probs``: log-probabilities of the outputs of one copy under the inputs a and b,
      (2, outputs).
    - ``copies``: number of copies (independent uses) of the mechanism.
    - ``groups``: number of equally large groups of copies. A group can only be exchanged as a
      whole.

    Returns the numbers to try, and whether the best number is certainly among them.
    """
    # Example in which an exchange matters: each copy sends a bit that is 1 with probability p on
    # the input a, and with a smaller probability q on b. For two copies, (a, b) against (b, a) may
    # have a larger divergence than (a, a) against (b, b).
    #
    # Only 0 is to be tried in two cases. In the first case, an exchange changes nothing. In the
    # second case, one output is impossible under one input. Let s be the probability that one copy
    # does not show this output under the other input. With i of n copies exchanged, the divergence
    # at an epsilon eps >= 0 is 1 - s^(n-i) + max(0, s^(n-i) - e^eps s^i) <= max(1 - s^(n-i), 1 -
    # e^eps s^i) <= 1 - s^n, which is the divergence at i = 0.
    if groups == 1:
        return [0], True
    more, less, p, _, rest = _find_two_ratios(*log_probs)
    if math.isclose(p, rest, rel_tol=1e-14) or not 0.0 < more - less < math.inf:
        return [0], True
    # The mean of (copies - i) i over all i is a sixth of the square of copies.
    tried = max(2, min(groups + 1, 6 * _MOST_PRODUCTS // copies**2))
    numbers = np.linspace(0, groups, tried).round()[:-1]
    return [int(k) * (copies // groups) for k in numbers], tried == groups + 1


def merge_copies_log_probs(
    log_p: Array, log_q: Array, copies: int, exchanged: int = 0
) -> tuple[Array, Array]:
    """Returns the log-probabilities, under two inputs, of a sufficient statistic of all copies'
    outputs.

    - ``log_p``, ``log_q``: log-probabilities of the outputs of one copy under the two inputs.
    - ``copies``: number of copies (independent uses) of a mechanism.
    - ``exchanged``: number of copies in which the two inputs are exchanged.

    The results are two arrays, (values,). The statistic is:

    - One copy: its output.
    - Several copies: the number of outputs that are likelier under the first input. The outputs of
      a copy may have at most two different probability ratios.

    Values that are too rare for a double may be omitted, which never raises a divergence.
    """
    # The number is a binomial variable, or a sum of two binomial variables if inputs are exchanged
    # in some copies. For more than 2^20 copies, values that are too rare under the first input for
    # a double are omitted. Their range follows from Bernstein's inequality.
    if copies == 1:
        return log_p, log_q
    more, less, p, q, rest = _find_two_ratios(log_p, log_q)
    plain, low, high = copies - exchanged, 0, copies - exchanged
    if copies > _MANY_COPIES:
        width = math.sqrt(2.0 * _RARE * plain * p * (1.0 - p)) + _RARE
        low, high = max(low, math.floor(plain * p - width)), min(high, math.ceil(plain * p + width))
    numbers = np.arange(low, high + 1)
    if not math.isfinite(more - less) or (copies <= _MANY_COPIES and not exchanged):
        logpmf = scipy.stats.binom.logpmf
        return logpmf(numbers, copies, p), logpmf(numbers, copies, q)
    # Log-factorials would lose too many digits here.
    masses = np.convolve(
        scipy.stats.binom.pmf(numbers, plain, p),
        scipy.stats.binom.pmf(np.arange(exchanged + 1), exchanged, rest),
    )
    with np.errstate(divide="ignore"):
        first = np.log(masses)
    numbers = low + np.arange(len(first))
    return first, first - (plain * less - exchanged * more + numbers * (more - less))


def _find_two_ratios(log_p: Array, log_q: Array) -> tuple[float, float, float, float, float]:
    """The larger and the smaller probability log-ratio of outputs with at most two different
    ratios, and three probabilities.

    The probabilities are:

    - the outputs of the larger ratio, under the first input;
    - these outputs, under the second input;
    - all other outputs, under the second input.
    """
    possible = ~(np.isneginf(log_p) & np.isneginf(log_q))
    log_p, log_q = log_p[possible], log_q[possible]
    ratio = compute_log_ratios(log_p, log_q)
    top = np.round(ratio, 12) == np.round(ratio.max(), 12)
    log_masses = log_p[top], log_q[top], log_q[~top]
    p, q, rest = (min(1.0, float(np.exp(part).sum())) for part in log_masses)
    more = float(ratio[top].max())
    return more, more if top.all() else float(ratio[~top].max()), p, q, rest


_ORDER = 16
# Largest relative difference of the two quadratures on a cell for which the cell is accepted.
MAX_QUADRATURE_ERROR = 1e-10
_HALVINGS = 24
_MOST_CELLS = 1 << 14
# Function that maps points (n,) to the values of d densities (d, n).
DensityFunction = Callable[[Array], Array]


def _clenshaw_curtis(order: int) -> tuple[Array, Array]:
    """Nodes on [-1, 1], both ends included, and weights of the quadrature that is exact for
    polynomials of degree ``order``.
    """
    nodes = np.cos(np.pi * np.arange(order + 1) / order)
    degrees = np.arange(order + 1)
    moments = np.where(degrees % 2 == 0, 2.0 / (1.0 - np.where(degrees == 1, 0, degrees) ** 2.0), 0)
    chebyshev = np.polynomial.chebyshev.chebvander(nodes, order)
    return np.asarray(nodes), np.asarray(np.linalg.solve(chebyshev.T, moments), dtype=np.float64)


_NODES, _FINE_WEIGHTS = _clenshaw_curtis(_ORDER)
_COARSE_WEIGHTS = _clenshaw_curtis(_ORDER // 2)[1]


@dataclass(frozen=True, slots=True)
class IntegrationCells:
    """Masses of several densities in disjoint intervals ("cells"), as ``integrate_cells`` returns
    them.

    - ``masses``: mass of each density in each cell, (densities, cells).
    - ``interval_index``: index of the interval between ``edges`` in which each cell lies, (cells,).
    - ``starts``, ``ends``: ends of the cells, (cells,).
    - ``lost_mass``: estimate of the mass of each density in omitted cells, (densities,).
    """

    masses: Array
    interval_index: NDArray[np.int64]
    starts: Array
    ends: Array
    lost_mass: Array


def integrate_cells(densities: DensityFunction, edges: Array) -> IntegrationCells:
    """Integrates densities over the intervals between ascending ``edges``, which are divided into
    cells.

    ``densities`` maps points (n,) to values (d, n). The relative error per cell is about
    ``MAX_QUADRATURE_ERROR``. Cells with a larger error, around a jump or a kink, are omitted.
    Therefore a hockey-stick divergence over the remaining cells is not above the true divergence.
    Source: Clenshaw and Curtis 1960.
    """
    # Intervals are halved until quadratures of order 16 and 8 agree for all densities. Cells on
    # which they still disagree after 24 halvings are omitted.
    # The two rules are nested, and both ends are nodes, so that no jump is hidden next to an end.
    low, high = edges[:-1], edges[1:]
    cell = np.arange(len(low))
    done: list[tuple[NDArray[Any], ...]] = []
    doubt = np.zeros(1)
    for last in [False] * _HALVINGS + [True]:
        middle, half = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
        points = middle[:, None] + half[:, None] * _NODES
        with np.errstate(all="ignore"):
            values = densities(points.ravel()).reshape(-1, *points.shape)
            fine, coarse = values @ _FINE_WEIGHTS * half, values[..., ::2] @ _COARSE_WEIGHTS * half
            known = np.all(np.abs(fine - coarse) <= MAX_QUADRATURE_ERROR * np.abs(fine), axis=0)
        done.append((fine[:, known], cell[known], low[known], high[known]))
        low, middle, high, cell = low[~known], middle[~known], high[~known], cell[~known]
        if last or not len(low) or len(low) > _MOST_CELLS:
            doubt = np.nansum(np.abs(fine[:, ~known]) + np.abs(coarse[:, ~known]), axis=1)
            break
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        cell = np.concatenate([cell, cell])
    masses, cells, lows, highs = (np.concatenate(part, axis=-1) for part in zip(*done, strict=True))
    return IntegrationCells(masses, cells.astype(np.int64), lows, highs, doubt)


def make_integration_edges(points: Array) -> Array:
    """Returns ascending ends of intervals, (n,), over which ``integrate_cells`` integrates.

    The intervals are short near ``points``. They extend about 7e11 times the distance between the
    5% and 95% quantiles of the points to either side.
    """
    low, middle, high = np.quantile(points, [0.05, 0.5, 0.95])
    spread = max(high - low, abs(middle) * 1e-9, 1e-300)
    far = spread * np.sinh(np.linspace(-28.0, 28.0, 449))
    inner = np.quantile(points, np.linspace(0.0, 1.0, 129))
    return np.unique(np.concatenate([middle + far, inner]))
