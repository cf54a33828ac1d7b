"""Files of messages: whose they are and how large is told at once, the numbers when asked for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.recorded.regular_file import check_regular
from fedrec_auditor.targets.recorded.tensors import (
    COUNTS,
    LARGEST,
    SENDERS,
    TENSORS,
    Tensors,
    as_texts,
    finite,
)

PARQUET = ".parquet"
MOST_CELLS = 2**24
"""Most senders, names and sizes together that a table of messages has."""
_WANTED = ("sender", "component", "shape", "values")


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
class MessageFile(ABC):
    """Messages of one round in one file; ``senders`` (count,) are None where none is named."""

    path: Path
    count: int = field(init=False)
    senders: NDArray[np.int64] | NDArray[np.str_] | None = field(init=False)
    layouts: Mapping[str, Layout] = field(init=False)

    def read(self, name: str, places: Ints, *, ordered: bool = True) -> Pieces:
        """The component of the messages at these places; InputError unless all are finite.

        So it is unless the rows of each message ascend, where they are to be ``ordered``.
        """
        found = self._read(name, places)
        finite(found.values, name, self.path)
        if ordered:
            same = np.repeat(np.arange(len(found.counts)), found.counts)
            steps = np.diff(found.ids)[same[1:] == same[:-1]]
            if (found.ids < 0).any() or (steps <= 0).any():
                raise self.wrong("rows of a message in ascending order", f"others of {name!r}")
        return found

    @abstractmethod
    def _read(self, name: str, places: Ints) -> Pieces: ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of what is held from the start: senders, and where their messages lie."""

    @abstractmethod
    def numbers(self, name: str) -> int:
        """How many numbers of a component are held at least while one message is read."""

    def wrong(self, expected: str, got: str) -> InputError:
        """An error of this file."""
        return InputError(f"Expected {expected} in {self.path}, got {got}. Write it anew.")

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def open_messages(path: Path) -> MessageFile:
    """The messages of a file, by the end of its name; InputError if it is none, or damaged."""
    return ParquetMessages(path) if path.suffix == PARQUET else TensorMessages(path)


