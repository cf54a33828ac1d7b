"""Gradient descent for matrix factorization, and user embeddings fitted to given items."""

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
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.streams import Streams

# Gradient descent on (x - u.v)^2 over sampled rows, shared by the federated systems of the paper.
#
# Embeddings keep the dtype of their tables (float32 in messages: Figure 2 counts four bytes per
# number). Gradients are *sums* over observed ratings. The paper calibrates its noise to such a sum:
# noise is added to the sum, and both are then divided by n' m' tau, the expected number of ratings
# in a batch (section 3.1). The formula in section 4.1.3 adds the noise after the division. Then the
# noise would be thousands of times the gradient.
#
# The paper tunes the learning rate by training loss and does not print it. Here a rate g means
# gamma = g n', that is, steps of g / (m' tau) on the sum. One g thus serves data of any size.

UNITS = ("rating", "user")
_NUMBERS = 1 << 22  # numbers per block of parties of one user each
# Renyi orders of TensorFlow Privacy's compute_dp_sgd_privacy.
_ORDERS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *range(5, 64), 128, 256, 512)
_SLOWING, _LAST = 0.8, 0.52  # the rate falls over 80% of the steps, to 52% (Abadi et al. 2016)


def check_ratings(interactions: Interactions, bound: float) -> sparse.csr_array:
    """Returns the ratings as float32; raises InputError unless all lie in (0, ``bound``]."""
    values = interactions.ratings.data
    if len(values) and not (values.min() > 0 and values.max() <= bound):
        raise InputError(
            f"Expected ratings in (0, {bound:g}], got {values.min():g} to {values.max():g}. "
            "Set bound to the largest possible rating, and shift ratings to positive values."
        )
    return interactions.ratings


def initialize(uniform: NDArray[Any], bound: float, spread: float = 1.0) -> NDArray[np.float32]:
    """Initial embeddings from uniform draws (n, p) in (0, 1), with u.v = R/2 in expectation.

    The paper states only "randomly". Entries are uniform in [0, 2a], p a^2 = R/2: norm^2 is 2R/3 on
    average. The few longer rows are projected to norm^2 <= R, because otherwise equation 6 would
    not bound the gradients of the first step. The embeddings are independent of the data. A smaller
    ``spread`` moves all entries towards a, so that a draw does not move a prediction far from R/2
    for items with few ratings.
    """
    within = spread * uniform + (1.0 - spread) / 2.0
    drawn = within * math.sqrt(2.0 * bound / uniform.shape[-1])
    return project(drawn, bound).astype(np.float32)


def project(embeddings: Floats, bound: float, floor: float = 0.0) -> Floats:
    """Nearest embeddings to the given ones that satisfy the constraints of equation 6.

    Entries are at least ``floor``, and the norm^2 of each row is at most ``bound``.
    """
    raised = np.maximum(embeddings, floor)
    norm = np.sqrt(np.einsum("...i,...i->...", raised, raised) / raised.dtype.type(bound))
    return np.asarray(raised / np.maximum(norm, 1.0)[..., None])


def trim(ratings: sparse.csr_array, most: int, streams: Streams) -> sparse.csr_array:
    """Draws at most ``most`` ratings per user, uniformly by the user's stream (section 4.1.1)."""
    counts = np.diff(ratings.indptr)
    if ratings.nnz == 0 or counts.max() <= most:
        return ratings
    rows = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(ratings.nnz) - np.repeat(ratings.indptr[:-1], counts)
    keys = streams.laplace_at(rows, place)  # only the order of the draws matters
    order = np.lexsort((keys, rows))
    keep = np.sort(order[place < most])  # rows are in order, so ``place`` is the rank in the row
    indptr = np.concatenate([[0], np.cumsum(np.minimum(counts, most))])
    return sparse.csr_array(
        (ratings.data[keep], ratings.indices[keep], indptr), shape=ratings.shape
    )


def party_blocks(n: int, size: int) -> Iterator[Ints]:
    """Yields indices of n parties of one user each, in blocks.

    A block has at most about four million numbers, ``size`` per party.
    """
    for block in compute.iter_blocks(n, size, _NUMBERS):
        yield np.arange(block.start, block.stop)


