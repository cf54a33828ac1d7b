"""Reading event trees, and the leaves of ours for what dp-accounting has no word for."""

from __future__ import annotations

import attr
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from accountants.errors import InputError
from accountants.scope import Adjacency, Scope


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BitFlipDpEvent(DpEvent):  # type: ignore[misc]
    """One bit flipped with rates of its own: P(1 | 1) = p, P(1 | 0) = q; any pair of bits."""

    p: float
    q: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(DpEvent):  # type: ignore[misc]
    """Any mechanism of pure ``epsilon``, of which nothing else is known or used.

    Randomized response of that epsilon dominates it at every delta and in every composition
    (Kairouz, Oh and Viswanath 2015, Theorem 3.3), so accountants charge it as that.
    """

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledDpEvent(DpEvent):  # type: ignore[misc]
    """One shuffle of one report from each of ``n_users``, every report ``epsilon``-LDP.

    ``epsilon`` is pure and local; the adversary sees the reports permuted uniformly, without
    their senders. The neighbours differ in the input of one user. ``binary`` says more of the
    report: it is a coordinate drawn uniformly, whatever the input, and a bit whose probability is
    affine in that entry of the input, within [1, e^eps]/(e^eps + 1). Randomized response on a bit
    and the one-coordinate mechanism are; it makes for more clones.
    """

    epsilon: float
    n_users: int
    binary: bool = False


# Sampling amplifies under one adjacency; whoever asks in another must not be given its figure.
_SAMPLING: dict[type[DpEvent], tuple[Adjacency, ...]] = {
    PoissonSampledDpEvent: (Adjacency.ADD_REMOVE,),
    SampledWithoutReplacementDpEvent: (Adjacency.REPLACE,),
}


def leaves(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """The leaves under all compositions, each with how often it is used in all.

    Counts of nested compositions multiply, equal leaves are merged, and no-ops left out.
    InputError for a count that is not a positive integer.
    """
    found: list[tuple[DpEvent, int]] = []
    _walk(event, 1, found)
    return found


def readable(
    event: DpEvent,
    kinds: tuple[type[DpEvent], ...],
    *,
    sampled: tuple[type[DpEvent], ...] = (),
) -> bool:
    """Whether every leaf is of one of these kinds, or plainly not private.

    What a sampling leaf samples must be of one of the kinds ``sampled``.
    """
    return all(
        (type(leaf) not in _SAMPLING or isinstance(leaf.event, sampled))
        and isinstance(leaf, (NonPrivateDpEvent, *kinds))
        for leaf, _ in leaves(event)
    )


def private_leaves(
    event: DpEvent, kinds: tuple[type[DpEvent], ...], *, scope: Scope, reader: str
) -> list[tuple[DpEvent, int]] | None:
    """The leaves with their counts; None if one of them is not private at all.

    InputError names a leaf that is of none of ``kinds``, or of an adjacency that is not the
    scope's: it is refused, never skipped.
    """
    found = leaves(event)
    for leaf, _ in found:
        if not isinstance(leaf, (NonPrivateDpEvent, *kinds)):
            raise InputError(
                f"Expected an event that {reader} can read, got {type(leaf).__name__}. "
                f"It reads {', '.join(kind.__name__ for kind in kinds)}; ask another accountant."
            )
        allowed = _SAMPLING.get(type(leaf))
        if allowed is not None and scope.adjacency not in allowed:
            raise InputError(
                f"Expected {allowed[0]} adjacency for {type(leaf).__name__}, got a scope of "
                f"{scope.adjacency} adjacency. Account the sampling that this scope is about."
            )
    if any(isinstance(leaf, NonPrivateDpEvent) for leaf, _ in found):
        return None
    return found


def _walk(event: DpEvent, times: int, found: list[tuple[DpEvent, int]]) -> None:
    if isinstance(event, NoOpDpEvent):
        return
    if isinstance(event, SelfComposedDpEvent):
        if event.count != int(event.count) or event.count < 1:
            raise InputError(
                f"Expected a count >= 1 in SelfComposedDpEvent, got count={event.count!r}."
            )
        _walk(event.event, times * int(event.count), found)
    elif isinstance(event, ComposedDpEvent):
        for part in event.events:
            _walk(part, times, found)
    else:
        for position, (leaf, count) in enumerate(found):
            if type(leaf) is type(event) and leaf == event:
                found[position] = (leaf, count + times)
                return
        found.append((event, times))
