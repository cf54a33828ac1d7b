"""Messages of a round, collected one by one and kept compactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Dense, Kind, Rows
from fedrec_auditor.targets.transcript import Broadcast

_FEW = 0.5  # of the rows of a table: so many are kept one by one


@dataclass(slots=True)
class Packing:
    """Collects messages of the same names and shapes; ``components`` gives them as a batch.

    A table of which most messages leave most rows as they were (those of the ``broadcast`` in a
    model, else zeros) is kept as the rows that moved: memory of those, instead of all.
    """

    kinds: Callable[[str], Kind]
    broadcast: Broadcast | None
    _parts: dict[str, list[tuple[NDArray[np.intp] | None, NDArray[Any]]]] = field(
        default_factory=dict, init=False
    )

    def add(self, message: Mapping[str, NDArray[Any]]) -> None:
        """One more message."""
        for name, array in message.items():
            self._parts.setdefault(name, []).append(self._packed(name, array))

    def components(self) -> dict[str, Component]:
        """All messages that were added, in their order, by component."""
        return {name: self._component(name, parts) for name, parts in self._parts.items()}

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
