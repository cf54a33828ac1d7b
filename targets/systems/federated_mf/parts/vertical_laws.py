"""What parties that hold items give away at least: the law of one rating in a row, from below."""

from __future__ import annotations

import math

from scipy.special import ndtr

from fedrec_auditor.targets.mechanisms.revealed_gaussian import RevealedGaussian
from fedrec_auditor.targets.systems.federated_mf.parts.at_least import AtLeast
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import batch_size

_MARGIN = 8.0  # standard deviations between user embeddings and 0, where the projection begins
_SURE = 1e-25  # probability of accidents that the server cannot see
_MOST = 400  # ratings of the user that show whether it is drawn
_BAND = 0.01  # of sqrt(R): how far below 1/2 the entries of the rating's item may be on average


def rating_law(
    *,
    factors: int,
    bound: float,
    rate: float,
    learning_rate: float,
    sigma: float,
    steps: int,
    tuning: int,
    n_users: int,
    held: int,
    weight: float,
) -> AtLeast | None:
    """One rating R of a user whose ``held`` - 1 other ratings with the party are R, too.

    A party of ``held`` items sends U after every step, and only this user has ratings with it. The
    server broadcasts the user's embedding with equal entries, ``_MARGIN`` standard deviations of a
    step's noise above 0, so that u.v is next to nothing. A row drawn moves it by 2 v_j (x - u.v_j)
    for every rating; along (1, ..., 1)/sqrt(p) that is 2 R (v_j.1)/sqrt(p), all but some, of one
    sign. The sum over the other ratings is many deviations of the noise: it shows in which steps
    the row is drawn. What the rating in question adds is then a Gaussian in each of these, of

        mu = 2 R (v_j.1)/sqrt(p) / (z 2 sqrt(2) R^(3/2)) >= mean of p uniforms / (z sqrt(2)),

    since V begins with entries of sqrt(2R/p) times uniforms, projected, which shortens them by
    sqrt(2) at most. By symmetry the mean is at least 1/2 with probability 1/2. V is not seen before
    the release, which it reaches changed by ``wander`` an item at most, after so many steps, but
    for what is given away. That much the server may err in the sums, and in whether this is the
    better half of the runs: of the places in ``_BAND`` to draw that line, one has few items near.
    Projections of U show, in what is sent.

    So what the accountant is asked to charge, 1/z in every step drawn, is attained up to a factor
    of some sqrt(8): of the two tables only U is seen at every step, and V begins at random. None
    where learning is too fast for that: V would wander farther than the rating moves U. The divisor
    is the same with the rating and without, where the party has fewer ratings than users.
    """
    others = min(held, n_users, _MOST) - 1
    if others < 1:
        return None
    root = math.sqrt(bound)
    start = _MARGIN * learning_rate * sigma
    farthest = 2.0 * start * math.sqrt(factors) + learning_rate * 2.0 * bound * root * (others + 1)
    error = bound - start * math.sqrt(factors) * root
    noise = math.sqrt(factors) + math.sqrt(2.0 * math.log((steps + tuning) * held / _SURE))
    pull = 2.0 * (start * math.sqrt(factors)) * bound
    wander = (steps + tuning) * learning_rate * weight * (sigma * noise + pull)
    slack = 2.0 * bound * (2 * others + 1) * wander + 2.0 * others * root * (bound - error)
    own = 2.0 * (0.5 - _BAND) * root * error - slack
    blurred = 4.0 * wander / (_BAND * root)
    # Means of p uniforms each, by Hoeffding's inequality.
    low = others / 2.0 - math.sqrt(others * -math.log(_SURE) / (2.0 * factors))
    told = (2.0 * low * root * error - slack) / sigma / 2.0
    if not (farthest < root and min(error, own, told) > 0.0):
        return None
    law = RevealedGaussian(
        noise_multiplier=sigma / own,
        sampling_probability=batch_size(n_users, rate) / n_users,
        count=steps,
    )
    unseen = min(1.0, 2.0 * steps * float(ndtr(-told)) + 3.0 * _SURE)
    seen = steps * factors * float(ndtr(-_MARGIN)) + blurred
    return AtLeast(law=law, share=0.5, given_away=min(1.0, seen + unseen), mistaken=unseen)
