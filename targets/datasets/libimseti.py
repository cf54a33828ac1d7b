"""LibimSeTi: 17,359,346 ratings 1 to 10 of dating profiles, 135,359 users, genders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrec_auditor.targets.datasets.base import NO_VALUE, Interactions
from fedrec_auditor.targets.datasets.parts.block import NUMBER, Column
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.joined import ITEM, USER, Trait, assemble, pairs, users
from fedrec_auditor.targets.datasets.parts.movielens import GENDERS
from fedrec_auditor.targets.datasets.parts.published import PublishedDataset
from fedrec_auditor.targets.datasets.parts.source import Source

SCORE = Column(what="rating", low=1, high=10, step=1, written=NUMBER)
GENDER = Trait(
    at=1, what="a gender", categories=(*GENDERS, NO_VALUE), written={"F": 0, "M": 1, "U": 2}
)


class Libimseti(PublishedDataset):
    """The official ratings.dat and gender.dat (commas, no headers), a directory or libimseti.zip.

    ratings.dat: UserID, ProfileID, Rating from 1 to 10 (the federated MF paper says from 0; no 0
    is in the file). gender.dat: UserID, Gender as F, M or U, which is no value. Profiles are users
    too, so gender is an attribute of users and, as the flags F and M, a feature of items. There are
    no timestamps. Items are the profiles with a rating. Memory: about 1.1 GB.

    Source: Brozovsky and Petricek, Recommender System for Online Dating Service, 2007
    (arXiv:cs/0703042).
    """

    name = "libimseti"
    title = "LibimSeTi"
    remedy = (
        "Fetch libimseti-complete.zip from http://www.occamslab.com/petricek/data/ and put it "
        "there as libimseti.zip, or give its path. The data are for research."
    )
    layouts = (("ratings.dat", "gender.dat"),)

    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """The users' genders and the ratings."""
        known = users(Delimited.of(source, "gender.dat", separator=",", width=2), gender=GENDER)
        flags = known.attributes["gender"].codes[:, None] == np.arange(len(GENDERS))
        profiles = replace(known, genres=flags, genre_names=GENDERS)
        ratings = Delimited.of(source, "ratings.dat", separator=",", width=3)
        rated = pairs(ratings, (USER, ITEM, SCORE))
        return assemble(self.name, profiles, profiles, rated, item="profile")