@dataclass(frozen=True)
class TensorMessages(MessageFile):
    """A file of arrays whose first axis is that of messages, or of the rows that they hold.

    ``NAME`` (n, *shape); or ``NAME`` (r, *shape of a row), ``NAME:rows`` or ``NAME:moved`` (r,) and
    ``NAME:counts`` (n,). ``senders`` (n,) are numbers; texts stand in the header of safetensors.
    """

    tensors: Tensors = field(init=False)
    starts: Mapping[str, NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        tensors = TENSORS[self.path.suffix](self.path)
        heads = dict(tensors.heads)
        heads.pop(SENDERS, None)
        senders = tensors.index.get(SENDERS)
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
        self._set(tensors=tensors, layouts=layouts, senders=senders, starts=starts)
        self._set(count=next(iter(sizes.values())))

    @property
    def nbytes(self) -> int:
        """Bytes of senders and of numbers of rows."""
        return sum(each.nbytes for each in (*self.tensors.index.values(), *self.starts.values()))

    def numbers(self, name: str) -> int:
        """Those of the largest message."""
        rows = np.diff(self.starts.get(name, np.arange(2))).max(initial=0)
        return int(rows) * math.prod(self.layouts[name].shape)

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


@dataclass(frozen=True)
class ParquetMessages(MessageFile):
    """A table with a row a message and component: sender, component, shape and values.

    ``values`` is a list of numbers, ``shape`` a list; in a column ``rows`` or ``moved`` stand the
    rows of a table that the values are of. Senders are numbers or texts; without the column the
    file has one component. A group of rows is in memory at a time.
    """

    rows: Mapping[str, NDArray[np.int64]] = field(init=False)
    largest: int = field(init=False)

    @property
    def nbytes(self) -> int:
        """Bytes of senders and of places of rows."""
        named = () if self.senders is None else (self.senders,)
        return sum(each.nbytes for each in (*named, *self.rows.values()))

    def numbers(self, name: str) -> int:
        """Those of the largest group of rows, of all components."""
        return self.largest

    def __post_init__(self) -> None:
        check_regular(self.path, LARGEST, "a table of messages")
        try:
            self._scan()
        except (pa.ArrowException, OSError, ValueError, TypeError) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> InputError:
        return self.wrong("a whole Parquet file of messages", " ".join(str(error).split())[:160])

    def _scan(self) -> None:
        with parquet.ParquetFile(self.path) as file:
            schema = file.schema_arrow
            self._check(schema)
            known = [name for name in ("sender", "component", "shape") if name in schema.names]
            cells = _cells(file.metadata)
            if (told := sum(sum(cells[name]) for name in known)) > MOST_CELLS:
                raise ValueError(f"{told:,} senders, names and sizes, of {MOST_CELLS:,} at most")
            table = file.read(columns=known)
        if any(column.null_count for column in table.columns):
            raise ValueError("a sender, a component or a shape that is null")
        components = np.asarray(table["component"].to_pylist(), dtype=np.str_)
        shapes = [tuple(each) for each in table["shape"].to_pylist()]
        names = list(dict.fromkeys(components.tolist()))
        senders: Any = None
        place = np.arange(len(components))
        if "sender" in table.column_names:
            named: Any = table["sender"].to_pylist()
            if named and isinstance(named[0], str):
                named = as_texts(named, self.path)
            senders, place = np.unique(np.asarray(named), return_inverse=True)
        elif len(names) > 1:
            raise ValueError("several components and no senders")
        count = len(place) if senders is None else len(senders)
        form = next((f for f in (Form.ROWS, Form.MOVED) if str(f) in schema.names), Form.WHOLE)
        kind = np.dtype(schema.field("values").type.value_type.to_pandas_dtype())
        rows, layouts = {}, {}
        for name in names:
            mine = np.flatnonzero(components == name)
            if len(np.unique(place[mine])) != count or len(mine) != count:
                raise ValueError(f"{len(mine)} messages {name!r} of {count} senders")
            rows[name] = np.empty(count, dtype=np.int64)
            rows[name][place[mine]] = mine
            different = {shapes[each] for each in mine}
            if form is not Form.WHOLE:
                different = {each[1:] for each in different}
            if len(different) != 1 or any(n < 0 for n in min(different)):
                raise ValueError(f"messages {name!r} of {len(different)} shapes")
            layouts[name] = Layout(form, kind, different.pop())
        self._set(count=count, senders=senders, layouts=layouts, rows=rows)
        self._set(largest=max(cells["values"], default=0))

    def _check(self, schema: pa.Schema) -> None:
        types = pa.types
        missing = [name for name in _WANTED[1:] if name not in schema.names]
        if missing or len(set(schema.names)) != len(schema.names):
            raise ValueError(f"no column {', '.join(missing) or 'once'}")
        extra = set(schema.names) - {*_WANTED, str(Form.ROWS), str(Form.MOVED)}
        if extra or {str(Form.ROWS), str(Form.MOVED)} <= set(schema.names):
            raise ValueError(f"columns {', '.join(sorted(extra)) or 'rows and moved'}")
        for name in schema.names:
            kind = schema.field(name).type
            text = types.is_string(kind) or types.is_large_string(kind)
            if name in ("sender", "component"):
                fits = text or (name == "sender" and types.is_integer(kind))
            else:
                fits = types.is_list(kind) or types.is_large_list(kind)
                inner = kind.value_type if fits else kind
                number = types.is_floating(inner) and name == "values"
                fits = fits and (number or types.is_integer(inner))
            if not fits:
                raise ValueError(f"{name} as {kind}")

    def _read(self, name: str, places: Ints) -> Pieces:
        layout, wanted = self.layouts[name], self.rows[name][places]
        columns = ["values"] + ([] if layout.form is Form.WHOLE else [str(layout.form)])
        lists: list[list[NDArray[Any]]] = [[np.zeros(0)] * len(wanted) for _ in columns]
        try:
            with parquet.ParquetFile(self.path) as file:
                groups = range(file.metadata.num_row_groups)
                ends = np.cumsum([file.metadata.row_group(g).num_rows for g in groups])
                which = np.searchsorted(ends, wanted, side="right")
                for group in np.unique(which):
                    mine = np.flatnonzero(which == group)
                    first = ends[group] - file.metadata.row_group(int(group)).num_rows
                    table = file.read_row_group(int(group), columns=columns)
                    some = table.take(pa.array(wanted[mine] - first)).combine_chunks()
                    for into, column in zip(lists, columns, strict=True):
                        for at, cell in zip(mine, some[column], strict=True):
                            into[at] = np.asarray(cell.values.to_numpy(zero_copy_only=False))
            size = int(np.prod(layout.shape, dtype=np.int64))
            values = np.concatenate([np.zeros(0, layout.dtype), *lists[0]])
            if layout.form is Form.WHOLE:
                return Pieces(values.reshape(len(places), *layout.shape))
            counts = np.array([len(each) for each in lists[1]], dtype=np.int64)
            ids = np.concatenate([np.zeros(0, np.int64), *lists[1]])
            if any(len(v) != len(r) * size for v, r in zip(*lists, strict=True)):
                raise ValueError("values that do not fill their rows")
            return Pieces(values.reshape(len(ids), *layout.shape), ids.astype(np.int64), counts)
        except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError) as error:
            raise self._broken(error) from error


def _cells(metadata: parquet.FileMetaData) -> dict[str, list[int]]:
    """How many values each column has, by groups of rows."""
    found: dict[str, list[int]] = defaultdict(list)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            found[column.path_in_schema.partition(".")[0]].append(column.num_values)
    return found


def _runs(places: Ints) -> Iterator[tuple[int, int]]:
    """Runs of following places: first, and one behind the last."""
    cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield int(places[start]), int(places[stop - 1]) + 1
