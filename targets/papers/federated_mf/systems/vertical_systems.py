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
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Items
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import UsersAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.lower_bounds import AtLeast
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoiseOnBoth, NoisySteps
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import batch_size
from fedrec_auditor.targets.settings import Knob, NotNegative, Whole, WholeOrNone
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Unperturbed


@dataclass(frozen=True, kw_only=True)
class FmfVfl(Unperturbed, PartyMf):
    """Federated matrix factorization in the vertical setting, without protection.

    FMF, vertical (Figure 3a, equation 4): no clipping, no noise, user embeddings in the clear.

    A user whom a party has not rated keeps its row through the party's steps: the server reads
    from a message which users the party has ratings of (the naive leakage of section 4).
    ``unit`` "user" only trims, to ``trim`` ratings. Items are dealt as ``split`` says. ``tuning``
    is kappa, the last steps on item embeddings alone (0 in the vanilla paradigm).
    """

    unit: Annotated[Literal["rating", "user"], '"user" only trims'] = "rating"
    trim: Annotated[Whole, "most ratings of a user, where the unit is the user"] = 5
    split: Annotated[Literal["random", "category"], "how items are dealt to parties"] = "random"
    tuning: Annotated[WholeOrNone, "kappa, the last steps, on item embeddings alone"] = 0

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200})
    holding = Items()

    @property
    def exchange(self) -> UsersAveraged:
        """U is averaged."""
        return UsersAveraged(self.tuning)

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: the message is a deterministic function of ratings and public randomness."""
        return None


_MARGIN = 8.0  # standard deviations between user embeddings and 0, where the projection begins
_SURE = 1e-25  # probability of accidents that the server cannot see
_MOST = 400  # ratings of the user that show whether it is drawn
_BAND = 0.01  # of sqrt(R): how far below 1/2 the entries of the rating's item may be on average


@dataclass(frozen=True, kw_only=True)
class VflSgdmf(NoisySteps):
    """Vertical federated matrix factorization with embedding clipping and Gaussian noise.

    VFL-SGDMF (Figure 3b): per rating, max over parties of epsilon_k; per user, their root sum.

    Embeddings are clipped (equation 6), every step's gradients are noisy in all entries at z times
    2 sqrt(2) R^(3/2) per rating, theta times that per user of theta ratings a party, and in the
    last kappa steps, on items alone, 2 R^(3/2) (section 4.2). ``tuning`` = 100 is assumed: the
    paper names no kappa. So is ``delta``. ``noise_multiplier`` z = 1.8 makes epsilon_k about 0.8.
    """

    learning_rate: float = 0.02
    trim: Whole = 5
    split: Literal["random", "category"] = "random"
    tuning: Annotated[WholeOrNone, "kappa, the last steps, on item embeddings alone"] = 100
    noise_multiplier: Annotated[NotNegative, "z, the noise over the sensitivity"] = 1.8

    unprotected = "fmf-vfl"
    privacy = Knob(noise=("noise_multiplier",), off=0.0)
    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200, "learning_rate": 0.1})
    holding = Items()

    @property
    def exchange(self) -> UsersAveraged:
        """U is averaged, and items are tuned to it in the end."""
        return UsersAveraged(self.tuning)

    @property
    def lengths(self) -> tuple[int, int]:
        """Steps on both tables, T T', and on items alone, kappa."""
        return self.steps, self.tuning

    def replaced_epsilon(self, population: Population) -> float:
        """Of a user replaced by another: twice that of one who comes or goes."""
        return 2.0 * self.root_sum(population)

    @property
    def replaced_delta(self) -> float:
        """Delta of it: twice as well."""
        return 2.0 * self.delta

    def noise(self, n_users: int, joint: bool = True) -> NoiseOnBoth:
        """z times Delta_rating or Delta_user of section 4.2."""
        one = 2.0 * self.bound * math.sqrt(self.bound) * (math.sqrt(2.0) if joint else 1.0)
        z, clipping = self.noise_multiplier, Clipping.of_embeddings(self.bound)
        return NoiseOnBoth(z=z, sigma=z * (one * (self.trimmed or 1)), clipping=clipping)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Every U that a party sends, of one rating among others of its user.

        From below, and where every step is sent (T' = 1) and item embeddings hardly move from where
        they begin. None else, where repaired, for other changes, and from other vantages.
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

    def rating_lower_bound(self, population: Population) -> AtLeast | None:
        """One rating R of a user whose ``held`` - 1 other ratings with the party are R, too.

        A party of ``held`` items sends U after every step, and only this user has ratings with it.
        The server broadcasts the user's embedding with equal entries, ``_MARGIN`` standard
        deviations of a step's noise above 0, so that u.v is next to nothing. A row drawn moves it
        by 2 v_j (x - u.v_j) for every rating; along (1, ..., 1)/sqrt(p) that is 2 R
        (v_j.1)/sqrt(p), all but some, of one sign. The sum over the other ratings is many
        deviations of the noise: it shows in which steps the row is drawn. What the rating in
        question adds is then a Gaussian in each of these, of

            mu = 2 R (v_j.1)/sqrt(p) / (z 2 sqrt(2) R^(3/2)) >= mean of p draws / (z sqrt(2)),

        since V begins with entries of sqrt(2R/p) times draws in [0, 1], independent and symmetric
        about 1/2, projected, which shortens them by sqrt(2) at most. By symmetry the mean is at
        least 1/2 with probability 1/2. V is not seen before the release, which it reaches changed
        by ``wander`` an item at most, after so many steps, but for what is given away. That much
        the server may err in the sums, and in whether this is the better half of the runs: of the
        places in ``_BAND`` to draw that line, one has few items near. Projections of U show, in
        what is sent.

        So what the accountant is asked to charge, 1/z in every step drawn, is attained up to a
        factor of some sqrt(8): of the two tables only U is seen at every step, and V begins at
        random. None where learning is too fast for that: V would wander farther than the rating
        moves U. The divisor is the same with the rating and without, where the party has fewer
        ratings than users.
        """
        m, n_users = population.n_items, population.n_users
        g, p, steps = self.learning_rate, self.factors, self.steps
        held, sigma = m // min(self.parties, m), self.descent(n_users).user_sigma
        count = steps + self.tuning
        weight = -(-m // min(self.parties, m)) / m
        others = min(held, n_users, _MOST) - 1
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
        # Means of p draws each, by Hoeffding's inequality.
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
        return AtLeast(mechanism=sums, share=0.5, given_away=given_away, mistaken=unseen)
