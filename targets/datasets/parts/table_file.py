"""A table in a file of text or of Arrow's formats, opened by what it holds, whatever its name."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import csv as fast

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.batches import Batches, of_feather, of_json, of_parquet
from fedrec_auditor.targets.datasets.parts.columns import (
    NUMBER,
    REPAIR,
    Block,
    Wanted,
    broken,
    in_arrow,
)
from fedrec_auditor.targets.datasets.parts.source import Source, blocks
from fedrec_auditor.targets.tables import is_table, parts

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


SEPARATORS = (",", "\t", ";", "|", "::", " ")
USUAL_SEPARATOR = {".csv": ",", ".tsv": "\t"}
SAID = ("separator", "header", "quotes")
"""Options for a file of text beside its columns."""
ANSWERS = ("yes", "no")
_PACKED: Mapping[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_OTHERS = {
    b"\x28\xb5\x2f\xfd": "a file packed by zstd",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a rar archive",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "an array of NumPy",
    b"\x80": "a pickle",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"SQLite format 3": "a SQLite database",
    b"Obj\x01": "an Avro file",
    b"%PDF": "a PDF",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"<": "a web page or XML",
    b"[{": "one JSON array",
}
"""How files begin that are not read, and what they are."""
_LISTS = {
    re.compile(rb"\d+( \d+)*"): (
        "a user and all its items in each line",
        """awk '{for (i = 2; i <= NF; i++) print $1 "," $i}' FILE > pairs.csv""",
    ),
    re.compile(rb"[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\tN\d+-[01]( N\d+-[01])*"): (
        "the items that were shown and clicked in each line",
        """awk -F '\\t' '{n = split($5, s, " "); for (i = 1; i <= n; i++) """
        """if (s[i] ~ /-1$/) print $2 "," substr(s[i], 1, length(s[i]) - 2) "," $3}' FILE """
        """> pairs.csv""",
    ),
}
"""Lines of files that hold lists: what they are, and the command that writes a pair a line."""
_VALUE = re.compile(NUMBER.pattern + rb"$|\d{4}-\d\d-\d\d")
"""A cell that is no name of a column: a number or a date."""
_LOOKED_AT = 1000
"""Lines that are compared with the first one."""