def batch_size(n: int, rate: float) -> int:
    """Number n' of sampled rows out of ``n`` at the sampling rate ``rate``, at least one."""
    return max(1, round(rate * n))


def item_gradients(users: Floats, items: Floats, ratings: Floats) -> NDArray[np.float32]:
    """Item gradients 2 (u.v - x) u of single ratings x, (k, p).

    The ratings have shape (k,), and ``users`` and ``items`` have one row per rating, (k, p).
    """
    error = np.einsum("ij,ij->i", users, items) - ratings
    return np.asarray(2.0 * error[:, None] * users, np.float32)


def rate_at(step: int, steps: float, rate: float) -> float:
    """Learning rate of one step, which falls linearly over the first 80% of the steps.

    This is the schedule of section 4.3. Afterwards the rate stays at 52% of ``rate``, as in Abadi
    et al. 2016, section 5.2, to which the paper refers.
    """
    return rate * (1.0 - (1.0 - _LAST) * min(1.0, step / max(1.0, _SLOWING * steps)))


@lru_cache(maxsize=256)
def authors_epsilon(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon of ``steps`` Poisson-sampled Gaussians, as the paper's experiments calculate it.

    The experiments use TensorFlow Privacy (section 2.2, reference 44, of December 2021). It takes
    the minimum over ``_ORDERS`` of the conversion of Canonne, Kamath and Steinke 2020, Proposition
    12, of the Renyi curve. Theorem 1 prints a larger bound, ``theorem_1_epsilon``. Propositions 2
    and 3 give only the order of both, with constants that do not exist.
    """
    from dp_accounting.rdp import RdpAccountant

    if noise_multiplier == 0.0:
        return math.inf
    accountant = RdpAccountant(orders=_ORDERS)
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise_multiplier)), steps)
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=256)
def theorem_1_epsilon(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon of ``steps`` Poisson-sampled Gaussians by Theorem 1 (Abadi et al. 2016, Theorem 2).

    The bound is the minimum of (alpha(l) + ln 1/delta)/l over enough orders l of the moments
    alpha(l) of the steps.
    """
    from dp_accounting.rdp import RdpAccountant

    if noise_multiplier == 0.0:
        return math.inf
    moments = np.concatenate([np.geomspace(0.05, 1.0, 20), np.arange(2.0, 64.0), [96, 128, 256]])
    accountant = RdpAccountant(orders=1.0 + moments)
    curve = accountant.compose(
        dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise_multiplier))
    ).rdp
    return float(np.min(steps * np.asarray(curve) - math.log(delta) / moments))


def noisy_steps(
    noise_multiplier: float, steps: int, drawn: Callable[[dp.DpEvent], dp.DpEvent] | None = None
) -> dp.DpEvent:
    """Privacy event of ``steps`` Gaussian mechanisms with the given noise multiplier.

    ``drawn`` wraps the event of one step in the event of its sampling; without it, steps are not
    sampled.
    """
    if noise_multiplier == 0.0:
        return dp.NonPrivateDpEvent()
    one = dp.GaussianDpEvent(noise_multiplier)
    return dp.SelfComposedDpEvent(drawn(one) if drawn else one, steps)


# User embeddings fitted on the device to fixed item embeddings, within the constraints.
#
# In the pre-training and fine-tuning of HFL-SGDMF and LFL-SGDMF each user minimizes the sum of
# (x - u.v)^2 over its ratings, u >= 0 and |u|^2 <= R (equation 6). The paper states neither the
# number of steps nor the rate. Here it is a fixed number of accelerated projected gradient steps
# (Beck and Teboulle 2009) from a fixed start, of length 1/L_u with L_u the trace of the user's Gram
# matrix, which bounds the curvature. A user's embedding depends only on its own ratings and the
# items, without randomness. Users without ratings stay at the start.
#
# Gram matrices come from one sparse product with the items' outer products: memory is
# (n_items + _USERS) p^2 numbers, for any number of ratings.

