"""Parallel composition: the parts of a data set, each looked at by a mechanism of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.scope import Adjacency


def parallel(bounds: Sequence[Bound], *, disjoint: bool, fixed: bool, differ_in_one: bool) -> Bound:
    """The largest epsilon and delta of the parts hold for all of them together.

    McSherry 2009, Theorem 4, under its conditions, which the caller answers for: the parts are
    ``disjoint`` (nothing of the unit is in two of them, nor in what all of them share: a learning
    rate tuned on all data, a count that sets the noise); the partition is ``fixed``, no function of
    the data; and neighbours ``differ_in_one`` part (under replacement a unit whose new value
    belongs to another part changes two). All bounds are upper, in one scope. InputError names the
    condition that fails and what is left.
    """
    if not bounds:
        raise InputError("Expected at least one bound, got none. Give one of every part.")
    first = bounds[0]
    if any(bound.side is not Side.UPPER for bound in bounds):
        raise InputError(
            "Expected upper bounds, got a lower one. That of one part holds for the whole as it is."
        )
    if any(bound.scope != first.scope for bound in bounds):
        scopes = ", ".join(sorted({f"[{bound.scope}]" for bound in bounds}))
        raise InputError(f"Expected bounds in one scope, got {scopes}. Convert them first.")
    if not disjoint:
        raise InputError(
            "Expected disjoint parts, got disjoint=False. What several parts look at is composed: "
            "their epsilons add up."
        )
    if not fixed:
        raise InputError(
            "Expected a fixed partition, got fixed=False. A partition made of the data says "
            "something itself: release it privately and add its epsilon."
        )
    if not differ_in_one:
        raise InputError(
            f"Expected neighbours that differ in one part, got differ_in_one=False. Under "
            f"{Adjacency.REPLACE} a unit may leave one part for another: the two largest epsilons "
            f"for {Adjacency.ADD_REMOVE} add up."
        )
    assumptions = dict.fromkeys(a for bound in bounds for a in bound.assumptions)
    assumptions["the parts are disjoint, and share nothing that depends on the data"] = None
    assumptions["the partition does not depend on the data"] = None
    assumptions["neighbours differ in one part"] = None
    worst = max(bounds, key=lambda bound: (bound.epsilon, bound.delta))
    return replace(
        worst,
        delta=max(bound.delta for bound in bounds),
        confidence=max(0.0, 1.0 - sum(1.0 - bound.confidence for bound in bounds)),
        source=f"parallel composition of {len(bounds)} parts; from: {worst.source}",
        assumptions=tuple(assumptions),
    )
