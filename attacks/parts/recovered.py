"""What other readings of the messages recover of a user, as columns for a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import item_rows
from fedrec_auditor.attacks.parts.model_messages import item_messages
from fedrec_auditor.attacks.parts.rank_one import carries_gradients, decide, fits
from fedrec_auditor.attacks.parts.uploads import senders
from fedrec_auditor.targets.transcript import View

Block = tuple[NDArray[np.integer[Any]], NDArray[Any]]
"""Users (n,) and a row of columns of each, (n, d)."""


def reads_interactions(view: View) -> bool:
    """Whether the messages tell which items a user interacted with."""
    return carries_gradients(view) or item_rows.carries_item_rows(view)


def interactions(view: View) -> Iterator[Block]:
    """Evidence of every item for each sender, (n, n_items): a decision or a score."""
    if carries_gradients(view):
        alpha = float(view.public.settings.get("alpha", 1.0))
        for users, found, items in fits(view):
            yield users, decide(found, items, alpha)
    else:
        users = senders(view)
        yield users, item_rows.scores(view)[users]


def vector_width(view: View) -> int | None:
    """Length of the user vectors that ``user_vectors`` recovers; None if it recovers none."""
    return item_messages(view)[-1].component.shape[1] if carries_gradients(view) else None


def user_vectors(view: View) -> Iterator[Block]:
    """The vector of each sender."""
    for users, found, _ in fits(view):
        yield users, found.vectors
