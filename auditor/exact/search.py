"""The largest ratio that claimed probabilities show: exhaustive, or steered by Hypothesis."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.tables import ProbabilityTable
from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs
from fedrec_auditor.auditor.exact.candidate_outputs import BUT, SELDOM, CandidateOutputs
from fedrec_auditor.auditor.exact.lower_bound import exact_lower_bound
from fedrec_auditor.auditor.exact.output_distribution import (
    OutputDistribution,
    in_singles,
    without_underflow,
)
from fedrec_auditor.auditor.exact.pair_search import Divergence, LogRatio, simplest_witness
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Inputs that are enumerated at a delta, where every pair is looked at by itself.
_MOST_PAIRED = 64
_MOST_ENTRIES = 1 << 22


def exact_search(
    mechanism: Any,
    *,
    epsilon: float,
    delta: float,
    inputs: Iterable[Any] | SearchStrategy[Any] | None,
    seed: np.random.SeedSequence,
    samples: int = SELDOM,
) -> Bound:
    """No epsilon below this one holds at ``delta``, by the probabilities that ``mechanism`` claims.

    Exhaustive and exact where inputs and outputs are finitely many. Otherwise the largest ratio
    among worst-case inputs and outputs, so far as ``log_prob`` confirms them, and whatever
    Hypothesis finds beyond; if that breaks the claim ``epsilon``, the witness is the simplest pair
    that does. At delta > 0 it is the hockey-stick divergence: by the mechanism's own curve, over
    all or many discrete outputs, or integrated from below where outputs are numbers.

    ``mechanism`` is anything ``OutputDistribution.of`` takes; ``inputs`` confine the search to a
    list or to a Hypothesis strategy. Outputs that are few and repeat are drawn ``samples`` times
    for each of some inputs, 2^21 numbers in all at most, to see the seldom ones. InputError for
    inputs outside the domain, no inputs and no domain, and delta > 0 for vectors of continuous
    outputs without a curve.
    """
    dist, entropy = OutputDistribution.of(mechanism), int(seed.generate_state(1)[0])
    candidates = CandidateInputs.of(dist, inputs, entropy)
    outputs = CandidateOutputs.of(dist, candidates, entropy, samples)
    every, listed = outputs.every, candidates.listed
    if every is not None and listed is not None:
        few = delta == 0 or len(listed) <= _MOST_PAIRED
        if few and len(listed) * len(every) <= _MOST_ENTRIES:
            log_probs = np.stack([dist.log_prob(every, value) for value in listed])
            if not in_singles(log_probs):
                log_probs = without_underflow(log_probs, epsilon)
                return _exhaustive(dist, candidates, every, log_probs, epsilon, delta)
    known = None if candidates.given else _known(dist, delta)
    if delta > 0 and known is not None and outputs.shape and every is None:
        return known
    search = (Divergence if delta > 0 else LogRatio)(
        dist=dist, inputs=candidates, outputs=outputs, epsilon=epsilon, delta=delta, seed=entropy
    )
    return _larger(known, search.bound())


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

    best = bound(list(range(len(listed))))
    endless = math.isinf(best.epsilon)

    def breaks(rows: list[int]) -> bool:
        shown = bound(rows).epsilon
        return math.isinf(shown) if endless else exceeds(shown, epsilon)

    witness = best.witness
    if exceeds(best.epsilon, epsilon):
        last = bisect_left(
            range(len(listed) - 1), True, lo=1, key=lambda j: breaks(list(range(j + 1)))
        )
        first = next(i for i in range(last) if breaks([i, last]))
        measure = Divergence.measure if delta else LogRatio.measure
        witness = simplest_witness(bound([first, last]), best, measure)
    which = "inputs given" if inputs.given else "inputs"
    source = f"exhaustive: all {len(listed)} {which}, all {len(every)} outputs{BUT}"
    return replace(best, source=source, witness=witness, tight=inputs.whole)


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
