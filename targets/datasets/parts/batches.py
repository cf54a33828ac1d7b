"""Tables of typed columns in Parquet, Feather or JSON lines, read in batches of rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather, parquet

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.columns import (
    FILL_VALUE_ADVICE,
    AnyColumn,
    NumberColumn,
    RowBlock,
    SpecByPosition,
    TimeColumn,
    get_entry_name,
    make_layout_error,
    make_lost_digits_error,
)

# Number of rows per batch.
ROWS_PER_BATCH = 2**17
# Function of the names of columns (None means all) that returns the schema of the table, and
# batches of rows with these columns.
BatchReader = Callable[[Sequence[str] | None], tuple[pa.Schema, Iterator[pa.RecordBatch]]]
# Number up to which each floating-point type represents every whole number.
_EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedTable:
    """A table file with typed columns (Parquet, Feather or JSON lines) and fewer than 2^31 rows.

    label: name of the table in error messages, which number the rows from 1
    open_batches: function of names of columns (None for all) that returns the schema and the
        batches of rows
    """

    label: str
    open_batches: BatchReader

    def read_names(self) -> tuple[str, ...]:
        """Reads the names of the columns; InputError if two columns have the same name."""
        names = tuple(self._guard(lambda: self.open_batches(None))[0].names)
        if len(set(names)) < len(names) or not names:
            raise make_layout_error(self.label, "unique column names", got=", ".join(names))
        return names

    def read_blocks(self, specs: SpecByPosition) -> Iterator[RowBlock]:
        """Reads some columns of all rows, block by block; times become Unix seconds.

        ``specs`` holds the expected content of these columns, by their positions in the file.
        Raises InputError if the table has no row or too many, is damaged, or has an unexpected type
        or a missing value in a column.
        """
        row, all_names = 0, self.read_names()
        names = {at: all_names[at] for at in specs}
        _, batches = self._guard(lambda: self.open_batches(list(names.values())))
        while (batch := self._guard(lambda: next(batches, None))) is not None:
            if row + batch.num_rows >= 2**31:
                raise make_layout_error(self.label, "fewer than 2^31 rows", "more", "Omit rows.")
            if batch.num_rows:
                yield self._guard(partial(self._make_block, batch, row, names, specs))
            row += batch.num_rows
        if not row:
            raise make_layout_error(self.label, "at least one row", got="an empty table")

    def describe_row(self, row: int) -> str:
        """Describes a row in error messages, as "NAME, row 1"; the index ``row`` counts from 0."""
        return f"{self.label}, row {row + 1}"

    def _make_block(
        self, batch: pa.RecordBatch, row: int, names: Mapping[int, str], specs: SpecByPosition
    ) -> RowBlock:
        given = {at: batch.column(name) for at, name in names.items()}
        columns = {}
        for at, column in given.items():
            column = _to_plain(column)
            if isinstance(specs[at], AnyColumn):
                columns[at] = _to_cells(column)
                continue
            entry = get_entry_name(specs[at])
            if column.null_count:
                gap = self.describe_row(row + pc.index(column.is_null(), True).as_py())
                raise make_layout_error(gap, f"a {entry}", got="no value", remedy=FILL_VALUE_ADVICE)
            numbers = isinstance(specs[at], NumberColumn)
            if not numbers and (limit := _EXACT.get(column.type)):
                large = np.abs(column.to_numpy()) >= limit
                if large.any():
                    place = int(np.argmax(large))
                    got = f"{column[place].as_py():.17g}, a {column.type}"
                    raise make_lost_digits_error(self.describe_row(row + place), entry, got)
            values = _to_numbers(column, specs[at]) if numbers else _to_identifiers(column)
            if values is None:
                kind = "numbers" if numbers else "whole numbers or texts"
                got, remedy = f"a column of type {column.type}", "Convert this column."
                raise make_layout_error(self.label, f"{entry}s as {kind}", got, remedy)
            columns[at] = values
        return RowBlock(
            first_row=row,
            column_specs=specs,
            columns=columns,
            describe_row=self.describe_row,
            get_field_text=lambda offset, at: str(self._guard(lambda: given[at][offset].as_py())),
        )

    def _guard(self, step: Callable[[], Any]) -> Any:
        """Returns the result of calling ``step``, and converts errors of pyarrow to an
        InputError.
        """
        try:
            return step()
        except InputError:
            raise
        except Exception as error:  # damage causes a dozen kinds of exception
            raise make_layout_error(self.label, "a readable table", got=str(error)) from error


def open_parquet(files: Sequence[Path | pa.Buffer], names: Sequence[str] | None) -> Any:
    """Opens Parquet files that are the parts of one table; returns the schema and batches of rows.

    files: the files, or their contents
    names: names of the columns to read; None means all

    Raises InputError if the parts have different columns.
    """
    opened = (parquet.ParquetFile(file) for file in files)
    first = next(opened)

    def batches(columns: set[str]) -> Iterator[pa.RecordBatch]:
        for part in itertools.chain([first], opened):
            if columns != {*part.schema_arrow.names}:
                got = ", ".join(part.schema_arrow.names)
                raise InputError(
                    f"Expected the columns {', '.join(sorted(columns))} in each part of the table, "
                    f"got {got[:300]} in one part. Remove the part if it is of another table."
                )
            yield from part.iter_batches(batch_size=ROWS_PER_BATCH, columns=names)

    return first.schema_arrow, batches({*first.schema_arrow.names})


def open_feather(file: Path, names: Sequence[str] | None) -> Any:
    """Opens a Feather file; returns the schema and batches of rows.

    ``names`` are the columns to read, which are held in memory in full; None means all. With
    ``file`` fixed by ``functools.partial``, the function is a ``BatchReader``.
    """
    table = feather.read_table(file, columns=names, memory_map=False)
    return table.schema, iter(table.to_batches(ROWS_PER_BATCH))


def open_json_lines(lines: Callable[[], Iterator[bytes]], names: Sequence[str] | None) -> Any:
    """Opens a file with one JSON object per line; returns the schema and batches of rows.

    lines: function that returns the bytes of the file in blocks of complete lines
    names: names of the columns to read; None reads only the schema, without rows

    With ``names``, the returned schema is None. Otherwise the schema has the names of all columns
    in the first block.
    """
    rows = ([_parse_object(line) for line in data.split(b"\n") if line.strip()] for data in lines())
    if names is None:
        keys = dict.fromkeys(key for row in next(rows) for key in row)
        return pa.schema([(key, pa.null()) for key in keys]), iter(())
    return None, (
        pa.RecordBatch.from_pydict({name: [row.get(name) for row in block] for name in names})
        for block in rows
    )


def _parse_object(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(value := json.loads(line), dict):
            return value
    raise ValueError(f"a line that is not a JSON object: {line.decode('utf-8', 'replace')}")


def _to_plain(column: pa.Array) -> pa.Array:
    """Converts a column to one without dictionaries and views, with UUIDs as texts."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type in (pa.string_view(), pa.large_string()):
        return column.cast(pa.string())
    if column.type in (pa.binary_view(), pa.large_binary()):
        return column.cast(pa.binary())
    if pa.types.is_fixed_size_binary(column.type):
        coded = column.dictionary_encode()
        texts = [
            str(UUID(bytes=key)) if len(key) == 16 else key.hex()
            for key in coded.dictionary.to_pylist()
        ]
        return pa.array(texts, pa.string()).take(coded.indices)
    return column


