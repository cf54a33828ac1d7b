"""Messages as what they say of the model: which part of it they move, and how.

The protocol is public, so that an adversary knows of each message what kind it is (``Kind``) and
which part of the broadcast it speaks of: the one of the same name, or else the only one of the
same shape. Names do nothing else than tell parts of one shape apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import blocks, kept, located, names, taken
from fedrec_auditor.targets.transcript import Broadcast, Component, Kind, View

_TOGETHER = 8  # senders with about as many moved rows
OF_THE_MODEL = (Kind.GRADIENT, Kind.CHANGE, Kind.MODEL)


@dataclass(frozen=True, slots=True)
class ModelMessages:
    """One round's messages (n, *shape) of one part of the model, and that part as broadcast.

    ``base`` is None where the message does not say which of several parts it is of.
    """

    users: NDArray[np.integer[Any]]
    component: Component
    base: NDArray[Any] | None

    def of(self, users: NDArray[np.int64]) -> tuple[ModelMessages, NDArray[np.intp]]:
        """Those of ``users`` (ascending), and the senders' positions among them."""
        mine, places = located(self.users, users)
        return replace(self, users=self.users[mine], component=taken(self.component, mine)), places

    def few(self, count: int) -> ModelMessages:
        """Those of the first ``count`` senders, ascending."""
        return self.of(np.sort(self.users)[:count].astype(np.int64))[0]

    def changes_of(
        self, users: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.bool_]]]:
        """``changes`` of ``users`` (ascending), and the senders' positions among them."""
        asked, places = self.of(users)
        for rows, change, moved in asked.changes():
            yield places[rows], change, moved

    def changes(self) -> Iterator[tuple[slice, NDArray[np.float32], NDArray[np.bool_]]]:
        """Block by block of senders: how each would move the part, and which entries it moved.

        Both are (block, *shape). A change is read as it is, a gradient downhill, and of a model
        the broadcast is subtracted.
        """
        uphill = self.component.rate is not None and self.component.rate < 0
        for rows, sent in blocks(self.component):
            if self.component.kind is Kind.MODEL:
                assert self.base is not None
                yield rows, (sent - self.base).astype(np.float32), sent != self.base
            else:
                yield rows, (-sent if uphill else sent).astype(np.float32), sent != 0


def model_messages(
    view: View, kinds: Collection[Kind] = OF_THE_MODEL, per_user: int = 1
) -> Mapping[str, tuple[ModelMessages, ...]]:
    """By name, the messages that speak of a part of the model, in the rounds that are ``kept``.

    A message without a broadcast to hold it against is left out, unless it says what changes.
    """
    messages: dict[str, tuple[ModelMessages, ...]] = {}
    for name in names(view):
        rounds = []
        for seen, uploads, component in kept(view, name, per_user):
            base = _part(name, component.shape, seen.broadcast)
            blind = base is None and component.kind in (Kind.MODEL, Kind.REPORTS)
            if component.kind in kinds and not blind:
                rounds.append(ModelMessages(uploads.users, component, base))
        if rounds:
            messages[name] = tuple(rounds)
    return messages


def item_name(view: View, kinds: Collection[Kind] = OF_THE_MODEL) -> str | None:
    """What the messages are called that speak of a table with a row an item; None if there is none.

    Where several have as many rows, the one that is called after items, or else the first.
    """
    tables = [
        name
        for name, rounds in model_messages(view, kinds).items()
        if len(shape := rounds[0].component.shape) == 2 and shape[0] == view.public.n_items
    ]
    return max(tables, key=lambda name: name.startswith("item"), default=None)


def item_messages(
    view: View, kinds: Collection[Kind] = OF_THE_MODEL, per_user: int = 1
) -> tuple[ModelMessages, ...]:
    """The messages called so, by rounds; empty if there are none."""
    name = item_name(view, kinds)
    return () if name is None else model_messages(view, kinds, per_user)[name]


def by_rows(
    touched: NDArray[np.bool_],
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]]:
    """Senders with about as many ``touched`` rows (n, M) together, so that others cost nothing.

    Which senders (k,), the places of the rows of each, the touched ones first (k, m), and which of
    these are touched.
    """
    sizes = np.count_nonzero(touched, axis=1)
    for some in np.array_split(np.argsort(sizes), -(-len(sizes) // _TOGETHER)):
        width = max(1, int(sizes[some].max(initial=0)))
        first = np.argsort(~touched[some], axis=1, kind="stable")[:, :width]
        yield some, first, np.arange(width) < sizes[some][:, None]


def spread(
    values: NDArray[np.floating[Any]],
    first: NDArray[np.intp],
    kept: NDArray[np.bool_],
    items: int,
    otherwise: float = 0.0,
) -> NDArray[np.float32]:
    """``values`` (k, m) of ``kept`` rows at their places among all ``items``: (k, items).

    All others have the value ``otherwise``.
    """
    whole = np.full((len(values), items), otherwise, dtype=np.float32)
    np.put_along_axis(whole, first, np.where(kept, values, otherwise), axis=1)
    return whole


def part_of(name: str, shape: tuple[int, ...], broadcast: Broadcast | None) -> str | None:
    """What the part of the model is called that messages of this name and shape speak of."""
    alike = [key for key, part in (broadcast or {}).items() if np.shape(part) == shape]
    return name if name in alike else alike[0] if len(alike) == 1 else None


def _part(name: str, shape: tuple[int, ...], broadcast: Broadcast | None) -> NDArray[Any] | None:
    key = part_of(name, shape, broadcast)
    return None if broadcast is None or key is None else np.asarray(broadcast[key])
