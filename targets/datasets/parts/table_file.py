"""Table files: text, Parquet, Feather or JSON lines; the content determines the format."""

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
from fedrec_auditor.targets.datasets.parts import batches
from fedrec_auditor.targets.datasets.parts.batches import BatchReader, TypedTable
from fedrec_auditor.targets.datasets.parts.columns import (
    NUMBER_REGEX,
    REPAIR_FILE_ADVICE,
    RowBlock,
    SpecByPosition,
    copy_to_arrow,
    make_layout_error,
)
from fedrec_auditor.targets.datasets.parts.source import DataFiles, read_blocks
from fedrec_auditor.targets.tables import is_table_path, list_part_files

# Maximum length of a line of a text file in bytes.
MAX_LINE_BYTES = 2**20
# Byte order mark at the start of some UTF-8 files.
UTF8_BOM = b"\xef\xbb\xbf"
_UNIT = b"\x1f"
_OPEN = UnicodeDecodeError, csv.Error


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A text file with one row per line, whose fields are separated by a fixed text.

    label: name of the file in error messages
    open_blocks: function that returns the file's bytes from the start, in blocks
    separator: text between two fields
    header: whether the first line is a header; if a text is given, the header must equal it
    width: number of fields per row; by default that of the header, or of the first line
    has_quotes: whether fields may be quoted as in RFC 4180, but without line ends inside quotes
    encoding: encoding of texts

    Row i, counted from 0, is line i + 1 (i + 2 with a header), counted from 1. A blank line is an
    error.
    """

    label: str
    open_blocks: Callable[[], Iterator[bytes]]
    separator: str
    header: bool | str = False
    width: int | None = None
    has_quotes: bool = False
    encoding: str = "utf-8"

    @classmethod
    def create(cls, files: DataFiles, name: str, *, in_memory: bool = False, **layout: Any) -> Self:
        """Creates the table of the file ``name`` in ``files``. The file is opened on reading.

        in_memory: whether the caller keeps the whole file in memory, which lowers its maximum size
        layout: values of further fields of the class, such as ``separator``
        """
        read = partial(files.read_blocks, name, in_memory=in_memory)
        return cls(label=files.describe_file(name), open_blocks=read, **layout)

    def read_names(self) -> tuple[str, ...]:
        """Reads the column names in the header; returns "1", "2", ... if the file has no header.

        Raises InputError if the first line is not text, or has the same name twice.
        """
        line, place = self.read_first_line(), f"{self.label}, line 1"
        try:
            fields = self._split_line(line)
            if not self.header:
                return tuple(map(str, range(1, len(fields) + 1)))
            names = [field.decode() for field in fields]
        except _OPEN as error:
            raise make_layout_error(place, "names of columns", repr(line)) from error
        if not line or len(set(names)) < len(names):
            raise make_layout_error(place, "distinct names of columns", line.decode())
        return tuple(names)

    def read_first_line(self) -> bytes:
        """Reads the first line, without its line end."""
        line = next(self.open_blocks(), b"").partition(b"\n")[0]
        return line.removeprefix(UTF8_BOM).rstrip(b"\r")

    def read_blocks(self, specs: SpecByPosition) -> Iterator[RowBlock]:
        """Reads some columns of all rows, block by block.

        ``specs`` holds the expected content of these columns, by their positions in the file.
        Raises InputError if there is no row, and for the first line with another number of fields
        than ``width``.
        """
        given = self.header.split(self.separator) if isinstance(self.header, str) else None
        width = self.width or len(given or self.read_names())
        row = 0
        for data in self.read_line_blocks():
            columns = self._read_csv(data, width, specs) or self._read_rows(row, data, width, specs)

            def text_at(offset: int, at: int, row: int = row, data: bytes = data) -> str:
                field = self._split_fields(row + offset, data.split(b"\n")[offset], width)[at]
                return field.decode(self.encoding, "replace")

            block = RowBlock(
                first_row=row,
                column_specs=specs,
                columns=columns,
                describe_row=self.describe_row,
                get_field_text=text_at,
                encoding=self.encoding,
            )
            yield block
            row += block.n_rows

    def describe_row(self, row: int) -> str:
        """Describes a row in error messages, as "NAME, line 2"; the index ``row`` counts from 0."""
        return f"{self.label}, line {row + 1 + bool(self.header)}"

    def make_row_error(
        self, row: int, expected: str, got: object, remedy: str = REPAIR_FILE_ADVICE
    ) -> InputError:
        """Creates the InputError for a row with unexpected content.

        row: index of the row, from 0
        expected, got: expected and actual content
        remedy: advice at the end of the message
        """
        return make_layout_error(self.describe_row(row), expected, got, remedy)

    def has_paired_quotes(self) -> bool:
        """Whether every quoted field in the file is closed on the line on which it begins.

        False also if a line with quotes is not UTF-8 text.
        """
        try:
            for data in self.read_line_blocks():
                if b'"' in data and not _has_closed_quotes(data, self.separator):
                    for line in data[:-1].split(b"\n"):
                        self._split_line(line)
        except _OPEN:
            return False
        return True

    def read_line_blocks(self) -> Iterator[bytes]:
        """Yields blocks of rows as bytes: complete lines with Unix line ends, without the header.

        Raises InputError if there is no row, if the header differs from the required one, or if a
        line is too long.
        """
        rest, header, empty = b"", self.header, True
        for data in self._iter_with_end():
            cut = data.rfind(b"\n") + 1
            lines = b"".join((rest, memoryview(data)[:cut])) if cut else b""
            rest = data[cut:] if cut else rest + data
            if len(rest) > MAX_LINE_BYTES:
                expected = f"lines of at most {MAX_LINE_BYTES:,} bytes"
                raise make_layout_error(self.label, expected, "a longer line", "Check line ends.")
            if b"\r" in lines:
                lines = lines.replace(b"\r\n", b"\n")
            if header and lines:
                first, _, lines = lines.partition(b"\n")
                if isinstance(header, str) and first != header.encode():
                    got = first.decode("latin-1")
                    raise make_layout_error(f"{self.label}, line 1", f"the header {header!r}", got)
                header = False
            if lines:
                yield lines
                empty = False
        if empty:
            raise make_layout_error(self.label, "at least one row", got="an empty file")

    def _iter_with_end(self) -> Iterator[bytes]:
        """Yields the file's bytes, and adds a line end after the last line if there is none."""
        data = b"\n"
        for data in self.open_blocks():
            yield data
        if not data.endswith(b"\n"):
            yield b"\n"

    def _read_csv(
        self, data: bytes, width: int, specs: SpecByPosition
    ) -> dict[int, pa.Array] | None:
        """Reads the wanted columns by pyarrow; None if ``_read_rows`` might find other fields."""
        quotes, separator = self.has_quotes and b'"' in data, self.separator
        if b"\r" in data or b"\0" in data or (quotes and not _has_closed_quotes(data, separator)):
            return None
        if len(separator) > 1:  # pyarrow's separator is one character
            if _UNIT in data:
                return None
            data, separator = data.replace(separator.encode(), _UNIT), _UNIT.decode()
        names = [*map(str, range(width))]
        text = pa.string() if quotes else pa.binary()  # a line with quotes has to be UTF-8
        types = {names[at]: text for at in specs}
        try:
            table = fast.read_csv(
                pa.BufferReader(copy_to_arrow(data)),
                fast.ReadOptions(column_names=names, block_size=2 * MAX_LINE_BYTES),
                fast.ParseOptions(delimiter=separator, quote_char=quotes and '"'),
                fast.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=[""]
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != data.count(b"\n"):  # pyarrow leaves out blank lines
            return None
        return {at: table[names[at]].combine_chunks().view(pa.binary()) for at in specs}

    def _read_rows(
        self, row: int, data: bytes, width: int, specs: SpecByPosition
    ) -> dict[int, pa.Array]:
        """Reads the wanted columns line by line; InputError at the first invalid line."""
        lines = enumerate(data[:-1].split(b"\n"), row)
        rows = [self._split_fields(at, line, width) for at, line in lines]
        return {at: pa.array([fields[at] for fields in rows], pa.binary()) for at in specs}

    def _split_fields(self, row: int, line: bytes, width: int) -> list[bytes]:
        """Returns the ``width`` fields of one line.

        Raises InputError for another number of fields, and for a quote that is not closed.
        """
        try:
            fields = self._split_line(line)
        except _OPEN:
            expected = f"{self.encoding} text with its quotes closed"
            remedy = "Close the quote, or give --no-quotes if quotes are ordinary characters."
            raise self.make_row_error(row, expected, got=line, remedy=remedy) from None
        if len(fields) != width or b"\0" in line:
            separators = line.count(self.separator.encode())
            got = f"{separators + 1} in {line.decode(self.encoding, 'replace')}"
            raise self.make_row_error(row, f"{width} fields separated by {self.separator!r}", got)
        return fields

    def _split_line(self, line: bytes) -> list[bytes]:
        """Returns the fields of a line; raises an error of ``_OPEN`` for an open quote."""
        if self.has_quotes and b'"' in line:
            fields = next(csv.reader([line.decode()], delimiter=self.separator, strict=True))
            return [field.encode() for field in fields]
        return line.split(self.separator.encode())


def _has_closed_quotes(data: bytes, separator: str) -> bool:
    """Whether every quote in ``data`` begins or ends a field, or is one of two adjacent quotes."""
    raw = np.frombuffer(b"\n" + data, dtype=np.uint8)
    at = np.flatnonzero(raw == ord('"'))
    edges = [ord(edge) for edge in (separator, "\n", '"')]
    before, after = raw[at[::2] - 1], raw[at[1::2] + 1]
    return at.size % 2 == 0 and bool(np.isin(before, edges).all() and np.isin(after, edges).all())


# Separators of fields that are recognised in text files.
FIELD_SEPARATORS = (",", "\t", ";", "|", "::", " ")
# Usual separator of fields, by the suffix of the file name.
SEPARATOR_BY_SUFFIX = {".csv": ",", ".tsv": "\t"}
# Keys by which a caller may state the form of a text file.
TEXT_FILE_KEYS = ("separator", "header", "quotes")
# Values of the options "header" and "quotes".
YES_NO_VALUES = ("yes", "no")
_PACKED: Mapping[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
# First bytes of files in formats that cannot be read, and names of these formats.
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
# Patterns of lines that contain lists, their meaning, and a command that writes pairs instead.
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
# Pattern of a cell that cannot be the name of a column: a number or a date.
_VALUE = re.compile(NUMBER_REGEX.pattern + rb"$|\d{4}-\d\d-\d\d")
# Number of lines that are compared with the first line.
_LOOKED_AT = 1000


def open_table(
    path: Path,
    options: Mapping[str, str],
    choose_columns: Callable[[tuple[str, ...]], object],
    usual_names: Sequence[str],
    remedy: str,
) -> TextTable | TypedTable:
    """Opens a table file, or a folder with the parts of one table; detects its format.

    path: the file or folder
    options: options of a text file that the caller states (keys ``TEXT_FILE_KEYS``)
    choose_columns: function that chooses columns from the names of all columns; it raises
        InputError if a required column is missing
    usual_names: usual names of columns, in lower case
    remedy: advice in the error for a first line of data, where the names of columns are expected

    Raises InputError in these cases:

    - the file is not a table;
    - several separators are possible, and the suffix of the file determines none of them;
    - the first line looks like data: it has a number, a date, or a value that occurs again in its
      column, and none of its values is a usual name (``find_usual_column``).
    """
    place = str(path)
    if not is_table_path(path):
        raise InputError(f"Expected a table file or Parquet folder, got {path}. Give such a path.")
    if os.path.isdir(path):
        return _make_typed(place, partial(batches.open_parquet, list_part_files(path)), options)
    opened = path.open
    start = _read_start(opened, place)
    for magic, unpacked in _PACKED.items():
        if start.startswith(magic):
            opened = partial(unpacked, path)
            start = _read_start(opened, place)
    start = start.removeprefix(UTF8_BOM).lstrip()
    if start.startswith(b"PAR1"):
        return _make_typed(place, partial(batches.open_parquet, [path]), options)
    if start.startswith(b"ARROW1"):
        return _make_typed(place, partial(batches.open_feather, path), options)
    text = TextTable(
        label=place, open_blocks=lambda: read_blocks(opened, place), separator="\n", header=False
    )
    if start.startswith(b"{"):
        return _make_typed(place, partial(batches.open_json_lines, text.read_line_blocks), options)
    kinds = (kind for magic, kind in _OTHERS.items() if start.startswith(magic))
    if kind := next(kinds, "a file with zero bytes, which is not text" * (b"\0" in start)):
        raise InputError(
            f"Expected a table of text (one row per line), Parquet, Feather or lines of JSON, got "
            f"{path}: {kind}. Unpack the file, or export it in one of these formats."
        )
    file, is_row = _find_separator(path, text, options, choose_columns)
    names = file.read_first_line().decode("utf-8", "replace").split(file.separator)
    if is_row and "header" not in options and find_usual_column(names, usual_names) is None:
        raise make_header_error(file, remedy=remedy)
    return file


def find_usual_column(names: Sequence[str], usual_names: Sequence[str]) -> str | None:
    """Finds the column with a usual name, such as "Item_ID" for items; None if there is none.

    names: names of the columns
    usual_names: usual names in lower case, in order of preference

    Names are compared in lower case, without any characters that are not letters or digits. A colon
    and the text after it, which is a data type in files of RecBole, are ignored.

    >>> find_usual_column(["Item_ID:token", "stars"], ["item", "itemid"])
    'Item_ID:token'
    """
    plain = {re.sub(r"[^a-z0-9]", "", name.partition(":")[0].lower()): name for name in names[::-1]}
    return next((plain[name] for name in usual_names if name in plain), None)


def make_header_error(file: TextTable, remedy: str) -> InputError:
    """Creates the InputError for a file whose first line is a row instead of names of columns.

    ``remedy`` is the advice at the end of the error.
    """
    line = file.read_first_line().decode("utf-8", "replace")
    return make_layout_error(f"{file.label}, line 1", "names of columns", line, remedy)


def _read_start(opened: Callable[[str], Any], place: str) -> bytes:
    return next(read_blocks(opened, place), b"")[:4096]


def _make_typed(label: str, open_batches: BatchReader, options: Mapping[str, str]) -> TypedTable:
    if options:
        key, value = next(iter(options.items()))
        raise InputError(
            f"Expected no {key} for {label}, which is not text, got {value!r}. Omit {key}."
        )
    return TypedTable(label=label, open_batches=open_batches)


def _find_separator(
    path: Path,
    text: TextTable,
    options: Mapping[str, str],
    choose: Callable[[tuple[str, ...]], object],
) -> tuple[TextTable, bool]:
    """Returns the file with its separator, and whether its first line looks like a row.

    - If ``options`` has a separator: this one.
    - If the file has names of columns: the one with which ``choose`` succeeds; among several, the
      usual one for the suffix of ``path``, or InputError.
    - Otherwise: the one that splits all lines into the most fields, equally many.
    """
    own = SEPARATOR_BY_SUFFIX.get(path.suffix.lower(), "")
    mark = options.get("separator", "")
    mark = {"\\t": "\t", "tab": "\t", "space": " "}.get(mark, mark)
    if mark and mark not in FIELD_SEPARATORS:
        raise InputError(
            f"Expected separator ',' ';' '|' '::' 'tab' 'space', got {mark!r}. Give one of these."
        )
    for key in TEXT_FILE_KEYS[1:]:
        if options.get(key, YES_NO_VALUES[0]) not in YES_NO_VALUES:
            raise InputError(f"Expected {key}=yes or no, got {options[key]!r}. Give one of these.")
    first = text.read_first_line()
    lines = b"".join(islice(text.read_line_blocks(), 2))[:-1].split(b"\n")[:_LOOKED_AT]
    for form, (what, command) in _LISTS.items():
        ragged = len({line.count(b" ") for line in lines}) > 1
        if ragged and all(form.fullmatch(line.strip()) for line in lines):
            times = " --column timestamp=3" * ("$3" in command)
            raise InputError(
                f"Expected a user and an item in each line of {path}, got {what}. Write one pair "
                f"per line by `{command}`, and read pairs.csv with --no-header "
                f"--column user=1 --column item=2{times}."
            )
    marks = [mark] if mark else sorted(FIELD_SEPARATORS, key=lambda each: each != own)
    files = [
        replace(text, separator=separator, header=options.get("header") != "no", has_quotes=quotes)
        for separator in marks
        for quotes in (len(separator) == 1 and options.get("quotes") != "no",)
    ]
    there = [file for file in files if file.separator.encode() in first]
    if mark and not there:
        raise make_layout_error(
            f"{text.label}, line 1",
            f"names of columns separated by {mark!r}",
            first.decode("utf-8", "replace"),
            "Leave --separator out, or give the separator of this line.",
        )
    fits = [file for file in there if _has_columns(file, choose)]
    if fits and not fits[0].header:
        fits = [_find_widest(fits, lines)]
    if len(fits) > 1 and fits[0].separator != own:
        several = " or ".join(repr(file.separator) for file in fits)
        raise InputError(
            f"Expected one separator that fits {path}, got {several}. Choose one by --separator."
        )
    file = fits[0] if fits else _find_widest(there or files, lines)
    unsure = file.has_quotes and file.separator == "\t" and "quotes" not in options
    if unsure and not file.has_paired_quotes():
        file = replace(file, has_quotes=False)
    return file, _starts_with_row(file, lines, bool(fits))


def _find_widest(files: Sequence[TextTable], lines: Sequence[bytes]) -> TextTable:
    """Returns the file whose separator splits all ``lines`` into the most fields, equally many."""
    marks = [file.separator.encode() for file in files]
    counts = [{line.count(mark) for line in lines} for mark in marks]
    return files[int(np.argmax([max(count) * (len(count) == 1) for count in counts]))]


def _starts_with_row(file: TextTable, lines: Sequence[bytes], fits: bool) -> bool:
    """Whether the first line looks like a row instead of names of columns.

    A row has a number, a date, or a value that occurs again in its column. Such repetitions do not
    count if ``fits``: the line has the names of the required columns.
    """
    mark = file.separator.encode()
    first, *below = ([word.strip(b' "') for word in line.split(mark)] for line in lines)
    again = (name in row[at : at + 1] for row in below for at, name in enumerate(first))
    return any(map(_VALUE.match, first)) or (not fits and any(again))


def _has_columns(file: TextTable, choose: Callable[[tuple[str, ...]], object]) -> bool:
    try:
        choose(file.read_names())
    except InputError:
        return False
    return True
