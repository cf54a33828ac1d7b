"""MovieLens 20M: 20,000,263 ratings in half stars, 138,493 users, 26,744 rated movies."""

from __future__ import annotations

import re
from pathlib import Path

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.joined import (
    HALF_STARS,
    ITEM,
    TIME,
    USER,
    assemble,
    movies,
    pairs,
)
from fedrec_auditor.targets.datasets.parts.movielens import LARGE, MovieLens
from fedrec_auditor.targets.datasets.parts.source import Source

COUNTS = {20_000_263: "ml-20m", 25_000_095: "ml-25m"}
_SAYS = re.compile(rb"\((ml-[a-z0-9-]{1,30})\)")
_CALLED = re.compile(r"(?<![a-z0-9])ml-(latest-small|latest|[0-9]+m)(?![a-z0-9])")


class Ml20m(MovieLens):
    """The official ratings.csv and movies.csv, as a directory or ml-20m.zip.

    MovieLens 25M, 32M and "latest" have files of the same names and columns. README.txt, else the
    name of the path, says which one it is; what is neither called ml-25m is recognised here, so
    that every set of this layout can be read, and the interactions bear the name found, else that
    of the data set with as many ratings. There are no attributes of users. Items are the movies
    with a rating. Memory: about 1.5 GB.

    Source: Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
    """

    name = "ml-20m"
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
        films, ratings = (
            Delimited.of(source, name, whole=quotes, separator=",", header=header, quotes=quotes)
            for name, header, quotes in (
                ("movies.csv", "movieId,title,genres", True),
                ("ratings.csv", "userId,movieId,rating,timestamp", False),
            )
        )
        known = movies(films, LARGE)
        rated = pairs(ratings, (USER, ITEM, HALF_STARS, TIME))
        name = self.called(source.path) or COUNTS.get(len(rated.users), "MovieLens of unknown size")
        return assemble(name, None, known, rated)
