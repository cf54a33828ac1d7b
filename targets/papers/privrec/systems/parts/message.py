"""What PrivRec's devices send: a change of every component, tables by the rows that moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Dense, Kind, Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec.systems.parts.examples import DeviceExamples
from fedrec_auditor.targets.papers.privrec.systems.parts.network import ITEM, USER
from fedrec_auditor.targets.transcript import Broadcast


def messages(
    change: Mapping[str, NDArray[Any]],
    examples: DeviceExamples,
    held: Interactions,
    model: Broadcast,
    kind: Kind,
    rate: float,
) -> dict[str, Component]:
    """Component by component of ``model`` what n devices send, of this kind and learning rate.

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
            found[name] = Dense(change[name], kind, rate)
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
            kind=kind,
            rate=rate,
        )
    return found


def joined(
    blocks: Sequence[Mapping[str, Component]], model: Broadcast, kind: Kind, rate: float
) -> dict[str, Component]:
    """The messages of several blocks of devices as one; of none, messages of nobody."""
    return {
        name: _joined([block[name] for block in blocks], name, np.shape(part), kind, rate)
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
    """Every client's part times its factor (n,), in float32; a factor of its own hides the rate."""
    if isinstance(part, Rows):
        each = np.repeat(factor, np.diff(part.indptr))
        return replace(part, values=(part.values * each[:, None]).astype(np.float32), rate=None)
    values = part.dense(np.arange(len(part)))
    factors = factor.reshape(-1, *[1] * (values.ndim - 1))
    return Dense((values * factors).astype(np.float32), part.kind)


def _joined(
    parts: list[Component], name: str, shape: tuple[int, ...], kind: Kind, rate: float
) -> Component:
    if name != ITEM and not name.startswith(USER):
        dense = [part.values for part in parts if isinstance(part, Dense)]
        values = np.concatenate([np.zeros((0, *shape), dtype=np.float32), *dense])
        return Dense(values, kind, rate)
    tables = [part for part in parts if isinstance(part, Rows)]
    sizes = np.concatenate([np.zeros(1, dtype=np.int64), *(np.diff(t.indptr) for t in tables)])
    none = np.zeros((0, shape[1]), dtype=np.float32)
    return Rows(
        indptr=np.cumsum(sizes),
        ids=np.concatenate([np.zeros(0, dtype=np.int64), *(t.ids for t in tables)]),
        values=np.concatenate([none, *(t.values for t in tables)]),
        count=shape[0],
        kind=kind,
        rate=rate,
    )
