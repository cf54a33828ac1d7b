"""Loader of MovieLens 100K: 100,000 ratings of 1,682 movies by 943 users with attributes."""

from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from fedrec_auditor.accountants.errors import IncompleteError
from fedrec_auditor.targets.cache import find_cached_data_set, get_cache_path, store_data_set
from fedrec_auditor.targets.datasets.base import AGE_GROUPS, Interactions, classify_age
from fedrec_auditor.targets.datasets.parts import joined
from fedrec_auditor.targets.datasets.parts.joined import MovieLens, UserColumn, join_files
from fedrec_auditor.targets.datasets.parts.source import DataFiles
from fedrec_auditor.targets.datasets.parts.table_file import TextTable

# Names of the official files, and of the files in the RecBole package: ratings, users, movies.
OFFICIAL_FILES = ("u.data", "u.user", "u.item")
RECBOLE_FILES = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")
# Required first line of each RecBole file; the official files have no header.
HEADER_BY_FILE = {
    "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float",
    "ml-100k.user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token",
    "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
}
# Python package whose wheel contains the RecBole files.
RECBOLE_PACKAGE = "recbole==1.2.1"
# Required SHA-256 digest of the downloaded wheel.
RECBOLE_WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
# Genres in the order of the official files' flags.
ALL_GENRES = ("unknown", *joined.MOVIELENS_GENRES)
# Occupations, as the files name them.
OCCUPATIONS = (
    "administrator", "artist", "doctor", "educator", "engineer", "entertainment", "executive",
    "healthcare", "homemaker", "lawyer", "librarian", "marketing", "none", "other", "programmer",
    "retired", "salesman", "scientist", "student", "technician", "writer",
)  # fmt: skip
# Attributes of users. Both layouts also have a zip code, which is not read.
ATTRIBUTE_COLUMNS = {
    "gender": UserColumn(position=2, noun="a gender", categories=joined.MOVIELENS_GENDERS),
    "age_group": UserColumn(
        position=1,
        noun="an age",
        categories=AGE_GROUPS,
        category_by_word={str(age): classify_age(age) for age in range(1, 121)},
    ),
    "occupation": UserColumn(position=3, noun="an occupation", categories=OCCUPATIONS),
}

logger = logging.getLogger("fedrec_auditor.targets.datasets")


class Ml100k(MovieLens):
    """MovieLens 100K, from its official files or from the files in the RecBole package.

    Both sets of files give the same interactions, but they spell titles differently:

    - The official files are u.data (tabs), u.user and u.item (bars, Latin-1, 19 genre flags), in a
      directory or in ml-100k.zip.
    - RecBole's files are ml-100k.inter, .user and .item (tabs, typed headers, UTF-8, genres as
      words), in a directory or in the RecBole wheel.

    Users and movies without a rating are left out. Source: Harper and Konstan, The MovieLens
    Datasets: History and Context, ACM TiiS 5(4), 2015.

    name: name of the data set (class attribute)
    layouts: the two possible sets of file names (class attribute)
    """

    name = "ml-100k"
    layouts = (OFFICIAL_FILES, RECBOLE_FILES)

    def load(self, path: Path | None = None) -> Interactions:
        """Loads the interactions from ``path``; if None, from the cache or the RecBole package.

        If the cache has no files, pip downloads the wheel of the package. Raises InputError for
        invalid files, and IncompleteError if the download fails.
        """
        return super().load(path or find_cached_data_set(self.name) or _download())

    def read(self, source: DataFiles, layout: tuple[str, ...]) -> Interactions:
        """Reads users, movies and ratings from the files in ``source`` that ``layout`` names."""
        official = layout == OFFICIAL_FILES
        rated, people, films = (
            TextTable.create(
                source,
                name,
                in_memory=True,
                separator="|" if official and width != 4 else "\t",
                width=width,
                header=HEADER_BY_FILE.get(name, False),
                encoding="latin-1" if official and width != 4 else "utf-8",
            )
            for name, width in zip(layout, (4, 5, 24 if official else 4), strict=True)
        )
        words = joined.make_genre_parser(3, ALL_GENRES, " ")
        genres = joined.make_flag_parsers(5, ALL_GENRES) if official else words
        stars = joined.InteractionRows.read(rated, joined.MOVIELENS_RATING_COLUMNS)
        return join_files(self.name, stars, people, ATTRIBUTE_COLUMNS, films, genres, ALL_GENRES)


def _download() -> Path:
    """Downloads the RecBole wheel by pip, checks it, and stores its three files in the cache.

    Returns the path in the cache. Raises IncompleteError if the download fails or the digest
    differs.
    """
    message = "Fetching MovieLens 100K (in the wheel %s, 2 MB). %s"
    logger.warning(message, RECBOLE_PACKAGE, joined.LICENCE_NOTE)
    hint = (
        f"Give the path of ml-100k.zip (https://grouplens.org/datasets/movielens/100k/), "
        f"or put it at {get_cache_path() / 'ml-100k.zip'}."
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--quiet", "--dest", folder, RECBOLE_PACKAGE],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            why = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
            raise IncompleteError(f"Expected pip to download {RECBOLE_PACKAGE}, got: {why} {hint}")
        if (sha256 := hashlib.sha256(wheels[0].read_bytes()).hexdigest()) != RECBOLE_WHEEL_SHA256:
            raise IncompleteError(
                f"Expected the wheel of {RECBOLE_PACKAGE} with SHA-256 {RECBOLE_WHEEL_SHA256}, "
                f"got {sha256}. {hint}"
            )
        data = DataFiles(wheels[0], "ml-100k").read_files((RECBOLE_FILES,))
        return store_data_set("ml-100k", data)
