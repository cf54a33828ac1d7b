"""Adaptive clipping: one noise multiplier for two queries, the update and the share not clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError


def joint_multiplier(*multipliers: float) -> float:
    """The noise multiplier of one Gaussian that is worth several, asked of the same records.

    1/z^2 adds up over the queries: scaled to unit noise their sensitivities are 1/z each, in
    orthogonal directions. Exact if one record may move all queries by their sensitivities at once.
    """
    for multiplier in multipliers:
        if not multiplier > 0:
            raise InputError(f"Expected multipliers above 0, got {multiplier!r}. Add noise.")
    moved = math.hypot(*(1.0 / multiplier for multiplier in multipliers))
    return 1.0 / moved if moved > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveClipping:
    """What a round of DP-PrivRec is worth, by whose formula: noise multipliers, larger is more.

    The average of M updates clipped to S has sensitivity 2S/M when one client is replaced, and the
    share b of those that were not clipped 1/M, as b is 0 or 1; the paper says 2/M. ``multiplier``
    is z, ``balance`` h splits it, ``step`` is alpha3, by which line 9 multiplies the average.
    Wang et al. 2021, Algorithm 2 lines 8 to 11 and 22 to 23, section 2.3.4, Theorem 1.
    """

    multiplier: float = 1.0
    balance: float = 0.7
    step: float = 1.0

    def __post_init__(self) -> None:
        for name in ("multiplier", "step"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"Expected {name} > 0, got {name}={value!r}. Correct the setting.")
        if not 0 < self.balance < 1:
            raise InputError(
                f"Expected balance in (0, 1), got balance={self.balance!r}. Without a share to "
                "release, nothing is split."
            )

    @property
    def as_printed(self) -> float:
        """Line 9's noise after the step, and b of lines 22-23, which is 1 whatever the update.

        The share says nothing; the update alone has z/(alpha3 sqrt(1 - h)), less than z where
        alpha3 sqrt(1 - h) > 1.
        """
        return self.multiplier / (self.step * math.sqrt(1.0 - self.balance))

    @property
    def repaired(self) -> float:
        """The step multiplies the noise, and b is computed before clipping: at least z."""
        z, h = self.multiplier, self.balance
        return joint_multiplier(z / math.sqrt(1.0 - h), 2.0 * z / math.sqrt(h))
