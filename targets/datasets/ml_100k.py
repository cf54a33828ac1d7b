"""MovieLens 100K: 100,000 ratings, 943 users, 1,682 movies, the users' gender, age, occupation."""

from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrec_auditor.accountants.errors import IncompleteError
from fedrec_auditor.targets.cache import cache, cached, keep
from fedrec_auditor.targets.datasets.base import AGE_GROUPS, Attribute, Interactions, age_group
from fedrec_auditor.targets.datasets.parts.block import Column
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.movielens import (
    GENDERS,
    GENRES,
    LICENCE,
    Known,
    assemble,
    attribute,
    identifiers,
    movies,
    whole,
)
from fedrec_auditor.targets.datasets.parts.ratings import STARS, pairs
from fedrec_auditor.targets.datasets.parts.source import Source

OFFICIAL = ("u.data", "u.user", "u.item")
RECBOLE = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")
HEADERS = {
    "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float",
    "ml-100k.user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token",
    "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
}
WHEEL = "recbole==1.2.1"
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
GENRE_NAMES = ("unknown", *GENRES)
AGE = Column(what="age", low=1, high=120)
OCCUPATIONS = (
    "administrator",
    "artist",
    "doctor",
    "educator",
    "engineer",
    "entertainment",
    "executive",
    "healthcare",
    "homemaker",
    "lawyer",
    "librarian",
    "marketing",
    "none",
    "other",
    "programmer",
    "retired",
    "salesman",
    "scientist",
    "student",
    "technician",
    "writer",
)

logger = logging.getLogger("fedrec_auditor.targets.datasets")


@dataclass(frozen=True, slots=True)
class Ml100k:
    """The official layout and RecBole's give the same interactions; only titles are spelled apart.

    Official: u.data (tabs), u.user and u.item (bars, Latin-1, 19 genre flags), as a directory or
    ml-100k.zip. RecBole's: ml-100k.inter, .user, .item (tabs, typed headers, UTF-8, genres as
    words), as a directory or the wheel. Users and movies without a rating are left out; the whole
    data set has none.

    Source: Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
    """

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files of either layout, by name."""
        return Source(path, "ml-100k").holds((OFFICIAL, RECBOLE))

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``, else from the cache, else from the RecBole wheel at the index.

        InputError for what is wrong with the files; IncompleteError if they cannot be fetched.
        """
        source = Source(path or cached("ml-100k") or _download(), "ml-100k")
        official = source.layout((OFFICIAL, RECBOLE)) == OFFICIAL

        def table(name: str, separator: str, width: int, encoding: str = "utf-8") -> Delimited:
            return Delimited.of(
                source,
                name,
                whole=True,
                separator=separator,
                width=width,
                header=HEADERS.get(name, False),
                encoding=encoding,
            )

        if official:
            rated = pairs(table("u.data", "\t", 4), STARS)
            users = _users(table("u.user", "|", 5, "latin-1"))
            known = _movies_official(table("u.item", "|", 24, "latin-1"))
        else:
            rated = pairs(table("ml-100k.inter", "\t", 4), STARS)
            users = _users(table("ml-100k.user", "\t", 5))
            known = movies(table("ml-100k.item", "\t", 4), GENRE_NAMES, column=3, separator=" ")
        return assemble("ml-100k", users, known, rated)


def _users(table: Delimited) -> Known:
    """Both layouts have id, age, gender, occupation, zip code; the last is not read."""
    ages = [whole(table, row, fields[1], AGE) for row, fields in enumerate(table.rows)]
    groups = np.array([age_group(age) for age in ages])
    return Known(
        place=table.place,
        ids=identifiers(table),
        attributes={
            "gender": attribute(table, 2, "a gender", GENDERS),
            "age_group": Attribute(codes=groups, categories=AGE_GROUPS),
            "occupation": attribute(table, 3, "an occupation", OCCUPATIONS),
        },
    )


def _movies_official(table: Delimited) -> Known:
    """Columns: id, title, release, video release, address, 19 flags."""
    rows = table.rows
    for row, fields in enumerate(rows):
        if not set(fields[5:]) <= {"0", "1"}:
            raise table.error(row, "19 genre flags of 0 or 1", "|".join(fields[5:]))
    return Known(
        place=table.place,
        ids=identifiers(table),
        titles=[fields[1] for fields in rows],
        genres=np.array([fields[5:] for fields in rows]) == "1",
        genre_names=GENRE_NAMES,
    )


def _download() -> Path:
    """Fetch the RecBole wheel, check it, and keep its three files in the cache."""
    logger.warning("Fetching MovieLens 100K (in the wheel %s, 2 MB). %s", WHEEL, LICENCE)
    remedy = (
        f"Give the path of ml-100k.zip (https://grouplens.org/datasets/movielens/100k/), "
        f"or put it at {cache() / 'ml-100k.zip'}."
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--quiet", "--dest", folder, WHEEL],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            why = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
            raise IncompleteError(f"Expected pip to fetch {WHEEL}, got: {why} {remedy}")
        sha256 = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
        if sha256 != WHEEL_SHA256:
            raise IncompleteError(
                f"Expected {WHEEL} with SHA-256 {WHEEL_SHA256}, got {sha256}. {remedy}"
            )
        return keep("ml-100k", Source(wheels[0], "ml-100k").pick((RECBOLE,)))
