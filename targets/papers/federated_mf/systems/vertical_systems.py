"""Systems whose parties hold different items: vertical federated learning (VFL)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from scipy.special import ndtr

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import RevealedGaussian
from fedrec_auditor.targets.papers.federated_mf.systems.parts import lower_bounds, sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, ItemSplit
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import UserAveraging
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoisyMf, UserItemNoise
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.settings import Count, CountOrZero, NonNegative
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import NoiselessSystem


@dataclass(frozen=True, kw_only=True)
class FmfVfl(NoiselessSystem, PartyMf):
    """Federated matrix factorization in the vertical setting, without protection.

    Each party sends user embeddings (Figure 3a, equation 4). A message reveals to the server which
    users have ratings at the party ("naive leakage" in section 4 of the paper).

    ``unit``: "user" to use at most ``trim`` ratings of each user, "rating" to use all ratings.
    ``trim``: maximum number of ratings of a user per party, if the unit is the user.
    ``split``: rule that divides items among parties, "random" or "category" (by genre).
    ``tuning``: kappa, number of steps after the last round, which move item embeddings alone; 0 in
        what the paper calls the vanilla paradigm.
    ``data_division``: division of the data among the parties, by items; ``split`` is its rule.
    """

    # A party's steps do not change the embedding of a user without ratings at the party.

    unit: Annotated[Literal["rating", "user"], '"user" only trims'] = "rating"
    trim: Annotated[Count, "maximum ratings of a user if the unit is the user"] = 5
    split: Annotated[Literal["random", "category"], "rule that deals items to parties"] = "random"
    tuning: Annotated[CountOrZero, "kappa, last steps on item embeddings alone"] = 0

    tuned_values = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200})
    data_division = ItemSplit()

    @property
    def exchange(self) -> UserAveraging:
        """Protocol in which parties send user embeddings, and the server averages them."""
        return UserAveraging(self.tuning)

    @property
    def max_ratings(self) -> int | None:
        """Maximum number of ratings per user (theta of the paper); None if the unit is a rating."""
        return self.trim if self.unit == "user" else None

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns None, because the messages have no noise.

        They are a deterministic function of ratings and public randomness.
        """
        return None


_MARGIN = 8.0  # distance of user embeddings from 0 (the projection), in standard deviations
_TAIL_PROB = 1e-25  # probability of large deviations that the server cannot see
_MAX_RATINGS = 400  # maximum number of the user's ratings that the bound considers
_BAND = 0.01  # tolerated distance of an item's mean entry below 1/2, in units of sqrt(R)


