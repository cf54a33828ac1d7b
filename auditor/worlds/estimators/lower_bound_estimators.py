"""Lower bounds on epsilon from draws of worlds: by guesses of a rule, and at all thresholds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import check_confidence
from fedrec_auditor.auditor.worlds.decision_rules import FIRST, SECOND
from fedrec_auditor.auditor.worlds.estimators.base import (
    Estimator,
    Limit,
    Observation,
    Rates,
    Request,
    check_samples,
)
from fedrec_auditor.auditor.worlds.guesses import (
    GuessCounts,
    ThresholdBand,
    coin_tosses,
    epsilon_by_ranks,
    epsilon_of_answers,
    expected_guesses,
    largest_epsilon,
)
from fedrec_auditor.auditor.worlds.selection import (
    RARE,
    draw_scores,
    guess_witness,
    select_rules,
    split_size,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class JointBinomial(Estimator):
    """A lower bound on epsilon from guesses of the world: a draw chooses a rule, another tests it.

    It holds at the stated confidence, whatever the outputs are and whatever was learned of them. A
    tenth of the draws of each world (2,000 if that is more, half of them at most, 200,000 at most)
    proposes rules that guess between two worlds, or abstain. Where several look good and
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

    def look(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """Outputs are numbers, booleans, strings, or arrays of them.

        Raises UnevenOutputs if the shape of an output depends on the world.
        """
        selecting, counting, judging = rng.spawn(3)
        chosen = select_rules(worlds, asked, selecting, judging=judging)
        left = chosen.left(worlds, asked.samples)
        draws, share = coin_tosses(worlds, left)
        choosing, *streams = counting.spawn(3)
        first = int(choosing.binomial(draws, share))
        drawn, rules = (first, draws - first), chosen.rules
        if worlds.stored is not None and (first > left[0] or draws - first > left[1]):
            rules = ()
        tables = chosen.guesses(worlds, drawn, streams) if rules else ()
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

        return Observation(chosen.drawn + draws, limit)

    def most(self, samples: int, *, delta: float, alpha: float) -> float:
        """The limit if every guess is right.

        Where the outputs are so wide that memory limits the selection split, a little more can be
        shown; where rules compete, a little less (see the class).
        """
        return super().most(samples, delta=delta, alpha=(1.0 - RARE) * alpha)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``Estimator``; by the first of its rules alone."""
        return expected_guesses(2 * (samples - split_size(samples)), rates, delta, alpha)


@dataclass(frozen=True)
class AllThresholds(Estimator):
    """A lower bound on epsilon from all thresholds of a score at once, and the whole privacy curve.

    It holds at the stated confidence for every threshold, epsilon and delta together.

    For worlds whose outputs are one number each, or stored rows of numbers. No draws are set aside
    to choose a threshold: some two hundred ranks, fixed in advance, share the error
    (``ThresholdBand``). That suits few scores, and the same limits bound the whole curve of delta
    over epsilon (``curve``). All scores are kept, 8 bytes each.

    Of rows of numbers some, as for ``joint-binomial``, choose a rule that guesses the world. The
    score of another row is then 1 where it guesses the world of which there are fewer, else 0.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.9])
    >>> bound = AllThresholds().bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.3, and in truth 1.6
    """

    reference = "order statistics and Clopper and Pearson 1934, Bonferroni over ranks"
    source = "Clopper-Pearson at all thresholds"

    def look(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """All scores, in no order; an output is one number, which may be infinite."""
        sizes, delta, event = worlds.sizes(asked.samples), asked.delta, None
        if worlds.stored is not None and worlds.stored[0].ndim > 1:
            scores, event = _guesses(worlds, asked, rng)
        else:
            scores = draw_scores(worlds, sizes, rng)
        pairs = list(itertools.combinations(range(len(scores)), 2))

        def limit(alpha: float) -> Limit:
            error = alpha / comb(len(scores), 2)
            bands = {(a, b): ThresholdBand.of(scores[a], scores[b], error) for a, b in pairs}
            pair, band = max(bands.items(), key=lambda found: found[1].epsilon(delta))
            k = band.best(delta)
            words = band.words(k)
            if event is not None:
                words = event if band.above[k] else f"not: {event}"
            return Limit(
                epsilon=band.epsilon(delta),
                largest=max(
                    largest_epsilon(scores[a], scores[b], delta=delta, alpha=error)
                    for a, b in pairs
                ),
                witness=worlds.witness(
                    pair if band.first[k] else pair[::-1],
                    worlds.said(words),
                    (band.low[k], band.high[k]),
                    "the probabilities are limits that hold at all thresholds together",
                ),
            )

        return Observation(sum(sizes), limit)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``Estimator``; a single event is one of two answers, so its threshold is known."""
        expected = epsilon_of_answers if len(rates[0]) == 1 else epsilon_by_ranks
        return expected(samples, samples, rates, delta=delta, alpha=alpha)

    def curve(
        self, worlds: Worlds, *, confidence: float, samples: int, rng: np.random.Generator
    ) -> ThresholdBand:
        """The band over all epsilon and delta of two worlds, see ``ThresholdBand``."""
        one, other = draw_scores(worlds, worlds.sizes(check_samples(samples)), rng)
        return ThresholdBand.of(one, other, 1 - check_confidence(confidence))


def _guesses(
    worlds: Worlds, asked: Request, rng: np.random.Generator
) -> tuple[list[NDArray[np.float64]], str]:
    """Whether a rule that other stored rows chose guesses the rarer world; and the guess in words.

    Scores (n,) and (m,) of zeros and ones, one for each row that chose nothing.
    """
    selecting, counting = rng.spawn(2)
    chosen = select_rules(worlds, asked, selecting)
    left = chosen.left(worlds, asked.samples)
    table = chosen.guesses(worlds, left, counting.spawn(2)).sum(axis=0)
    world = int(np.argmin(left))
    hits = table[:, world].tolist()
    words = [rule.words((FIRST, SECOND)[world]) for rule, _ in chosen.rules]
    scores = [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(hits, left, strict=True)]
    return scores, "".join(words)
