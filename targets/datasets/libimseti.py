"""LibimSeTi: 17,359,346 ratings 1 to 10 of dating profiles, 135,359 users, genders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.cache import located
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.block import NUMBER, Block, Column
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.movielens import GENDERS, Known, assemble
from fedrec_auditor.targets.datasets.parts.ratings import ITEM, USER, columns, pairs
from fedrec_auditor.targets.datasets.parts.source import Source

FILES = ("ratings.dat", "gender.dat")
SCORE = Column(what="rating", low=1, high=10, step=1, written=NUMBER)
LETTERS = (b"F", b"M", b"U")
CATEGORIES = (*GENDERS, "unknown")
REMEDY = (
    "Fetch libimseti-complete.zip from http://www.occamslab.com/petricek/data/ and put it there "
    "as libimseti.zip, or give its path. The data are for research."
)


@dataclass(frozen=True, slots=True)
class Libimseti:
    """The official ratings.dat and gender.dat (commas, no headers), a directory or libimseti.zip.

    ratings.dat: UserID, ProfileID, Rating from 1 to 10 (the federated MF paper says from 0; no 0
    is in the file). gender.dat: UserID, Gender as F, M or U, "unknown". Profiles are users too, so
    gender is an attribute of users and, as the flags F and M, a feature of items. There are no
    timestamps. Items are the profiles with a rating. Memory: about 1.1 GB.

    Source: Brozovsky and Petricek, Recommender System for Online Dating Service, 2007
    (arXiv:cs/0703042).
    """

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files, by name."""
        return Source(path, "libimseti").holds((FILES,))

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``, else from the cache; InputError says where to get the files."""
        source = Source(located(path, "libimseti", "LibimSeTi", REMEDY), "libimseti")
        source.layout((FILES,))
        genders = Delimited.of(source, "gender.dat", separator=",", width=2)
        ratings = Delimited.of(source, "ratings.dat", separator=",", width=3)
        ids, known = columns(genders.blocks({0: USER, 1: "gender"}), _gender)
        first = np.unique(ids, return_index=True)[1]
        if len(first) < len(ids):
            again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
            raise genders.error(again, "each user once", str(ids[again]))
        profiles = Known(
            place=genders.place,
            ids=ids,
            attributes={"gender": Attribute(codes=known, categories=CATEGORIES)},
            genres=known[:, None] == np.arange(len(GENDERS)),
            genre_names=GENDERS,
        )
        rated = pairs(ratings, (USER, ITEM, SCORE))
        return assemble("libimseti", profiles, profiles, rated, item="profile")


def _gender(block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Identifiers (n,) and places in ``LETTERS`` (n,); InputError at any other letter."""
    words = block.words(1)
    known = [
        LETTERS.index(word) if word in LETTERS else -1 for word in words.dictionary.to_pylist()
    ]
    codes = np.array(known)[words.indices.to_numpy()]
    if codes.min() < 0:
        raise block.error(int(np.argmax(codes < 0)), 1, "a gender, one of F, M, U,")
    return block.numbers(0), codes
