"""How many users sent a 1 for both items of a pair, counted from bits that are packed by the word.

A full table of pairs takes 4 M^2 bytes, and a product of matrices n M^2 multiplications. Packed,
64 users are counted by one instruction, and only the rows that are asked for are in memory.
"""

from __future__ import annotations

import tempfile

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Ints

_WORDS = 512  # of a chunk of users, for each item: 4 KiB
_BLOCK = 1 << 24  # bits drawn at once


class PackedCounts:
    """The table (M, M) of pair counts, made row by row when it is read; its diagonal, of one item.

    ``counts[rows]`` is (len(rows), M) float32, whole numbers, exact up to 2^24 users. The packed
    bits take n M / 8 bytes of a temporary file that is mapped, so that they leave memory where it
    is short.
    """

    def __init__(self, bits: Component) -> None:
        (width,) = bits.shape
        users = len(bits)
        words = min(_WORDS, max(1, -(-users // 64)))
        chunks = max(1, -(-users // (64 * words)))
        self._file = tempfile.TemporaryFile(prefix="bits-")  # noqa: SIM115, it lives as long as we
        self._packed = np.memmap(self._file, np.uint8, "w+", shape=(chunks, width, 8 * words))
        self._totals = np.zeros(width, dtype=np.int64)
        step = max(64, _BLOCK // max(1, width) // 64 * 64)
        for chunk in range(chunks):
            first = chunk * 64 * words
            last = min(users, first + 64 * words)
            for start in range(first, last, step):
                sent = bits.dense(np.arange(start, min(start + step, last)))
                part = np.packbits(sent, axis=0)
                place = (start - first) // 8
                self._packed[chunk, :, place : place + len(part)] = part.T
                self._totals += np.count_nonzero(sent, axis=0)

    def __len__(self) -> int:
        return len(self._totals)

    def diagonal(self) -> NDArray[np.float32]:
        """How many users sent a 1 for each item, (M,)."""
        return self._totals.astype(np.float32)

    def __getitem__(self, rows: Ints) -> NDArray[np.float32]:
        from fedrec_auditor.targets.papers.dplcf.systems.parts.packed_kernel import count_pairs

        found = np.zeros((len(rows), len(self)), dtype=np.int64)
        for chunk in self._packed:
            count_pairs(chunk.view(np.uint64), rows.astype(np.int64), found)
        return found.astype(np.float32)
