"""MovieLens 25M: 25,000,095 ratings in half stars, 162,541 users, 59,047 rated movies."""

from __future__ import annotations

from fedrec_auditor.targets.datasets.parts.movielens import LargeMovieLens


class Ml25m(LargeMovieLens):
    """The official ratings.csv and movies.csv, as a directory or ml-25m.zip.

    MovieLens 20M has files of the same names and columns: README.txt, else the name of the path,
    must call these ml-25m for them to be recognised. Items are the movies with a rating, not the
    62,423 of movies.csv. Memory: about 1.8 GB.
    """

    name = "ml-25m"
