"""Time of one bound of epsilon: our accountants, dp-accounting's, and naive composition.

Every cache of the project is emptied before each call. A bound should take at most 1 s, and 5 s for
2000 shuffled reports. dp-accounting is called as its documentation shows. It ignores the count of a
repeated randomized response; these are composed one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from threadpoolctl import threadpool_limits

from benchmarks import Row, time_best
from fedrec_auditor.accountants.events.leaves import (
    PureDpEvent,
    RevealedSamplingDpEvent,
    ShuffledDpEvent,
)
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.plan.families import FAMILIES

DELTA = 1e-6
SCOPE = Scope(
    unit=Unit.USER, adjacency=Adjacency.ANY_PAIR, vantage=Vantage.SERVER, horizon=Horizon.TRAINING
)
ADD_REMOVE_SCOPE = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
REPLACE_SCOPE = replace(SCOPE, adjacency=Adjacency.REPLACE)


@dataclass(frozen=True, kw_only=True)
class Job:
    """An event (mechanisms to compose), whose epsilon in ``scope`` is bounded.

    rivals: names and functions of other implementations that compute its epsilon.
    """

    name: str
    event: DpEvent
    scope: Scope = SCOPE
    rivals: tuple[tuple[str, Callable[[], float]], ...] = ()


def respond(epsilon: float) -> DpEvent:
    """The event of one binary randomized response with this epsilon."""
    return RandomizedResponseDpEvent(2 / (1 + float(np.exp(epsilon))), 2)


def compose_naively(epsilon: float, count: int) -> float:
    """Epsilon of ``count`` randomized responses by repeated convolution of the privacy loss.

    The largest ln((P(S) - delta)/Q(S)) over sets S of largest losses.
    """
    one = np.array([1 / (1 + np.exp(epsilon)), 1 / (1 + np.exp(-epsilon))])
    law = np.ones(1)
    for _ in range(count):
        law = np.convolve(law, one)
    loss = epsilon * np.arange(-count, count + 1, 2)[::-1]
    p = np.cumsum(law[::-1])
    q = np.cumsum(law[::-1] * np.exp(-loss))
    above = p > DELTA
    return float(np.log((p[above] - DELTA) / q[above]).max())


def run_library(
    event: DpEvent, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> Callable[[], float]:
    """Returns a function that computes epsilon by dp-accounting's privacy loss distributions."""

    def ask() -> float:
        accountant = PLDAccountant(relation)
        return float(accountant.compose(event).get_epsilon(DELTA))

    return ask


def run_library_renyi(event: DpEvent) -> Callable[[], float]:
    """Returns a function that computes epsilon by dp-accounting's Renyi accountant."""

    def ask() -> float:
        accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
        return float(accountant.compose(event).get_epsilon(DELTA))

    return ask


def list_jobs() -> tuple[Job, ...]:
    """The events whose epsilon is bounded."""
    gaussians = SelfComposedDpEvent(GaussianDpEvent(10.0), 1000)
    sampled = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000)
    laplaces = SelfComposedDpEvent(LaplaceDpEvent(2.0), 300)
    drawn = SampledWithoutReplacementDpEvent(4800, 30, GaussianDpEvent(1.0))
    mixture = ComposedDpEvent([gaussians, laplaces])
    return (
        Job(
            name="200 responses of 0.25",
            event=SelfComposedDpEvent(respond(0.25), 200),
            rivals=(
                ("naive convolution", lambda: compose_naively(0.25, 200)),
                (
                    "dp-accounting PLD",
                    run_library(
                        ComposedDpEvent([respond(0.25)] * 200), NeighboringRelation.REPLACE_ONE
                    ),
                ),
            ),
        ),
        Job(
            name="2000 responses of 0.25",
            event=SelfComposedDpEvent(respond(0.25), 2000),
            rivals=(("naive convolution", lambda: compose_naively(0.25, 2000)),),
        ),
        Job(name="50,000 responses of 2.5", event=SelfComposedDpEvent(respond(2.5), 50_000)),
        Job(
            name="an item table: 107,648 Laplaces of 60",
            event=SelfComposedDpEvent(LaplaceDpEvent(1 / 60), 64 * 1682),
        ),
        Job(
            name="1000 unlike pure epsilons",
            event=ComposedDpEvent([PureDpEvent(0.01 * i) for i in range(1, 1001)]),
        ),
        Job(
            name="1000 Gaussians",
            event=gaussians,
            rivals=(("dp-accounting PLD", run_library(gaussians)),),
        ),
        Job(
            name="300 Laplaces",
            event=laplaces,
            rivals=(("dp-accounting PLD", run_library(laplaces)),),
        ),
        Job(
            name="1000 Gaussians and 300 Laplaces",
            event=mixture,
            rivals=(("dp-accounting PLD", run_library(mixture)),),
        ),
        Job(
            name="1000 sampled Gaussians, q 0.01",
            event=sampled,
            scope=ADD_REMOVE_SCOPE,
            rivals=(("dp-accounting PLD", run_library(sampled)),),
        ),
        Job(
            name="1000 Gaussians on 30 of 4800, fixed size",
            event=SelfComposedDpEvent(drawn, 1000),
            scope=REPLACE_SCOPE,
            rivals=(("dp-accounting RDP", run_library_renyi(SelfComposedDpEvent(drawn, 1000))),),
        ),
        Job(
            name="1000 Gaussians, sampling seen, q 0.01",
            event=SelfComposedDpEvent(RevealedSamplingDpEvent(0.01, GaussianDpEvent(1.0)), 1000),
        ),
        Job(
            name="2000 shuffled reports of 2.5 among 1000",
            event=SelfComposedDpEvent(ShuffledDpEvent(2.5, 1000, True), 2000),
        ),
    )


def clear_caches() -> None:
    """Empties every cache of the accountants."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fedrec_auditor.accountants."):
            for value in vars(module).values():
                clear = getattr(value, "cache_clear", None)
                if clear is not None:
                    clear()


def run(accountant: Any, job: Job) -> float:
    """The epsilon by one of our accountants, computed with empty caches."""
    clear_caches()
    return float(accountant.bound(job.event, delta=DELTA, scope=job.scope).epsilon)


def measure() -> tuple[Row, ...]:
    family = FAMILIES["accountants"]
    rows = []
    for job in list_jobs():
        ways: dict[str, Callable[[], float]] = dict(job.rivals)
        for name in family.list_names():
            accountant = family.load_class(name)()
            if accountant.supports(job.event):
                ways[f"ours: {name}"] = lambda accountant=accountant, job=job: run(accountant, job)
        with threadpool_limits(1):
            found = {way: ask() for way, ask in ways.items()}
            seconds = time_best(ways, 2)
        rows += [
            Row(
                job=job.name,
                way=way,
                seconds=seconds[way],
                work=1,
                unit="bounds",
                note=f"epsilon {found[way]:,.6g}",
            )
            for way in ways
        ]
    return tuple(rows)
