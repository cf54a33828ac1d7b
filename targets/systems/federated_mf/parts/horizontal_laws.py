"""What parties that hold users give away at least: laws of two neighbouring data sets, from below.

A rating or a user comes or goes, and everything else is at its worst for the promise, which is for
all of it: the paper's accountant takes the maximum over all data and all that was seen before
(Theorem 1), and its parties trust neither the server nor each other (section 1.1). So the server
chooses what it broadcasts, the first V and that of every round; the user has
ratings of R for half of the items, the party's other users ratings for the other half, so that
nobody else moves the user's rows, and steps, which are divided by the number of ratings (taken as
public), are small. Every round's V is broadcast ``margin`` standard deviations of a round's noise
from 0, where the projection would begin to hide something. Signals move V away from 0, towards the
ball, which the noise does not reach. What is lost is known:

* the prediction u.v at that V takes its part of the error x - u.v;
* a projection in spite of the margin: its probability is given away, in the world with the rating
  only where a round is one step and V, as it is sent, shows whether it was projected, else in both;
* learning rates fall within a round, so that a round's sum weighs draws unequally.

Sums along the way from one user embedding to the other are at least, and at most, as far apart as
``SampledGaussian`` has it, step by step for the same noise, and its ratio rises with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.mechanisms.sampled_gaussian import SampledGaussian
from fedrec_auditor.targets.systems.federated_mf.parts.at_least import AtLeast
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import _SLOWING, batch_size, rate_at
from fedrec_auditor.targets.systems.federated_mf.parts.user_fit import (
    FAINT,
    fit_users,
    turned_users,
)

_MOST_ROUNDS = 10**6
"""Of more, the first are looked at: seeing less tells less, and a shorter training's rates fall
faster, so that its rounds are no more even."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Settings of a party's noisy steps: as in ``HorizontalMf``, and sigma of a step's sums."""

    factors: int
    bound: float
    rounds: int
    local_steps: int
    rate: float
    learning_rate: float
    fitting: int
    sigma: float

    @property
    def margin(self) -> float:
        """In standard deviations: where projections do not show, more must not happen."""
        return 8.0 if self.local_steps == 1 else 12.0

    @property
    def evenness(self) -> float:
        """The least learning rate of a round over the root of the mean square, at the worst.

        Of the rounds in which the rate falls in every step the last is the worst; the next one
        is where it becomes level, and after that it stays so. In closed form for any length.
        """
        turn = min(self.rounds - 1, _falling(self.rounds * self.local_steps) // self.local_steps)
        return min(self._evenness_of(max(0, turn - 1)), self._evenness_of(turn))

    def _evenness_of(self, turn: int) -> float:
        """Of one round, by the sum of the squares of rates that fall by ``slope`` a step."""
        steps, total = self.local_steps, self.rounds * self.local_steps
        first = turn * steps
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


def party_sizes(n_users: int, parties: int) -> tuple[int, ...]:
    """The least and the largest number of users of a party."""
    count = min(parties, n_users)
    return n_users // count, -(-n_users // count)


def drawn_shares(n_users: int, parties: int, rate: float) -> tuple[float, float]:
    """The least and the largest share of a party's rows that a step draws: n' is whole."""
    shares = [batch_size(size, rate) / size for size in party_sizes(n_users, parties)]
    return min(shares), max(shares)


def rating_law(training: Training, n_users: int, n_items: int, parties: int) -> AtLeast | None:
    """One rating turns its user's embedding, and with it the gradients of all of the user's items.

    For one of ``count`` + 1 ratings: in the rows of the others the gradients are -2 u (x - u.v),
    u before or after the turn, some 2 R^(3/2) sqrt(2 count) apart: along the turn one way with the
    rating and the other way without, ``opposite``. No matter that nobody says when the row is
    drawn: it shows. None for one factor, fewer than three ratings, or steps too long for a margin.
    """
    training = replace(training, rounds=min(training.rounds, _MOST_ROUNDS))
    count = n_items // 2 - 1
    if count < 1 or training.factors < 2:
        return None
    users = turned_users(training.bound, training.factors, training.fitting, count)
    there, gone = ((float(user[0]), float(user[1])) for user in users)
    turn = math.sqrt(0.5)  # along (1, -1), an entry of V each
    along = (there[0] - there[1]) * turn, (gone[1] - gone[0]) * turn
    held = n_items - n_items // 2
    place = _placed(training, n_users, parties, count + 1, held, entries=2, rows=count)
    if place is None or min(along) <= 0.0:
        return None
    start, moved, lost = place
    shifts = []
    for (first, second), way in zip((there, gone), along, strict=True):
        rest = math.sqrt(max(0.0, training.bound - first**2 - second**2))
        others = rest * math.sqrt(max(0, training.factors - 2))
        error = training.bound - (first + second) * (start + moved) - others * moved
        shifts.append(2.0 * math.sqrt(count) * way * error * training.evenness)
    if min(shifts) <= 0.0:
        return None
    return _law(training, n_users, parties, shifts[0], shifts[1] / shifts[0], lost)


def user_law(
    training: Training, n_users: int, n_items: int, parties: int, trim: int
) -> AtLeast | None:
    """A user of theta ratings, there or not: 2 R^(3/2) sqrt(theta) whenever its row is drawn.

    The first V turns the user's embedding to one entry. Of the rows of one user a fixed number of
    drawn ones tells as much as rows drawn by themselves: the user's row is among them with
    probability n'/n, in every step anew. None where steps are too long for a margin.
    """
    training = replace(training, rounds=min(training.rounds, _MOST_ROUNDS))
    count = min(trim, n_items // 2)
    if count < 1:
        return None
    first = np.zeros((count, training.factors))
    first[:, 0] = FAINT * math.sqrt(training.bound) / count
    ratings = sparse.csr_array(np.full((1, count), training.bound))
    users: Floats = fit_users(ratings, first, bound=training.bound, steps=training.fitting)
    own = float(users[0, 0])
    held = min(trim, n_items - count)
    place = _placed(training, n_users, parties, count, held, entries=1, rows=count)
    if place is None:
        return None
    start, moved, lost = place
    rest = math.sqrt(max(0.0, training.bound - own**2) * max(0, training.factors - 1))
    error = training.bound - own * (start + moved) - rest * moved
    shift = 2.0 * math.sqrt(count) * own * error * training.evenness
    return _law(training, n_users, parties, shift, 0.0, lost) if shift > 0.0 else None


def _placed(
    training: Training,
    n_users: int,
    parties: int,
    own: int,
    held: int,
    *,
    entries: int,
    rows: int,
) -> tuple[float, float, float] | None:
    """Where V is put in the ``entries`` that count, how far a round moves it before its last step,
    and the probability of a projection; None if V does not stay within the ball.

    The user has ``own`` ratings, the party's others ``held`` each.
    """
    step_scale = max(size / ((size - 1) * held + own) for size in party_sizes(n_users, parties))
    step = training.learning_rate * step_scale
    noise = step * training.sigma * math.sqrt(training.local_steps)
    start = training.margin * noise
    drift = step * training.local_steps * 2.0 * training.bound * math.sqrt(training.bound)
    far = 2.0 * start + drift  # of an entry that begins at 0, whose walk is reflected there
    if entries * (start + far) ** 2 + training.factors * far**2 >= training.bound:
        return None
    steps = training.rounds * training.local_steps
    tail = float(ndtr(-training.margin))
    lost = min(1.0, 2.0 * tail * steps * rows * training.factors)
    return start, (far if training.local_steps > 1 else 0.0), lost


def _law(
    training: Training, n_users: int, parties: int, shift: float, opposite: float, lost: float
) -> AtLeast:
    law = SampledGaussian(
        noise_multiplier=training.sigma / shift,
        sampling_probability=drawn_shares(n_users, parties, training.rate)[0],
        rounds=training.rounds,
        local_steps=training.local_steps,
        opposite=opposite,
    )
    return AtLeast(law=law, given_away=lost, mistaken=0.0 if training.local_steps == 1 else lost)
