"""Parties that add Gaussian noise to their gradients: what sampling hides, and what repairs it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    accounted,
    batch_size,
    by_tail_bound,
    noisy_steps,
)
from fedrec_auditor.targets.settings import ProperShare, Whole
from fedrec_auditor.targets.systems.base import Population

if TYPE_CHECKING:
    from dp_accounting import DpEvent

SINGLE = (Unit.RATING, Unit.INTERACTION, Unit.BIT)
"""Units of one rating."""


@dataclass(frozen=True, kw_only=True)
class NoisySteps(PartyMf):
    """N(0, (z Delta)^2) on every entry of a step's sum of gradients, of all rows.

    Delta is the sensitivity that the paper claims for the ``unit``, per user of at most ``trim``
    ratings (theta, used per user only); ``delta`` its delta, which it does not print.
    ``as_published`` is the paper: rows are drawn, a fixed number of them, and the divisor counts
    the party's own ratings. Sampling rows does not amplify for one rating, whose user's other
    ratings show whether the row was drawn; and of a fixed number of rows, a user who comes takes
    another one's place, which the moments accountant does not know. Repaired, every unit is drawn
    by itself (each rating, or each user), as that accountant assumes, and the divisor takes
    ``density``, a public guess, for tau.

    Events take tau for public, as the paper does; strictly, with ``as_published`` the scale of the
    noise tells how many ratings there are.
    """

    unit: Literal["rating", "user"] = "rating"
    trim: Whole = 10
    delta: ProperShare = 1e-5
    density: ProperShare = 0.01
    as_published: bool = True

    @abstractmethod
    def multiplier(self, n_users: int) -> float:
        """The noise multiplier z, in units of the claimed sensitivity."""

    @abstractmethod
    def sigmas(self, n_users: int, joint: bool) -> tuple[float, float]:
        """Noise on the sums of a step on both tables (``joint``) or items alone: in U, and in V."""

    @property
    def clipping(self) -> Clipping:
        """What bounds the gradients: embeddings are clipped as in equation 6."""
        return Clipping.of_embeddings(self.bound)

    @property
    def lengths(self) -> tuple[int, int]:
        """How many noisy steps a party takes on both tables, T T', and how many on items alone."""
        return self.steps, 0

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    @property
    def guess(self) -> float | None:
        """The public guess, where repaired."""
        return None if self.as_published else self.density

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Noisy steps with clipped gradients of rows that are drawn, or repaired of units."""
        in_users, in_items = self.sigmas(n_users, joint)
        return replace(
            super().descent(n_users, joint),
            clipping=self.clipping,
            unit=self.unit,
            independent=not self.as_published,
            user_sigma=in_users,
            item_sigma=in_items,
        )

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
        return self.multiplier(population.n_users), self.rate, steps, self.delta


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNoise:
    """One noisy step, for what it owes: how it is taken, and how far what it sums up is moved.

    ``z`` is the noise over what the unit asked about moves a step's sum, ``alone`` over what one of
    those that are drawn moves it, there or not: a row as published; repaired, the ``unit`` of
    ``descent``. ``apart`` is the noise over the distance of two rows. Parties have ``sizes`` users;
    one ``remembers`` where a drawn row changes what it keeps of it, without noise.
    """

    descent: Descent
    sizes: Sequence[int]
    z: float
    alone: float
    apart: float
    remembers: bool = False

    def charged(self, scope: Scope, steps: int) -> DpEvent:
        """``steps`` of it.

        Repaired, each is drawn by itself, which amplifies for a change within one of them. Where
        rows are drawn, a fixed number n' of the n in ``sizes``, a user who comes or goes costs what
        rows drawn by themselves would, ``apart``, for it takes another one's place
        (``theorems.fixed_size``), and one that is replaced what is proved of such samples. For less
        than a user nothing is amplified: the user's other ratings show when the row is drawn.

        Where the party ``remembers``, those whose places a user took have missed a step, and from
        then on their gradients differ, too: all that is known is that a sum is of ``rows`` rows.
        Replaced, a user takes nobody's place; all others are the same, if it is seen who is drawn.
        """
        from dp_accounting import PoissonSampledDpEvent, SampledWithoutReplacementDpEvent

        from fedrec_auditor.accountants.events.leaves import (
            ReplacedSamplingDpEvent,
            RevealedSamplingDpEvent,
        )

        unit, rate = self.descent.unit, self.descent.rate
        presence = scope.adjacency is Adjacency.ADD_REMOVE
        replaced = scope.adjacency is Adjacency.REPLACE
        single = scope.unit in SINGLE
        if self.descent.independent:
            if presence and (single if unit == "rating" else scope.unit is Unit.USER):
                return noisy_steps(self.alone, steps, partial(PoissonSampledDpEvent, rate))
            if replaced and (single or unit == "user"):
                return noisy_steps(self.alone, steps, partial(ReplacedSamplingDpEvent, rate))
            return noisy_steps(self.z, steps)
        n = max(self.sizes, key=lambda size: batch_size(size, rate) / size)
        rows = batch_size(n, rate)
        if scope.unit is not Unit.USER or not (presence or (replaced and not self.remembers)):
            seen = partial(RevealedSamplingDpEvent, rows / n)
            return noisy_steps(self.z, steps, seen if rows < n else None)
        if replaced:
            fixed = partial(SampledWithoutReplacementDpEvent, n, rows)
            return noisy_steps(self.apart, steps, fixed)
        if self.remembers:
            return noisy_steps(self.apart / rows, steps)
        even = all(batch_size(n, rate) == batch_size(n - 1, rate) for n in self.sizes)
        if not even or rows >= 0.25 * n:  # a quarter of the steps, twice as far apart, is as much
            return noisy_steps(self.alone, steps)
        return noisy_steps(self.apart, steps, partial(PoissonSampledDpEvent, rows / n))
