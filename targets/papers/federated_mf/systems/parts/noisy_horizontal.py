"""Gaussian noise on the item gradients of parties that hold users: what it is, what it owes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.horizontal_mf import HorizontalMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_parties import (
    Moments,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import SINGLE, party_sizes
from fedrec_auditor.targets.systems.base import Population

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class NoisyHorizontal(Moments, HorizontalMf):
    """N(0, (z Delta)^2) on every entry of a step's sum of item gradients, of all rows.

    Delta is what the paper has: 2 R^(3/2) per rating, theta times that per user of at most theta
    ratings (``trim``; section 5.2). z is ``noise_multiplier``; that and ``delta`` are not printed.

    As published, the user embeddings that enter the gradients follow, without noise, from all
    ratings of the user: one rating moves the user's embedding, and with it the gradients of all of
    that user's items (``reach``). Repaired per rating, user embeddings stay at their random start
    until the last stage.
    """

    noise_multiplier: float = 1.7

    unprotected = "fmf-hfl"

    @property
    def remembers(self) -> bool:
        """Where user embeddings move in the second stage: those of drawn users do."""
        return self.joint

    @property
    def adapted(self) -> bool:
        """Whether the user embeddings of the second stage follow from ratings."""
        return self.as_published or self.unit == "user"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on a sum of gradients."""
        one = 2.0 * self.bound * math.sqrt(self.bound)
        return self.noise_multiplier * one * (self.trim if self.unit == "user" else 1)

    @property
    def clipping(self) -> Clipping:
        """Embeddings are clipped as in equation 6."""
        return Clipping.of_embeddings(self.bound)

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Steps with noise on the gradients of items."""
        return replace(super().descent(n_users, joint), item_sigma=self.sigma)

    def reach(self, scope: Scope, n_items: int) -> float:
        """How far the unit of ``scope`` moves one step's sum of gradients, at most.

        With c = theta, or all items where nothing is trimmed: a user who comes or goes
        2 R^(3/2) sqrt(c), one row an item, which is attained. A user replaced by another: 1.618
        times that (``Clipping.apart``). A rating that moves the user's embedding, where
        nothing is trimmed: 2 R^(3/2) sqrt(2c - 1). For at an item rated x in both worlds the
        gradients are 2 (x - u.v) u and 2 (x - u'.v) u'; if the two errors have one sign, u.u' >= 0
        makes the distance 2 R^(3/2) sqrt(2) at most, and if they do not, they are at most x and
        R - x, and it is 2 R^(3/2); the rating itself has one gradient. A rating alone, at
        embeddings that do not depend on it: 2 R^(3/2); an interaction that becomes another one,
        twice that.
        """
        count = n_items if self.trimmed is None else min(self.trimmed, n_items)
        one = 2.0 * self.bound * math.sqrt(self.bound)
        if scope.unit in SINGLE and not self.adapted:
            swapped = scope.unit is not Unit.RATING and scope.adjacency is not Adjacency.ADD_REMOVE
            return 2.0 * one if swapped else one
        if scope.is_presence:
            return one * math.sqrt(count)
        if (
            scope.unit in SINGLE
            and scope.adjacency is Adjacency.ADD_REMOVE
            and self.trimmed is None
        ):
            return one * math.sqrt(2 * count - 1)
        return one * math.sqrt(count) * self.clipping.apart

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Every noisy gradient of the unit's one party, at its true sensitivity: T' a round."""
        row = self.as_published or self.unit == "user"
        drawn = replace(
            scope, unit=Unit.USER if row else Unit.RATING, adjacency=Adjacency.ADD_REMOVE
        )
        steps = self.steps if scope.horizon is Horizon.TRAINING else self.local_steps
        z, alone = (self.sigma / self.reach(s, population.n_items) for s in (scope, drawn))
        sizes = party_sizes(population.n_users, self.parties)
        apart = alone / self.clipping.apart
        return self.charged(z, scope, steps, sizes, alone=alone, apart=apart)
