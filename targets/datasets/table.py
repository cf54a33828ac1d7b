"""Any table of interactions in a file of text, Parquet, Feather or JSON lines, by its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.columns import (
    NUMBER,
    REPAIR,
    Column,
    Moments,
    unix_seconds,
)
from fedrec_auditor.targets.datasets.parts.joined import Pairs
from fedrec_auditor.targets.datasets.parts.table_file import (
    SAID,
    Delimited,
    row_for_header,
    table_file,
    usual_column,
)
from fedrec_auditor.targets.tables import is_table

ROLES = ("user", "item", "rating", "timestamp")
USUAL = {
    "user": ("user", "userid", "uid", "visitorid", "customerid"),
    "item": ("item", "itemid", "movieid", "productid", "iid", "profileid"),
    "rating": ("rating", "stars", "score"),
    "timestamp": ("timestamp", "time", "unixtime", "ts"),
}
"""Names that say what a column is, in lower case without all but letters and digits."""
_NAMES = [name for names in USUAL.values() for name in names]
NONE = "none"
"""The column of a rating or timestamp that is not read."""
ROW = (
    "It looks like a row. If it is one, say --no-header and which column is which by number "
    "(--column user=1 --column item=2; in Python columns={'header': 'no', 'user': 1, 'item': 2}); "
    "if these are names, say --column header=yes. A file of a published data set is read by its "
    "folder."
)
"""Remedy for a first line that does not hold names."""
ZEROS = ("missing", "rating")
LEAST = np.finfo(np.float32).tiny
"""What stands for a rating of 0, since none is stored of those who did not meet."""
WANTED: Mapping[str, Column | str] = {
    "user": "user",
    "item": "item",
    "rating": Column(
        what="rating",
        low=-np.inf,
        high=np.inf,
        written=NUMBER,
        remedy=f"{REPAIR[:-1]}, or leave ratings out: --column rating={NONE}.",
    ),
    "timestamp": Moments(remedy=f"{REPAIR[:-1]}, or leave times out: --column timestamp={NONE}."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file of text with names of columns, Parquet, Feather or lines of JSON, by what it holds.

    ``columns`` says which column is the "user", the "item", and, where there is one, the "rating"
    and the "timestamp" ("none" if it is not to be read). Those that it does not name are found by
    usual names (userId, item_id, rating, timestamp; a RecBole type after a colon does not matter).
    Of text it may also say the "separator", one of comma, tab, semicolon, bar, ``::`` and space;
    without it the one that gives the header those columns is taken, first that which the file's
    name promises. With "header": "no" the first line is a row, and columns are called 1, 2, 3, ...
    A first line that looks like a row is refused, unless "header" says what it is. With "quotes":
    "no" they are letters, as they are between tabs where one of them is not closed. Files may be
    packed by gzip, bzip2 or xz. A folder of Parquet files is one table.

    Without ratings every interaction is 1. Ratings are finite numbers. One of 0 is read as no
    interaction and left out, unless ``columns`` has "zeros": "rating". A row without a rating is
    refused. Timestamps are numbers or ISO 8601 (``moments``), from 1970 on. Of several rows of one
    user and item the latest is kept: by timestamp, and among equals the last. What is left out is
    counted in ``notes``.

    Identifiers that are whole numbers (as a computer writes them) stay as they are. If a single one
    of a column is anything else, all of that column are texts and become 0, 1, 2, ... in the order
    of their UTF-8 bytes; the texts of items are the titles, those of users the names. No attributes
    of users and no genres are read. Quoted fields are read as RFC 4180 says (not between ``::``),
    but may not contain an end of line.

    Memory: about 20 bytes a row for what is read, and up to 60 more while it is sorted; files up to
    4 GiB of text.
    """

    columns: Mapping[str, str] | None = None

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is a file that is no archive, or a folder of Parquet files."""
        return is_table(path)

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``; InputError if a column is not there, or with the first bad line."""
        if path is None:
            raise InputError("Expected the path of a table, got none. Give a .csv file.")
        columns, place = dict(self.columns or {}), str(path)
        zeros = columns.pop("zeros", None)
        if zeros not in (None, *ZEROS):
            raise InputError(f"Expected zeros as {' or '.join(ZEROS)}, got {zeros!r}. Give one.")
        said = {key: columns.pop(key) for key in SAID if key in columns}
        file = table_file(path, said, lambda names: choose(names, columns, place), _NAMES, ROW)
        there = file.names()
        chosen = choose(there, columns, place)
        at = {role: there.index(name) for role, name in chosen.items()}
        pairs = Pairs.of(file, {role: (place, WANTED[role]) for role, place in at.items()})
        unsure = isinstance(file, Delimited) and "header" not in said
        again = chosen["user"] in pairs.users.texts or chosen["item"] in pairs.items.texts
        if isinstance(file, Delimited) and unsure and again:
            raise row_for_header(file, ROW)
        notes = [*_unread(there, chosen, columns, path.name, unsure)]
        if pairs.timestamps is not None:
            times, read = unix_seconds(pairs.timestamps, path.name)
            pairs, notes = replace(pairs, timestamps=times), [*notes, *read]
        pairs, read = _without_zeros(pairs, zeros, path)
        notes += read
        ratings, stamps = pairs.ordered()
        if repeated := len(pairs.ratings) - ratings.nnz:
            notes.append(
                f"Rows of a user and an item that another row of {path.name} has: {repeated:,}, "
                "left out. The latest is kept, of equal times the last."
            )
        return Interactions(
            name=path.name,
            users=pairs.users.ids,
            items=pairs.items.ids,
            ratings=ratings,
            timestamps=stamps,
            titles=pairs.items.texts,
            names=pairs.users.texts,
            notes=tuple(notes),
        )


