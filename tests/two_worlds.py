"""Two worlds played on a system's own messages: a second route beside what is exact or proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.statements import Claim, Scope
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.measure import measure_bounds
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import find_paper
from fedrec_auditor.targets.systems.base import Population, Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads

# World, number of runs, generator: one number per run, (runs,).
Draw = Callable[[int, int, np.random.Generator], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadReader:
    """Numbers that ``read`` makes of messages of a client, one number per message.

    ``histories`` are the client's ratings of all items in either world, (n_items,); ``broadcast``
    is the server's. ``block`` messages are made at once.
    """

    system: Target
    histories: tuple[ArrayLike, ArrayLike]
    read: Callable[[Uploads], NDArray[Any]]
    broadcast: Broadcast | None = None
    block: int = 1 << 14

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Numbers of ``size`` runs, (size,)."""
        history = Interactions.create(np.array([self.histories[world]]), name="neighbours")
        upload = partial(self.system.upload, history, self.broadcast, rng)
        return draw_in_blocks(size, self.block, lambda runs: self.read(upload(runs)))


def draw_in_blocks(size: int, block: int, draw: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """Numbers that ``draw`` makes of ``size`` runs, ``block`` of them at a time."""
    block = max(1, block)
    runs = (min(block, size - start) for start in range(0, size, block))
    return np.concatenate([draw(count) for count in runs])


def get_claim(system: Target, population: Population, entry: str) -> Claim:
    """Claim of the paper's ``entry`` about this system."""
    paper = find_paper(type(system).__module__)
    assert paper is not None
    return paper.get_claim(paper.get_entry(entry), system, population).claim


def measure_bound(draw: Draw, scope: Scope, samples: int, *, seed: int = 1) -> float:
    """Lower bound on epsilon of ``samples`` runs in either world, at 95%."""
    measured = measure_bounds(
        Worlds(names=("one", "other"), scope=scope, draw=draw, statistic_name="a number"),
        (),
        JointBinomial(),
        delta=0.0,
        confidence=0.95,
        samples=samples,
        rng=np.random.default_rng(seed),
    )
    return measured.bound.epsilon
