"""A system's claim about a scope, as its questions have it, and the game against it."""

from __future__ import annotations

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame
from fedrec_auditor.auditor.worlds import Worlds
from fedrec_auditor.targets.systems.base import Population, Target


def claim_in(
    system: Target, population: Population, scope: Scope, delta: float = 0.0, place: str = ""
) -> Claim:
    """The first claim that speaks of ``scope`` at ``delta``; InputError if none does.

    Where several do, ``place`` is a piece of the source of the one that is meant.
    """
    for question in system.questions(population):
        claim = question.claim
        if claim.scope.covers(scope) and claim.delta <= delta and place in claim.source:
            return claim
    said = f" in {place!r}" if place else ""
    raise InputError(
        f"Expected a claim of {system.name}{said} that covers [{scope}] at delta={delta}, got "
        "none. Ask in a scope of which it speaks."
    )


def game_against(
    system: Target,
    population: Population,
    worlds: Worlds,
    *,
    samples: int,
    delta: float = 0.0,
    place: str = "",
    blockwise: bool = True,
    proved: bool = True,
) -> DistinguishingGame:
    """The claim of ``system`` (``claim_in``) against two worlds, at ``delta``.

    ``proved`` says whether the bound is compared with a proof as well.
    """
    return DistinguishingGame(
        system=system,
        claim=claim_in(system, population, worlds.scope, delta, place),
        worlds=worlds,
        delta=delta,
        samples=samples,
        blockwise=blockwise,
        population=population if proved else None,
    )
