"""Block: rows of a table as pyarrow's arrays, and what a column of numbers may hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers

LARGEST = 2**53
"""Largest whole number that a float64 keeps apart from its neighbours."""
HUGE = np.finfo(np.float64).max
WIDEST = 1024
"""Most bytes of a field that is read as text."""
DIGITS = re.compile(rb"[0-9]{1,16}")
NUMBER = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
SPACED = re.compile(rb"\s*" + NUMBER.pattern + rb"\s*")
FLOATING = re.compile(rb"[+-]?[0-9]+(\.[0-9]*([eE][+-]?[0-9]+)?|[eE]\+[0-9]+)")
"""How programs write numbers in floating point."""
Pattern = re.Pattern[bytes]


REPAIR = "Repair the file, or fetch it again."
FILL = "Fill it in, or leave the row out."


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of finite numbers in [low, high], multiples of ``step`` where one is given.

    ``what`` names one number in errors, ``remedy`` what to do then; ``written`` is the form that a
    field must match in full: DIGITS, NUMBER, or SPACED (whole numbers in any form of a number, with
    spaces around it).
    """

    what: str
    low: float = 0
    high: float = LARGEST
    step: float | None = 1
    written: Pattern = DIGITS
    remedy: str = REPAIR

    def holds(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of ``numbers`` (n,) the column may hold, (n,)."""
        good = (numbers >= max(self.low, -HUGE)) & (numbers <= min(self.high, HUGE))
        if self.step is not None and numbers.dtype.kind == "f":
            steps = numbers / self.step
            good &= steps == np.rint(steps)
        return np.asarray(good)

    def parse(self, fields: pa.BinaryArray) -> NDArray[Any]:
        """The numbers in ``fields``, (n,); NaN or -1, which is never in range, for all else."""
        whole = self.written is DIGITS
        starts, text = _content(fields)
        odd = text.translate(None, b"0123456789")
        lengths = np.diff(starts)
        if whole:
            quick = not odd and lengths.min() > 0 and lengths.max() <= 16
        else:
            quick = not odd.translate(None, b".+-eE")
        if quick:
            with suppress(pa.ArrowInvalid):
                kind = pa.int64() if whole else pa.float64()
                return np.asarray(fields.view(pa.string()).cast(kind).to_numpy())
        words, matches = fields.to_pylist(), self.written.fullmatch
        if whole:
            return np.array([int(word) if matches(word) else -1 for word in words], dtype=np.int64)
        return np.array([float(word) if matches(word) else np.nan for word in words])

    def __str__(self) -> str:
        kind, span = "a number", ""
        if self.written is not NUMBER:
            end = f" to {self.high}" if self.high < LARGEST else " on"
            kind, span = "a whole number", f" from {self.low}{end}"
        elif np.isfinite(self.low) and np.isfinite(self.high):
            steps = f" in steps of {self.step:g}" if self.step else ""
            span = f" from {self.low:g} to {self.high:g}{steps}"
        return f"{'an' if self.what[0] in 'aeio' else 'a'} {self.what} ({kind}{span})"


@dataclass(frozen=True, slots=True)
class AnyCells:
    """A column of anything, with gaps: texts, numbers, truths, times; ``what`` names a cell."""

    what: str


Wanted = Mapping[int, Column | AnyCells | str]
"""The columns to read, by place in the file: numbers, anything, or texts with what one
is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows of a table from ``row`` on: pyarrow's arrays of the ``wanted`` columns.

    An array holds binary (fields as they stand in a file of text), numbers, or a dictionary of
    binary. ``place`` names a row of the file in errors; ``shown`` is a field of a row of the block
    as it stands in the file.
    """

    row: int
    wanted: Wanted
    columns: Mapping[int, Any]
    place: Callable[[int], str]
    shown: Callable[[int, int], str]
    encoding: str = "utf-8"

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def numbers(self, at: int) -> NDArray[Any]:
        """Column ``at`` as numbers, (n,); InputError at the first that its Column excludes."""
        fields, column = self.columns[at], self.wanted[at]
        assert isinstance(column, Column)
        text = pa.types.is_binary(fields.type)
        values = column.parse(fields) if text else np.asarray(fields.to_numpy())
        good = column.holds(values)
        if not good.all():
            raise self.error(int(np.argmin(good)), at, str(column))
        return values

    def texts(self, at: int) -> list[str]:
        """Column ``at`` as it reads, of any length; InputError at the first that is no text."""
        found = []
        for row, field in enumerate(self.columns[at].to_pylist()):
            try:
                found.append(field.decode(self.encoding))
            except UnicodeDecodeError as error:
                raise self.error(row, at, f"{self.encoding} text") from error
        return found

    def words(self, at: int) -> pa.DictionaryArray:
        """Column ``at`` as a dictionary of bytes; InputError at a field that is empty or long."""
        fields = self.columns[at]
        if pa.types.is_dictionary(fields.type):
            return fields
        lengths = np.diff(_content(fields)[0])
        good = (lengths > 0) & (lengths <= WIDEST)
        if not good.all():
            expected = f"a {what(self.wanted[at])} of 1 to {WIDEST} bytes"
            raise self.error(int(np.argmin(good)), at, expected)
        return fields.dictionary_encode()

    def identify(self, at: int, found: Identifiers) -> None:
        """Give column ``at`` to ``found``; InputError at the first that is no UTF-8 text.

        Fields of digits are numbers, if all of the column here are and none has a leading zero.
        InputError at one that was written from floating point and may have lost digits there.
        """
        fields = self.columns[at]
        if pa.types.is_integer(fields.type):
            found.add(fields)
            return
        if pa.types.is_binary(fields.type):
            starts, text = _content(fields)
            lengths = np.diff(starts)
            first = np.frombuffer(text + b"0", dtype=np.uint8)[starts[:-1]]
            plain = (lengths > 0) & (lengths <= 16) & ((first != ord("0")) | (lengths == 1))
            if plain.all() and not text.translate(None, b"0123456789"):
                found.add(fields.view(pa.string()).cast(pa.int64()))
                return
        words = self._utf8(at, self.words(at))
        for place, word in enumerate(words.dictionary.to_pylist()):
            if is_rounded(word):
                row = pc.index(words.indices, place).as_py()
                where = self.place(self.row + row)
                raise lost_digits(where, what(self.wanted[at]), word.decode())
        found.add(words)

    def cells(self, at: int, found: Identifiers) -> None:
        """Give column ``at`` of AnyCells to ``found`` as texts; InputError at one not in UTF-8."""
        fields = self.columns[at]
        words = fields if pa.types.is_dictionary(fields.type) else fields.dictionary_encode()
        found.add(self._utf8(at, words))

    def _utf8(self, at: int, words: pa.DictionaryArray) -> pa.DictionaryArray:
        """The ``words`` of column ``at``; InputError at the first that is no UTF-8 text."""
        for place, word in enumerate(words.dictionary.to_pylist()):
            try:
                word.decode()
            except UnicodeDecodeError as error:
                row = pc.index(words.indices, place).as_py()
                raise self.error(row, at, "UTF-8 text") from error
        return words

    def error(self, row: int, at: int, expected: str) -> InputError:
        """What was expected in a field, what came, and the remedy."""
        shown = self.shown(row, at)
        remedy = getattr(self.wanted[at], "remedy", REPAIR)
        remedy = FILL if remedy is REPAIR and not shown else remedy
        return broken(self.place(self.row + row), expected, shown, remedy)


def what(wanted: Column | AnyCells | str) -> str:
    """What errors call one entry of a column."""
    return wanted if isinstance(wanted, str) else wanted.what


def in_arrow(data: bytes) -> pa.Buffer:
    """A copy of ``data`` in Arrow's own memory.

    A thread of Arrow may give a buffer back after its reader has returned. Where the memory is
    Python's it asks for the interpreter then, and aborts the process if that has ended.
    """
    memory = pa.allocate_buffer(len(data))
    np.frombuffer(memory, dtype=np.uint8)[:] = np.frombuffer(data, dtype=np.uint8)
    return memory


def is_rounded(word: bytes) -> bool:
    """Whether ``word`` is a number in floating point of which digits may be lost.

    So is a whole one of 2^53 and more, and one of fewer digits than its exponent asks for (as
    spreadsheets write).

    >>> [is_rounded(word) for word in (b"1.2345678901234568e+18", b"1.23E+11", b"7.0", b"5e3")]
    [True, True, False, False]
    """
    if not FLOATING.fullmatch(word):
        return False
    mantissa, _, power = word.lower().partition(b"e+")
    digits = len(mantissa.partition(b".")[2])
    return abs(float(word)) >= LARGEST or bool(power and digits < int(power))


def lost_digits(place: str, what: str, got: str) -> InputError:
    """The error for identifiers that went through floating point."""
    expected = f"{'an' if what == 'item' else 'a'} {what} with all its digits"
    return broken(place, expected, got, "Write it anew as a whole number or a text, not a float.")


def broken(place: str, expected: str, got: object, remedy: str = REPAIR) -> InputError:
    """The error for a file that is not what its layout promises."""
    shown = got if isinstance(got, str) else repr(got)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return InputError(f"Expected {expected} in {place}, got {shown!r}. {remedy}")


def _content(fields: pa.BinaryArray) -> tuple[NDArray[np.int32], bytes]:
    """Where each field starts in the bytes of all, (n + 1,), and these bytes."""
    _, offsets, data = fields.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[fields.offset : fields.offset + len(fields) + 1]
    text = bytes(memoryview(data)[starts[0] : starts[-1]]) if data else b""
    return starts - starts[0], text
