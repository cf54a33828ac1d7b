"""Cross-check of the accountants (which prove upper bounds on epsilon): an independent, fast lower
bound that every proved epsilon must reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fedrec_auditor.accountants.errors import AuditError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import list_leaves
from fedrec_auditor.accountants.losses.pure import count_epsilons, get_pure_epsilon
from fedrec_auditor.accountants.losses.responses import compose_pure_epsilons
from fedrec_auditor.accountants.statements import Bound, check_delta

# Largest number of uses and of different pure epsilons for which this check takes 10 ms.
_MOST_USES, _MOST_KINDS = 10**6, 3
# Tolerance between a proved epsilon and the lower bound, for numerical errors of both.
_SLACK = 1e-6


def compute_min_epsilon(event: dp.DpEvent, delta: float) -> float:
    """Returns a lower bound on every epsilon that a correct accountant can prove for ``event``.

    The result is the larger of two exact epsilons at ``delta``:

    - the epsilon of all Gaussian mechanisms together;
    - the epsilon of all binary randomized responses and known pure epsilons together. At delta 0,
      Laplace mechanisms are included.

    An epsilon that cannot be computed counts as 0.
    """
    # The value is valid for the whole event, because seeing the outputs of further mechanisms never
    # reduces epsilon. The Gaussian mechanisms equal one Gaussian mechanism with mu = sqrt(sum of
    # 1/z^2), where z is the noise multiplier of each. Sampled or shuffled mechanisms, and too many
    # different pure epsilons, give no value.
    check_delta(delta)
    uses = list_leaves(event)
    mu = 0.0
    responses: list[tuple[dp.DpEvent, int]] = []
    for leaf, count in uses:
        if isinstance(leaf, dp.GaussianDpEvent):
            noise = leaf.noise_multiplier
            mu = math.hypot(mu, math.sqrt(count) / noise if noise > 0 else math.inf)
        elif _is_two_sided(leaf) or (delta == 0 and isinstance(leaf, dp.LaplaceDpEvent)):
            responses.append((leaf, count))
    kinds = count_epsilons(responses)
    known = _gaussian_epsilon(delta, mu)
    if delta == 0:
        return max(known, math.fsum(epsilon * count for epsilon, count in kinds))
    if len(kinds) > _MOST_KINDS or sum(count for _, count in kinds) > _MOST_USES:
        return known
    return max(known, compose_pure_epsilons(kinds, delta))


def _gaussian_epsilon(delta: float, mu: float) -> float:
    """Epsilon at ``delta`` of a Gaussian mechanism with sensitivity over standard deviation ``mu``,
    computed by dp-accounting.

    The library shares no code with the solver that the accountants use.
    """
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
    """Raises AuditError if any of the upper ``bounds`` proved for ``event`` is below the lower
    bound that ``compute_min_epsilon`` returns.
    """
    for bound in bounds:
        least = compute_min_epsilon(event, bound.delta)
        if bound.epsilon < least - _SLACK * max(1.0, least) or math.isnan(bound.epsilon):
            raise AuditError(
                f"Expected an upper bound on epsilon >= the lower bound {least:.9g} at delta="
                f"{bound.delta:.3g} for {event}, got {bound.epsilon:.9g} from {bound.source}. One "
                "of the two bounds is wrong. Report this line, and trust neither bound."
            )


def _is_two_sided(leaf: dp.DpEvent) -> bool:
    """Whether a mechanism is binary randomized response, or known only by a pure epsilon (binary
    randomized response is then its worst case).
    """
    if isinstance(leaf, dp.RandomizedResponseDpEvent):
        return leaf.num_buckets == 2 and math.isfinite(get_pure_epsilon(leaf))
    if isinstance(leaf, dp.BitFlipDpEvent):
        return leaf.p + leaf.q == 1.0 and math.isfinite(get_pure_epsilon(leaf))
    return isinstance(leaf, dp.PureDpEvent)
