"""Noise of the federated-MF trainings: its deviation, its accounting event, and the noisy steps."""

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
from fedrec_auditor.targets.papers.federated_mf.systems.parts import party_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import (
    Clipping,
    GradientDescent,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    get_authors_epsilon,
    get_batch_size,
    get_theorem_1_epsilon,
    make_gaussian_event,
)
from fedrec_auditor.targets.settings import Count, NoiseSetting, OpenUnitInterval
from fedrec_auditor.targets.systems.base import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNoise(ABC):
    """Gaussian noise on every entry of the gradient sums of a step.

    ``noise_multiplier``: z, deviation of the noise divided by the sensitivity that the paper
        claims.
    ``sigma``: standard deviation of the noise: z times the claimed sensitivity.
    ``clipping``: bounds of the gradients and embeddings.
    ``has_user_noise``: whether gradient sums with respect to user embeddings have noise. Gradient
        sums with respect to item embeddings always have noise.
    """

    noise_multiplier: float
    sigma: float
    clipping: Clipping

    has_user_noise: ClassVar[bool]

    @abstractmethod
    def get_event(self, mf: NoisyMf, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of all noisy gradients that depend on the protected data.

        ``mf``: the system whose steps get the noise.
        ``scope``: the protected data (unit), and their change (adjacency).

        Noise multipliers of the event are relative to the true sensitivity, not the claimed one.
        """


@dataclass(frozen=True, kw_only=True)
class NoisyMf(party_mf.PartyMf):
    """Base class of systems with noisy gradient steps, whose accounting covers every noisy step.

    ``unit``: unit of the claimed epsilon, "rating" or "user".
    ``trim``: theta, maximum number of ratings of a user; further ratings are left out. Not used if
        the unit is the rating.
    ``delta``: delta of the claim; the paper prints none.
    ``density``: public guess of the share of all pairs of a user and an item that have a rating;
        not used if ``as_published``.
    ``as_published``: whether steps are as printed; otherwise they are repaired.
    ``is_single_party``: whether the system is central, with a single party.

    There are two versions of a step, which divides a gradient sum by the mean number of ratings per
    user:

    - As printed: the step samples a fixed number of rows (users). The divisor follows from the
      party's own number of ratings, which the accounting and the paper treat as public.
    - Repaired: the step samples every unit (each rating, or each user) independently, as the
      moments accountant assumes. The divisor follows from ``density``.
    """

    # Sampling rows does not amplify privacy for one rating, because the user's other ratings show
    # whether the row was sampled. An added user takes another user's place in a sample, which the
    # moments accountant does not consider. Strictly, the noise after the printed division reveals
    # the number of ratings, which tau gives.

    unit: Annotated[Literal["rating", "user"], "unit of the claimed epsilon"] = "rating"
    trim: Annotated[Count, "theta, maximum ratings of a user if the unit is the user"] = 10
    delta: Annotated[OpenUnitInterval, "delta of the claim"] = 1e-5
    density: Annotated[OpenUnitInterval, "a public guess of the share of rated pairs"] = 0.01
    as_published: Annotated[bool, "rows sampled as printed; else units independently"] = True

    is_single_party: ClassVar[bool] = False
    noise_setting = NoiseSetting(noise_names=("noise_multiplier",), noiseless_value=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_single_party and self.parties != 1:
            raise InputError(
                f"Expected parties=1 for the central system {self.name}, got parties="
                f"{self.parties!r}. Leave out parties, or use the system local-only."
            )

    @abstractmethod
    def make_noise(self, n_users: int, with_users: bool = True) -> GradientNoise:
        """Returns the noise on the gradient sums of a party of ``n_users`` users.

        ``with_users``: whether the steps move user embeddings too, not item embeddings alone.
        """

    @property
    def step_counts(self) -> tuple[int, int]:
        """Numbers of a party's noisy steps in a training: on user and item embeddings, and on item
        embeddings alone.

        By default there are T rounds of T' steps on both, and no steps on item embeddings alone.
        """
        return self.steps, 0

    @property
    def max_ratings(self) -> int | None:
        """Maximum number of ratings per user (theta of the paper); None if the unit is a rating."""
        return self.trim if self.unit == "user" else None

    @property
    def sampling(self) -> party_mf.StepSampling:
        """Sampling of the ratings of a gradient step.

        - As published: a fixed number of rows (users) per step.
        - If ``as_published`` is false: each rating or user (``unit``) independently.
        """
        if self.as_published:
            return party_mf.StepSampling()
        return party_mf.StepSampling(unit=self.unit, guessed_rated_share=self.density)

    def make_descent(self, n_users: int, with_users: bool = True) -> GradientDescent:
        """Returns the gradient steps of a party of ``n_users`` users, with clipping and noise.

        ``with_users``: whether the steps move user embeddings too, not item embeddings alone.
        """
        noise = self.make_noise(n_users, with_users)
        return replace(
            super().make_descent(n_users, with_users),
            clipping=noise.clipping,
            user_sigma=noise.sigma if noise.has_user_noise else 0.0,
            item_sigma=noise.sigma,
        )

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of all noisy gradients that depend on the protected data.

        ``scope`` states these data and their change. The event has the true sensitivity, not the
        claimed one.
        """
        return self.make_noise(population.n_users).get_event(self, scope, population)

    def compute_party_epsilon(self, population: Population) -> float:
        """Returns the epsilon of all noisy steps of a party by the authors' accountant.

        The accountant is TensorFlow Privacy (``get_authors_epsilon``).
        """
        return get_authors_epsilon(*self.get_dp_sgd_parameters(population, sum(self.step_counts)))

    def bound_party_epsilon(self, population: Population) -> float:
        """Returns an upper bound on the epsilon of all noisy steps of a party, by the paper's
        Theorem 1.

        The bound is larger than ``compute_party_epsilon``.
        """
        return get_theorem_1_epsilon(*self.get_dp_sgd_parameters(population, sum(self.step_counts)))

    def compute_user_epsilon(self, population: Population) -> float:
        """Returns the claimed epsilon of a user over all parties (Theorem 4).

        This is the root of the sum of squared party epsilons.
        """
        return math.sqrt(self.parties) * self.compute_party_epsilon(population)

    def get_dp_sgd_parameters(
        self, population: Population, steps: int
    ) -> tuple[float, float, int, float]:
        """Returns the noise multiplier, the sampling rate, the number of steps and the delta of
        ``steps`` noisy steps.

        These are the arguments of ``get_authors_epsilon``. Only the noise multiplier may depend on
        ``population``.
        """
        return self.make_noise(population.n_users).noise_multiplier, self.rate, steps, self.delta


# Units that consist of a single rating.
RATING_UNITS = (Unit.RATING, Unit.INTERACTION, Unit.BIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItemNoise(GradientNoise):
    """Gaussian noise on gradients with respect to user and item embeddings, for parties that hold
    items.
    """

    has_user_noise: ClassVar[bool] = True

    @classmethod
    def for_scaled_gradients(cls, z: float, clip: float, unit: str) -> UserItemNoise:
        """Creates noise of deviation z C on gradients that are scaled to a norm of at most C.

        ``z``: noise multiplier.
        ``clip``: C, the largest norm of a gradient.
        ``unit``: data whose gradient is scaled, "rating" or "user".
        """
        return cls(noise_multiplier=z, sigma=z * clip, clipping=Clipping.make_scaling(clip, unit))

    def get_event(self, mf: NoisyMf, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of all noisy gradients that depend on the protected data.

        ``mf``: the system whose steps get the noise.
        ``scope``: the protected data (unit), and their change (adjacency).

        Noise multipliers of the event are relative to the true sensitivity, not the claimed one.
        The event always covers the whole training. For a rating, the event covers the steps of one
        party, or of two if the item may change; for a user, the steps of all parties.
        """
        # A user has at most ``trim`` ratings at each party if the system's ``unit`` is the user,
        # otherwise at most one rating of every item. A message depends on item embeddings that a
        # party keeps from earlier rounds, so that the event of one round is that of the training.
        #
        # Replacing a user by another moves the sum twice as far as removing the user. Replacing an
        # interaction, which may move to another party, also moves the sum twice as far. If the
        # ``unit`` is the user, adding or removing a rating moves the sum twice as far, too: another
        # rating takes its place in the trimming, and a clipped gradient may reverse.
        n, m = population.n_users, population.n_items
        single = scope.unit in RATING_UNITS
        presence = scope.adjacency is Adjacency.ADD_REMOVE
        moved = 1 if presence or scope.unit is Unit.RATING else 2
        parties = min(mf.parties, m, moved if single else m)
        held = m if mf.max_ratings is None else mf.max_ratings
        row = min(held, mf.data_division.get_max_party_items(mf, m))
        clipping, charged = self.clipping, []
        far = 1.0 if presence else clipping.replacement_ratio if scope.unit is Unit.RATING else 2.0
        if single and mf.unit == "user" and scope.adjacency is not Adjacency.REPLACE:
            far = 2.0
        for steps, with_users in zip(mf.step_counts, (True, False), strict=True):
            descent = mf.make_descent(n, with_users)
            drawn = 1 if descent.sampling_unit == "rating" else row
            sigma = descent.item_sigma
            if steps == 0:
                continue
            if not sigma > 0:
                return dp.NonPrivateDpEvent()
            alone = sigma / clipping.get_sensitivity(drawn, with_users)
            apart = alone / clipping.max_distance_ratio
            if presence:  # an added user takes the place of a user in another row of U
                apart = sigma / clipping.bound_user_distance(drawn, with_users)
            reach = far * clipping.get_sensitivity(1 if single else row, with_users)
            noise = StepNoise(
                descent=descent,
                party_sizes=[n],
                noise_multiplier=sigma / reach,
                sampled_unit_multiplier=alone,
                row_noise_multiplier=apart,
            )
            charged.append(noise.get_event(scope, steps * parties))
        return charged[0] if len(charged) == 1 else dp.ComposedDpEvent(charged)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemNoise(GradientNoise):
    """Gaussian noise on item gradients alone, for parties that hold users.

    ``has_user_fitting``: whether a user's embedding depends on the user's ratings during the noisy
        steps, because it was fitted to them or is trained. One rating then changes the gradients of
        all of the user's items (``bound_gradient_change``).
    ``trains_users``: whether noisy steps also move the embeddings of sampled users, without noise.
    """

    has_user_fitting: bool
    trains_users: bool

    has_user_noise: ClassVar[bool] = False

    @classmethod
    def for_system(cls, mf: NoisyMf, z: float, *, trains_users: bool) -> ItemNoise:
        """Creates the noise of the system ``mf``, of deviation z times a claimed sensitivity Delta.

        ``z``: noise multiplier.
        ``trains_users``: whether noisy steps move user embeddings. Not used in the repaired version
            with unit "rating", which samples ratings independently.

        Delta is the sensitivity that section 5.2 claims: 2 R^(3/2) for a rating, where R is the
        largest rating. For a user of at most theta ratings, Delta is theta times as large.
        """
        # If ratings are sampled independently, user embeddings keep their random initial values
        # until all noisy steps are done.
        follows = mf.sampling.unit != "rating"
        one = 2.0 * mf.bound * math.sqrt(mf.bound)
        return cls(
            noise_multiplier=z,
            clipping=Clipping.make_projection(mf.bound),
            sigma=z * one * (mf.max_ratings or 1),
            has_user_fitting=follows,
            trains_users=trains_users and follows,
        )

    def get_event(self, mf: NoisyMf, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of all noisy gradients that depend on the protected data.

        ``mf``: the system whose steps get the noise.
        ``scope``: the protected data (unit), their change (adjacency), and the period (horizon).

        Noise multipliers of the event are relative to the true sensitivity, not the claimed one.
        The event covers all steps of one party within the horizon, a training or one round.
        """
        unit = Unit.USER if self.has_user_fitting else Unit.RATING
        drawn = replace(scope, unit=unit, adjacency=Adjacency.ADD_REMOVE)
        m, limit, fitted = population.n_items, mf.max_ratings, self.has_user_fitting
        scopes = scope, drawn
        changes = [bound_gradient_change(self.clipping, s, m, limit, fitted) for s in scopes]
        z, alone = (self.sigma / change for change in changes)
        noise = StepNoise(
            descent=mf.make_descent(population.n_users),
            party_sizes=party_mf.get_size_range(population.n_users, mf.parties),
            noise_multiplier=z,
            sampled_unit_multiplier=alone,
            row_noise_multiplier=alone / self.clipping.max_distance_ratio,
            has_user_steps=self.trains_users,
        )
        steps = mf.steps if scope.horizon is Horizon.TRAINING else mf.local_steps
        return noise.get_event(scope, steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNoise:
    """Noise multipliers of one gradient step, from which its accounting event is made.

    A noise multiplier is the deviation of the noise, divided by the largest change of the step's
    gradient sum.

    ``descent``: the gradient step and its sampling.
    ``party_sizes``: the different numbers of users that parties have.
    ``noise_multiplier``: noise multiplier for the change of the protected data.
    ``sampled_unit_multiplier``: noise multiplier for adding or removing one sampled unit (a rating,
        or a user).
    ``row_noise_multiplier``: noise multiplier for replacing the gradient of one row (user) by the
        gradient of another row.
    ``has_user_steps``: whether a step also moves the embeddings of the sampled users, without
        noise.
    """

    descent: GradientDescent
    party_sizes: Sequence[int]
    noise_multiplier: float
    sampled_unit_multiplier: float
    row_noise_multiplier: float
    has_user_steps: bool = False

    def get_event(self, scope: Scope, steps: int) -> dp.DpEvent:
        """Returns the accounting event of ``steps`` steps, for the change of the data in ``scope``.

        If ``descent`` samples each unit (rating or user) independently, sampling amplifies privacy
        for adding, removing or replacing data of one unit. For all other changes the event has no
        sampling.

        If a step samples n' of a party's n rows (users), as in the paper, the event depends on the
        change:

        - Replacing a user, without ``has_user_steps``: a sample of n' of n rows, with
          ``row_noise_multiplier``.
        - Adding or removing a user: Poisson sampling at rate n'/n, with ``row_noise_multiplier``,
          because an added user takes another user's place in a sample. If ``has_user_steps``, if n'
          depends on the added user, or if n' >= n/4: no sampling.
        - All other changes, such as one rating: a sample that the adversary sees, with
          ``noise_multiplier``.
        """
        # Adding or removing a user follows ``losses.pairs.FixedSizeSamplePair``.
        # If the party ``has_user_steps``, the users whose places an added user took have missed a
        # step. From then on their gradients differ, too, and the proof uses only that a sum has n'
        # rows. A replacing user takes nobody's place, and all other users are unchanged if the
        # samples are visible.
        sampled, rate = self.descent.sampling_unit, self.descent.sampling_rate
        presence = scope.adjacency is Adjacency.ADD_REMOVE
        replaced = scope.adjacency is Adjacency.REPLACE
        single = scope.unit in RATING_UNITS
        if sampled != "row":
            if presence and (single if sampled == "rating" else scope.unit is Unit.USER):
                poisson = partial(dp.PoissonSampledDpEvent, rate)
                return make_gaussian_event(self.sampled_unit_multiplier, steps, poisson)
            if replaced and (single or sampled == "user"):
                replacing = partial(dp.ReplacedSamplingDpEvent, rate)
                return make_gaussian_event(self.sampled_unit_multiplier, steps, replacing)
            return make_gaussian_event(self.noise_multiplier, steps)
        n = max(self.party_sizes, key=lambda size: get_batch_size(size, rate) / size)
        rows = get_batch_size(n, rate)
        if scope.unit is not Unit.USER or not (presence or (replaced and not self.has_user_steps)):
            seen = partial(dp.RevealedSamplingDpEvent, rows / n)
            return make_gaussian_event(self.noise_multiplier, steps, seen if rows < n else None)
        if replaced:
            fixed = partial(dp.SampledWithoutReplacementDpEvent, n, rows)
            return make_gaussian_event(self.row_noise_multiplier, steps, fixed)
        if self.has_user_steps:
            return make_gaussian_event(self.row_noise_multiplier / rows, steps)
        even = all(get_batch_size(n, rate) == get_batch_size(n - 1, rate) for n in self.party_sizes)
        if not even or rows >= 0.25 * n:  # a quarter of the steps, twice as far apart: equal cost
            return make_gaussian_event(self.sampled_unit_multiplier, steps)
        poisson = partial(dp.PoissonSampledDpEvent, rows / n)
        return make_gaussian_event(self.row_noise_multiplier, steps, poisson)


def bound_gradient_change(
    clipping: Clipping, scope: Scope, n_items: int, max_ratings: int | None, has_user_fitting: bool
) -> float:
    """Returns the largest change of a step's sum of item gradients by a change of the protected
    data.

    ``clipping``: bounds of the gradients and embeddings.
    ``scope``: the protected data (unit), and their change (adjacency).
    ``n_items``: number of items.
    ``max_ratings``: maximum number of ratings of a user; None without trimming.
    ``has_user_fitting``: whether each user embedding depends on the user's ratings.

    Let R be the largest rating, G = 2 R^(3/2) the longest gradient of a rating, and c the maximum
    number of ratings of a user (``n_items`` without trimming). Embeddings obey equation 6 (entries
    >= 0, squared norm at most R). The result is

    - for adding or removing a user: G sqrt(c), which is attained;
    - for one rating without ``has_user_fitting``: G, or 2 G for replacing an interaction;
    - for adding or removing a rating with ``has_user_fitting`` and without trimming: G sqrt(2c -
      1);
    - for all other changes: 1.618 G sqrt(c), by ``Clipping.max_distance_ratio``.
    """
    # For adding or removing a user, the rows of c items change by at most 2 R^(3/2) each.
    #
    # Proof for a rating to which the user's embedding is fitted: let u and u' be this embedding
    # with and without the rating. At another item v that the user rated x, the gradients are 2 (x -
    # u.v) u and 2 (x - u'.v) u'. If the two errors have the same sign, u.u' >= 0 makes the distance
    # at most 2 R^(3/2) sqrt(2). Otherwise the errors are at most x and R - x, and the distance is
    # at most 2 R^(3/2). The rating itself has one gradient.
    count = n_items if max_ratings is None else min(max_ratings, n_items)
    presence = scope.adjacency is Adjacency.ADD_REMOVE
    if scope.unit in RATING_UNITS and not has_user_fitting:
        swapped = scope.unit is not Unit.RATING and not presence
        return (2.0 if swapped else 1.0) * clipping.get_sensitivity(1, False)
    if scope.protects_user_presence:
        return clipping.get_sensitivity(count, False)
    if scope.unit in RATING_UNITS and presence and max_ratings is None:
        return clipping.get_sensitivity(2 * count - 1, False)
    return clipping.get_sensitivity(count, False) * clipping.max_distance_ratio
