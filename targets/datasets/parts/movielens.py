"""What the MovieLens data sets share: where they are, their terms, genders and genres."""

from __future__ import annotations

import re
from pathlib import Path

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.joined import HALVES, Genres, assemble, movies
from fedrec_auditor.targets.datasets.parts.pairs import Pairs
from fedrec_auditor.targets.datasets.parts.published import PublishedDataset
from fedrec_auditor.targets.datasets.parts.source import Source

LICENCE = (
    "MovieLens data are for research. Acknowledge them in publications (Harper and Konstan 2015, "
    "The MovieLens Datasets: History and Context, ACM TiiS 5(4), doi:10.1145/2827872); do not pass "
    "them on without permission; do not use them commercially without permission of GroupLens; "
    "do not suggest that the University of Minnesota endorses you."
)
GENDERS = ("F", "M")
GENRES = (
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)
LARGE_GENRES = (*(g.replace("Children's", "Children") for g in GENRES[:11]), "IMAX", *GENRES[11:])
"""Genres of the data sets from 10M on."""
LARGE = Genres(
    at=2, names=LARGE_GENRES, others={"Children's": "Children", "(no genres listed)": None}
)
COUNTS = {20_000_263: "ml-20m", 25_000_095: "ml-25m"}
_SAYS = re.compile(rb"\((ml-[a-z0-9-]{1,30})\)")
_CALLED = re.compile(r"(?<![a-z0-9])ml-(latest-small|latest|[0-9]+m)(?![a-z0-9])")


class MovieLens(PublishedDataset):
    """A data set of MovieLens, of the name that it has there."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "name"):
            return
        size = cls.name[3:]
        address = f"https://grouplens.org/datasets/movielens/{size}/"
        cls.title = f"MovieLens {size.upper()}"
        cls.remedy = (
            f"Fetch {cls.name}.zip from {address} and put it there, or give its path. {LICENCE}"
        )


class LargeMovieLens(MovieLens):
    """A data set of MovieLens of ratings and movies, separated by commas below a header, or ``::``.

    There are no attributes of users. Items are the movies with a rating.

    Source: Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
    """

    layouts = (("ratings.csv", "movies.csv"),)

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files, by name, and is called ml-25m if this is ml-25m only."""
        if not super().recognises(path):
            return False
        return (self.called(path) == "ml-25m") is (self.name == "ml-25m")

    def called(self, path: Path) -> str | None:
        """The name that README.txt gives the data set, else the path; None if neither does."""
        source = Source(path, self.name)
        if "README.txt" in source.names():
            start = next(source.blocks("README.txt"), b"")[:4096]
            if said := _SAYS.search(start):
                return said[1].decode()
        if path.is_dir() and not (path / "ratings.csv").is_file():
            return self.name  # the files are in the folder that bears its name
        found = _CALLED.search(path.name.lower())
        return found[0] if found else None

    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """The movies and the ratings."""
        commas = layout[0].endswith(".csv")
        films, ratings = (
            Delimited.of(
                source,
                name,
                whole=is_small,
                separator="," if commas else "::",
                width=header.count(",") + 1,
                header=header if commas else False,
                quotes=commas and is_small,
            )
            for name, header, is_small in (
                (layout[1], "movieId,title,genres", True),
                (layout[0], "userId,movieId,rating,timestamp", False),
            )
        )
        known = movies(films, LARGE)
        rated = Pairs.of(ratings, HALVES)
        called = self.called(source.path) if commas else self.name
        name = called or COUNTS.get(len(rated.row), "MovieLens of unknown size")
        return assemble(name, None, known, rated)
