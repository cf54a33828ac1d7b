"""What is left of noise that clients replace behind secure aggregation, when some drop out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Checked, ShareOrNone, Whole, WholeOrNone, check


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseShares(Checked):
    """Two messages a client: g_i + xi_i, of which only the sum is shown, then R_i, each shown.

    Variances are in units of sigma^2. Round 1: of ``n_users``, ``masked`` = m survive, and secure
    aggregation shows S = sum of g_i + xi_i, xi_i ~ N(0, zeta1), zeta1 = 1/((1 - omega) n). Round 2:
    ``replaced`` of those survive and send R_i = -xi_i + xi'_i, xi'_i ~ N(0, zeta2). They are told
    that ``announced`` survived round 1 and take zeta2 = 1/announced: a server that overstates the
    number has less noise put in the place of the first. ``colluding`` users survive both rounds and
    give their gradients and noises away; h1 = m - colluding and h2 = replaced - colluding are
    honest. What the server then knows is S' = g + sum of h1 xi_i, for the gradient g of one
    honest user, and h2 messages R_i.

    Best statistic: given R_i, xi_i has mean -c R_i with c = zeta1/(zeta1 + zeta2) and variance
    zeta1 zeta2/(zeta1 + zeta2), independently of all else. So S' + c sum of R_i has mean g and the
    least variance there is,

        v = h2 zeta1 zeta2/(zeta1 + zeta2) + (h1 - h2) zeta1,

    and all that is seen tells of g as much as one Gaussian of that variance does: mu = |g|/(sigma
    sqrt(v)). With a = m/n, b = replaced/m, honest users and server, that is the catalogue's
    a (b/(1 - omega + a) + (1 - b)/(1 - omega)), and 1/(2 - omega) < 1 without dropouts. The paper
    (Li et al. 2021, Theorem 5) accounts S + sum of R_i alone: ``claimed_variance``.

    ``repaired`` is xi_i = a_i + b_i in independent parts, of zeta2 and zeta1 - zeta2, and
    R_i = -b_i: the same messages and result, and c = 1, so v is the variance of the last sum. It
    needs announced > (1 - omega) n, or there is no noise to take back. It does not help against
    a server that lies: clients must learn the number of survivors from each other (from signed
    lists, as secure aggregation against an active server has them), or none is to be replaced.
    """

    n_users: Whole
    omega: ShareOrNone
    masked: WholeOrNone
    replaced: WholeOrNone
    colluding: WholeOrNone = 0
    announced: float | None = None
    repaired: bool = False

    def __post_init__(self) -> None:
        check(self)
        if not self.replaced <= self.masked <= self.n_users:
            raise InputError(
                f"Expected replaced <= masked <= n_users, got replaced={self.replaced!r}, "
                f"masked={self.masked!r}, n_users={self.n_users!r}. Survivors of round 2 survived."
            )
        if self.masked < self.needed * (1.0 - 1e-12):
            raise InputError(
                f"Expected at least (1 - omega) n_users = {self.needed:g} users masked, got "
                f"masked={self.masked!r}. With fewer the protocol halts."
            )
        if not (self.colluding <= self.replaced and self.colluding < self.masked):
            raise InputError(
                f"Expected colluding <= replaced and colluding < masked, got "
                f"colluding={self.colluding!r}. Colluding users do not drop out, and one is honest."
            )
        if self.announced is not None and not self.masked <= self.announced < math.inf:
            raise InputError(
                f"Expected a finite announced >= masked, got announced={self.announced!r}, "
                f"masked={self.masked!r}. A server that understates adds noise for nothing."
            )
        if self.repaired and self.told <= self.needed * (1.0 + 1e-12):
            raise InputError(
                f"Expected more than (1 - omega) n_users = {self.needed:g} users masked, got "
                f"masked={self.masked!r}. With as few there is no noise to take back."
            )

    @property
    def needed(self) -> float:
        """(1 - omega) n: how many the noise of round 1 is dealt to."""
        return (1.0 - self.omega) * self.n_users

    @property
    def told(self) -> float:
        """How many survivors are announced."""
        return self.masked if self.announced is None else self.announced

    @property
    def zeta1(self) -> float:
        """Variance of one user's first noise."""
        return 1.0 / self.needed

    @property
    def zeta2(self) -> float:
        """Variance of one user's second noise."""
        return 1.0 / self.told

    @property
    def weight(self) -> float:
        """c of the best statistic S + c sum of R_i."""
        return 1.0 if self.repaired else self.zeta1 / (self.zeta1 + self.zeta2)

    @property
    def variance(self) -> float:
        """v: what the server cannot know of the noise in S."""
        left = self.zeta2 if self.repaired else 1.0 / (self.needed + self.told)
        return self._left(left)

    @property
    def claimed_variance(self) -> float:
        """What it cannot know of the noise in the last sum, which is all that is published."""
        return self._left(self.zeta2)

    def _left(self, replaced: float) -> float:
        honest = self.replaced - self.colluding
        return honest * replaced + (self.masked - self.replaced) * self.zeta1


def least_variance(
    *, omega: float, colluding: float = 0.0, announced: float = 1.0, repaired: bool = False
) -> float:
    """The least v over all dropouts for which the protocol goes on; 0 if nothing is left.

    ``colluding`` is a share of all users and ``announced`` the announced number of survivors in
    units of the true one, L. As 1/(1/zeta1 + 1/zeta2) and zeta2 are at most zeta1, v is least if
    nobody drops out of round 2; and (m - colluding n)/((1 - omega) n + L m), or
    (m - colluding n)/(L m) repaired, rises with m. So it is least at m = (1 - omega) n, where

        v = (1 - omega - colluding)/((1 - omega) (1 + L)),    with L in place of 1 + L repaired:

    half of sigma^2 for an honest server and honest users, however small omega is. Repaired it is
    the limit as m falls to (1 - omega) n, and the least variance of the result of either protocol.
    """
    if not (0.0 <= omega < 1.0 and 0.0 <= colluding < 1.0 and 1.0 <= announced < math.inf):
        raise InputError(
            f"Expected omega and colluding in [0, 1) and announced in [1, inf), got "
            f"omega={omega!r}, colluding={colluding!r}, announced={announced!r}. "
            "Give shares, and an announced number in units of the true one."
        )
    honest = max(0.0, 1.0 - omega - colluding) / (1.0 - omega)
    return honest / (announced if repaired else 1.0 + announced)
