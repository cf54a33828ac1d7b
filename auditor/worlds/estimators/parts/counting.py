"""Counts on draws that chose nothing, and the events that they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Witness
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import FIRST, SECOND
from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import GuessCounts
from fedrec_auditor.auditor.worlds.worlds import Worlds


class Guesser(Protocol):
    """What guesses the world of an output, or abstains."""

    @property
    def sides(self) -> frozenset[int]:
        """The worlds that are ever guessed: FIRST, SECOND, or both."""
        ...

    def count(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """How many outputs are guessed to be of the first world, and of the second: (2,)."""
        ...

    def words(self, side: int) -> str:
        """The outputs on which ``side`` is guessed, in words."""
        ...


def counted(
    worlds: Worlds,
    rules: Sequence[tuple[int, int, Guesser]],
    sizes: Mapping[int, int],
    streams: Sequence[np.random.Generator],
    shape: tuple[int, ...],
) -> NDArray[np.int64]:
    """Guesses of each of the rules between two worlds, (rules, world, world guessed).

    So many outputs of each world are drawn, in blocks, whose memory this is.
    """
    tables = np.zeros((len(rules), 2, 2), dtype=np.int64)
    for world, block in worlds.drawn(sizes, streams, shape):
        for (a, b, rule), table in zip(rules, tables, strict=True):
            if world in (a, b):
                table[int(world == b)] += rule.count(block)
    return tables


def guess_witness(
    worlds: Worlds, pair: tuple[int, int], rule: Guesser, found: GuessCounts, drawn: Sequence[int]
) -> Witness:
    """The side of a rule that was right more often; so many of either world were ``drawn``."""
    (right, wrong), side, (one, other), (n, m) = max(
        (
            (found.first, FIRST, pair, (drawn[0], drawn[1])),
            (found.second, SECOND, pair[::-1], (drawn[1], drawn[0])),
        ),
        key=lambda s: (s[1] in rule.sides, (s[0][0] + 1) / (s[0][1] + 1)),
    )
    note = f"shares seen: {right} of {n} draws against {wrong} of {m}"
    if -side in rule.sides:
        note += (
            f"; {worlds.names[other]} guessed on {rule.words(-side)} too, right {found.right} of "
            f"{found.right + found.wrong} times in all"
        )
    chances = right / max(n, 1), wrong / max(m, 1)
    return worlds.witness((one, other), worlds.said(rule.words(side)), chances, note)
