"""Removes messages that leave the model unchanged or contain unusable numbers, before an attack
sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import uploads as parts_uploads
from fedrec_auditor.attacks.readers.noisy_rows import MAX_MESSAGES_PER_USER
from fedrec_auditor.targets.transcript import Payload, RoundView, Uploads, View

# Maximum absolute value of a usable number. The sum of 10^12 squares fits single precision.
MAX_USABLE_NUMBER = 1e13
_N_PROBED = 8  # number of first rows that are checked before all rows are


@dataclass(frozen=True, slots=True, kw_only=True)
class InformativeView:
    """A view (messages that the adversary sees) without useless messages, and counts of the removed
    messages.

    ``view``: the view.
    ``n_messages``: number of messages before the removal.
    ``n_no_effect``: number of removed messages that left the model unchanged.
    ``n_oversized``: number of removed messages with numbers above ``MAX_USABLE_NUMBER``, infinities
        or NaN.
    """

    view: View
    n_messages: int
    n_no_effect: int
    n_oversized: int

    @property
    def removal_note(self) -> str:
        """Sentence that counts the removed messages; empty if no message was removed."""
        parts = [f"{self.n_no_effect:,} without effect on the model"] if self.n_no_effect else []
        if self.n_oversized:
            parts.append(f"{self.n_oversized:,} with numbers above {MAX_USABLE_NUMBER:g} or NaN")
        text = f"Attacks skip messages (of {self.n_messages:,}): {' and '.join(parts)}."
        return text if parts else ""

    @property
    def refusal(self) -> str:
        """Sentence that says why an attack can read nothing; empty unless all messages were
        removed.
        """
        return (
            self.removal_note
            if self.n_messages and self.n_no_effect + self.n_oversized == self.n_messages
            else ""
        )


def filter_view(view: View, n_removed_before: int = 0) -> InformativeView:
    """Removes messages that leave the model unchanged or contain unusable numbers.

    ``view``: the messages that the adversary sees.
    ``n_removed_before``: number of messages that were removed from ``view`` before, because of NaN
        or infinities. The counts in the result include them.

    Only messages linked to users, and shuffled messages that are not split into parts, are checked.
    Numbers are checked only in rounds that attacks read. If all messages of a round are removed,
    the field with its messages is None.
    """
    # A client that returns the model unchanged reveals nothing. If a training has diverged, nearly
    # all clients do so, and in averages these messages would hide the content of all others. A
    # number whose square exceeds single precision, even from one hostile client, would make all
    # messages unreadable. Messages of parties (organisations that take part as clients) are not
    # checked.
    linked = replace(view, rounds=tuple(map(_link, view.rounds)))
    filled, empty = _drop_messages(linked, partial(_flag_empty, linked))
    # Messages with unusable numbers are removed only from the rounds that attacks read.
    read = {
        id(part)
        for name in parts_uploads.list_linked_components(filled)
        for part, _, _ in parts_uploads.select_rounds(filled, name, MAX_MESSAGES_PER_USER + 1)
    }

    def is_too_large(seen: RoundView) -> NDArray[np.bool_]:
        """Whether each message of a round has a number whose square exceeds single precision (n,);
        empty for rounds that no attack reads.
        """
        if seen.uploads is None or id(seen) not in read:
            return np.zeros(0, dtype=np.bool_)
        return flag_oversized(seen.uploads)

    usable, large = _drop_messages(filled, is_too_large)
    sent = sum(len(part.uploads.users) for part in linked.rounds if part.uploads is not None)
    n_removed_before = n_removed_before if sent else 0
    return InformativeView(
        view=replace(view, rounds=tuple(map(_unlink, view.rounds, usable.rounds))),
        n_messages=sent + n_removed_before,
        n_no_effect=empty,
        n_oversized=large + n_removed_before,
    )


def _link(seen: RoundView) -> RoundView:
    """Labels the shuffled messages of a round with their positions, as if these were users.

    A round is not changed if it has no shuffled messages, or if they are reports (randomized
    coordinates of a gradient).
    """
    if not seen.shuffled or any(part.kind is Payload.REPORTS for part in seen.shuffled.values()):
        return seen
    places = np.arange(len(next(iter(seen.shuffled.values()))))
    return replace(seen, shuffled=None, uploads=Uploads(places, seen.shuffled))


def _unlink(before: RoundView, after: RoundView) -> RoundView:
    """Undoes ``_link``: turns the labelled messages of the round ``after`` into shuffled messages
    again.

    ``before``: the round before it was labelled. If it has no shuffled messages, ``after`` is
        returned.
    """
    if not before.shuffled or after.shuffled:
        return after
    shuffled = None if after.uploads is None else after.uploads.components
    return replace(after, shuffled=shuffled, uploads=None)


def _drop_messages(view: View, rule: Callable[[RoundView], NDArray[np.bool_]]) -> tuple[View, int]:
    """Removes the linked messages for which ``rule`` is true; returns the view and the number of
    removed messages.

    ``rule``: function of a round that returns whether each of its messages is to be removed.
    """
    rounds, count = list(view.rounds), 0
    for place, seen in enumerate(view.rounds):
        if seen.uploads is None or not (out := rule(seen)).any():
            continue
        rest = np.flatnonzero(~out)
        parts = {name: part.take(rest) for name, part in seen.uploads.components.items()}
        uploads = Uploads(seen.uploads.users[rest], parts) if len(rest) else None
        rounds[place], count = replace(seen, uploads=uploads), count + len(out) - len(rest)
    return replace(view, rounds=tuple(rounds)), count


def _flag_empty(view: View, seen: RoundView) -> NDArray[np.bool_]:
    """Whether each message of the round ``seen`` leaves every component of the model unchanged
    (n,).

    The result is all false if messages have components that are neither changes of the model nor
    single numbers.
    """
    assert seen.uploads is not None
    components = seen.uploads.components
    empty = np.ones(len(seen.uploads.users), dtype=np.bool_)
    moving = parts_uploads.read_model_messages(replace(view, rounds=(seen,)))
    if not moving or any(components[name].shape for name in components.keys() - moving.keys()):
        return ~empty
    for (part,) in sorted(moving.values(), key=lambda parts: np.prod(parts[0].component.shape)):
        empty[empty] = ~_flag_moving(part, np.flatnonzero(empty))
    return empty


def _flag_moving(part: parts_uploads.ModelMessages, clients: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether the message of each of ``clients`` changes the component ``part`` of the model.

    ``clients``: indices of the messages (n,).
    """
    moved = np.zeros(len(clients), dtype=np.bool_)
    component, still = part.component, np.zeros(1)
    # Only messages without a change in their first rows are checked in all rows.
    if component.shape and component.shape[0] > _N_PROBED:
        rows = np.broadcast_to(np.arange(_N_PROBED), (len(clients), _N_PROBED))
        if component.kind is Payload.MODEL:
            assert part.broadcast is not None
            still = part.broadcast[:_N_PROBED]
        moved = _flag_any(component.select_rows(clients, rows) != still)
    rest = np.flatnonzero(~moved)
    whole = parts_uploads.ModelMessages(
        part.users[clients[rest]], component.take(clients[rest]), part.broadcast
    )
    for block, _, entries in whole.iter_changes():
        moved[rest[block]] = _flag_any(entries)
    return moved


def flag_oversized(uploads: Uploads) -> NDArray[np.bool_]:
    """Whether each of n messages contains a number above ``MAX_USABLE_NUMBER`` in absolute value,
    or NaN (n,). Only gradients, model changes, models and ratings are examined.
    """
    out = np.zeros(len(uploads.users), dtype=np.bool_)
    for part in uploads.components.values():
        has_numbers = part.kind in (*parts_uploads.MODEL_KINDS, Payload.RATINGS)
        if has_numbers and part.bound_magnitude() > MAX_USABLE_NUMBER:
            for rows, sent in parts_uploads.iter_message_blocks(part):
                out[rows] |= _flag_any(~(np.abs(sent) <= MAX_USABLE_NUMBER))
    return out


def _flag_any(entries: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each of n messages has at least one true entry (n,).

    ``entries``: booleans, one row per message (n, ...).
    """
    return np.asarray(entries.any(axis=tuple(range(1, entries.ndim))))
