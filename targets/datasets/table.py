"""Any table of interactions in a CSV, TSV or Parquet file, by the names of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.block import NUMBER, Column
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers
from fedrec_auditor.targets.datasets.parts.pair_order import in_order, latest
from fedrec_auditor.targets.datasets.parts.parquet import Parquet
from fedrec_auditor.targets.datasets.parts.source import blocks

ROLES = ("user", "item", "rating", "timestamp")
USUAL = {
    "user": ("user", "userid", "uid", "visitorid", "customerid"),
    "item": ("item", "itemid", "movieid", "productid", "iid", "profileid"),
    "rating": ("rating", "stars", "score"),
    "timestamp": ("timestamp", "time", "unixtime", "ts"),
}
"""Names that say what a column is, in lower case without all but letters and digits."""
SEPARATORS = {".csv": ",", ".tsv": "\t"}
WANTED: Mapping[str, Column | str] = {
    "user": "user",
    "item": "item",
    "rating": Column(what="rating", low=-np.inf, high=np.inf, step=None, written=NUMBER),
    "timestamp": Column(what="timestamp", high=2.0**62, step=None, written=NUMBER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file .csv (commas), .tsv (tabs) or .parquet, each with names of columns.

    ``columns`` says which column is the "user", the "item", and, where there is one, the "rating"
    and the "timestamp"; only those named are read. Without ``columns`` they are found by usual
    names (userId, item_id, rating, timestamp; a RecBole type after a colon does not matter).

    Without ratings every interaction is 1. Ratings are finite numbers other than 0, which would
    mean no interaction. Timestamps are numbers from 0 on, cut to whole seconds. Of several rows of
    one user and item the latest is kept: by timestamp, and among equals the last.

    Identifiers that are whole numbers (as a computer writes them) stay as they are. If a single one
    of a column is anything else, all of that column are texts and become 0, 1, 2, ... in the order
    of their UTF-8 bytes; the texts of items are the titles, those of users the names. No attributes
    of users and no genres are read. Quoted fields are read as RFC 4180 says, but may not contain an
    end of line.

    Memory: about 20 bytes a row for what is read, and up to 60 more while it is sorted; files up to
    4 GiB of text.
    """

    columns: Mapping[str, str] | None = field(default=None)

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is a file whose name ends in .csv, .tsv or .parquet."""
        return path.suffix.lower() in (*SEPARATORS, ".parquet") and path.is_file()

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``; InputError if a column is not there, or with the first bad line."""
        if path is None:
            raise InputError("Expected the path of a table, got none. Give a .csv file.")
        if not self.recognises(path):
            raise InputError(f"Expected a file .csv, .tsv or .parquet, got {path}. Check the path.")
        place, ending = str(path), path.suffix.lower()
        file: Delimited | Parquet
        if ending == ".parquet":
            file = Parquet(place=place, file=path)
        else:
            file = Delimited(
                place=place,
                read=lambda: blocks(path.open, place),
                separator=SEPARATORS[ending],
                header=True,
                quotes=True,
            )
        names = file.names()
        at = {role: names.index(name) for role, name in choose(names, self.columns, place).items()}
        users, items = Identifiers(), Identifiers()
        ratings: list[NDArray[np.float32]] = []
        times: list[NDArray[np.int64]] = []
        for block in file.blocks({at[role]: WANTED[role] for role in at}):
            block.identify(at["user"], users)
            block.identify(at["item"], items)
            if "rating" in at:
                with np.errstate(over="ignore", under="ignore"):
                    values = block.numbers(at["rating"]).astype(np.float32)
                if not (good := (values != 0) & np.isfinite(values)).all():
                    what = "a rating other than 0 (no interaction) that float32 can hold"
                    raise block.error(int(np.argmin(good)), at["rating"], what)
                ratings.append(values)
            if "timestamp" in at:
                times.append(block.numbers(at["timestamp"]).astype(np.int64))
        user_ids, row, names = users.finish()
        item_ids, column, titles = items.finish()
        stars = np.concatenate(ratings) if ratings else np.ones(len(row), dtype=np.float32)
        stamps = np.concatenate(times) if times else None
        last = latest(row, column, len(item_ids), stamps)
        shape = (len(user_ids), len(item_ids))
        return Interactions(
            name=path.name,
            users=user_ids,
            items=item_ids,
            ratings=in_order(row[last], column[last], stars[last], shape),
            timestamps=None if stamps is None else stamps[last],
            titles=titles,
            names=names,
        )


def choose(
    names: tuple[str, ...], columns: Mapping[str, str] | None, place: str
) -> Mapping[str, str]:
    """The column of each role; one InputError that says what is wrong and what there is."""
    there = f"The columns of {place} are: {', '.join(names)[:500]}."
    if columns is None:
        found = dict(_usual(names))
        if missing := [role for role in ROLES[:2] if role not in found]:
            which = "s and that of ".join(missing)
            raise InputError(
                f"Expected a usual name for the column of {which}s, got none. "
                f"{there} Say which it is: --column {missing[0]}=NAME, or `columns` in a plan."
            )
        return found
    if strange := [role for role in columns if role not in ROLES]:
        raise InputError(
            f"Expected columns for {', '.join(ROLES)}, got {', '.join(strange)}. Use those words."
        )
    if missing := [role for role in ROLES[:2] if role not in columns]:
        raise InputError(f"Expected a column for {' and '.join(missing)}, got none. {there}")
    if absent := [name for name in columns.values() if name not in names]:
        raise InputError(f"Expected a column {', '.join(map(repr, absent))}, got none. {there}")
    if len(set(columns.values())) < len(columns):
        raise InputError(f"Expected different columns, got {dict(columns)}. {there}")
    return columns


def _usual(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Roles and columns by usual names; the first usual name that is there decides."""
    plain = {re.sub(r"[^a-z0-9]", "", name.partition(":")[0].lower()): name for name in names[::-1]}
    for role in ROLES:
        for usual in USUAL[role]:
            if usual in plain:
                yield role, plain[usual]
                break
