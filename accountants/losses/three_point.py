"""Randomizers of which one use has three privacy losses at most: +L, 0 and -L."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_accounting import DpEvent, RandomizedResponseDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent, PureDpEvent
from fedrec_auditor.accountants.statements.bound import check_epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class Ternary:
    """The pair of laws that dominates every pair of inputs, whichever is taken for the first.

    Outputs of three kinds: likely under the first input (probability ``high`` against ``low``),
    likely under the second (``low`` against ``high``), and telling nothing (the rest). For
    randomized response this is the law itself. For a bit flipped with P(1 | 1) = p >= P(1 | 0) = q
    it has low = min(q, 1 - p) and high = low + p - q. Proof: for e^eps >= 1 the hockey-stick
    divergences of the two directions are (p - e^eps q)+ and (1 - q - e^eps (1 - p))+; both are
    p - q at eps = 0 and linear in e^eps until they vanish, so that of gentler slope is the larger
    throughout, and it is (high - e^eps low)+. Below, H(a) = 1 - a + a H(1/a) mirrors it. A
    composition in which some bits are flipped one way and some the other is covered, which the
    larger of the two directions composed by themselves would not be.
    """

    high: float
    low: float

    @classmethod
    def of(cls, event: DpEvent) -> Ternary:
        """Read a randomized response, a bit flip or a pure epsilon; InputError if it is none."""
        if isinstance(event, PureDpEvent):
            low = math.exp(-check_epsilon(event.epsilon))
            return cls(high=1.0 / (1.0 + low), low=low / (1.0 + low))
        if isinstance(event, RandomizedResponseDpEvent):
            noise, buckets = event.noise_parameter, event.num_buckets
            if not (0 <= noise <= 1 and buckets >= 1):
                raise InputError(f"Expected a noise in [0, 1] and a bucket at least, got {event}.")
            if buckets == 1:
                return cls(high=0.0, low=0.0)
            return cls(high=1.0 - noise + noise / buckets, low=noise / buckets)
        assert isinstance(event, BitFlipDpEvent)
        if not (0 <= event.p <= 1 and 0 <= event.q <= 1):
            raise InputError(f"Expected rates in [0, 1], got {event}.")
        p, q = max(event.p, event.q), min(event.p, event.q)
        # Whichever is smaller is kept as it is; the other follows without cancellation.
        return cls(high=p, low=q) if q <= 1.0 - p else cls(high=1.0 - q, low=1.0 - p)

    @property
    def loss(self) -> float:
        """L, the pure epsilon of one use; 0 if the output tells nothing."""
        if self.high == self.low:
            return 0.0
        return math.log(self.high) - math.log(self.low) if self.low > 0 else math.inf

    @property
    def silent(self) -> float:
        """Probability of an output that tells nothing."""
        return max(0.0, 1.0 - self.high - self.low)
