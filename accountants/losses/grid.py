"""Privacy loss distributions: from a pair of laws to the least epsilon, from above."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf
from numpy.typing import NDArray


def least_epsilon(log_p: NDArray[np.float64], log_q: NDArray[np.float64], delta: float) -> float:
    """The least epsilon at which the hockey-stick divergence of P from Q is at most ``delta``.

    Log-probabilities of outputs sorted by falling ratio p/q; in logs, as q falls below the
    smallest double long before its logarithm matters no more. The divergence at eps is the
    largest P(S) - e^eps Q(S) over the leading sets S, so epsilon is the largest
    ln((P(S) - delta)/Q(S)).
    """
    excess = np.cumsum(np.exp(log_p)) - delta
    leading = excess > 0
    if not leading.any():
        return 0.0
    log_mass = np.logaddexp.accumulate(log_q)[leading]
    return max(0.0, float(np.max(np.log(excess[leading]) - log_mass)))


def on_grid(
    mass: NDArray[np.float64], loss: NDArray[np.float64], infinite: float, step: float
) -> Any:
    """Privacy losses (finite, any shape) with their probabilities under P, on a grid, from above.

    An output of ratio e^l between two grid points is split in two, of the grid's ratios, so that
    P and Q keep their masses. Merging the two again is post-processing: the pair on the grid
    dominates the pair given, and is off by the second order of ``step`` only (compare Doroshenko
    et al. 2022, "connect the dots"). ``infinite`` is the P-mass of infinite loss. Returns
    dp-accounting's ``DensePLDPmf``.
    """
    mass, loss = np.ravel(mass), np.ravel(loss)
    below = np.floor(loss / step).astype(np.int64)
    # P-mass that moves up, from w e^-(k+1)s + (m - w) e^-ks = m e^-l.
    share = np.clip(np.expm1(below * step - loss) / math.expm1(-step), 0.0, 1.0)
    low = int(below.min())
    size = int(below.max()) - low + 2
    probs = np.bincount(below - low, weights=mass * (1.0 - share), minlength=size)
    probs += np.bincount(below - low + 1, weights=mass * share, minlength=size)
    return DensePLDPmf(step, low, probs, infinite, True)
