"""An independent lower bound for the epsilons of accountants, cheap enough to run every time."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fedrec_auditor.accountants.errors import AuditError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import leaves
from fedrec_auditor.accountants.losses.pure import pure_epsilon, pure_kinds
from fedrec_auditor.accountants.losses.responses import least_epsilon_of
from fedrec_auditor.accountants.statements import Bound, check_delta

# Largest numbers of uses and kinds of responses for which this check takes 10 ms.
_MOST_USES, _MOST_KINDS = 10**6, 3
# Tolerance between a proof and the exact value: the error that either may have.
_SLACK = 1e-6


def floor(event: dp.DpEvent, delta: float) -> float:
    """An epsilon below which no proof for ``event`` at ``delta`` can be.

    - All Gaussian leaves together cost the exact curve at sqrt(sum of 1/z^2).
    - All pure epsilons and two-sided responses together cost their optimal composition.
    - A Laplace leaf at delta 0 costs 1/z.

    An adversary who sees the other leaves too learns no less, so the floor is the largest of these.
    It is 0 if none applies (sampling, shuffles, too many different kinds).
    """
    check_delta(delta)
    uses = leaves(event)
    mu = 0.0
    responses: list[tuple[dp.DpEvent, int]] = []
    for leaf, count in uses:
        if isinstance(leaf, dp.GaussianDpEvent):
            noise = leaf.noise_multiplier
            mu = math.hypot(mu, math.sqrt(count) / noise if noise > 0 else math.inf)
        elif _two_sided(leaf) or (delta == 0 and isinstance(leaf, dp.LaplaceDpEvent)):
            responses.append((leaf, count))
    kinds = pure_kinds(responses)
    known = _gaussian(delta, mu)
    if delta == 0:
        return max(known, math.fsum(epsilon * count for epsilon, count in kinds))
    if len(kinds) > _MOST_KINDS or sum(count for _, count in kinds) > _MOST_USES:
        return known
    return max(known, least_epsilon_of(kinds, delta))


def _gaussian(delta: float, mu: float) -> float:
    """The epsilon by dp-accounting, because the accountants have a solver of their own."""
    if mu == 0:
        return 0.0
    if delta == 0:
        return math.inf
    if mu > 1e6:
        # The solver of dp-accounting ends here; the loss is above mu^2/2 - 40 mu except with
        # probability 1e-300.
        large = min(mu, 1e150)
        return large * (large / 2.0 - 40.0)
    with np.errstate(all="ignore"):
        return float(dp.get_epsilon_gaussian(1.0 / mu, delta))


def cross_check(event: dp.DpEvent, bounds: Iterable[Bound]) -> None:
    """Raises AuditError if one of the upper ``bounds`` for ``event`` is below its ``floor``."""
    for bound in bounds:
        least = floor(event, bound.delta)
        if bound.epsilon < least - _SLACK * max(1.0, least) or math.isnan(bound.epsilon):
            raise AuditError(
                f"Expected no bound below {least:.9g} at delta={bound.delta:.3g} for {event}, got "
                f"{bound.epsilon:.9g} from {bound.source}. One of the two accountants is wrong: "
                "report it, and trust neither."
            )


def _two_sided(leaf: dp.DpEvent) -> bool:
    """Whether the leaf is randomized response of its pure epsilon, or represents its worst case."""
    if isinstance(leaf, dp.RandomizedResponseDpEvent):
        return leaf.num_buckets == 2 and math.isfinite(pure_epsilon(leaf))
    if isinstance(leaf, dp.BitFlipDpEvent):
        return leaf.p + leaf.q == 1.0 and math.isfinite(pure_epsilon(leaf))
    return isinstance(leaf, dp.PureDpEvent)
