"""Gaussian noise on every gradient of parties that hold items: what it is, what it owes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_parties import (
    NoisyParties,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import SINGLE
from fedrec_auditor.targets.papers.federated_mf.systems.parts.rating_parties import RatingParties
from fedrec_auditor.targets.systems.base import Population

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class NoisyItems(NoisyParties, RatingParties):
    """Noise on both tables, of one standard deviation; ``event`` charges every noisy step."""

    trim: int = 5

    @property
    def lengths(self) -> tuple[int, int]:
        """How many steps a party takes on both tables, and how many on items alone."""
        return self.steps, 0

    @abstractmethod
    def multiplier(self, n_users: int) -> float:
        """The noise multiplier z, in units of the claimed sensitivity."""

    @abstractmethod
    def claimed(self, joint: bool) -> float:
        """The paper's Delta of the ``unit``."""

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Steps with noise z Delta, on both tables or on items alone."""
        sigma = self.multiplier(n_users) * self.claimed(joint)
        return replace(super().descent(n_users, joint), user_sigma=sigma, item_sigma=sigma)

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
        held = self.trim if self.unit == "user" else m
        row = min(held, -(-m // min(self.parties, m)) if self.split == "random" else m)
        drawn = row if self.as_published or self.unit == "user" else 1
        count = 1 if single else row
        far = 1.0 if presence else self.clipping.replaced if scope.unit is Unit.RATING else 2.0
        if single and self.unit == "user" and scope.adjacency is not Adjacency.REPLACE:
            far = 2.0
        charged: list[DpEvent] = []
        for steps, joint in zip(self.lengths, (True, False), strict=True):
            if steps == 0:
                continue
            sigma = self.descent(n, joint).item_sigma
            if not sigma > 0:
                return NonPrivateDpEvent()
            z = sigma / (far * self.clipping.sensitivity(count, joint))
            alone = sigma / self.clipping.sensitivity(drawn, joint)
            apart = alone / self.clipping.apart
            if presence:  # who comes takes the place of a user in another row of U
                apart = sigma / self.clipping.displaced(drawn, joint)
            taken = steps * parties
            charged.append(self.charged(z, scope, taken, [n], alone=alone, apart=apart))
        return charged[0] if len(charged) == 1 else ComposedDpEvent(charged)
