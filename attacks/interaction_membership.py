"""Membership inference of single interactions from uploads of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Scores
from fedrec_auditor.attacks.parts import bits, item_rows, rank_one, reports
from fedrec_auditor.attacks.parts.uploads import kept, of_kind, unread
from fedrec_auditor.targets.transcript import Kind, View

_CERTAIN = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionMembership:
    """Score of each candidate (user, item): how far the upload says that the user met the item.

    By the kind of message, whatever it is called:

    - bits of a known channel (DPLCF): exact log-likelihood ratio of the reported bits plus the
      log-odds of the item's popularity, estimated from all users' bits. (The user's activity is
      left out: it says how many of all items were met, nothing on a sample of as many members as
      non-members.)
    - bits without a channel, and ratings: the mean of what was sent.
    - reports of an item gradient (FMF-LDP): posterior log-odds under the client's own channel, see
      ``parts.reports``.
    - gradients of a loss over all items (FCF): the correction s_ui of the rank-one gradient, 0 at
      untouched items.
    - models, changes and other gradients of an item table (FedRec, PrivRec and their kin): how far
      the row moved the way own items move, see ``parts.item_rows``.
    """

    family: ClassVar[AttackFamily] = AttackFamily.MEMBERSHIP
    vantage: ClassVar[Vantage] = Vantage.SERVER
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "log-odds of an interaction under the client's public channel; derived in attacks/parts: "
        "rank_one.py, reports.py, item_rows.py, meta_gradient.py, bits.py"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of one of these kinds of message, linked to users."""
        if _reader(view) is not None:
            return ""
        return unread(view, "bits and ratings of items, and what moves an item table")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        """Score every candidate pair of the background."""
        pairs = background.candidates
        if pairs is None:
            raise InputError("Expected candidate pairs in the background, got None. Give (m, 2).")
        reader = _reader(view)
        if reader is None:
            raise InputError(f"Expected messages about items. {self.refusal(view)}")
        return Scores(values=reader(view)[pairs[:, 0], pairs[:, 1]].astype(np.float64))


def _reader(view: View) -> Callable[[View], NDArray[np.floating[Any]]] | None:
    """What reads the messages of this view, a score of every user's every item."""
    if bits.carries_bits(view):
        return _bits
    if of_kind(view, Kind.BITS, Kind.RATINGS) is not None:
        return _clear
    if reports.carries_reports(view):
        return reports.posterior_odds
    if rank_one.carries_gradients(view):
        return _corrections
    return item_rows.scores if item_rows.carries_item_rows(view) else None


def _bits(view: View) -> NDArray[np.float64]:
    found = bits.evidence(view)
    return found.log_odds + found.items


def _clear(view: View) -> NDArray[np.float64]:
    """The mean of what was sent of every item, 0 for who sent nothing: (n_users, n_items)."""
    name = of_kind(view, Kind.BITS, Kind.RATINGS)
    assert name is not None
    total = np.zeros((view.public.n_users, view.public.n_items))
    count = np.zeros(view.public.n_users)
    for _, uploads, component in kept(view, name):
        total[uploads.users] += component.dense(np.arange(len(component)))
        count[uploads.users] += 1
    return np.asarray(total / np.maximum(count, 1)[:, None])


def _corrections(view: View) -> NDArray[np.float64]:
    """Estimated s of every (user, item); its size where it cannot be noise, whatever its sign."""
    scores = np.zeros((view.public.n_users, view.public.n_items))
    for users, found, _ in rank_one.fits(view):
        sure = np.abs(found.residuals) > _CERTAIN * found.noise[:, None]
        scores[users] = np.where(sure, np.abs(found.residuals), found.residuals)
    return scores
