"""The event that shows a bound from guesses."""

from __future__ import annotations

from typing import Protocol

from fedrec_auditor.accountants.statements.bound import Witness
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import FIRST, SECOND
from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import GuessCounts


class Guesser(Protocol):
    """What guesses the world, and says in words where."""

    @property
    def sides(self) -> frozenset[int]:
        """The worlds that are ever guessed."""
        ...

    def words(self, side: int) -> str:
        """The outputs on which ``side`` is guessed, in words."""
        ...


def guess_witness(
    found: GuessCounts,
    rule: Guesser,
    names: tuple[str, str],
    drawn: tuple[int, int],
    statistic: str,
) -> Witness:
    """The side of a rule that was right more often, of worlds with these ``names``.

    ``drawn`` outputs of either were guessed on; ``statistic`` is what one output is, in words.
    """
    sides = [
        (found.first, FIRST, names, drawn),
        (found.second, SECOND, names[::-1], drawn[::-1]),
    ]
    (right, wrong), side, (one, other), (n, m) = max(
        (s for s in sides if s[1] in rule.sides), key=lambda s: (s[0][0] + 1) / (s[0][1] + 1)
    )
    more = (
        f"; {other} guessed on {rule.words(-side)} too, right {found.right} of "
        f"{found.right + found.wrong} times in all"
        if -side in rule.sides
        else ""
    )
    return Witness(
        input_a=one,
        input_b=other,
        output=f"{statistic}: {rule.words(side)}" if statistic else rule.words(side),
        probability_a=right / max(n, 1),
        probability_b=wrong / max(m, 1),
        note=f"shares seen: {right} of {n} draws against {wrong} of {m}{more}",
    )
