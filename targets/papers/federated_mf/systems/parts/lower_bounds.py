"""Lower bounds on the epsilon of a training, derived from two neighbouring data sets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import ndtr

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, PrivacyCurve, Size, WorstCase
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import SampledGaussian
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoisySteps
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import (
    party_sizes,
    sampled_shares,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    _SLOWING,
    TINY_LENGTH,
    fit_users,
    fitted_user_pair,
    rate_at,
)
from fedrec_auditor.targets.settings import Checked, Probability, check


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound(Checked):
    """Lower bound for a system whose runs follow a known mechanism with high probability.

    ``mechanism``: the mechanism; its privacy curve must be for presence of the value against
        absence.
    ``p_follows``: probability, for every value, of the runs that follow the mechanism; the
        adversary can distinguish these runs from the others.
    ``error_with``: largest probability of a deviation in such a run with the value.
    ``error_without``: largest probability of a deviation in such a run without the value.

    If P(S) - e^eps Q(S) is the divergence of the mechanism, that of the system is at least

        share (P(S) - e^eps Q(S)) - given_away - e^eps mistaken.

    All other properties are those of ``mechanism``.
    """

    mechanism: Mechanism
    p_follows: Probability = 1.0
    error_with: Probability = 0.0
    error_without: Probability = 0.0

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.mechanism, PrivacyCurve):
            raise InputError(
                f"Expected a mechanism with a privacy curve, got {self.mechanism}. Use delta 0."
            )

    @property
    def domain(self) -> Domain:
        """Values that ``mechanism`` accepts."""
        return self.mechanism.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of ``mechanism``."""
        return self.mechanism.output_shape

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draws outputs of ``mechanism``, (*size, *output_shape)."""
        return self.mechanism.randomize(value, rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of the outputs of ``mechanism``, without the deviations."""
        return self.mechanism.log_prob(output, value)

    def worst_case(self) -> WorstCase | None:
        """None, because at delta 0 the deviations alone may account for the divergence."""
        return None

    def delta(self, epsilon: float) -> float:
        """Lower bound of the system's delta at ``epsilon``, at least 0."""
        assert isinstance(self.mechanism, PrivacyCurve)
        accidents = self.error_with
        if self.error_without > 0.0:
            accidents += self.error_without * math.exp(min(epsilon, 700.0))
        return max(0.0, self.p_follows * self.mechanism.delta(epsilon) - accidents)

    def event(self) -> dp.DpEvent:
        """Privacy event of ``mechanism``, without the deviations."""
        return self.mechanism.event()


# Lower bounds on the leak of parties that hold users, on two neighbouring data sets.
#
# A rating or a user is added or removed, and all other conditions are the worst ones that the
# paper's claim covers: its accountant takes the maximum over all data and all earlier messages
# (Theorem 1), and its parties trust neither the server nor each other (section 1.1). The server
# therefore chooses its broadcasts, the first V and the V of every round. The user has ratings of R
# for half of the items, and the party's other users rated the other half, so that nobody else moves
# the user's rows of V. Steps, which are divided by the number of ratings (assumed public), are then
# small. Every round's V is broadcast 8 or 12 standard deviations of a round's noise from 0, where
# the projection would begin to hide the signal. Signals move V away from 0, towards the ball, which
# the noise does not reach. Three known losses remain:
#
# * the prediction u.v at that V reduces the error x - u.v;
# * a projection may happen in spite of the margin. Its probability is subtracted only in the world
#   with the rating if a round is one step and the sent V shows the projection, else in both worlds;
# * learning rates fall within a round, so that a round's sum weighs draws unequally.
#
# Along the line between the two user embeddings the sums are at least as far apart as in
# ``SampledGaussian``, step by step for the same noise, and its ratio rises with their distance.

MAX_ROUNDS = 10**6
"""Maximum number of rounds in a bound; of a longer training only the first rounds are used.

Fewer rounds reveal less. The learning rates of a shorter training fall faster, so that the rates
within a round do not become more equal."""


