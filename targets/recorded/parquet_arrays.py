"""A table of messages as named arrays, with a row a message in the order of senders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.recorded.tensors import (
    COUNTS,
    PARTIAL,
    PLACES,
    SENDERS,
    Head,
    Read,
    Tensors,
    as_texts,
)

MOST_CELLS = 2**24
"""Most senders, names and sizes together that a table of messages has."""
_KNOWN = ("sender", "component", "shape")


class ParquetArrays(Tensors):
    """A table with a row a message and component: sender, component, shape and values.

    ``values`` is a list of numbers, ``shape`` a list; in a column ``rows`` or ``moved`` stand the
    rows of a table that the values are of. Senders are numbers or texts; without the column the
    file has one component. All but values and rows is read at once, and then a group of rows at a
    time.
    """

    what: ClassVar[str] = "Parquet file of messages"

    def _scan(self) -> tuple[dict[str, Head], dict[str, NDArray[Any]]]:
        with parquet.ParquetFile(self.path) as file:
            schema = file.schema_arrow
            _check(schema)
            known = [name for name in _KNOWN if name in schema.names]
            cells = _cells(file.metadata)
            if (told := sum(sum(cells[name]) for name in known)) > MOST_CELLS:
                raise ValueError(f"{told:,} senders, names and sizes, of {MOST_CELLS:,} at most")
            table = file.read(columns=known)
            form = next((form for form in PARTIAL if form in schema.names), None)
            batches = file.iter_batches(columns=[form]) if form else ()
            lengths = [pc.list_value_length(batch[0]).to_numpy() for batch in batches]
        if any(column.null_count for column in table.columns):
            raise ValueError("a sender, a component or a shape that is null")
        object.__setattr__(self, "largest", max(cells["values"], default=0))
        components = np.asarray(table["component"].to_pylist(), dtype=np.str_)
        shapes = [tuple(each) for each in table["shape"].to_pylist()]
        names = list(dict.fromkeys(components.tolist()))
        index: dict[str, NDArray[Any]] = {}
        place, count = np.arange(len(components)), len(components)
        if "sender" in table.column_names:
            named: Any = table["sender"].to_pylist()
            if named and isinstance(named[0], str):
                named = as_texts(named, self.path)
            index[SENDERS], place = np.unique(np.asarray(named), return_inverse=True)
            count = len(index[SENDERS])
        elif len(names) > 1:
            raise ValueError("several components and no senders")
        kind = np.dtype(schema.field("values").type.value_type.to_pandas_dtype())
        heads = {name: Head(array.shape, array.dtype) for name, array in index.items()}
        for name in names:
            mine = np.flatnonzero(components == name)
            if len(np.unique(place[mine])) != count or len(mine) != count:
                raise ValueError(f"{len(mine)} messages {name!r} of {count} senders")
            different = {shapes[each][bool(form) :] for each in mine}
            if len(different) != 1 or any(n < 0 for n in min(different)):
                raise ValueError(f"messages {name!r} of {len(different)} shapes")
            index[f"{name}:{PLACES}"] = mine[np.argsort(place[mine])]
            heads[name] = Head((count, *min(different)), kind)
            if form:
                counts = np.concatenate(lengths)[index[f"{name}:{PLACES}"]].astype(np.int64)
                whole = np.dtype(np.int64)
                index[f"{name}:{COUNTS}"], total = counts, int(counts.sum())
                heads[name] = Head((total, *min(different)), kind)
                heads |= {f"{name}:{form}": Head((total,), whole)}
                heads |= {f"{name}:{COUNTS}": Head((count,), whole)}
        return heads, index

    @contextmanager
    def _opened(self) -> Iterator[Read]:
        with parquet.ParquetFile(self.path) as file:
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            starts = np.cumsum([0, *(group.num_rows for group in groups)])

            @lru_cache(1)
            def group(number: int, column: str) -> pa.Array:
                return file.read_row_group(number, columns=[column])[column].combine_chunks()

            def lists(column: str, wanted: Ints) -> list[NDArray[Any]]:
                found: list[Any] = [None] * len(wanted)
                which = np.searchsorted(starts, wanted, side="right") - 1
                for number in np.unique(which).tolist():
                    for at in np.flatnonzero(which == number):
                        cell = group(number, column)[int(wanted[at] - starts[number])]
                        found[at] = np.asarray(cell.values.to_numpy(zero_copy_only=False))
                return found

            def read(name: str, rows: slice) -> NDArray[Any]:
                base, _, form = name.partition(":")
                head, places = self.heads[name], self.index[f"{base}:{PLACES}"]
                counts = self.index.get(f"{base}:{COUNTS}", np.ones_like(places))
                ends = np.concatenate([[0], np.cumsum(counts)])
                first, last = np.searchsorted(ends, rows.indices(head.shape[0])[:2])
                size = int(np.prod(head.shape[1:], dtype=np.int64))
                found = lists(form or "values", places[first:last])
                if any(len(f) != n * size for f, n in zip(found, counts[first:last], strict=True)):
                    raise ValueError("values that do not fill their rows")
                together = np.concatenate([np.zeros(0, head.dtype), *found])
                return together.reshape(-1, *head.shape[1:])

            yield read


def _check(schema: pa.Schema) -> None:
    types = pa.types
    missing = [name for name in (*_KNOWN[1:], "values") if name not in schema.names]
    if missing or len(set(schema.names)) != len(schema.names):
        raise ValueError(f"no column {', '.join(missing) or 'once'}")
    extra = set(schema.names) - {*_KNOWN, "values", *PARTIAL}
    if extra or set(PARTIAL) <= set(schema.names):
        raise ValueError(f"columns {', '.join(sorted(extra)) or 'rows and moved'}")
    for name in schema.names:
        kind = schema.field(name).type
        if name in ("sender", "component"):
            text = types.is_string(kind) or types.is_large_string(kind)
            fits = text or (name == "sender" and types.is_integer(kind))
        else:
            fits = types.is_list(kind) or types.is_large_list(kind)
            inner = kind.value_type if fits else kind
            number = types.is_floating(inner) and name == "values"
            fits = fits and (number or types.is_integer(inner))
        if not fits:
            raise ValueError(f"{name} as {kind}")


def _cells(metadata: parquet.FileMetaData) -> dict[str, list[int]]:
    """How many values each column has, by groups of rows."""
    found: dict[str, list[int]] = defaultdict(list)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            found[column.path_in_schema.partition(".")[0]].append(column.num_values)
    return found
