"""A table in a CSV, TSV or Parquet file, opened by its header."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.block import broken
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.parquet import Parquet
from fedrec_auditor.targets.datasets.parts.source import blocks

SEPARATORS = (",", "\t", ";", "|", "::")
USUAL_SEPARATOR = {".csv": ",", ".tsv": "\t", ".txt": ""}


def is_table(path: Path) -> bool:
    """Whether ``path`` is a file whose name ends in .csv, .tsv, .txt or .parquet."""
    return path.suffix.lower() in (*USUAL_SEPARATOR, ".parquet") and path.is_file()


def table_file(
    path: Path, separator: str | None, choose: Callable[[tuple[str, ...]], object]
) -> Delimited | Parquet:
    """The file at ``path``; of text, with the separator that is said, else that which fits.

    One fits if ``choose`` finds its columns among the names that it gives; it raises InputError
    where it does not. InputError if ``path`` is no table, or several separators fit.
    """
    place = str(path)
    if not is_table(path):
        raise InputError(
            f"Expected a file .csv, .tsv, .txt or .parquet, got {path}. Check the path."
        )
    if path.suffix.lower() != ".parquet":
        return _delimited(path, separator, choose)
    if separator:
        raise InputError(f"Expected no separator of {place}, got {separator!r}. Leave it out.")
    return Parquet(place=place, file=path)


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The column with the first ``usual`` name that is there; None if none is.

    Capitals, signs between letters and a RecBole type after a colon do not matter.

    >>> usual_column(["Item_ID:token", "stars"], ["item", "itemid"])
    'Item_ID:token'
    """
    plain = {re.sub(r"[^a-z0-9]", "", name.partition(":")[0].lower()): name for name in names[::-1]}
    return next((plain[name] for name in usual if name in plain), None)


def _delimited(
    path: Path, said: str | None, choose: Callable[[tuple[str, ...]], object]
) -> Delimited:
    """The file with the separator that is said, else the one that gives the columns.

    InputError where none does, or several.
    """
    place = str(path)
    own = USUAL_SEPARATOR[path.suffix.lower()]
    said = {"\\t": "\t", "tab": "\t"}.get(said or "", said)
    if said and said not in SEPARATORS:
        raise InputError(
            f"Expected a separator among , ; | :: and tab, got {said!r}. Give one of these."
        )
    files = [
        Delimited(
            place=place,
            read=lambda: blocks(path.open, place),
            separator=separator,
            header=True,
            quotes=len(separator) == 1,
        )
        for separator in ([said] if said else sorted(SEPARATORS, key=lambda each: each != own))
    ]
    line = files[0].first_line()
    there = [file for file in files if file.separator.encode() in line]
    if said and not there:
        raise broken(
            f"{place}, line 1",
            f"names of columns separated by {said!r}",
            line.decode("utf-8", "replace"),
            "Leave --separator out, or give the one that is there.",
        )
    fits = [file for file in there if _has_columns(file, choose)]
    if len(fits) > 1 and fits[0].separator != own:
        shown = " or ".join(repr(file.separator) for file in fits)
        raise InputError(
            f"Expected one separator that {place} may have, got {shown}. Say which: --separator."
        )
    return (fits or there or files)[0]


def _has_columns(file: Delimited, choose: Callable[[tuple[str, ...]], object]) -> bool:
    try:
        choose(file.names())
    except InputError:
        return False
    return True
