"""Published data sets that are read from a folder or an archive, as it was fetched."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.datasets.base import NO_VALUE, Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.block import NUMBER, Column, broken
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers
from fedrec_auditor.targets.datasets.parts.joined import (
    ITEM,
    USER,
    Trait,
    assemble,
    users,
)
from fedrec_auditor.targets.datasets.parts.moments import written_dates
from fedrec_auditor.targets.datasets.parts.movielens import GENDERS
from fedrec_auditor.targets.datasets.parts.pairs import Pairs, latest
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
        rated = Pairs.of(ratings, {"user": (0, USER), "item": (1, ITEM), "rating": (2, SCORE)})
        return assemble(self.name, profiles, profiles, rated, item="profile")


NUMBERS = {
    "user": ("user", USER),
    "item": ("item", ITEM),
    "rating": ("cnt", Column(what="count", low=1)),
}
CONTEXT = ("daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city")
PAID = "paid"


class Frappe(PublishedDataset):
    """The official frappe.csv and, where it is, meta.csv: a directory or frappe.zip.

    Both have headers, and tabs as published, or commas, as copies of them have. A row of frappe.csv
    is a user, an application and a context with the number of uses in it; ratings are the uses of
    an application by a user over all contexts. There are no timestamps.

    All eight contexts are features (PrivRec paper, section 3.2). They are of interactions, so that
    of a user the most frequent in its rows is kept (of equals the first in order of bytes), as an
    attribute: where the user lives in ``country`` and ``city``, and in ``daytime``, ``weekday``,
    ``isweekend``, ``homework`` and ``weather`` when the user is mostly there. ``cost`` is one of
    the item, "paid" if most of its rows say so, beside one flag for each category in meta.csv. The
    paper's 288,609 interactions in an "extended version" are three times the 96,203 rows of this
    file: each row and two drawn negatives.

    Source: Baltrunas, Church, Karatzoglou and Oliver, Frappe: Understanding the Usage and
    Perception of Mobile App Recommendations In-The-Wild, 2015 (arXiv:1505.03014).
    """

    name = "frappe"
    title = "Frappe"
    remedy = (
        "Fetch it from its authors (the PrivRec paper names "
        "http://baltrunas.info/research-menu/frappe) and put it there, or give its path. "
        "The data are for research; cite the paper."
    )
    layouts = (("frappe.csv",),)

    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """The uses and their contexts, and categories where there are any."""
        split = separator(next(source.blocks("frappe.csv"), b""))
        file = Delimited.of(source, "frappe.csv", separator=split, header=True, quotes=True)
        names = file.names()
        needed = (*(name for name, _ in NUMBERS.values()), *CONTEXT)
        if missing := [name for name in needed if name not in names]:
            expected = f"the columns {', '.join(needed)}"
            raise broken(f"{file.place}, line 1", expected, f"no {', '.join(missing)}")
        used = Pairs.of(
            file, {role: (names.index(key[0]), key[1]) for role, key in NUMBERS.items()}
        )
        words = {names.index(name): Identifiers() for name in CONTEXT}
        for block in file.blocks(dict(zip(words, CONTEXT, strict=True))):
            for at, found in words.items():
                found.add(block.words(at))
        context = dict(zip(CONTEXT, (found.finish() for found in words.values()), strict=True))
        cost = context.pop("cost")
        row, column, items = used.row, used.column, used.item_ids
        uses = sparse.coo_array((used.ratings.astype(np.float64), (row, column)), used.shape)
        is_paid = np.array([word == PAID for word in cost[2]])[cost[1]]
        paid = np.bincount(column, weights=np.where(is_paid, 1.0, -1.0)) > 0
        categories: tuple[str, ...] = ()
        flags = np.zeros((len(items), 0), dtype=bool)
        if "meta.csv" in source.names():
            data = source.pick((("meta.csv",),))["meta.csv"]
            categories, flags = _categories(data, source.place("meta.csv"), items.tolist())
        return Interactions(
            name=self.name,
            users=used.user_ids,
            items=items,
            ratings=uses.tocsr().astype(np.float32),
            attributes={name: _usual(row, *found[1:]) for name, found in context.items()},
            genres=np.column_stack([paid, flags]),
            genre_names=(PAID, *categories),
        )


def separator(data: bytes) -> str:
    """Tabs if the header has one, else commas."""
    return "\t" if b"\t" in data.partition(b"\n")[0] else ","


def _usual(
    row: NDArray[np.int32], code: NDArray[np.int32], categories: tuple[str, ...]
) -> Attribute:
    """Each user's most frequent of ``categories``, of equals the first."""
    pairs, counts = np.unique(row * np.int64(len(categories)) + code, return_counts=True)
    user, word = pairs // len(categories), pairs % len(categories)
    order = np.lexsort((word, -counts, user))
    first = order[np.concatenate([[True], np.diff(user[order]) > 0])]
    return Attribute(codes=word[first], categories=categories)


