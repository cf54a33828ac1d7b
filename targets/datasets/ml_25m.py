"""MovieLens 25M: 25,000,095 ratings in half stars, 162,541 users, 59,047 rated movies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.movielens_csv import MovielensCsv

LAYOUT = MovielensCsv("ml-25m")


@dataclass(frozen=True, slots=True)
class Ml25m:
    """The official ratings.csv and movies.csv, as a directory or ml-25m.zip.

    MovieLens 20M has files of the same names and columns: README.txt, else the name of the path,
    must call these ml-25m for them to be recognised. There are no attributes of users. Items are
    the movies with a rating, not the 62,423 of movies.csv. Memory: about 1.8 GB.

    Source: Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
    """

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files, by name, and is called ml-25m."""
        return LAYOUT.holds(path) and LAYOUT.called(path) == "ml-25m"

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``, else from the cache; InputError says where to get the files."""
        return LAYOUT.load(path)
