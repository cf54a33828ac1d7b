"""What PrivRec's devices send: a change of every component, tables by the rows that moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Dense, Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.privrec.parts.examples import DeviceExamples
from fedrec_auditor.targets.systems.privrec.parts.network import ITEM, USER
from fedrec_auditor.targets.transcript import Broadcast


def messages(
    change: Mapping[str, NDArray[Any]],
    examples: DeviceExamples,
    held: Interactions,
    model: Broadcast,
) -> dict[str, Component]:
    """Component by component of ``model`` what n devices send.

    ``change`` is theirs as ``Devices`` store weights: "user" (n, du) side by side, "item" (n,
    width, d) by example, the others as broadcast. Rows of no change are left out.
    """
    found: dict[str, Component] = {}
    at = 0
    for name, part in model.items():
        if name == ITEM:
            valid = np.arange(examples.items.shape[1]) < examples.sizes[:, None]
            device, place = np.nonzero(valid)
            ids, rows = examples.items[device, place], change[ITEM][device, place]
        elif name.startswith(USER):
            device = np.arange(len(examples))
            ids = held.attributes[name.removeprefix(USER)].codes
            rows = change["user"][:, at : at + part.shape[1]]
            at += part.shape[1]
        else:
            found[name] = Dense(change[name])
            continue
        moved = rows.any(axis=1)
        device, ids, rows = device[moved], ids[moved], rows[moved]
        order = np.lexsort((ids, device))
        sizes = np.bincount(device, minlength=len(examples))
        found[name] = Rows(
            indptr=np.concatenate([[0], np.cumsum(sizes)]),
            ids=ids[order],
            values=rows[order],
            count=len(part),
        )
    return found


def joined(blocks: Sequence[Mapping[str, Component]], model: Broadcast) -> dict[str, Component]:
    """The messages of several blocks of devices as one; of none, messages of nobody."""
    return {
        name: _joined([block[name] for block in blocks], name, np.shape(part))
        for name, part in model.items()
    }


def norms(components: Mapping[str, Component]) -> NDArray[np.float64]:
    """L2 norm of every client's whole change, over all components, in float64: (n,)."""
    squares = np.zeros(len(next(iter(components.values()))))
    for part in components.values():
        if isinstance(part, Rows):
            rows = (part.values.astype(np.float64) ** 2).sum(axis=1)
            client = np.repeat(np.arange(len(part)), np.diff(part.indptr))
            squares += np.bincount(client, weights=rows, minlength=len(part))
        else:
            values = part.dense(np.arange(len(part))).astype(np.float64)
            squares += (values**2).reshape(len(part), int(np.prod(part.shape))).sum(axis=1)
    return np.asarray(np.sqrt(squares))


def scaled(part: Component, factor: NDArray[np.float64]) -> Component:
    """Every client's part times its factor (n,), in float32."""
    if isinstance(part, Rows):
        each = np.repeat(factor, np.diff(part.indptr))
        return replace(part, values=(part.values * each[:, None]).astype(np.float32))
    values = part.dense(np.arange(len(part)))
    return Dense((values * factor.reshape(-1, *[1] * (values.ndim - 1))).astype(np.float32))


def _joined(parts: list[Component], name: str, shape: tuple[int, ...]) -> Component:
    if name != ITEM and not name.startswith(USER):
        dense = [part.values for part in parts if isinstance(part, Dense)]
        return Dense(np.concatenate([np.zeros((0, *shape), dtype=np.float32), *dense]))
    tables = [part for part in parts if isinstance(part, Rows)]
    sizes = np.concatenate([np.zeros(1, dtype=np.int64), *(np.diff(t.indptr) for t in tables)])
    none = np.zeros((0, shape[1]), dtype=np.float32)
    return Rows(
        indptr=np.cumsum(sizes),
        ids=np.concatenate([np.zeros(0, dtype=np.int64), *(t.ids for t in tables)]),
        values=np.concatenate([none, *(t.values for t in tables)]),
        count=shape[0],
    )
