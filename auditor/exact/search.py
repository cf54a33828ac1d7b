"""The largest ratio that claimed probabilities show: exhaustive, or steered by Hypothesis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs
from fedrec_auditor.auditor.exact.candidate_outputs import WHOLE, CandidateOutputs
from fedrec_auditor.auditor.exact.lower_bound import exact_lower_bound
from fedrec_auditor.auditor.exact.output_distribution import (
    OutputDistribution,
    identity,
    in_singles,
    without_underflow,
)
from fedrec_auditor.auditor.exact.pair_divergence import PairDivergence
from fedrec_auditor.auditor.exact.pair_ratio import FoundRatio, PairRatio
from fedrec_auditor.auditor.exact.probability_table import ProbabilityTable, exact_bound
from fedrec_auditor.auditor.exact.steering import simplest, worst
from fedrec_auditor.auditor.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Inputs that are enumerated at a delta, where every pair is looked at by itself.
_MOST_PAIRED = 64
# What "all" outputs may leave out.
_BUT = f" but for {WHOLE:g} of probability"
_MOST_ENTRIES = 1 << 22
# Hypothesis examples: at most so many, fewer for large inputs and outputs.
_EXAMPLES, _EXAMPLES_AT_DELTA, _FEWEST, _WORK = 200, 60, 30, 1 << 18


def exact_search(
    mechanism: Any,
    *,
    epsilon: float,
    delta: float,
    inputs: Iterable[Any] | SearchStrategy[Any] | None,
    seed: np.random.SeedSequence,
) -> Bound:
    """No epsilon below this one holds at ``delta``, by the probabilities that ``mechanism`` claims.

    Exhaustive and exact where inputs and outputs are finitely many. Otherwise the largest ratio
    among worst-case inputs and outputs, so far as ``log_prob`` confirms them, and whatever
    Hypothesis finds beyond; if that breaks the claim ``epsilon``, the witness is the simplest pair
    that does. At delta > 0 it is the hockey-stick divergence: by the mechanism's own curve, over
    all or many discrete outputs, or integrated from below where outputs are numbers.

    ``mechanism`` is anything ``OutputDistribution.of`` takes; ``inputs`` confine the search to a
    list or to a Hypothesis strategy. InputError for inputs outside the domain, no inputs and no
    domain, and delta > 0 for vectors of continuous outputs without a curve.
    """
    dist, entropy = OutputDistribution.of(mechanism), int(seed.generate_state(1)[0])
    candidates = CandidateInputs.of(dist, inputs, entropy)
    outputs = CandidateOutputs.of(dist, candidates, entropy)
    every, listed = outputs.every, candidates.listed
    if every is not None and listed is not None:
        few = delta == 0 or len(listed) <= _MOST_PAIRED
        if few and len(listed) * len(every) <= _MOST_ENTRIES:
            log_probs = np.stack([dist.log_prob(every, value) for value in listed])
            if not in_singles(log_probs):
                log_probs = without_underflow(log_probs, epsilon)
                return _exhaustive(dist, candidates, every, log_probs, epsilon, delta)
    known = None if candidates.given else _known(dist, delta)
    if delta == 0:
        ratio = PairRatio(dist=dist, outputs=outputs, epsilon=epsilon, seed=entropy)
        return _larger(known, _at_zero(ratio, candidates))
    if known is not None and outputs.shape and every is None:
        return known
    divergence = PairDivergence(
        dist=dist, outputs=outputs, epsilon=epsilon, delta=delta, seed=entropy
    )
    return _larger(known, _at_delta(divergence, candidates))


def _at_zero(pair_ratio: PairRatio, inputs: CandidateInputs) -> Bound:
    """The largest ratio found, and the simplest pair that breaks the claim, if any does."""
    from hypothesis import strategies as st

    dist, best = pair_ratio.dist, FoundRatio(0.0)
    pairs = inputs.pairs
    if not inputs.given and dist.named is not None:
        pairs += itertools.combinations(dist.named.inputs[:16], 2)
    for a, b in pairs:
        best = max(best, pair_ratio.best(a, b), key=lambda found: found.value)
    examples, how = _effort(pair_ratio.outputs, inputs, _EXAMPLES)
    strategy = st.tuples(inputs.strategy, inputs.strategy, st.none() | pair_ratio.strategy)

    def score(example: tuple[Any, Any, Any]) -> float:
        a, b, output = example
        return pair_ratio.best(dist.check(a), dist.check(b), output).value

    value, example = worst(strategy, score, seed=pair_ratio.seed, examples=examples)
    if value > best.value:
        best = pair_ratio.best(*example)
    if best.a is None:
        return exact_bound(0.0, ONE_REPORT, 0.0, f"no ratio at all, {how}")
    best = pair_ratio.climb(best)
    source = f"the largest log-ratio found, {how}"
    if dist.unbounded and not inputs.given and pair_ratio.grows(best):
        source = (
            f"the mechanism says that its log-ratio has no bound, and it grows to {best.value:.4g} "
            f"as far as was looked; {how}"
        )
        best = replace(best, value=math.inf)
    witness = pair_ratio.witness(best)
    if exceeds(best.value, pair_ratio.epsilon):
        infinite = math.isinf(best.value) and math.isinf(best.log_b)
        above = 1e5 if infinite else _just_above(pair_ratio.epsilon)
        example = simplest(strategy, score, above=above, seed=pair_ratio.seed, examples=examples)
        shown = best
        if example is not None:
            shown = _plainest(pair_ratio, pair_ratio.best(*example), above)
        witness = pair_ratio.witness(shown, note=_note(pair_ratio, shown, best))
    return exact_bound(max(0.0, best.value), ONE_REPORT, 0.0, source, witness)


def _at_delta(divergence: PairDivergence, inputs: CandidateInputs) -> Bound:
    """The largest divergence found, and the simplest pair that breaks the claim, if any does."""
    from hypothesis import strategies as st

    seen: dict[Hashable, Bound] = {}

    def bound(pair: tuple[Any, Any]) -> Bound:
        a, b = pair
        key = identity(divergence.dist.check(a)), identity(divergence.dist.check(b))
        if key not in seen:
            seen[key] = divergence.bound(a, b)
        return seen[key]

    def score(pair: tuple[Any, Any]) -> float:
        return bound(pair).epsilon

    for pair in inputs.pairs:
        bound(pair)
    outputs, seed = divergence.outputs, divergence.seed
    examples, how = _effort(outputs, inputs, _EXAMPLES_AT_DELTA)
    strategy = st.tuples(inputs.strategy, inputs.strategy)
    worst(strategy, score, seed=seed, examples=examples)
    best = max(seen.values(), key=lambda found: found.epsilon)
    witness = best.witness
    if exceeds(best.epsilon, divergence.epsilon):
        above = _just_above(divergence.epsilon)
        plain = simplest(strategy, score, above=above, seed=seed, examples=examples)
        if plain is not None and (shown := bound(plain)).witness is not None:
            note = "" if shown is best else f"epsilon {shown.epsilon:.6g}; the largest was found at"
            if note and best.witness is not None:
                note += f" {best.witness.input_a} against {best.witness.input_b}"
            witness = replace(shown.witness, note=note)
    means = "integrated from below" if outputs.continuous else "summed"
    source = f"the largest hockey-stick divergence found, {means}, {how}"
    return replace(best, source=source, witness=witness)


def _effort(outputs: CandidateOutputs, inputs: CandidateInputs, most: int) -> tuple[int, str]:
    """How many examples Hypothesis tries, and in words what is looked at."""
    examples = max(_FEWEST, min(most, _WORK // max(inputs.size, math.prod(outputs.shape))))
    looked = f"all outputs{_BUT}" if outputs.every is not None else "drawn and far outputs"
    return examples, f"{looked}, inputs by Hypothesis ({examples} examples)"


def _just_above(epsilon: float) -> float:
    """What a ratio must exceed to break the claim, whatever its rounding."""
    return epsilon + 1e-9 * max(1.0, epsilon)


def _exhaustive(
    dist: OutputDistribution,
    inputs: CandidateInputs,
    every: NDArray[Any],
    log_probs: NDArray[np.float64],
    epsilon: float,
    delta: float,
) -> Bound:
    """All inputs by all outputs; the witness is the first pair that breaks the claim, if any."""
    listed = inputs.listed or []

    def bound(rows: list[int]) -> Bound:
        return ProbabilityTable(
            log_probs[rows],
            lambda i: dist.name_input(listed[rows[i]]),
            lambda j: dist.name_output(every[j]),
        ).lower_bound(ONE_REPORT, delta)

    found = bound(list(range(len(listed))))
    which = "inputs given" if inputs.given else "inputs"
    source = f"exhaustive: all {len(listed)} {which}, all {len(every)} outputs{_BUT}"
    witness = found.witness
    pair = None
    if delta == 0 and exceeds(found.epsilon, epsilon):
        pair = _first_pair(log_probs, math.inf if math.isinf(found.epsilon) else epsilon)
    if pair is not None and (shown := bound(pair)).witness is not None:
        note = "" if shown.epsilon == found.epsilon else f"log-ratio {shown.epsilon:.6g}"
        if note and witness is not None:
            note += f"; the largest is that of {witness.input_a} against {witness.input_b}"
        witness = replace(shown.witness, note=note or shown.witness.note)
    return replace(found, source=source, witness=witness, tight=inputs.whole)


def _first_pair(log_probs: NDArray[np.float64], limit: float) -> list[int] | None:
    """The first two rows, in their order, whose ratio exceeds ``limit`` at some output."""
    for j in range(1, len(log_probs)):
        one, other = log_probs[:j], log_probs[j]
        possible = ~(np.isneginf(one) & np.isneginf(other))
        with np.errstate(invalid="ignore"):
            ratios = np.where(possible, np.abs(one - other), 0.0).max(axis=1)
        over = np.isposinf(ratios) if math.isinf(limit) else ratios > limit * (1 + 1e-9) + 1e-9
        if over.any():
            return [int(np.argmax(over)), j]
    return None


def _known(dist: OutputDistribution, delta: float) -> Bound | None:
    """What the mechanism's own curve or worst-case sets say, so far as ``log_prob`` confirms."""
    told = dist.worst_case is not None and (delta == 0 or dist.worst_case.exhaustive)
    if delta > 0 and callable(getattr(dist.origin, "worst_case", None)):
        told |= isinstance(dist.origin, PrivacyCurve)
    return exact_lower_bound(dist.origin, ONE_REPORT, delta) if told else None


