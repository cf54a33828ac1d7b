"""Why no finite epsilon can be had for an event, in one sentence."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import check_parameters, leaves, sampling_rate
from fedrec_auditor.accountants.losses.pure import ThreePointLoss
from fedrec_auditor.accountants.statements.bound import check_delta

_UNBOUNDED = (dp.GaussianDpEvent, dp.ZCDpEvent, dp.MixtureOfGaussiansDpEvent)


def why_infinite(event: dp.DpEvent, delta: float) -> str:
    """The first reason why no epsilon holds for ``event`` at ``delta``; "" if none is found.

    It names the part of the event, and what would help. InputError for a senseless event or delta.
    """
    check_delta(delta)
    for leaf, count in leaves(event):
        check_parameters(leaf)
        reason = _reason(leaf, count, delta)
        if reason:
            return reason
    return ""


def _reason(leaf: dp.DpEvent, count: int, delta: float, rate: float = 1.0) -> str:
    """Of a leaf that happens with probability ``rate``, ``count`` times."""
    drawn = getattr(leaf, "event", None)
    if isinstance(drawn, dp.DpEvent):
        sampled = sampling_rate(leaf)
        return _reason(drawn, count, delta, sampled) if sampled > 0 else ""
    if _revealed(1.0, rate, count) > delta:
        if isinstance(leaf, dp.NonPrivateDpEvent):
            return "A part of it is sent in the clear, or nothing bounds what it tells."
        if isinstance(leaf, (dp.PureDpEvent, dp.ShuffledDpEvent)) and math.isinf(leaf.epsilon):
            return "Nothing bounds the epsilon of a part of it."
        if isinstance(leaf, (dp.GaussianDpEvent, dp.LaplaceDpEvent)) and leaf.noise_multiplier == 0:
            return "There is no noise in a part of it: the multiplier is 0."
    if isinstance(leaf, (dp.BitFlipDpEvent, dp.RandomizedResponseDpEvent)):
        pair = ThreePointLoss.of(leaf)
        revealed = _revealed(pair.likely, rate, count)
        if math.isinf(pair.loss) and revealed > delta:
            return (
                "An output is possible under one input only, and rules the other out when it is "
                f"seen: with probability {revealed:.4g}, above delta ({_said(leaf)})."
            )
    if delta == 0.0 and isinstance(leaf, _UNBOUNDED):
        return (
            "Under Gaussian noise some outputs are likelier by any factor, so no epsilon holds at "
            "delta 0; ask at a delta above 0."
        )
    return ""


def _said(leaf: dp.BitFlipDpEvent | dp.RandomizedResponseDpEvent) -> str:
    if isinstance(leaf, dp.BitFlipDpEvent):
        return f"a 1 is sent as 1 with probability {leaf.p:.4g}, a 0 with {leaf.q:.4g}"
    return f"one of {leaf.num_buckets} values is sent as it is"


def _revealed(mass: float, rate: float, count: int) -> float:
    """The probability that what happens with ``rate`` and then tells all with ``mass`` does so."""
    mass *= rate
    return 1.0 if mass >= 1.0 else -math.expm1(count * math.log1p(-mass))
