"""LibimSeTi: 17,359,346 ratings 1 to 10 of dating profiles, 135,359 users, genders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.cache import cache, cached
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.delimited import Block, Delimited
from fedrec_auditor.targets.datasets.parts.lines import broken
from fedrec_auditor.targets.datasets.parts.movielens import GENDERS, Movies, Users, assemble
from fedrec_auditor.targets.datasets.parts.ratings import USER, columns, pairs
from fedrec_auditor.targets.datasets.parts.source import Source

FILES = ("ratings.dat", "gender.dat")
SCALE = (1.0, 10.0, 1.0)
LETTERS = (b"F", b"M", b"U")
CATEGORIES = (*GENDERS, "unknown")


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
        place = path or cached("libimseti")
        if place is None:
            raise InputError(
                f"Expected LibimSeTi in the cache, got nothing at {cache() / 'libimseti'} or "
                f"{cache() / 'libimseti.zip'}. Fetch libimseti-complete.zip from "
                "http://www.occamslab.com/petricek/data/ and put it there as libimseti.zip, or "
                "give its path. The data are for research."
            )
        source = Source(place, "libimseti")

        def file(name: str, width: int) -> Delimited:
            return Delimited(
                place=source.place(name),
                read=lambda: source.blocks(name),
                separator=b",",
                header=False,
                width=width,
            )

        if not source.holds((FILES,)):
            source.pick((FILES,))  # says what is missing
        genders = file("gender.dat", 2)
        ids, codes = columns(genders.blocks(), _gender)
        if len(np.unique(ids)) < len(ids):
            first = np.unique(ids, return_index=True)[1]
            again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
            raise broken(genders.line(again), "each user once", str(ids[again]))
        gender = Attribute(codes=codes, categories=CATEGORIES)
        return assemble(
            "libimseti",
            Users(place=genders.place, ids=ids, attributes={"gender": gender}),
            Movies(
                place=genders.place,
                ids=ids,
                titles=(),
                genres=codes[:, None] == np.arange(len(GENDERS)),
                genre_names=GENDERS,
            ),
            pairs(file("ratings.dat", 3), scale=SCALE, timed=False),
            item="profile",
        )


def _gender(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Identifiers and codes of one block."""
    letters = block.text(1, "gender")
    known = np.array(LETTERS)
    codes = np.searchsorted(known, letters)
    wrong = known[np.minimum(codes, len(known) - 1)] != letters
    if wrong.any():
        raise block.error(int(np.argmax(wrong)), 1, "a gender, one of F, M, U,")
    return block.whole(0, USER), codes.astype(np.int64)
