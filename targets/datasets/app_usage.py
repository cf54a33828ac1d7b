"""AppUsage: which mobile applications users in Shanghai used in a week of April 2016, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.block import Block, Column, Wanted
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.identifiers import Identifiers, unique
from fedrec_auditor.targets.datasets.parts.joined import ITEM, columns
from fedrec_auditor.targets.datasets.parts.moments import written_dates
from fedrec_auditor.targets.datasets.parts.published import PublishedDataset
from fedrec_auditor.targets.datasets.parts.source import Source

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
        people = Identifiers()

        def read(block: Block) -> tuple[NDArray[Any], ...]:
            block.identify(0, people)
            return _seconds(block), block.numbers(3)

        time, item = columns(trace.blocks({0: "user id", 1: MOMENT, 3: ITEM}), read)
        users, row, _ = people.finish()
        items, column = unique(item)
        key = row * np.int64(len(items)) + column
        order = np.lexsort((time, key))
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        rows, places = np.divmod(key[order][first], len(items))
        uses = np.diff(np.append(first, len(key)))
        indptr = np.searchsorted(rows, np.arange(len(users) + 1))
        names, flags = self._categories(source, items)
        return Interactions(
            name=self.name,
            users=users,
            items=items,
            ratings=sparse.csr_array(
                (uses.astype(np.float32), places.astype(np.int32), indptr.astype(np.int32)),
                shape=(len(users), len(items)),
            ),
            timestamps=time[order][first + uses - 1],
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
        wanted: Wanted = {0: ITEM, 1: CATEGORY}
        app, category = columns(
            file.blocks(wanted), lambda block: tuple(block.numbers(at) for at in wanted)
        )
        used = np.isin(app, items)
        ids, place = np.unique(category[used], return_inverse=True)
        flags = np.zeros((len(items), len(ids)), dtype=bool)
        flags[np.searchsorted(items, app[used]), place] = True
        return tuple(f"category {number}" for number in ids), flags


def _seconds(block: Block) -> NDArray[np.int64]:
    """Unix seconds of the block's times, (n,); InputError at the first that is no time."""
    seconds = written_dates(block.numbers(1))
    if seconds.min() < 0:
        raise block.error(int(np.argmin(seconds)), 1, f"a {MOMENT.what}")
    return seconds
