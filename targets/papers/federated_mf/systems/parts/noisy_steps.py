"""Parties that add Gaussian noise to their gradients: the settings that these systems share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf, StepSampling
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import accounted, by_tail_bound
from fedrec_auditor.targets.settings import ProperShare, Whole
from fedrec_auditor.targets.systems.base import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNoise(ABC):
    """Noise on sums of gradients that ``clipping`` bounds: ``sigma`` on every entry, of all rows.

    That is z Delta, with Delta the sensitivity that the paper claims for the unit. ``in_users``
    says that the sums in U have it, too.
    """

    z: float
    sigma: float
    clipping: Clipping

    in_users: ClassVar[bool]

    @abstractmethod
    def owed(self, mf: NoisySteps, scope: Scope, population: Population) -> dp.DpEvent:
        """Every noisy gradient of the parties that hold the unit, at its true sensitivity."""


@dataclass(frozen=True, kw_only=True)
class NoisySteps(PartyMf):
    """Steps with ``noise``; ``event`` charges every one of them.

    What the paper claims is for the ``unit``, per user of at most ``trim`` ratings (theta, used per
    user only); ``delta`` is its delta, which it does not print. ``as_published`` chooses the
    ``sampling``. As the paper has it, a fixed number of rows is drawn, and the divisor counts the
    party's own ratings. Sampling rows does not amplify for one rating, whose user's other
    ratings show whether the row was drawn; and of a fixed number of rows, a user who comes takes
    another one's place, which the moments accountant does not know. Repaired, every unit is drawn
    by itself (each rating, or each user), as that accountant assumes, and the divisor takes
    ``density``, a public guess, for tau. ``one_party`` says that a system is a central one, s = 1.

    Members have a ``noise_multiplier`` z, the deviation of the noise over the sensitivity, or a
    ``clip`` C, the largest norm of a gradient.

    Events take tau for public, as the paper does; strictly, with ``as_published`` the scale of the
    noise tells how many ratings there are.
    """

    unit: Annotated[Literal["rating", "user"], "for which epsilon is claimed"] = "rating"
    trim: Annotated[Whole, "theta, most ratings of a user, where the unit is the user"] = 10
    delta: Annotated[ProperShare, "of the claim"] = 1e-5
    density: Annotated[ProperShare, "a public guess of the share of pairs that are rated"] = 0.01
    as_published: Annotated[bool, "rows sampled as printed; else each unit by itself"] = True

    one_party: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.one_party and self.parties != 1:
            raise InputError(
                f"Expected parties=1, for {self.name} is central, got parties="
                f"{self.parties!r}. Ask local-only for several."
            )

    @abstractmethod
    def noise(self, n_users: int, joint: bool = True) -> GradientNoise:
        """That of a party of so many users in a step on both tables, or on items alone."""

    @property
    def lengths(self) -> tuple[int, int]:
        """How many noisy steps a party takes on both tables, T T', and how many on items alone."""
        return self.steps, 0

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    @property
    def sampling(self) -> StepSampling:
        """Rows, or repaired every unit by itself."""
        return (
            StepSampling()
            if self.as_published
            else StepSampling(unit=self.unit, density=self.density)
        )

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Noisy steps with clipped gradients."""
        noise = self.noise(n_users, joint)
        return replace(
            super().descent(n_users, joint),
            clipping=noise.clipping,
            user_sigma=noise.sigma if noise.in_users else 0.0,
            item_sigma=noise.sigma,
        )

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Every noisy gradient of the parties that hold the unit, at its true sensitivity."""
        return self.noise(population.n_users).owed(self, scope, population)

    def party_epsilon(self, population: Population) -> float:
        """Epsilon of all noisy steps of a party, as the authors calculate it."""
        return accounted(*self.spent(population, sum(self.lengths)))

    def by_theorem_1(self, population: Population) -> float:
        """The same by Theorem 1, which is larger."""
        return by_tail_bound(*self.spent(population, sum(self.lengths)))

    def root_sum(self, population: Population) -> float:
        """The root of the sum of squares over all parties (Theorem 4)."""
        return math.sqrt(self.parties) * self.party_epsilon(population)

    def spent(self, population: Population, steps: int) -> tuple[float, float, int, float]:
        """What the accountant is given for ``steps``: z, the rate, their number, delta."""
        return self.noise(population.n_users).z, self.rate, steps, self.delta
