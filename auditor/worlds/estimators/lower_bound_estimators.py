"""Estimators of a lower bound on epsilon: by a decision rule, and at all thresholds of a score."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import check_confidence
from fedrec_auditor.auditor.worlds import guesses, selection
from fedrec_auditor.auditor.worlds.decision_rules import FIRST, SECOND
from fedrec_auditor.auditor.worlds.estimators import base
from fedrec_auditor.auditor.worlds.estimators.base import BoundResult, DrawPlan, EpsilonBound
from fedrec_auditor.auditor.worlds.guesses import GuessCounts, ThresholdLimits
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class JointBinomial(base.Estimator):
    """Estimator of a lower bound on epsilon from guesses of the input (world) behind each output.

    Some draws select decision rules, and the guesses of these rules are counted on the other draws.
    The bound holds at the stated confidence, for any outputs and any rule.

    1. Selection: a tenth of the draws of each world (at least 2,000, but at most half of the draws
       and at most 200,000) selects up to two rules that guess between two worlds, or abstain. With
       enough draws, a further tenth compares promising rules (``SelectionDraws.select_rules``).
    2. Test: a coin chooses the world of each further draw, and right and wrong guesses are counted
       (``GuessCounts``). The coin is fair if outputs are newly drawn. For stored outputs, it
       chooses a world with the probability of the world's share of the remaining outputs.
    3. Bound: a confidence limit is computed from the counts of each rule. The first rule has nine
       tenths of the error, the second rule one tenth (Bonferroni). The larger limit is the bound.

    A few stored outputs (``Worlds.stored_outputs``) remain unused, because coins choose how many
    outputs of each world are used.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.wrap(lambda p, rng, size: rng.random(size) < p).make_worlds([0.5, 0.9])
    >>> bound = JointBinomial().measure_bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.0, and in truth 1.6
    """

    reference = "joint binomial test of guesses, Clopper and Pearson 1934; rule from other samples"
    source = "a decision rule, selected on separate draws, guesses the input"

    def estimate(self, worlds: Worlds, request: DrawPlan, rng: np.random.Generator) -> BoundResult:
        """Selects decision rules on some outputs and counts their guesses on the remaining outputs.

        An output is a number, boolean, string or array. A guess names the input (world) that
        produced the output. Raises OutputShapeError if the shape of an output depends on the world.
        """
        selecting, counting, judging = rng.spawn(3)
        chosen = selection.select_rules(worlds, request, selecting, comparison_rng=judging)
        remaining = chosen.count_draws_left(worlds, request.samples)
        draws, first_prob = guesses.plan_draws_and_first_prob(worlds, remaining)
        choosing, *streams = counting.spawn(3)
        first = int(choosing.binomial(draws, first_prob))
        drawn, rules = (first, draws - first), chosen.rules_and_error_shares
        if worlds.stored_outputs and (first > remaining[0] or draws - first > remaining[1]):
            rules = ()
        tables = chosen.count_guesses(worlds, drawn, streams) if rules else ()
        counts = [
            GuessCounts.build(table, draws, first_prob, both=SECOND in rule.guessed_worlds)
            for table, (rule, _) in zip(tables, rules, strict=True)
        ]

        def compute_bound_per_rule(alpha: float) -> list[float]:
            """Computes the lower bound on epsilon by each rule; the rules share ``alpha``."""
            return [
                found.bound_epsilon(delta=request.delta, alpha=part * alpha)
                for found, (_, part) in zip(counts, rules, strict=True)
            ]

        witness = None
        if rules:
            best = int(np.argmax(compute_bound_per_rule(request.alpha)))
            rule, pair = rules[best][0], chosen.world_pair
            witness = selection.make_guess_witness(worlds, pair, rule, counts[best], drawn)
        all_right = GuessCounts.make_perfect(draws, first_prob)

        def compute_bound(alpha: float) -> EpsilonBound:
            """Computes the largest bound by the rules, at confidence 1 - ``alpha``."""
            error = (1.0 - selection.SECOND_RULE_ALPHA_SHARE) * alpha
            largest = all_right.bound_epsilon(delta=request.delta, alpha=error)
            return EpsilonBound(max(compute_bound_per_rule(alpha), default=0.0), largest, witness)

        return BoundResult(chosen.n_outputs_total + draws, compute_bound)

    def bound_by_perfect_guesses(self, samples: int, *, delta: float, alpha: float) -> float:
        """Returns the lower bound on epsilon that follows if a rule guesses the input of every
        output right.

        ``samples``: number of draws per input, including the draws that select the rule.
        ``delta``, ``alpha``: delta and error (1 minus confidence) of the bound.
        """
        alpha = (1.0 - selection.SECOND_RULE_ALPHA_SHARE) * alpha
        # The draws that select the rule (``plan_selection_size``) are not guessed. A measurement
        # may guess slightly more draws if outputs have very many entries, because memory limits the
        # draws that select the rule. It may guess slightly fewer if some draws compare several
        # rules.
        return super().bound_by_perfect_guesses(samples, delta=delta, alpha=alpha)

    def predict_bound(
        self, samples: int, rates: base.EventRates, *, delta: float, alpha: float
    ) -> float:
        """Predicts the lower bound on epsilon at ``delta`` by the best of k rules, if counts of
        guesses equal their expectation.

        ``samples``: number of draws per input.
        ``rates``: shares of right and of wrong guesses of each rule, two arrays (k,).
        ``alpha``: error of the bound, 1 minus its confidence, all of which is assigned to one rule.
        """
        draws = 2 * (samples - selection.plan_selection_size(samples))
        return guesses.predict_best_bound(draws, rates, delta, alpha)


@dataclass(frozen=True)
class AllThresholds(base.Estimator):
    """Estimator of a lower bound on epsilon from all thresholds of a score at once.

    The bound holds at the stated confidence for every threshold, epsilon and delta together. So it
    suits small numbers of scores: no draws are set aside to choose a threshold
    (``ThresholdLimits``). All scores are kept in memory, 8 bytes each.

    An output must be one of the following:

    - a single number (score);
    - a stored row of numbers. Some rows select a rule that guesses the world (input) of a row. Let
      A be the world with fewer remaining rows. A remaining row has the score 1 if the rule guesses
      A, and otherwise 0.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.wrap(lambda p, rng, size: rng.random(size) < p).make_worlds([0.5, 0.9])
    >>> bound = AllThresholds().measure_bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.3, and in truth 1.6
    """

    reference = "order statistics and Clopper and Pearson 1934, Bonferroni over ranks"
    source = "Clopper-Pearson at all thresholds"

    def estimate(self, worlds: Worlds, request: DrawPlan, rng: np.random.Generator) -> BoundResult:
        """Draws scores of each input (world), and returns the bound that ``ThresholdLimits`` give
        for them.

        The bound is the largest over all pairs of worlds.
        """
        sizes, delta, event = worlds.count_outputs(request.samples), request.delta, None
        if worlds.stored_outputs is not None and worlds.stored_outputs[0].ndim > 1:
            scores, event = _score_rows(worlds, request, rng)
        else:
            scores = selection.draw_scores(worlds, sizes, rng)
        pairs = list(itertools.combinations(range(len(scores)), 2))

        def compute_bound(alpha: float) -> EpsilonBound:
            """Computes the largest bound over all pairs of worlds, at confidence 1 - ``alpha``."""
            error = alpha / comb(len(scores), 2)
            bands = {(a, b): ThresholdLimits.fit(scores[a], scores[b], error) for a, b in pairs}
            pair, band = max(bands.items(), key=lambda found: found[1].bound_epsilon(delta))
            k = band.find_best_event_index(delta)
            words = band.describe_event(k)
            if event is not None:
                words = event if band.is_score_above[k] else f"not: {event}"
            return EpsilonBound(
                epsilon=band.bound_epsilon(delta),
                largest_possible=max(
                    guesses.find_attainable_epsilon(scores[a], scores[b], delta=delta, alpha=error)
                    for a, b in pairs
                ),
                witness=worlds.make_witness(
                    pair if band.is_p_in_first_world[k] else pair[::-1],
                    worlds.name_event(words),
                    (band.p_lower[k], band.q_upper[k]),
                    "the probabilities are confidence limits that hold at all thresholds together",
                ),
            )

        return BoundResult(sum(sizes), compute_bound)

    def predict_bound(
        self, samples: int, rates: base.EventRates, *, delta: float, alpha: float
    ) -> float:
        """Predicts the lower bound on epsilon at ``delta`` if counts of events equal their
        expectation.

        ``samples``: number of draws per input.
        ``rates``: probabilities of each event under the two inputs. A single event is scored 1 if
            it occurs and otherwise 0.
        ``alpha``: error of the bound, 1 minus its confidence.
        """
        by = guesses.predict_binary_bound if len(rates[0]) == 1 else guesses.predict_rank_bound
        return by(samples, samples, rates, delta=delta, alpha=alpha)

    def compute_limits(
        self, worlds: Worlds, *, confidence: float, samples: int, rng: np.random.Generator
    ) -> ThresholdLimits:
        """Draws scores of two worlds (inputs); returns limits of probabilities beyond thresholds.

        ``samples``: number of draws per world.
        ``confidence``: probability with which all limits hold together.

        The limits bound epsilon at every delta.
        """
        sizes = worlds.count_outputs(base.check_samples(samples))
        one, other = selection.draw_scores(worlds, sizes, rng)
        return ThresholdLimits.fit(one, other, 1 - check_confidence(confidence))


def _score_rows(
    worlds: Worlds, request: DrawPlan, rng: np.random.Generator
) -> tuple[list[NDArray[np.float64]], str]:
    """Returns scores (n,) and (m,) of stored rows in two worlds (inputs), and the event in words.

    The event is that a selected rule guesses the world with fewer rows; the score of a row is 1 if
    it occurs, and otherwise 0. Rows that select the rule get no score.
    """
    selecting, counting = rng.spawn(2)
    chosen = selection.select_rules(worlds, request, selecting)
    remaining = chosen.count_draws_left(worlds, request.samples)
    table = chosen.count_guesses(worlds, remaining, counting.spawn(2)).sum(axis=0)
    world = int(np.argmin(remaining))
    hits = table[:, world].tolist()
    words = [rule.describe((FIRST, SECOND)[world]) for rule, _ in chosen.rules_and_error_shares]
    scores = [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(hits, remaining, strict=True)]
    return scores, "".join(words)
