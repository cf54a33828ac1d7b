"""What the MovieLens data sets share: where they are, their terms, genders and genres."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from fedrec_auditor.targets.cache import located
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.source import Source
from fedrec_auditor.targets.tables import is_table

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


class MovieLens(ABC):
    """A data set of MovieLens, of the ``name`` that it has there and in the cache.

    It has the files of one of its ``layouts``, in a directory, an archive or the cache.
    """

    __slots__ = ()

    name: ClassVar[str]
    layouts: ClassVar[tuple[tuple[str, ...], ...]]

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files of a layout, by name."""
        if os.path.isfile(path) and is_table(path):
            return False
        return Source(path, self.name).holds(self.layouts)

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``, else from the cache; InputError says where to get the files."""
        size = self.name[3:]
        remedy = (
            f"Fetch {self.name}.zip from https://grouplens.org/datasets/movielens/{size}/ and put "
            f"it there, or give its path. {LICENCE}"
        )
        place = located(path, self.name, f"MovieLens {size.upper()}", remedy)
        source = Source(place, self.name)
        return self.read(source, source.layout(self.layouts))

    @abstractmethod
    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """The interactions in the files of this layout."""
