"""Tables of items in models, and their steps, as vantages see them that link no message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.transcript import Broadcast, Kind, RoundView, View

Floats = NDArray[np.float64]
_Part = TypeVar("_Part")


def last_model(view: View) -> Broadcast:
    """The last model that is seen; empty if none is."""
    return next((seen.broadcast for seen in reversed(view.rounds) if seen.broadcast), {})


def item_table(model: Broadcast, items: int) -> Floats | None:
    """The table of a row an item: the one that is called after items, or else the first."""
    name = _name(model, items)
    return None if name is None else np.asarray(model[name], dtype=np.float64)


def _name(model: Broadcast, items: int) -> str | None:
    tables = [
        name
        for name, part in model.items()
        if np.ndim(part) == 2 and len(part) == items and np.asarray(part).dtype.kind == "f"
    ]
    whole = [name for name in tables if not _neighbours(model, items)]
    return max(whole, key=lambda name: name.startswith("item"), default=None)


def _neighbours(model: Broadcast, items: int) -> list[str]:
    """Tables (M, k) of whole numbers that name items."""
    return [
        name
        for name, part in model.items()
        if np.ndim(part) == 2 and len(part) == items and np.asarray(part).dtype.kind in "iu"
    ]


def similarities(model: Broadcast, items: int) -> sparse.csr_array | None:
    """Published similarities of each item to its neighbours, (M, M); None if there are none."""
    for name in _neighbours(model, items):
        places = np.asarray(model[name])
        for part in model.values():
            values = np.asarray(part)
            if values.shape == places.shape and values.dtype.kind == "f":
                known = (places >= 0) & (places < items) & np.isfinite(values)
                rows = np.nonzero(known)[0]
                made: Any = sparse.csr_array
                similarity: sparse.csr_array = made(
                    (values[known].astype(np.float64), (rows, places[known])), shape=(items, items)
                )
                return similarity
    return None


def user_table(model: Broadcast, table: Floats) -> Floats | None:
    """The other table of vectors as long, called after users; None if there is none."""
    for name, part in model.items():
        values = np.asarray(part)
        if name.startswith("user") and values.ndim == 2 and values.shape[1] == table.shape[1]:
            return values.astype(np.float64)
    return None


def item_steps(view: View, only: RoundView | None = None) -> Iterator[tuple[Floats, list[Floats]]]:
    """Each item table that was broadcast, and how messages say it should move: (M, d) each.

    By party where messages are parties'; else in one, of messages that are not linked or of a sum.
    Where models alone are seen, it is how the table moved to the next one.
    """
    items = view.public.n_items
    for number, seen in enumerate(view.rounds):
        table = item_table(seen.broadcast or {}, items)
        if table is None or (only is not None and seen is not only):
            continue
        if seen.uploads is None and seen.shuffled is None and seen.aggregate is None:
            rest = view.rounds[number + 1 : number + 2]
            after = item_table(rest[0].broadcast or {}, items) if rest else None
            if after is not None and after.shape == table.shape:
                yield table, [after - table]
        elif sources := _sources(seen, table):
            yield table, sources


def _items_first(parts: Mapping[str, _Part]) -> list[_Part]:
    """Those that are called after items first, as ``item_table`` chooses."""
    return [parts[name] for name in sorted(parts, key=lambda name: not name.startswith("item"))]


def _sources(seen: RoundView, table: Floats) -> list[Floats]:
    """What messages of the table's shape say that it should move by: summed, or by party."""
    if seen.aggregate is not None:
        return _summed(seen.aggregate, table, 0 if seen.senders is None else len(seen.senders))
    parts = seen.shuffled if seen.uploads is None else seen.uploads.components
    for part in _items_first(parts or {}):
        if part.shape != table.shape or not len(part):
            continue
        uphill = -1.0 if part.rate is not None and part.rate < 0 else 1.0
        if seen.uploads is None:
            moved = [np.asarray(part.total(), dtype=np.float64)]
            base = len(part) * table
        else:
            moved = [np.asarray(part.dense(np.array([k]))[0], float) for k in range(len(part))]
            base = table
        return [step - base if part.kind is Kind.MODEL else uphill * step for step in moved]
    return []


def _summed(parts: Mapping[str, NDArray[Any]], table: Floats, count: int) -> list[Floats]:
    """Of a sum of models the broadcast is subtracted, as often as there are senders.

    A sum does not say what it is of: it is of models if that brings it nearer to zero.
    """
    for part in _items_first(parts):
        if np.shape(part) == table.shape:
            plain = np.asarray(part, dtype=np.float64)
            moved = plain - count * table
            return [moved if np.vdot(moved, moved) < np.vdot(plain, plain) else plain]
    return []


def popularity(view: View) -> Floats:
    """The order of items by how often they were met, in standard deviations: (M,).

    By public settings of the loss, and the sum of all steps:

    1. Where only what a user met is moved (no ``negatives``, no ``alpha``), rows met more often
       move farther.
    2. Else users' vectors have much of one direction b in common, so that the sum of their messages
       moves the row of an item along b by how often it was met, and the rows end up along it in
       that order. b is the top right singular vector of all steps (of the model where none is
       seen), with the sign under which few items are far out, for popularity is skewed.
    3. A loss over all items (``alpha``) adds -V X to the step of V, which is projected off: see
       step 1 of ``coordinate_reports``.

    Rounds whose numbers are not finite tell nothing. Source: derived here.
    """
    settings = view.public.settings
    total: Floats | None = None
    for table, sources in item_steps(view):
        step = np.sum(sources, axis=0)
        if not np.isfinite(table).all() or not np.isfinite(step).all():
            continue
        if "alpha" in settings:
            step = step - table @ np.linalg.lstsq(table, step, rcond=None)[0]
        total = step if total is None or total.shape != step.shape else total + step
    if total is not None and not settings.get("negatives") and "alpha" not in settings:
        along = np.linalg.norm(total, axis=1)
    else:
        steps = item_table(last_model(view), view.public.n_items) if total is None else total
        assert steps is not None, "refused"
        if not np.isfinite(steps).all():
            return np.zeros(len(steps))
        steps = steps / max(float(np.abs(steps).max()), np.finfo(float).tiny)
        along = steps @ np.linalg.svd(steps, full_matrices=False)[2][0]
        along = along * (np.sign(np.sum((along - along.mean()) ** 3)) or 1.0)
    return np.asarray((along - along.mean()) / max(float(along.std()), np.finfo(float).tiny))
