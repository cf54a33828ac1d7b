"""Reconstruction of a user's interactions and vector from one FCF upload, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from accountants.scope import Vantage
from attacks._rank_one import RankOneFit, fit
from attacks._uploads import blocks, last, seen
from attacks.base import Background, Family, Reconstruction
from targets.transcript import View

_CERTAIN = 8.0  # standard deviations of the untouched items beyond which there is no doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class FcfReconstruction:
    """One FCF item gradient gives the user vector and the interaction set, exactly if noiseless.

    See ``_rank_one`` for the derivation. An item is guessed to be touched if the likelihood ratio
    of its residual, 0 against the least that a touched item shows, 1 + alpha (1 - x.v_i), exceeds
    the odds of being untouched, under normal noise of the spread that the untouched items show.
    ``alpha`` is public. Cost: O(M F^2 + M log M) a user.
    """

    family: ClassVar[Family] = Family.RECONSTRUCTION
    vantage: ClassVar[Vantage] = Vantage.SERVER
    reference: ClassVar[str] = (
        "rank-one closed form, derived in attacks/_rank_one.py from Minto et al. 2021, eq. 4 and 5"
    )

    def applies(self, view: View) -> bool:
        """Whether item gradients, linked to users, and the model they were made from are seen."""
        return seen(view, "gradient")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        """Guess every user's interaction set and vector from the last round seen."""
        uploads, items = last(view, "gradient")
        alpha = float(view.public.settings.get("alpha", 1.0))
        touched = np.zeros((view.public.n_users, view.public.n_items), dtype=np.bool_)
        vectors = np.zeros((view.public.n_users, items.shape[1]))
        for rows, gradients in blocks(uploads.components["gradient"]):
            users = uploads.users[rows]
            found = fit(gradients, items)
            vectors[users] = found.vectors
            touched[users] = decide(found, items, alpha)
        return Reconstruction(items=touched, vectors=vectors)


def decide(found: RankOneFit, items: NDArray[Any], alpha: float) -> NDArray[np.bool_]:
    """Which items were touched: (n, M), from residuals of known spread."""
    least = 1.0 + alpha * (1.0 - found.vectors @ items.T.astype(np.float64))
    noise = np.maximum(found.noise, np.finfo(np.float64).tiny)[:, None]
    certain = np.abs(found.residuals) > _CERTAIN * noise
    touched = certain | (found.residuals > np.abs(least) / 2)
    for _ in range(3):
        share = touched.mean(axis=1, keepdims=True).clip(1e-4, 1 - 1e-4)
        odds = np.log(share) - np.log1p(-share)
        # (s least - least^2 / 2) / noise^2 + odds > 0, free of overflow where the noise is none.
        touched = certain | (found.residuals * least - least**2 / 2 + odds * noise**2 > 0)
    return touched & (found.noise > 0)[:, None]
