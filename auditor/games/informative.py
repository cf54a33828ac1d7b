"""Which messages inform: they move the model, by numbers that can be computed with.

A device that returns the model as it came says nothing. Where a training has broken down nearly all
do, and averaged in they would hide what the others say. A number whose square leaves single
precision, be it one hostile client's, would end the reading of all messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import (
    OF_THE_MODEL,
    ModelMessages,
    blocks,
    kept,
    model_messages,
    names,
)
from fedrec_auditor.attacks.readers.noisy_rows import ROUNDS
from fedrec_auditor.targets.transcript import Kind, RoundView, Uploads, View

LARGEST = 1e13
"""The largest number that is read: a million million squares of it add up in single precision."""
_PROBED = 8  # rows in which most messages show that they move something


@dataclass(frozen=True, slots=True, kw_only=True)
class Informative:
    """``view`` has those of ``sent`` messages that inform.

    ``empty`` messages moved nothing, ``oversized`` ones held numbers above ``LARGEST``,
    infinities or NaN.
    """

    view: View
    sent: int
    empty: int
    oversized: int

    @property
    def left_out(self) -> str:
        """Which messages are left out, a sentence; empty where none is."""
        parts = [f"{self.empty:,} left the model as it was"] if self.empty else []
        parts += (
            [f"{self.oversized:,} hold numbers above {LARGEST:g} or NaN"] if self.oversized else []
        )
        return f"Left out of {self.sent:,} messages: {', '.join(parts)}." if parts else ""

    @property
    def refusal(self) -> str:
        """Why nothing can be read, a sentence; empty where a message is left or none was sent."""
        return self.left_out if self.sent and self.empty + self.oversized == self.sent else ""


def informative(view: View, unread: int = 0) -> Informative:
    """The view without messages that say nothing; rounds without others have none.

    Linked messages are looked at, and whole ones in a random order; of parties, none. All rounds
    are searched for empty messages, which a few rows of a message mostly answer. Numbers are looked
    at in the rounds that are read: one pass over their messages, if one can be too large. NaN or
    infinities are in ``unread`` ones, which the view lacks already.
    """
    linked = replace(view, rounds=tuple(map(_numbered, view.rounds)))
    filled, empty = _without(linked, partial(_empty, linked))
    read = {id(part) for name in names(filled) for part, _, _ in kept(filled, name, ROUNDS + 1)}

    def too_large(seen: RoundView) -> NDArray[np.bool_]:
        if seen.uploads is None or id(seen) not in read:
            return np.zeros(0, dtype=np.bool_)
        return oversized(seen.uploads)

    usable, large = _without(filled, too_large)
    sent = sum(len(part.uploads.users) for part in linked.rounds if part.uploads is not None)
    unread = unread if sent else 0
    return Informative(
        view=replace(view, rounds=tuple(map(_unnumbered, view.rounds, usable.rounds))),
        sent=sent + unread,
        empty=empty,
        oversized=large + unread,
    )


def _numbered(seen: RoundView) -> RoundView:
    """The round as if its shuffled messages were linked, by their places; reports are not whole."""
    if not seen.shuffled or any(part.kind is Kind.REPORTS for part in seen.shuffled.values()):
        return seen
    places = np.arange(len(next(iter(seen.shuffled.values()))))
    return replace(seen, shuffled=None, uploads=Uploads(places, seen.shuffled))


def _unnumbered(before: RoundView, after: RoundView) -> RoundView:
    """The round ``after`` with its messages unlinked again, where ``before`` has them so."""
    if not before.shuffled or after.shuffled:
        return after
    left = None if after.uploads is None else after.uploads.components
    return replace(after, shuffled=left, uploads=None)


def _without(view: View, rule: Callable[[RoundView], NDArray[np.bool_]]) -> tuple[View, int]:
    """The view without the linked messages for which ``rule`` holds, and how many these are."""
    rounds, count = list(view.rounds), 0
    for place, seen in enumerate(view.rounds):
        if seen.uploads is None or not (out := rule(seen)).any():
            continue
        rest = np.flatnonzero(~out)
        parts = {name: part.take(rest) for name, part in seen.uploads.components.items()}
        left = Uploads(seen.uploads.users[rest], parts) if len(rest) else None
        rounds[place], count = replace(seen, uploads=left), count + len(out) - len(rest)
    return replace(view, rounds=tuple(rounds)), count


def _empty(view: View, seen: RoundView) -> NDArray[np.bool_]:
    """Which messages of a round leave every part of the model as it was, (n,).

    None where messages say something else as well, by more than a number.
    """
    assert seen.uploads is not None
    components = seen.uploads.components
    empty = np.ones(len(seen.uploads.users), dtype=np.bool_)
    moving = model_messages(replace(view, rounds=(seen,)))
    if not moving or any(components[name].shape for name in components.keys() - moving.keys()):
        return ~empty
    for (part,) in sorted(moving.values(), key=lambda parts: np.prod(parts[0].component.shape)):
        empty[empty] = ~_moves(part, np.flatnonzero(empty))
    return empty


def _moves(part: ModelMessages, clients: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of ``clients`` move this part of the model, by its first rows or else by all."""
    moved = np.zeros(len(clients), dtype=np.bool_)
    component, still = part.component, np.zeros(1)
    if component.shape and component.shape[0] > _PROBED:
        rows = np.broadcast_to(np.arange(_PROBED), (len(clients), _PROBED))
        if component.kind is Kind.MODEL:
            assert part.base is not None
            still = part.base[:_PROBED]
        moved = _any(component.picked(clients, rows) != still)
    rest = np.flatnonzero(~moved)
    whole = ModelMessages(part.users[clients[rest]], component.take(clients[rest]), part.base)
    for block, _, entries in whole.changes():
        moved[rest[block]] = _any(entries)
    return moved


def oversized(uploads: Uploads) -> NDArray[np.bool_]:
    """Flags (n,) of messages that hold numbers which are too large, or NaN."""
    out = np.zeros(len(uploads.users), dtype=np.bool_)
    for part in uploads.components.values():
        if part.kind in (*OF_THE_MODEL, Kind.RATINGS) and part.largest() > LARGEST:
            for rows, sent in blocks(part):
                out[rows] |= _any(~(np.abs(sent) <= LARGEST))
    return out


def _any(entries: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether any entry of each message (n, ...) is true."""
    return np.asarray(entries.any(axis=tuple(range(1, entries.ndim))))
