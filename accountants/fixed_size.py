"""Gaussian noise on a sample of fixed size, one record replaced: what is proved, what is reached.

Both figures are at most a thousandth apart from what their pair of laws gives; the truth lies
between them, and no closed form is known for it.
"""

from __future__ import annotations

import math

from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent

from accountants._parameters import check_parameters
from accountants.bound import check_delta
from accountants.composition import epsilon_above, epsilon_below
from accountants.errors import InputError
from accountants.pairs import GaussianPair, Pair
from accountants.sampled_pairs import FixedSize, Poisson


def fixed_size_above(
    *, n_users: int, sample: int, rounds: int, multiplier: float, delta: float
) -> float:
    """The least epsilon that is proved: ``rounds`` samples of ``sample`` of ``n_users``, composed.

    ``multiplier`` is the noise over what replacing one record moves at most (2S/M for an average
    of M records clipped to S), and the sample stays unknown. The rounds may depend on each other.
    See ``FixedSize`` for the proof.
    """
    if _nothing(n_users, sample, rounds, multiplier, delta):
        return math.inf
    return epsilon_above(
        ((FixedSize(GaussianPair(1 / multiplier), sample / n_users), rounds),), delta
    )


def fixed_size_below(
    *, n_users: int, sample: int, rounds: int, multiplier: float, delta: float
) -> float:
    """An epsilon that two neighbouring data sets show not to be kept, of the same rounds.

    All records but one lie at one end of the clipping ball, and the one lies at the same end or at
    the other. So a round releases N(0, z^2), or where the one is sampled N(1, z^2): this is also
    what Poisson sampling gives when a record is present or absent, so its figure is reached.
    """
    if _nothing(n_users, sample, rounds, multiplier, delta):
        return math.inf
    noise = GaussianPair(1 / multiplier)
    pair: Pair = noise if sample == n_users else Poisson(noise, sample / n_users)
    return epsilon_below(((pair, rounds),), delta)


def _nothing(n_users: int, sample: int, rounds: int, multiplier: float, delta: float) -> bool:
    """Whether nothing can be had at all; InputError for senseless numbers."""
    check_parameters(SampledWithoutReplacementDpEvent(n_users, sample, GaussianDpEvent(multiplier)))
    if rounds < 1 or rounds != int(rounds):
        raise InputError(f"Expected rounds >= 1, got rounds={rounds!r}. Count the samples.")
    return check_delta(delta) == 0 or multiplier == 0
