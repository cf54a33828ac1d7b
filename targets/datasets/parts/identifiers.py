"""Identifiers: numbers stay as they are, all else becomes the place in sorted order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.parts.unique import narrow, unique


class Identifiers:
    """Collects one column, batch by batch; what comes out does not depend on the batches.

    As long as all are whole numbers they are kept; at the first that is none all become text, and
    each is numbered by its place among the distinct ones, sorted by bytes. Memory: 4 bytes a row (8
    for numbers over 2^31), and one object for each distinct text.
    """

    def __init__(self) -> None:
        self._parts: list[NDArray[Any]] = []
        self._codes: dict[bytes, int] | None = None

    def add_numbers(self, numbers: NDArray[np.int64]) -> None:
        """A batch that is all whole numbers."""
        if self._codes is None:
            self._parts.append(narrow(numbers))
        else:
            self._parts.append(self._coded(numbers))

    def add_text(self, words: Sequence[bytes], places: NDArray[np.integer[Any]]) -> None:
        """A batch of ``words[place]``; the words differ."""
        if self._codes is None:
            self._codes = {}
            self._parts = [self._coded(part) for part in self._parts]
        self._parts.append(self._known(words)[places])

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.int32], tuple[str, ...]]:
        """Identifiers, ascending; each row's place among them; the texts if they were texts."""
        rows = np.concatenate(self._parts)
        self._parts = []
        if self._codes is None:
            return *unique(rows), ()
        words = sorted(self._codes)
        rank = np.empty(len(words), dtype=np.int32)
        rank[[self._codes[word] for word in words]] = np.arange(len(words))
        texts = tuple(word.decode("utf-8", "replace") for word in words)
        return np.arange(len(words)), rank[rows], texts

    def _coded(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        different, places = np.unique(numbers, return_inverse=True)
        return self._known([str(number).encode() for number in different.tolist()])[places]

    def _known(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        codes = self._codes if self._codes is not None else {}
        return np.array([codes.setdefault(word, len(codes)) for word in words], dtype=np.int32)