def _to_numbers(column: pa.Array, wanted: object) -> pa.Array | None:
    """Converts numbers to floats, and dates and times to Unix seconds; None for other types.

    Texts stay texts if ``wanted``, the expected content, is a ``TimeColumn``.
    """
    if isinstance(wanted, TimeColumn) and pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(column.type):
        unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
        return pa.array(np.floor(column.cast(pa.int64()).to_numpy() / unit))
    numbers = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    if any(is_such(column.type) for is_such in numbers):
        return column.cast(pa.float64(), safe=False)
    return None


def _to_cells(column: pa.Array) -> pa.DictionaryArray:
    """Converts a column to a dictionary of byte strings: "" for missing values, lists joined by
    bars.
    """
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = pc.binary_join(column.cast(pa.list_(pa.string())), "|")
    texts = column.cast(pa.string()).fill_null("")
    return texts.cast(pa.binary()).dictionary_encode()


def _to_identifiers(column: pa.Array) -> pa.Array | None:
    """Converts a column to whole numbers, or to a dictionary of byte strings; None for other types.

    Whole numbers may be stored as floats or decimals. Numbers that do not fit into 64 bits become
    texts.
    """
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # pandas stores whole numbers as floats in columns that had missing values.
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.int64())
        if pa.types.is_floating(kind):
            return None
        try:
            column = column.cast(pa.decimal256(76, 0)).cast(pa.string())
        except pa.ArrowInvalid:
            return None
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column.cast(pa.binary()).dictionary_encode()
    return None
