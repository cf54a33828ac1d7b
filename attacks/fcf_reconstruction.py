"""Reconstruction of a user's interactions and vector from one FCF upload, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Reconstruction
from fedrec_auditor.attacks.parts.rank_one import carries_gradients, decide, fits
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class FcfReconstruction:
    """One FCF item gradient gives the user vector and the interaction set, exactly if noiseless.

    ``parts.rank_one`` has the derivation. An item is guessed to be touched if the likelihood ratio
    of its residual, 0 against the least that a touched item shows, 1 + alpha (1 - x.v_i), exceeds
    the odds of being untouched, under normal noise of the spread that the untouched items show.
    ``alpha`` is public. Cost: O(M F^2 + M log M) a user.
    """

    family: ClassVar[AttackFamily] = AttackFamily.RECONSTRUCTION
    vantage: ClassVar[Vantage] = Vantage.SERVER
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "rank-one closed form, derived in attacks/parts/rank_one.py from Minto et al. 2021, "
        "eq. 4 and 5"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of gradients of all items, linked to users, and their broadcast."""
        return "" if carries_gradients(view) else unread(view, "gradients of a loss over all items")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        """Guess every user's interaction set and vector from the last round seen."""
        alpha = float(view.public.settings.get("alpha", 1.0))
        touched = np.zeros((view.public.n_users, view.public.n_items), dtype=np.bool_)
        vectors = np.zeros((view.public.n_users, 0))
        for users, found, items in fits(view):
            if not vectors.size:
                vectors = np.zeros((view.public.n_users, items.shape[1]))
            vectors[users] = found.vectors
            touched[users] = decide(found, items, alpha)
        return Reconstruction(items=touched, vectors=vectors)
