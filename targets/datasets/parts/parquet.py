"""Parquet: a table read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.block import (
    FILL,
    AnyCells,
    Block,
    Codes,
    Column,
    Moments,
    Wanted,
    broken,
    what,
)

ROWS = 2**17
"""Rows of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parquet:
    """A file of at most ``most`` rows of numbers, texts or times; the first is called row 1."""

    place: str
    file: Path | IO[bytes]
    most: int = 2**31 - 1

    def names(self) -> tuple[str, ...]:
        """The names of the columns, which must differ."""
        return tuple(self.types())

    def types(self) -> dict[str, pa.DataType]:
        """The pyarrow type of each column, by name; InputError if two have one name."""
        schema = self._guarded(lambda: parquet.ParquetFile(self.file).schema_arrow)
        if len(set(schema.names)) < len(schema.names) or not schema.names:
            raise broken(self.place, "names of columns that differ", ", ".join(schema.names))
        return dict(zip(schema.names, schema.types, strict=True))

    def blocks(self, wanted: Wanted) -> Iterator[Block]:
        """The ``wanted`` columns of all rows in order; times become Unix seconds.

        InputError if there is no row, at a column of another type or with a gap, or if the file is
        damaged. Memory: the wanted columns of 2^17 rows.
        """
        row = 0
        file = self._guarded(lambda: parquet.ParquetFile(self.file))
        if file.metadata.num_rows > self.most:
            raise broken(self.place, f"at most {self.most} rows", file.metadata.num_rows)
        names = {at: file.schema_arrow.names[at] for at in wanted}
        batches = file.iter_batches(batch_size=ROWS, columns=list(names.values()))
        while (batch := self._guarded(lambda: next(batches, None))) is not None:
            if batch.num_rows:
                yield self._guarded(lambda: self._block(batch, row, names, wanted))  # noqa: B023
            row += batch.num_rows
        if not row:
            raise broken(self.place, "at least one row", "an empty table")

    def line(self, row: int) -> str:
        """Where row ``row`` stands."""
        return f"{self.place}, row {row + 1}"

    def _block(
        self, batch: pa.RecordBatch, row: int, names: Mapping[int, str], wanted: Wanted
    ) -> Block:
        given = {at: batch.column(name) for at, name in names.items()}
        columns = {}
        for at, column in given.items():
            if isinstance(wanted[at], AnyCells):
                columns[at] = _cells(column)
                continue
            if column.null_count:
                gap = self.line(row + pc.index(column.is_null(), True).as_py())
                raise broken(gap, f"a {what(wanted[at])}", "no value", FILL)
            numbers = isinstance(wanted[at], Column)
            found = _numbers(column, wanted[at]) if numbers else _identifiers(column)
            if found is None:
                kind = "numbers" if numbers else "whole numbers or texts"
                expected = f"{what(wanted[at])}s that are {kind}"
                raise broken(self.line(row), expected, str(column.type))
            columns[at] = found
        return Block(
            row=row,
            wanted=wanted,
            columns=columns,
            place=self.line,
            shown=lambda offset, at: str(self._guarded(lambda: given[at][offset].as_py())),
        )

    def _guarded(self, step: Callable[[], Any]) -> Any:
        """``step``; whatever pyarrow meets in it is one InputError."""
        try:
            return step()
        except InputError:
            raise
        except Exception as error:  # damage shows as a dozen kinds of exception
            raise broken(self.place, "a whole Parquet file", str(error)) from error


def _numbers(column: pa.Array, wanted: Column | Codes | AnyCells | str) -> pa.Array | None:
    """The column as numbers, times as Unix seconds, or texts of times; None if it is neither."""
    if isinstance(wanted, Moments) and _is_text(column):
        return column.cast(pa.binary())
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(column.type):
        unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
        return pa.array(np.floor(column.cast(pa.int64()).to_numpy() / unit))
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.cast(pa.float64(), safe=False)
    return None


def _cells(column: pa.Array) -> pa.DictionaryArray:
    """The column as a dictionary of binary, empty where there is a gap; of lists, their texts."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = pc.binary_join(column.cast(pa.list_(pa.string())), "|")
    texts = column.cast(pa.string()).fill_null("")
    return texts.cast(pa.binary()).dictionary_encode()


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _identifiers(column: pa.Array) -> pa.Array | None:
    """The column as whole numbers, or as a dictionary of binary; None if it is neither.

    Whole numbers may be floats, as pandas has them in a column that had gaps.
    """
    if pa.types.is_floating(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
    if pa.types.is_integer(column.type):
        return column if pa.types.is_uint64(column.type) else column.cast(pa.int64())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text(column):
        return column.cast(pa.binary()).dictionary_encode()
    return None
