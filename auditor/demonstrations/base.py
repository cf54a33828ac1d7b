"""What every demonstration offers: a game that refutes a claim, and one that must not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.estimators.base import Estimator
from fedrec_auditor.auditor.estimators.joint_binomial import JointBinomial
from fedrec_auditor.auditor.worlds import Worlds
from fedrec_auditor.targets.systems.base import Population, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinguishingGame:
    """Two neighbouring worlds on one system, and the claim that a bound from them may refute.

    ``worlds`` run the system's own code, in blocks of bounded memory, and give one number a run,
    of which the worlds' ``statistic`` says what it is; it uses nothing that the scope's vantage
    does not show. Where they are ``blockwise``, two calls with one generator give what one call for
    all runs gives. ``samples`` are the runs of each world. A lower bound
    found here is at ``delta``; it refutes ``claim`` if the claim's scope covers that of the worlds.
    ``population`` is what claim and proof were made for; without it no proof is compared.
    """

    system: Target
    claim: Claim
    worlds: Worlds
    delta: float
    samples: int
    blockwise: bool = True
    population: Population | None = None
    estimator: Estimator = field(default_factory=JointBinomial)

    @classmethod
    def against(
        cls,
        system: Target,
        population: Population,
        *,
        names: tuple[str, str],
        scope: Scope,
        draw: Callable[[int, int, np.random.Generator], Any],
        statistic: str,
        delta: float = 0.0,
        place: str = "",
        proved: bool = True,
        **settings: Any,
    ) -> Self:
        """Two worlds against the first claim of ``system`` that speaks of ``scope`` at ``delta``.

        Where several do, ``place`` is a piece of the source of the one that is meant. ``proved``
        says whether the bound is compared with a proof as well. ``settings`` are other fields.
        InputError if no claim does.
        """
        for scoped in system.scoped_claims(population):
            claim = scoped.claim
            if claim.scope.covers(scope) and claim.delta <= delta and place in claim.source:
                return cls(
                    system=system,
                    claim=claim,
                    worlds=Worlds(names=names, scope=scope, draw=draw, statistic=statistic),
                    delta=delta,
                    population=population if proved else None,
                    **settings,
                )
        said = f" in {place!r}" if place else ""
        raise InputError(
            f"Expected a claim of {system.name}{said} that covers [{scope}] at delta={delta}, got "
            "none. Ask in a scope of which it speaks."
        )


class Demonstration(Protocol):
    """A claim judged VIOLATED, shown on the target itself.

    ``entries`` are the numbers of the catalogue's entries that it shows, ``target`` the name of the
    system. Settings may be shrunk; both methods are cheap, and only the sampling takes time.
    """

    @property
    def target(self) -> str:
        """Name of the system whose claim is refuted."""
        ...

    @property
    def entries(self) -> tuple[str, ...]:
        """Numbers of the catalogue's entries, such as "22"."""
        ...

    def violation(self) -> DistinguishingGame:
        """What refutes the claim: its lower bound must come out above."""
        ...

    def control(self) -> DistinguishingGame:
        """The repaired system, or the statistic the authors had in mind: it must stay below."""
        ...


class PairedGames(ABC):
    """A demonstration whose violation and control are one game, played either way."""

    @abstractmethod
    def game(self, violates: bool) -> DistinguishingGame:
        """The side that refutes the claim if ``violates``, else the one that must not."""

    def violation(self) -> DistinguishingGame:
        """The side whose lower bound must come out above the claim."""
        return self.game(violates=True)

    def control(self) -> DistinguishingGame:
        """The side whose lower bound must stay below its claim."""
        return self.game(violates=False)
