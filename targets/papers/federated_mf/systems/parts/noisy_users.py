"""Gaussian noise on the item gradients of parties that hold users: what it is, what it owes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit
from fedrec_auditor.accountants.statements.sizes import Sizes
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import ItemsAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Users
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_steps import (
    SINGLE,
    NoisySteps,
    StepNoise,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import party_sizes
from fedrec_auditor.targets.settings import NotNegative, Positive, WholeOrNone
from fedrec_auditor.targets.systems.base import Population

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class NoisyUsers(NoisySteps):
    """Noise on V alone; Delta is 2 R^(3/2) per rating, theta times that per user (section 5.2).

    As published, the user embeddings that enter the gradients follow, without noise, from all
    ratings of the user: one rating moves the user's embedding, and with it the gradients of all of
    that user's items (``reach``). Repaired per rating, user embeddings stay at their random start
    until the last stage. Where they move in the second stage (``joint``), those of drawn users do.
    """

    noise_multiplier: NotNegative = 1.7
    tuning: WholeOrNone = 1000
    tuning_rate: Positive = 0.1

    unprotected = "fmf-hfl"

    @property
    def holding(self) -> Users:
        """Users at random."""
        return Users(self.parties)

    @property
    def exchange(self) -> ItemsAveraged:
        """V is averaged."""
        return ItemsAveraged(self.joint, self.tuning, self.tuning_rate)

    @property
    def joint(self) -> bool:
        """Whether user embeddings move in the second stage, too."""
        return self.adapted

    @property
    def adapted(self) -> bool:
        """Whether the user embeddings of the second stage follow from ratings."""
        return self.as_published or self.unit == "user"

    @property
    def sizes(self) -> Sizes:
        """Rounds, and ratings of a user where they are trimmed."""
        return Sizes(rounds=self.rounds, ratings=self.trimmed)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on a sum of gradients."""
        one = 2.0 * self.bound * math.sqrt(self.bound)
        return self.noise_multiplier * one * (self.trim if self.unit == "user" else 1)

    def multiplier(self, n_users: int) -> float:
        """z."""
        return self.noise_multiplier

    def sigmas(self, n_users: int, joint: bool) -> tuple[float, float]:
        """On the gradients of items."""
        return 0.0, self.sigma

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Every noisy gradient of the unit's one party, at its true sensitivity: T' a round."""
        row = self.as_published or self.unit == "user"
        drawn = replace(
            scope, unit=Unit.USER if row else Unit.RATING, adjacency=Adjacency.ADD_REMOVE
        )
        z, alone = (
            self.sigma
            / reach(self.clipping, s, population.n_items, self.trimmed, follows=self.adapted)
            for s in (scope, drawn)
        )
        noise = StepNoise(
            descent=self.descent(population.n_users),
            sizes=party_sizes(population.n_users, self.parties),
            z=z,
            alone=alone,
            apart=alone / self.clipping.apart,
            remembers=self.joint,
        )
        return noise.charged(
            scope, self.steps if scope.horizon is Horizon.TRAINING else self.local_steps
        )


def reach(
    clipping: Clipping, scope: Scope, n_items: int, trimmed: int | None, *, follows: bool
) -> float:
    """How far the unit of ``scope`` moves one step's sum of gradients in V, at most.

    With c = theta, or all items where nothing is trimmed: a user who comes or goes
    2 R^(3/2) sqrt(c), one row an item, which is attained. A user replaced by another: 1.618
    times that (``Clipping.apart``). A rating that the user's embedding ``follows``, where
    nothing is trimmed: 2 R^(3/2) sqrt(2c - 1). For at an item rated x in both worlds the
    gradients are 2 (x - u.v) u and 2 (x - u'.v) u'; if the two errors have one sign, u.u' >= 0
    makes the distance 2 R^(3/2) sqrt(2) at most, and if they do not, they are at most x and
    R - x, and it is 2 R^(3/2); the rating itself has one gradient. A rating alone, at
    embeddings that do not depend on it: 2 R^(3/2); an interaction that becomes another one,
    twice that.
    """
    count = n_items if trimmed is None else min(trimmed, n_items)
    presence = scope.adjacency is Adjacency.ADD_REMOVE
    if scope.unit in SINGLE and not follows:
        swapped = scope.unit is not Unit.RATING and not presence
        return 2.0 * clipping.sensitivity(1, False) if swapped else clipping.sensitivity(1, False)
    if scope.is_presence:
        return clipping.sensitivity(count, False)
    if scope.unit in SINGLE and presence and trimmed is None:
        return clipping.sensitivity(2 * count - 1, False)
    return clipping.sensitivity(count, False) * clipping.apart
