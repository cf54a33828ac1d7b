"""Pairs of user and item as a file has them, their order, and the table that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.datasets.parts.batches import Batches
from fedrec_auditor.targets.datasets.parts.block import Block, Column, broken
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Rows of a file: user, item, rating (1 where there is none) and, where there is one, time.

    ``user_ids`` ascend, ``row`` (n,) is the place of each row's user among them, and ``names`` are
    theirs if they are texts; of items these are ``item_ids``, ``column`` and ``titles``. ``where``
    names the place of a row in errors.
    """

    user_ids: NDArray[np.int64]
    row: NDArray[np.int32]
    names: tuple[str, ...]
    item_ids: NDArray[np.int64]
    column: NDArray[np.int32]
    titles: tuple[str, ...]
    ratings: NDArray[np.float32]
    timestamps: NDArray[Any] | None
    where: Callable[[int], str]

    @classmethod
    def of(cls, file: Delimited | Batches, at: Mapping[str, tuple[int, Column | str]]) -> Self:
        """The columns of user, item, rating and timestamp: place, and what is read of them.

        InputError with the first line that breaks. Memory: 20 bytes a row with timestamps and 12
        without (8 more for ids over 2^31), and once more for the largest column.
        """
        ends = {role: Identifiers(f"{role} of {file.place}") for role in ("user", "item")}
        ratings: list[NDArray[np.float32]] = []
        times: list[NDArray[Any]] = []
        for block in file.blocks(dict(at.values())):
            for role, found in ends.items():
                if isinstance(at[role][1], Column):
                    found.add(pa.array(block.numbers(at[role][0]).astype(np.int64, copy=False)))
                else:
                    block.identify(at[role][0], found)
            if "rating" in at:
                ratings.append(_stars(block, at["rating"][0]))
            if "timestamp" in at:
                times.append(block.numbers(at["timestamp"][0]))
        user_ids, row, names = ends["user"].finish()
        item_ids, column, titles = ends["item"].finish()
        if len(row) >= 2**31:
            raise broken(file.place, "fewer than 2^31 rows", len(row))
        return cls(
            user_ids=user_ids,
            row=row,
            names=names,
            item_ids=item_ids,
            column=column,
            titles=titles,
            ratings=np.concatenate(ratings) if ratings else np.ones(len(row), dtype=np.float32),
            timestamps=np.concatenate(times) if times else None,
            where=file.line,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items."""
        return len(self.user_ids), len(self.item_ids)


def _stars(block: Block, at: int) -> NDArray[np.float32]:
    """The ratings of a block; InputError at one that float32 cannot hold."""
    values = block.numbers(at)
    with np.errstate(over="ignore", under="ignore"):
        stars = values.astype(np.float32)
    good = np.isfinite(stars) & ((stars != 0) | (values == 0))
    if not good.all():
        raise block.error(int(np.argmin(good)), at, "a rating that float32 can hold")
    return stars


def in_order(
    row: NDArray[np.int32],
    column: NDArray[np.int32],
    values: NDArray[np.float32],
    shape: tuple[int, int],
) -> sparse.csr_array:
    """The table of pairs that are in order and differ."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
    return sparse.csr_array((values, column, starts.astype(np.int32)), shape=shape)


def latest(
    row: NDArray[np.int32],
    column: NDArray[np.int32],
    n_items: int,
    times: NDArray[np.int64] | None = None,
) -> NDArray[np.int64] | slice:
    """Entries to keep, in the order of rows and columns: of equals the latest, then the last."""
    key = row * np.int64(n_items) + column
    if (key[1:] > key[:-1]).all():
        return slice(None)
    order: NDArray[np.int64] = np.argsort(key)
    last = np.concatenate([np.diff(key[order]) > 0, [True]])
    if last.all():
        return order
    # equal pairs: by time, then as they came
    order = np.argsort(key, kind="stable") if times is None else np.lexsort((times, key))
    kept: NDArray[np.int64] = order[last]
    return kept
