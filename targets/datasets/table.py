"""Loader of a user's own table of interactions: text, Parquet, Feather or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts import table_file
from fedrec_auditor.targets.datasets.parts.columns import (
    NUMBER_REGEX,
    REPAIR_FILE_ADVICE,
    NumberColumn,
    TimeColumn,
    to_unix_seconds,
)
from fedrec_auditor.targets.datasets.parts.joined import InteractionRows
from fedrec_auditor.targets.tables import is_table_path

# Roles of the columns that are read; the first two are required.
COLUMN_ROLES = ("user", "item", "rating", "timestamp")
# Usual names of columns, by role, in lower case, with letters and digits only.
USUAL_NAMES_BY_ROLE = {
    "user": ("user", "userid", "uid", "visitorid", "customerid"),
    "item": ("item", "itemid", "movieid", "productid", "iid", "profileid"),
    "rating": ("rating", "stars", "score"),
    "timestamp": ("timestamp", "time", "unixtime", "ts"),
}
_NAMES = [name for names in USUAL_NAMES_BY_ROLE.values() for name in names]
# Value that a caller gives instead of a column's name if ratings or times should not be read.
OMIT_COLUMN_VALUE = "none"
# Remedy in the error for a first line that does not contain names of columns.
HEADER_IS_ROW_ADVICE = (
    "It looks like a row. If it is one, say --no-header and which column is which by number "
    "(--column user=1 --column item=2; in Python columns={'header': 'no', 'user': 1, 'item': 2}); "
    "if these are names, say --column header=yes. A file of a published data set is read by its "
    "folder."
)
# Values of the option "zeros": a rating of 0 means no interaction, or is a rating.
ZERO_RATING_MODES = ("missing", "rating")
# Number that is stored instead of a rating of 0, because a stored 0 means no interaction.
STORED_ZERO_RATING = np.finfo(np.float32).tiny
# Expected content of the column of each role.
ROLE_COLUMN_SPECS: Mapping[str, NumberColumn | str] = {
    "user": "user",
    "item": "item",
    "rating": NumberColumn(
        label="rating",
        low=-np.inf,
        high=np.inf,
        pattern=NUMBER_REGEX,
        remedy=f"{REPAIR_FILE_ADVICE[:-1]}, or leave ratings out: --column rating=none.",
    ),
    "timestamp": TimeColumn(
        remedy=f"{REPAIR_FILE_ADVICE[:-1]}, or leave times out: --column timestamp=none."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Loader of a user's own table of interactions: delimited text, Parquet, Feather or JSON lines.

    columns: options by key; a missing key has its default, and None means that all keys are missing

    Files may be compressed by gzip, bzip2 or xz. A folder of Parquet files is one table. Text files
    may have up to 4 GiB. Memory: about 20 bytes per row, and up to 60 more during sorting.

    Keys of ``columns`` for all formats:

    - "user", "item", "rating", "timestamp": name of the column; by default a usual name (userId,
      item_id, rating, timestamp). "none" means that ratings or times are not read.
    - "zeros": "rating" if a rating of 0 is a rating. By default, its row is left out.

    Keys for text files only:

    - "separator": comma, tab, semicolon, bar, ``::`` or space. By default, it is the one with which
      the header has the required columns.
    - "header": "no" if the first line is a row; the columns are then called 1, 2, 3, ... By
      default, a first line that looks like a row is refused.
    - "quotes": "no" if quotes are ordinary characters. By default, fields may be quoted as in RFC
      4180 (except with ``::``), without line ends.

    Ratings are finite numbers, or 1 if the table has no ratings. Timestamps are numbers or ISO 8601
    (``TimeColumn``), from 1970 on. If rows have the same user and item, the latest row is kept;
    among equal times, the last row in the file. ``Interactions.notes`` counts the rows left out.

    If all identifiers of a column are whole numbers without leading zeros, they stay as they are.
    Otherwise all are texts, numbered from 0 in the order of their UTF-8 bytes, and become
    ``Interactions.titles`` or ``Interactions.user_names``.
    """

    columns: Mapping[str, str] | None = None

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is a file other than an archive, or a folder of Parquet files."""
        return is_table_path(path)

    def load(self, path: Path | None = None) -> Interactions:
        """Loads the interactions from the file or folder ``path``.

        Raises InputError if ``path`` is None, if a column is missing, or if a line is invalid.
        """
        if path is None:
            raise InputError("Expected the path of a table, got None. Give the path of a file.")
        columns = dict(self.columns or {})
        zeros = columns.pop("zeros", None)
        if zeros not in (None, *ZERO_RATING_MODES):
            modes = " or ".join(ZERO_RATING_MODES)
            raise InputError(f"Expected zeros={modes}, got {zeros!r}. Give one of them.")
        options = {key: columns.pop(key) for key in table_file.TEXT_FILE_KEYS if key in columns}
        choose = partial(find_columns, columns=columns, place=str(path))
        file = table_file.open_table(path, options, choose, _NAMES, HEADER_IS_ROW_ADVICE)
        there = file.read_names()
        chosen = choose(there)
        specs = {key: (there.index(name), ROLE_COLUMN_SPECS[key]) for key, name in chosen.items()}
        pairs = InteractionRows.read(file, specs)
        unsure = isinstance(file, table_file.TextTable) and "header" not in options
        users, items = pairs.users.distinct_texts, pairs.items.distinct_texts
        again = chosen["user"] in users or chosen["item"] in items
        if isinstance(file, table_file.TextTable) and unsure and again:
            raise table_file.make_header_error(file, HEADER_IS_ROW_ADVICE)
        notes = [*_note_unread(there, chosen, columns, path.name, unsure)]
        if pairs.timestamps is not None:
            times, read = to_unix_seconds(pairs.timestamps, path.name)
            pairs, notes = replace(pairs, timestamps=times), [*notes, *read]
        pairs, read = _drop_zeros(pairs, zeros, path)
        notes += read
        ratings, stamps = pairs.build_rating_matrix()
        if repeated := len(pairs.ratings) - ratings.nnz:
            notes.append(
                f"{repeated:,} rows of {path.name} are left out because another row has the same "
                "user and item: the latest row is kept, or the last one of equal times."
            )
        return Interactions(
            name=path.name,
            users=pairs.users.distinct_ids,
            items=pairs.items.distinct_ids,
            ratings=ratings,
            timestamps=stamps,
            titles=pairs.items.distinct_texts,
            user_names=pairs.users.distinct_texts,
            notes=tuple(notes),
        )


def _drop_zeros(
    pairs: InteractionRows, zeros: str | None, path: Path
) -> tuple[InteractionRows, tuple[str, ...]]:
    """Drops the rows with a rating of 0 (unless ``zeros`` is "rating"); also returns a note."""
    nothing = len(pairs.ratings) - np.count_nonzero(pairs.ratings)
    if not nothing:
        return pairs, ()
    if zeros == "rating":
        pairs.ratings[pairs.ratings == 0] = STORED_ZERO_RATING
        return pairs, (f"{nothing:,} ratings in {path.name} are 0 and count as ratings.",)
    if nothing == len(pairs.ratings):
        raise InputError(
            f"Expected ratings other than 0 in {path}, got none. Set zeros=rating if 0 is a rating."
        )
    note = (
        f"{nothing:,} ratings in {path.name} are 0 and left out as missing interactions. If 0 is a "
        "rating, say --column zeros=rating."
    )
    return pairs.keep_rows(pairs.ratings != 0), (note,)


def find_columns(
    names: tuple[str, ...], columns: Mapping[str, str], place: str
) -> Mapping[str, str]:
    """Determines which column of a file holds users, items, ratings and timestamps.

    names: names of all columns of the file
    columns: the caller's names of columns by key ("user", "item", "rating", "timestamp"); without a
        key, the column with a usual name
    place: name of the file in error messages

    Returns the names of the existing columns by key. Raises InputError if a column does not exist,
    has two keys, or cannot be determined.
    """
    note = f"The columns of {place} are: {', '.join(names)[:500]}."
    if strange := [role for role in columns if role not in COLUMN_ROLES]:
        known = ", ".join((*COLUMN_ROLES, "zeros", *table_file.TEXT_FILE_KEYS))
        raise InputError(
            f"Expected keys of columns among {known}, got {', '.join(strange)}. Use these keys."
        )
    given = {
        role: name
        for role, name in columns.items()
        if name in names or name != OMIT_COLUMN_VALUE or role in COLUMN_ROLES[:2]
    }
    if absent := [name for name in given.values() if name not in names]:
        quoted_names = ", ".join(map(repr, absent))
        raise InputError(f"Expected a column {quoted_names}, got none. {note} Name one of these.")
    if len(set(given.values())) < len(given):
        raise InputError(f"Expected one column per key, got {given}. {note} Give distinct ones.")
    rest = [name for name in names if name not in given.values()]
    unnamed = [role for role in COLUMN_ROLES if role not in columns]
    usual = {key: table_file.find_usual_column(rest, USUAL_NAMES_BY_ROLE[key]) for key in unnamed}
    chosen = {role: given.get(role) or usual.get(role) for role in COLUMN_ROLES}
    if missing := [role for role in COLUMN_ROLES[:2] if chosen[role] is None]:
        options = " ".join(f"--column {role}=NAME" for role in missing)
        raise InputError(
            f"Expected a column of {'s and one of '.join(missing)}s with a usual name, got none. "
            f"{note} Name the column by {options}, or by `columns` in a plan."
        )
    return {role: name for role, name in chosen.items() if name is not None}


def _note_unread(
    names: Sequence[str],
    chosen: Mapping[str, str],
    columns: Mapping[str, str],
    file: str,
    unsure: bool,
) -> Iterator[str]:
    """Yields notes on a first line that may be a row, and on ratings or times that are not read.

    names: names of all columns
    chosen: the columns that are read, by role
    columns: the columns that the caller named, by role
    file: name of the file
    unsure: whether the first line may be a row
    """
    if unsure and table_file.find_usual_column(names, _NAMES) is None:
        yield (
            f"Line 1 of {file} is read as names of columns: {', '.join(names)[:300]}. If it is "
            "a row, say --no-header."
        )
    unused = [name for name in names if name and name not in chosen.values()]
    lacking = [role for role in COLUMN_ROLES[2:] if role not in chosen and role not in columns]
    dates = [name for name in unused if "date" in name.lower()] if "timestamp" in lacking else []
    date = (*dates, "NAME")[0]
    options = [f"--column {role}={date if role == COLUMN_ROLES[3] else 'NAME'}" for role in lacking]
    if lacking and unused:
        yield (
            f"No column of {file} is read as {' or '.join(lacking)}; not read: "
            f"{', '.join(unused)[:300]}. If one is, say {' or '.join(options)}."
        )
