"""Parties that add Gaussian noise to their gradients: what sampling hides, and what repairs it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import SINGLE, PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    UNITS,
    accounted,
    batch_size,
    by_tail_bound,
    noisy_steps,
)
from fedrec_auditor.targets.settings import (
    boolean,
    check_choice,
    check_settings,
    not_negative,
    proper_share,
    whole,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class NoisyParties(PartyMf):
    """N(0, (z Delta)^2) on every entry of a step's sum of gradients, of all rows.

    Delta is the sensitivity that the paper claims for the ``unit``; ``delta`` its delta.
    ``as_published`` is the paper: rows are drawn, a fixed number of them, and the divisor counts
    the party's own ratings. Sampling rows does not amplify for one rating, whose user's other
    ratings show whether the row was drawn; and of a fixed number of rows, a user who comes takes
    another one's place, which the moments accountant does not know. Repaired, every unit is drawn
    by itself (each rating, or each user), as that accountant assumes, and the divisor takes
    ``density``, a public guess, for tau.

    Events take tau for public, as the paper does; strictly, with ``as_published`` the scale of the
    noise tells how many ratings there are.
    """

    unit: str = "rating"
    trim: int = 10
    delta: float = 1e-5
    density: float = 0.01
    as_published: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "unit", UNITS)
        check_settings(self, trim=whole, delta=proper_share, density=proper_share)
        check_settings(self, as_published=boolean)

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    @property
    def remembers(self) -> bool:
        """Whether a drawn row changes what its party keeps of it, without noise."""
        return False

    @property
    @abstractmethod
    def clipping(self) -> Clipping:
        """What bounds the gradients."""

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Steps with clipped gradients of sampled rows or units; members add the noise."""
        return replace(
            super().descent(n_users, joint),
            clipping=self.clipping,
            unit=self.unit,
            independent=not self.as_published,
        )

    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row: the party's own count, or repaired the guess."""
        if self.as_published:
            return super().step_scale(n_users, n_items, ratings)  # type: ignore[safe-super]
        guess = max(1.0, self.density * n_items)
        return 1.0 / (guess if self.trimmed is None else min(guess, self.trimmed))

    def charged(
        self,
        z: float,
        scope: Scope,
        steps: int,
        sizes: Sequence[int],
        *,
        alone: float,
        apart: float,
    ) -> DpEvent:
        """``steps`` noisy steps, at ``z`` times what the unit of ``scope`` moves a step's sum.

        ``alone`` is the noise over what one of those that are drawn moves it, there or not: a row
        as published; repaired, the ``unit``. ``apart`` is the noise over the distance of two rows.

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

        presence = scope.adjacency is Adjacency.ADD_REMOVE
        replaced = scope.adjacency is Adjacency.REPLACE
        single = scope.unit in SINGLE
        if not self.as_published:
            if presence and (single if self.unit == "rating" else scope.unit is Unit.USER):
                return noisy_steps(alone, steps, partial(PoissonSampledDpEvent, self.rate))
            if replaced and (single or self.unit == "user"):
                return noisy_steps(alone, steps, partial(ReplacedSamplingDpEvent, self.rate))
            return noisy_steps(z, steps)
        n = max(sizes, key=lambda size: batch_size(size, self.rate) / size)
        rows = batch_size(n, self.rate)
        if scope.unit is not Unit.USER or not (presence or (replaced and not self.remembers)):
            seen = partial(RevealedSamplingDpEvent, rows / n)
            return noisy_steps(z, steps, seen if rows < n else None)
        if replaced:
            return noisy_steps(apart, steps, partial(SampledWithoutReplacementDpEvent, n, rows))
        if self.remembers:
            return noisy_steps(apart / rows, steps)
        fixed = all(batch_size(n, self.rate) == batch_size(n - 1, self.rate) for n in sizes)
        if not fixed or rows >= 0.25 * n:  # a quarter of the steps, twice as far apart, is as much
            return noisy_steps(alone, steps)
        return noisy_steps(apart, steps, partial(PoissonSampledDpEvent, rows / n))


@dataclass(frozen=True, kw_only=True)
class Moments(NoisyParties):
    """Noise of ``noise_multiplier`` z times the claimed sensitivity, by the paper's accountant."""

    noise_multiplier: float = 1.8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, noise_multiplier=not_negative)

    @property
    def lengths(self) -> tuple[int, int]:
        """How many steps a party takes on both tables, T T', and how many on items alone."""
        return self.steps, 0

    @property
    def party_epsilon(self) -> float:
        """Epsilon of all noisy steps of a party, as the authors calculate it."""
        return accounted(self.noise_multiplier, self.rate, sum(self.lengths), self.delta)

    @property
    def by_theorem_1(self) -> float:
        """The same by Theorem 1, which is larger."""
        return by_tail_bound(self.noise_multiplier, self.rate, sum(self.lengths), self.delta)

    @property
    def root_sum(self) -> float:
        """The root of the sum of squares over all parties (Theorem 4)."""
        return math.sqrt(self.parties) * self.party_epsilon
