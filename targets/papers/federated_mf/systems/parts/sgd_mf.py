"""Gradient descent on (x - u.v)^2 over sampled rows: what the federated systems of the paper share.

Embeddings follow the dtype of the tables they are given (float32 on the wire: Figure 2 counts
four bytes a number). Gradients are *sums* over observed ratings: the paper calibrates its noise to
such a sum, so noise is added to the sum and both are then divided by n' m' tau, the number of
ratings expected in a batch (section 3.1); added after the division, as the formula in section
4.1.3 reads, the noise would be thousands of times the gradient.

The paper tunes the learning rate by training loss and prints none. Here a rate g means
gamma = g n', that is, steps of g / (m' tau) on the sum: one number for data of any size.
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
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.streams import Streams

UNITS = ("rating", "user")
_NUMBERS = 1 << 22  # of parties of one user that are trained at once
# Orders of TensorFlow Privacy's compute_dp_sgd_privacy.
_ORDERS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *range(5, 64), 128, 256, 512)
_SLOWING, _LAST = 0.8, 0.52  # the rate falls over 80% of the steps, as in Abadi et al. 2016 to 52%


def explicit(interactions: Interactions, bound: float) -> sparse.csr_array:
    """The ratings as float32; InputError unless all lie in (0, ``bound``]."""
    values = interactions.ratings.data
    if len(values) and not (values.min() > 0 and values.max() <= bound):
        raise InputError(
            f"Expected ratings in (0, {bound:g}], got {values.min():g} to {values.max():g}. "
            "Set bound to the largest rating there can be, and shift ratings to be positive."
        )
    return interactions.ratings


def start(uniform: NDArray[Any], bound: float, spread: float = 1.0) -> NDArray[np.float32]:
    """First embeddings from uniforms (n, p) in (0, 1): u.v = R/2 in expectation, u, v >= 0.

    The paper says "randomly". Entries are uniform in [0, 2a], p a^2 = R/2: norm^2 is 2R/3 on
    average. The few longer rows are projected to norm^2 <= R, or equation 6 would not bound the
    gradients of the first step. Independent of the data. With less ``spread`` all are nearer a:
    no rating is predicted far from R/2 because of the draw, as of items that few have rated.
    """
    within = spread * uniform + (1.0 - spread) / 2.0
    drawn = within * math.sqrt(2.0 * bound / uniform.shape[-1])
    return project(drawn, bound).astype(np.float32)


def project(embeddings: Floats, bound: float, floor: float = 0.0) -> Floats:
    """The nearest rows without entries below ``floor`` and of norm^2 <= ``bound`` (equation 6)."""
    raised = np.maximum(embeddings, floor)
    norm = np.sqrt(np.einsum("...i,...i->...", raised, raised) / raised.dtype.type(bound))
    return np.asarray(raised / np.maximum(norm, 1.0)[..., None])


def trim(ratings: sparse.csr_array, most: int, streams: Streams) -> sparse.csr_array:
    """At most ``most`` ratings of every user, drawn uniformly by its stream (section 4.1.1)."""
    counts = np.diff(ratings.indptr)
    if ratings.nnz == 0 or counts.max() <= most:
        return ratings
    rows = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(ratings.nnz) - np.repeat(ratings.indptr[:-1], counts)
    keys = streams.laplace_at(rows, place)  # any continuous distribution: only the order counts
    order = np.lexsort((keys, rows))
    keep = np.sort(order[place < most])  # rows are in order, so places are ranks there
    indptr = np.concatenate([[0], np.cumsum(np.minimum(counts, most))])
    return sparse.csr_array(
        (ratings.data[keep], ratings.indices[keep], indptr), shape=ratings.shape
    )


def blocks(n: int, size: int) -> Iterator[Ints]:
    """Places of n parties of one user, so many at once as have four million numbers of ``size``."""
    for block in compute.blocks(n, size, _NUMBERS):
        yield np.arange(block.start, block.stop)


def batch_size(n: int, rate: float) -> int:
    """n' = rate n, at least one row."""
    return max(1, round(rate * n))


def item_gradients(users: Floats, items: Floats, ratings: Floats) -> NDArray[np.float32]:
    """2 (u.v - x) u of single ratings (k,), at ``users`` and ``items`` (k, p): (k, p)."""
    error = np.einsum("ij,ij->i", users, items) - ratings
    return np.asarray(2.0 * error[:, None] * users, np.float32)


def rate_at(step: int, steps: float, rate: float) -> float:
    """The learning rate of a step: falling linearly over the first 80%, then level (section 4.3).

    To 52% of ``rate``, as in Abadi et al. 2016, section 5.2, to which the paper refers.
    """
    return rate * (1.0 - (1.0 - _LAST) * min(1.0, step / max(1.0, _SLOWING * steps)))


@lru_cache(maxsize=256)
def accounted(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon of ``steps`` Poisson-sampled Gaussians as the paper's experiments calculate it.

    They use TensorFlow Privacy (section 2.2, reference 44, of December 2021). It takes the least
    over ``_ORDERS`` of the conversion of Canonne, Kamath and Steinke 2020, Proposition 12, of the
    Renyi curve. Theorem 1 prints a larger bound, ``by_tail_bound``. Propositions 2 and 3 give only
    the order of either, with constants that are none.
    """
    from dp_accounting.rdp import RdpAccountant

    if noise_multiplier == 0.0:
        return math.inf
    accountant = RdpAccountant(orders=_ORDERS)
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise_multiplier)), steps)
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=256)
def by_tail_bound(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """The same by Theorem 1, after Abadi et al. 2016, Theorem 2: least (alpha(l) + ln 1/delta)/l.

    Of the moments alpha(l) of the same steps, over moments l that are enough to find it.
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
    """``steps`` noisy gradients at ``noise_multiplier`` times the sensitivity, each ``drawn``."""
    if noise_multiplier == 0.0:
        return dp.NonPrivateDpEvent()
    one = dp.GaussianDpEvent(noise_multiplier)
    return dp.SelfComposedDpEvent(drawn(one) if drawn else one, steps)
