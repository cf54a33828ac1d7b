"""Which messages tell something: they move the model, by numbers that can be computed with.

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

from fedrec_auditor.attacks.parts.model_messages import OF_THE_MODEL, ModelMessages, model_messages
from fedrec_auditor.attacks.parts.uploads import blocks, kept, names
from fedrec_auditor.attacks.readers.noisy_rows import ROUNDS
from fedrec_auditor.targets.transcript import Kind, RoundView, Uploads, View

LARGEST = 1e13
"""The largest number that is read: a million million squares of it add up in single precision."""
_PROBED = 8  # rows in which most messages show that they move something


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """``view`` has the telling ones of ``sent`` messages.

    ``silent`` messages moved nothing, ``unusable`` ones held numbers above ``LARGEST``.
    """

    view: View
    sent: int
    silent: int
    unusable: int

    @property
    def left_out(self) -> str:
        """Which messages are left out, a sentence; empty where none is."""
        parts = [f"{self.silent:,} left the model as it was"] if self.silent else []
        parts += [f"{self.unusable:,} hold numbers above {LARGEST:g}"] if self.unusable else []
        return f"Left out of {self.sent:,} messages: {', '.join(parts)}." if parts else ""

    @property
    def nothing(self) -> str:
        """Why nothing can be read, a sentence; empty where a message is left."""
        return self.left_out if self.sent and self.silent + self.unusable == self.sent else ""


def telling(view: View) -> Told:
    """The view without messages that tell nothing; rounds without others have none.

    Linked messages are looked at, and whole ones in a random order; of parties, none.
    All rounds are searched for messages that move nothing, which a few rows of a message mostly
    answer. Numbers are looked at in the rounds that are read: one pass over their messages.
    """
    seen = replace(view, rounds=tuple(map(_numbered, view.rounds)))
    spoken, silent = _without(seen, partial(_silent, seen))
    read = {id(one) for name in names(spoken) for one, _, _ in kept(spoken, name, ROUNDS + 1)}
    usable, unusable = _without(spoken, lambda one: _unusable(one, look=id(one) in read))
    sent = sum(len(one.uploads.users) for one in seen.rounds if one.uploads is not None)
    rounds = tuple(map(_unnumbered, view.rounds, usable.rounds))
    return Told(view=replace(view, rounds=rounds), sent=sent, silent=silent, unusable=unusable)


def _numbered(one: RoundView) -> RoundView:
    """The round as if its shuffled messages were linked, by their places; reports are not whole."""
    if not one.shuffled or any(part.kind is Kind.REPORTS for part in one.shuffled.values()):
        return one
    places = np.arange(len(next(iter(one.shuffled.values()))))
    return replace(one, shuffled=None, uploads=Uploads(places, one.shuffled))


def _unnumbered(before: RoundView, one: RoundView) -> RoundView:
    """The round with its messages unlinked again, where ``before`` has them so."""
    if not before.shuffled or one.shuffled:
        return one
    left = None if one.uploads is None else one.uploads.components
    return replace(one, shuffled=left, uploads=None)


def _without(view: View, rule: Callable[[RoundView], NDArray[np.bool_]]) -> tuple[View, int]:
    """The view without the messages for which ``rule`` holds, and how many these are."""
    rounds, count = [], 0
    for one in view.rounds:
        out = np.zeros(0, dtype=np.bool_) if one.uploads is None else rule(one)
        if one.uploads is not None and out.any():
            count += int(out.sum())
            rest = np.flatnonzero(~out)
            parts = {name: part.take(rest) for name, part in one.uploads.components.items()}
            one = replace(
                one, uploads=Uploads(one.uploads.users[rest], parts) if len(rest) else None
            )
        rounds.append(one)
    return replace(view, rounds=tuple(rounds)), count


def _silent(view: View, one: RoundView) -> NDArray[np.bool_]:
    """Which messages of a round leave every part of the model as it was, (n,).

    None where a message says something else as well, by more than a number.
    """
    assert one.uploads is not None
    silent = np.ones(len(one.uploads.users), dtype=np.bool_)
    moving = model_messages(replace(view, rounds=(one,)))
    others = one.uploads.components.keys() - moving.keys()
    if not moving or any(one.uploads.components[name].shape for name in others):
        return ~silent
    for (part,) in sorted(moving.values(), key=lambda each: np.prod(each[0].component.shape)):
        silent[silent] = ~_moves(part, np.flatnonzero(silent))
    return silent


def _moves(part: ModelMessages, clients: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of ``clients`` move this part of the model, by its first rows or else by all."""
    moved = np.zeros(len(clients), dtype=np.bool_)
    shape = part.component.shape
    if shape and shape[0] > _PROBED:
        rows = np.broadcast_to(np.arange(_PROBED), (len(clients), _PROBED))
        first: NDArray[Any] = part.component.picked(clients, rows)
        model = part.component.kind is Kind.MODEL and part.base is not None
        moved = _any(first != (part.base[:_PROBED] if model and part.base is not None else 0))
    rest = np.flatnonzero(~moved)
    whole = ModelMessages(part.users[clients[rest]], part.component.take(clients[rest]), part.base)
    for block, _, entries in whole.changes():
        moved[rest[block]] = _any(entries)
    return moved


def _unusable(one: RoundView, *, look: bool) -> NDArray[np.bool_]:
    """Which messages of a round hold numbers that are too large, or none; (n,)."""
    assert one.uploads is not None
    out = np.zeros(len(one.uploads.users), dtype=np.bool_)
    for part in one.uploads.components.values():
        if look and part.kind in (*OF_THE_MODEL, Kind.RATINGS):
            for rows, sent in blocks(part):
                out[rows] |= _any(~(np.abs(sent) <= LARGEST))
    return out


def _any(entries: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether any entry of each message (n, ...) is true."""
    return np.asarray(entries.any(axis=tuple(range(1, entries.ndim))))
