"""A table in a file of text or of Arrow's formats, opened by what it holds, whatever its name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.batches import Batches, of_feather, of_json, of_parquet
from fedrec_auditor.targets.datasets.parts.block import NUMBER, broken
from fedrec_auditor.targets.datasets.parts.delimited import BOM, Delimited
from fedrec_auditor.targets.datasets.parts.source import blocks
from fedrec_auditor.targets.tables import is_table, parts

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
