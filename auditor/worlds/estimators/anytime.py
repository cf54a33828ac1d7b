"""A lower bound on epsilon that is looked at while draws come in, and stops when it is enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.worlds.estimators.base import Asked, Limit, Rates, RuleAndLimit, Seen
from fedrec_auditor.auditor.worlds.estimators.parts.counting import guess_witness
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import SECOND
from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import (
    GuessCounts,
    coin_tosses,
    expected_guesses,
)
from fedrec_auditor.auditor.worlds.estimators.parts.sample import split_size
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import selected
from fedrec_auditor.auditor.worlds.worlds import Worlds

_FIRST_LOOK = 2_000  # draws
_RATIO = 1.5  # of the draws of one look to those of the one before
_MOST_SPLIT = 20_000  # draws of each world choose the rule: few, for the others may end soon


@dataclass(frozen=True)
class Anytime(RuleAndLimit):
    """Holds at the stated confidence whenever it is stopped, for it paid for every look.

    As ``joint-binomial``, with one rule; but the guesses are counted again and again, after 2,000
    draws and then whenever half as many more are in. Look number j has the share 6 / (pi j)^2 of
    the error, so all bounds hold together, and the largest is given. Draws end at ``samples`` of
    each world, or at the first look whose bound is above ``above``, the epsilon of a claim that is
    so refuted, or within ``precision`` of the log-ratio of right to wrong guesses.
    """

    above: float = math.inf
    precision: float = 0.0
    reference = (
        "joint binomial test of guesses, Clopper and Pearson 1934, Bonferroni over looks; rule "
        "from other samples"
    )
    source = "guesses of the input, by a rule that other draws chose"

    def look(self, worlds: Worlds, asked: Asked, rng: np.random.Generator) -> Seen:
        """Outputs are numbers, booleans, strings, or arrays of them."""
        selecting, counting = rng.spawn(2)
        chosen = selected(worlds, asked, selecting, most=_MOST_SPLIT, tossed=True)
        left = np.array(worlds.sizes(asked.samples)[:2]) - chosen.spent
        most, share = coin_tosses(worlds, left.tolist())
        both = any(SECOND in rule.sides for rule, _ in chosen.rules)
        table, drawn = np.zeros((2, 2), dtype=np.int64), np.zeros(2, dtype=np.int64)
        looks: list[GuessCounts] = []

        def bound(alpha: float) -> float:
            return max(
                (
                    counts.epsilon(delta=asked.delta, alpha=_share(look) * alpha)
                    for look, counts in enumerate(looks, 1)
                ),
                default=0.0,
            )

        for total in _looks(most):
            stream, more = counting.spawn(1)[0], total - int(drawn.sum())
            first = int(stream.binomial(more, share))
            fresh = [first, more - first]
            if worlds.stored is not None and (drawn + fresh > left).any():
                break
            drawn += fresh
            table += chosen.counted(worlds, fresh, stream.spawn(2)).sum(axis=0)
            looks.append(GuessCounts.of(table, total, share, both=both))
            shown = bound(asked.alpha)
            if exceeds(shown, self.above) or _settled(looks[-1], shown, self.precision):
                break
        counts = looks[-1] if looks else GuessCounts.all_right(0)
        witness = None
        for rule, _ in chosen.rules:
            witness = guess_witness(worlds, chosen.pair, rule, counts, drawn.tolist())

        def limit(alpha: float) -> Limit:
            return Limit(bound(alpha), _largest(most, asked.delta, alpha, share), witness)

        return Seen(chosen.drawn + int(drawn.sum()), limit, f"; {len(looks)} looks paid")

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``."""
        draws = 2 * (samples - min(split_size(samples), _MOST_SPLIT))
        return max(
            expected_guesses(total, rates, delta, _share(look) * alpha)
            for look, total in enumerate(_looks(draws), 1)
        )


def _looks(most: int) -> Iterator[int]:
    """After how many draws to look, the last time after ``most``."""
    total = _FIRST_LOOK
    while total < most:
        yield total
        total = int(total * _RATIO)
    yield most


def _share(look: int) -> float:
    """Of the error, for the look of this number, from 1; all of them together have 1."""
    return 6 / (math.pi * look) ** 2


def _settled(counts: GuessCounts, bound: float, precision: float) -> bool:
    """Whether the ratio of right to wrong guesses is within ``precision`` of the bound."""
    return precision > 0 and counts.right < math.exp(bound + precision) * counts.wrong


def _largest(most: int, delta: float, alpha: float, share: float = 0.5) -> float:
    return max(
        GuessCounts.all_right(total, share).epsilon(delta=delta, alpha=_share(look) * alpha)
        for look, total in enumerate(_looks(most), 1)
    )
