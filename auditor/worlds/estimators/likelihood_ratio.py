"""A lower bound on epsilon from one event of any shape: where one world is likelier by enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrec_auditor.auditor.worlds.estimators.base import Asked, Limit, Rates, RuleAndLimit, Seen
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import event_epsilon
from fedrec_auditor.auditor.worlds.estimators.parts.counting import EventCounts, event_witness
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import FIRST, SECOND
from fedrec_auditor.auditor.worlds.estimators.parts.sample import split_size
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import selected
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class LikelihoodRatioEstimator(RuleAndLimit):
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
    source = "Clopper-Pearson on the event of a rule that other draws chose"

    def look(self, worlds: Worlds, asked: Asked, rng: np.random.Generator) -> Seen:
        """Outputs are numbers, booleans, strings, or arrays of them."""
        selecting, counting = rng.spawn(2)
        chosen = selected(worlds, asked, selecting)
        trials = chosen.left(worlds, asked.samples)
        table = chosen.counted(worlds, trials, counting.spawn(2)).sum(axis=0)
        events = [
            EventCounts(table[side, side], trials[side], table[1 - side, side], trials[1 - side])
            for side in (0, 1)
        ]

        n, m = trials
        best = [EventCounts(n, n, 0, m), EventCounts(m, m, 0, n)]

        def limit(alpha: float) -> Limit:
            epsilon, side = _shown(events, asked.delta, alpha)
            witness = None
            for rule, _ in chosen.rules:
                pair = chosen.pair if side == 0 else chosen.pair[::-1]
                event = f"{worlds.statistic} {rule.words((FIRST, SECOND)[side])}".strip()
                witness = event_witness(worlds, pair, event, events[side], alpha / 2)
            return Limit(epsilon, _shown(best, asked.delta, alpha)[0], witness)

        return Seen(chosen.drawn + sum(trials), limit)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``."""
        n = samples - split_size(samples)
        hits, misses = (n * rate for rate in rates)
        return float(event_epsilon(hits, n, misses, n, delta=delta, alpha=alpha / 2).max())


def _shown(events: Sequence[EventCounts], delta: float, alpha: float) -> tuple[float, int]:
    """The larger bound of two events that share the error, and of which."""
    return max(
        (float(event_epsilon(*counts, delta=delta, alpha=alpha / 2)), side)
        for side, counts in enumerate(events)
    )
