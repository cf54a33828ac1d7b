"""Gaussian noise on the item gradients of parties that hold users: what it is, what it owes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.settings import (
    boolean,
    check_choice,
    check_settings,
    not_negative,
    proper_share,
    whole,
)
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.federated_mf.parts.horizontal_laws import (
    drawn_shares,
    party_sizes,
)
from fedrec_auditor.targets.systems.federated_mf.parts.horizontal_mf import HorizontalMf
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import SINGLE, guessed_scale
from fedrec_auditor.targets.systems.federated_mf.parts.party_steps import PartySteps
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import UNITS, batch_size, noisy_steps

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class NoisyHorizontal(HorizontalMf):
    """N(0, (z Delta)^2) on every entry of a step's sum of item gradients, of all rows.

    Delta is what the paper has: 2 R^(3/2) per rating, theta times that per user of at most theta
    ratings (``trim``; section 5.2). z is ``noise_multiplier``; that and ``delta`` are not printed.

    ``as_published`` is the paper. Rows are drawn, a fixed number of them; the divisor counts the
    party's own ratings; and the user embeddings that enter the gradients follow, without noise,
    from all ratings of the user. So sampling does not amplify for one rating, whose user's other
    ratings show whether the row was drawn; one rating moves the user's embedding and with it the
    gradients of all of that user's items (``reach``); and of a fixed number of rows the moments
    accountant proves nothing when a user comes or goes. Repaired, every unit is drawn by itself
    (each rating, or each user), as the moments accountant assumes, the divisor takes ``density``,
    a public guess, for tau; and per rating, user embeddings stay at their random start until the
    last stage.
    """

    unit: str = "rating"
    trim: int = 10
    noise_multiplier: float = 1.7
    delta: float = 1e-5
    density: float = 0.01
    as_published: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "unit", UNITS)
        check_settings(self, trim=whole, noise_multiplier=not_negative)
        check_settings(self, delta=proper_share, density=proper_share)
        check_settings(self, as_published=boolean)

    @property
    def mended(self) -> str:
        """What ``as_published=False`` repairs, in words."""
        if self.unit == "user":
            return "Repaired: every user is drawn by itself."
        return "Repaired: every rating is drawn by itself, and embeddings do not tell of them."

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    @property
    def adapted(self) -> bool:
        """Whether the user embeddings of the second stage follow from ratings."""
        return self.as_published or self.unit == "user"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on a sum of gradients."""
        one = 2.0 * self.bound * math.sqrt(self.bound)
        return self.noise_multiplier * one * (self.trim if self.unit == "user" else 1)

    def local(self, weight: float) -> PartySteps:
        """Noisy, projected steps on item embeddings."""
        return PartySteps(
            learning_rate=self.learning_rate,
            steps=self.steps,
            rate=self.rate,
            unit=self.unit,
            independent=not self.as_published,
            sigma=self.sigma,
            bound=self.bound,
        )

    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row: the party's own count, or repaired the guess."""
        if self.as_published:
            return super().step_scale(n_users, n_items, ratings)
        return guessed_scale(self.density, n_items, self.trimmed)

    def reach(self, scope: Scope, n_items: int) -> float:
        """How far the unit of ``scope`` moves one step's sum of gradients, at most.

        With c = theta, or all items where nothing is trimmed: a user who comes or goes
        2 R^(3/2) sqrt(c), one row an item, which is attained. A user replaced by another: twice
        that, since both sums are within the former. A rating that moves the user's embedding, where
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
        return one * math.sqrt(count) * 2.0

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Every noisy gradient of the unit's one party, at its true sensitivity.

        A round is T' of them. Sampling amplifies where the unit is drawn by itself. Where rows are
        drawn, a fixed number n' of them, it is charged as if it were seen when the user's is: a
        change within the row is in a share n'/n of all steps, and of a user who comes or goes the
        share is as large, twice as far apart, for it takes another one's place.
        """
        drawn = Unit.USER if self.unit == "user" else Unit.RATING
        amplified = (
            not self.as_published
            and scope.unit is drawn
            and scope.adjacency is Adjacency.ADD_REMOVE
        )
        steps = self.steps if scope.horizon is Horizon.TRAINING else self.local_steps
        z = self.sigma / self.reach(scope, population.n_items)
        if not self.as_published:
            return noisy_steps(z, self.rate, steps, amplified=amplified)
        share = drawn_shares(population.n_users, self.parties, self.rate)[1]
        if not scope.is_presence:
            return noisy_steps(z, share, steps, amplified=False, revealed=True)
        sizes = party_sizes(population.n_users, self.parties)
        fixed = all(batch_size(n, self.rate) == batch_size(n - 1, self.rate) for n in sizes)
        if not fixed or share >= 0.25:  # a quarter of the steps, twice as far apart, is as much
            return noisy_steps(z, share, steps, amplified=False)
        return noisy_steps(z / 2.0, share, steps, amplified=False, revealed=True)