def _categories(
    data: bytes, place: str, items: Sequence[int]
) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """The names of all categories in meta.csv, and a flag for each item and category."""
    try:
        text = io.StringIO(data.decode("utf-8", "replace"))
        rows = list(csv.DictReader(text, delimiter=separator(data)))
    except csv.Error as error:
        raise broken(place, "a table with tabs or commas and a header", str(error)) from error
    if not rows or not {"item", "category"} <= rows[0].keys():
        raise broken(f"{place}, line 1", "the columns item and category", str([*rows[:1]]))
    known = {row["item"]: row["category"] for row in rows if row["category"]}
    found = [known.get(str(item)) for item in items]
    names = tuple(sorted({category for category in found if category}))
    return names, np.array([[category == name for name in names] for category in found], dtype=bool)


TRACE, CATEGORIES = "App_usage_trace.txt", "App2Category.txt"
MOMENT = Column(what="time YYYYMMDDhhmmss", low=19700101000000, high=99991231235959)
CATEGORY = Column(what="category id")


class AppUsage(PublishedDataset):
    """The official App_usage_trace.txt and, where it is, App2Category.txt: directory or zip.

    The trace has no header and five fields between single spaces: user, time as YYYYMMDDhhmmss,
    base station, application, bytes sent and received. An interaction is a user and an application;
    its rating is the number of the trace's rows of both, its timestamp that of the last (taken for
    UTC: the file names no zone), as the DPLCF paper tests on each user's last one. App2Category.txt
    has an application and its category in each row, between a tab; a category is a flag of items.
    Base stations and traffic are not kept. The archives are .rar, which is not read.

    The DPLCF paper (Table 1) has 871 users, 1,682 applications and 51,935 interactions of it, and
    does not say which it left out; nothing is left out here.

    Source: Yu, Li, Xu, Zhang and Kostakos, Smartphone App Usage Prediction Using Points of
    Interest, IMWUT 1(4), 2018 (arXiv:1711.09337). The layout is that which programs of others read;
    the files themselves were not at hand.
    """

    name = "app-usage"
    title = "AppUsage"
    remedy = (
        "Fetch App_usage_trace.rar and App2Category.rar from their authors "
        "(https://fi.ee.tsinghua.edu.cn/appusage/), unpack them and put the folder there, or give "
        "its path. Cite the paper of Yu et al."
    )
    layouts = ((TRACE,),)
    folder = "appusage"

    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """The uses, counted, and categories where there are any; about 60 bytes a row."""
        trace = Delimited.of(source, TRACE, separator=" ", width=5)
        used = Pairs.of(
            trace, {"user": (0, "user id"), "item": (3, ITEM), "timestamp": (1, MOMENT)}
        )
        assert used.timestamps is not None
        time = written_dates(used.timestamps)
        if time.min() < 0:
            at = int(np.argmin(time))
            raise broken(trace.line(at), f"a {MOMENT.what}", str(used.timestamps[at]))
        names, flags = self._categories(source, used.item_ids)
        uses = sparse.coo_array((used.ratings, (used.row, used.column)), used.shape)
        return Interactions(
            name=self.name,
            users=used.user_ids,
            items=used.item_ids,
            ratings=uses.tocsr(),
            timestamps=time[latest(used.row, used.column, used.shape[1], time)],
            genres=flags,
            genre_names=names,
        )

    def _categories(
        self, source: Source, items: NDArray[np.int64]
    ) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
        """The categories of these items, and a flag for each item and category."""
        if CATEGORIES not in source.names():
            return (), np.zeros((len(items), 0), dtype=bool)
        file = Delimited.of(source, CATEGORIES, separator="\t", width=2)
        known = Pairs.of(file, {"user": (0, ITEM), "item": (1, CATEGORY)})
        app, category = known.user_ids[known.row], known.item_ids[known.column]
        used = np.isin(app, items)
        ids, place = np.unique(category[used], return_inverse=True)
        flags = np.zeros((len(items), len(ids)), dtype=bool)
        flags[np.searchsorted(items, app[used]), place] = True
        return tuple(f"category {number}" for number in ids), flags
