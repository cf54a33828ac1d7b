"""MovieLens 1M: 1,000,209 ratings, 6,040 users, 3,706 rated movies, gender, age, occupation."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.cache import cache, cached
from fedrec_auditor.targets.datasets.base import AGE_GROUPS, Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.lines import Lines, broken
from fedrec_auditor.targets.datasets.parts.movielens import (
    GENDERS,
    GENRES,
    LICENCE,
    Movies,
    Pairs,
    Users,
    assemble,
    codes,
    genre_flags,
    identifiers,
    rated,
)
from fedrec_auditor.targets.datasets.parts.source import Source

OFFICIAL = ("ratings.dat", "users.dat", "movies.dat")
PAIRS_ONLY = ("interactions.parquet", "users.dat", "movies.dat")
PAIR_COLUMNS = ("userID", "movieID")
MOST_PAIRS = 2**24
AGES = {"1": 0, "18": 0, "25": 0, "35": 1, "45": 2, "50": 2, "56": 2}
OCCUPATIONS = (
    "other",
    "educator",
    "artist",
    "clerical",
    "college student",
    "customer service",
    "doctor",
    "executive",
    "farmer",
    "homemaker",
    "K-12 student",
    "lawyer",
    "programmer",
    "retired",
    "sales",
    "scientist",
    "self-employed",
    "engineer",
    "tradesman",
    "unemployed",
    "writer",
)


@dataclass(frozen=True, slots=True)
class Ml1m:
    """The official files, or the user-movie pairs alone with every rating 1 and no timestamps.

    Official: ratings.dat, users.dat, movies.dat (``::``, Latin-1), as a directory or ml-1m.zip.
    Pairs alone: interactions.parquet (userID, movieID; needs pyarrow) in place of ratings.dat; the
    name of the interactions says so.

    Items are the 3,706 movies with a rating, as papers count them, not the 3,883 of movies.dat.

    Ages come as the first year of a range: 1, 18, 25, 35, 45, 50, 56. The first three are "under
    35", 35 (35 to 44) is "35 to 45", the others "over 45". So users of exactly 45 years, whom the
    range 45 to 49 hides, are "over 45" here and "35 to 45" in MovieLens 100K: the border is one
    year off, and nothing in the data can repair it.

    Source: Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
    """

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files of either layout, by name."""
        return Source(path, "ml-1m").holds((OFFICIAL, PAIRS_ONLY))

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``, else from the cache; InputError says where to get the files."""
        place = path or cached("ml-1m")
        if place is None:
            raise InputError(
                f"Expected MovieLens 1M in the cache, got nothing at {cache() / 'ml-1m'} or "
                f"{cache() / 'ml-1m.zip'}. Fetch ml-1m.zip from "
                "https://grouplens.org/datasets/movielens/1m/ and put it there, or give its path. "
                + LICENCE
            )
        source = Source(place, "ml-1m")
        files = source.pick((OFFICIAL, PAIRS_ONLY))

        def table(name: str, width: int) -> Lines:
            return Lines(
                place=source.place(name),
                data=files[name],
                separator="::",
                width=width,
                encoding="latin-1",
            )

        official = "ratings.dat" in files
        return assemble(
            "ml-1m" if official else "ml-1m (pairs only)",
            _users(table("users.dat", 5)),
            _movies(table("movies.dat", 3)),
            rated(table("ratings.dat", 4))
            if official
            else _pairs(files["interactions.parquet"], source.place("interactions.parquet")),
        )


def _users(table: Lines) -> Users:
    """Columns: id, gender, age code, occupation code, zip code; the last is not read."""
    groups = np.array(list(AGES.values()))
    numbers = tuple(map(str, range(len(OCCUPATIONS))))
    return Users(
        place=table.place,
        ids=identifiers(table),
        attributes={
            "gender": Attribute(codes=codes(table, 1, GENDERS, "a gender"), categories=GENDERS),
            "age_group": Attribute(
                codes=groups[codes(table, 2, tuple(AGES), "an age code")], categories=AGE_GROUPS
            ),
            "occupation": Attribute(
                codes=codes(table, 3, numbers, "an occupation code"), categories=OCCUPATIONS
            ),
        },
    )


def _movies(table: Lines) -> Movies:
    """Columns: id, title, genre words separated by bars."""
    return Movies(
        place=table.place,
        ids=identifiers(table),
        titles=[fields[1] for fields in table.rows()],
        genres=genre_flags(table, 2, GENRES, "|"),
        genre_names=GENRES,
    )


def _pairs(data: bytes, place: str) -> Pairs:
    """The columns userID and movieID of a Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"Expected pyarrow to read {place}, got none. Install it (pip install pyarrow), or "
            "give the official ratings.dat."
        ) from error
    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        if file.metadata.num_rows > MOST_PAIRS:
            raise broken(place, f"at most {MOST_PAIRS} rows", file.metadata.num_rows)
        table = file.read(columns=list(PAIR_COLUMNS))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise broken(place, "a whole Parquet file", str(error)) from error
    columns = []
    for name in PAIR_COLUMNS:
        at = table.schema.get_field_index(name)
        kind = table.schema.field(at).type if at >= 0 else "no such column"
        if at < 0 or not pyarrow.types.is_integer(kind) or table.column(at).null_count:
            raise broken(place, f"a column {name} of integers without gaps", str(kind))
        columns.append(table.column(at).to_numpy().astype(np.int64))
    if not table.num_rows:
        raise broken(place, "at least one row", "an empty table")
    users, items = columns
    return Pairs(
        users=users,
        items=items,
        ratings=np.ones(len(users), dtype=np.float32),
        timestamps=None,
        where=lambda row: f"{place}, row {row + 1}",
    )
