"""Building blocks of gradient descent for matrix factorization, and user embeddings fitted to given
item embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets import compute
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.streams import Streams

# Gradient descent over sampled rows (users), shared by the federated systems of the paper. The loss
# of a rating x by user embedding u of item embedding v is (x - u.v)^2.
#
# Embeddings keep the dtype of their tables (float32 in messages: Figure 2 counts four bytes per
# number). Gradients are *sums* over observed ratings. The paper calibrates its noise to such a sum:
# noise is added to the sum, and the result is then divided by n' m' tau, the expected number of
# ratings in a batch of n' users (section 3.1). The formula in section 4.1.3 adds the noise after
# the division. Then the noise would be thousands of times the gradient.
#
# The paper tunes the learning rate gamma by training loss and does not print its value. Here a rate
# g means gamma = g n', that is, steps of g / (m' tau) on the sum. One g thus serves data of any
# size.

_NUMBERS = 1 << 22  # numbers per block of parties of one user each
# Renyi orders of TensorFlow Privacy's compute_dp_sgd_privacy.
_ORDERS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *range(5, 64), 128, 256, 512)
_FALL_SHARE, _LAST = 0.8, 0.52  # the rate falls over 80% of the steps, to 52% (Abadi et al. 2016)


def check_ratings(interactions: Interactions, bound: float) -> sparse.csr_array:
    """Checks that all ratings lie in (0, ``bound``], and returns them as a float32 table, users by
    items.

    Raises InputError for other ratings.
    """
    values = interactions.ratings.data
    if len(values) and not (values.min() > 0 and values.max() <= bound):
        raise InputError(
            f"Expected ratings in (0, bound={bound:g}], got {values.min():g} to {values.max():g}. "
            "Set bound to the largest possible rating, and shift ratings to positive values."
        )
    return interactions.ratings


def init_embeddings(uniform: Floats, bound: float, spread: float = 1.0) -> NDArray[np.float32]:
    """Returns random initial embeddings, with which predicted ratings are about R/2 on average.

    ``uniform``: uniform draws in (0, 1), of shape (n, p) for n embeddings of p entries.
    ``bound``: R, the largest rating.
    ``spread``: width of the distribution, from 0 (all entries equal) to 1.

    At ``spread`` 1, entries are uniform in [0, 2a], with p a^2 = R/2. Rows are projected to a
    squared norm of at most R. The paper states only "randomly".
    """
    # At ``spread`` 0 all entries are a. With a smaller ``spread``, predictions are closer to R/2
    # for items with few ratings.
    #
    # norm^2 is 2R/3 on average. The few longer rows are projected, because otherwise equation 6
    # would not bound the gradients of the first step.
    within = spread * uniform + (1.0 - spread) / 2.0
    drawn = within * math.sqrt(2.0 * bound / uniform.shape[-1])
    return project_embeddings(drawn, bound).astype(np.float32)


def project_embeddings(embeddings: Floats, bound: float, min_entry: float = 0.0) -> Floats:
    """Projects each embedding to the nearest point that satisfies the constraints of equation 6.

    The result has entries of at least ``min_entry``, and rows of squared norm at most ``bound``.
    """
    raised = np.maximum(embeddings, min_entry)
    norm = np.sqrt(np.einsum("...i,...i->...", raised, raised) / raised.dtype.type(bound))
    return np.asarray(raised / np.maximum(norm, 1.0)[..., None])


def trim_ratings(ratings: sparse.csr_array, max_ratings: int, streams: Streams) -> sparse.csr_array:
    """Draws at most ``max_ratings`` ratings per user at random, and returns them (section 4.1.1).

    ``ratings`` has one row per user, and ``streams`` one random stream per user.
    """
    counts = np.diff(ratings.indptr)
    if ratings.nnz == 0 or counts.max() <= max_ratings:
        return ratings
    rows = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(ratings.nnz) - np.repeat(ratings.indptr[:-1], counts)
    keys = streams.draw_laplace_at(rows, place)  # only the order of the draws matters
    order = np.lexsort((keys, rows))
    keep = np.sort(order[place < max_ratings])  # rows are ordered: ``place`` is the rank in the row
    indptr = np.concatenate([[0], np.cumsum(np.minimum(counts, max_ratings))])
    entries = (ratings.data[keep], ratings.indices[keep], indptr)
    return sparse.csr_array(entries, shape=ratings.shape)


def iter_party_blocks(n: int, size: int) -> Iterator[Ints]:
    """Yields the indices of ``n`` parties in blocks of limited memory.

    ``size``: number of array entries that a party needs; a block has at most about four million.
    """
    for block in compute.iter_blocks(n, size, _NUMBERS):
        yield np.arange(block.start, block.stop)


def get_batch_size(n: int, rate: float) -> int:
    """Returns the number of rows that a step samples: ``rate`` times ``n``, rounded, at least 1."""
    return max(1, round(rate * n))


def compute_item_gradients(users: Floats, items: Floats, ratings: Floats) -> NDArray[np.float32]:
    """Computes the gradient of each rating with respect to its item embedding, one row per rating.

    ``users``, ``items``: embeddings u and v of the rating's user and item, one row per rating.
    ``ratings``: the ratings x, (n,).

    The gradient is 2 (u.v - x) u.
    """
    error = np.einsum("ij,ij->i", users, items) - ratings
    return np.asarray(2.0 * error[:, None] * users, np.float32)


def get_learning_rate(step: int, steps: float, initial_rate: float) -> float:
    """Returns the learning rate of the step with index ``step``, by the schedule of section 4.3.

    ``step``: index of the step in the training, or of the round if a round is one step.
    ``steps``: number of steps of the training.
    ``initial_rate``: initial learning rate.

    The learning rate falls linearly over the first 80% of the steps to 52% of ``initial_rate``, and
    then stays there (Abadi et al. 2016, section 5.2).
    """
    return initial_rate * (1.0 - (1.0 - _LAST) * min(1.0, step / max(1.0, _FALL_SHARE * steps)))


@lru_cache(maxsize=256)
def get_authors_epsilon(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Computes the epsilon of Poisson-sampled Gaussian steps as in the paper's experiments.

    ``noise_multiplier``: deviation of the noise divided by the sensitivity.
    ``rate``: rate of the Poisson sampling.
    ``steps``: number of steps.
    ``delta``: delta of the result.

    The experiments use TensorFlow Privacy of December 2021 (section 2.2). This program converts the
    Renyi curve by Proposition 12 of Canonne, Kamath and Steinke 2020.
    """
    # The result is the minimum over the orders ``_ORDERS``. Theorem 1 gives a larger bound
    # (``get_theorem_1_epsilon``). Propositions 2 and 3 state epsilon only up to a constant factor,
    # which they do not specify; in fact no constant is right for all settings.
    from dp_accounting.rdp import RdpAccountant

    if noise_multiplier == 0.0:
        return math.inf
    accountant = RdpAccountant(orders=_ORDERS)
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise_multiplier)), steps)
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=256)
def get_theorem_1_epsilon(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Computes the epsilon of Poisson-sampled Gaussian steps by Theorem 1 (moments accountant).

    ``noise_multiplier``: deviation of the noise divided by the sensitivity.
    ``rate``: rate of the Poisson sampling.
    ``steps``: number of steps.
    ``delta``: delta of the result.

    Theorem 1 is Theorem 2 of Abadi et al. 2016. The bound is the minimum of (alpha(l) + ln
    1/delta)/l over many orders l, where alpha(l) is the log moment of all steps together.
    """
    from dp_accounting.rdp import RdpAccountant

    if noise_multiplier == 0.0:
        return math.inf
    moments = np.concatenate([np.geomspace(0.05, 1.0, 20), np.arange(2.0, 64.0), [96, 128, 256]])
    accountant = RdpAccountant(orders=1.0 + moments)
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise_multiplier))
    curve = np.asarray(accountant.compose(step).rdp)
    return float(np.min(steps * curve - math.log(delta) / moments))


def make_gaussian_event(
    noise_multiplier: float,
    steps: int,
    wrap_sampling: Callable[[dp.DpEvent], dp.DpEvent] | None = None,
) -> dp.DpEvent:
    """Returns the accounting event of ``steps`` Gaussian mechanisms.

    ``noise_multiplier``: deviation of the noise divided by the sensitivity.
    ``steps``: number of mechanisms.
    ``wrap_sampling``: function that wraps the event of one step in the event of its sampling; None
        without sampling.
    """
    if noise_multiplier == 0.0:
        return dp.NonPrivateDpEvent()
    one = dp.GaussianDpEvent(noise_multiplier)
    return dp.SelfComposedDpEvent(wrap_sampling(one) if wrap_sampling else one, steps)


# User embeddings fitted on the device to fixed item embeddings, within the constraints.
#
# In the pre-training and fine-tuning of HFL-SGDMF and LFL-SGDMF each user minimizes the sum of
# (x - u.v)^2 over its ratings x, with u >= 0 and |u|^2 at most the largest rating (equation 6). The
# paper states neither the number of steps nor the rate. Here a user takes a fixed number of
# accelerated projected gradient steps (Beck and Teboulle 2009) from a fixed start. Their length is
# one over the trace of the user's Gram matrix, which bounds the curvature. A user's embedding
# depends only on its own ratings and the items, without randomness. Users without ratings stay at
# the start.
#
# Gram matrices come from one sparse product with the items' outer products: memory is
# (n_items + _USERS) p^2 numbers, for any number of ratings.

# Norm of short initial item embeddings, in units of sqrt(R) over the user's number of ratings. A
# user embedding that is fitted to a long item embedding, too, is hardly moved by short ones.
SHORT_EMBEDDING_NORM = 1e-4
_USERS = 4096  # users that are fitted together


def make_initial_user(factors: int, bound: float) -> NDArray[np.float64]:
    """Returns the initial embedding of every user, at which the fit to ratings starts, (factors,).

    The embedding has equal entries and squared norm R/2, where R is ``bound``, the largest rating.
    """
    return np.full(factors, math.sqrt(bound / (2.0 * factors)))


def fit_user_embeddings(
    ratings: sparse.csr_array, items: Floats, *, bound: float, steps: int
) -> NDArray[np.float32]:
    """Returns user embeddings that are fitted to the users' ratings, one row per user.

    ``ratings``: one row per user.
    ``items``: item embeddings, one row per item, which stay fixed.
    ``bound``: R, the largest rating.
    ``steps``: number of gradient steps, which start at ``make_initial_user``.

    A fit minimizes the sum of squared errors of the user's ratings, within the constraints of
    equation 6.
    """
    factors = items.shape[1]
    v = items.astype(np.float64)
    outer = (v[:, :, None] * v[:, None, :]).reshape(len(v), -1)
    out = np.empty((ratings.shape[0], factors), np.float32)
    for first in range(0, len(out), _USERS):
        table: Any = ratings[first : first + _USERS].astype(np.float64)
        held = table.copy()
        held.data[:] = 1.0
        gram = (held @ outer).reshape(-1, factors, factors)
        out[first : first + _USERS] = _descend(gram, table @ v, bound, steps)
    return out


def predict_ratings(interactions: Interactions, items: Floats, bound: float, steps: int) -> Floats:
    """Returns predicted ratings u.v, (n_users, n_items), with user embeddings u that are fitted to
    the item embeddings v.

    ``interactions``: ratings of the users.
    ``items``: item embeddings, one row per item.
    ``bound``: the largest rating.
    ``steps``: number of gradient steps of a fit.
    """
    ratings = check_ratings(interactions, bound)
    with limit_to_one_thread():
        return np.asarray(fit_user_embeddings(ratings, items, bound=bound, steps=steps) @ items.T)


def fit_neighbouring_users(
    bound: float, factors: int, n_fit_steps: int, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns two fitted embeddings of a user: with one additional rating, and without it.

    ``bound``: the largest rating; all ratings have this value.
    ``factors``: number of entries of an embedding.
    ``n_fit_steps``: number of steps of the fit.
    ``count``: number of the user's other ratings.

    A malicious server chooses the initial item embeddings. The embedding points towards entry 0
    with the additional rating, and towards entry 1 without it.
    """
    # The additional item has a long embedding in the direction of entry 0, and the ``count`` other
    # items have short embeddings in the direction of entry 1.
    first = np.zeros((count + 1, factors))
    first[:count, 1] = SHORT_EMBEDDING_NORM * math.sqrt(bound) / count
    first[count, 0] = math.sqrt(bound)
    ratings = np.full((2, count + 1), bound)
    ratings[1, count] = 0.0
    table = sparse.csr_array(ratings)
    there, gone = fit_user_embeddings(table, first, bound=bound, steps=n_fit_steps)
    return there.astype(np.float64), gone.astype(np.float64)


def find_message_distance(bound: float, factors: int, n_fit_steps: int) -> float:
    """Returns a lower bound on the distance between a user's messages with and without a rating.

    ``bound``: R, the largest rating.
    ``factors``: number of entries of an embedding.
    ``n_fit_steps``: number of steps that fit the user embedding to the initial item embeddings.

    The user also rated one other item, and both ratings are R. A malicious server chooses the
    broadcasts. The result is at least 2 R^(3/2), the distance for a user without other ratings.
    """
    # The user rated item 1 by R, and item 2 by R or not at all. The server chooses orthogonal
    # initial embeddings, short for item 1 and long for item 2. Then it broadcasts item embeddings
    # of 0 in every round. If embeddings have one entry, the result is 2 R^(3/2).
    #
    # Without the second rating the fitted user embedding is b, and the message's mean is -2R b in
    # row 1. With the second rating, the user embedding is a, and the mean is -2R a in row 1 or in
    # row 2, depending on the drawn rating. The means thus differ by 2R (a - b, 0) or 2R (-b, a).
    # Along the shortest vector between these two points they differ by at least its length, for
    # either draw: 2R sqrt(R) sqrt(3/2) if a and b are orthogonal. The noise along that vector is
    # normal, and the other users' gradients are fixed.
    alone = 2.0 * bound * math.sqrt(bound)
    if factors < 2:
        return alone
    a, b = fit_neighbouring_users(bound, factors, n_fit_steps, 1)
    one, two = np.concatenate([a - b, np.zeros(factors)]), np.concatenate([-b, a])
    between = two - one
    share = float(np.clip(-(one @ between) / (between @ between), 0.0, 1.0))
    return max(alone, 2.0 * bound * float(np.linalg.norm(one + share * between)))


def _descend(
    gram: NDArray[np.float64], target: NDArray[np.float64], bound: float, steps: int
) -> NDArray[np.float64]:
    """Returns embeddings u of n users, (n, p), which minimize u G u / 2 - b u within equation 6.

    ``gram``: the matrices G, (n, p, p), for p factors.
    ``target``: the vectors b, (n, p).
    ``bound``: the largest rating.
    ``steps``: number of accelerated projected gradient steps.
    """
    trace = np.einsum("nii->n", gram)
    length = np.where(trace > 0, 1.0 / np.where(trace > 0, trace, 1.0), 0.0)[:, None]
    u = np.broadcast_to(make_initial_user(target.shape[1], bound), target.shape)
    ahead, momentum = u, 1.0
    for _ in range(steps):
        slope = np.matmul(gram, ahead[:, :, None])[:, :, 0] - target
        moved = ahead - length * slope
        after: NDArray[np.float64] = np.asarray(project_embeddings(moved, bound), np.float64)
        follow = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = after + (momentum - 1.0) / follow * (after - u)
        u, momentum = after, follow
    return u
