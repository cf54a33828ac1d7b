"""Delimited: a text file of rows, which pyarrow reads, and a line of it again for an error."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import csv as fast

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.block import REPAIR, Block, Wanted, broken, in_arrow
from fedrec_auditor.targets.datasets.parts.source import Source

LINE = 2**20
"""Most bytes of a line."""
BOM = b"\xef\xbb\xbf"
_UNIT = b"\x1f"
_OPEN = UnicodeDecodeError, csv.Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited:
    """A file of rows of equally many fields, ``width`` or as many as its header has.

    ``read`` gives the file's bytes from the start, in blocks; ``place`` is its name in errors.
    ``header`` says whether the first line is one, or what it must be. Every row is one line, so row
    i is line i + 1 (+ 1 with a header); a blank line is an error. Where ``quotes`` are allowed they
    are those of RFC 4180, without ends of line inside. ``encoding`` is that of texts.
    """

    place: str
    read: Callable[[], Iterator[bytes]]
    separator: str
    header: bool | str = False
    width: int | None = None
    quotes: bool = False
    encoding: str = "utf-8"

    @classmethod
    def of(cls, source: Source, name: str, *, whole: bool = False, **layout: Any) -> Self:
        """The file ``name`` of ``source``, small if ``whole``; ``layout`` are the other fields."""
        read = partial(source.blocks, name, whole=whole)
        return cls(place=source.place(name), read=read, **layout)

    def names(self) -> tuple[str, ...]:
        """The names in the header, or "1", "2", ... if there is none.

        InputError if the first line is no text, or has a name twice.
        """
        line = self.first_line()
        try:
            fields = self._split(line)
            if not self.header:
                return tuple(map(str, range(1, len(fields) + 1)))
            names = [field.decode() for field in fields]
        except _OPEN as error:
            raise broken(f"{self.place}, line 1", "names of columns", repr(line)) from error
        if not line or len(set(names)) < len(names):
            raise broken(f"{self.place}, line 1", "names of columns that differ", line.decode())
        return tuple(names)

    def first_line(self) -> bytes:
        """The first line, without its end."""
        return next(self.read(), b"").partition(b"\n")[0].removeprefix(BOM).rstrip(b"\r")

    def blocks(self, wanted: Wanted) -> Iterator[Block]:
        """The ``wanted`` columns of all rows in order.

        InputError if there is no row, or at the first line of another number of fields.
        Memory: the bytes of a block that ``read`` gives, and once more of its wanted columns.
        """
        given = self.header.split(self.separator) if isinstance(self.header, str) else None
        width = self.width or len(given or self.names())
        row = 0
        for data in self.lines():
            columns = self._quick(data, width, wanted) or self._slow(row, data, width, wanted)

            def shown(offset: int, at: int, row: int = row, data: bytes = data) -> str:
                field = self._fields(row + offset, data.split(b"\n")[offset], width)[at]
                return field.decode(self.encoding, "replace")

            block = Block(
                row=row,
                wanted=wanted,
                columns=columns,
                place=self.line,
                shown=shown,
                encoding=self.encoding,
            )
            yield block
            row += block.size

    def line(self, row: int) -> str:
        """Place of row ``row`` in words."""
        return f"{self.place}, line {row + 1 + bool(self.header)}"

    def error(self, row: int, expected: str, got: object, remedy: str = REPAIR) -> InputError:
        """What was expected in a row, what came, and the remedy."""
        return broken(self.line(row), expected, got, remedy)

    def is_closed(self) -> bool:
        """Whether all quotes in the file are those of RFC 4180."""
        odd = (data for data in self.lines() if b'"' in data and not _closed(data, self.separator))
        try:
            for data in odd:
                for line in data[:-1].split(b"\n"):
                    self._split(line)
        except _OPEN:
            return False
        return True

    def lines(self) -> Iterator[bytes]:
        """The rows' bytes, each piece with the end of a line at its end; Unix line ends."""
        rest, header, empty = b"", self.header, True
        for data in self._ended():
            cut = data.rfind(b"\n") + 1
            lines = b"".join((rest, memoryview(data)[:cut])) if cut else b""
            rest = data[cut:] if cut else rest + data
            if len(rest) > LINE:
                raise broken(self.place, f"lines of at most {LINE:,} bytes", "a longer one")
            if b"\r" in lines:
                lines = lines.replace(b"\r\n", b"\n")
            if header and lines:
                first, _, lines = lines.partition(b"\n")
                if isinstance(header, str) and first != header.encode():
                    got = first.decode("latin-1")
                    raise broken(f"{self.place}, line 1", f"the header {header!r}", got)
                header = False
            if lines:
                yield lines
                empty = False
        if empty:
            raise broken(self.place, "at least one row", "an empty file")

    def _ended(self) -> Iterator[bytes]:
        """The file's bytes, with an end of line after the last."""
        data = b"\n"
        for data in self.read():
            yield data
        if not data.endswith(b"\n"):
            yield b"\n"

    def _quick(self, data: bytes, width: int, wanted: Wanted) -> dict[int, pa.Array] | None:
        """The wanted columns as pyarrow reads them; None where ``_slow`` might say otherwise."""
        quotes, separator = self.quotes and b'"' in data, self.separator
        if b"\r" in data or b"\0" in data or (quotes and not _closed(data, separator)):
            return None
        if len(separator) > 1:  # pyarrow separates by one character
            if _UNIT in data:
                return None
            data, separator = data.replace(separator.encode(), _UNIT), _UNIT.decode()
        names = [*map(str, range(width))]
        text = pa.string() if quotes else pa.binary()  # a line with quotes has to be UTF-8
        types = {names[at]: text for at in wanted}
        try:
            table = fast.read_csv(
                pa.BufferReader(in_arrow(data)),
                fast.ReadOptions(column_names=names, block_size=2 * LINE),
                fast.ParseOptions(delimiter=separator, quote_char=quotes and '"'),
                fast.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=[""]
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != data.count(b"\n"):  # it leaves out blank lines
            return None
        return {at: table[names[at]].combine_chunks().view(pa.binary()) for at in wanted}

    def _slow(self, row: int, data: bytes, width: int, wanted: Wanted) -> dict[int, pa.Array]:
        """The wanted columns, line by line; InputError with the first line that breaks."""
        lines = enumerate(data[:-1].split(b"\n"), row)
        rows = [self._fields(at, line, width) for at, line in lines]
        return {at: pa.array([fields[at] for fields in rows], pa.binary()) for at in wanted}

    def _fields(self, row: int, line: bytes, width: int) -> list[bytes]:
        """The fields of one line; InputError if they are not ``width``, or a quote is open."""
        try:
            fields = self._split(line)
        except _OPEN:
            expected = f"{self.encoding} text with its quotes closed"
            remedy = "Close it, or say --no-quotes if quotes are letters."
            raise self.error(row, expected, line, remedy) from None
        if len(fields) != width or b"\0" in line:
            separators = line.count(self.separator.encode())
            got = f"{separators + 1} in {line.decode(self.encoding, 'replace')}"
            raise self.error(row, f"{width} fields separated by {self.separator!r}", got)
        return fields

    def _split(self, line: bytes) -> list[bytes]:
        """The fields of a line; one of ``_OPEN`` if a quote is open."""
        if self.quotes and b'"' in line:
            fields = next(csv.reader([line.decode()], delimiter=self.separator, strict=True))
            return [field.encode() for field in fields]
        return line.split(self.separator.encode())


def _closed(data: bytes, separator: str) -> bool:
    """Whether every quote in ``data`` starts or ends a field, or is one of two in a row."""
    raw = np.frombuffer(b"\n" + data, dtype=np.uint8)
    at = np.flatnonzero(raw == ord('"'))
    edges = [ord(edge) for edge in (separator, "\n", '"')]
    before, after = raw[at[::2] - 1], raw[at[1::2] + 1]
    return at.size % 2 == 0 and bool(np.isin(before, edges).all() and np.isin(after, edges).all())
