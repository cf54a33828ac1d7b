"""Parties that train alone by DP-SGD with gradient clipping, and never communicate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping
from fedrec_auditor.targets.papers.federated_mf.systems.parts.lone_parties import LoneParties
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import asked, scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    PAPER,
    accounted,
    counting,
)
from fedrec_auditor.targets.settings import check_settings, not_negative, positive
from fedrec_auditor.targets.systems.base import Population, ScopedClaim


@dataclass(frozen=True, kw_only=True)
class LocalOnly(LoneParties):
    """Local-only: T T' steps of DP-SGD in every party; the claims are those of VFL-SGDMF.

    Section 4.3 trains by Abadi et al. 2016: the joint gradient of every rating, or of every user,
    is scaled to a norm of ``clip`` = C at most (10 is the best of the paper's), noise is z C on the
    sum, and embeddings are not projected. The paper states no claim of its own for it; that of
    Proposition 2 with kappa = 0 and Theorems 3 and 4 is what its figures presuppose.
    """

    learning_rate: float = 0.003
    clip: float = 10.0
    noise_multiplier: float = 1.8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, noise_multiplier=not_negative, clip=positive)

    @property
    def clipping(self) -> Clipping:
        """Every unit's joint gradient is scaled to a norm of ``clip``."""
        return Clipping.of_gradients(self.clip, self.unit)

    def multiplier(self, n_users: int) -> float:
        """The noise multiplier z, in units of the clipping bound."""
        return self.noise_multiplier

    def claimed(self, joint: bool) -> float:
        """The clipping bound C."""
        return self.clip

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """What the paper's accountant gives, over all parties for a user."""
        one = accounted(self.noise_multiplier, self.rate, self.steps, self.delta)
        epsilon = one if self.unit == "rating" else math.sqrt(self.parties) * one
        claim = Claim(
            epsilon=epsilon,
            delta=self.delta,
            scope=scope_of(self.unit),
            statement=(
                f"What the parties publish hides one {self.unit}, present or not, with epsilon "
                f"{epsilon:.4g} at z = {self.noise_multiplier:g} (the paper prints no z), a "
                "party's epsilon "
                f"{counting(self.noise_multiplier, self.rate, self.steps, self.delta)}."
            ),
            source=f"{PAPER}, section 4.3 (baselines), after Abadi et al. 2016, Theorem 1",
        )
        return asked(claim, (claim.scope, self.sampling_note))
