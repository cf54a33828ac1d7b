"""MovieLens 20M: 20,000,263 ratings in half stars, 138,493 users, 26,744 rated movies."""

from __future__ import annotations

from fedrec_auditor.targets.datasets.parts.movielens import LargeMovieLens


class Ml20m(LargeMovieLens):
    """The official ratings.csv and movies.csv, as a directory or ml-20m.zip.

    MovieLens 25M, 32M and "latest" have files of the same names and columns. README.txt, else the
    name of the path, says which one it is; what is neither called ml-25m is recognised here, so
    that every set of this layout can be read, and the interactions bear the name found, else that
    of the data set with as many ratings. Memory: about 1.5 GB.
    """

    name = "ml-20m"
