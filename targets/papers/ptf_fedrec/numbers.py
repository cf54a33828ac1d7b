"""Numbers that the lists of PTF-FedRec stand for, beside those counted here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.ptf_fedrec.systems.parts.devices import ListingDevices, Lists
from fedrec_auditor.targets.papers.ptf_fedrec.systems.ptf_fedrec import PtfFedRec
from fedrec_auditor.targets.streams import Streams

_DEVICES, _OWN, _ITEMS, _ROUNDS = 200, 60, 1682, 20


def _devices() -> tuple[ListingDevices, np.random.Generator]:
    """Devices with so many items each, drawn at random."""
    rng = np.random.default_rng(0)
    own = np.argsort(rng.random((_DEVICES, _ITEMS)), axis=1) < _OWN
    return ListingDevices.of(own, PtfFedRec().negatives, Streams.spawn(rng, _DEVICES)), rng


def _head(lists: Lists) -> np.ndarray:
    """Whether each entry is in the first fifth of its list."""
    sizes = np.diff(lists.indptr)
    place = np.arange(len(lists.items)) - np.repeat(lists.indptr[:-1], sizes)
    return np.asarray(place < np.repeat(-(-sizes // 5), sizes))


def first() -> Iterator[Pair]:
    """Own items among those that stand first in one message, and the history that all show."""
    shares, shown = [], np.zeros((_DEVICES, _ITEMS), np.bool_)
    for order in ("sorted", "own-first"):
        system = PtfFedRec(order=order)
        devices, rng = _devices()
        shown[:] = False
        for _ in range(_ROUNDS):
            lists = system.listed(devices, Streams.spawn(rng, _DEVICES))
            head = _head(lists)
            shown[lists.owners[head], lists.items[head]] = True
        shares.append(float(devices.own[lists.owners[head], lists.items[head]].mean()))
    yield 0.5, shares[1]
    yield 0.5, shares[0]
    yield 0.0, float(shown[devices.own].mean())


def repeated() -> Iterator[Pair]:
    """Items listed twice, and how often those come up that are not one's own."""
    devices, rng = _devices()
    counts = np.zeros((_DEVICES, _ITEMS), np.int64)
    lists = PtfFedRec().listed(devices, Streams.spawn(rng, _DEVICES))
    np.add.at(counts, (lists.owners, lists.items), 1)
    twice, known = counts > 1, (devices.count > 0) & ~devices.own
    yield 0.5, float(devices.own[twice].mean())
    yield 0.55, float((counts[known] > 0).mean())
