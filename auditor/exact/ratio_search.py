"""The largest log-ratio of two inputs, steered by Hypothesis: what a claim at delta 0 bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.hockey_stick import log_ratio
from fedrec_auditor.accountants.statements.bound import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs
from fedrec_auditor.auditor.exact.candidate_outputs import (
    CandidateOutputs,
    by_simplicity,
    sums_to_one,
)
from fedrec_auditor.auditor.exact.output_distribution import (
    DEEPEST,
    OutputDistribution,
    identity,
    in_singles,
    without_underflow,
)
from fedrec_auditor.auditor.exact.probability_table import exact_bound
from fedrec_auditor.auditor.exact.steering import most_examples, simplest, worst
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Error of a log-probability by rounding, relative to its size: given away. Doubles, and singles.
_ROUNDING, _ROUNDING_OF_SINGLES = 2.0**-46, 2.0**-17
_DRAWS, _ENTRIES = 64, 1 << 18
_ROWS, _CLIMBS = 8, 4
_MOST_ENTRIES = 1 << 22
_EXAMPLES = 200


@dataclass(frozen=True, slots=True)
class FoundRatio:
    """``output`` is e^``value`` times as probable under ``a`` as under ``b``.

    ``log_a`` and ``log_b`` are its log-probabilities.
    """

    value: float
    a: Any = None
    b: Any = None
    output: Any = None
    log_a: float = -math.inf
    log_b: float = -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSearch:
    """Log-ratios of pairs of ``inputs`` at delta 0, held against a claim of ``epsilon``."""

    dist: OutputDistribution
    inputs: CandidateInputs
    outputs: CandidateOutputs
    epsilon: float
    seed: int
    _seen: dict[Hashable, tuple[FoundRatio, float | None]] = field(default_factory=dict, repr=False)

    def bound(self) -> Bound:
        """The largest ratio found; its witness is the simplest pair that breaks the claim."""
        from hypothesis import strategies as st

        dist, inputs, best = self.dist, self.inputs, FoundRatio(0.0)
        pairs = inputs.pairs
        if not inputs.given and dist.named is not None:
            pairs += itertools.combinations(dist.named.inputs[:16], 2)
        for a, b in pairs:
            best = max(best, self.best(a, b), key=lambda found: found.value)
        examples = most_examples(_EXAMPLES, max(inputs.size, math.prod(self.outputs.shape)))
        how = f"{self.outputs}, inputs by Hypothesis ({examples} examples)"
        strategy = st.tuples(inputs.strategy, inputs.strategy, st.none() | self.strategy)

        def score(example: tuple[Any, Any, Any]) -> float:
            a, b, output = example
            return self.best(dist.check(a), dist.check(b), output).value

        value, example = worst(strategy, score, seed=self.seed, examples=examples)
        if value > best.value:
            best = self.best(*example)
        if best.a is None:
            return exact_bound(0.0, ONE_REPORT, 0.0, f"no ratio at all, {how}")
        best = self.climb(best)
        source = f"the largest log-ratio found, {how}"
        if dist.unbounded and not inputs.given and self.grows(best):
            source = (
                "the mechanism says that its log-ratio has no bound, and it grows to "
                f"{best.value:.4g} as far as was looked; {how}"
            )
            best = replace(best, value=math.inf)
        witness = self.witness(best)
        if exceeds(best.value, self.epsilon):
            infinite = math.isinf(best.value) and math.isinf(best.log_b)
            above = 1e5 if infinite else self.epsilon + 1e-9 * max(1.0, self.epsilon)
            example = simplest(strategy, score, above=above, seed=self.seed, examples=examples)
            shown = best if example is None else self._plainest(self.best(*example), above)
            note = ""
            if shown.value < best.value:
                note = (
                    f"log-ratio {shown.value:.6g}, the simplest pair found above the claim; the "
                    f"largest is that of {witness.input_a} against {witness.input_b} at "
                    f"{witness.output}"
                )
            witness = self.witness(shown, note)
        return exact_bound(max(0.0, best.value), ONE_REPORT, 0.0, source, witness)

    @property
    def strategy(self) -> SearchStrategy[Any]:
        """Outputs to try."""
        from hypothesis import strategies as st

        if self.outputs.every is not None:
            return st.sampled_from(by_simplicity(self.outputs.every))
        return self.outputs.strategy()

    def best(self, a: Any, b: Any, output: Any = None) -> FoundRatio:
        """The largest ratio of the pair, either way, over outputs drawn, beyond, and ``output``.

        A pair is looked at once: the search returns to it with other outputs, and to shrink.
        """
        key = identity(a), identity(b)
        if key not in self._seen:
            self._seen[key] = self._of_pair(a, b)
        found, typical = self._seen[key]
        if output is None or typical is None:
            return found
        other = self._undrawn(a, b, np.asarray(output)[None], typical)
        return max(found, other, key=lambda each: each.value)

    def _of_pair(self, a: Any, b: Any) -> tuple[FoundRatio, float | None]:
        """The largest ratio of the pair, and the typical log-probability of outputs drawn.

        None for the latter where no other output can show more, for all were looked at.
        """
        every = self.outputs.every
        if every is not None:
            log_probs = self.dist.try_log_probs(every, (a, b))
            if sums_to_one(log_probs):
                return self._largest(a, b, every, log_probs), None
        draws = max(4, min(_DRAWS, _ENTRIES // max(1, math.prod(self.outputs.shape))))
        one, other = self._drawn(a, b, draws)
        drawn = np.concatenate([one, other])
        log_probs = np.stack([self.dist.log_prob(drawn, value) for value in (a, b)])
        typical = float(np.median(log_probs.max(axis=0)))
        more = [self.outputs.around(one, other, a, b)]
        if self.dist.named is not None:
            more.append(self.dist.named.outputs)
        found = [self._largest(a, b, drawn, log_probs)]
        found += [self._undrawn(a, b, outputs, typical) for outputs in more]
        return max(found, key=lambda each: each.value), typical

    def climb(self, found: FoundRatio) -> FoundRatio:
        """Move entries of the output to where other outputs have them, while the ratio rises."""
        shape, size = self.outputs.shape, math.prod(self.outputs.shape)
        if self.outputs.every is not None or size < 2 or size * size * _ROWS > _MOST_ENTRIES:
            return found
        a, b = found.a, found.b
        one, other = self._drawn(a, b, _DRAWS)
        far = self.outputs.around(one, other, a, b)
        rows = np.concatenate([one[: _ROWS // 2], far[:: max(1, len(far) // _ROWS)]])
        rows = rows.reshape(len(rows), size)
        typical = float(np.median(self.dist.log_prob(one, a)))
        entry = np.arange(size)
        for _ in range(_CLIMBS):
            flat = np.asarray(found.output).reshape(size)
            tried = np.broadcast_to(flat, (len(rows), size, size)).copy()
            tried[:, entry, entry] = rows
            log_probs = self.dist.try_log_probs(tried.reshape(-1, *shape), (a, b))
            gains = self._ratios(log_probs[0], log_probs[1], typical).reshape(len(rows), size)
            best = gains.argmax(axis=0)
            moved = np.where(gains.max(axis=0) > found.value, rows[best, entry], flat)
            outputs = np.concatenate([moved[None], tried[best, entry]]).reshape(-1, *shape)
            better = self._undrawn(a, b, outputs, typical)
            if not better.value > found.value:
                break
            found = better
        return found

    def grows(self, found: FoundRatio) -> bool:
        """Whether the ratio of the pair goes on growing towards the least probable outputs."""
        one, other = self._drawn(found.a, found.b, _DRAWS)
        far = self.outputs.around(one, other, found.a, found.b)
        log_probs = self.dist.try_log_probs(far, (found.a, found.b))
        depth = float(np.median(self.dist.log_prob(one, found.a))) - log_probs.max(axis=0)
        finite = np.isfinite(log_probs).all(axis=0)
        ratios = np.abs(log_probs[0] - log_probs[1], where=finite, out=0.0 * depth)
        near, deep = (ratios[depth <= most].max(initial=0.0) for most in (DEEPEST / 4, DEEPEST))
        return bool(deep > 1.2 * near)

    def witness(self, found: FoundRatio, note: str = "") -> Witness:
        """What was found, in words; no integral shows that a vector nobody drew can come at all."""
        if self.outputs.every is None and self.outputs.apart(found.output):
            unseen = "no draw was as far out: if none can be, log_prob must say so"
            note = f"{note}; {unseen}" if note else unseen
        return Witness(
            input_a=self.dist.name_input(found.a),
            input_b=self.dist.name_input(found.b),
            output=self.dist.name_output(found.output),
            probability_a=_exp(found.log_a),
            probability_b=_exp(found.log_b),
            note=note,
        )

    def _ratios(
        self, one: NDArray[np.float64], other: NDArray[np.float64], typical: float | None
    ) -> NDArray[np.float64]:
        """How much likelier each output is under the first: -inf where that does not count.

        An output that nobody drew counts only if the claim would leave it, in log-probability, near
        the ``typical`` one of those drawn: beyond, doubles underflow.
        """
        counts = ~np.isneginf(one) & ~np.isnan(one) & ~np.isnan(other)
        if typical is not None:
            counts &= one >= typical - max(DEEPEST - self.epsilon, 0.0)
        one, other = np.where(counts, one, -np.inf), np.where(counts, other, 0.0)
        sizes = np.nan_to_num(np.abs([one, other]), posinf=0.0)
        rounding = _ROUNDING_OF_SINGLES if in_singles(sizes) else _ROUNDING
        return np.asarray(log_ratio(one, other) - rounding * sizes.max(axis=0))

    def _plainest(self, found: FoundRatio, above: float) -> FoundRatio:
        """The same pair with the simplest output whose ratio is more than ``above``."""

        def at(output: Any) -> FoundRatio:
            return self._undrawn(found.a, found.b, np.asarray(output)[None])

        output = simplest(
            self.strategy,
            lambda output: at(output).value,
            above=above,
            seed=self.seed,
            examples=_EXAMPLES,
        )
        return found if output is None else at(output)

    def _drawn(self, a: Any, b: Any, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.dist.draw(a, size, self.seed), self.dist.draw(b, size, self.seed)

    def _undrawn(
        self, a: Any, b: Any, outputs: NDArray[Any], typical: float | None = None
    ) -> FoundRatio:
        log_probs = self.dist.try_log_probs(outputs, (a, b))
        return self._largest(a, b, outputs, log_probs, typical)

    def _largest(
        self,
        a: Any,
        b: Any,
        outputs: NDArray[Any],
        log_probs: NDArray[np.float64],
        typical: float | None = None,
    ) -> FoundRatio:
        """The largest ratio among ``outputs`` of these log-probabilities, (2, outputs)."""
        if not self.outputs.shape:
            log_probs = without_underflow(log_probs, self.epsilon)
        found = FoundRatio(value=-math.inf)
        for inputs, (one, other) in (((a, b), log_probs), ((b, a), log_probs[::-1])):
            ratios = self._ratios(one, other, typical)
            k = int(np.argmax(ratios))
            if ratios[k] > found.value:
                found = FoundRatio(
                    float(ratios[k]), *inputs, outputs[k], float(one[k]), float(other[k])
                )
        return found


def _exp(log: float) -> float:
    """e^log; infinite for a density that has left the doubles."""
    return math.exp(log) if log < 709 else math.inf
