"""What the PrivRec paper's accounting prints for any population (Tables 3 and 4, section 4.4).

All 36 entries come out, to the digits printed (which are cut, not rounded), of this: Theorem 9 of
Wang, Balle and Kasiviswanathan (2019) for sampling without replacement under replace-one adjacency,
with a Gaussian of Rényi curve a / (2 z^2), integer orders, the classic conversion, and T = E1 M
steps. Algorithm 2 takes E1 steps: each is counted M times. (The text of section 2.3.4 says N/M,
which gives none of the entries.)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

_ORDERS = 64


def printed_epsilon(
    *, clients: int, n_users: int, rounds: int, multiplier: float, delta: float
) -> float:
    """The epsilon that the authors would print for E1 = ``rounds``; infinite at delta 0."""
    if delta == 0:
        return math.inf
    orders = np.arange(2, _ORDERS + 1)
    curve = np.array([amplified(clients / n_users, int(a), multiplier) for a in orders])
    return float(np.min(rounds * clients * curve + math.log(1 / delta) / (orders - 1)))


def amplified(rate: float, order: int, multiplier: float) -> float:
    """Theorem 9: the Rényi divergence of whole ``order`` after sampling at ``rate``.

    1/(a-1) ln(1 + q^2 C(a,2) min(4 (e^{r(2)} - 1), 2 e^{r(2)})
               + sum over j = 3..a of 2 q^j C(a,j) e^{(j-1) r(j)}),   r(a) = a / (2 z^2).
    """
    j: NDArray[np.float64] = np.arange(2, order + 1, dtype=np.float64)
    choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    moments = (j - 1) * j / (2 * multiplier**2) + math.log(2)
    second = 1 / multiplier**2
    moments[0] = min(math.log(4) + second + math.log(-math.expm1(-second)), math.log(2) + second)
    terms = j * math.log(rate) + choose + moments
    return float(logsumexp(np.append(terms, 0.0)) / (order - 1))
