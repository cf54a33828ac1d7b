"""Gaussian noise on a sample of fixed size: what is proved, and what two data sets reach.

Under replacement the truth lies between the two, and no closed form is known for it. Under
add-remove they meet: a record of n is present or absent, and m are drawn all the same. Without it
the sample is R + y, R uniform of size m - 1 and y uniform of the others, with it the same at
1 - m/n and R + x at m/n. So both distributions are averages, over R and y, of M(R + y) and of
(1 - q) M(R + y) + q M(R + x), q = m/n with n counting the larger set, and divergences are jointly
convex: it costs what Poisson sampling at rate m/n costs, with the noise of a *replacement*. For a
sum of records clipped to C that is twice the move of a record that comes or goes, so a Poisson
accountant with sensitivity C undercounts fixed-size batches, by a factor of two in the noise, and
not only in theory: all others at one end of the ball, and the one at the other, reach it.
"""

from __future__ import annotations

import math

from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import check_parameters
from fedrec_auditor.accountants.losses.composition import epsilon_above, epsilon_below
from fedrec_auditor.accountants.losses.pairs import REVEALED, GaussianPair, Pair, Reversed
from fedrec_auditor.accountants.losses.sampled_pairs import FixedSize, Poisson
from fedrec_auditor.accountants.statements.bound import check_delta
from fedrec_auditor.accountants.statements.scope import Adjacency

# Noise below which doubles have no room for the loss.
_LEAST = 1e-7


def fixed_size_above(
    *,
    n_users: int,
    sample: int,
    rounds: int,
    multiplier: float,
    delta: float,
    adjacency: Adjacency = Adjacency.REPLACE,
) -> float:
    """The least epsilon that is proved: ``rounds`` samples of ``sample`` of ``n_users``, composed.

    ``multiplier`` is the noise over what replacing one record of a sample moves at most (2S/M for
    an average of M records clipped to S), under either adjacency, and the sample stays unknown. The
    rounds may depend on each other. See ``FixedSize`` for the proof under replacement.
    """
    known = _without_loss(n_users, sample, rounds, multiplier, delta, adjacency)
    if known is not None:
        return known
    rate = sample / n_users
    # With less, all is revealed.
    noise: Pair = GaussianPair(1 / multiplier) if multiplier > _LEAST else REVEALED
    if adjacency is Adjacency.ADD_REMOVE:
        both = (Poisson(noise, rate), Reversed(Poisson(noise, rate)))
        return max(epsilon_above(((pair, rounds),), delta) for pair in both)
    return epsilon_above(((FixedSize(noise, rate), rounds),), delta)


def fixed_size_below(
    *,
    n_users: int,
    sample: int,
    rounds: int,
    multiplier: float,
    delta: float,
    adjacency: Adjacency = Adjacency.REPLACE,
) -> float:
    """An epsilon that two neighbouring data sets show not to be kept, of the same rounds.

    All records but one lie at one end of the clipping ball, and the one lies at the same end, or is
    absent, in one data set, and in the other lies at the other end. So a round releases N(0, z^2),
    or where the one is sampled N(1, z^2): the pair of Poisson sampling.
    """
    known = _without_loss(n_users, sample, rounds, multiplier, delta, adjacency)
    if known is not None:
        return known
    # More noise tells less; without any, the one is seen or not.
    noise: Pair = GaussianPair(1 / max(multiplier, _LEAST)) if multiplier > 0 else REVEALED
    if sample == n_users:
        return epsilon_below(((noise, rounds),), delta)
    one = Poisson(noise, sample / n_users)
    # Under replacement either order of the two is allowed; this one tells more in all we tried.
    pairs = (one, Reversed(one)) if adjacency is Adjacency.ADD_REMOVE else (one,)
    return max(epsilon_below(((pair, rounds),), delta) for pair in pairs)


def _without_loss(
    n_users: int, sample: int, rounds: int, multiplier: float, delta: float, adjacency: Adjacency
) -> float | None:
    """Epsilon where no loss need be composed, else None; InputError for senseless arguments."""
    check_parameters(SampledWithoutReplacementDpEvent(n_users, sample, GaussianDpEvent(multiplier)))
    if rounds < 1 or rounds != int(rounds):
        raise InputError(f"Expected rounds >= 1, got rounds={rounds!r}. Count the samples.")
    check_delta(delta)
    if adjacency is Adjacency.ANY_PAIR:
        raise InputError(
            f"Expected replace or add-remove adjacency, got {adjacency}. A sample hides nothing of "
            "a record from whoever may change all the others."
        )
    if math.isinf(multiplier):
        return 0.0
    return math.inf if delta == 0 else None
