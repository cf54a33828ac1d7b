"""Reading a file of ratings into ``Pairs``, four numbers a row at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.parts.block import NUMBER, SPACED, Block, Column, broken
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.identifiers import narrow
from fedrec_auditor.targets.datasets.parts.movielens import Pairs

USER, ITEM, TIME = (Column(what=what) for what in ("user id", "item id", "timestamp"))
HALF_STARS = Column(what="rating", low=0.5, high=5, step=0.5, written=NUMBER)
STARS = (
    Column(what="user id", written=SPACED),
    Column(what="item id", written=SPACED),
    Column(what="rating", low=1, high=5, written=SPACED),
    Column(what="timestamp", written=SPACED),
)
"""The columns of MovieLens 100K and 1M, whole numbers that may be written as others are."""


def pairs(file: Delimited, wanted: tuple[Column, ...]) -> Pairs:
    """The first columns: user, item, rating and, if four are ``wanted``, timestamp.

    InputError with the first line that breaks. Memory: 20 bytes a row with timestamps and 12
    without (8 more for ids over 2^31), and once more for the largest column.
    """

    def read(block: Block) -> tuple[NDArray[Any], ...]:
        users, items, ratings, *times = (block.numbers(at) for at in block.wanted)
        ids = (narrow(ids.astype(np.int64, copy=False)) for ids in (users, items))
        return *ids, ratings.astype(np.float32), *(time.astype(np.int64) for time in times)

    users, items, ratings, *times = columns(file.blocks(dict(enumerate(wanted))), read)
    if len(users) >= 2**31:
        raise broken(file.place, "fewer than 2^31 rows", len(users))
    return Pairs(
        users=users,
        items=items,
        ratings=ratings,
        timestamps=times[0] if times else None,
        where=file.line,
    )


def columns(
    blocks: Iterator[Block], read: Callable[[Block], tuple[NDArray[Any], ...]]
) -> list[NDArray[Any]]:
    """What ``read`` makes of the blocks, one array a column."""
    parts: list[list[NDArray[Any]]] = [list(part) for part in zip(*map(read, blocks), strict=True)]
    whole = []
    while parts:  # a column's blocks are given back before the next is joined
        whole.append(np.concatenate(parts.pop(0)))
    return whole