def _without_zeros(pairs: Pairs, zeros: str | None, path: Path) -> tuple[Pairs, tuple[str, ...]]:
    """The rows of ratings, without those of 0 or with them if ``zeros`` are ratings; and a note."""
    nothing = len(pairs.ratings) - np.count_nonzero(pairs.ratings)
    if not nothing:
        return pairs, ()
    if zeros == "rating":
        pairs.ratings[pairs.ratings == 0] = LEAST
        return pairs, (f"Ratings of 0 in {path.name}: {nothing:,}, kept as ratings.",)
    if nothing == len(pairs.ratings):
        raise InputError(
            f"Expected ratings other than 0 in {path}, got none. Say zeros=rating if 0 is a rating."
        )
    note = (
        f"Ratings of 0 in {path.name}: {nothing:,}, left out as no interactions. If 0 is a rating, "
        "say --column zeros=rating."
    )
    return pairs.keep(pairs.ratings != 0), (note,)


def choose(names: tuple[str, ...], columns: Mapping[str, str], place: str) -> Mapping[str, str]:
    """The column of each role: that of ``columns``, else the one with a usual name.

    One InputError says what is wrong and what there is.
    """
    there = f"The columns of {place} are: {', '.join(names)[:500]}."
    if strange := [role for role in columns if role not in ROLES]:
        raise InputError(
            f"Expected columns for {', '.join(ROLES)}, or {', '.join(('zeros', *SAID))}, got "
            f"{', '.join(strange)}. Use those words."
        )
    given = {
        role: name
        for role, name in columns.items()
        if name in names or name != NONE or role in ROLES[:2]
    }
    if absent := [name for name in given.values() if name not in names]:
        raise InputError(f"Expected a column {', '.join(map(repr, absent))}, got none. {there}")
    if len(set(given.values())) < len(given):
        raise InputError(f"Expected different columns, got {given}. {there}")
    rest = [name for name in names if name not in given.values()]
    usual = {role: usual_column(rest, USUAL[role]) for role in ROLES if role not in columns}
    found = {role: given.get(role) or usual.get(role) for role in ROLES}
    if missing := [role for role in ROLES[:2] if found[role] is None]:
        options = " ".join(f"--column {role}=NAME" for role in missing)
        raise InputError(
            f"Expected a usual name for the column of {'s and that of '.join(missing)}s, got none. "
            f"{there} Say which it is: {options}, or `columns` in a plan."
        )
    return {role: name for role, name in found.items() if name is not None}


def _unread(
    names: Sequence[str],
    chosen: Mapping[str, str],
    columns: Mapping[str, str],
    file: str,
    unsure: bool,
) -> Iterator[str]:
    """Notes of a first line that may be a row (``unsure``), and of ratings or times not read."""
    if unsure and usual_column(names, _NAMES) is None:
        yield (
            f"Line 1 of {file} is taken for names of columns: {', '.join(names)[:300]}. If it is "
            "a row, say --no-header."
        )
    left = [name for name in names if name and name not in chosen.values()]
    lacking = [role for role in ROLES[2:] if role not in chosen and role not in columns]
    dates = [name for name in left if "date" in name.lower()] if "timestamp" in lacking else []
    options = [
        f"--column {role}={(*dates, 'NAME')[0] if role == ROLES[3] else 'NAME'}" for role in lacking
    ]
    if lacking and left:
        yield (
            f"No column of {file} is read as {' or '.join(lacking)}; not read: "
            f"{', '.join(left)[:300]}. If one is, say {' or '.join(options)}."
        )
