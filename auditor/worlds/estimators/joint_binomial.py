"""A lower bound on epsilon from guesses of the world: one draw chooses a rule, another tests it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import (
    Bound,
    Side,
    check_confidence,
    check_delta,
)
from fedrec_auditor.auditor.worlds.estimators.base import Estimator, check_samples
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import (
    SECOND,
    DecisionRule,
    SampleBudget,
)
from fedrec_auditor.auditor.worlds.estimators.parts.exclusive_values import ExclusiveRule
from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import GuessCounts, tosses
from fedrec_auditor.auditor.worlds.estimators.parts.guess_witness import guess_witness
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import (
    RARE,
    SelectionSplit,
    split_size,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class JointBinomial(Estimator):
    """Holds at the stated confidence, whatever the outputs are and whatever was learned of them.

    A tenth of the draws of each world (2,000 if that is more, half of them at most, 200,000 at
    most) proposes rules that guess between two worlds, or abstain. Where several look good and
    draws are many, a further tenth decides between them (``RuleValidation``): the rule whose
    expected bound is largest. What is left of the draws of its two worlds is drawn afresh, a fair
    coin choosing the world of each output, and only counted: one rule and one limit, so no
    correction is owed (``GuessCounts``).

    A second rule guesses where a value shows that the split saw in one of the two worlds only: a
    leak of one output in ten thousand, which a harmless larger ratio would hide. Where more is to
    be expected of the boldest of the competing rules, it takes that one's place. It is counted on
    the same draws with a limit of its own at a tenth of the error; the first one keeps nine tenths
    (Bonferroni), and the larger bound is given.

    Of scores that were saved, a few are left over, for a coin chooses how many of each world count.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.9])
    >>> bound = JointBinomial().bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.0, and in truth 1.6
    """

    reference = "joint binomial test of guesses, Clopper and Pearson 1934; rule from other samples"

    def bounds(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidences: Sequence[float],
        samples: int,
        rng: np.random.Generator,
    ) -> tuple[Bound, ...]:
        """See ``Estimator``; outputs are numbers, booleans, strings, or arrays of them.

        Raises UnevenOutputs if the shape of an output depends on the world.
        """
        check_delta(delta)
        alpha = 1 - check_confidence(confidences[0])
        selecting, counting, judging = rng.spawn(3)
        sizes = worlds.sizes(check_samples(samples))
        split = SelectionSplit.drawn(worlds, split_size(min(sizes)), selecting)
        budget = SampleBudget(draws=2 * (min(sizes) - split.size), delta=delta, alpha=alpha)
        a, b, *rules, judged, size = split.select(budget, worlds, judging)
        left = [sizes[world] - split.size - size for world in (a, b)]
        draws, share = (sum(left), 0.5) if worlds.stored is None else tosses(*left)
        used, shape = split.size * len(worlds.names) + judged + draws, split.shape
        del split
        choosing, *streams = counting.spawn(3)
        first = int(choosing.binomial(draws, share))
        drawn = (first, draws - first)
        enough = worlds.stored is None or (first <= left[0] and draws - first <= left[1])
        limits = [
            _Limit(rule, error)
            for rule, error in zip(rules, (1.0 - RARE, RARE), strict=True)
            if rule and enough
        ]
        counts = np.zeros((len(limits), 2, 2), dtype=np.int64)
        fresh = dict(zip((a, b), drawn, strict=True))
        for world, block in worlds.drawn(fresh, streams, shape) if limits else ():
            for limit, table in zip(limits, counts, strict=True):
                table[int(world == b)] += limit.rule.count(block)
        limits = [
            limit.of(table, draws, share) for limit, table in zip(limits, counts, strict=True)
        ]
        most = GuessCounts.all_right(draws, share)
        names = worlds.names[a], worlds.names[b]
        best = max(limits, key=lambda each: each.epsilon(delta, alpha), default=None)
        witness = None
        if best is not None:
            witness = guess_witness(best.counts, best.rule, names, drawn, worlds.statistic)
        return tuple(
            Bound(
                epsilon=max(
                    (each.epsilon(delta, 1 - check_confidence(confidence)) for each in limits),
                    default=0.0,
                ),
                delta=delta,
                side=Side.LOWER,
                scope=worlds.scope,
                source="guesses of the input, by a rule that other draws chose",
                confidence=confidence,
                samples=used,
                largest=most.epsilon(delta=delta, alpha=(1.0 - RARE) * (1 - confidence)),
                witness=witness,
            )
            for confidence in confidences
        )

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """The bound if every guess is right: see ``Estimator``.

        Where the outputs are so wide that memory limits the selection split, a little more can be
        shown; where rules compete, a little less (see the class).
        """
        check_delta(delta)
        draws = 2 * (samples - split_size(check_samples(samples)))
        return GuessCounts.all_right(draws).epsilon(
            delta=delta, alpha=(1.0 - RARE) * (1 - check_confidence(confidence))
        )


@dataclass(frozen=True, slots=True)
class _Limit:
    """A rule, its part of the error, and what came of it."""

    rule: DecisionRule | ExclusiveRule
    error: float
    counts: GuessCounts = field(default_factory=lambda: GuessCounts.all_right(0))

    def of(self, table: NDArray[np.int64], draws: int, share: float) -> _Limit:
        """With guesses of (first, second) under either world, (2, 2); ``share`` is the coin's."""
        counts = GuessCounts(
            draws=draws,
            first=(int(table[0, 0]), int(table[1, 0])),
            second=(int(table[1, 1]), int(table[0, 1])),
            both=SECOND in self.rule.sides,
            share=share,
        )
        return replace(self, counts=counts)

    def epsilon(self, delta: float, alpha: float) -> float:
        """The bound where ``alpha`` is the error of all rules together."""
        return self.counts.epsilon(delta=delta, alpha=self.error * alpha)
