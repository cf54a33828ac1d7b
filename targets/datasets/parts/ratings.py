"""Reading a large file of ratings into ``Pairs``, four numbers a row at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.parts.delimited import Block, Delimited
from fedrec_auditor.targets.datasets.parts.lines import Column, broken
from fedrec_auditor.targets.datasets.parts.movielens import Pairs
from fedrec_auditor.targets.datasets.parts.unique import narrow

USER, ITEM, TIME = (Column(what=what) for what in ("user id", "item id", "timestamp"))
HALF_STARS = (0.5, 5.0, 0.5)


def pairs(file: Delimited, *, scale: tuple[float, float, float], timed: bool) -> Pairs:
    """The columns user, item, rating and, if ``timed``, timestamp; InputError with a bad line.

    ``scale`` is the least rating, the largest, and their step. Memory: 20 bytes a row with
    timestamps and 12 without (8 more for ids over 2^31), and once more for the largest column.
    """
    least, largest, step = scale

    def read(block: Block) -> tuple[NDArray[Any], ...]:
        rating = block.decimals(2, "rating", least, largest)
        off = rating / step != np.rint(rating / step)
        if off.any():
            what = f"a rating (a number from {least:g} to {largest:g} in steps of {step:g})"
            raise block.error(int(np.argmax(off)), 2, what)
        users, items = narrow(block.whole(0, USER)), narrow(block.whole(1, ITEM))
        times = (block.whole(3, TIME),) if timed else ()
        return users, items, rating.astype(np.float32), *times

    users, items, ratings, *times = columns(file.blocks(), read)
    if len(users) >= 2**31:
        raise broken(file.place, "fewer than 2^31 rows", len(users))
    return Pairs(
        users=users,
        items=items,
        ratings=ratings,
        timestamps=times[0] if timed else None,
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
