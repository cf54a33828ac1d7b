"""What every demonstration offers: a contest that refutes a claim, and one that must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.systems.base import Population, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Two neighbouring worlds on one system, and what an adversary computes from its view.

    ``sample(world, size, rng)`` runs the system's own code ``size`` times in world 0 or 1, in
    blocks of bounded memory, and gives one number a run, (size,): ``statistic`` says which, in
    words, and it uses nothing that the scope's vantage does not show. The same world, size and
    generator give the same numbers; where a member does not say ``blockwise = False``, two calls
    with one generator give what one call for all runs gives. ``samples`` are the runs of each
    world. A lower bound found here speaks of ``scope`` at ``delta``; it refutes ``claim`` if the
    claim's scope covers that one. ``population`` is what claim and proof were made for; without it
    no proof is compared.
    """

    system: Target
    claim: Claim
    scope: Scope
    delta: float
    worlds: tuple[str, str]
    statistic: str
    sample: Callable[[int, int, np.random.Generator], NDArray[np.float64]]
    samples: int
    population: Population | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One worst-case transcript, where counting cannot reach the claimed epsilon.

    ``bound`` is exact: the log-ratio of the probabilities, under two neighbouring inputs, of what
    the system's own code sent when it was run; its witness names them.
    """

    system: Target
    claim: Claim
    bound: Bound
    statistic: str
    population: Population | None = None


class Demonstration(Protocol):
    """A claim judged VIOLATED, shown on the target itself.

    ``entries`` are the numbers of the catalogue's entries that it shows, ``target`` the name of the
    system. Settings may be shrunk; both methods are cheap, and only ``sample`` takes time.
    """

    @property
    def target(self) -> str:
        """Name of the system whose claim is refuted."""
        ...

    @property
    def entries(self) -> tuple[str, ...]:
        """Numbers of the catalogue's entries, such as "22"."""
        ...

    def violation(self) -> Contest | Transcript:
        """What refutes the claim: its lower bound must come out above."""
        ...

    def control(self) -> Contest | Transcript:
        """The repaired system, or the statistic the authors had in mind: it must stay below."""
        ...
