"""Delimited: a large text file of rows, read a block at a time, without a Python object a row."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers
from fedrec_auditor.targets.datasets.parts.lines import Column, broken

LINE = 2**20
"""Most bytes of a line."""
WIDEST = 1024
"""Most bytes of a field that is read as text."""
DIGITS = 16
NEWLINE, DOT, QUOTE = ord("\n"), ord("."), b'"'
UNIT = b"\x1f"
"""Separates fields of a block that had quotes; it does not occur in text."""
_NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited:
    """A file of rows of equally many fields, ``width`` or as many as its header has.

    ``read`` gives the file's bytes from the start, in blocks; ``place`` is its name in errors.
    ``header`` says whether the first line is one. Every row is one line, so row i is line i + 1
    (+ 1 with a header); a blank line is an error. Where ``quotes`` are allowed they are those of
    RFC 4180, without ends of line inside. Memory: about fifty bytes for each field of a block.
    """

    place: str
    read: Callable[[], Iterator[bytes]]
    separator: bytes
    header: bool
    width: int | None = None
    quotes: bool = False

    def names(self) -> tuple[str, ...]:
        """The names in the header; InputError if it is no text, or has a name twice."""
        line = next(self.read(), b"").partition(b"\n")[0].removeprefix(BOM).rstrip(b"\r")
        try:
            text = line.decode()
            fields = next(csv.reader([text], delimiter=self.separator.decode(), strict=True), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise broken(f"{self.place}, line 1", "names of columns", repr(line)) from error
        if not fields or len(set(fields)) < len(fields):
            raise broken(f"{self.place}, line 1", "names of columns that differ", text)
        return tuple(fields)

    def blocks(self) -> Iterator[Block]:
        """All rows in order, in blocks; InputError if there is none, or at the first bad line."""
        width = self.width or len(self.names())
        row = 0
        for data in self._whole_lines():
            block = self._block(data, row, width)
            yield block
            row += len(block.ends)
        if not row:
            raise broken(self.place, "at least one row", "an empty file")

    def line(self, row: int) -> str:
        """Where row ``row`` stands."""
        return f"{self.place}, line {row + 1 + self.header}"

    def _whole_lines(self) -> Iterator[bytes]:
        """Bytes that end with the end of a line, without the header, with Unix line ends."""
        rest, skip = b"", self.header
        for data in self.read():
            head, end, tail = data.rpartition(b"\n")
            lines, rest = (rest + head + end, tail) if end else (b"", rest + tail)
            if len(rest) > LINE:
                raise broken(self.place, f"lines of at most {LINE:,} bytes", "a longer one")
            if skip and lines:
                lines, skip = lines.partition(b"\n")[2], False
            if lines:
                yield lines.replace(b"\r\n", b"\n")
        if rest and not skip:
            yield rest.removesuffix(b"\r") + b"\n"

    def _block(self, data: bytes, row: int, width: int) -> Block:
        separator = self.separator
        if self.quotes and QUOTE in data:
            data, separator = self._unquoted(data, row), UNIT
        raw = np.frombuffer(data, dtype=np.uint8)
        marks = np.flatnonzero((raw == separator[0]) | (raw == NEWLINE))
        before = np.concatenate([[-1], marks[:-1]]) + 1
        per_row = (width - 1) * len(separator) + 1
        whole = marks.size % per_row == 0 and b"\0" not in data
        if whole:
            ends, starts = marks.reshape(-1, per_row), before.reshape(-1, per_row)
            whole = bool((raw[ends[:, -1]] == NEWLINE).all())
            whole = whole and not (raw[ends[:, :-1]] == NEWLINE).any()
            if len(separator) == 2:  # between the two halves of a separator stands nothing
                whole = whole and bool((ends[:, 1::2] == starts[:, 1::2]).all())
                ends, starts = ends[:, ::2], starts[:, ::2]
        if not whole:
            raise self._misfit(data, row, width, separator)
        return Block(file=self, row=row, data=raw, starts=starts, ends=ends)

    def _unquoted(self, data: bytes, row: int) -> bytes:
        """The same rows without quotes, their fields separated by ``UNIT``."""
        rows = []
        for offset, line in enumerate(data[:-1].split(b"\n")):
            try:
                text = line.decode()
                fields = next(csv.reader([text], delimiter=self.separator.decode(), strict=True))
            except (UnicodeDecodeError, csv.Error, StopIteration) as error:
                where = self.line(row + offset)
                raise broken(where, "a row with its quotes closed", repr(line)) from error
            rows.append(UNIT.join(field.encode() for field in fields))
        return b"\n".join(rows) + b"\n"

    def _misfit(self, data: bytes, row: int, width: int, separator: bytes) -> InputError:
        """The error for the first line that has not ``width`` fields."""
        offset, line = next(
            (offset, line)
            for offset, line in enumerate(data[:-1].split(b"\n"))
            if not line
            or b"\0" in line
            or line.count(separator) != width - 1
            or line.replace(separator, b"").count(separator[:1])
        )
        expected = f"{width} fields separated by {self.separator.decode()!r}"
        shown = line.replace(UNIT, self.separator).decode("utf-8", "replace")
        return broken(self.line(row + offset), expected, repr(shown)[1:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows of a file from ``row`` on: field c of row r is data[starts[r, c]:ends[r, c]]."""

    file: Delimited
    row: int
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def whole(self, at: int, column: Column) -> NDArray[np.int64]:
        """Field ``at`` of every row as a whole number; InputError at the first that is none."""
        values, good = self._digits(at)
        good &= (values >= column.low) & (values <= column.high)
        if not good.all():
            raise self.error(int(np.argmin(good)), at, str(column))
        return values

    def identify(self, at: int, what: str, found: Identifiers) -> None:
        """Give field ``at`` of every row to ``found``; InputError at the first that is no text."""
        values, good = self._digits(at)
        length = self.ends[:, at] - self.starts[:, at]
        if (good & ((self.data[self.starts[:, at]] != ord("0")) | (length == 1))).all():
            found.add_numbers(values)  # as a computer writes them
            return
        words, places = np.unique(self.text(at, what), return_inverse=True)
        listed = words.tolist()
        for place, word in enumerate(listed):
            try:
                word.decode()
            except UnicodeDecodeError as error:
                raise self.error(int(np.argmax(places == place)), at, "UTF-8 text") from error
        found.add_text(listed, places)

    def decimals(
        self, at: int, what: str, low: float = -np.inf, high: float = np.inf
    ) -> NDArray[np.float64]:
        """Field ``at`` as finite numbers in [low, high]; InputError at the first that is none.

        Digits with one dot at most are read here, the nearest double each; the others one by one.
        """
        start, end = self.starts[:, at], self.ends[:, at]
        length = end - start
        good = (length > 0) & (length < DIGITS)
        values, places = np.zeros(len(start), dtype=np.int64), np.zeros(len(start), dtype=np.int64)
        dotted = np.zeros(len(start), dtype=bool)
        for k in range(min(int(length.max()), DIGITS)):
            here = k < length
            byte = self.data[np.minimum(start + k, self.data.size - 1)]
            digit = byte - np.uint8(ord("0"))  # wraps round, so that all but digits exceed 9
            number, dot = here & (digit <= 9), here & (byte == DOT)
            good &= ~here | number | (dot & ~dotted)
            values = np.where(number, values * 10 + digit, values)
            places += number & dotted
            dotted |= dot
        numbers = values / 10.0**places
        good &= length > dotted
        for row in np.flatnonzero(~good):
            field = self._field(int(row), at)
            numbers[row] = float(field) if _NUMBER.fullmatch(field) else np.nan
        fits = (numbers >= low) & (numbers <= high) & np.isfinite(numbers)
        if not fits.all():
            span = f" from {low:g} to {high:g}" if np.isfinite(low) and np.isfinite(high) else ""
            raise self.error(int(np.argmin(fits)), at, f"a {what} (a number{span})")
        return numbers

    def text(self, at: int, what: str) -> NDArray[np.bytes_]:
        """Field ``at`` as bytes; InputError if one is empty, too long, or no UTF-8."""
        start, end = self.starts[:, at], self.ends[:, at]
        length = end - start
        if not ((length > 0) & (length <= WIDEST)).all():
            bad = int(np.argmin((length > 0) & (length <= WIDEST)))
            raise self.error(bad, at, f"a {what} of 1 to {WIDEST} bytes")
        longest = int(length.max())
        letters = np.zeros((len(start), longest), dtype=np.uint8)
        for k in range(longest):
            byte = self.data[np.minimum(start + k, self.data.size - 1)]
            letters[:, k] = np.where(k < length, byte, 0)
        return letters.view(f"S{longest}")[:, 0]

    def error(self, row: int, at: int, expected: str) -> InputError:
        """What was expected in a field, what came, and the remedy."""
        got = self._field(row, at).decode("utf-8", "replace")
        return broken(self.file.line(self.row + row), expected, got)

    def _digits(self, at: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Field ``at`` of every row as a number, and whether it is one to sixteen digits."""
        start, end = self.starts[:, at], self.ends[:, at]
        length = end - start
        good = (length > 0) & (length <= DIGITS)
        least, most = int(length.min()), min(int(length.max()), DIGITS)
        values = np.zeros(len(end), dtype=np.int64)
        for k in range(most):
            digit = self.data[np.maximum(end - 1 - k, 0)] - np.uint8(ord("0"))
            if k >= least:
                digit[k >= length] = 0
            good &= digit <= 9
            values += digit * np.int64(10**k)
        return values, good

    def _field(self, row: int, at: int) -> bytes:
        return self.data[self.starts[row, at] : self.ends[row, at]].tobytes()
