"""A violated claim, shown: two worlds on one system that tell more than it claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population, Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads

Draw = Callable[[int, int, np.random.Generator], Any]
"""World, number of runs, generator: one number a run, (runs,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinguishingGame:
    """Two neighbouring worlds on one system, and the claim that a bound from them may refute.

    ``draw`` runs the system's own code, in blocks of bounded memory, and gives one number a run,
    the ``statistic``; it uses nothing that the vantage of ``scope`` does not show. Where it is
    ``blockwise``, two calls with one generator give what one call for all runs gives. ``samples``
    are the runs of each of the two worlds, which ``worlds`` put in words. A lower bound found here
    is at ``delta``, and measured by the ``estimator`` of that name. The claim is that of the
    paper's entry ``claim``, or the first of the system that covers ``scope`` at ``delta``. What is
    ``proved`` for the system and its ``population`` is compared with the bound; it cannot be where
    the worlds differ in what the proof takes for public.
    """

    system: Target
    population: Population
    worlds: tuple[str, str]
    scope: Scope
    draw: Draw
    statistic: str
    samples: int
    delta: float = 0.0
    claim: str = ""
    proved: bool = True
    blockwise: bool = True
    estimator: str = "joint-binomial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A claim judged VIOLATED, shown on the system itself, beside a control.

    ``entries`` are the numbers of the statements that it shows. The lower bound of ``violation``
    must come out above the claim. ``control`` is the repaired system, or the statistic that the
    authors had in mind: its bound must stay below its claim.
    """

    entries: tuple[str, ...]
    violation: DistinguishingGame
    control: DistinguishingGame

    @classmethod
    def of(cls, entries: tuple[str, ...], side: Callable[[bool], DistinguishingGame]) -> Self:
        """A demonstration whose sides are ``side(True)``, which violates, and ``side(False)``."""
        return cls(entries=entries, violation=side(True), control=side(False))

    @property
    def target(self) -> str:
        """Name of the system whose claim is refuted."""
        return self.violation.system.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUploads:
    """What ``read`` makes of ``each`` messages of a client, whose history is that of the world.

    ``histories`` are ratings of all items, (n_items,); ``broadcast`` is what a server of any kind
    sends. As many runs as have ``block`` messages are made at once: ``read`` gives a number a run.
    """

    system: Target
    histories: tuple[ArrayLike, ArrayLike]
    read: Callable[[Uploads], NDArray[Any]]
    broadcast: Broadcast | None = None
    each: int = 1
    block: int = 1 << 14

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """The numbers of ``size`` runs, (size,)."""
        one = Interactions.of(np.array([self.histories[world]]), name="neighbours")
        upload, each = partial(self.system.upload, one, self.broadcast, rng), self.each
        return in_blocks(size, self.block // each, lambda runs: self.read(upload(runs * each)))


def in_blocks(size: int, block: int, draw: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """``draw`` of ``size`` runs, ``block`` of them at a time."""
    block = max(1, block)
    runs = (min(block, size - start) for start in range(0, size, block))
    return np.concatenate([draw(count) for count in runs])


@dataclass(frozen=True, slots=True)
class Beyond:
    """Whether a run's score reaches ``threshold``: an event fixed beforehand.

    Where the distribution of a score is known, so is the event that shows most. A selection split
    of any size would have to find it again, among events too rare to be ranked by it.
    """

    scores: Draw
    threshold: float

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> Any:
        """The event of ``size`` runs, (size,)."""
        return self.scores(world, size, rng) >= self.threshold
