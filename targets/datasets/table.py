"""Any table of interactions in a CSV, TSV or Parquet file, by the names of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.block import NUMBER, Block, Column, Moments
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers, unique
from fedrec_auditor.targets.datasets.parts.pair_order import in_order, latest
from fedrec_auditor.targets.datasets.parts.table_file import is_table, table_file, usual_column

ROLES = ("user", "item", "rating", "timestamp")
USUAL = {
    "user": ("user", "userid", "uid", "visitorid", "customerid"),
    "item": ("item", "itemid", "movieid", "productid", "iid", "profileid"),
    "rating": ("rating", "stars", "score"),
    "timestamp": ("timestamp", "time", "unixtime", "ts"),
}
"""Names that say what a column is, in lower case without all but letters and digits."""
SAID = ("separator", "zeros")
"""What may be said of a table beside its columns."""
ZEROS = ("missing", "rating")
LEAST = np.finfo(np.float32).tiny
"""What stands for a rating of 0, since none is stored of those who did not meet."""
WANTED: Mapping[str, Column | str] = {
    "user": "user",
    "item": "item",
    "rating": Column(what="rating", low=-np.inf, high=np.inf, step=None, written=NUMBER),
    "timestamp": Moments(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file .csv, .tsv, .txt or .parquet, each with names of columns.

    ``columns`` says which column is the "user", the "item", and, where there is one, the "rating"
    and the "timestamp"; only those named are read. Without these they are found by usual
    names (userId, item_id, rating, timestamp; a RecBole type after a colon does not matter). It
    may also say the "separator", one of comma, tab, semicolon, bar and ``::``; without it the one
    that gives the header those columns is taken, first that which the file's name promises.

    Without ratings every interaction is 1. Ratings are finite numbers. One of 0 is read as no
    interaction and left out, unless ``columns`` has "zeros": "rating". A row without a rating is
    refused. Timestamps are Unix seconds, or dates and times of ISO 8601 (of no zone: UTC), from
    1970 on, cut to whole seconds. Of several rows of one user and item the latest is kept: by
    timestamp, and among equals the last. What is left out is counted in ``notes``.

    Identifiers that are whole numbers (as a computer writes them) stay as they are. If a single one
    of a column is anything else, all of that column are texts and become 0, 1, 2, ... in the order
    of their UTF-8 bytes; the texts of items are the titles, those of users the names. No attributes
    of users and no genres are read. Quoted fields are read as RFC 4180 says (not between ``::``),
    but may not contain an end of line.

    Memory: about 20 bytes a row for what is read, and up to 60 more while it is sorted; files up to
    4 GiB of text.
    """

    columns: Mapping[str, str] | None = field(default=None)

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is a file whose name ends in .csv, .tsv, .txt or .parquet."""
        return is_table(path)

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``; InputError if a column is not there, or with the first bad line."""
        if path is None:
            raise InputError("Expected the path of a table, got none. Give a .csv file.")
        said = dict(self.columns or {})
        separator, zeros = (said.pop(name, None) for name in SAID)
        if zeros not in (None, *ZEROS):
            raise InputError(f"Expected zeros as {' or '.join(ZEROS)}, got {zeros!r}. Give one.")
        columns, place = said or None, str(path)
        file = table_file(path, separator, lambda names: choose(names, columns, place))
        names = file.names()
        at = {role: names.index(name) for role, name in choose(names, columns, place).items()}
        users, items = Identifiers(), Identifiers()
        ratings: list[NDArray[np.float32]] = []
        times: list[NDArray[np.int64]] = []
        for block in file.blocks({at[role]: WANTED[role] for role in at}):
            block.identify(at["user"], users)
            block.identify(at["item"], items)
            if "rating" in at:
                ratings.append(_stars(block, at["rating"]))
            if "timestamp" in at:
                times.append(block.numbers(at["timestamp"]).astype(np.int64))
        user_ids, row, names = users.finish()
        item_ids, column, titles = items.finish()
        stars = np.concatenate(ratings) if ratings else np.ones(len(row), dtype=np.float32)
        stamps = np.concatenate(times) if times else None
        notes: list[str] = []
        if nothing := len(row) - np.count_nonzero(stars):
            if zeros == "rating":
                stars[stars == 0] = LEAST
                notes.append(f"Ratings of 0 in {path.name}: {nothing:,}, kept as ratings.")
            elif nothing == len(row):
                raise InputError(
                    f"Expected ratings other than 0 in {place}, got none. Say zeros=rating if 0 "
                    "is a rating."
                )
            else:
                kept = stars != 0
                user_ids, row, names = _left(user_ids, row[kept], names)
                item_ids, column, titles = _left(item_ids, column[kept], titles)
                stars, stamps = stars[kept], None if stamps is None else stamps[kept]
                notes.append(
                    f"Ratings of 0 in {path.name}: {nothing:,}, left out as no interactions. If 0 "
                    "is a rating, say --column zeros=rating."
                )
        last = latest(row, column, len(item_ids), stamps)
        shape = (len(user_ids), len(item_ids))
        ordered = in_order(row[last], column[last], stars[last], shape)
        if repeated := len(row) - ordered.nnz:
            notes.append(
                f"Rows of a user and an item that another row of {path.name} has: {repeated:,}, "
                "left out. The latest is kept, of equal times the last."
            )
        return Interactions(
            name=path.name,
            users=user_ids,
            items=item_ids,
            ratings=ordered,
            timestamps=None if stamps is None else stamps[last],
            titles=titles,
            names=names,
            notes=tuple(notes),
        )


def _stars(block: Block, at: int) -> NDArray[np.float32]:
    """The ratings of a block; InputError at one that float32 cannot hold."""
    values = block.numbers(at)
    with np.errstate(over="ignore", under="ignore"):
        stars = values.astype(np.float32)
    good = np.isfinite(stars) & ((stars != 0) | (values == 0))
    if not good.all():
        raise block.error(int(np.argmin(good)), at, "a rating that float32 can hold")
    return stars


def _left(
    ids: NDArray[np.int64], place: NDArray[np.int32], texts: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int32], tuple[str, ...]]:
    """As ``Identifiers.finish`` gives them, of the rows that are left."""
    present, place = unique(place)
    if texts:
        return np.arange(len(present)), place, tuple(texts[at] for at in present)
    return ids[present], place, ()


def choose(
    names: tuple[str, ...], columns: Mapping[str, str] | None, place: str
) -> Mapping[str, str]:
    """The column of each role; one InputError that says what is wrong and what there is."""
    there = f"The columns of {place} are: {', '.join(names)[:500]}."
    if columns is None:
        found = {role: column for role in ROLES if (column := usual_column(names, USUAL[role]))}
        if missing := [role for role in ROLES[:2] if role not in found]:
            which = "s and that of ".join(missing)
            raise InputError(
                f"Expected a usual name for the column of {which}s, got none. "
                f"{there} Say which it is: --column {missing[0]}=NAME, or `columns` in a plan."
            )
        return found
    if strange := [role for role in columns if role not in ROLES]:
        raise InputError(
            f"Expected columns for {', '.join(ROLES)}, or {' or '.join(SAID)}, got "
            f"{', '.join(strange)}. Use those words."
        )
    if missing := [role for role in ROLES[:2] if role not in columns]:
        raise InputError(f"Expected a column for {' and '.join(missing)}, got none. {there}")
    if absent := [name for name in columns.values() if name not in names]:
        raise InputError(f"Expected a column {', '.join(map(repr, absent))}, got none. {there}")
    if len(set(columns.values())) < len(columns):
        raise InputError(f"Expected different columns, got {dict(columns)}. {there}")
    return columns
