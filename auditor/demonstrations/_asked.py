"""The claim that a system makes of a scope, as its questions have it."""

from __future__ import annotations

from dataclasses import replace

from accountants.claim import Claim
from accountants.errors import InputError
from accountants.scope import Scope
from targets.systems.base import Population, Target


def claim_in(system: Target, population: Population, scope: Scope, delta: float = 0.0) -> Claim:
    """The first claim that speaks of ``scope`` at ``delta``; InputError if none does."""
    for question in system.questions(population):
        claim = question.claim
        if claim.scope.covers(scope) and claim.delta <= delta:
            return claim
    raise InputError(
        f"Expected a claim of {system.name} that covers [{scope}] at delta={delta}, got none. "
        "Ask in a scope of which it speaks."
    )


def read_as(claim: Claim, scope: Scope, why: str) -> Claim:
    """The claim as a promise in another scope, with ``why`` a reader would take it for one."""
    return replace(claim, scope=scope, statement=f"{claim.statement} {why}")
