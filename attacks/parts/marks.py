"""What messages hold whenever a device has met an item: its codes, or its places in a sketch.

A list of hashes holds that of each item met, a Bloom filter or a count-min sketch is not empty in
each item's places. Whoever can run the code finds out which these are: those that are there in the
messages of all devices that met the item, and not in all others (group testing: Dorfman 1943).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Held = NDArray[np.float32]

MOST = 2**13
"""Codes, or places, of a part of which marks are looked for."""
SIGNED = 512
"""Places of a signature at most."""
_RARE, _ALWAYS = 0.01, 0.98  # shares of the messages that hold what tells nothing
_NEARLY = 0.98  # as often as an item's best mark


@dataclass(frozen=True, slots=True)
class Marks:
    """Of one part of messages: which of ``codes`` (v,), or of ``places`` (v,), are each item's.

    Codes are those of lists (n, L) of whole numbers, places those of parts (n, d) that hold
    something else than ``still`` (v,). ``halves`` are shares (v, M) of an item's mark, found by
    either half of the messages. ``alone`` (M, d) are signatures of devices that met a single item:
    each place is that of one of a history's items (MinHash), or near it.
    """

    codes: NDArray[Any]
    places: NDArray[np.intp] | None
    still: NDArray[Any]
    halves: tuple[Held, Held]
    alone: NDArray[Any] | None

    @classmethod
    def of(
        cls,
        sent: NDArray[Any],
        met: NDArray[np.bool_],
        alone: NDArray[Any] | None,
        *,
        listed: bool,
    ) -> Self:
        """Of what devices sent who ``met`` (n, M) these, and those who met an item ``alone``."""
        whole = sent.dtype.kind in "biu"
        if listed:
            each, counts = np.unique(sent, return_counts=True)
            codes = np.sort(each[np.argsort(-counts, kind="stable")[:MOST]])
            held, still = _listed(sent, codes), codes[:0]
        else:
            codes, still = sent[0, :0], sent.min(axis=0) if whole else np.median(sent, axis=0)
            held = (sent != still).astype(np.float32)
        share = held.mean(axis=0)
        tells = np.flatnonzero((share >= _RARE) & (share < _ALWAYS))
        halves = _marks(held[:, tells], met)
        if listed:
            return cls(codes[tells], None, still, halves, None)
        signed = whole and sent.shape[1] <= SIGNED
        return cls(codes, tells, still[tells], halves, alone if signed else None)

    def read(self, sent: NDArray[Any]) -> tuple[Held, Held]:
        """How much of each item's mark these messages hold, (n, M), as either half knows it."""
        if self.places is None:
            held = _listed(sent, self.codes)
        else:
            held = (sent[:, self.places] != self.still).astype(np.float32)
        return held @ self.halves[0], held @ self.halves[1]

    def alike(self, sent: NDArray[Any]) -> Held | None:
        """In how many places messages are as of a device that met the item alone, (n, M)."""
        if self.alone is None:
            return None
        count = np.zeros((len(sent), len(self.alone)), np.float32)
        for mine, other in zip(sent.T, self.alone.T, strict=True):
            count += mine[:, None] == other
        return count


def _listed(sent: NDArray[Any], codes: NDArray[Any]) -> Held:
    """Which codes are in which list, (n, v)."""
    held = np.zeros((len(sent), len(codes)), np.float32)
    if len(codes):
        at = np.searchsorted(codes, sent).clip(max=len(codes) - 1)
        row, column = np.nonzero(codes[at] == sent)
        held[row, at[row, column]] = 1.0
    return held


def _marks(held: Held, met: NDArray[np.bool_]) -> tuple[Held, Held]:
    """Of each item, by either half of the messages, what is held nearly as often as anything is."""
    share, found = held.mean(axis=0), []
    for half in (0, 1):
        those = met[half::2].astype(np.float32)
        often = held[half::2].T @ those / np.maximum(those.sum(axis=0), 1.0)
        mark = (often >= _NEARLY * often.max(axis=0, initial=0.0)) & (often > share[:, None])
        found.append((mark / np.maximum(mark.sum(axis=0), 1)).astype(np.float32))
    return found[0], found[1]
