"""A lower bound on epsilon from guesses of the world: one draw chooses a rule, another tests it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrec_auditor.auditor.worlds.estimators.base import Asked, Limit, Rates, RuleAndLimit, Seen
from fedrec_auditor.auditor.worlds.estimators.parts.counting import guess_witness
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import SECOND
from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import (
    GuessCounts,
    coin_tosses,
    expected_guesses,
)
from fedrec_auditor.auditor.worlds.estimators.parts.sample import split_size
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import RARE, selected
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class JointBinomial(RuleAndLimit):
    """Holds at the stated confidence, whatever the outputs are and whatever was learned of them.

    A tenth of the draws of each world (2,000 if that is more, half of them at most, 200,000 at
    most) proposes rules that guess between two worlds, or abstain. Where several look good and
    draws are many, a further tenth decides between them: the rule whose expected bound is largest.
    What is left of the draws of its two worlds is drawn afresh, a fair coin choosing the world of
    each output, and only counted: one rule and one limit, so no correction is owed
    (``GuessCounts``).

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
    source = "guesses of the input, by a rule that other draws chose"

    def look(self, worlds: Worlds, asked: Asked, rng: np.random.Generator) -> Seen:
        """Outputs are numbers, booleans, strings, or arrays of them.

        Raises UnevenOutputs if the shape of an output depends on the world.
        """
        selecting, counting, judging = rng.spawn(3)
        chosen = selected(worlds, asked, selecting, judging=judging)
        left = chosen.left(worlds, asked.samples)
        draws, share = coin_tosses(worlds, left)
        choosing, *streams = counting.spawn(3)
        first = int(choosing.binomial(draws, share))
        drawn, rules = (first, draws - first), chosen.rules
        if worlds.stored is not None and (first > left[0] or draws - first > left[1]):
            rules = ()
        tables = chosen.counted(worlds, drawn, streams) if rules else ()
        counts = [
            GuessCounts.of(table, draws, share, both=SECOND in rule.sides)
            for table, (rule, _) in zip(tables, rules, strict=True)
        ]

        def shown(alpha: float) -> list[float]:
            return [
                found.epsilon(delta=asked.delta, alpha=part * alpha)
                for found, (_, part) in zip(counts, rules, strict=True)
            ]

        witness = None
        if rules:
            best = int(np.argmax(shown(asked.alpha)))
            witness = guess_witness(worlds, chosen.pair, rules[best][0], counts[best], drawn)
        most = GuessCounts.all_right(draws, share)

        def limit(alpha: float) -> Limit:
            largest = most.epsilon(delta=asked.delta, alpha=(1.0 - RARE) * alpha)
            return Limit(max(shown(alpha), default=0.0), largest, witness)

        return Seen(chosen.drawn + draws, limit)

    def most(self, samples: int, *, delta: float, alpha: float) -> float:
        """The limit if every guess is right.

        Where the outputs are so wide that memory limits the selection split, a little more can be
        shown; where rules compete, a little less (see the class).
        """
        return super().most(samples, delta=delta, alpha=(1.0 - RARE) * alpha)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``; by the first of its rules alone."""
        return expected_guesses(2 * (samples - split_size(samples)), rates, delta, alpha)
