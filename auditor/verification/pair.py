"""The pair of inputs of a black box that is worth measuring: Hypothesis looks for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import steered
from fedrec_auditor.auditor.exact.output_distribution import identity
from fedrec_auditor.auditor.verification.budget import MOST_SAMPLES
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.sampler import Sampler, beginning_again

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_SAMPLES, _EXAMPLES, _MOST_PAIRS = 4000, 60, 120
_FEWEST, _FEWEST_PAIRS = 100, 8


def pair_from(
    sampler: Sampler,
    strategy: SearchStrategy[Any],
    *,
    claim: Claim,
    samples: int,
    seed: np.random.SeedSequence,
    paced: Callable[[Sampler, Sequence[Any]], int] = lambda sampler, inputs: MOST_SAMPLES,
) -> list[Any]:
    """Two inputs to be measured on fresh draws: these showed the largest epsilon on a few.

    Pairs of ``strategy`` are scored by a lower bound from 4,000 draws each, steered towards a
    larger one; if it exceeds the claim, the simplest pair is returned that shows half of the
    excess. The search chooses and proves nothing: its draws must not count. At most 120 pairs are
    measured, so many as take no more draws than ``samples`` of each input (8 at the least, of 100
    draws), or than the first pair is ``paced`` to. InputError for a strategy without two different
    inputs.
    """
    from hypothesis import strategies as st

    entropy = int(seed.generate_state(1)[0])
    allowed: list[int] = []
    scores: dict[Hashable, float] = {}

    def draws() -> int:
        return min(_SAMPLES, max(_FEWEST, allowed[0] // _MOST_PAIRS))

    def score(pair: tuple[Any, Any]) -> float:
        key = identity(pair[0]), identity(pair[1])
        if key[0] == key[1]:
            return -1.0
        if key not in scores:
            if allowed and len(scores) >= min(
                _MOST_PAIRS, max(_FEWEST_PAIRS, allowed[0] // draws())
            ):
                return -1.0

            def shown(unread: list[Any]) -> float:
                rng = np.random.default_rng([entropy, len(unread)])
                read = sampler.reading(pair, rng, unread=unread)
                if not allowed:
                    allowed.append(min(samples, paced(read, pair)))
                worlds, delta = read.worlds(pair), claim.delta
                bound = JointBinomial().bound(
                    worlds, delta=delta, confidence=0.95, samples=draws(), rng=rng
                )
                return bound.epsilon

            scores[key] = beginning_again(shown)
        return scores[key]

    pairs = st.tuples(strategy, strategy)
    found, pair = steered(pairs, score, seed=entropy, examples=_EXAMPLES)
    if found < 0:
        raise InputError(
            "Expected a strategy of at least 2 different inputs, got none or one. Widen it."
        )
    if exceeds(found, claim.epsilon):
        above = (claim.epsilon + found) / 2.0
        _, pair = steered(pairs, score, seed=entropy, examples=_EXAMPLES, above=above)
    return list(pair)
