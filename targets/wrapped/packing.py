"""Messages of a round, collected one by one and kept compactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Dense, Kind, Rows
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.client import Message

_FEW = 0.5  # of the rows of a table: so many are kept one by one


@dataclass(slots=True)
class Packing:
    """Collects messages of the same names and shapes; ``components`` gives them as a batch.

    ``there`` says which devices sent one: in the place of another is what moves nothing.

    A table of which most messages leave most rows as they were (those of the ``broadcast`` in a
    model, else zeros) is kept as the rows that moved: memory of those, instead of all.
    """

    kinds: Callable[[str], Kind]
    broadcast: Broadcast | None
    there: list[bool] = field(default_factory=list, init=False)
    _parts: dict[str, list[tuple[NDArray[np.intp] | None, Any]]] = field(
        default_factory=dict, init=False
    )
    _like: Message = field(default_factory=dict, init=False)

    def add(self, message: Message | None) -> None:
        """One more message, or None of a device that sends none."""
        self.there.append(message is not None)
        self._like = self._like or message or {}
        for name, array in (message or {}).items():
            self._parts.setdefault(name, []).append(self._packed(name, array))

    def components(self, example: Callable[[], Message] = dict) -> dict[str, Component]:
        """All messages that were added, in their order, by component.

        If nobody sent any, as many parts of the shapes of an ``example``.
        """
        found = {}
        for name, array in (self._like or example()).items():
            nothing = self._packed(name, self._rest(name, array))
            sent = iter(self._parts.get(name, ()))
            parts = [next(sent) if there else nothing for there in self.there]
            found[name] = self._component(name, parts)
        return found

    def _rest(self, name: str, like: NDArray[Any]) -> NDArray[Any]:
        model = (self.broadcast or {}).get(name)
        if self.kinds(name) is Kind.MODEL and model is not None and model.shape == like.shape:
            return model.astype(like.dtype, copy=False)
        return np.zeros_like(like)

    def _packed(self, name: str, array: NDArray[Any]) -> tuple[NDArray[np.intp] | None, Any]:
        if array.ndim != 2 or array.dtype.kind != "f":
            return None, array
        moved = np.flatnonzero((array != self._rest(name, array)).any(axis=1))
        if len(moved) > _FEW * len(array):
            return None, array
        return moved, (array.shape, array[moved])

    def _component(self, name: str, parts: list[tuple[NDArray[np.intp] | None, Any]]) -> Component:
        kind = self.kinds(name)
        if all(rows is None for rows, _ in parts):
            return Dense(np.stack([array for _, array in parts]), kind)
        shape = next(part[0] for rows, part in parts if rows is not None)
        dtype = np.result_type(*(part[1] if rows is not None else part for rows, part in parts))
        whole = np.arange(shape[0])
        ids = [whole if rows is None else rows for rows, _ in parts]
        values = [part if rows is None else part[1] for rows, part in parts]
        return Rows(
            indptr=np.concatenate([[0], np.cumsum([len(each) for each in ids])]),
            ids=np.concatenate(ids),
            values=np.concatenate(values).astype(dtype, copy=False),
            count=shape[0],
            kind=kind,
            rest=self._rest(name, np.empty(shape, dtype)),
        )
