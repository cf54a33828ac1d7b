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
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, ItemSplit
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import UsersAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.lower_bounds import LowerBound
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoiseOnBoth, NoisySteps
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import batch_size
from fedrec_auditor.targets.settings import NoiseSetting, NotNegative, Whole, WholeOrZero
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import NoiselessSystem


@dataclass(frozen=True, kw_only=True)
class FmfVfl(NoiselessSystem, PartyMf):
    """Federated matrix factorization in the vertical setting, without protection.

    FMF in the vertical setting (Figure 3a, equation 4) has no clipping and no noise; user
    embeddings are sent in the clear.

    The row of a user without ratings at a party does not change in the party's steps. A message
    therefore reveals to the server which users have ratings at the party (the naive leakage of
    section 4). ``unit`` "user" only trims each user to ``trim`` ratings. Items are dealt to parties
    by the rule ``split``. ``tuning`` is kappa, the number of last steps on item embeddings alone (0
    in the vanilla paradigm).
    """

    unit: Annotated[Literal["rating", "user"], '"user" only trims'] = "rating"
    trim: Annotated[Whole, "maximum ratings of a user if the unit is the user"] = 5
    split: Annotated[Literal["random", "category"], "rule that deals items to parties"] = "random"
    tuning: Annotated[WholeOrZero, "kappa, last steps on item embeddings alone"] = 0

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200})
    holding = ItemSplit()

    @property
    def exchange(self) -> UsersAveraged:
        """Exchange of user embeddings U, which the server averages."""
        return UsersAveraged(self.tuning)

    @property
    def max_ratings(self) -> int | None:
        """Maximum number of ratings per user, theta; None if the unit is a rating."""
        return self.trim if self.unit == "user" else None

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None, because messages are a deterministic function of ratings and public randomness."""
        return None


_MARGIN = 8.0  # distance of user embeddings from 0 (the projection), in standard deviations
_SURE = 1e-25  # probability of large deviations that the server cannot see
_MAX_RATINGS = 400  # maximum number of the user's ratings that show if its row is drawn
_BAND = 0.01  # tolerated distance of an item's mean entry below 1/2, in units of sqrt(R)


@dataclass(frozen=True, kw_only=True)
class VflSgdmf(NoisySteps):
    """Vertical federated matrix factorization with embedding clipping and Gaussian noise.

    VFL-SGDMF (Figure 3b) claims, per rating, the maximum over the parties of epsilon_k; per user,
    it claims the root of the sum of their squares.

    Embeddings are clipped (equation 6). Every step's gradients get noise in all entries. Its
    deviation is z times 2 sqrt(2) R^(3/2) per rating, theta times that per user of theta ratings
    per party, and z times 2 R^(3/2) in the last kappa steps, which move items alone (section 4.2).
    ``tuning`` = 100 is assumed, because the paper states no kappa, and so is ``delta``.
    ``noise_multiplier`` z = 1.8 makes epsilon_k about 0.8.
    """

    learning_rate: float = 0.02
    trim: Whole = 5
    split: Literal["random", "category"] = "random"
    tuning: Annotated[WholeOrZero, "kappa, last steps on item embeddings alone"] = 100
    noise_multiplier: Annotated[NotNegative, "z, noise deviation over sensitivity"] = 1.8

    unprotected = "fmf-vfl"
    noise_setting = NoiseSetting(noise=("noise_multiplier",), off=0.0)
    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200, "learning_rate": 0.1})
    holding = ItemSplit()

    @property
    def exchange(self) -> UsersAveraged:
        """Exchange of user embeddings U, after which each party tunes its items alone."""
        return UsersAveraged(self.tuning)

    @property
    def step_counts(self) -> tuple[int, int]:
        """Numbers of steps on both tables, T T', and on items alone, kappa."""
        return self.steps, self.tuning

    def replaced_epsilon(self, population: Population) -> float:
        """Claimed epsilon of replacing a user: twice that of adding or removing one."""
        return 2.0 * self.root_sum(population)

    @property
    def replaced_delta(self) -> float:
        """Claimed delta of replacing a user: twice that of adding or removing one."""
        return 2.0 * self.delta

    def noise(self, n_users: int, joint: bool = True) -> NoiseOnBoth:
        """Gaussian noise of deviation z times Delta_rating or Delta_user (section 4.2)."""
        one = 2.0 * self.bound * math.sqrt(self.bound) * (math.sqrt(2.0) if joint else 1.0)
        z, clipping = self.noise_multiplier, Clipping.of_embeddings(self.bound)
        return NoiseOnBoth(z=z, sigma=z * (one * (self.max_ratings or 1)), clipping=clipping)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Mechanism whose privacy curve is a lower bound for the uploads of a party.

        The bound is for adding or removing one rating of a user with other ratings. It needs
        trainings in which every step is sent (T' = 1) and item embeddings hardly move from their
        start. None otherwise, in the repaired version, for other changes, for other vantages and
        without noise.
        """
        plain = self.sampling.unit == "row" and scope.vantage is Vantage.SERVER
        plain = (
            plain and self.noise_multiplier > 0 and self.unit == "rating" and self.local_steps == 1
        )
        plain = plain and self.split == "random" and scope.horizon is Horizon.TRAINING
        one = scope.unit in (Unit.RATING, Unit.INTERACTION)
        if not (plain and one and scope.adjacency is Adjacency.ADD_REMOVE):
            return None
        return self.rating_lower_bound(population)

    def rating_lower_bound(self, population: Population) -> LowerBound | None:
        """Lower bound for adding or removing one of a user's ratings R at one party.

        The party holds ``held`` items, and only this user has ratings at it: one for each item, or
        a limited number of them, all equal to R. The party sends its user embeddings U after every
        step. The server broadcasts the user's embedding with equal entries, ``_MARGIN`` standard
        deviations of a step's noise above 0, so that u.v is close to 0. A drawn row moves the
        embedding by 2 v_j (x - u.v_j) for every rating. Along (1, ..., 1)/sqrt(p) that is about 2 R
        (v_j.1)/sqrt(p), always of one sign. The sum over the other ratings is many deviations of
        the noise, and so shows in which steps the row is drawn. In each of these steps the rating
        in question then adds a Gaussian of

            mu = 2 R (v_j.1)/sqrt(p) / (z 2 sqrt(2) R^(3/2)) >= mean of p draws / (z sqrt(2)),

        because the item embeddings V begin with entries of sqrt(2R/p) times draws in [0, 1],
        independent and symmetric about 1/2, and the projection shortens them by at most sqrt(2). By
        symmetry the mean is at least 1/2 with probability 1/2. The server does not see V before the
        release, where each item has moved by at most ``wander``, except with the probability of
        deviations. The server may err by that much in the sums, and in deciding whether the run
        belongs to the better half of the runs. It draws the line between the halves within
        ``_BAND``, where few items are near. Projections of U are visible in the messages.

        The epsilon that the accountant is asked to charge, 1/z in every drawn step, is thus
        attained up to a factor of about sqrt(8): of the two tables only U is visible at every step,
        and V begins at random. None if the learning rate is too large, because V would then move
        farther than the rating moves U. The divisor is the same with and without the rating if the
        party has fewer ratings than users.
        """
        m, n_users = population.n_items, population.n_users
        g, p, steps = self.learning_rate, self.factors, self.steps
        held, sigma = m // min(self.parties, m), self.descent(n_users).user_sigma
        count = steps + self.tuning
        weight = -(-m // min(self.parties, m)) / m
        others = min(held, n_users, _MAX_RATINGS) - 1
        if others < 1:
            return None
        bound, root = self.bound, math.sqrt(self.bound)
        away = _MARGIN * g * sigma
        farthest = 2.0 * away * math.sqrt(p) + g * 2.0 * bound * root * (others + 1)
        error = bound - away * math.sqrt(p) * root
        noise = math.sqrt(p) + math.sqrt(2.0 * math.log(count * held / _SURE))
        pull = 2.0 * (away * math.sqrt(p)) * bound
        wander = count * g * weight * (sigma * noise + pull)
        slack = 2.0 * bound * (2 * others + 1) * wander + 2.0 * others * root * (bound - error)
        own = 2.0 * (0.5 - _BAND) * root * error - slack
        blurred = 4.0 * wander / (_BAND * root)
        # Bound of means of p draws each, by Hoeffding's inequality.
        low = others / 2.0 - math.sqrt(others * -math.log(_SURE) / (2.0 * p))
        told = (2.0 * low * root * error - slack) / sigma / 2.0
        if not (farthest < root and min(error, own, told) > 0.0):
            return None
        sums = RevealedGaussian(
            noise_multiplier=sigma / own,
            sampling_probability=batch_size(n_users, self.rate) / n_users,
            count=steps,
        )
        unseen = min(1.0, 2.0 * steps * float(ndtr(-told)) + 3.0 * _SURE)
        seen = steps * p * float(ndtr(-_MARGIN)) + blurred
        given_away = min(1.0, seen + unseen)
        return LowerBound(
            mechanism=sums, p_follows=0.5, error_with=given_away, error_without=unseen
        )
