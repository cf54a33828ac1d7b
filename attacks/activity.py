"""Activity: how many items does each user have, by how much its messages say?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.base import AttackFamily, Background, Scores
from fedrec_auditor.attacks.parts.amounts import amounts
from fedrec_auditor.attacks.parts.best_regression import predicted
from fedrec_auditor.attacks.parts.uploads import has_user_rows, names, unread
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The number of a user's items, by a regression on how much the user's messages hold.

    It knows how many items some users have: accounts of its own suffice, since anybody can enrol
    devices. Messages are read by their amounts alone, so that it reads any form; where parties send
    a row for every user, as vertical systems do, it reads how far a user's rows are moved.
    """

    family: ClassVar[AttackFamily] = AttackFamily.ACTIVITY
    needs_known: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "regression of the ranks of known numbers of items on those of amounts of messages "
        "(attacks/parts/amounts.py), of one amount or by ridge of all: the one of the least "
        "leave-one-out error (PRESS: Allen, Technometrics 1974)"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of messages of users, or of rows of users."""
        if names(view) or has_user_rows(view):
            return ""
        return unread(view, "messages of single users, or tables with a row a user")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        """Score each of the background's ``subjects``, by the ``labels`` of those who are known."""
        known, labels = background.known, background.labels
        if known is None or labels is None:
            raise InputError(
                "Expected users whose number of items is known in the background, got None. Give "
                "known and labels."
            )
        subjects = background.subjects
        subjects = np.arange(view.public.n_users) if subjects is None else subjects
        read = amounts(view, subjects)
        found = predicted(read, np.searchsorted(subjects, known), labels.astype(float))
        return Scores(values=found)