def rate_evenness(rounds: int, local_steps: int) -> float:
    """Smallest learning rate of a round over the rates' root mean square, for the worst round.

    The worst round is the last one in which the rate falls in every step, or the next round, in
    which the rate becomes constant. The result has a closed form for any number of rounds and local
    steps.
    """
    turn = min(rounds - 1, _falling(rounds * local_steps) // local_steps)
    return min(_evenness_of(at, rounds, local_steps) for at in (max(0, turn - 1), turn))


def _evenness_of(turn: int, rounds: int, steps: int) -> float:
    """Evenness of the round ``turn``, by a closed form of the sum of squared rates."""
    total, first = rounds * steps, turn * steps
    count = min(steps, max(0, _falling(total) - first))
    level, least = rate_at(total, total, 1.0), rate_at(first + steps - 1, total, 1.0)
    low, slope = rate_at(first + max(0, count - 1), total, 1.0), 1.0 - rate_at(1, total, 1.0)
    squares = (
        count * low**2
        + low * slope * count * (count - 1)
        + slope**2 * (count - 1) * count * (2 * count - 1) / 6
        + (steps - count) * level**2
    )
    return min(1.0, least / math.sqrt(squares / steps))


def _falling(total: int) -> int:
    """Number of the ``total`` steps whose learning rate is above its last value."""
    return min(total, math.ceil(max(1.0, _SLOWING * total)))


def rating_lower_bound(system: NoisySteps, n_users: int, n_items: int) -> LowerBound | None:
    """Lower bound for adding or removing one rating that turns its user's embedding.

    The rating is one of ``count`` + 1 ratings of the user, and the turn changes all of their
    gradients. In the rows of the other ratings the gradients are -2 u (x - u.v), with u before or
    after the turn, about 2 R^(3/2) sqrt(2 count) apart. Along the turn they have one sign with the
    rating and the other sign without it (``opposite``). The adversary need not know when the row is
    sampled, because the gradients show it. None for one factor, for fewer than four items, or if
    steps are too long for a margin.
    """
    count = n_items // 2 - 1
    if count < 1 or system.factors < 2:
        return None
    users = fitted_user_pair(system.bound, system.factors, system.n_fit_steps, count)
    there, gone = ((float(user[0]), float(user[1])) for user in users)
    turn = math.sqrt(0.5)  # along (1, -1), with one entry of V each
    along = (there[0] - there[1]) * turn, (gone[1] - gone[0]) * turn
    held = n_items - n_items // 2
    place = _placed(system, n_users, count + 1, held, entries=2, rows=count)
    if place is None or min(along) <= 0.0:
        return None
    start, moved, lost = place
    shifts, even = [], rate_evenness(system.rounds, system.local_steps)
    for (first, second), way in zip((there, gone), along, strict=True):
        rest = math.sqrt(max(0.0, system.bound - first**2 - second**2))
        others = rest * math.sqrt(max(0, system.factors - 2))
        error = system.bound - (first + second) * (start + moved) - others * moved
        shifts.append(2.0 * math.sqrt(count) * way * error * even)
    if min(shifts) <= 0.0:
        return None
    return _at_least(system, n_users, shifts[0], shifts[1] / shifts[0], lost)


def user_lower_bound(system: NoisySteps, n_users: int, n_items: int) -> LowerBound | None:
    """Lower bound for adding or removing a user of theta ratings: 2 R^(3/2) sqrt(theta) per draw.

    The first item embeddings V turn the user's embedding to one entry. For one user, sampling a
    fixed number of rows reveals as much as sampling rows independently: the user's row is among
    them with probability n'/n, independently in every step. None if steps are too long for a
    margin.
    """
    count = min(system.trim, n_items // 2)
    if count < 1:
        return None
    first = np.zeros((count, system.factors))
    first[:, 0] = TINY_LENGTH * math.sqrt(system.bound) / count
    ratings = sparse.csr_array(np.full((1, count), system.bound))
    users: Floats = fit_users(ratings, first, bound=system.bound, steps=system.n_fit_steps)
    own = float(users[0, 0])
    held = min(system.trim, n_items - count)
    place = _placed(system, n_users, count, held, entries=1, rows=count)
    if place is None:
        return None
    start, moved, lost = place
    rest = math.sqrt(max(0.0, system.bound - own**2) * max(0, system.factors - 1))
    error = system.bound - own * (start + moved) - rest * moved
    shift = 2.0 * math.sqrt(count) * own * error * rate_evenness(system.rounds, system.local_steps)
    return _at_least(system, n_users, shift, 0.0, lost) if shift > 0.0 else None


def _placed(
    system: NoisySteps, n_users: int, own: int, held: int, *, entries: int, rows: int
) -> tuple[float, float, float] | None:
    """Start of V, its largest movement before a round's last step, and the projection probability.

    V starts at the first number in the ``entries`` that carry the signal. None if V does not stay
    within the ball. The user has ``own`` ratings, and each of the party's other users has ``held``
    ratings.
    """
    sizes = party_sizes(n_users, system.parties)
    step_scale = max(size / ((size - 1) * held + own) for size in sizes)
    step = system.learning_rate * step_scale
    noise = step * system.descent(n_users).item_sigma * math.sqrt(system.local_steps)
    # The margin is in standard deviations. Invisible projections must be rarer.
    margin = 8.0 if system.local_steps == 1 else 12.0
    start = margin * noise
    drift = step * system.local_steps * 2.0 * system.bound * math.sqrt(system.bound)
    far = 2.0 * start + drift  # reach of an entry that begins at 0 and is reflected there
    if entries * (start + far) ** 2 + system.factors * far**2 >= system.bound:
        return None
    tail = float(ndtr(-margin))
    lost = min(1.0, 2.0 * tail * system.steps * rows * system.factors)
    return start, (far if system.local_steps > 1 else 0.0), lost


def _at_least(
    system: NoisySteps, n_users: int, shift: float, opposite: float, lost: float
) -> LowerBound:
    sums = SampledGaussian(
        noise_multiplier=system.descent(n_users).item_sigma / shift,
        sampling_probability=sampled_shares(party_sizes(n_users, system.parties), system.rate)[0],
        rounds=system.rounds,
        local_steps=system.local_steps,
        opposite=opposite,
    )
    mistaken = 0.0 if system.local_steps == 1 else lost
    return LowerBound(mechanism=sums, error_with=lost, error_without=mistaken)
