"""Noisy steps on the mean gradient of a batch of ratings, as in FederatedScope's trainer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import (
    GOLDEN,
    Clipping,
    Descent,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import Averaged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import Party, PartyMf
from fedrec_auditor.targets.settings import Budget, Knob, ProperShare, Whole, WholeOrNone
from fedrec_auditor.targets.systems.base import Population


class AtOneRate(Averaged):
    """A party's own embeddings move as fast as those that are shared."""

    def own_step(self, party: Party) -> float:
        """One over the batch."""
        return party.step_scale


@dataclass(frozen=True, kw_only=True)
class ScopeSgdmf(PartyMf):
    """A party shuffles its ratings every round and takes them batch by batch.

    A batch has as many ratings as ``rate``, q, of ``users``. Its gradient is a mean. Every entry of
    both tables gets normal noise of deviation R^(3/2) q sqrt(T T' ln(1/``delta``)) / ``epsilon`` in
    every step; then no entry is negative and no row longer than sqrt(R). Parties have at least
    ``ratings`` ratings each, which says how rarely one is drawn; 0 if that is not known.
    """

    parties: Annotated[Whole, "s, how many hold the ratings"] = 5
    epsilon: Annotated[Budget, "that the noise is computed from"]
    delta: Annotated[ProperShare, "that the noise is computed from"]
    users: Annotated[Whole, "users whose share q gives the ratings of a batch"] = 6040
    ratings: Annotated[WholeOrNone, "ratings of a party, at least; 0: not known"] = 0

    privacy = Knob(budgets=("epsilon",), off=1e6)

    @property
    def assumes(self) -> tuple[str, ...]:
        """How many ratings a party has, where that is said."""
        return (
            (f"Every party trains on {self.ratings:,} ratings at least.",) if self.ratings else ()
        )

    @property
    def batch(self) -> int:
        """Ratings of a step."""
        return max(1, round(self.rate * self.users))

    @property
    def deviation(self) -> float:
        """Of the noise on an entry of the mean gradient."""
        spread = self.rate * math.sqrt(self.steps * math.log(1.0 / self.delta))
        return self.bound * math.sqrt(self.bound) * spread / self.epsilon

    @property
    def chance(self) -> float:
        """That a rating is drawn in a round: never more than once."""
        return min(1.0, self.local_steps * self.batch / self.ratings) if self.ratings else 1.0

    @property
    def ever(self) -> float:
        """Probability that a rating is drawn at all: a delta at which noise is not needed."""
        return -math.expm1(self.rounds * math.log1p(-self.chance)) if self.chance < 1.0 else 1.0

    def multiplier(self, moved: float) -> float:
        """The noise over ``moved`` 2 R^(3/2) / batch, what a rating moves the mean gradients by."""
        return self.deviation * self.batch / (moved * 2.0 * self.bound * math.sqrt(self.bound))

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """One noisy step in each round in which the rating is drawn, both tables told.

        A rating of another value moves its two rows by sqrt(2) 2 R^(3/2) / batch at most. One that
        comes takes the place of another in its batch, which is not drawn else: their rows differ by
        sqrt(golden^2 + 2) at most, where both are of one user or item. Nothing is proved of users,
        whose ratings add up.
        """
        presence = scope.adjacency is Adjacency.ADD_REMOVE and self.chance < 1.0
        single = scope.unit in (Unit.RATING, Unit.INTERACTION)
        if not single or not (scope.is_value or presence):
            return dp.NonPrivateDpEvent()
        moved = math.sqrt(2.0 if scope.is_value else GOLDEN**2 + 2.0)
        step = dp.GaussianDpEvent(self.multiplier(moved))
        drawn = dp.RevealedSamplingDpEvent(self.chance, step)
        return dp.SelfComposedDpEvent(drawn, self.uses(scope.horizon))

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Steps of one size along a batch's mean, with noise on its sum."""
        sigma = self.deviation * self.batch
        return Descent(
            learning_rate=self.learning_rate,
            steps=math.inf,
            rate=self.rate,
            clipping=Clipping.of_embeddings(self.bound),
            sampled="batch",
            batch=self.batch,
            user_sigma=sigma,
            item_sigma=sigma,
        )

    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float:
        """One over the ratings of a batch."""
        return 1.0 / self.batch

    def parted(
        self, interactions: Interactions, shared: Floats | None, rng: Generator
    ) -> list[Party]:
        """The parties; InputError if one has fewer ratings than ``ratings``."""
        made = super().parted(interactions, shared, rng)
        least = int(np.min([party.ratings.nnz for party in made]))
        if least < self.ratings:
            raise InputError(
                f"Expected parties of at least ratings={self.ratings!r} ratings, got one of "
                f"{least:,}. Give ratings={least}, or 0."
            )
        return made
