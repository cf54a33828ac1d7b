"""Gaussian noise on every gradient of a party: what it is, and what it owes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.settings import boolean, check_settings, positive, proper_share
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.federated_mf.parts.descent import Clipping, Descent
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import SINGLE, guessed_scale
from fedrec_auditor.targets.systems.federated_mf.parts.rating_parties import RatingParties
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import batch_size, noisy_steps

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class NoisyParties(RatingParties):
    """N(0, (z Delta)^2) on every entry of a step's sum of gradients, of all rows of both tables.

    Delta is the sensitivity that the paper claims for the ``unit``; ``delta`` its delta.
    ``as_published`` is the paper: rows are drawn, a fixed number of them, and the divisor counts
    the party's own ratings. Sampling rows does not amplify for one rating, whose user's other
    ratings show whether the row was drawn, and the moments accountant proves nothing of a fixed
    number of rows when a user comes or goes. Repaired, every unit is drawn by itself (each rating,
    or each user), as the moments accountant assumes, and the divisor takes ``density``, a public
    guess, for tau.

    ``event`` charges every noisy step, at the true sensitivity. It takes tau for public, as the
    paper does; strictly, with ``as_published`` the scale of the noise tells how many ratings there
    are.
    """

    delta: float = 1e-5
    density: float = 0.01
    as_published: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, delta=proper_share, density=positive)
        check_settings(self, as_published=boolean)

    @property
    @abstractmethod
    def clipping(self) -> Clipping:
        """What bounds the gradients."""

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, int]:
        """How many steps a party takes on both tables, and how many on items alone."""

    @abstractmethod
    def multiplier(self, n_users: int) -> float:
        """The noise multiplier z, in units of the claimed sensitivity."""

    @abstractmethod
    def claimed(self, joint: bool) -> float:
        """The paper's Delta of the ``unit``."""

    @property
    def sampling_note(self) -> str:
        """Why the sampling does not buy what the claim says, if it does not."""
        if not self.as_published:
            return f"Repaired: every {self.unit} is sampled by itself."
        if self.unit == "rating":
            return (
                "Whole rows are sampled: the user's other ratings show whether the row of this one "
                "was drawn, so that sampling does not amplify for a single rating."
            )
        return (
            "A fixed number of rows is drawn, for which the accounting of rows drawn by themselves "
            "proves nothing when a user comes or goes."
        )

    def descent(self, n_users: int) -> Descent:
        """Steps with noise z Delta."""
        z = self.multiplier(n_users)
        return Descent(
            clipping=self.clipping,
            learning_rate=self.learning_rate,
            rate=self.rate,
            steps=self.lengths[0],
            unit=self.unit,
            independent=not self.as_published,
            sigma=z * self.claimed(joint=True),
            tuning_sigma=z * self.claimed(joint=False),
        )

    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row: the party's own count, or repaired the guess."""
        if self.as_published:
            return super().step_scale(n_users, n_items, ratings)
        return guessed_scale(self.density, n_items, self.trim if self.unit == "user" else None)

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Every noisy gradient of the parties that hold the unit, at its true sensitivity.

        One rating is with one party. A user is with all parties, with ``trim`` ratings each if
        the ``unit`` is the user, else with all items; replaced by another, it moves the sum twice
        as far, and so does an interaction. Per user, so does a rating that comes or goes: another
        takes its place in the trimming, and a clipped gradient may turn round. Any one round is
        charged as the training, since parties keep their item embeddings. Where rows are drawn, a
        fixed number n' of them, the rows of the user are in a share n'/n of all steps, whatever
        their data, and it is charged as if it were seen in which. Of a user who comes or goes the
        share is as large, and the sums are twice as far apart: it takes another one's place.
        """
        from dp_accounting import ComposedDpEvent, NonPrivateDpEvent

        n, m = population.n_users, population.n_items
        single = scope.unit in SINGLE
        parties = 1 if single else min(self.parties, m)
        held = self.trim if self.unit == "user" else m
        share = -(-m // min(self.parties, m)) if self.split == "random" else m
        count = 1 if single else min(held, share)
        presence = scope.adjacency is Adjacency.ADD_REMOVE
        far = 1.0 if presence else self.clipping.replaced if scope.unit is Unit.RATING else 2.0
        if single and self.unit == "user" and scope.adjacency is not Adjacency.REPLACE:
            far = 2.0
        amplified = not self.as_published and presence and single == (self.unit == "rating")
        size = batch_size(n, self.rate)
        often, revealed = size / n if self.as_published else self.rate, self.as_published
        if self.as_published and scope.is_presence:
            # Twice as far apart in a quarter of the steps is as much as in all of them.
            revealed = often < 0.25 and batch_size(n - 1, self.rate) == size
            far *= 2.0 if revealed else 1.0
        one = partial(noisy_steps, amplified=amplified, revealed=revealed)
        noise = self.descent(n)
        charged: list[DpEvent] = []
        for steps, joint, sigma in (
            (self.lengths[0], True, noise.sigma),
            (self.lengths[1], False, noise.tuning_sigma),
        ):
            if steps == 0:
                continue
            z = sigma / (far * self.clipping.sensitivity(count, joint))
            if not z > 0:
                return NonPrivateDpEvent()
            charged.append(one(z, often, steps * parties))
        return charged[0] if len(charged) == 1 else ComposedDpEvent(charged)