@dataclass(frozen=True, kw_only=True)
class VflSgdmf(NoisyMf):
    """Vertical federated matrix factorization with embedding clipping and Gaussian noise.

    The claimed epsilon of a rating is the largest epsilon of a party (VFL-SGDMF, Figure 3b). The
    claimed epsilon of a user is the root of the sum of the parties' squared epsilons.

    Embeddings are clipped (equation 6: entries >= 0, squared norm at most the largest rating R). In
    every step, all entries of the gradient sums get noise of deviation z Delta (section 4.2). The
    claimed sensitivity Delta for a rating is

    - 2 sqrt(2) R^(3/2) in steps that move user and item embeddings;
    - 2 R^(3/2) in the last kappa steps, which move item embeddings alone.

    For a user of theta ratings per party, Delta is theta times as large.

    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``trim``: theta, maximum number of ratings of a user per party; further ratings are left out.
        Not used if the unit is the rating.
    ``split``: rule that divides items among parties, "random" or "category" (by genre).
    ``tuning``: kappa, number of steps after the last round, which move item embeddings alone;
        assumed.
    ``noise_multiplier``: z, deviation of the noise divided by the claimed sensitivity; 1.8 makes a
        party's epsilon about 0.8.
    """

    learning_rate: float = 0.02
    trim: Count = 5
    split: Literal["random", "category"] = "random"
    tuning: Annotated[CountOrZero, "kappa, last steps on item embeddings alone"] = 100
    noise_multiplier: Annotated[NonNegative, "z, noise deviation over sensitivity"] = 1.8

    unprotected_name = "fmf-vfl"
    tuned_values = MappingProxyType(
        {"spread": 0.1, "rate": 0.1, "rounds": 200, "learning_rate": 0.1}
    )
    data_division = ItemSplit()

    @property
    def exchange(self) -> UserAveraging:
        """Protocol in which parties send user embeddings, and the server averages them.

        At the end parties tune their item embeddings alone.
        """
        return UserAveraging(self.tuning)

    @property
    def step_counts(self) -> tuple[int, int]:
        """Numbers of noisy steps: on user and item embeddings (T T'), and on items alone (kappa).

        T is the number of rounds, and T' the number of steps of a party per round.
        """
        return self.steps, self.tuning

    def compute_replacement_epsilon(self, population: Population) -> float:
        """Returns the claimed epsilon of replacing a user: twice the epsilon of adding or removing
        one.
        """
        return 2.0 * self.compute_user_epsilon(population)

    @property
    def replacement_delta(self) -> float:
        """Claimed delta of replacing a user: twice the delta of adding or removing a user."""
        return 2.0 * self.delta

    def make_noise(self, n_users: int, with_users: bool = True) -> UserItemNoise:
        """Returns the Gaussian noise on user and item gradients, of deviation z Delta.

        ``n_users``: not used.
        ``with_users``: whether the steps move user embeddings too, not item embeddings alone.

        z is ``noise_multiplier``, and Delta the sensitivity of section 4.2 for the system's
        ``unit``.
        """
        one = 2.0 * self.bound * math.sqrt(self.bound) * (math.sqrt(2.0) if with_users else 1.0)
        z, clipping = self.noise_multiplier, Clipping.make_projection(self.bound)
        one *= self.max_ratings or 1
        return UserItemNoise(noise_multiplier=z, sigma=z * one, clipping=clipping)

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns a mechanism whose epsilon is a lower bound on the epsilon of a party's uploads.

        None unless all of these conditions hold:

        - ``scope`` states one rating that is added or removed, the server, and the whole training.
        - The system is as published, with noise, unit "rating" and random ``split``. A party sends
          the result of every step (T' = 1).
        - ``make_rating_bound_mechanism`` knows a bound.
        """
        plain = self.sampling.unit == "row" and self.unit == "rating" and self.split == "random"
        plain = plain and self.noise_multiplier > 0 and self.local_steps == 1
        plain = plain and scope.vantage is Vantage.SERVER and scope.horizon is Horizon.TRAINING
        one = scope.unit in (Unit.RATING, Unit.INTERACTION)
        if not (plain and one and scope.adjacency is Adjacency.ADD_REMOVE):
            return None
        return self.make_rating_bound_mechanism(population)

    def make_rating_bound_mechanism(self, population: Population) -> Mechanism | None:
        """Returns a mechanism whose epsilon is a lower bound on the training's, for adding or
        removing one of a user's ratings at one party.

        The mechanism is at least as private as the training. Its noise multiplier is about sqrt(8)
        times the one in ``get_event``.

        None if the party has fewer than two items or users, or if the learning rate is so large
        that item embeddings may move too far from their start.
        """
        # The noise multiplier is larger than in ``get_event`` for two reasons: only user embeddings
        # are visible at every step, and item embeddings begin at random.
        #
        # The worst case: the party holds ``held`` items, and only this user has ratings at the
        # party, one for each item (or a limited number), all equal to the largest rating R. The
        # party sends its user embeddings after every step. The server broadcasts the user's
        # embedding u with equal entries, ``_MARGIN`` standard deviations of a step's noise above 0,
        # so that the prediction u.v_j of item j is close to 0. A step that draws the user's row
        # moves u by 2 v_j (R - u.v_j) for every rating. Along (1, ..., 1)/sqrt(p), for p factors,
        # that is about 2 R (v_j.1)/sqrt(p), always of one sign. The sum over the other ratings is
        # many deviations of the noise, and so shows in which steps the row is drawn. In each of
        # these steps the rating in question then adds a Gaussian of
        #
        #     mu = 2 R (v_j.1)/sqrt(p) / (z 2 sqrt(2) R^(3/2)) >= mean of p draws / (z sqrt(2)),
        #
        # because item embeddings begin with entries of sqrt(2R/p) times draws in [0, 1],
        # independent and symmetric about 1/2, and the projection shortens them by at most sqrt(2).
        # By symmetry the mean is at least 1/2 with probability 1/2. The server does not see the
        # item embeddings before the release. Until then each item moves by at most ``wander``,
        # except with the probability of deviations. The server may err by ``wander`` in the sums,
        # and in deciding whether the run belongs to the half of the runs with a mean of at least
        # 1/2. The server draws the line between the halves within ``_BAND``, where few items are
        # near. Projections of user embeddings are visible in the messages.
        #
        # The accountant charges 1/z in every drawn step. If the learning rate is too large, items
        # move farther than the rating moves u. The divisor is the same with and without the rating
        # if the party has fewer ratings than users.
        m, n_users = population.n_items, population.n_users
        g, p, steps = self.learning_rate, self.factors, self.steps
        held, sigma = m // min(self.parties, m), self.make_descent(n_users).user_sigma
        count = steps + self.tuning
        weight = -(-m // min(self.parties, m)) / m
        others = min(held, n_users, _MAX_RATINGS) - 1
        if others < 1:
            return None
        bound, root = self.bound, math.sqrt(self.bound)
        away = _MARGIN * g * sigma
        farthest = 2.0 * away * math.sqrt(p) + g * 2.0 * bound * root * (others + 1)
        error = bound - away * math.sqrt(p) * root
        noise = math.sqrt(p) + math.sqrt(2.0 * math.log(count * held / _TAIL_PROB))
        pull = 2.0 * (away * math.sqrt(p)) * bound
        wander = count * g * weight * (sigma * noise + pull)
        slack = 2.0 * bound * (2 * others + 1) * wander + 2.0 * others * root * (bound - error)
        own = 2.0 * (0.5 - _BAND) * root * error - slack
        blurred = 4.0 * wander / (_BAND * root)
        # Bound of means of p draws each, by Hoeffding's inequality.
        low = others / 2.0 - math.sqrt(others * -math.log(_TAIL_PROB) / (2.0 * p))
        told = (2.0 * low * root * error - slack) / sigma / 2.0
        if not (farthest < root and min(error, own, told) > 0.0):
            return None
        z, rate = sigma / own, sgd_mf.get_batch_size(n_users, self.rate) / n_users
        sums = RevealedGaussian(noise_multiplier=z, sampling_probability=rate, count=steps)
        unseen = min(1.0, 2.0 * steps * float(ndtr(-told)) + 3.0 * _TAIL_PROB)
        seen = steps * p * float(ndtr(-_MARGIN)) + blurred
        given_away = min(1.0, seen + unseen)
        return lower_bounds.LowerBoundMechanism(
            mechanism=sums, p_follows=0.5, p_deviates_present=given_away, p_deviates_absent=unseen
        )
