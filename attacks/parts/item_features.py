"""What any message shows of each item, in numbers that mean the same for all items.

A part of a message speaks of items by an axis as long as the catalogue, or by listing them. What
does neither is given as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from fedrec_auditor.attacks.parts.marks import MOST, SIGNED
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.transcript import Broadcast, Component, Kind

Numbers = NDArray[np.float64]
_FEW = 4  # numbers an item that are told one by one
_STEPS = 8  # of power iteration
_WIDTH = 1_024  # of a message's numbers, others share a place
_TINY = 1e-12
_TOGETHER = 2**24  # numbers


@dataclass(slots=True)
class ItemFeatures:
    """Features of some messages: ``items`` are (n, M) arrays, ``others`` (n, d) arrays.

    ``rows`` (n, M, k) are the numbers that speak of an item, beside these times its own part of
    the broadcast. ``marked`` are parts (n, d) as they were sent that are
    lists, and such of which no axis is of items.
    """

    n_items: int
    rows: list[Numbers] = field(default_factory=list)
    items: list[Numbers] = field(default_factory=list)
    others: list[Numbers] = field(default_factory=list)
    marked: list[tuple[bool, NDArray[Any]]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        components: Mapping[str, Component],
        broadcast: Broadcast | None,
        n_items: int,
        listing: Collection[str],
    ) -> ItemFeatures:
        """Those of the messages of one round, all of them, by what the broadcast was.

        Of parts called like those of ``listing`` entries are codes, whatever they are.
        """
        made, listed = cls(n_items), {}
        parts = {name: part.dense(np.arange(len(part))) for name, part in components.items()}
        made.marked = marked(parts, n_items, listing)
        for name, sent in parts.items():
            base = (broadcast or {}).get(name)
            alike = base is not None and np.shape(base) == sent.shape[1:]
            if alike and components[name].kind is Kind.MODEL:
                sent = sent - base
            along = n_items in sent.shape[1:]
            if along:
                made._along(sent, base if alike else None)
            if name in listing:
                listed[name] = sent
            elif not along:
                made._plain(sent)
        for name, ids in listed.items():
            made._listed(ids, [part for other, part in parts.items() if other != name])
        return made

    def _along(self, sent: NDArray[Any], base: NDArray[Any] | None) -> None:
        """Parts (n, *shape) with an axis of items: their entries and sizes, and where they point.

        An item's numbers are told one by one if they are few. Of more, their length, their places
        along the message's sum and along its principal direction, and along the item's own part of
        the broadcast.
        """
        axis = sent.shape[1:].index(self.n_items)
        rows = np.moveaxis(sent, axis + 1, 1).reshape(len(sent), self.n_items, -1)
        rows = rows.astype(np.float64)
        self.items.append((rows != 0).any(axis=2).astype(np.float64))
        if rows.shape[2] <= _FEW:
            for number in np.moveaxis(rows, 2, 0):
                self._ranked(number)
        self.rows.append(rows)
        if rows.shape[2] > 1:
            length = np.linalg.norm(rows, axis=2)
            total = _unit(rows.sum(axis=1))
            direction = total + _TINY
            for _ in range(_STEPS):
                place = np.einsum("nmk,nk->nm", rows, direction)
                direction = _unit(np.einsum("nmk,nm->nk", rows, place))
            place = np.einsum("nmk,nk->nm", rows, direction)
            place *= np.where((place**3).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
            along = np.einsum("nmk,nk->nm", rows, total)
            for number in (length, along, place):
                self._ranked(number)
            self.items.append(along / np.maximum(length, _TINY))
        if base is not None:
            own = np.moveaxis(base, axis, 0).reshape(self.n_items, -1)
            self.rows.append(rows * own)
            self.items.append(np.einsum("nmk,mk->nm", rows, own))
            self.items.append(
                np.broadcast_to(np.linalg.norm(own, axis=1), rows.shape[:2]).astype(np.float64)
            )

    def _listed(self, ids: NDArray[Any], beside: list[NDArray[Any]]) -> None:
        """Lists (n, L) that may name items: how often and where first, and what stands ``beside``.

        That are numbers (n, L) or (n, L, k) of other parts, in the same places.
        """
        count = len(ids)
        named = (ids >= 0) & (ids < self.n_items)
        whose, at = np.nonzero(named)
        item = ids[whose, at]
        times = np.zeros((count, self.n_items))
        np.add.at(times, (whose, item), 1.0)
        place = np.full((count, self.n_items), 2.0)
        np.minimum.at(place, (whose, item), at / ids.shape[1])
        self.items += [times, place]
        for part in beside:
            if part.shape[:2] != ids.shape or part[0].size > _FEW * ids.shape[1]:
                continue
            for number in np.moveaxis(part.reshape(*ids.shape, -1).astype(np.float64), 2, 0):
                for values in (number, _rank(number)):
                    held = np.full((count, self.n_items), -1.0)
                    held[whose, item] = values[whose, at]
                    self.items.append(held)

    def _plain(self, sent: NDArray[Any]) -> None:
        """All numbers of a part, or many of them added up with random signs."""
        flat = sent.reshape(len(sent), -1).astype(np.float64)
        width = flat.shape[1]
        if width > _WIDTH:
            rng = np.random.default_rng(0)
            signs = (
                rng.choice([-1.0, 1.0], width),
                (np.arange(width), rng.integers(_WIDTH, size=width)),
            )
            flat = np.asarray(flat @ sparse.csr_array(signs, shape=(width, _WIDTH)))
        self.others.append(flat)

    def _ranked(self, number: Numbers) -> None:
        self.items += [number, _rank(number)]


def marked(
    parts: Mapping[str, NDArray[Any]], n_items: int, listing: Collection[str]
) -> list[tuple[bool, NDArray[Any]]]:
    """Parts (n, *shape) as ``Marks`` take them: as lists, and as places if there are few enough."""
    found = []
    for name, sent in parts.items():
        size = int(np.prod(sent.shape[1:]))
        if name in listing:
            found.append((True, sent))
        if n_items not in sent.shape[1:] and size <= MOST:
            found.append((False, sent.reshape(len(sent), size)))
    return found


def is_signature(part: Component) -> bool:
    """Whether a part may be one: some whole numbers or bits."""
    whole = part.dense(np.arange(min(1, len(part)))).dtype.kind in "biu"
    return whole and _FEW < int(np.prod(part.shape)) <= SIGNED


def lists(components: Mapping[str, Component]) -> frozenset[str]:
    """Which parts are lists of whole numbers, by all messages."""
    found = []
    for name, part in components.items():
        if len(part.shape) == 1 and len(part) and part.dense(np.arange(1)).dtype.kind in "iu":
            parts = blocks(len(part), part.shape[0], _TOGETHER)
            messages = (part.dense(np.arange(some.start, some.stop)) for some in parts)
            found += [name] * any((each > 1).any() for each in messages)
    return frozenset(found)


def _rank(values: Numbers) -> Numbers:
    """The share of a message's entries that are smaller, half of those that are equal; (n, L)."""
    return np.asarray(rankdata(values, axis=1) / values.shape[1])


def _unit(rows: Numbers) -> Numbers:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY))
