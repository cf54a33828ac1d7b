"""What a leaf costs in pure epsilon, and what is left of an event when no more is known of it."""

from __future__ import annotations

from collections import Counter

from dp_accounting import DpEvent, LaplaceDpEvent, RandomizedResponseDpEvent

from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent, PureDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.events.parameters import check_parameters
from fedrec_auditor.accountants.losses.three_point_loss import ThreePointLoss

PURE_EVENTS = (
    RandomizedResponseDpEvent,
    BitFlipDpEvent,
    PureDpEvent,
    LaplaceDpEvent,
    ShuffledDpEvent,
)
Kinds = tuple[tuple[float, int], ...]
"""Pure epsilons above 0, rising, each with how often it is spent."""


def pure_epsilon(leaf: DpEvent) -> float:
    """The pure epsilon of one use of one of ``PURE_EVENTS``; InputError for a senseless leaf.

    A shuffled report counts as if it were not shuffled; no noise at all is infinite.
    """
    check_parameters(leaf)
    if isinstance(leaf, LaplaceDpEvent):
        return 1.0 / leaf.noise_multiplier if leaf.noise_multiplier > 0 else float("inf")
    if isinstance(leaf, (PureDpEvent, ShuffledDpEvent)):
        return float(leaf.epsilon)
    return ThreePointLoss.of(leaf).loss


def pure_kinds(uses: list[tuple[DpEvent, int]]) -> Kinds:
    """The different epsilons of the leaves with their counts; what costs nothing is left out."""
    counts: Counter[float] = Counter()
    for leaf, count in uses:
        counts[pure_epsilon(leaf)] += count
    return tuple(sorted((epsilon, count) for epsilon, count in counts.items() if epsilon > 0))
