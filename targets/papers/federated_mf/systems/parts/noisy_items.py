"""Gaussian noise on every gradient of parties that hold items: what it is, what it owes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Items
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_steps import (
    SINGLE,
    NoisySteps,
    StepNoise,
)
from fedrec_auditor.targets.settings import Whole
from fedrec_auditor.targets.systems.base import Population

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class NoisyItems(NoisySteps):
    """Noise on both tables, of one standard deviation; ``event`` charges every noisy step.

    The paper has T = 100, T' = 10, p = 20, sampling rate 0.01, theta 10 for s = 1, 5 for 2 to 10, 2
    for 18 (section 4.3). ``one_party`` says that a system is a central one, s = 1.
    """

    trim: Whole = 5
    split: Literal["random", "category"] = "random"

    one_party: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.one_party and self.parties != 1:
            raise InputError(
                f"Expected parties=1, for {self.name} is central, got parties="
                f"{self.parties!r}. Ask local-only for several."
            )

    @abstractmethod
    def claimed(self, joint: bool) -> float:
        """The paper's Delta of the ``unit``."""

    @property
    def holding(self) -> Items:
        """Items at random, or by category."""
        return Items(self.parties, self.split)

    def sigmas(self, n_users: int, joint: bool) -> tuple[float, float]:
        """z Delta, in both tables."""
        sigma = self.multiplier(n_users) * self.claimed(joint)
        return sigma, sigma

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Every noisy gradient of the parties that hold the unit, at its true sensitivity.

        One rating is with one party. A user is with all parties, with ``trim`` ratings each if
        the ``unit`` is the user, else with all items; replaced by another, it moves the sum twice
        as far, and so does an interaction, which may go to another party. Per user, so does a
        rating that comes or goes: another takes its place in the trimming, and a clipped gradient
        may turn round. Any one round is charged as the training, since parties keep their item
        embeddings.
        """
        from dp_accounting import ComposedDpEvent, NonPrivateDpEvent

        n, m = population.n_users, population.n_items
        single = scope.unit in SINGLE
        presence = scope.adjacency is Adjacency.ADD_REMOVE
        moved = 1 if presence or scope.unit is Unit.RATING else 2
        parties = min(self.parties, m, moved if single else m)
        held = m if self.trimmed is None else self.trimmed
        row = min(held, -(-m // min(self.parties, m)) if self.split == "random" else m)
        clipping, charged = self.clipping, []
        far = 1.0 if presence else clipping.replaced if scope.unit is Unit.RATING else 2.0
        if single and self.unit == "user" and scope.adjacency is not Adjacency.REPLACE:
            far = 2.0
        for steps, joint in zip(self.lengths, (True, False), strict=True):
            descent = self.descent(n, joint)
            drawn = 1 if descent.independent and self.unit == "rating" else row
            sigma = descent.item_sigma
            if steps == 0:
                continue
            if not sigma > 0:
                return NonPrivateDpEvent()
            alone = sigma / clipping.sensitivity(drawn, joint)
            apart = alone / clipping.apart
            if presence:  # who comes takes the place of a user in another row of U
                apart = sigma / clipping.displaced(drawn, joint)
            noise = StepNoise(
                descent=descent,
                sizes=[n],
                z=sigma / (far * clipping.sensitivity(1 if single else row, joint)),
                alone=alone,
                apart=apart,
            )
            charged.append(noise.charged(scope, steps * parties))
        return charged[0] if len(charged) == 1 else ComposedDpEvent(charged)
