"""Estimators of a lower bound on epsilon: by a selected decision rule, and at all thresholds."""

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
    count_coin_tosses,
    epsilon_by_ranks,
    epsilon_of_binary,
    expected_joint_epsilon,
    largest_epsilon,
)
from fedrec_auditor.auditor.worlds.selection import (
    RARE_SHARE,
    draw_scores,
    guess_witness,
    select_rules,
    split_size,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class JointBinomial(Estimator):
    """A lower bound on epsilon from guesses of the world. Some draws select a rule, others test it.

    The bound holds at the stated confidence, for any outputs and any rule. A tenth of the draws of
    each world (at least 2,000, at most half of them, at most 200,000) proposes rules that guess
    between two worlds, or abstain. If several rules are promising and there are enough draws, a
    further tenth selects the rule with the largest expected bound. The rule is tested on the
    remaining draws of its two worlds. A fair coin chooses the world of each of these, and the
    guesses are counted. A single rule with a single limit needs no correction for multiple tests
    (``GuessCounts``).

    A second rule guesses on values that occurred in one of the two worlds only. It detects a leak
    in one output of ten thousand, which the first rule may ignore in favour of a frequent but
    harmless difference. If a competing rule has a larger expected bound without a margin for
    chance, that rule replaces the second one. The second rule is counted on the same draws, with a
    limit of its own at a tenth of the error; the first rule has nine tenths (Bonferroni). The
    larger bound is returned.

    A few stored scores remain unused, because a coin chooses how many of each world count.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.9])
    >>> bound = JointBinomial().bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.0, and in truth 1.6
    """

    reference = "joint binomial test of guesses, Clopper and Pearson 1934; rule from other samples"
    source = "guesses of the input by a decision rule that was selected on separate draws"

    def observe(self, worlds: Worlds, request: Request, rng: np.random.Generator) -> Observation:
        """Selects decision rules on some outputs and counts their guesses on the remaining outputs.

        An output is a number, boolean, string or array. Raises UnevenOutputs if the shape of an
        output depends on the world.
        """
        selecting, counting, judging = rng.spawn(3)
        chosen = select_rules(worlds, request, selecting, judging=judging)
        remaining = chosen.count_remaining(worlds, request.samples)
        draws, share = count_coin_tosses(worlds, remaining)
        choosing, *streams = counting.spawn(3)
        first = int(choosing.binomial(draws, share))
        drawn, rules = (first, draws - first), chosen.rules
        if worlds.stored is not None and (first > remaining[0] or draws - first > remaining[1]):
            rules = ()
        tables = chosen.guesses(worlds, drawn, streams) if rules else ()
        counts = [
            GuessCounts.of(table, draws, share, both=SECOND in rule.guessable)
            for table, (rule, _) in zip(tables, rules, strict=True)
        ]

        def bounds_of_rules(alpha: float) -> list[float]:
            return [
                found.epsilon(delta=request.delta, alpha=part * alpha)
                for found, (_, part) in zip(counts, rules, strict=True)
            ]

        witness = None
        if rules:
            best = int(np.argmax(bounds_of_rules(request.alpha)))
            witness = guess_witness(worlds, chosen.pair, rules[best][0], counts[best], drawn)
        all_right = GuessCounts.all_right(draws, share)

        def limit(alpha: float) -> Limit:
            largest = all_right.epsilon(delta=request.delta, alpha=(1.0 - RARE_SHARE) * alpha)
            return Limit(max(bounds_of_rules(alpha), default=0.0), largest, witness)

        return Observation(chosen.n_drawn + draws, limit)

    def largest_limit(self, samples: int, *, delta: float, alpha: float) -> float:
        """Returns the lower bound at error ``alpha`` if every guess is right.

        The actual bound can be slightly larger if outputs have very many entries, because memory
        then limits the number of outputs that select the rule. It can be slightly smaller if
        several rules are compared on further draws.
        """
        return super().largest_limit(samples, delta=delta, alpha=(1.0 - RARE_SHARE) * alpha)

    def expected_limit(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """Predicts the lower bound of the first rule alone, if counts equal their expectation.

        ``Estimator.expected_limit`` explains the arguments.
        """
        return expected_joint_epsilon(2 * (samples - split_size(samples)), rates, delta, alpha)


@dataclass(frozen=True)
class AllThresholds(Estimator):
    """A lower bound on epsilon from all thresholds of a score at once.

    The bound holds at the stated confidence for every threshold, epsilon and delta together.

    Outputs must be single numbers, or stored rows of numbers. No draws are set aside to choose a
    threshold. Instead, about two hundred ranks, fixed in advance, share the error
    (``ThresholdBand``). This suits small numbers of scores. The same limits also bound the whole
    privacy curve, delta as a function of epsilon (``curve``). All scores are kept in memory, 8
    bytes each.

    For rows of numbers, some rows select a rule that guesses the world, as in ``joint-binomial``.
    The score of a remaining row is 1 if the rule guesses the world with fewer rows, and otherwise
    0.

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

    def observe(self, worlds: Worlds, request: Request, rng: np.random.Generator) -> Observation:
        """Draws one score per output and bounds the probabilities of exceeding each threshold."""
        sizes, delta, event = worlds.n_outputs(request.samples), request.delta, None
        if worlds.stored is not None and worlds.stored[0].ndim > 1:
            scores, event = _guesses(worlds, request, rng)
        else:
            scores = draw_scores(worlds, sizes, rng)
        pairs = list(itertools.combinations(range(len(scores)), 2))

        def limit(alpha: float) -> Limit:
            error = alpha / comb(len(scores), 2)
            bands = {(a, b): ThresholdBand.of(scores[a], scores[b], error) for a, b in pairs}
            pair, band = max(bands.items(), key=lambda found: found[1].epsilon(delta))
            k = band.best_event(delta)
            words = band.describe(k)
            if event is not None:
                words = event if band.is_above[k] else f"not: {event}"
            return Limit(
                epsilon=band.epsilon(delta),
                largest=max(
                    largest_epsilon(scores[a], scores[b], delta=delta, alpha=error)
                    for a, b in pairs
                ),
                witness=worlds.make_witness(
                    pair if band.is_first[k] else pair[::-1],
                    worlds.describe_event(words),
                    (band.p_lower[k], band.q_upper[k]),
                    "the probabilities are confidence limits that hold at all thresholds together",
                ),
            )

        return Observation(sum(sizes), limit)

    def expected_limit(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """Predicts the lower bound if counts equal their expectation.

        ``Estimator.expected_limit`` explains the arguments. A single event is treated as a score of
        0 or 1, so its threshold is known in advance.
        """
        expected = epsilon_of_binary if len(rates[0]) == 1 else epsilon_by_ranks
        return expected(samples, samples, rates, delta=delta, alpha=alpha)

    def curve(
        self, worlds: Worlds, *, confidence: float, samples: int, rng: np.random.Generator
    ) -> ThresholdBand:
        """Draws scores of two worlds and returns confidence limits at all thresholds."""
        one, other = draw_scores(worlds, worlds.n_outputs(check_samples(samples)), rng)
        return ThresholdBand.of(one, other, 1 - check_confidence(confidence))


def _guesses(
    worlds: Worlds, request: Request, rng: np.random.Generator
) -> tuple[list[NDArray[np.float64]], str]:
    """Returns scores (n,) and (m,) of the remaining stored rows, and the event in words.

    A score is 1 if a rule, selected on separate rows, guesses the world with fewer rows.
    """
    selecting, counting = rng.spawn(2)
    chosen = select_rules(worlds, request, selecting)
    remaining = chosen.count_remaining(worlds, request.samples)
    table = chosen.guesses(worlds, remaining, counting.spawn(2)).sum(axis=0)
    world = int(np.argmin(remaining))
    hits = table[:, world].tolist()
    words = [rule.describe((FIRST, SECOND)[world]) for rule, _ in chosen.rules]
    scores = [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(hits, remaining, strict=True)]
    return scores, "".join(words)
