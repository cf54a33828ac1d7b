"""Parties that train alone by DP-SGD with gradient clipping, and never communicate."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import Published
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Items
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoiseOnBoth
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_steps import NoisySteps
from fedrec_auditor.targets.settings import Knob, NotNegative, Positive, Whole


@dataclass(frozen=True, kw_only=True)
class LocalOnly(NoisySteps):
    """Local-only: T T' steps of DP-SGD in every party; the claims are those of VFL-SGDMF.

    Section 4.3 trains by Abadi et al. 2016: the joint gradient of every rating, or of every user,
    is scaled to a norm of ``clip`` = C at most (10 is the best of the paper's), noise is z C on the
    sum, and embeddings are not projected. The paper states no claim of its own for it; that of
    Proposition 2 with kappa = 0 and Theorems 3 and 4 is what its figures presuppose.
    """

    learning_rate: float = 0.003
    trim: Whole = 5
    split: Literal["random", "category"] = "random"
    clip: Annotated[Positive, "C, the largest norm of a gradient"] = 10.0
    noise_multiplier: Annotated[NotNegative, "z, the noise over the sensitivity"] = 1.8

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "learning_rate": 0.01})
    holding = Items()
    exchange = Published()
    privacy = Knob(noise=("noise_multiplier",), off=0.0)

    def noise(self, n_users: int, joint: bool = True) -> NoiseOnBoth:
        """z C on gradients that are scaled."""
        return NoiseOnBoth.scaled(self.noise_multiplier, self.clip, self.unit)
