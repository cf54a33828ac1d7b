"""Readers that are broken on purpose, with the check that is made for their fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.readers.base import Evidence
from fedrec_auditor.attacks.readers.flipped_bits import FlippedBits
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
from fedrec_auditor.targets.transcript import View


class Silent(FlippedBits):
    """Refuses without a reason that can be read."""

    def refusal(self, view: View) -> str:
        return super().refusal(view) and "no"


class OfTheCrowd(FlippedBits):
    """Takes from each ratio the mean over those who are asked about."""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        ratio = super().read(view, users).log_ratio
        assert ratio is not None
        return Evidence(users=users, log_ratio=ratio - ratio.mean(axis=0))


class Popularity(FlippedBits):
    """Passes for evidence what the items' shares tell as well."""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        ratio = super().read(view, np.arange(view.public.n_users)).log_ratio
        assert ratio is not None
        shares = ratio.mean(axis=0)
        return Evidence(
            users=users, log_ratio=np.tile(6 * (shares - shares.mean()), (len(users), 1))
        )


class LastDigits(RankOneGradients):
    """Hears evidence in how the server's sum was rounded."""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        found = super().read(view, users)
        (part,) = view.rounds[-1].uploads.components.values()
        digits = part.dense(users).view(np.int32) % 2
        return replace(found, log_ratio=digits.any(axis=2) * 1.0)


BROKEN_READERS = {
    Silent(): "statement",
    OfTheCrowd(): "who_else_is_asked_about",
    Popularity(): "evidence_beside_the_true_prior",
    LastDigits(): "last_digits",
}
