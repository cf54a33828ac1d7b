"""Leaves of accounting events (their single mechanisms): event classes that dp-accounting lacks,
and functions that list and check leaves.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from numbers import Real
from types import MappingProxyType
from typing import Any

import attr
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Scope


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BitFlipDpEvent(DpEvent):  # type: ignore[misc]
    """Accounting event of a randomized bit, for two neighbouring inputs that may be any two bits.

    - ``p``: probability of reporting 1 if the true bit is 1.
    - ``q``: probability of reporting 1 if the true bit is 0.
    """

    p: float
    q: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(DpEvent):  # type: ignore[misc]
    """Accounting event of a mechanism of which only one fact is known: it satisfies (``epsilon``,
    0)-DP.

    - ``epsilon``: the pure epsilon of the mechanism.

    Accountants treat the mechanism as randomized response with this epsilon, the worst case
    (Kairouz, Oh and Viswanath 2015, Theorem 3.3).
    """

    # Randomized response dominates every mechanism with the same pure epsilon, at every delta and
    # in every composition.

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledDpEvent(DpEvent):  # type: ignore[misc]
    """Accounting event of one shuffle of reports, one report per user.

    - ``epsilon``: pure local epsilon of each report.
    - ``n_users``: number of users who send a report.
    - ``binary``: true if each report is one randomized bit, for which a tighter bound applies
      (``losses.pairs.ClonePair``).

    The adversary sees the reports in random order, without their senders. Neighbouring inputs
    differ in the input of one user.

    The bound for ``binary`` requires reports (j, b) of an index j and a bit b:

    - The index is drawn uniformly, independently of the input.
    - The probability of b = 1 is an affine function of entry j of the input. Its values are from
      1/(e^eps + 1) to e^eps/(e^eps + 1).
    """

    epsilon: float
    n_users: int
    binary: bool = False


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RevealedSamplingDpEvent(DpEvent):  # type: ignore[misc]
    """Accounting event of a mechanism that runs at random, if the adversary sees whether it ran.

    - ``sampling_probability``: probability that the mechanism runs, independent of the data.
    - ``event``: event of the mechanism, which also determines the adjacency.

    Sampling reduces the number of runs, but does not amplify privacy.
    """

    # n possible runs reveal as much as K certain runs, K ~ Binomial(n, q), for probability q of a
    # run. Example: the noise on a rating in a sampled row, if other ratings of the row reveal that
    # the row was sampled.

    sampling_probability: float
    event: DpEvent

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.sampling_probability <= 1:
            raise InputError(
                f"Expected sampling_probability in [0, 1], got {self.sampling_probability!r}. "
                "Give the probability that the sampling lets the mechanism run."
            )


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ReplacedSamplingDpEvent(DpEvent):  # type: ignore[misc]
    """Accounting event of Poisson sampling, if neighbouring inputs differ by the replacement of one
    record.

    - ``sampling_probability``: probability with which each record is drawn.
    - ``event``: a Gaussian or Laplace event. Its noise multiplier is the noise divided by the
      largest contribution of one record.

    If a record is added or removed, use ``PoissonSampledDpEvent``.
    """

    sampling_probability: float
    event: DpEvent


_RANGES: dict[str, tuple[float, float]] = {
    "noise_multiplier": (0.0, math.inf),
    "sampling_probability": (0.0, 1.0),
    "epsilon": (0.0, math.inf),
    "rho": (0.0, math.inf),
    "xi": (0.0, math.inf),
    "p": (0.0, 1.0),
    "q": (0.0, 1.0),
    "noise_parameter": (0.0, 1.0),
    "standard_deviation": (0.0, math.inf),
}
_COUNTS = ("num_buckets", "n_users", "source_dataset_size", "sample_size")
# Adjacencies under which each sampling event is defined. Accountants refuse it under any other.
SAMPLING_ADJACENCIES: dict[type[DpEvent], tuple[Adjacency, ...]] = {
    PoissonSampledDpEvent: (Adjacency.ADD_REMOVE,),
    SampledWithoutReplacementDpEvent: (Adjacency.REPLACE,),
    ReplacedSamplingDpEvent: (Adjacency.REPLACE,),
    RevealedSamplingDpEvent: tuple(Adjacency),
    MixtureOfGaussiansDpEvent: (Adjacency.ADD_REMOVE,),
}
# For each sampling event class that an accountant supports, the event classes that may be sampled.
EventTypesBySampling = Mapping[type[DpEvent], tuple[type[DpEvent], ...]]


def list_leaves(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """Lists the leaves (single mechanisms) of an event, each with its total number of uses.

    The event may nest compositions. Equal mechanisms are merged, and no-op events are omitted.
    Raises InputError if a count is not a positive integer.
    """
    totals: dict[Hashable, tuple[DpEvent, int]] = {}
    _add_leaves(event, 1, totals)
    return list(totals.values())


def merge_sampling(event: DpEvent) -> DpEvent:
    """Merges the mechanisms on one sample into one mechanism with an equal privacy curve.

    Sampling events are changed as follows:

    - Gaussian mechanisms with noise multipliers z_i become one Gaussian mechanism with the
      multiplier (sum z_i^-2)^(-1/2).
    - A Poisson sample of a Poisson sample becomes one Poisson sample, at the product of the rates.
    - A sample on which no mechanism runs becomes ``NoOpDpEvent``.

    Other events are returned unchanged. Raises InputError if a number is out of range.

    >>> merge_sampling(PoissonSampledDpEvent(0.1, SelfComposedDpEvent(GaussianDpEvent(2.0), 4)))
    PoissonSampledDpEvent(sampling_probability=0.1, event=GaussianDpEvent(noise_multiplier=1.0))
    """
    # If a drawn record is replaced, the argument in ``ReplaceOneGaussianPair`` proceeds backwards
    # through the uses: no second derivative of the expected value before a use is negative if none
    # after it is.
    sampled: Any = event
    if not isinstance(event, tuple(SAMPLING_ADJACENCIES)) or not hasattr(event, "event"):
        return event
    parts = list_leaves(sampled.event)
    if not parts:
        return NoOpDpEvent()
    for leaf, _ in parts:
        check_parameters(leaf)
    inner: Any = parts[0][0]
    if parts[0][1] == len(parts) == 1:
        if all(isinstance(each, PoissonSampledDpEvent) for each in (event, inner)):
            check_parameters(event)
            rate = sampled.sampling_probability * inner.sampling_probability
            return attr.evolve(inner, sampling_probability=rate)
        return attr.evolve(sampled, event=inner)
    if not all(isinstance(leaf, GaussianDpEvent) for leaf, _ in parts):
        return event
    noises = [(leaf.noise_multiplier, count) for leaf, count in parts]
    smallest = min(noise for noise, _ in noises)
    if 0 < smallest < math.inf:
        smallest /= math.hypot(*(math.sqrt(count) * (smallest / noise) for noise, count in noises))
    return attr.evolve(sampled, event=GaussianDpEvent(smallest))


def get_sampling_rate(leaf: DpEvent) -> float:
    """Returns the probability with which the mechanism ``leaf`` samples a given record; 1 if it
    does not sample.

    For ``RevealedSamplingDpEvent``, the result is the probability that the mechanism runs.
    """
    if isinstance(leaf, SampledWithoutReplacementDpEvent):
        return float(leaf.sample_size / leaf.source_dataset_size)
    return float(getattr(leaf, "sampling_probability", 1.0))


def is_supported(
    event: DpEvent,
    mechanisms: tuple[type[DpEvent], ...],
    *,
    sampling: EventTypesBySampling = MappingProxyType({}),
) -> bool:
    """Checks whether every leaf (single mechanism) of ``event`` is of a supported class.

    A mechanism that provides no privacy at all (``NonPrivateDpEvent``) also counts as supported,
    with an infinite epsilon.

    - ``mechanisms``: supported event classes of mechanisms.
    - ``sampling``: supported sampling classes, each with the event classes that it may sample.
    """
    return all(
        isinstance(leaf.event, sampling.get(type(leaf), ()))
        if hasattr(leaf, "event")
        else isinstance(leaf, (NonPrivateDpEvent, *mechanisms))
        for leaf, _ in list_leaves(event)
    )


def list_assumptions(event: DpEvent) -> tuple[str, ...]:
    """Lists the assumptions of a proof for ``event``, as sentences.

    They state that the adversary does not learn which records the mechanism samples. The tuple is
    empty if nothing is sampled, or if the sampling is public.
    """
    hidden = (PoissonSampledDpEvent, ReplacedSamplingDpEvent, MixtureOfGaussiansDpEvent)
    drawn: dict[str, None] = {}
    for leaf, _ in list_leaves(event):
        if isinstance(leaf, SampledWithoutReplacementDpEvent):  # a known record excludes others
            drawn[f" of {leaf.source_dataset_size:,} candidates"] = None
        elif isinstance(leaf, hidden):
            drawn[""] = None
    return tuple(f"the adversary does not learn who{of} was sampled" for of in drawn)


def list_supported_leaves(
    event: DpEvent,
    mechanisms: tuple[type[DpEvent], ...],
    *,
    scope: Scope,
    name: str,
    sampling: EventTypesBySampling = MappingProxyType({}),
) -> list[tuple[DpEvent, int]] | None:
    """Lists the leaves (single mechanisms) of ``event``, each with its number of uses.

    - ``mechanisms``: supported event classes of mechanisms.
    - ``scope``: scope of the bound.
    - ``name``: name of the accountant, for error messages.
    - ``sampling``: supported sampling classes, each with the event classes that it may sample.

    The result is None if a leaf is a ``NonPrivateDpEvent``. Raises InputError if a leaf is not
    supported, or a sampling event is not defined under the adjacency of ``scope``.
    """
    all_leaves = list_leaves(event)
    for leaf, _ in all_leaves:
        if not isinstance(leaf, (NonPrivateDpEvent, *mechanisms, *sampling)):
            known = ", ".join(kind.__name__ for kind in (*mechanisms, *sampling))
            raise InputError(
                f"Expected an event that {name} supports, got {type(leaf).__name__}. "
                f"{name} supports {known}. Use another accountant."
            )
        check_parameters(leaf)
        inner, drawn = sampling.get(type(leaf)), getattr(leaf, "event", None)
        if inner is not None and not isinstance(drawn, inner):
            raise InputError(
                f"Expected one of the events {', '.join(kind.__name__ for kind in inner)} inside "
                f"{type(leaf).__name__}, which {name} supports there, got {type(drawn).__name__}. "
                "Use another accountant."
            )
        allowed = SAMPLING_ADJACENCIES.get(type(leaf))
        if allowed is not None and scope.adjacency not in allowed:
            raise InputError(
                f"Expected {allowed[0]} adjacency, for which {type(leaf).__name__} is defined, got "
                f"{scope.adjacency}. Use {allowed[0]} adjacency, or another sampling event."
            )
    if any(isinstance(leaf, NonPrivateDpEvent) for leaf, _ in all_leaves):
        return None
    return all_leaves


def _add_leaves(event: DpEvent, times: int, totals: dict[Hashable, tuple[DpEvent, int]]) -> None:
    if isinstance(event, NoOpDpEvent):
        return
    if isinstance(event, SelfComposedDpEvent):
        if event.count != int(event.count) or event.count < 1:
            raise InputError(
                f"Expected SelfComposedDpEvent.count as a whole number >= 1, got {event.count!r}. "
                "Give the number of repetitions of the event."
            )
        _add_leaves(event.event, times * int(event.count), totals)
    elif isinstance(event, ComposedDpEvent):
        for part in event.events:
            _add_leaves(part, times, totals)
    elif not isinstance(event := merge_sampling(event), NoOpDpEvent):
        key = _make_key(event)
        _, before = totals.get(key, (event, 0))
        totals[key] = (event, before + times)


def _make_key(event: DpEvent) -> Hashable:
    """Key by which equal mechanisms are merged. Events that contain lists are compared by their
    text.
    """
    try:
        hash(event)
    except TypeError:
        return type(event), repr(event)
    return type(event), event


def check_parameters(leaf: DpEvent) -> None:
    """Raises InputError if a parameter of a mechanism (``leaf``), or of the event that it samples,
    is out of range.

    NaN is out of range. A noise multiplier of 0 and a sampling probability of 0 are allowed.
    """
    # Parameters are identified by the names of the fields, so that event classes of other packages
    # are checked too.
    for name, (low, high) in _RANGES.items():
        value = getattr(leaf, name, low)
        if not _is_within(value, low, high):
            end = "inf]" if high == math.inf else f"{high:g}]"
            raise _refuse(leaf, name, value, expected=f"in [{low:g}, {end}")
    for name in _COUNTS:
        value = getattr(leaf, name, 1)
        if not (_is_within(value, 1, sys.float_info.max) and value == math.floor(value)):
            raise _refuse(leaf, name, value, expected="as a whole number >= 1")
    size, sample = (getattr(leaf, name, 1) for name in ("source_dataset_size", "sample_size"))
    if sample > size and hasattr(leaf, "source_dataset_size"):
        raise _refuse(leaf, "sample_size", sample, expected=f"<= source_dataset_size={size}")
    if isinstance(leaf, MixtureOfGaussiansDpEvent):
        _check_mixture(leaf)
    inner = getattr(leaf, "event", None)
    if isinstance(inner, DpEvent):
        check_parameters(inner)


def _check_mixture(leaf: MixtureOfGaussiansDpEvent) -> None:
    shifts, chances = leaf.sensitivities, leaf.sampling_probs
    if not len(shifts):
        raise _refuse(leaf, "sensitivities", shifts, expected="with at least one entry")
    if len(shifts) != len(chances):
        wanted = f"with one entry for each of {len(shifts)} sensitivities"
        raise _refuse(leaf, "sampling_probs", chances, expected=wanted)
    if not all(_is_within(shift, 0.0, sys.float_info.max) for shift in shifts):
        raise _refuse(leaf, "sensitivities", shifts, expected="finite and >= 0")
    if not all(_is_within(p, 0.0, 1.0) for p in chances) or abs(math.fsum(chances) - 1.0) > 1e-9:
        raise _refuse(leaf, "sampling_probs", chances, expected="in [0, 1], with sum 1")


def _is_within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, Real) and low <= float(value) <= high


def _refuse(leaf: DpEvent, name: str, value: Any, expected: str) -> InputError:
    return InputError(
        f"Expected {name} {expected} in {type(leaf).__name__}, got {name}={value!r:.60}. "
        f"Correct {name}."
    )
