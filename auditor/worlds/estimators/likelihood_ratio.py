"""A lower bound on epsilon from one event of any shape: where one world is likelier by enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrec_auditor.accountants.statements.bound import (
    Bound,
    Side,
    Witness,
    check_confidence,
    check_delta,
)
from fedrec_auditor.auditor.worlds.estimators.base import Estimator, check_samples
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    event_epsilon,
)
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import FIRST, SECOND, SampleBudget
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import (
    SelectionSplit,
    split_size,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class LikelihoodRatioEstimator(Estimator):
    """Holds at the stated confidence, whatever the outputs are and whatever was learned of them.

    The selection split of ``joint-binomial`` chooses two worlds and a rule. Its two events, the
    parts of the outputs where it guesses the first world and those where it guesses the second, are
    each certified by two Clopper-Pearson limits on fresh draws, at half the error an event: unlike
    a threshold's event it may be a union of intervals, or a set of outcomes. At delta above 0 it is
    the event of Neyman and Pearson, as far as the split knows the ratio.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.9])
    >>> bound = LikelihoodRatioEstimator().bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.2, and in truth 1.6
    """

    reference = "Neyman and Pearson 1933; Clopper and Pearson 1934; event from other samples"

    def bounds(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidences: Sequence[float],
        samples: int,
        rng: np.random.Generator,
    ) -> tuple[Bound, ...]:
        """See ``Estimator``; outputs are numbers, booleans, strings, or arrays of them."""
        check_delta(delta)
        alpha = 1 - check_confidence(confidences[0])
        selecting, counting = rng.spawn(2)
        sizes = worlds.sizes(check_samples(samples))
        split = SelectionSplit.drawn(worlds, split_size(min(sizes)), selecting)
        budget = SampleBudget(draws=2 * (min(sizes) - split.size), delta=delta, alpha=alpha)
        chosen = split.choose(budget)
        a, b = (chosen.a, chosen.b) if chosen else (0, 1)
        rule = chosen.rule if chosen else None
        trials, shape = [sizes[world] - split.size for world in (a, b)], split.shape
        used = split.size * len(worlds.names) + sum(trials)
        del split
        counts = np.zeros((2, 2), dtype=np.int64)  # world, then the world guessed
        fresh = dict(zip((a, b), trials, strict=True))
        for world, block in worlds.drawn(fresh, counting.spawn(2), shape):
            if rule is not None:
                counts[int(world == b)] += rule.count(block)
        found = []
        for confidence in map(check_confidence, confidences):
            events = [
                (
                    float(
                        event_epsilon(
                            counts[side, side],
                            trials[side],
                            counts[1 - side, side],
                            trials[1 - side],
                            delta=delta,
                            alpha=(1 - confidence) / 2,
                        )
                    ),
                    side,
                )
                for side in (0, 1)
            ]
            epsilon, side = max(events)
            names = (a, b) if side == 0 else (b, a)
            error = (1 - confidence) / 4
            found.append(
                Bound(
                    epsilon=epsilon,
                    delta=delta,
                    side=Side.LOWER,
                    scope=worlds.scope,
                    source="Clopper-Pearson on the event of a rule that other draws chose",
                    confidence=confidence,
                    samples=used,
                    largest=_largest(*trials, delta=delta, alpha=1 - confidence),
                    witness=None
                    if rule is None
                    else Witness(
                        input_a=worlds.names[names[0]],
                        input_b=worlds.names[names[1]],
                        output=" ".join(
                            filter(None, [worlds.statistic, rule.words((FIRST, SECOND)[side])])
                        ),
                        probability_a=float(
                            clopper_pearson_lower(counts[side, side], trials[side], error)
                        ),
                        probability_b=float(
                            clopper_pearson_upper(counts[1 - side, side], trials[1 - side], error)
                        ),
                        note=f"seen in {counts[side, side]} of {trials[side]} held-out samples "
                        f"against {counts[1 - side, side]} of {trials[1 - side]}; the "
                        "probabilities are the confidence limits",
                    ),
                )
            )
        return tuple(found)

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """The bound if an event is seen in all samples of one world and none of the other."""
        trials = samples - split_size(check_samples(samples))
        alpha = 1 - check_confidence(confidence)
        return _largest(trials, trials, delta=check_delta(delta), alpha=alpha)


def _largest(n: int, m: int, *, delta: float, alpha: float) -> float:
    """The bound of an event that is seen in every output of one world and in none of the other."""
    sizes = np.array([n, m])
    hits = event_epsilon(sizes, sizes, 0, sizes[::-1], delta=delta, alpha=alpha / 2)
    return float(hits.max())
