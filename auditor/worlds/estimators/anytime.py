"""A lower bound on epsilon that is looked at while draws come in, and stops when it is enough."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedrec_auditor.accountants.statements.bound import (
    Bound,
    Side,
    check_confidence,
    check_delta,
)
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.worlds.estimators.base import Estimator, check_samples
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import SECOND, SampleBudget
from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import GuessCounts, tosses
from fedrec_auditor.auditor.worlds.estimators.parts.guess_witness import guess_witness
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import (
    SelectionSplit,
    split_size,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds

_FIRST_LOOK = 2_000  # draws
_RATIO = 1.5  # of the draws of one look to those of the one before
_MOST_SPLIT = 20_000


@dataclass(frozen=True)
class Anytime(Estimator):
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
        errors = [1 - check_confidence(confidence) for confidence in confidences]
        selecting, counting = rng.spawn(2)
        sizes = worlds.sizes(check_samples(samples))
        split = SelectionSplit.drawn(worlds, _split_size(min(sizes)), selecting)
        left = np.array(sizes[:2]) - split.size
        most, share = (2 * int(left[0]), 0.5) if worlds.stored is None else tosses(*left.tolist())
        chosen = split.choose(SampleBudget(draws=most, delta=delta, alpha=errors[0]))
        a, b = (chosen.a, chosen.b) if chosen else (0, 1)
        rule = chosen.rule if chosen else None
        used, shape = split.size * len(worlds.names), split.shape
        del split
        table, drawn = np.zeros((2, 2), dtype=np.int64), np.zeros(2, dtype=np.int64)
        best = np.zeros(len(errors))
        look, counts = 0, GuessCounts.all_right(0)
        for look, total in enumerate(_looks(most), 1):
            stream = counting.spawn(1)[0]
            more = total - int(drawn.sum())
            first = int(stream.binomial(more, share))
            asked = {a: first, b: more - first}
            if worlds.stored is not None and (drawn + list(asked.values()) > left).any():
                break
            drawn += list(asked.values())
            for world, block in worlds.drawn(asked, stream.spawn(2), shape):
                if rule is not None:
                    table[int(world == b)] += rule.count(block)
            counts = GuessCounts(
                draws=total,
                first=(int(table[0, 0]), int(table[1, 0])),
                second=(int(table[1, 1]), int(table[0, 1])),
                both=rule is not None and SECOND in rule.sides,
                share=share,
            )
            shown = [counts.epsilon(delta=delta, alpha=_share(look) * error) for error in errors]
            best = np.maximum(best, shown)
            if exceeds(best[0], self.above) or _settled(counts, best[0], self.precision):
                break
        names = worlds.names[a], worlds.names[b]
        return tuple(
            Bound(
                epsilon=epsilon,
                delta=delta,
                side=Side.LOWER,
                scope=worlds.scope,
                source=f"guesses of the input, by a rule that other draws chose; {look} looks paid",
                confidence=1 - error,
                samples=used + int(drawn.sum()),
                largest=_largest(most, delta, error, share),
                witness=None
                if rule is None
                else guess_witness(
                    counts, rule, names, (int(drawn[0]), int(drawn[1])), worlds.statistic
                ),
            )
            for epsilon, error in zip(best.tolist(), errors, strict=True)
        )

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """The bound if every guess is right at every look."""
        split = _split_size(check_samples(samples))
        return _largest(2 * (samples - split), check_delta(delta), 1 - check_confidence(confidence))


def _split_size(samples: int) -> int:
    """How many draws of each world choose the rule: few, for the others may end soon."""
    return min(split_size(samples), _MOST_SPLIT)


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
