"""The only place where verdicts are made.

A lower bound refutes an upper bound only where the upper bound speaks: the upper's scope must
cover the lower's, and the lower's delta must be no smaller than the upper's (whoever is not
(eps, delta)-private at a larger delta is not at a smaller one either).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_delta, guess_probability
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.statements.sizes import Sizes, UnknownSize
from fedrec_auditor.accountants.theorems.conversions import convert

# A claim is vacuous if, even where it holds, one bit can be guessed this often (epsilon 6.9).
VACUOUS_GUESS = 0.999
# A measurement contradicts a proof only at this confidence. At 95%, one honest target in a few
# hundred would raise the alarm by bad luck of its samples.
ALARM_CONFIDENCE = 1 - 1e-6
# Relative slack when two epsilons are compared: floating-point noise is no finding.
_SLACK = 1e-9


class Verdict(StrEnum):
    """What the audit concludes of one claim in one scope."""

    VIOLATED = "VIOLATED"
    UNSUBSTANTIATED = "UNSUBSTANTIATED"
    CONSISTENT = "CONSISTENT"
    INCOMPARABLE = "INCOMPARABLE"
    UNSOUND = "UNSOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, whether the claim says anything at all, and why."""

    verdict: Verdict
    vacuous: bool
    reason: str


def exceeds(epsilon: float, limit: float) -> bool:
    """Whether ``epsilon`` is above ``limit`` by more than floating-point noise."""
    if math.isinf(limit):
        return False
    return epsilon > limit + _SLACK * max(1.0, abs(limit))


def refutes(lower: Bound, upper: Bound | Claim) -> bool:
    """Whether the lower bound contradicts the upper one: scopes and deltas agree, it is above."""
    return (
        upper.scope.covers(lower.scope)
        and lower.delta >= upper.delta
        and exceeds(lower.epsilon, upper.epsilon)
    )


def judge(
    claim: Claim,
    *,
    scope: Scope,
    delta: float | None = None,
    accounted: Bound | None = None,
    measured: Bound | None = None,
    sizes: Sizes | None = None,
    beyond: str = "",
) -> Judgement:
    """Judge ``claim`` in ``scope`` against what can be proved and what was measured.

    Parameters
    ----------
    claim : the authors' upper bound, in its own scope.
    scope : the scope in question; the claim's own, or one that a reader would take it for.
    delta : the delta in question, by default the claim's own. A claim speaks at larger deltas too.
    accounted : an accountant's upper bound whose scope covers ``scope``, or None.
    measured : the largest lower bound found, in a scope that ``scope`` covers, or None.
    sizes : how much the wider scopes hold, to say what the claim becomes there; it decides nothing.
    beyond : what is asked that no claim in this paper speaks of, whatever the scope (that users
        collude, say); "" if nothing is. The claim is then not refuted, however large the leak.
    """
    _check_sides(scope, accounted, measured)
    vacuous = guess_probability(claim.epsilon, claim.delta) >= VACUOUS_GUESS
    asked = claim.delta if delta is None else check_delta(delta)
    verdict, reason = _conclude(claim, scope, asked, accounted, measured, sizes, beyond)
    return Judgement(verdict=verdict, vacuous=vacuous, reason=reason)


