"""Files of messages: whose they are and how large is told at once, the numbers when asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.recorded.tensors import (
    COUNTS,
    SENDERS,
    TENSORS,
    Tensors,
)

_BLOCK = 2**22  # numbers that are looked at together


class Form(StrEnum):
    """How a message's part is written: whole, or the rows of a table that are given."""

    WHOLE = "whole"
    ROWS = "rows"  # the others were not sent
    MOVED = "moved"  # the others were sent as they were broadcast


@dataclass(frozen=True, slots=True)
class Layout:
    """The form of a component in one file, its numbers' type, and its shape, or that of a row."""

    form: Form
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of some messages: ``values`` (k, *shape), or the ``ids`` (r,) of rows (r, *shape).

    ``counts`` (k,) are the rows of each message; of whole ones both are empty.
    """

    values: NDArray[Any]
    ids: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class MessageFile:
    """Messages of one round in one file; ``senders`` (count,) are None where none is named.

    The file has arrays whose first axis is that of messages, or of the rows that they hold:
    ``NAME`` (n, *shape); or ``NAME`` (r, *shape of a row), ``NAME:rows`` or ``NAME:moved`` (r,) and
    ``NAME:counts`` (n,). ``senders`` (n,) are numbers; texts stand in the header of safetensors.
    InputError if it is none, or damaged.
    """

    path: Path
    count: int = field(init=False)
    senders: NDArray[np.int64] | NDArray[np.str_] | None = field(init=False)
    layouts: Mapping[str, Layout] = field(init=False)
    tensors: Tensors = field(init=False)
    starts: Mapping[str, NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        tensors = TENSORS[self.path.suffix](self.path)
        heads = dict(tensors.heads)
        heads.pop(SENDERS, None)
        senders = tensors.senders
        if senders is not None:
            if senders.ndim != 1 or senders.dtype.kind not in "iuU":
                raise self.wrong("senders as one list of numbers, or of texts", "something else")
            senders = senders if senders.dtype.kind == "U" else senders.astype(np.int64)
        layouts: dict[str, Layout] = {}
        starts: dict[str, NDArray[np.int64]] = {}
        sizes = {} if senders is None else {SENDERS: len(senders)}
        for name, head in heads.items():
            base, _, role = name.partition(":")
            if role:
                if base not in heads or role not in (Form.ROWS, Form.MOVED, COUNTS):
                    raise self.wrong("components, their rows and counts", f"{name!r}")
                continue
            if not head.shape:
                raise self.wrong(f"an axis of messages in {name!r}", "a single number")
            form = next((f for f in (Form.ROWS, Form.MOVED) if f"{name}:{f}" in heads), Form.WHOLE)
            layouts[name] = Layout(form, head.dtype, head.shape[1:])
            sizes[name] = head.shape[0]
            if form is not Form.WHOLE:
                starts[name] = self._starts(tensors, name, form)
                sizes[name] = len(starts[name]) - 1
        if len(set(sizes.values())) != 1:
            raise self.wrong("as many messages as senders in every component", f"{sizes}")
        made = {"tensors": tensors, "layouts": layouts, "senders": senders, "starts": starts}
        for name, value in (made | {"count": next(iter(sizes.values()))}).items():
            object.__setattr__(self, name, value)

    @property
    def nbytes(self) -> int:
        """Bytes of what is held from the start: senders, and where their messages lie."""
        return sum(each.nbytes for each in (*self.tensors.index.values(), *self.starts.values()))

    def numbers(self, name: str) -> int:
        """How many numbers of a component are held at least while one message is read."""
        rows = np.diff(self.starts.get(name, np.arange(2))).max(initial=0)
        return max(int(rows) * math.prod(self.layouts[name].shape), self.tensors.largest)

    def read(self, name: str, places: Ints, *, ordered: bool = True) -> Pieces:
        """The component of the messages at these places.

        The rows of each message ascend, in whatever order they stand, where they are to be
        ``ordered``; InputError if one stands there twice.
        """
        found = self._read(name, places)
        if not ordered:
            return found
        whose, ids = np.repeat(np.arange(len(found.counts)), found.counts), found.ids
        order = np.lexsort((ids, whose))
        if (np.diff(order) < 0).any():
            ids = ids[order]
            found = Pieces(found.values[order], ids, found.counts)
        if (ids < 0).any() or (np.diff(ids)[whose[1:] == whose[:-1]] == 0).any():
            raise self.wrong("each row of a message once, from 0 on", f"others of {name!r}")
        return found

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        """Flags (count,) of messages of finite numbers alone; all are read once, by blocks."""
        out = np.ones(self.count, np.bool_)
        for name, layout in self.layouts.items():
            for block in blocks(self.count, self.numbers(name), _BLOCK):
                places = np.arange(block.start, block.stop)
                found = self._read(name, places)
                whose = places if layout.form is Form.WHOLE else np.repeat(places, found.counts)
                rows = np.isfinite(found.values).all(axis=tuple(range(1, found.values.ndim)))
                out[whose[~rows]] = False
        return out

    def wrong(self, expected: str, got: str) -> InputError:
        """An error of this file."""
        return InputError(f"Expected {expected} in {self.path}, got {got}. Write it anew.")

    def _starts(self, tensors: Tensors, name: str, form: Form) -> NDArray[np.int64]:
        heads = tensors.heads
        counts, ids = heads.get(f"{name}:{COUNTS}"), heads[f"{name}:{form}"]
        if counts is None or any(
            len(h.shape) != 1 or h.dtype.kind not in "iu" for h in (counts, ids)
        ):
            raise self.wrong(f"whole numbers as rows and counts of {name!r}", "something else")
        each = tensors.index[f"{name}:{COUNTS}"].astype(np.int64)
        total = heads[name].shape[0]
        if (each < 0).any() or ids.shape[0] != total or each.sum() != total:
            raise self.wrong(f"counts of {name!r} that add up to its {total} rows", "others")
        return np.concatenate([[0], np.cumsum(each)])

    def _read(self, name: str, places: Ints) -> Pieces:
        layout = self.layouts[name]
        starts = self.starts.get(name, np.arange(self.count + 1))
        values, ids = [np.zeros((0, *layout.shape), layout.dtype)], [np.zeros(0, np.int64)]
        with self.tensors.opened() as read:
            for first, last in _runs(places):
                rows = slice(int(starts[first]), int(starts[last]))
                values.append(read(name, rows))
                if layout.form is not Form.WHOLE:
                    ids.append(read(f"{name}:{layout.form}", rows).astype(np.int64))
        together = values[1] if len(values) == 2 else np.concatenate(values)
        if layout.form is Form.WHOLE:
            return Pieces(together)
        return Pieces(together, np.concatenate(ids), np.diff(starts)[places])


def _runs(places: Ints) -> Iterator[tuple[int, int]]:
    """Runs of following places: first, and one behind the last."""
    cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield int(places[start]), int(places[stop - 1]) + 1
