"""Membership inference of single interactions from uploads of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Scores
from fedrec_auditor.attacks.parts.bits import carries_bits, evidence
from fedrec_auditor.attacks.parts.item_rows import carries_item_rows, scores
from fedrec_auditor.attacks.parts.rank_one import fit
from fedrec_auditor.attacks.parts.reports import posterior_odds
from fedrec_auditor.attacks.parts.uploads import blocks, last, seen
from fedrec_auditor.targets.transcript import View

_CERTAIN = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionMembership:
    """Score of each candidate (user, item): how far the upload says that the user met the item.

    - ``gradient`` (FCF): the correction s_ui of the rank-one gradient, 0 at untouched items.
    - ``reports`` (FMF-LDP): posterior log-odds under the client's own law, see ``parts.reports``.
    - ``item`` (FedRec and its kin): how far the row moved the way own items move, see
      ``parts.item_rows``.
    - ``bits`` (DPLCF): exact log-likelihood ratio of the reported bits plus the log-odds of the
      item's popularity, estimated from all users' bits. (The user's activity is left out: it says
      how many of all items were met, nothing on a sample of as many members as non-members.)
    """

    family: ClassVar[AttackFamily] = AttackFamily.MEMBERSHIP
    vantage: ClassVar[Vantage] = Vantage.SERVER
    reference: ClassVar[str] = (
        "log-odds of an interaction under the client's public law; derived in attacks/parts: "
        "rank_one.py (FCF), reports.py (FMF-LDP), item_rows.py (FedRec), bits.py (DPLCF)"
    )

    def applies(self, view: View) -> bool:
        """Whether one of these kinds of upload is linked to users."""
        return (
            seen(view, "gradient")
            or seen(view, "reports")
            or carries_bits(view)
            or carries_item_rows(view)
        )

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        """Score every candidate pair of the background."""
        pairs = background.candidates
        if pairs is None:
            raise InputError("Expected candidate pairs in the background, got None. Give (m, 2).")
        users, items = pairs[:, 0], pairs[:, 1]
        if carries_bits(view):
            found = evidence(view)
            return Scores(values=found.log_odds[users, items] + found.items[items])
        if seen(view, "gradient"):
            return Scores(values=_corrections(view)[users, items])
        if seen(view, "reports"):
            return Scores(values=posterior_odds(view)[users, items])
        return Scores(values=scores(view)[users, items].astype(np.float64))


def _corrections(view: View) -> NDArray[np.float64]:
    """Estimated s of every (user, item); its size where it cannot be noise, whatever its sign."""
    uploads, broadcast = last(view, "gradient")
    scores = np.zeros((view.public.n_users, view.public.n_items))
    for rows, gradients in blocks(uploads.components["gradient"]):
        found = fit(gradients, broadcast)
        sure = np.abs(found.residuals) > _CERTAIN * found.noise[:, None]
        scores[uploads.users[rows]] = np.where(sure, np.abs(found.residuals), found.residuals)
    return scores