def _conclude(
    claim: Claim,
    scope: Scope,
    delta: float,
    accounted: Bound | None,
    measured: Bound | None,
    sizes: Sizes | None,
    beyond: str,
) -> tuple[Verdict, str]:
    if measured is not None and accounted is not None and refutes(measured, accounted):
        if measured.confidence < ALARM_CONFIDENCE:
            capped = replace(measured, epsilon=accounted.epsilon)
            verdict, reason = _conclude(claim, scope, delta, accounted, capped, sizes, beyond)
            return verdict, (
                f"{reason} (The measurement itself, {_at(measured)}, lies above the proof, as "
                f"chance makes some do: no contradiction below {ALARM_CONFIDENCE} confidence.)"
            )
        return Verdict.UNSOUND, (
            f"The lower bound {_at(measured)} ({measured.source}) exceeds our own proved upper "
            f"bound {_at(accounted)} ({accounted.source}) in the same scope. The target, the "
            "accountant or the estimator is wrong; trust nothing else in this audit."
        )
    if measured is not None and not beyond and refutes(measured, claim):
        how = (
            "exactly" if measured.confidence == 1.0 else f"at {measured.confidence:.4g} confidence"
        )
        least = "infinite" if math.isinf(measured.epsilon) else f"at least {_at(measured)}"
        return Verdict.VIOLATED, (
            f"Epsilon is {least}, {how} ({measured.source}), above the claimed "
            f"{_number(claim.epsilon)}, in a scope that the claim covers."
        )
    differences = [
        f"{name}: claimed for {getattr(claim.scope, name)}, asked for {getattr(scope, name)}"
        for name in claim.scope.uncovered(scope)
    ]
    if delta < claim.delta:
        differences.append(f"delta: claimed at {claim.delta:.3g}, asked at {delta:.3g}")
    if beyond:
        differences.append(beyond)
    if differences:
        speaks = measured if measured is not None and measured.delta >= delta else None
        carried = _carried(claim, scope, delta, sizes)
        return Verdict.INCOMPARABLE, _incomparable(claim, differences, carried, accounted, speaks)
    if math.isinf(claim.epsilon):
        return Verdict.CONSISTENT, "No epsilon is claimed, so there is nothing to refute."
    if accounted is None:
        return Verdict.UNSUBSTANTIATED, "No lower bound refutes it, and no accountant can prove it."
    if accounted.delta > delta:
        return Verdict.UNSUBSTANTIATED, (
            f"Only {_at(accounted)} can be proved ({accounted.source}); the claim is asked at "
            f"delta={_number(delta)}."
        )
    if exceeds(accounted.epsilon, claim.epsilon):
        return Verdict.UNSUBSTANTIATED, (
            f"No lower bound refutes it, but the least epsilon that can be proved is "
            f"{_at(accounted)} ({accounted.source}), above the claimed {_number(claim.epsilon)}."
        )
    found = "nothing was measured"
    if measured is not None:
        found = f"the largest lower bound found is {_at(measured)} ({measured.source})"
    return Verdict.CONSISTENT, f"Proved at {_at(accounted)} ({accounted.source}); {found}."


def _carried(claim: Claim, scope: Scope, delta: float, sizes: Sizes | None) -> str:
    """What the claim becomes in a scope that it does not cover, or why nothing follows.

    Without ``sizes`` what needs them is left out.
    """
    if claim.scope.covers(scope) or math.isinf(claim.epsilon):
        return ""
    said = Bound(
        epsilon=claim.epsilon,
        delta=claim.delta,
        side=Side.UPPER,
        scope=claim.scope,
        source="the claim",
    )
    try:
        found = convert(said, scope, sizes, delta)
    except UnknownSize as unknown:
        if sizes is None:
            return ""
        return f"What it becomes there takes the number of {unknown.size}, which is not known here."
    except InputError as error:
        return f"Nothing follows from it there: {error}"
    how = found.source.removesuffix("; from: the claim")
    return f"Taken at its word, it becomes {_at(found)} there ({how})."


def _incomparable(
    claim: Claim,
    differences: list[str],
    carried: str,
    accounted: Bound | None,
    measured: Bound | None,
) -> str:
    parts = [f"The claim does not speak of this scope ({', '.join(differences)}).", carried]
    if accounted is not None:
        parts.append(f"In this scope at most {_at(accounted)} can be proved ({accounted.source}).")
    if measured is not None and exceeds(measured.epsilon, claim.epsilon):
        least = "infinite" if math.isinf(measured.epsilon) else f"at least {_at(measured)}"
        parts.append(
            f"Whoever reads the claim as a promise in this scope is wrong: epsilon is {least} "
            f"({measured.source})."
        )
    return " ".join(part for part in parts if part)


def _check_sides(scope: Scope, accounted: Bound | None, measured: Bound | None) -> None:
    if accounted is not None and not (
        accounted.side is Side.UPPER and accounted.scope.covers(scope)
    ):
        raise InputError(
            f"Expected an accounted upper bound that covers [{scope}], got a {accounted.side} "
            f"bound in [{accounted.scope}]. Ask the target for its event in that scope."
        )
    if measured is not None and not (measured.side is Side.LOWER and scope.covers(measured.scope)):
        raise InputError(
            f"Expected a measured lower bound inside [{scope}], got a {measured.side} bound in "
            f"[{measured.scope}]. Measure in the scope that is judged."
        )


def _number(value: float) -> str:
    """At most six digits; large epsilons in full, as the reports have them beside."""
    if math.isinf(value):
        return "infinite"
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e9 else f"{value:.6g}"


def _at(bound: Bound) -> str:
    delta = f" at delta={bound.delta:.3g}" if bound.delta else ""
    return f"{_number(bound.epsilon)}{delta}"
