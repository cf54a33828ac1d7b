"""Attribute inference from which rows of an embedding moved; no user needs to be known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import AttackFamily, Background, Labels
from fedrec_auditor.attacks.parts.moves import Moves, moves
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeRows:
    """The embedding of a category moves on the devices of its users, and on no other.

    An attribute of c categories has c rows beside each other, in public order, of which every
    device moves exactly one: that is its user's category, for certain. Who moved none of them is
    given the most frequent category. Where features are one-hot and multiplied by a matrix, they
    are columns. Where several places are of this form, known users decide; with nobody known,
    nothing is guessed. Nor is it where there is no such place.
    """

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    reference: ClassVar[str] = (
        "the only rows that moved; derived in attacks/attribute_rows.py from the chain rule"
    )
    needs_known: ClassVar[bool] = False

    def refusal(self, view: View) -> str:
        """What is there instead of matrices of which something stays unmoved."""
        return "" if moves(view) else unread(view, "matrices of which some rows stay unmoved")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Labels:
        """The category of every subject who is not known, or of nobody."""
        known = np.zeros(0, dtype=np.int64) if background.known is None else background.known
        labels = np.zeros(0, dtype=np.int64) if background.labels is None else background.labels
        places = list(_places(moves(view), background.n_classes))
        right = [_agreement(users, codes, known, labels) for users, codes, _ in places]
        best = [place for place, share in zip(places, right, strict=True) if share == max(right)]
        if len(best) != 1:
            return Labels(users=known[:0], codes=labels[:0])
        users, codes, certain = best[0]
        subjects = users if background.subjects is None else background.subjects
        asked = np.isin(users, subjects) & ~np.isin(users, known)
        return Labels(users=users[asked], codes=codes[asked], certain=certain[asked])


def _places(
    patterns: dict[str, Moves], classes: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
    """Of every ``classes`` rows, or columns, that are a category each: three arrays (n,).

    The users, their categories, and whether they moved one. Who moved nothing at all is given the
    most frequent category.
    """
    for pattern in patterns.values():
        active: NDArray[np.bool_] = np.asarray(pattern.moved.any(axis=1))
        for side in pattern.sides:
            sums: NDArray[np.int64] = np.cumsum(np.pad(side, ((0, 0), (1, 0))), axis=1)
            within: NDArray[np.int64] = sums[active, classes:] - sums[active, :-classes]
            for start in np.flatnonzero((within == 1).all(axis=0)):
                codes = side[:, start : start + classes].argmax(axis=1)
                codes[~active] = np.bincount(codes[active], minlength=1).argmax()
                if np.ptp(codes) > 0:
                    yield pattern.users.astype(np.int64), codes.astype(np.int64), active


def _agreement(
    users: NDArray[Any], codes: NDArray[Any], known: NDArray[Any], labels: NDArray[Any]
) -> int:
    """How many known users have the category that was read."""
    _, mine, theirs = np.intersect1d(users, known, return_indices=True)
    return int(np.count_nonzero(codes[mine] == labels[theirs]))
