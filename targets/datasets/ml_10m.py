"""MovieLens 10M: 10,000,054 ratings in half stars, 69,878 users, 10,677 rated movies."""

from __future__ import annotations

from pathlib import Path

from fedrec_auditor.targets.datasets.parts.movielens import LargeMovieLens
from fedrec_auditor.targets.datasets.parts.source import Source


class Ml10m(LargeMovieLens):
    """The official ratings.dat and movies.dat (``::``, UTF-8), as a directory or ml-10m.zip.

    Files of these names beside a users.dat are MovieLens 1M. There are no attributes of users.
    Items are the movies with a rating, as papers count them (federated MF, Table 1: 69,878 users,
    10,677 movies), not the 10,681 of movies.dat. Memory: about 0.9 GB.
    """

    name = "ml-10m"
    folder = "ml-10M100K"
    layouts = (("ratings.dat", "movies.dat"),)

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files, by name, and no users.dat."""
        return super().recognises(path) and "users.dat" not in Source(path, self.folder).names()
