"""How a bound and a claim are said: the number, and all without which it is no statement.

What is proved is rounded up, what is shown is rounded down. An assumption travels with the number.
"""

from __future__ import annotations

import math

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.reports.document import Said
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.words import (
    ADJACENCIES,
    BASES,
    assumption_words,
    brief_scope_words,
    delta_words,
    number,
    proved_beside_claim,
    support_words,
)


def claimed(claim: Claim) -> Said:
    """What is claimed, what for, and whose figure it is where it does not stand in the paper."""
    scope = claim.scope
    about = (f"for {brief_scope_words(scope)}", ADJACENCIES[scope.adjacency], BASES[claim.basis])
    if math.isinf(claim.epsilon):
        return Said("no epsilon", about[:2])
    support = (delta_words(claim.delta), *about)
    return Said(f"≤ {number(claim.epsilon)}", tuple(filter(None, support)))


def proved(finding: Finding) -> Said:
    """What is proved in the scope of a finding; "nothing" if no finite epsilon is."""
    proof = finding.accounted
    if proof is None:
        return Said("nothing")
    if math.isinf(proof.epsilon):
        return Said("no finite epsilon", _support(proof, finding.scope, ""))
    value = proved_beside_claim(finding, lambda epsilon: number(proof.told), number)
    return Said(f"≤ {value}", _support(proof, finding.scope, ""))


def shown(bound: Bound | None, scope: Scope | None = None) -> Said:
    """What a lower bound shows; its own scope is said where it is not the ``scope`` in question."""
    if bound is None:
        return Said("nothing")
    value = "infinite" if math.isinf(bound.epsilon) else f"≥ {number(bound.told)}"
    return Said(value, _support(bound, scope, support_words(bound)))


def _support(bound: Bound, scope: Scope | None, sure: str) -> tuple[str, ...]:
    own = "" if bound.scope == scope else f"scope: {bound.scope}"
    parts = (delta_words(bound.delta), sure, bound.source, own, assumption_words(bound))
    return tuple(filter(None, parts))
