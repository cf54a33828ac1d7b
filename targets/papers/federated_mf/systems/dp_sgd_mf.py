"""Central matrix factorization by DP-SGD: gradients are clipped, not embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import Published
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Items
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoiseOnBoth
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_steps import NoisySteps
from fedrec_auditor.targets.settings import Knob, NotNegative, Positive


@dataclass(frozen=True, kw_only=True)
class DpSgdMf(NoisySteps):
    """DP-SGD (Abadi et al. 2016) on both tables, with one trusted party that publishes them.

    The gradient clipping of Figure 4 (section 4.3): s = 1, C = 10, theta = 10 per user.
    """

    parties: int = 1
    split: Literal["random", "category"] = "random"
    learning_rate: float = 0.03
    clip: Annotated[Positive, "C, the largest norm of a gradient"] = 10.0
    noise_multiplier: Annotated[NotNegative, "z, the noise over the sensitivity"] = 1.8

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "learning_rate": 0.1})
    holding = Items()
    exchange = Published()
    one_party = True
    privacy = Knob(noise=("noise_multiplier",), off=0.0)

    def noise(self, n_users: int, joint: bool = True) -> NoiseOnBoth:
        """z C on gradients that are scaled, as in ``local-only``."""
        return NoiseOnBoth.scaled(self.noise_multiplier, self.clip, self.unit)
