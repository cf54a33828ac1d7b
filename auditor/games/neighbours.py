"""The game of a demonstration: two neighbouring worlds, a statistic, and how often an event occurs.

Runs are drawn in blocks of ``BLOCK``, each with a generator of its own, and only counted: beside
the pilot's scores (``PILOT`` a world at most) no more than one block's are held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE, refutes
from fedrec_auditor.auditor.estimators.clopper_pearson import Event, certified, choose

if TYPE_CHECKING:
    from fedrec_auditor.auditor.demonstrations.base import Contest

BLOCK = 1 << 18
"""Runs drawn at once."""
PILOT = 1 << 20
"""Most runs a world that choose the event; else half of those counted, a thousand at least."""
_LEAST, _SHARE = 1_000, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """What one contest gives: lower bounds on epsilon of the same runs.

    ``bound`` holds at the confidence asked for, ``alarm`` at the one at which a measurement
    contradicts a proof. ``repeated`` tells whether fresh draws were taken, because the first ones
    exceeded the claim: ``bound`` is then the smaller of the two.
    """

    bound: Bound
    alarm: Bound
    repeated: bool


def play(
    contest: Contest, *, confidence: float, rng: np.random.Generator, samples: int | None = None
) -> Duel:
    """Bound epsilon from below by ``samples`` runs a world, by default the contest's own number.

    A pilot chooses an event on runs of its own, the direction (which world is in the numerator)
    with it; its frequencies in either world, counted on fresh runs, have Clopper-Pearson limits
    that share the error. A bound above the claim is measured again on fresh runs with the same
    event, and the smaller one is told: an honest system is accused at most in (1 - confidence)^2
    of all cases. InputError if a statistic is NaN.
    """
    count = contest.samples if samples is None else samples
    pilot = min(max(_LEAST, count // _SHARE), PILOT)
    choosing, first, second = rng.spawn(3)
    trained = [np.concatenate(list(_blocks(contest, w, pilot, choosing))) for w in (0, 1)]
    event = choose(
        trained[0], trained[1], count, count, delta=contest.delta, alpha=1.0 - confidence
    )
    hits = _count(contest, event, count, first)
    bound = _certified(contest, event, hits, count, pilot, confidence)
    alarm = _certified(contest, event, hits, count, pilot, ALARM_CONFIDENCE)
    if not refutes(bound, contest.claim):
        return Duel(bound=bound, alarm=alarm, repeated=False)
    hits = _count(contest, event, count, second)
    again = _certified(contest, event, hits, count, pilot, confidence)
    smaller = min(bound, again, key=lambda one: one.epsilon)
    witness = smaller.witness
    assert witness is not None
    note = f"{witness.note}; the smaller bound of two, each on draws of its own"
    told = replace(smaller, samples=2 * (pilot + 2 * count), witness=replace(witness, note=note))
    return Duel(bound=told, alarm=alarm, repeated=True)


def _count(contest: Contest, event: Event, count: int, rng: np.random.Generator) -> tuple[int, int]:
    """How many of ``count`` runs of world 0 and of world 1 are in the event."""
    first, second = (
        sum(event.count(scores) for scores in _blocks(contest, world, count, rng))
        for world in (0, 1)
    )
    return first, second


def _blocks(
    contest: Contest, world: int, count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        scores = np.asarray(contest.sample(world, size, rng.spawn(1)[0]), dtype=np.float64)
        if scores.shape != (size,) or np.isnan(scores).any():
            raise InputError(
                f"Expected {size} numbers, none NaN, got shape {scores.shape} from world {world} "
                f"({contest.worlds[world]}). Mend the statistic: {contest.statistic}."
            )
        yield scores


def _certified(
    contest: Contest,
    event: Event,
    hits: tuple[int, int],
    count: int,
    pilot: int,
    confidence: float,
) -> Bound:
    one, other = (1, 0) if event.swapped else (0, 1)
    return certified(
        hits[one],
        count,
        hits[other],
        count,
        delta=contest.delta,
        confidence=confidence,
        scope=contest.scope,
        samples=2 * (pilot + count),
        inputs=(contest.worlds[one], contest.worlds[other]),
        event=f"{contest.statistic}: {event}",
        share=event.share,
    )
