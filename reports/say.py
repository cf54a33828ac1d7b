"""How a bound and a claim are said: the number, and all without which it is no statement.

What is proved is rounded up, what is shown is rounded down. An assumption travels with the number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.reports.document import Said
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.words import (
    ADJACENCIES,
    assumption_words,
    basis_words,
    brief_scope_words,
    delta_words,
    number,
    proved_of,
    shown_words,
    support_words,
)


def say_claimed(claim: Claim) -> Said:
    """Claimed epsilon, its scope, and whose figure it is if the paper does not print it."""
    scope = claim.scope
    about = (f"for {brief_scope_words(scope)}", ADJACENCIES[scope.adjacency], basis_words(claim))
    if math.isinf(claim.epsilon):
        return Said("no epsilon", about[:2])
    support = (delta_words(claim.delta), *about)
    return Said(f"≤ {number(claim.epsilon)}", tuple(filter(None, support)))


def say_proved(finding: Finding) -> Said:
    """What is proved in the scope of a finding; "nothing" if no finite epsilon is."""
    proof = finding.accounted
    if proof is None:
        return Said("nothing")
    if math.isinf(proof.epsilon):
        return Said("no finite epsilon", _support(proof, finding.scope, ""))
    value = proved_of(finding, exactly=True)
    return Said(f"≤ {value}", _support(proof, finding.scope, ""))


def say_measured(finding: Finding) -> Said:
    """Lower bound in the scope of a finding."""
    bounds = (finding.claim, finding.accounted)
    beside = [bound.epsilon for bound in bounds if bound is not None]
    return say_shown(finding.measured, finding.scope, beside)


def say_shown(
    bound: Bound | None, scope: Scope | None = None, beside: Sequence[float] = ()
) -> Said:
    """Lower bound; its own scope is said where it is not the ``scope`` in question.

    One of ``beside``, epsilons that are printed with it, is printed alike where it is equal.
    """
    if bound is None:
        return Said("nothing")
    value = "infinite"
    if math.isfinite(bound.epsilon):
        value = f"≥ {shown_words(bound, beside, exactly=True)}"
    return Said(value, _support(bound, scope, support_words(bound)))


def _support(bound: Bound, scope: Scope | None, sure: str) -> tuple[str, ...]:
    own = "" if bound.scope == scope else f"scope: {bound.scope}"
    parts = (delta_words(bound.delta), sure, bound.source, own, assumption_words(bound))
    return tuple(filter(None, parts))