# Length of short first item embeddings, which move a user little, in units of sqrt(R)/ratings.
TINY_LENGTH = 1e-4
_USERS = 4096


def initial_user(factors: int, bound: float) -> NDArray[np.float64]:
    """Initial embedding of every user: equal entries and norm^2 R/2, (p,)."""
    return np.full(factors, math.sqrt(bound / (2.0 * factors)))


def fit_users(
    ratings: sparse.csr_array, items: Floats, *, bound: float, steps: int
) -> NDArray[np.float32]:
    """User embeddings (n, p) after ``steps`` gradient steps towards the constrained optimum.

    The optimum minimizes the squared errors of each user's ratings at the fixed ``items``. The
    steps start at ``initial_user``.
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


def predicted(interactions: Interactions, items: Floats, *, bound: float, steps: int) -> Floats:
    """Predicted ratings u.v, (n_users, n_items), with each user fitted to ``items``."""
    ratings = check_ratings(interactions, bound)
    with one_thread():
        return np.asarray(fit_users(ratings, items, bound=bound, steps=steps) @ items.T)


def fitted_user_pair(
    bound: float, factors: int, fitting: int, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Embeddings (p,) of a user with and without one more rating, which turns the embedding.

    The user has ``count`` other ratings; all ratings are R. The first item embeddings V are short,
    in entry 1, for the ``count`` items, and long, in entry 0, for the additional item. The short
    vectors turn the embedding to entry 1 unless the long one pulls it.
    """
    first = np.zeros((count + 1, factors))
    first[:count, 1] = TINY_LENGTH * math.sqrt(bound) / count
    first[count, 0] = math.sqrt(bound)
    ratings = np.full((2, count + 1), bound)
    ratings[1, count] = 0.0
    there, gone = fit_users(sparse.csr_array(ratings), first, bound=bound, steps=fitting)
    return there.astype(np.float64), gone.astype(np.float64)


def rating_distance(bound: float, factors: int, fitting: int) -> float:
    """Lower bound on the distance between a user's messages with and without a rating.

    A user has rated item 1 by R, and item 2 by R or not at all. The server chooses the first item
    embeddings V, short in one entry for item 1 and long in another entry for item 2, and then
    broadcasts V = 0 in every round. Without the second rating the fitted embedding is b, and the
    message's mean is -2R b in row 1. With it, the embedding is a, and the mean is -2R a in row 1 or
    in row 2, depending on the drawn rating. The means thus differ by 2R (a - b, 0) or 2R (-b, a).
    Along the shortest vector between these two points they differ by at least its length, for
    either draw: 2R sqrt(R) sqrt(3/2) if a and b are orthogonal. The noise along that vector is
    normal, and the other users' gradients are fixed. With one factor the distance is 2 R^(3/2),
    which a rating of a user without other ratings attains.
    """
    alone = 2.0 * bound * math.sqrt(bound)
    if factors < 2:
        return alone
    a, b = fitted_user_pair(bound, factors, fitting, 1)
    one, two = np.concatenate([a - b, np.zeros(factors)]), np.concatenate([-b, a])
    between = two - one
    share = float(np.clip(-(one @ between) / (between @ between), 0.0, 1.0))
    return max(alone, 2.0 * bound * float(np.linalg.norm(one + share * between)))


def _descend(
    gram: NDArray[np.float64], target: NDArray[np.float64], bound: float, steps: int
) -> NDArray[np.float64]:
    """Minimizes u G u / 2 - b u for all users together; ``gram`` (n, p, p), ``target`` (n, p)."""
    trace = np.einsum("nii->n", gram)
    length = np.where(trace > 0, 1.0 / np.where(trace > 0, trace, 1.0), 0.0)[:, None]
    u = np.broadcast_to(initial_user(target.shape[1], bound), target.shape)
    ahead, momentum = u, 1.0
    for _ in range(steps):
        slope = np.matmul(gram, ahead[:, :, None])[:, :, 0] - target
        after: NDArray[np.float64] = np.asarray(project(ahead - length * slope, bound), np.float64)
        follow = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = after + (momentum - 1.0) / follow * (after - u)
        u, momentum = after, follow
    return u
