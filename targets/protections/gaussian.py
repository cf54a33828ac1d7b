"""Clipping and Gaussian noise on every entry (FedRec-GN)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Product
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.protections.base import Promise
from fedrec_auditor.targets.protections.parts.noise import ClippedNoise, Noisy
from fedrec_auditor.targets.settings import Knob, Positive

_DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class GaussianProtection(Noisy):
    """Entries clipped to [-clip, clip], noise N(0, sigma^2) on every one of them.

    No epsilon holds at delta 0. At delta > 0 an entry has the curve of mu = 2 clip / sigma, and an
    upload of n entries that of sqrt(n) times this mu. The paper says that Gaussian noise is added
    to the uploaded parameters, and prints no sigma, no clipping and no delta. Assumed here: the
    clipping of section 5.4, and a sigma that disturbs as much as the Laplace noise beside it (the
    standard deviation of noise factor 0.025); claims are judged at delta 1e-5.
    Source: Zhang et al., section 5.3 (FedRec-GN).
    """

    sigma: Positive = 0.035
    clip: Positive = 0.5

    privacy = Knob(noise=("sigma",))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coordinate("")  # its mechanism refuses what cannot be accounted

    def noise(self, group: str) -> ClippedNoise:
        """The same for every group."""
        return ClippedNoise(self.clip, self.sigma, normal=True)

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """What the paper says of the noise, without a number."""
        return (
            Promise(
                epsilon=math.inf,
                unit=Unit.USER,
                statement=(
                    "Gaussian noise on the uploaded parameters masks them; no sigma, clipping, "
                    "epsilon or delta is printed."
                ),
                notable=_DELTA,
            ),
        )

    def coordinate(self, group: str) -> Clipped:
        """Normal noise on an entry of [-clip, clip]."""
        return Clipped(Gaussian(sigma=self.sigma, low=-self.clip, high=self.clip))

    def upload(self, sizes: Mapping[str, int]) -> Clipped:
        """All entries: two uploads may lie in opposite corners."""
        inner = Gaussian(sigma=self.sigma, low=-self.clip, high=self.clip)
        return Clipped(Product(inner, sum(sizes.values())))
