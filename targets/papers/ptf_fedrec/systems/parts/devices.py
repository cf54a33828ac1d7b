"""Devices that score the items they know, and list some with their scores: all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.streams import Streams

Flags = NDArray[np.bool_]
Order = Literal["own-first", "shuffled", "sorted"]
_FIRST, _POOL, _SIZES, _OWN, _OTHERS, _ORDER = range(6)
"""Purposes of a device's randomness."""
_SPREAD = 0.5
"""Standard deviation of the logits that a device begins with."""


@dataclass(frozen=True, slots=True)
class Lists:
    """What devices list: client i's are ``items[indptr[i] : indptr[i + 1]]``, with ``scores``."""

    indptr: Ints
    items: Ints
    scores: Floats

    @classmethod
    def joined(cls, parts: Sequence[Lists]) -> Lists:
        """Those of several batches of devices, one after the other."""
        none = np.zeros(0, np.int32), np.zeros(0, np.float32)
        sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.indptr) for part in parts)])
        items = np.concatenate([none[0], *(part.items for part in parts)])
        scores = np.concatenate([none[1], *(part.scores for part in parts)])
        return cls(np.cumsum(sizes), items, scores)

    @property
    def owners(self) -> Ints:
        """Whose each entry is."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def among(self, n_items: int) -> Flags:
        """Whether each device lists each item, (n, n_items)."""
        found = np.zeros((len(self.indptr) - 1, n_items), dtype=np.bool_)
        found[self.owners, self.items] = True
        return found


@dataclass(slots=True)
class ListingDevices:
    """What devices hold of all items, (n, M) each.

    Which are their ``own``; in how many examples (``count``) an item is, and the sum of their
    ``labels``; the ``logit`` of its predicted score.
    """

    own: Flags
    count: Floats
    labels: Floats
    logit: Floats

    @classmethod
    def of(cls, own: Flags, negatives: int, streams: Streams) -> ListingDevices:
        """Own items with the label 1, and for each ``negatives`` others, drawn once, with 0.

        Predictions begin near the share of own items: a network has it after some steps.
        """
        held = own.sum(axis=1)
        drawn = _picked(
            ~own, negatives * held, streams.fold_in(_POOL).uniform(negatives * int(held.max()))
        )
        count = own.astype(np.float32)
        np.add.at(count, drawn, 1.0)
        first = _SPREAD * streams.fold_in(_FIRST).normal(own.shape[1]) - np.log(negatives)
        return cls(own, count, own.astype(np.float32), first.astype(np.float32))

    def hear(self, told: Flags, scores: Floats) -> None:
        """Take in what the server says of these items, but not of one's own."""
        new = told & ~self.own
        self.count += new
        self.labels += np.where(new, scores, np.float32(0))

    def learn(self, steps: int, rate: float) -> None:
        """Steps on the cross-entropy of all examples; an item in none stays as it is."""
        for _ in range(steps):
            self.logit -= np.float32(rate) * (self.count * expit(self.logit) - self.labels)

    def lists(self, least: float, swapped: float, order: Order, streams: Streams) -> Lists:
        """Some own items, with fresh chances, and others from what a device knows.

        A share of U(``least``, 1) of the own ones without repetition, and U(1, 4) times as many
        others with it, at least one each. The best of both, ``swapped`` of the own ones that are
        listed and at least one, exchange scores rank by rank; an item has one score.
        """
        share, times = streams.fold_in(_SIZES).uniform(2).T
        held, known = self.own.sum(axis=1), (self.count > 0) & ~self.own
        some = np.maximum((held * (least + (1 - least) * share)).astype(np.int64), 1)
        some = np.minimum(some, held)
        more = np.maximum((some * (1 + 3 * times)).astype(np.int64), 1) * (some > 0)
        keys = np.where(self.own, streams.fold_in(_OWN).uniform(self.own.shape[1]), np.inf)
        drawn = np.argsort(keys, axis=1)[:, : max(1, int(some.max(initial=0)))]
        coins = streams.fold_in(_OTHERS).uniform(max(1, int(more.max(initial=0))))
        rows, others = _picked(known, more, coins)
        mine = np.nonzero(np.arange(drawn.shape[1]) < some[:, None])
        owners = np.concatenate([mine[0], rows])
        items = np.concatenate([drawn[mine], others])
        is_own = np.arange(len(items)) < len(mine[0])
        score = expit(self.logit)
        self._swap(score, owners, items, is_own, np.maximum((some * swapped).astype(np.int64), 1))
        sizes = np.bincount(owners, minlength=len(held))
        turn: NDArray[np.floating] = np.arange(len(items)) * 1.0  # own ones come first
        if order == "sorted":
            turn = items.astype(np.float64)
        elif order == "shuffled":
            each = streams.fold_in(_ORDER).uniform(max(1, int(sizes.max(initial=0))))
            place = np.argsort(np.argsort(owners, kind="stable"), kind="stable")
            starts = np.cumsum(sizes) - sizes
            turn = each[owners, place - starts[owners]]
        sort = np.lexsort((turn, owners))
        owners, items = owners[sort], items[sort].astype(np.int32)
        return Lists(np.append(0, np.cumsum(sizes)), items, score[owners, items])

    @staticmethod
    def _swap(score: Floats, owners: Ints, items: Ints, is_own: Flags, most: Ints) -> None:
        """Exchange scores (n, M) of the best of either kind, of each device so many ranks."""
        ranked = []
        for kind in (is_own, ~is_own):
            whose, what = owners[kind], items[kind]
            sort = np.lexsort((-score[whose, what], whose))
            whose, what = whose[sort], what[sort]
            rank = np.arange(len(whose)) - np.searchsorted(whose, whose)
            best = rank < most[whose]
            ranked.append((whose[best], rank[best], what[best]))
        (one, first, own), (other, second, theirs) = ranked
        width = 1 + int(most.max(initial=0))
        both, left, right = np.intersect1d(
            one * width + first, other * width + second, assume_unique=True, return_indices=True
        )
        whose = both // width
        a, b = own[left], theirs[right]
        score_a, score_b = score[whose, a], score[whose, b]
        score[whose, a] = score_b
        score[whose, b] = score_a  # of what is listed again the last


def _picked(among: Flags, count: Ints, coins: Floats) -> tuple[Ints, Ints]:
    """So many of those ``among`` (n, M) by devices, with repetition: whose, and which."""
    there = among.sum(axis=1)
    order = np.argsort(~among, axis=1, kind="stable")
    rows, turns = np.nonzero(np.arange(coins.shape[1]) < np.where(there > 0, count, 0)[:, None])
    place = (coins[rows, turns] * there[rows]).astype(np.int64)
    return rows, order[rows, np.minimum(place, there[rows] - 1)]
