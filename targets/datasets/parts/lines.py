"""Lines: a delimited text file, read fast when it is whole, line by line when it is not."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError

_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
LARGEST = 2**53
"""Largest whole number that a float64 keeps apart from its neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of whole numbers in [low, high]; ``what`` names one in errors."""

    what: str
    low: int = 0
    high: int = LARGEST

    def holds(self, numbers: NDArray[np.float64]) -> bool:
        """Whether all of ``numbers`` are whole and in range; NaN is not."""
        inside = (numbers >= self.low) & (numbers <= self.high) & (numbers == np.floor(numbers))
        return bool(inside.all())

    def __str__(self) -> str:
        article = "an" if self.what[0] in "aeio" else "a"
        end = f" to {self.high}" if self.high < LARGEST else " on"
        return f"{article} {self.what} (a whole number from {self.low}{end})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """One file: ``header`` where the layout has one, then rows of ``width`` fields.

    Where ``quotes`` are allowed they are those of RFC 4180, without ends of line inside.
    ``place`` is the file's name in errors. Rows are lines: a blank one is an error, so that row i
    is always line i + 1 (+ 1 with a header).
    """

    place: str
    data: bytes
    separator: str
    width: int
    header: str | None = None
    encoding: str = "utf-8"
    quotes: bool = False

    def line(self, row: int) -> str:
        """Where row ``row`` stands."""
        return f"{self.place}, line {row + 1 + (self.header is not None)}"

    def error(self, row: int, expected: str, got: object) -> InputError:
        """What was expected in a row, what came, and the remedy."""
        return broken(self.line(row), expected, got)

    def rows(self) -> list[list[str]]:
        """All rows as text; InputError with the line of the first that is not ``width`` fields."""
        return list(self._split())

    def numbers(self, columns: tuple[Column, ...]) -> NDArray[np.int64]:
        """All rows as whole numbers, (n, width); InputError with the first line that breaks."""
        table = self.quick()
        if table is None or not all(c.holds(table[:, at]) for at, c in enumerate(columns)):
            table = self.slow(columns)
        return table.astype(np.int64)

    def quick(self) -> NDArray[np.float64] | None:
        """The whole file in one call; None where only ``slow`` can say what is wrong with it."""
        body, separator = self._body(), self.separator
        if not body.strip() or not body.isascii() or b"\r" in body or b"\0" in body:
            return None
        if len(separator) > 1:  # numpy splits at one character only
            if b"\t" in body:
                return None
            body, separator = body.replace(separator.encode(), b"\t"), "\t"
        try:
            table = np.loadtxt(
                io.StringIO(body.decode("ascii")), delimiter=separator, comments=None, ndmin=2
            )
        except ValueError:
            return None
        return table if table.shape == (body.count(b"\n") + 1, self.width) else None

    def slow(self, columns: tuple[Column, ...]) -> NDArray[np.float64]:
        """The same numbers, line by line; InputError with the first field that is out of place."""
        return np.array(
            [
                [self._number(row, *pair) for pair in zip(fields, columns, strict=True)]
                for row, fields in enumerate(self._split())
            ]
        )

    def _body(self) -> bytes:
        """The rows' bytes: Unix line ends, no header, no end of line after the last row."""
        data = self.data.replace(b"\r\n", b"\n")
        data = data[:-1] if data.endswith(b"\n") else data
        if self.header is not None:
            first, _, data = data.partition(b"\n")
            if first != self.header.encode():
                raise broken(
                    f"{self.place}, line 1",
                    f"the header {self.header!r}",
                    first.decode("latin-1"),
                )
        if not data:
            raise broken(self.place, "at least one row", "an empty file")
        return data

    def _split(self) -> Iterator[list[str]]:
        return (self._fields(row, line) for row, line in enumerate(self._body().split(b"\n")))

    def _fields(self, row: int, line: bytes) -> list[str]:
        try:
            text = line.decode(self.encoding)
            fields = text.split(self.separator)
            if self.quotes and '"' in text:
                fields = next(csv.reader([text], delimiter=self.separator, strict=True))
        except UnicodeDecodeError:
            raise self.error(row, f"{self.encoding} text", line) from None
        except csv.Error:
            raise self.error(row, "a row with its quotes closed", text) from None
        if len(fields) != self.width:
            expected = f"{self.width} fields separated by {self.separator!r}"
            raise self.error(row, expected, f"{len(fields)} in {line.decode(self.encoding)}")
        return fields

    def _number(self, row: int, field: str, column: Column) -> float:
        number = float(field) if _NUMBER.fullmatch(field) else np.nan
        if not (column.low <= number <= column.high and number.is_integer()):
            raise self.error(row, str(column), field)
        return number


def broken(place: str, expected: str, got: object) -> InputError:
    """The error for a file that is not what its layout promises."""
    shown = got if isinstance(got, str) else repr(got)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return InputError(
        f"Expected {expected} in {place}, got {shown!r}. Repair the file, or fetch it again."
    )
