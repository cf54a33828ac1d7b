"""Notes of several findings, each sentence said once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_END = re.compile(r"(?<=[.!?]) +(?=[A-Z'])")


@dataclass(frozen=True, slots=True)
class Remark:
    """What a note says that none before it said; ``earlier`` are the notes that said the rest."""

    words: str
    earlier: tuple[int, ...] = ()


def remarks(notes: Sequence[str]) -> tuple[Remark, ...]:
    """The notes in their order without what an earlier one said.

    >>> remarks(["Sent once. It adds up.", "It adds up."])
    (Remark(words='Sent once. It adds up.', earlier=()), Remark(words='', earlier=(0,)))
    """
    first: dict[str, int] = {}
    found = []
    for place, note in enumerate(notes):
        sentences = list(filter(None, _END.split(note)))
        new = [sentence for sentence in sentences if sentence not in first]
        earlier = sorted({first[sentence] for sentence in sentences if sentence in first})
        first |= dict.fromkeys(new, place)
        found.append(Remark(" ".join(new), tuple(earlier)))
    return tuple(found)
