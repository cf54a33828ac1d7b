"""Lower bounds on the epsilon of a training, by two neighbouring data sets."""

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
    drawn_shares,
    party_sizes,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    _SLOWING,
    FAINT,
    fit_users,
    rate_at,
    turned_users,
)
from fedrec_auditor.targets.settings import Checked, Probability, check


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast(Checked):
    """``mechanism`` in a share of the runs that the adversary knows, and up to rare accidents.

    The system follows ``mechanism`` in a part of its runs, of probability ``share`` whatever the
    value, which the adversary can tell from the others. Of these runs, those with the value differ
    from it with probability ``given_away`` at most, those without with ``mistaken``. So where
    P(S) - e^eps Q(S) is the divergence of the mechanism, the system has at least

        share (P(S) - e^eps Q(S)) - given_away - e^eps mistaken.

    Everything else is the mechanism's own. Its curve must be that of the value's presence against
    its absence.
    """

    mechanism: Mechanism
    share: Probability = 1.0
    given_away: Probability = 0.0
    mistaken: Probability = 0.0

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.mechanism, PrivacyCurve):
            raise InputError(
                f"Expected a mechanism that knows its curve, got {self.mechanism}. Ask for delta 0."
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
        """Draw outputs of ``mechanism``, (*size, *output_shape)."""
        return self.mechanism.randomize(value, rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of ``mechanism``, which ignores the accidents."""
        return self.mechanism.log_prob(output, value)

    def worst_case(self) -> WorstCase | None:
        """None: at delta 0 accidents may be all that there is."""
        return None

    def delta(self, epsilon: float) -> float:
        """A lower bound on the system's delta at ``epsilon``, at least 0."""
        assert isinstance(self.mechanism, PrivacyCurve)
        accidents = self.given_away
        if self.mistaken > 0.0:
            accidents += self.mistaken * math.exp(min(epsilon, 700.0))
        return max(0.0, self.share * self.mechanism.delta(epsilon) - accidents)

    def event(self) -> dp.DpEvent:
        """The event of ``mechanism``, without the accidents."""
        return self.mechanism.event()


# Least leak of parties that hold users, on two neighbouring data sets.
#
# A rating or a user comes or goes, and everything else is at its worst for the promise, which is
# for all of it: the paper's accountant takes the maximum over all data and all that was seen before
# (Theorem 1), and its parties trust neither the server nor each other (section 1.1). So the server
# chooses what it broadcasts, the first V and that of every round; the user has ratings of R for
# half of the items, the party's other users ratings for the other half, so that nobody else moves
# the user's rows, and steps, which are divided by the number of ratings (taken as public), are
# small. Every round's V is broadcast 8 or 12 standard deviations of a round's noise from 0, where
# the projection would begin to hide something. Signals move V away from 0, towards the ball, which
# the noise does not reach. What is lost is known:
#
# * the prediction u.v at that V takes its part of the error x - u.v;
# * a projection in spite of the margin: its probability is given away, in the world with the rating
#   only where a round is one step and V, as it is sent, shows whether it was projected, else in
#   both;
# * learning rates fall within a round, so that a round's sum weighs draws unequally.
#
# Sums along the way from one user embedding to the other are at least, and at most, as far apart as
# ``SampledGaussian`` has it, step by step for the same noise, and its ratio rises with them.

MOST_ROUNDS = 10**6
"""Of more, the first are looked at: seeing less tells less, and a shorter training's rates fall
faster, so that its rounds are no more even."""


def evenness(rounds: int, local_steps: int) -> float:
    """The least learning rate of a round over the root of the mean square, at the worst.

    Of the rounds in which the rate falls in every step the last is the worst; the next one
    is where it becomes level, and after that it stays so. In closed form for any length.
    """
    turn = min(rounds - 1, _falling(rounds * local_steps) // local_steps)
    return min(_evenness_of(at, rounds, local_steps) for at in (max(0, turn - 1), turn))


def _evenness_of(turn: int, rounds: int, steps: int) -> float:
    """Of one round, by the sum of the squares of rates that fall by ``slope`` a step."""
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
    """In how many of ``total`` steps the learning rate is above its last level."""
    return min(total, math.ceil(max(1.0, _SLOWING * total)))


def rating_lower_bound(system: NoisySteps, n_users: int, n_items: int) -> AtLeast | None:
    """One rating turns its user's embedding, and with it the gradients of all of the user's items.

    For one of ``count`` + 1 ratings: in the rows of the others the gradients are -2 u (x - u.v),
    u before or after the turn, some 2 R^(3/2) sqrt(2 count) apart: along the turn one way with the
    rating and the other way without, ``opposite``. No matter that nobody says when the row is
    drawn: it shows. None for one factor, fewer than three ratings, or steps too long for a margin.
    """
    count = n_items // 2 - 1
    if count < 1 or system.factors < 2:
        return None
    users = turned_users(system.bound, system.factors, system.pretrained, count)
    there, gone = ((float(user[0]), float(user[1])) for user in users)
    turn = math.sqrt(0.5)  # along (1, -1), an entry of V each
    along = (there[0] - there[1]) * turn, (gone[1] - gone[0]) * turn
    held = n_items - n_items // 2
    place = _placed(system, n_users, count + 1, held, entries=2, rows=count)
    if place is None or min(along) <= 0.0:
        return None
    start, moved, lost = place
    shifts, even = [], evenness(system.rounds, system.local_steps)
    for (first, second), way in zip((there, gone), along, strict=True):
        rest = math.sqrt(max(0.0, system.bound - first**2 - second**2))
        others = rest * math.sqrt(max(0, system.factors - 2))
        error = system.bound - (first + second) * (start + moved) - others * moved
        shifts.append(2.0 * math.sqrt(count) * way * error * even)
    if min(shifts) <= 0.0:
        return None
    return _at_least(system, n_users, shifts[0], shifts[1] / shifts[0], lost)


def user_lower_bound(system: NoisySteps, n_users: int, n_items: int) -> AtLeast | None:
    """A user of theta ratings, there or not: 2 R^(3/2) sqrt(theta) whenever its row is drawn.

    The first V turns the user's embedding to one entry. Of the rows of one user a fixed number of
    drawn ones tells as much as rows drawn by themselves: the user's row is among them with
    probability n'/n, in every step anew. None where steps are too long for a margin.
    """
    count = min(system.trim, n_items // 2)
    if count < 1:
        return None
    first = np.zeros((count, system.factors))
    first[:, 0] = FAINT * math.sqrt(system.bound) / count
    ratings = sparse.csr_array(np.full((1, count), system.bound))
    users: Floats = fit_users(ratings, first, bound=system.bound, steps=system.pretrained)
    own = float(users[0, 0])
    held = min(system.trim, n_items - count)
    place = _placed(system, n_users, count, held, entries=1, rows=count)
    if place is None:
        return None
    start, moved, lost = place
    rest = math.sqrt(max(0.0, system.bound - own**2) * max(0, system.factors - 1))
    error = system.bound - own * (start + moved) - rest * moved
    shift = 2.0 * math.sqrt(count) * own * error * evenness(system.rounds, system.local_steps)
    return _at_least(system, n_users, shift, 0.0, lost) if shift > 0.0 else None


def _placed(
    system: NoisySteps, n_users: int, own: int, held: int, *, entries: int, rows: int
) -> tuple[float, float, float] | None:
    """Where V is put in the ``entries`` that count, how far a round moves it before its last step,
    and the probability of a projection; None if V does not stay within the ball.

    The user has ``own`` ratings, the party's others ``held`` each.
    """
    sizes = party_sizes(n_users, system.parties)
    step_scale = max(size / ((size - 1) * held + own) for size in sizes)
    step = system.learning_rate * step_scale
    noise = step * system.descent(n_users).item_sigma * math.sqrt(system.local_steps)
    # In standard deviations: where projections do not show, more must not happen.
    margin = 8.0 if system.local_steps == 1 else 12.0
    start = margin * noise
    drift = step * system.local_steps * 2.0 * system.bound * math.sqrt(system.bound)
    far = 2.0 * start + drift  # of an entry that begins at 0, whose walk is reflected there
    if entries * (start + far) ** 2 + system.factors * far**2 >= system.bound:
        return None
    tail = float(ndtr(-margin))
    lost = min(1.0, 2.0 * tail * system.steps * rows * system.factors)
    return start, (far if system.local_steps > 1 else 0.0), lost


def _at_least(
    system: NoisySteps, n_users: int, shift: float, opposite: float, lost: float
) -> AtLeast:
    sums = SampledGaussian(
        noise_multiplier=system.descent(n_users).item_sigma / shift,
        sampling_probability=drawn_shares(party_sizes(n_users, system.parties), system.rate)[0],
        rounds=system.rounds,
        local_steps=system.local_steps,
        opposite=opposite,
    )
    mistaken = 0.0 if system.local_steps == 1 else lost
    return AtLeast(mechanism=sums, given_away=lost, mistaken=mistaken)
