"""What the MovieLens data sets share: where they are, their terms, genders and genres."""

from __future__ import annotations

from fedrec_auditor.targets.datasets.parts.joined import Genres
from fedrec_auditor.targets.datasets.parts.published import PublishedDataset

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


class MovieLens(PublishedDataset):
    """A data set of MovieLens, of the name that it has there."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        size = cls.name[3:]
        address = f"https://grouplens.org/datasets/movielens/{size}/"
        cls.title = f"MovieLens {size.upper()}"
        cls.remedy = (
            f"Fetch {cls.name}.zip from {address} and put it there, or give its path. {LICENCE}"
        )
