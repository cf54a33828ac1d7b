"""Parquet: a table read batch by batch through pyarrow, which only this needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers
from fedrec_auditor.targets.datasets.parts.lines import broken

ROWS = 2**17
"""Rows of a batch."""


@dataclass(frozen=True, slots=True)
class Parquet:
    """A file whose columns are numbers, texts or times; row i is called row i + 1 in errors."""

    path: Path

    def names(self) -> tuple[str, ...]:
        """The names of the columns, which must differ."""
        names = tuple(self.guarded(lambda: self._open().schema_arrow.names))
        if len(set(names)) < len(names) or not names:
            raise broken(str(self.path), "names of columns that differ", ", ".join(names))
        return names

    def blocks(self) -> Iterator[Batch]:
        """All rows in order, in batches; InputError if there is none, or the file is damaged."""
        row = 0
        batches = self.guarded(lambda: self._open().iter_batches(batch_size=ROWS))
        while (batch := self.guarded(lambda: next(batches, None))) is not None:
            if batch.num_rows:
                yield Batch(file=self, row=row, columns=tuple(batch.columns))
            row += batch.num_rows
        if not row:
            raise broken(str(self.path), "at least one row", "an empty table")

    def guarded(self, step: Callable[[], Any]) -> Any:
        """``step``; whatever pyarrow meets in it is one InputError."""
        try:
            return step()
        except InputError:
            raise
        except Exception as error:  # damage shows as a dozen kinds of exception
            raise broken(str(self.path), "a whole Parquet file", str(error)) from error

    def _open(self) -> Any:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise InputError(
                f"Expected pyarrow to read {self.path}, got none. Install it (pip install "
                "pyarrow), or give a CSV file."
            ) from error
        return parquet.ParquetFile(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of a file from ``row`` on, as pyarrow's arrays, one a column."""

    file: Parquet
    row: int
    columns: tuple[Any, ...]

    def identify(self, at: int, what: str, found: Identifiers) -> None:
        """Give column ``at`` to ``found``; InputError if it is neither whole numbers nor texts."""
        self.file.guarded(lambda: self._identify(at, what, found))

    def _identify(self, at: int, what: str, found: Identifiers) -> None:
        import pyarrow

        column = self._whole(at, what)
        if pyarrow.types.is_integer(column.type):
            numbers = column.to_numpy()
            if numbers.dtype == np.uint64 and (numbers >= 2**63).any():
                row = int(np.argmax(numbers >= 2**63))
                raise self.error(row, at, f"a {what} below 2^63")
            found.add_numbers(numbers.astype(np.int64))
            return
        if not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        kind = column.type.value_type
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise self.error(0, at, f"{what}s that are whole numbers or texts", str(kind))
        listed = [str(word).encode() for word in column.dictionary.to_pylist()]
        places = column.indices.to_numpy().astype(np.int64)
        used, places = np.unique(places, return_inverse=True)
        words, inverse = np.unique(np.array(listed, dtype=object)[used], return_inverse=True)
        found.add_text(words.tolist(), inverse[places])

    def decimals(
        self, at: int, what: str, low: float = -np.inf, high: float = np.inf
    ) -> NDArray[np.float64]:
        """Column ``at`` as finite numbers in [low, high], times as Unix seconds."""
        numbers: NDArray[np.float64] = self.file.guarded(lambda: self._decimals(at, what))
        fits = (numbers >= low) & (numbers <= high) & np.isfinite(numbers)
        if not fits.all():
            raise self.error(int(np.argmin(fits)), at, f"a {what} (a finite number in range)")
        return numbers

    def _decimals(self, at: int, what: str) -> NDArray[np.float64]:
        import pyarrow

        column = self._whole(at, what)
        if pyarrow.types.is_timestamp(column.type):
            unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
            seconds = column.cast(pyarrow.int64()).to_numpy() / unit
            return np.asarray(np.floor(seconds), dtype=np.float64)
        if pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type):
            return np.asarray(column.to_numpy(), dtype=np.float64)
        raise self.error(0, at, f"{what}s that are numbers", str(column.type))

    def error(self, row: int, at: int, expected: str, got: str | None = None) -> InputError:
        """What was expected in a row, what came, and the remedy."""
        shown = str(self.columns[at][row]) if got is None else got
        return broken(f"{self.file.path}, row {self.row + row + 1}", expected, shown)

    def _whole(self, at: int, what: str) -> Any:
        column = self.columns[at]
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise self.error(row, at, f"a {what}", "no value")
        return column
