"""Identifiers: numbers stay as they are, all else becomes the place in sorted order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError

_WHOLE = re.compile(rb"(0|[1-9][0-9]{0,15})(\.0+)?")


class Identifiers:
    """Collects one column, batch by batch; what comes out does not depend on the batches.

    If all are whole numbers they are kept; if one is not, all become text, and each is numbered by
    its place among the distinct ones, sorted by bytes. Where a ``place`` is given the column is of
    identifiers, and whole numbers may be written as floats ("7.0"). Memory: 4 bytes a row (8 for
    numbers over 2^31), and the distinct texts of each batch.
    """

    def __init__(self, place: str = "") -> None:
        self.place = place
        self._parts: list[Any] = []

    def add(self, batch: pa.Array) -> None:
        """A batch of whole numbers (int64), or a dictionary of binary."""
        numbers = pa.types.is_integer(batch.type)
        self._parts.append(pa.array(narrow(batch.to_numpy())) if numbers else batch)

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.int32], tuple[str, ...]]:
        """Identifiers, ascending; each row's place among them; the texts if they were texts.

        InputError if one of them is written in two ways, as a whole number and as a float.
        """
        parts, self._parts = self._parts, []
        if all(pa.types.is_integer(part.type) for part in parts):
            return *unique(np.concatenate([part.to_numpy() for part in parts])), ()
        for at, part in enumerate(parts):
            if pa.types.is_integer(part.type):
                parts[at] = part.cast(pa.string()).cast(pa.binary()).dictionary_encode()
        column = pa.chunked_array(parts).unify_dictionaries()
        words = column.chunk(0).dictionary.to_pylist()
        if self.place and all(map(_WHOLE.fullmatch, words)):
            numbers = np.array([int(word.partition(b".")[0]) for word in words])
            present, first = np.unique(numbers, return_index=True)
            if len(present) < len(words):
                again = np.setdiff1d(np.arange(len(words)), first)[0]
                before = words[np.flatnonzero(numbers == numbers[again])[0]]
                raise InputError(
                    f"Expected each {self.place} written in one way, got {before.decode()!r} and "
                    f"{words[again].decode()!r}. Write them alike."
                )
            rows = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
            return *unique(numbers[rows]), ()
        order = sorted(range(len(words)), key=words.__getitem__)
        rank = np.empty(len(words), dtype=np.int32)
        rank[order] = np.arange(len(words))
        rows = rank[np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])]
        texts = tuple(words[at].decode("utf-8", "replace") for at in order)
        return np.arange(len(words)), rows, texts


def unique(ids: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The ids that occur, ascending, and each id's place among them.

    Without a sort where none is negative and the largest not much larger than their number.
    """
    if ids.min() < 0 or ids.max() > 4 * ids.size + 2**16:
        present, inverse = np.unique(ids, return_inverse=True)
        return present.astype(np.int64), inverse.astype(np.int32)
    occurs = np.zeros(int(ids.max()) + 1, dtype=bool)
    occurs[ids] = True
    place = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(occurs), place[ids]


def narrow(numbers: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """The same in four bytes each where they fit."""
    fits = numbers.min() >= -(2**31) and numbers.max() < 2**31
    return numbers.astype(np.int32) if fits else numbers
