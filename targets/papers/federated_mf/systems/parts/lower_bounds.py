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
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, PrivacyCurve, Shape, WorstCase
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import SampledGaussian
from fedrec_auditor.targets.papers.federated_mf.systems.parts import party_mf, sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoisyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import _FALL_SHARE
from fedrec_auditor.targets.settings import Checked, Probability, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBoundMechanism(Checked):
    """Lower bound of a system's privacy curve, from a simpler mechanism that most runs follow.

    The neighbouring inputs are data with a value (such as a rating) and data without it. The
    adversary recognizes runs that are regular. In a regular run the adversary's view is an output
    of the mechanism, except with a small probability (the run deviates).

    ``mechanism``: the mechanism; its privacy curve must be for the presence of the value.
    ``p_follows``: probability that a run is regular, with or without the value.
    ``p_deviates_present``: largest probability that a regular run deviates, for data with the
        value.
    ``p_deviates_absent``: largest probability that a regular run deviates, for data without the
        value.

    Let P and Q be the mechanism's output distributions with and without the value. For every set S
    of outputs, the delta of the system at epsilon eps is at least

        p_follows (P(S) - e^eps Q(S)) - p_deviates_present - e^eps p_deviates_absent.

    ``delta`` takes the delta of ``mechanism`` for P(S) - e^eps Q(S). All other properties are those
    of ``mechanism``, except ``worst_case``, which is None.
    """

    mechanism: Mechanism
    p_follows: Probability = 1.0
    p_deviates_present: Probability = 0.0
    p_deviates_absent: Probability = 0.0

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.mechanism, PrivacyCurve):
            raise InputError(
                f"Expected mechanism with a method delta, got {self.mechanism}. Give another one."
            )

    @property
    def domain(self) -> Domain:
        """Input values that ``mechanism`` accepts."""
        return self.mechanism.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of ``mechanism``."""
        return self.mechanism.output_shape

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws outputs of ``mechanism``, (*size, *output_shape)."""
        return self.mechanism.randomize(value, rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-density of outputs of ``mechanism``, an approximation for the system.

        Runs of the system that deviate from ``mechanism`` are ignored.
        """
        # The method ``delta`` takes these runs into account.
        return self.mechanism.log_prob(output, value)

    def worst_case(self) -> WorstCase | None:
        """Returns None, because the mechanism's worst log-ratio is not a valid bound for the
        system.
        """
        # The outputs with the largest log-ratio may be so rare that they arise in the system mostly
        # from runs that deviate from the mechanism. At delta 0 no lower bound is therefore known.
        return None

    def delta(self, epsilon: float) -> float:
        """Returns a lower bound of the system's delta at ``epsilon``, at least 0."""
        assert isinstance(self.mechanism, PrivacyCurve)
        accidents = self.p_deviates_present
        if self.p_deviates_absent > 0.0:
            accidents += self.p_deviates_absent * math.exp(min(epsilon, 700.0))
        return max(0.0, self.p_follows * self.mechanism.delta(epsilon) - accidents)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of ``mechanism``, an approximation for the system.

        Runs of the system that deviate from ``mechanism`` are ignored.
        """
        # The method ``delta`` takes these runs into account.
        return self.mechanism.event()


# Lower bounds of the privacy curve of parties that hold users, on two neighbouring data sets.
#
# A rating or a user is added or removed, and all other conditions are the worst ones that the
# paper's claim covers: its accountant takes the maximum over all data and all earlier messages
# (Theorem 1), and its parties trust neither the server nor each other (section 1.1). The server
# therefore chooses its broadcasts: the item embeddings V, at first and in every round. The user has
# the largest rating R for half of the items, and the party's other users rated the other half, so
# that nobody else moves the user's rows of V. Steps, which are divided by the number of ratings
# (assumed public), are then small. Every round's V is broadcast 8 or 12 standard deviations of a
# round's noise from 0, where the projection would begin to hide the signal. Signals move V away
# from 0, towards the bound on its norm, which the noise does not reach. Three known losses remain:
#
# * the prediction u.v of a rating x, at the broadcast V, reduces the error x - u.v;
# * a projection may happen in spite of the margin. Its probability is subtracted only for the data
#   with the rating if a round is one step and the sent V shows the projection, else for both data
#   sets;
# * learning rates fall within a round, so that a round's sum weighs draws unequally.
#
# Along the line between the two user embeddings the sums are at least as far apart as in
# ``SampledGaussian``, step by step for the same noise, and its ratio rises with that distance.

# Maximum number of rounds that a lower bound covers.
MAX_BOUND_ROUNDS = 10**6
"""Maximum number of rounds in a bound; of a longer training only the first rounds are used.

The bound remains valid, because fewer rounds reveal less. Learning rates fall faster in a shorter
training, so that they do not become more equal within a round."""


def find_min_rate_ratio(rounds: int, local_steps: int) -> float:
    """Returns the smallest ratio of a round's last learning rate to the root mean square of its
    learning rates, over all rounds.
    """
    # The learning rate falls from step to step and then stays constant. The ratio is smallest in
    # the last round in which the rate falls in every step, or in the next round.
    turn = min(rounds - 1, _count_falling_steps(rounds * local_steps) // local_steps)
    return min(_compute_evenness(at, rounds, local_steps) for at in (max(0, turn - 1), turn))


def _compute_evenness(turn: int, rounds: int, steps: int) -> float:
    """Returns the last learning rate of the round ``turn`` (an index) divided by the root mean
    square of its learning rates.

    ``rounds``, ``steps``: number of rounds, and of steps per round.
    """
    total, first = rounds * steps, turn * steps
    count = min(steps, max(0, _count_falling_steps(total) - first))
    at = [total, first + steps - 1, first + max(0, count - 1), 1]
    level, lowest, low, second = (sgd_mf.get_learning_rate(step, total, 1.0) for step in at)
    slope = 1.0 - second
    squares = (
        count * low**2
        + low * slope * count * (count - 1)
        + slope**2 * (count - 1) * count * (2 * count - 1) / 6
        + (steps - count) * level**2
    )
    return min(1.0, lowest / math.sqrt(squares / steps))


def _count_falling_steps(total: int) -> int:
    """Counts the steps of a training whose learning rate is above the last learning rate.

    ``total``: number of all steps.
    """
    return min(total, math.ceil(max(1.0, _FALL_SHARE * total)))


def make_rating_bound_mechanism(system: NoisyMf, n_users: int, n_items: int) -> Mechanism | None:
    """Returns a mechanism at least as private as the training, for adding or removing a rating.

    A lower bound on the mechanism's epsilon is therefore a lower bound for the training.

    ``system``: the system, whose item embeddings are the messages.
    ``n_users``, ``n_items``: numbers of all users and items.

    None if no bound is known: for one factor, for fewer than four items, or if long steps may move
    item embeddings to the bounds of the projection.
    """
    # The user of the rating has k = n_items // 2 - 1 other ratings x, of items with embeddings v.
    # In the rows of these items the gradients are -2 u (x - u.v), for the user embedding u. The
    # rating turns u to another direction, which changes all these gradients: the gradients with and
    # without the rating are about 2 R^(3/2) sqrt(2k) apart, for the largest rating R. Along the
    # difference of the two user embeddings they have opposite signs. Such large gradients also show
    # in which steps the user's row is sampled.
    count = n_items // 2 - 1
    if count < 1 or system.factors < 2:
        return None
    users = sgd_mf.fit_neighbouring_users(system.bound, system.factors, system.n_fit_steps, count)
    there, gone = ((float(user[0]), float(user[1])) for user in users)
    turn = math.sqrt(0.5)  # along (1, -1), with one entry of V each
    along = (there[0] - there[1]) * turn, (gone[1] - gone[0]) * turn
    held = n_items - n_items // 2
    place = _place_items(system, n_users, count + 1, held, entries=2, rows=count)
    if place is None or min(along) <= 0.0:
        return None
    start, moved, lost = place
    shifts, even = [], find_min_rate_ratio(system.rounds, system.local_steps)
    for (first, second), way in zip((there, gone), along, strict=True):
        rest = math.sqrt(max(0.0, system.bound - first**2 - second**2))
        others = rest * math.sqrt(max(0, system.factors - 2))
        error = system.bound - (first + second) * (start + moved) - others * moved
        shifts.append(2.0 * math.sqrt(count) * way * error * even)
    if min(shifts) <= 0.0:
        return None
    return _make_bound(system, n_users, shifts[0], shifts[1] / shifts[0], lost)


def make_user_bound_mechanism(system: NoisyMf, n_users: int, n_items: int) -> Mechanism | None:
    """Returns a mechanism at least as private as the training, for adding or removing a user.

    A lower bound on the mechanism's epsilon is therefore a lower bound for the training.

    ``system``: the system, whose item embeddings are the messages.
    ``n_users``, ``n_items``: numbers of all users and items.

    None if no bound is known: for fewer than two items, or if long steps may move item embeddings
    to the bounds of the projection.
    """
    # The user has theta (``system.trim``) ratings, or fewer if the catalogue has fewer than 2 theta
    # items; theta below is this number. The server chooses initial item embeddings with which the
    # fitted user embedding is large in entry 0. A step that samples the user then moves the
    # gradient sum by about 2 R^(3/2) sqrt(theta), for the largest rating R. Steps sample n' of n
    # rows: the user's row is sampled with probability n'/n, independently in every step, as by
    # Poisson sampling.
    count = min(system.trim, n_items // 2)
    if count < 1:
        return None
    first = np.zeros((count, system.factors))
    first[:, 0] = sgd_mf.SHORT_EMBEDDING_NORM * math.sqrt(system.bound) / count
    ratings = sparse.csr_array(np.full((1, count), system.bound))
    bound, steps = system.bound, system.n_fit_steps
    users: Floats = sgd_mf.fit_user_embeddings(ratings, first, bound=bound, steps=steps)
    own = float(users[0, 0])
    held = min(system.trim, n_items - count)
    place = _place_items(system, n_users, count, held, entries=1, rows=count)
    if place is None:
        return None
    start, moved, lost = place
    rest = math.sqrt(max(0.0, system.bound - own**2) * max(0, system.factors - 1))
    error = system.bound - own * (start + moved) - rest * moved
    even = find_min_rate_ratio(system.rounds, system.local_steps)
    shift = 2.0 * math.sqrt(count) * own * error * even
    return _make_bound(system, n_users, shift, 0.0, lost) if shift > 0.0 else None


def _place_items(
    system: NoisyMf, n_users: int, own: int, n_other_ratings: int, *, entries: int, rows: int
) -> tuple[float, float, float] | None:
    """Finds broadcast item embeddings that the projection hardly ever changes.

    ``own``: number of the user's ratings.
    ``n_other_ratings``: number of ratings of each of the party's other users.
    ``entries``: number of entries of an item embedding that the user's gradients move.
    ``rows``: number of item rows that the user's gradients move.

    Returns three numbers:

    - the value of the moved entries in the broadcast;
    - an upper bound on their movement before the last step of a round;
    - an upper bound on the probability that a projection happens.

    None if the embeddings do not stay within the ball of the projection.
    """
    sizes = party_mf.get_size_range(n_users, system.parties)
    step_scale = max(size / ((size - 1) * n_other_ratings + own) for size in sizes)
    step = system.learning_rate * step_scale
    noise = step * system.make_descent(n_users).item_sigma * math.sqrt(system.local_steps)
    # The margin is in standard deviations. Invisible projections must be rarer.
    margin = 8.0 if system.local_steps == 1 else 12.0
    start = margin * noise
    drift = step * system.local_steps * 2.0 * system.bound * math.sqrt(system.bound)
    far = 2.0 * start + drift  # reach of an entry that begins at 0 and is reflected there
    if entries * (start + far) ** 2 + system.factors * far**2 >= system.bound:
        return None
    lost = min(1.0, 2.0 * float(ndtr(-margin)) * system.steps * rows * system.factors)
    return start, (far if system.local_steps > 1 else 0.0), lost


def _make_bound(
    system: NoisyMf, n_users: int, shift: float, opposite: float, lost: float
) -> LowerBoundMechanism:
    """Returns the bound from the noisy gradient sums of the party with the smallest sampling rate.

    ``shift``: movement of a sum by the user's row, for data with the value (rating or user).
    ``opposite``: movement of a sum in the opposite direction without the value, divided by
        ``shift``.
    ``lost``: probability that a projection happens.
    """
    sizes = party_mf.get_size_range(n_users, system.parties)
    sums = SampledGaussian(
        noise_multiplier=system.make_descent(n_users).item_sigma / shift,
        sampling_probability=party_mf.get_sampling_range(sizes, system.rate)[0],
        rounds=system.rounds,
        local_steps=system.local_steps,
        opposite=opposite,
    )
    mistaken = 0.0 if system.local_steps == 1 else lost
    return LowerBoundMechanism(mechanism=sums, p_deviates_present=lost, p_deviates_absent=mistaken)
