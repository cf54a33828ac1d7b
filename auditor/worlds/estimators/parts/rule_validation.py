"""Fresh draws that judge the rules which a selection split proposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import (
    SECOND,
    DecisionRule,
    SampleBudget,
)
from fedrec_auditor.auditor.worlds.estimators.parts.rule_selection import SIMPLER
from fedrec_auditor.auditor.worlds.worlds import Worlds

_CLOSE = 0.05


class Contender(NamedTuple):
    """A rule that guesses between the worlds ``a`` and ``b``, and the bound to expect of it."""

    a: int
    b: int
    expected: float
    rule: DecisionRule


def simplest_best(contenders: Sequence[Contender]) -> Contender | None:
    """The one of which most is expected, an earlier one if that is about as much.

    One in values of entries is taken if it is expected to show so little less than another one.
    """
    best = _first_best(contenders)
    plain = _first_best([each for each in contenders if each.rule.statistic.plain])
    if best is None or plain is None:
        return best
    return plain if plain.expected >= best.expected * (1.0 - _CLOSE) > 0 else best


def _first_best(contenders: Sequence[Contender]) -> Contender | None:
    best: Contender | None = None
    for each in contenders:
        if best is None or each.expected > best.expected + SIMPLER * max(best.expected, 0.0):
            best = each
    return best


@dataclass(frozen=True, slots=True)
class RuleValidation:
    """``size`` draws of each world, from which no rule was made and of which none is counted.

    Where hundreds of cuts of dozens of statistics compete on one split, the rule that looks best
    is often the luckiest. On fresh draws few rules compete, each judged without bias.
    """

    worlds: Worlds
    size: int
    shape: tuple[int, ...]
    rng: np.random.Generator

    def judged(
        self, contenders: Sequence[Contender], *budgets: SampleBudget
    ) -> tuple[list[list[Contender]], int]:
        """The contenders with the bounds to expect after these draws, for each of ``budgets``.

        Also returned is how many outputs were drawn. Memory is that of a block.
        """
        counts = np.zeros((len(contenders), 2, 2))
        drawn = sorted({world for each in contenders for world in (each.a, each.b)})
        sizes = dict.fromkeys(drawn, self.size)
        for world, block in self.worlds.drawn(sizes, self.rng.spawn(len(drawn)), self.shape):
            for each, table in zip(contenders, counts, strict=True):
                if world in (each.a, each.b):
                    table[int(world == each.b)] += each.rule.count(block)
        judged = [
            [
                each._replace(
                    expected=float(
                        budget.expected_bound(
                            table[0, 0] + table[1, 1],
                            table[0, 1] + table[1, 0],
                            2.0 * self.size,
                            both=SECOND in each.rule.sides,
                        )
                    )
                )
                for each, table in zip(contenders, counts, strict=True)
            ]
            for budget in budgets
        ]
        return judged, self.size * len(drawn)
