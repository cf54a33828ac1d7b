"""Search for the pair of inputs of a randomizer with the largest log-ratio or, at delta > 0, the
largest hockey-stick divergence.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses import tables
from fedrec_auditor.accountants.losses.divergences import compute_log_ratios
from fedrec_auditor.accountants.statements import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact import candidates
from fedrec_auditor.auditor.exact.output_distribution import (
    MAX_NEG_LOG_PROB,
    OutputDistribution,
    is_single_precision,
    lift_underflow,
    make_input_key,
)
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.targets.mechanisms.base import format_value

Floats = NDArray[np.float64]

# Larger than any finite epsilon that a search can find.
_ENDLESS = 1e5


@dataclass(frozen=True, slots=True)
class PairEpsilon:
    """Lower bound on epsilon that one pair of inputs shows, with its witness (evidence as text).

    - ``epsilon``: the lower bound; -inf if the pair shows no bound.
    - ``witness``: the inputs and the output, as text, or None.
    - ``input_a``, ``input_b``, ``output``: inputs and output whose log-ratio is the bound; None if
      the bound is not the log-ratio of a single output. The output is more probable under
      ``input_a``.
    - ``median_log_p``: median log-probability of outputs drawn under the pair; None if no outputs
      were drawn to compute log-ratios.
    """

    epsilon: float = -math.inf
    witness: Witness | None = None
    input_a: Any = None
    input_b: Any = None
    output: Any = None
    median_log_p: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSearch(ABC):
    """Search for the largest epsilon at ``delta`` over pairs of inputs of a randomizer, to be
    compared with a claim.

    - ``dist``: the output probabilities.
    - ``inputs``, ``outputs``: candidate inputs and outputs.
    - ``claimed_epsilon``: the claimed epsilon.
    - ``delta``: delta at which epsilon is computed.
    - ``seed``: seed of all draws and of Hypothesis.
    - ``epsilon_cache``: results by pair of inputs.

    A subclass defines:

    - ``score_name``: name of the maximized quantity in texts.
    - ``can_propose_outputs``: whether Hypothesis also proposes single outputs.
    - ``max_examples``: largest number of Hypothesis examples.
    """

    dist: OutputDistribution
    inputs: candidates.CandidateInputs
    outputs: candidates.CandidateOutputs
    claimed_epsilon: float
    delta: float
    seed: int
    epsilon_cache: dict[Hashable, PairEpsilon] = field(default_factory=dict, repr=False)

    score_name: ClassVar[str]
    can_propose_outputs: ClassVar[bool]
    max_examples: ClassVar[int]

    def find_epsilon_bound(self) -> Bound:
        """Runs the search and returns the largest epsilon found as a lower bound.

        The bound's witness is two inputs and an output that show the bound, or None. If the bound
        exceeds the claimed epsilon, the witness is the simplest example found that exceeds it.
        """
        from hypothesis import strategies as st

        inputs = self.inputs
        n_entries = max(inputs.n_entries, math.prod(self.outputs.shape))
        examples = candidates.limit_search_examples(self.max_examples, n_entries)
        output = st.none() | self.outputs.make_strategy() if self.can_propose_outputs else st.none()
        strategy = st.tuples(inputs.input_strategy, inputs.input_strategy, output)

        def score(example: tuple[Any, Any, Any]) -> float:
            """Epsilon that an example (input, input, output or None) shows."""
            return self.evaluate_pair(*example).epsilon

        search = partial(
            candidates.search_with_hypothesis,
            strategy,
            score,
            seed=self.seed,
            max_examples=examples,
        )
        looked = [self.evaluate_pair(a, b) for a, b in inputs.fixed_pairs]
        best = max(looked, key=lambda found: found.epsilon, default=PairEpsilon())
        largest, example = search()
        if largest > best.epsilon:
            best = self.evaluate_pair(*example)
        best = self.try_similar_outputs(best)
        epsilon, source = self.get_epsilon_and_source(best)
        source = f"{source} {self.outputs}, inputs by Hypothesis ({examples} examples)"
        witness = self.make_witness(best)
        if exceeds(epsilon, self.claimed_epsilon):
            above = self.claimed_epsilon + 1e-9 * max(1.0, self.claimed_epsilon)
            above = _ENDLESS if math.isinf(best.epsilon) else above
            largest, example = search(stop_above=above)
            if largest > above:
                simplest = self.simplify_output(self.evaluate_pair(*example), above)
                simplest = replace(simplest, witness=self.make_witness(simplest))
                witness = pick_witness(simplest, replace(best, epsilon=epsilon), self.score_name)
        return tables.make_exact_bound(max(0.0, epsilon), REPORT_SCOPE, self.delta, source, witness)

    def evaluate_pair(self, a: Any, b: Any, output: Any = None) -> PairEpsilon:
        """Returns the largest epsilon that the inputs ``a`` and ``b`` show, in either order, from
        all outputs if they are known.

        ``output``: a further output that a subclass may compare; this base method ignores it.

        If not all possible outputs are known, the result is that of ``find_pair_epsilon``. The
        result of a pair is cached.
        """
        key = make_input_key(self.dist.check_input(a)), make_input_key(self.dist.check_input(b))
        if key not in self.epsilon_cache:
            every = self.outputs.all_outputs
            log_probs = None if every is None else self.dist.try_log_probs(every, (a, b))
            if log_probs is None or not candidates.sums_to_one(log_probs):
                self.epsilon_cache[key] = self.find_pair_epsilon(a, b)
            else:
                self.epsilon_cache[key] = self.evaluate_outputs(a, b, every, log_probs)
        return self.epsilon_cache[key]

    @abstractmethod
    def evaluate_outputs(self, a: Any, b: Any, outputs: Any, log_probs: Floats) -> PairEpsilon:
        """Returns the largest epsilon that the inputs ``a`` and ``b`` show, computed from the given
        ``outputs`` alone.

        ``log_probs`` has the log-probabilities of the outputs under the two inputs, (2, outputs).
        """

    @abstractmethod
    def find_pair_epsilon(self, a: Any, b: Any) -> PairEpsilon:
        """Returns the largest epsilon that the inputs ``a`` and ``b`` show, computed from outputs
        that this method generates.

        The method is used if the set of all possible outputs is unknown.
        """

    @abstractmethod
    def get_epsilon_and_source(self, best: PairEpsilon) -> tuple[float, str]:
        """Returns the epsilon to report for the best pair of inputs, and the beginning of the text
        ``Bound.source`` on the method.
        """

    def try_similar_outputs(self, best: PairEpsilon) -> PairEpsilon:
        """Tries outputs that are similar to the output of the ``best`` result, and returns the
        result with the largest epsilon.

        This base method returns ``best``.
        """
        return best

    def make_witness(self, result: PairEpsilon) -> Witness | None:
        """Returns the evidence for a result as texts: its two inputs, and an output or event with
        its probabilities. None if the result has no evidence.
        """
        return result.witness

    def simplify_output(self, result: PairEpsilon, above: float) -> PairEpsilon:
        """Returns a result for the pair of inputs of ``result``, with the simplest output whose
        epsilon exceeds ``above``.

        This base method returns ``result`` itself.
        """
        return result


def pick_witness(
    simplest: PairEpsilon | Bound, best: PairEpsilon | Bound, measure: str
) -> Witness | None:
    """Returns the witness (two inputs and an output) of the simplest pair of inputs that exceeds a
    claim.

    - ``simplest``: result for the simplest pair of inputs that exceeds the claim.
    - ``best``: result for the pair with the largest epsilon.
    - ``measure``: name of the maximized quantity, whose two values a note states.

    If only one of the results has a witness, this witness is returned; None if both have none.
    """
    if simplest.witness is None or best.witness is None or not simplest.epsilon < best.epsilon:
        return simplest.witness or best.witness
    note = (
        f"{measure} {simplest.epsilon:.6g}; the largest is for {best.witness.input_a} against "
        f"{best.witness.input_b} at {best.witness.output}"
    )
    return replace(simplest.witness, note="; ".join(filter(None, (note, simplest.witness.note))))


# Rounding error of a log-probability in double and in single precision, relative to its size. The
# error is subtracted from log-ratios.
_ROUNDING, _ROUNDING_OF_SINGLES = 2.0**-46, 2.0**-17
_DRAWS, _ENTRIES = 64, 1 << 18
_ROWS, _CLIMBS = 8, 4
_MAX_ENTRIES = 1 << 22
# Largest difference between the log-ratio at a number and in an interval around it.
_MAX_DROP, _HALVINGS = 1e-3, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatioSearch(PairSearch):
    """Search for the largest epsilon at delta 0, by log-ratios of output probabilities under two
    inputs.

    The compared outputs are drawn, lie outside the range of drawn outputs, or are proposed by
    Hypothesis.

    ``score_name``, ``can_propose_outputs``, ``max_examples``: constants that ``PairSearch``
        describes.
    """

    score_name = "log-ratio"
    can_propose_outputs = True
    max_examples = 200

    def evaluate_pair(self, a: Any, b: Any, output: Any = None) -> PairEpsilon:
        """Returns the largest log-ratio of the probabilities of one output under the inputs ``a``
        and ``b``, in either order.

        ``output``: a further output to compare, or None; ignored if all possible outputs are known.
        """
        result = PairSearch.evaluate_pair(self, a, b)
        if output is None or result.median_log_p is None:
            return result
        other = self._try_outputs(a, b, np.asarray(output)[None], result.median_log_p)
        return max(result, other, key=lambda each: each.epsilon)

    def evaluate_outputs(
        self, a: Any, b: Any, outputs: Any, log_probs: Floats, typical: float | None = None
    ) -> PairEpsilon:
        """Returns the largest log-ratio of the probabilities of one of ``outputs`` under the inputs
        ``a`` and ``b``, in either order.

        - ``log_probs``: log-probabilities of the outputs under the two inputs, (2, outputs).
        - ``typical``: typical log-probability of drawn outputs; much less probable outputs are
          excluded. None to exclude no outputs.
        """
        if not self.outputs.shape:
            log_probs = lift_underflow(log_probs, self.claimed_epsilon)
        ratios = [self._log_ratios(p, q, typical) for p, q in (log_probs, log_probs[::-1])]
        way, k = np.unravel_index(int(np.argmax(ratios)), np.shape(ratios))
        epsilon = float(ratios[way][k])
        if epsilon == -math.inf:
            return PairEpsilon()
        order = slice(None, None, -1 if way else 1)
        (u, v), (log_u, log_v) = (a, b)[order], log_probs[order, k]
        unseen = self.outputs.all_outputs is None and self.outputs.is_outside_draws(outputs[k])
        witness = Witness(
            input_a=self.dist.name_input(u),
            input_b=self.dist.name_input(v),
            output=self.dist.name_output(outputs[k]),
            probability_a=_exp(log_u),
            probability_b=_exp(log_v),
            # A vector that was not drawn may be impossible; no integral checks that.
            note="no draw was as far out; if impossible, log_prob must be -inf" if unseen else "",
        )
        return PairEpsilon(epsilon, witness, u, v, outputs[k])

    def find_pair_epsilon(self, a: Any, b: Any) -> PairEpsilon:
        """Returns the largest log-ratio of output probabilities under the inputs ``a`` and ``b``.

        The tried outputs are drawn, or lie around and far beyond drawn outputs.
        """
        drawn_a, drawn_b, far = self._draw_outputs(a, b)
        drawn = np.concatenate([drawn_a, drawn_b])
        log_probs = np.stack([self.dist.log_prob(drawn, value) for value in (a, b)])
        typical = float(np.median(log_probs.max(axis=0)))
        case = self.dist.mechanism_worst_case
        undrawn = [far] if case is None else [far, case.outputs]
        ratios = [self.evaluate_outputs(a, b, drawn, log_probs)]
        ratios += [self._try_outputs(a, b, outputs, typical) for outputs in undrawn]
        return replace(max(ratios, key=lambda each: each.epsilon), median_log_p=typical)

    def get_epsilon_and_source(self, best: PairEpsilon) -> tuple[float, str]:
        """Returns the log-ratio to report, and the beginning of a sentence on how it was found.

        The log-ratio is infinite if the mechanism states that log-ratios have no bound, the user
        gave no inputs, and the log-ratio still grows at the limit of the search. Otherwise it is
        that of ``best``.
        """
        if best.witness is None:
            return 0.0, "no ratio found,"
        if self.dist.has_unbounded_ratios and not self.inputs.is_user_given and self._grows(best):
            return math.inf, (
                "the mechanism states that its log-ratio has no bound, and it grows to "
                f"{best.epsilon:.4g} within the search;"
            )
        return best.epsilon, "the largest log-ratio found,"

    def try_similar_outputs(self, best: PairEpsilon) -> PairEpsilon:
        """Returns a result for the inputs of ``best`` with an output of equal or larger log-ratio.

        Single entries of a vector are varied. Outputs stay unchanged if they are single numbers,
        long vectors, or all known. The result is empty (epsilon -inf) unless the log-ratio of
        ``best`` is above 0.
        """
        if not best.epsilon > 0.0:
            return PairEpsilon()
        shape, size = self.outputs.shape, math.prod(self.outputs.shape)
        if self.outputs.all_outputs is not None or size < 2 or size * size * _ROWS > _MAX_ENTRIES:
            return best
        a, b = best.input_a, best.input_b
        drawn_a, _, far = self._draw_outputs(a, b)
        rows = np.concatenate([drawn_a[: _ROWS // 2], far[:: max(1, len(far) // _ROWS)]])
        rows = rows.reshape(len(rows), size)
        typical = float(np.median(self.dist.log_prob(drawn_a, a)))
        entry = np.arange(size)
        # Entries are replaced by entries at the same positions in a few drawn and a few extreme
        # outputs, as long as the log-ratio increases.
        for _ in range(_CLIMBS):
            flat = np.asarray(best.output).reshape(size)
            tried = np.broadcast_to(flat, (len(rows), size, size)).copy()
            tried[:, entry, entry] = rows
            log_probs = self.dist.try_log_probs(tried.reshape(-1, *shape), (a, b))
            gains = self._log_ratios(log_probs[0], log_probs[1], typical).reshape(len(rows), size)
            largest = gains.argmax(axis=0)
            moved = np.where(gains.max(axis=0) > best.epsilon, rows[largest, entry], flat)
            outputs = np.concatenate([moved[None], tried[largest, entry]]).reshape(-1, *shape)
            better = self._try_outputs(a, b, outputs, typical)
            if not better.epsilon > best.epsilon:
                break
            best = better
        return best

    def make_witness(self, result: PairEpsilon) -> Witness | None:
        """Returns the evidence for a result (two inputs, and an output with its probabilities), or
        None.

        If outputs are numbers with a density, the evidence is an interval around the output.
        """
        witness = result.witness
        if witness is None or not self.outputs.is_continuous:
            return witness
        note = "; ".join(filter(None, (witness.note, "densities, which are not probabilities")))
        densities = replace(witness, note=note)
        if self.outputs.shape:
            return densities
        # The widest tried interval is used on which all log-ratios are almost as large as at the
        # output. Its probabilities are integrals of the density.
        place, reach = float(result.output), 4.0 * float(self.outputs.range_width)
        spare = result.epsilon - self.claimed_epsilon
        min_log_ratio = result.epsilon - (min(_MAX_DROP, spare / 2.0) if spare > 0.0 else _MAX_DROP)

        def get_log_probs(outputs: Floats) -> Floats:
            """Log-densities of ``outputs`` under the two inputs, (2, outputs)."""
            return self.dist.try_log_probs(outputs, (result.input_a, result.input_b))

        for step, (below, above) in itertools.product(range(_HALVINGS), ((1, 1), (1, 0), (0, 1))):
            ends = place - below * reach / 2.0**step, place + above * reach / 2.0**step
            low, high = (float(f"{end:.9g}") for end in ends)
            logs = get_log_probs(np.linspace(low, high, 33))
            with np.errstate(invalid="ignore"):
                alike = np.all(logs[0] - logs[1] >= min_log_ratio)
            if not (alike and low < high):
                continue
            edges = np.linspace(low, high, 9)
            cells = tables.integrate_cells(lambda outputs: np.exp(get_log_probs(outputs)), edges)
            masses = cells.masses.sum(axis=1)
            if np.all(cells.lost_mass <= 1e-9 * masses) and masses[0] > 0.0:
                text = f"a number from {low:.9g} to {high:.9g}"
                p, q = masses.tolist()
                return replace(witness, output=text, probability_a=p, probability_b=q)
        return densities

    def simplify_output(self, result: PairEpsilon, above: float) -> PairEpsilon:
        """Returns ``result`` with the simplest output whose log-ratio for the same two inputs
        exceeds ``above``; unchanged if none is found.
        """

        def evaluate(output: Any) -> PairEpsilon:
            """Result for the two inputs with this single ``output``."""
            return self._try_outputs(result.input_a, result.input_b, np.asarray(output)[None])

        epsilon, output = candidates.search_with_hypothesis(
            self.outputs.make_strategy(),
            lambda output: evaluate(output).epsilon,
            seed=self.seed,
            max_examples=self.max_examples,
            stop_above=above,
        )
        return evaluate(output) if epsilon > above else result

    def _grows(self, best: PairEpsilon) -> bool:
        """Whether the log-ratio of the best pair of inputs still grows towards the least probable
        outputs.
        """
        drawn_a, _, far = self._draw_outputs(best.input_a, best.input_b)
        log_probs = self.dist.try_log_probs(far, (best.input_a, best.input_b))
        depth = float(np.median(self.dist.log_prob(drawn_a, best.input_a))) - log_probs.max(axis=0)
        finite = np.isfinite(log_probs).all(axis=0)
        ratios = np.abs(log_probs[0] - log_probs[1], where=finite, out=0.0 * depth)
        near, deep = (ratios[depth <= s * MAX_NEG_LOG_PROB].max(initial=0.0) for s in (0.25, 1.0))
        return bool(deep > 1.2 * near)

    def _draw_outputs(self, a: Any, b: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draws outputs under the input ``a`` and under ``b``, and makes outputs that were not
        drawn, around and far beyond them.
        """
        size = max(4, min(_DRAWS, _ENTRIES // max(1, math.prod(self.outputs.shape))))
        drawn_a, drawn_b = (self.dist.draw(value, size, self.seed) for value in (a, b))
        return drawn_a, drawn_b, self.outputs.propose_outputs(drawn_a, drawn_b, a, b)

    def _try_outputs(
        self, a: Any, b: Any, outputs: NDArray[Any], typical: float | None = None
    ) -> PairEpsilon:
        log_probs = self.dist.try_log_probs(outputs, (a, b))
        return self.evaluate_outputs(a, b, outputs, log_probs, typical)

    def _log_ratios(self, log_p: Floats, log_q: Floats, typical: float | None) -> Floats:
        """Log-ratio of each output, first input over second, (outputs,); -inf if the output does
        not count.

        ``typical``: typical log-probability of drawn outputs, or None. Much less probable outputs
            do not count.
        """
        counts = ~np.isneginf(log_p) & ~np.isnan(log_p) & ~np.isnan(log_q)
        # Further out, doubles underflow.
        if typical is not None:
            counts &= log_p >= typical - max(MAX_NEG_LOG_PROB - self.claimed_epsilon, 0.0)
        log_p, log_q = np.where(counts, log_p, -np.inf), np.where(counts, log_q, 0.0)
        sizes = np.nan_to_num(np.abs([log_p, log_q]), posinf=0.0)
        rounding = _ROUNDING_OF_SINGLES if is_single_precision(sizes) else _ROUNDING
        return np.asarray(compute_log_ratios(log_p, log_q) - rounding * sizes.max(axis=0))


def _exp(log: float) -> float:
    """e^log; infinite if this is above the largest double, as for some densities."""
    return math.exp(log) if log < 709 else math.inf


_SUMMED, _FINE = 2048, 1025
# A log-mass above that of a cell in which a positive density underflows.
_UNDERFLOW = -690.0


class NoDivergenceError(InputError):
    """Error for outputs whose hockey-stick divergence cannot be computed from ``log_prob``. Epsilon
    can still be measured from draws.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceSearch(PairSearch):
    """Search for the largest epsilon at ``delta`` > 0, from lower bounds on hockey-stick
    divergences.

    - Discrete outputs: the divergence is summed over all outputs. If not all are known, it is
      summed over drawn outputs and combinations of their entries.
    - Numbers with a density: the divergence is integrated over intervals.

    Raises NoDivergenceError for vectors with a density. It also raises this error for outputs that
    are not arrays (such as dictionaries), unless all outputs are known.

    ``score_name``, ``can_propose_outputs``, ``max_examples``: constants that ``PairSearch``
        describes.
    """

    score_name = "epsilon"
    can_propose_outputs = False
    max_examples = 60

    def get_epsilon_and_source(self, best: PairEpsilon) -> tuple[float, str]:
        """Returns the epsilon of the ``best`` result, and the beginning of the text
        ``Bound.source``: how the divergence was computed.
        """
        how = "integrated from below" if self.outputs.is_continuous else "summed"
        return best.epsilon, f"the largest hockey-stick divergence found, {how},"

    def evaluate_outputs(self, a: Any, b: Any, outputs: Any, log_probs: Floats) -> PairEpsilon:
        """Computes the smallest epsilon at which the hockey-stick divergence of the inputs ``a``
        and ``b``, summed over the given ``outputs``, is at most ``delta``.

        The true epsilon is not smaller, because other outputs only add to the divergence.
        ``log_probs`` has the log-probabilities of the outputs under the two inputs, (2, outputs).
        Raises InputError if the probabilities sum to more than 1.
        """
        log_probs = np.where(np.isnan(log_probs).any(axis=0), -np.inf, log_probs)
        self._check_mass(np.exp(log_probs).sum(axis=1), a, b)
        if not self.outputs.shape:
            log_probs = lift_underflow(log_probs, self.claimed_epsilon)
        return self._smallest_epsilon(log_probs, a, b, self.delta)

    def find_pair_epsilon(self, a: Any, b: Any) -> PairEpsilon:
        """Computes a lower bound on the epsilon of the inputs ``a`` and ``b`` at ``delta``.

        The bound follows from drawn outputs and combinations of their entries, or from integrals of
        a density.

        Raises NoDivergenceError for vectors with a density, and for outputs that are not arrays if
        their set is unknown.
        """
        if self.outputs.is_continuous and self.outputs.shape:
            raise NoDivergenceError(
                f"Expected, at delta > 0, discrete outputs, single numbers, or a mechanism with a "
                f"privacy curve (method `delta`), got vectors of shape {self.outputs.shape} with a "
                "density. Set delta to 0, add the method, or give only the sampler, so that "
                "epsilon is measured."
            )
        drawn = np.concatenate([self.dist.draw(value, _SUMMED, self.seed) for value in (a, b)])
        if self.outputs.is_continuous:
            return self._integrate(a, b, drawn)
        if self.outputs.all_outputs is None and self.dist.encoder is not None:
            raise NoDivergenceError(
                "Expected, at delta > 0, outputs that are numbers or a complete list of outputs, "
                "got other objects, which may have densities. Use Density(outputs=...), set "
                "delta to 0, or give only the sampler, so that epsilon is measured."
            )
        outputs = np.unique(np.concatenate([drawn, self.outputs.list_grid()]), axis=0)
        return self.evaluate_outputs(a, b, outputs, self.dist.try_log_probs(outputs, (a, b)))

    def _integrate(self, a: Any, b: Any, drawn: NDArray[Any]) -> PairEpsilon:
        drawn = drawn[np.isfinite(drawn)].astype(np.float64)
        low, high = drawn.min(), drawn.max()
        fine = np.linspace(low - (high - low) / 2, high + (high - low) / 2, _FINE)
        edges = np.union1d(tables.make_integration_edges(drawn), fine)
        inputs = [float(v) for v in (a, b) if np.ndim(v) == 0 and np.isreal(v)]
        edges = np.union1d(edges, inputs)
        cells = tables.integrate_cells(lambda x: np.exp(self.dist.try_log_probs(x, (a, b))), edges)
        self._check_mass(cells.masses.sum(axis=1), a, b)
        by = np.argsort(cells.starts)
        cells = replace(
            cells, starts=cells.starts[by], ends=cells.ends[by], masses=cells.masses[:, by]
        )
        with np.errstate(divide="ignore"):
            log_probs = np.log(np.maximum(cells.masses, 0.0))
        middles = cells.starts / 2.0 + cells.ends / 2.0
        above = np.isfinite(self.dist.try_log_probs(middles, (a, b)))
        log_probs = np.where(above, np.maximum(log_probs, _UNDERFLOW), log_probs)
        log_probs = lift_underflow(log_probs, self.claimed_epsilon)
        # Masses with a relative error r: P(1 - r) - delta against Q(1 + r).
        r = 10.0 * tables.MAX_QUADRATURE_ERROR
        delta = min(self.delta / (1.0 - r), math.nextafter(1.0, 0.0))

        def intervals(chosen: NDArray[np.intp]) -> str:
            low, high = np.sort(cells.starts[chosen]), np.sort(cells.ends[chosen])
            apart = np.append(True, low[1:] > high[:-1])
            starts, stops = low[apart], high[np.append(apart[1:], True)]
            texts = [f"{a:.9g} to {b:.9g}" for a, b in zip(starts, stops, strict=True)]
            more = f", or in {len(texts) - 3} intervals more" if len(texts) > 3 else ""
            return f"a number from {' or '.join(texts[:3])}{more}"

        result = self._smallest_epsilon(log_probs, a, b, delta, intervals)
        return PairEpsilon(max(0.0, result.epsilon - 2.0 * math.atanh(r)), result.witness)

    def _smallest_epsilon(
        self,
        log_probs: Floats,
        a: Any,
        b: Any,
        delta: float,
        name_event: Callable[[NDArray[np.intp]], str] | None = None,
    ) -> PairEpsilon:
        name_input = lambda i: self.dist.name_input((a, b)[i])  # noqa: E731
        table = tables.ProbabilityTable(log_probs, name_input, name_event=name_event)
        bound = table.compute_bound(REPORT_SCOPE, delta)
        return PairEpsilon(bound.epsilon, bound.witness)

    def _check_mass(self, masses: Floats, a: Any, b: Any) -> None:
        for mass, value in zip(masses, (a, b), strict=True):
            if mass > 1.0 + 1e-6:
                raise InputError(
                    f"Expected probabilities that sum to 1, got a sum of at least {mass:.9g} under "
                    f"the input {format_value(value)}. Correct the normaliser of log_prob."
                )
