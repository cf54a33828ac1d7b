"""Variance of the noise in a secure aggregation of two rounds, with dropouts and replaced noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Checked, Count, CountOrZero, ShareBelow1, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRoundNoise(Checked):
    """Secure aggregation in two rounds, whose clients replace their noise by smaller noise.

    1. Client i sends g_i + xi_i, its gradient plus noise. The server sees only the sum S.
    2. Client i sends R_i = -xi_i + xi'_i, which replaces xi_i by smaller noise xi'_i. The server
       sees every R_i.

    A survivor of a round has not dropped out by its end. Variances are in units of sigma^2, where
    sigma is the protocol's scale of the noise.

    ``n_users``: number n of users.
    ``omega``: largest share of users who may drop out in round 1.
    ``masked``: number m of survivors of round 1, whose masked messages are in the sum S. The
        variance of xi_i is zeta1 = 1/((1 - omega) n) (``round_1_variance``).
    ``replaced``: number of survivors of round 2. The variance of xi'_i is zeta2 = 1/announced
        (``round_2_variance``).
    ``colluding``: number of survivors of both rounds who reveal their gradients and noise to the
        server.
    ``announced``: number of survivors of round 1 that the server announces to the clients; None
        means m.
    ``repaired``: whether clients follow the repaired protocol, see below.

    Let h1 = masked - colluding and h2 = replaced - colluding be the numbers of honest survivors.
    The noise that hides one honest user's gradient from the server has the variance

        v = h2 zeta1 zeta2/(zeta1 + zeta2) + (h1 - h2) zeta1.

    The paper (Li et al. 2021, Theorem 5) accounts for the final sum S + sum of R_i alone, whose
    noise has the larger variance ``claimed_variance``.

    In the ``repaired`` protocol, xi_i = a_i + b_i has independent parts of variance zeta2 and zeta1
    - zeta2, and R_i = -b_i. v is then ``claimed_variance``. The protocol needs announced > (1 -
    omega) n. It does not protect against a server that announces too many survivors.
    """

    # Without dropouts, and if all are honest, v is 1/(2 - omega) < 1. If the server announces too
    # many survivors, clients add too little noise.
    # Derivation: the server estimates g by S' + c (sum of R_i). S' is the sum of g and of the noise
    # xi_i of the h1 honest survivors, and c = zeta1/(zeta1 + zeta2). The best estimate has this c,
    # the mean g, and the variance v.
    # For honest users and an honest server, v is a (b/(1 - omega + a) + (1 - b)/(1 - omega)) with a
    # = m/n and b = replaced/m (docs/claims.md).
    # In the repaired protocol, c = 1, and announced > (1 - omega) n makes zeta1 - zeta2 positive.
    # Against a server that announces too many survivors, clients must learn the number from each
    # other (from signed lists, as in secure aggregation with an active adversary), or must not
    # replace noise.

    n_users: Count
    omega: ShareBelow1
    masked: CountOrZero
    replaced: CountOrZero
    colluding: CountOrZero = 0
    announced: float | None = None
    repaired: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.replaced <= self.masked <= self.n_users:
            raise InputError(
                f"Expected replaced <= masked <= n_users, got replaced={self.replaced!r}, masked="
                f"{self.masked!r}, n_users={self.n_users!r}. Lower replaced or masked."
            )
        if self.masked < self.min_masked * (1.0 - 1e-12):
            raise InputError(
                f"Expected masked (users whose first message arrives) >= (1 - omega) n_users = "
                f"{self.min_masked:g}, got masked={self.masked!r}. Raise masked or omega."
            )
        if not (self.colluding <= self.replaced and self.colluding < self.masked):
            raise InputError(
                f"Expected colluding <= replaced={self.replaced!r} and colluding < masked="
                f"{self.masked!r}, got colluding={self.colluding!r}. Lower colluding."
            )
        if self.announced is not None and not self.masked <= self.announced < math.inf:
            raise InputError(
                f"Expected finite announced >= masked={self.masked!r}, as the server counts users "
                f"after round 1, got announced={self.announced!r}. Set announced to masked."
            )
        if self.repaired and self.n_announced <= self.min_masked * (1.0 + 1e-12):
            raise InputError(
                f"Expected announced (default: masked) > (1 - omega) n_users = {self.min_masked:g} "
                f"if repaired=True, got {self.n_announced!r}. Set announced to a larger number."
            )

    @property
    def min_masked(self) -> float:
        """Smallest allowed value of ``masked``, the number of survivors of round 1.

        The value is (1 - ``omega``) ``n_users``. With fewer survivors the protocol stops.
        """
        return (1.0 - self.omega) * self.n_users

    @property
    def n_announced(self) -> float:
        """Number of survivors of round 1 that the server announces: ``announced``, or by default
        the true number.
        """
        return self.masked if self.announced is None else self.announced

    @property
    def round_1_variance(self) -> float:
        """Variance of a user's noise in round 1, in units of the protocol's sigma^2."""
        return 1.0 / self.min_masked

    @property
    def round_2_variance(self) -> float:
        """Variance of the noise that replaces a user's noise in round 2, in units of sigma^2."""
        return 1.0 / self.n_announced

    @property
    def round_2_weight(self) -> float:
        """Weight c of the messages of round 2 in the server's best estimate of a gradient.

        The estimate is S + c (sum of R_i), for the sum S of round 1 and messages R_i of round 2.
        """
        first, second = self.round_1_variance, self.round_2_variance
        return 1.0 if self.repaired else first / (first + second)

    @property
    def variance(self) -> float:
        """Variance of the noise that hides one honest user's gradient from the server.

        The unit is sigma^2, where sigma is the protocol's scale of the noise.
        """
        # The server sees the sum of the messages of round 1, and every message of round 2.
        own = self.round_2_variance if self.repaired else 1.0 / (self.min_masked + self.n_announced)
        return self._sum_over_honest(own)

    @property
    def claimed_variance(self) -> float:
        """Variance that the paper accounts for: that of the honest users' noise in the final sum of
        both rounds.

        The unit is sigma^2. The server also sees every single message of round 2.
        """
        # The server also sees every single message of round 2.
        return self._sum_over_honest(self.round_2_variance)

    def _sum_over_honest(self, replaced: float) -> float:
        honest = self.replaced - self.colluding
        return honest * replaced + (self.masked - self.replaced) * self.round_1_variance