def table_file(
    path: Path,
    said: Mapping[str, str],
    choose: Callable[[tuple[str, ...]], object],
    usual: Sequence[str],
    remedy: str,
) -> Delimited | Batches:
    """The file at ``path``, or the parts in a folder; of text, with what is ``said`` (``SAID``).

    A separator that is not said is the one that gives ``choose`` its columns, among the names that
    it gives; it raises InputError where it does not. InputError names what is no table, several
    separators that fit, and, with the ``remedy``, a first line that is a row: with none of the
    ``usual`` names, and with a number, a date or what stands in its column again.
    """
    place = str(path)
    if not is_table(path):
        raise InputError(f"Expected the file of a table, got {path}. Check the path.")
    if os.path.isdir(path):
        return _typed(Batches(place=place, read=partial(of_parquet, parts(path))), said)
    opened = path.open
    start = _start(opened, place)
    for magic, unpacked in _PACKED.items():
        if start.startswith(magic):
            opened = partial(unpacked, path)
            start = _start(opened, place)
    start = start.removeprefix(BOM).lstrip()
    if start.startswith(b"PAR1"):
        return _typed(Batches(place=place, read=partial(of_parquet, [path])), said)
    if start.startswith(b"ARROW1"):
        return _typed(Batches(place=place, read=partial(of_feather, path)), said)
    text = Delimited(place=place, read=lambda: blocks(opened, place), separator="\n", header=False)
    if start.startswith(b"{"):
        return _typed(Batches(place=place, read=partial(of_json, text.lines)), said)
    kinds = (kind for magic, kind in _OTHERS.items() if start.startswith(magic))
    if kind := next(kinds, "a file with zero bytes, which text has none of" * (b"\0" in start)):
        raise InputError(
            f"Expected a table of text (a row a line), Parquet, Feather or lines of JSON, got "
            f"{path}: {kind}. Unpack or export it as one of these."
        )
    found, is_row = _delimited(path, text, said, choose)
    names = found.first_line().decode("utf-8", "replace").split(found.separator)
    if is_row and "header" not in said and usual_column(names, usual) is None:
        raise row_for_header(found, remedy)
    return found


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The column with the first ``usual`` name that is there; None if none is.

    Capitals, signs between letters and a RecBole type after a colon do not matter.

    >>> usual_column(["Item_ID:token", "stars"], ["item", "itemid"])
    'Item_ID:token'
    """
    plain = {re.sub(r"[^a-z0-9]", "", name.partition(":")[0].lower()): name for name in names[::-1]}
    return next((plain[name] for name in usual if name in plain), None)


def row_for_header(file: Delimited, remedy: str) -> InputError:
    """The error for a first line that is a row and no names."""
    line = file.first_line().decode("utf-8", "replace")
    return broken(f"{file.place}, line 1", "names of columns", line, remedy)


def _start(opened: Callable[[str], Any], place: str) -> bytes:
    return next(blocks(opened, place), b"")[:4096]


def _typed(file: Batches, said: Mapping[str, str]) -> Batches:
    if said:
        key, value = next(iter(said.items()))
        raise InputError(f"Expected no {key} of {file.place}, got {value!r}. Leave it out.")
    return file


def _delimited(
    path: Path,
    text: Delimited,
    said: Mapping[str, str],
    choose: Callable[[tuple[str, ...]], object],
) -> tuple[Delimited, bool]:
    """The file with the separator that is said, else the one that gives the columns.

    Of a file without names it is the one that makes most fields, in each line as many. And whether
    the first line looks like a row. InputError where several separators fit.
    """
    own = USUAL_SEPARATOR.get(path.suffix.lower(), "")
    mark = said.get("separator", "")
    mark = {"\\t": "\t", "tab": "\t", "space": " "}.get(mark, mark)
    if mark and mark not in SEPARATORS:
        raise InputError(
            f"Expected a separator among , ; | :: tab and space, got {mark!r}. Give one of these."
        )
    for key in SAID[1:]:
        if said.get(key, ANSWERS[0]) not in ANSWERS:
            raise InputError(f"Expected {key} yes or no, got {said[key]!r}. Say one of these.")
    first = text.first_line()
    lines = b"".join(islice(text.lines(), 2))[:-1].split(b"\n")[:_LOOKED_AT]
    for form, (what, command) in _LISTS.items():
        ragged = len({line.count(b" ") for line in lines}) > 1
        if ragged and all(form.fullmatch(line.strip()) for line in lines):
            times = " --column timestamp=3" * ("$3" in command)
            raise InputError(
                f"Expected a user and an item in each line of {path}, got {what}. Write a pair a "
                f"line, and read that with --no-header --column user=1 --column item=2{times}: "
                f"{command}"
            )
    files = [
        replace(text, separator=separator, header=said.get("header") != "no", quotes=quotes)
        for separator in ([mark] if mark else sorted(SEPARATORS, key=lambda each: each != own))
        for quotes in (len(separator) == 1 and said.get("quotes") != "no",)
    ]
    there = [file for file in files if file.separator.encode() in first]
    if mark and not there:
        raise broken(
            f"{text.place}, line 1",
            f"names of columns separated by {mark!r}",
            first.decode("utf-8", "replace"),
            "Leave --separator out, or give the one that is there.",
        )
    fits = [file for file in there if _has_columns(file, choose)]
    if fits and not fits[0].header:
        fits = [_widest(fits, lines)]
    if len(fits) > 1 and fits[0].separator != own:
        shown = " or ".join(repr(file.separator) for file in fits)
        raise InputError(
            f"Expected one separator that {path} may have, got {shown}. Say which: --separator."
        )
    found = fits[0] if fits else _widest(there or files, lines)
    if found.quotes and found.separator == "\t" and "quotes" not in said and not found.is_closed():
        found = replace(found, quotes=False)
    return found, _has_row(found, lines, bool(fits))


def _widest(files: Sequence[Delimited], lines: Sequence[bytes]) -> Delimited:
    """The file whose separator makes most fields, and in each of the ``lines`` as many."""
    marks = [file.separator.encode() for file in files]
    counts = [{line.count(mark) for line in lines} for mark in marks]
    return files[int(np.argmax([max(count) * (len(count) == 1) for count in counts]))]


def _has_row(file: Delimited, lines: Sequence[bytes], fits: bool) -> bool:
    """Whether the first line has a number or a date, or where no columns fit a value again."""
    mark = file.separator.encode()
    first, *below = ([word.strip(b' "') for word in line.split(mark)] for line in lines)
    again = (name in row[at : at + 1] for row in below for at, name in enumerate(first))
    return any(map(_VALUE.match, first)) or (not fits and any(again))


def _has_columns(file: Delimited, choose: Callable[[tuple[str, ...]], object]) -> bool:
    try:
        choose(file.names())
    except InputError:
        return False
    return True
