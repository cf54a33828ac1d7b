"""Frappe: how often 957 users used 4,082 mobile applications, and in which contexts."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.block import Block, Column, broken
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers, unique
from fedrec_auditor.targets.datasets.parts.joined import ITEM, USER, columns
from fedrec_auditor.targets.datasets.parts.published import PublishedDataset
from fedrec_auditor.targets.datasets.parts.source import Source

NUMBERS = {"user": USER, "item": ITEM, "cnt": Column(what="count", low=1)}
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
        if missing := [name for name in (*NUMBERS, *CONTEXT) if name not in names]:
            expected = f"the columns {', '.join((*NUMBERS, *CONTEXT))}"
            raise broken(f"{file.place}, line 1", expected, f"no {', '.join(missing)}")
        words = {name: Identifiers() for name in CONTEXT}

        def read(block: Block) -> tuple[NDArray[Any], ...]:
            for name, found in words.items():
                found.add(block.words(names.index(name)))
            return tuple(block.numbers(names.index(name)) for name in NUMBERS)

        wanted = {names.index(name): NUMBERS.get(name, name) for name in (*NUMBERS, *CONTEXT)}
        user, item, count = columns(file.blocks(wanted), read)
        context = {name: found.finish() for name, found in words.items()}
        cost = context.pop("cost")
        users, row = unique(user)
        items, column = unique(item)
        shape = (len(users), len(items))
        uses = sparse.coo_array((count.astype(np.float64), (row, column)), shape=shape).tocsr()
        is_paid = np.array([word == PAID for word in cost[2]])[cost[1]]
        paid = np.bincount(column, weights=np.where(is_paid, 1.0, -1.0)) > 0
        categories: tuple[str, ...] = ()
        flags = np.zeros((len(items), 0), dtype=bool)
        if "meta.csv" in source.names():
            data = source.pick((("meta.csv",),))["meta.csv"]
            categories, flags = _categories(data, source.place("meta.csv"), items.tolist())
        return Interactions(
            name=self.name,
            users=users,
            items=items,
            ratings=uses.astype(np.float32),
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
