"""MovieLens 1M: 1,000,209 ratings, 6,040 users, 3,706 rated movies, gender, age, occupation."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.base import AGE_GROUPS, Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.block import Block, broken
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.movielens import (
    GENDERS,
    GENRES,
    Pairs,
    Users,
    assemble,
    codes,
    identifiers,
    movies,
    place_of,
)
from fedrec_auditor.targets.datasets.parts.parquet import Parquet
from fedrec_auditor.targets.datasets.parts.ratings import STARS, columns, pairs
from fedrec_auditor.targets.datasets.parts.source import Source, pieces

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
    Pairs alone: interactions.parquet (userID, movieID) in place of ratings.dat; the
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
        source = Source(place_of(path, "ml-1m"), "ml-1m")
        files = source.pick((OFFICIAL, PAIRS_ONLY))

        def table(name: str, width: int) -> Delimited:
            return Delimited(
                place=source.place(name),
                read=partial(pieces, files[name]),
                separator="::",
                width=width,
                encoding="latin-1",
            )

        official = "ratings.dat" in files
        return assemble(
            "ml-1m" if official else "ml-1m (pairs only)",
            _users(table("users.dat", 5)),
            movies(table("movies.dat", 3), GENRES),
            pairs(table("ratings.dat", 4), STARS)
            if official
            else _pairs(files["interactions.parquet"], source.place("interactions.parquet")),
        )


def _users(table: Delimited) -> Users:
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


def _pairs(data: bytes, place: str) -> Pairs:
    """The columns userID and movieID of a Parquet file."""
    file = Parquet(place=place, file=io.BytesIO(data), most=MOST_PAIRS)
    types = file.types()
    wanted = {}
    for name in PAIR_COLUMNS:
        what = f"column {name} of integers without gaps"
        if name not in types or not pa.types.is_integer(types[name]):
            raise broken(place, f"a {what}", str(types.get(name, "no such column")))
        wanted[[*types].index(name)] = what

    def read(block: Block) -> tuple[NDArray[np.int64], ...]:
        return tuple(block.columns[at].to_numpy().astype(np.int64) for at in wanted)

    users, items = columns(file.blocks(wanted), read)
    return Pairs(
        users=users,
        items=items,
        ratings=np.ones(len(users), dtype=np.float32),
        timestamps=None,
        where=file.line,
    )