def _larger(known: Bound | None, found: Bound) -> Bound:
    """The larger of two bounds; the one found where they agree, for its witness is the simplest.

    Unless its probabilities are below the smallest double, where the worst-case pair of one copy
    says the same in numbers.
    """
    if known is None:
        return found
    if known.epsilon > found.epsilon * (1 + 1e-9) + 1e-9:
        said = "worst-case pair" if known.delta == 0 else known.source
        return replace(
            known,
            source=f"{said}; {found.source.replace('found', 'beyond', 1)}: {found.epsilon:.6g}",
            witness=known.witness or found.witness,
        )
    vanished = found.witness is None or found.witness.probability_a == 0.0
    return replace(
        found,
        epsilon=max(known.epsilon, found.epsilon),
        witness=known.witness if vanished and known.witness else found.witness,
    )


def _plainest(pair_ratio: PairRatio, found: FoundRatio, above: float) -> FoundRatio:
    """The same pair with the simplest output whose ratio is more than ``above``."""
    output = simplest(
        pair_ratio.strategy,
        lambda output: pair_ratio.at(found.a, found.b, output).value,
        above=above,
        seed=pair_ratio.seed,
        examples=_EXAMPLES,
    )
    return found if output is None else pair_ratio.at(found.a, found.b, output)


def _note(pair_ratio: PairRatio, shown: FoundRatio, best: FoundRatio) -> str:
    if shown.value >= best.value:
        return ""
    most = pair_ratio.witness(best)
    return (
        f"log-ratio {shown.value:.6g}, the simplest pair found above the claim; the largest is "
        f"that of {most.input_a} against {most.input_b} at {most.output}"
    )
