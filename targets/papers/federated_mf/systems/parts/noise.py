"""Noise of a training: its size, its proof, and the steps that it falls on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import (
    PartyMf,
    StepSampling,
    party_sizes,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    accounted,
    batch_size,
    by_tail_bound,
    noisy_steps,
)
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


SINGLE = (Unit.RATING, Unit.INTERACTION, Unit.BIT)
"""Units of one rating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOnBoth(GradientNoise):
    """Noise on both tables: where parties hold items."""

    in_users: ClassVar[bool] = True

    @classmethod
    def scaled(cls, z: float, clip: float, unit: str) -> NoiseOnBoth:
        """z C on the sum of joint gradients of every ``unit``, scaled to a norm of C at most."""
        return cls(z=z, sigma=z * clip, clipping=Clipping.of_gradients(clip, unit))

    def owed(self, mf: NoisySteps, scope: Scope, population: Population) -> dp.DpEvent:
        """Every noisy gradient of the parties that hold the unit, at its true sensitivity.

        One rating is with one party. A user is with all parties, with ``trim`` ratings each if
        the ``unit`` is the user, else with all items; replaced by another, it moves the sum twice
        as far, and so does an interaction, which may go to another party. Per user, so does a
        rating that comes or goes: another takes its place in the trimming, and a clipped gradient
        may turn round. Any one round is charged as the training, since parties keep their item
        embeddings.
        """
        n, m = population.n_users, population.n_items
        single = scope.unit in SINGLE
        presence = scope.adjacency is Adjacency.ADD_REMOVE
        moved = 1 if presence or scope.unit is Unit.RATING else 2
        parties = min(mf.parties, m, moved if single else m)
        held = m if mf.trimmed is None else mf.trimmed
        row = min(held, mf.holding.most(mf, m))
        clipping, charged = self.clipping, []
        far = 1.0 if presence else clipping.replaced if scope.unit is Unit.RATING else 2.0
        if single and mf.unit == "user" and scope.adjacency is not Adjacency.REPLACE:
            far = 2.0
        for steps, joint in zip(mf.lengths, (True, False), strict=True):
            descent = mf.descent(n, joint)
            drawn = 1 if descent.sampled == "rating" else row
            sigma = descent.item_sigma
            if steps == 0:
                continue
            if not sigma > 0:
                return dp.NonPrivateDpEvent()
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
        return charged[0] if len(charged) == 1 else dp.ComposedDpEvent(charged)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOnItems(GradientNoise):
    """Noise on V alone: where parties hold users.

    User embeddings that ``follows`` says follow, without noise, from all ratings of the user: one
    rating moves the user's embedding, and with it the gradients of all of that user's items
    (``reach``). Where they move in noisy steps, too (``moves``), those of drawn users do.
    """

    follows: bool
    moves: bool

    in_users: ClassVar[bool] = False

    @classmethod
    def of(cls, mf: NoisySteps, z: float, *, moves: bool) -> NoiseOnItems:
        """z Delta: 2 R^(3/2) per rating, theta times that per user (section 5.2).

        Where ratings are drawn by themselves, user embeddings stay at their random start until the
        last stage: the repair.
        """
        follows = mf.sampling.unit != "rating"
        one = 2.0 * mf.bound * math.sqrt(mf.bound)
        return cls(
            z=z,
            clipping=Clipping.of_embeddings(mf.bound),
            sigma=z * one * (mf.trimmed or 1),
            follows=follows,
            moves=moves and follows,
        )

    def owed(self, mf: NoisySteps, scope: Scope, population: Population) -> dp.DpEvent:
        """Every noisy gradient of the unit's one party, at its true sensitivity: T' a round."""
        drawn = replace(
            scope,
            unit=Unit.USER if self.follows else Unit.RATING,
            adjacency=Adjacency.ADD_REMOVE,
        )
        z, alone = (
            self.sigma
            / reach(self.clipping, s, population.n_items, mf.trimmed, follows=self.follows)
            for s in (scope, drawn)
        )
        noise = StepNoise(
            descent=mf.descent(population.n_users),
            sizes=party_sizes(population.n_users, mf.parties),
            z=z,
            alone=alone,
            apart=alone / self.clipping.apart,
            remembers=self.moves,
        )
        return noise.charged(
            scope, mf.steps if scope.horizon is Horizon.TRAINING else mf.local_steps
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNoise:
    """One noisy step, for what it owes: how it is taken, and how far what it sums up is moved.

    ``z`` is the noise over what the unit asked about moves a step's sum, ``alone`` over what one of
    those that are ``sampled`` moves it, there or not. ``apart`` is the noise over the distance of
    two rows. Parties have ``sizes`` users; one ``remembers`` where a drawn row changes what it
    keeps of it, without noise.
    """

    descent: Descent
    sizes: Sequence[int]
    z: float
    alone: float
    apart: float
    remembers: bool = False

    def charged(self, scope: Scope, steps: int) -> dp.DpEvent:
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
        sampled, rate = self.descent.sampled, self.descent.rate
        presence = scope.adjacency is Adjacency.ADD_REMOVE
        replaced = scope.adjacency is Adjacency.REPLACE
        single = scope.unit in SINGLE
        if sampled != "row":
            if presence and (single if sampled == "rating" else scope.unit is Unit.USER):
                return noisy_steps(self.alone, steps, partial(dp.PoissonSampledDpEvent, rate))
            if replaced and (single or sampled == "user"):
                return noisy_steps(self.alone, steps, partial(dp.ReplacedSamplingDpEvent, rate))
            return noisy_steps(self.z, steps)
        n = max(self.sizes, key=lambda size: batch_size(size, rate) / size)
        rows = batch_size(n, rate)
        if scope.unit is not Unit.USER or not (presence or (replaced and not self.remembers)):
            seen = partial(dp.RevealedSamplingDpEvent, rows / n)
            return noisy_steps(self.z, steps, seen if rows < n else None)
        if replaced:
            fixed = partial(dp.SampledWithoutReplacementDpEvent, n, rows)
            return noisy_steps(self.apart, steps, fixed)
        if self.remembers:
            return noisy_steps(self.apart / rows, steps)
        even = all(batch_size(n, rate) == batch_size(n - 1, rate) for n in self.sizes)
        if not even or rows >= 0.25 * n:  # a quarter of the steps, twice as far apart, is as much
            return noisy_steps(self.alone, steps)
        return noisy_steps(self.apart, steps, partial(dp.PoissonSampledDpEvent, rows / n))


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
