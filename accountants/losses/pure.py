"""Pure epsilon (epsilon at delta 0) of a single mechanism, and the reason why an event has no
finite epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp, leaves
from fedrec_auditor.accountants.statements import check_delta

# Event classes that ``ThreePointPair`` supports.
THREE_POINT_EVENTS = (dp.RandomizedResponseDpEvent, dp.BitFlipDpEvent, dp.PureDpEvent)
# Event classes that have a pure epsilon, without any composition.
PURE_EVENTS = (*THREE_POINT_EVENTS, dp.LaplaceDpEvent, dp.ShuffledDpEvent)
# Different pure epsilons above 0 in ascending order, each with its number of uses.
EpsilonCounts = tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreePointPair:
    """Dominating pair of a randomized response or a bit flip, with the privacy losses L, 0 and -L.

    Output A is likelier under input 1, output B is likelier under input 2, and a third output is
    equally likely under both.

    - ``p_own``: P(A | 1) = P(B | 2).
    - ``p_other``: P(B | 1) = P(A | 2).

    The pair dominates every pair of inputs of the mechanism, in both orders. For a bit flip, this
    includes compositions in which bits change in different directions.
    """

    # Randomized response: A and B are the two true values. A bit flipped with P(1 | 1) = p >= P(1 |
    # 0) = q: ``p_other`` is min(q, 1 - p), and ``p_own`` is larger by p - q.

    # Proof: for e^eps >= 1 the hockey-stick divergences of the two directions are (p - e^eps q)+
    # and (1 - q - e^eps (1 - p))+. Both divergences are p - q at eps = 0 and linear in e^eps until
    # they vanish. So the divergence with the gentler slope is the larger throughout, and it is
    # (p_own - e^eps p_other)+. For e^eps = a < 1, the identity H(a) = 1 - a + a
    # H(1/a) of the divergence H mirrors this. Composing each direction separately and taking the
    # larger result would not cover a composition of bits flipped in different directions.

    p_own: float
    p_other: float

    @classmethod
    def from_event(cls, event: dp.DpEvent) -> ThreePointPair:
        """Builds the dominating pair of a randomized response, a bit flip, or a mechanism of which
        only a pure epsilon is known. Raises InputError for any other event.
        """
        if not isinstance(event, THREE_POINT_EVENTS):
            kinds = " or ".join(kind.__name__ for kind in THREE_POINT_EVENTS)
            raise InputError(f"Expected event to be a {kinds}, got {event}. Give one of these.")
        leaves.check_parameters(event)
        if isinstance(event, dp.PureDpEvent):
            odds = math.exp(-event.epsilon)
            return cls(p_own=1.0 / (1.0 + odds), p_other=odds / (1.0 + odds))
        if isinstance(event, dp.RandomizedResponseDpEvent):
            noise, buckets = event.noise_parameter, event.num_buckets
            if buckets == 1:
                return cls(p_own=0.0, p_other=0.0)
            return cls(p_own=1.0 - noise + noise / buckets, p_other=noise / buckets)
        p, q = max(event.p, event.q), min(event.p, event.q)
        # p_other is min(q, 1 - p); p_own = p_other + p - q needs no subtraction, which would lose
        # digits.
        if q <= 1.0 - p:
            return cls(p_own=p, p_other=q)
        return cls(p_own=1.0 - q, p_other=1.0 - p)

    @property
    def max_loss(self) -> float:
        """Largest privacy loss L, which is the pure epsilon of one use; 0 if all outputs are
        equally likely under both inputs.
        """
        if self.p_own == self.p_other:
            return 0.0
        return math.log(self.p_own) - math.log(self.p_other) if self.p_other > 0 else math.inf

    @property
    def p_uninformative(self) -> float:
        """Probability of an output with privacy loss 0, which is the same under either input."""
        return max(0.0, 1.0 - self.p_own - self.p_other)


def get_pure_epsilon(leaf: dp.DpEvent) -> float:
    """Returns the pure epsilon of one use of a mechanism; infinite for a mechanism without noise.

    ``leaf`` is the mechanism's event, of a class in ``PURE_EVENTS``. A shuffled report counts as if
    it were not shuffled. Raises InputError if a parameter is out of range.
    """
    leaves.check_parameters(leaf)
    if isinstance(leaf, dp.LaplaceDpEvent):
        return 1.0 / leaf.noise_multiplier if leaf.noise_multiplier > 0 else float("inf")
    if isinstance(leaf, (dp.PureDpEvent, dp.ShuffledDpEvent)):
        return float(leaf.epsilon)
    return ThreePointPair.from_event(leaf).max_loss


def amplify_epsilon(epsilon: float, rate: float, *, replaced: bool = False) -> float:
    """Computes the pure epsilon of a mechanism on a Poisson sample.

    - ``epsilon``: pure epsilon of the mechanism without sampling.
    - ``rate``: probability with which each record is sampled.
    - ``replaced``: true if neighbouring inputs differ by replacing a record, false if they differ
      by adding or removing it.

    Added or removed record: the result is ln(1 + rate (e^epsilon - 1)) (Balle, Barthe and Gaboardi
    2018, Theorems 8 and 9 at delta 0). Replaced record: the result is larger by -ln(1 - rate + rate
    e^-epsilon).
    """
    # The first value is the largest loss of the input with the record against the input without it.
    # The largest loss of the input without the record, -ln(1 - rate + rate e^-epsilon), is smaller.
    # If a record is replaced, the result is the sum of these two losses. Reason: compared with an
    # input that lacks the record, a record changes the probability of an output by a factor 1 -
    # rate + rate x, with x from e^-epsilon to e^epsilon. The ratio is largest if one record has the
    # largest x and its replacement the smallest.
    if rate == 0.0 or rate == 1.0 or math.isinf(epsilon):
        return epsilon * (1 + replaced) if rate else 0.0
    back = -math.log1p(rate * math.expm1(-epsilon)) if replaced else 0.0
    if epsilon > 30.0:
        return epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon)) + back
    return math.log1p(rate * math.expm1(epsilon)) + back


def count_epsilons(uses: list[tuple[dp.DpEvent, int]]) -> EpsilonCounts:
    """Returns the different pure epsilons of mechanisms, each with its total number of uses, sorted
    by epsilon.

    ``uses`` lists the mechanisms, each with its number of uses. Mechanisms with epsilon 0 are
    omitted.
    """
    counts: Counter[float] = Counter()
    for leaf, count in uses:
        counts[get_pure_epsilon(leaf)] += count
    return tuple(sorted((epsilon, count) for epsilon, count in counts.items() if epsilon > 0))


_UNBOUNDED = (dp.GaussianDpEvent, dp.ZCDpEvent, dp.MixtureOfGaussiansDpEvent)


def explain_infinite_epsilon(event: dp.DpEvent, delta: float) -> str:
    """Returns the first reason why no finite epsilon holds for ``event`` at ``delta``; "" if none
    is known.

    The text describes the part of the mechanism that is the cause. Raises InputError if the event
    or ``delta`` is invalid.
    """
    check_delta(delta)
    for leaf, count in leaves.list_leaves(event):
        leaves.check_parameters(leaf)
        reason = _explain_leaf(leaf, count, delta)
        if reason:
            return reason
    return ""


def _explain_leaf(leaf: dp.DpEvent, count: int, delta: float, rate: float = 1.0) -> str:
    """Reason why no finite epsilon holds at ``delta`` for ``count`` uses of a mechanism, each run
    with probability ``rate``; "" if none is known.
    """
    drawn = getattr(leaf, "event", None)
    if isinstance(drawn, dp.DpEvent):
        sampled = leaves.get_sampling_rate(leaf)
        return _explain_leaf(drawn, count, delta, sampled) if sampled > 0 else ""
    if _reveal_probability(1.0, rate, count) > delta:
        if isinstance(leaf, dp.NonPrivateDpEvent):
            return "A part of the data is sent without protection, or nothing bounds its leak."
        if isinstance(leaf, (dp.PureDpEvent, dp.ShuffledDpEvent)) and math.isinf(leaf.epsilon):
            return "No bound is known for the epsilon of a part of the mechanism."
        if isinstance(leaf, (dp.GaussianDpEvent, dp.LaplaceDpEvent)) and leaf.noise_multiplier == 0:
            return "A part of the mechanism adds no noise: its noise multiplier is 0."
    if isinstance(leaf, (dp.BitFlipDpEvent, dp.RandomizedResponseDpEvent)):
        pair = ThreePointPair.from_event(leaf)
        revealed = _reveal_probability(pair.p_own, rate, count)
        if math.isinf(pair.max_loss) and revealed > delta:
            return (
                f"With probability {revealed:.4g}, which exceeds delta ({delta:g}), the output is "
                f"possible under only one input and so reveals the input ({_describe(leaf)})."
            )
    if delta == 0.0 and isinstance(leaf, _UNBOUNDED):
        return (
            "Under Gaussian noise some outputs are likelier by any factor, so no epsilon holds at "
            "delta 0; ask at a delta above 0."
        )
    return ""


def _describe(leaf: dp.BitFlipDpEvent | dp.RandomizedResponseDpEvent) -> str:
    if isinstance(leaf, dp.BitFlipDpEvent):
        return f"1 is sent for a 1 with probability {leaf.p:.4g}, for a 0 with {leaf.q:.4g}"
    return f"one of {leaf.num_buckets} values is sent as it is"


def _reveal_probability(mass: float, rate: float, count: int) -> float:
    """Probability that at least one of ``count`` uses reveals the input, if each use reveals it
    with probability ``rate`` * ``mass``.
    """
    mass *= rate
    return 1.0 if mass >= 1.0 else -math.expm1(count * math.log1p(-mass))