def min_variance(
    *, omega: float, colluding_share: float = 0.0, overstated: float = 1.0, repaired: bool = False
) -> float:
    """Returns the smallest variance of the noise that hides a gradient, over all possible dropouts.

    omega: largest share of users who drop out, in [0, 1)
    colluding_share: share of all users who reveal their gradients and noise to the server, in
        [0, 1)
    overstated: announced number of survivors of round 1, divided by the true number: a factor L of
        at least 1, and 1 for an honest server
    repaired: whether clients follow the repaired protocol

    The variance is ``TwoRoundNoise.variance``, in units of sigma^2. The result is

        v = (1 - omega - c)/((1 - omega) (1 + L)),    with L in place of 1 + L if repaired,

    for c = ``colluding_share``, or 0 if colluding users leave no noise. If all are honest, v is 1/2
    for every omega, or 1 if repaired. Raises InputError for arguments outside their ranges.
    """
    # Derivation: the noise of a survivor of round 2 has at most the variance of round 1, so that a
    # dropout in round 2 only adds noise. Without such dropouts, and if m of n users survive round
    # 1, v is (m - c n)/((1 - omega) n + L m), or (m - c n)/(L m) if repaired. Both increase with m,
    # so that v is smallest at m = (1 - omega) n. The repaired v is the limit as m falls to (1 -
    # omega) n. It is also the smallest variance of the final sum, whether the protocol is repaired
    # or not.
    for name, share in (("omega", omega), ("colluding_share", colluding_share)):
        if not 0.0 <= share < 1.0:
            raise InputError(f"Expected {name} in [0, 1), got {share!r}. Give a share of users.")
    if not 1.0 <= overstated < math.inf:
        raise InputError(f"Expected finite overstated >= 1, got {overstated=}. Give 1 or more.")
    honest = max(0.0, 1.0 - omega - colluding_share) / (1.0 - omega)
    return honest / (overstated if repaired else 1.0 + overstated)
