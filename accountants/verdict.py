"""The only place where verdicts are made, and where their words are defined.

A lower bound refutes an upper bound only where the upper bound speaks: the upper's scope must
cover the lower's, and the lower's delta must be no smaller than the upper's (whoever is not
(eps, delta)-private at a larger delta is not at a smaller one either).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import (
    Basis,
    Bound,
    Claim,
    Scope,
    Side,
    Sizes,
    UnknownSize,
    check_delta,
    guess_probability,
)
from fedrec_auditor.accountants.theorems.conversions import convert

# A claim is vacuous if, even where it holds, one bit can be guessed this often (epsilon 6.9).
VACUOUS_GUESS = 0.999
# A measurement contradicts a proof only at this confidence. At 95%, one honest target in a few
# hundred would raise the alarm by bad luck of its samples.
ALARM_CONFIDENCE = 1 - 1e-6
# Relative slack when two epsilons are compared: floating-point noise is no finding.
_SLACK = 1e-9


class Word(StrEnum):
    """A word of judgement; ``meaning`` defines it in a sentence or two, for every page and help."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """The member whose value is ``word``."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class Verdict(Word):
    """What the audit concludes of one claim in one scope.

    >>> print(Verdict.UNSUBSTANTIATED, "-", Verdict.UNSUBSTANTIATED.meaning)
    UNSUBSTANTIATED - Neither refuted nor proved.
    """

    VIOLATED = (
        "VIOLATED",
        "A lower bound exceeds the claim in a scope that the claim covers: the claim is refuted.",
    )
    UNSUBSTANTIATED = ("UNSUBSTANTIATED", "Neither refuted nor proved.")
    INCONCLUSIVE = (
        "INCONCLUSIVE",
        "Not proved, and nothing could have refuted the claim had it been false: no game was "
        "played, the samples are so few that even if every guess had been right the claim would "
        "stand, or so few trainings could not have refuted half of what they spend.",
    )
    CONSISTENT = (
        "CONSISTENT",
        "Proved in this scope, and not refuted. An audit can only fail to refute.",
    )
    INCOMPARABLE = (
        "INCOMPARABLE",
        "The claim does not speak of this scope, so it is neither refuted nor upheld here.",
    )
    NO_CLAIM = (
        "NO CLAIM",
        "No epsilon is claimed by the authors, so there is nothing to refute; one that the audit "
        "derived may be exceeded.",
    )
    UNSOUND = (
        "UNSOUND",
        "A lower bound exceeds our own proved upper bound: target, accountant or estimator is "
        "wrong, and no number of this audit can be trusted until it is known which.",
    )


class Arithmetic(Word):
    """Whether a number that a statement rests on comes out; it says nothing of an epsilon's claim.

    From the best to the worst. Only what authors state can be WRONG.
    """

    RIGHT = ("RIGHT", "The numbers that the paper states or relies on come out.")
    LOOSE = (
        "LOOSE",
        "A number that the paper states is a valid bound, but larger than the truth by more than "
        "rounding.",
    )
    UNSTATED = (
        "UNSTATED",
        "A number that the audit derived, and that the authors do not state, does not come out.",
    )
    WRONG = ("WRONG", "A number that the paper states or relies on does not come out.")


class FailOn(StrEnum):
    """What a command fails on: verdicts, or what reports call the severity of a system.

    ``unsubstantiated`` and ``no-claim`` include the verdicts before. ``leak`` is a refuted claim,
    or a system whose leak is medium or worse, whatever is claimed; ``critical``, ``high`` and
    ``medium`` are a system whose severity is that or worse. A system of which this is not known is
    incomplete at these four.
    """

    VIOLATED = "violated"
    LEAK = "leak"
    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    UNSUBSTANTIATED = "unsubstantiated"
    NO_CLAIM = "no-claim"
    NEVER = "never"

    @property
    def of_claims(self) -> FailOn:
        """The level of verdicts alone, where no attack is played: a refuted claim fails them all.

        >>> print(FailOn.CRITICAL.of_claims, FailOn.MEDIUM.of_claims)
        violated unsubstantiated
        """
        if self is FailOn.MEDIUM:
            return FailOn.UNSUBSTANTIATED
        return FailOn.VIOLATED if self in (FailOn.LEAK, FailOn.CRITICAL, FailOn.HIGH) else self


_VIOLATED = frozenset({Verdict.VIOLATED})
_LEVELS = {
    FailOn.VIOLATED: _VIOLATED,
    FailOn.LEAK: _VIOLATED,
    FailOn.UNSUBSTANTIATED: _VIOLATED | {Verdict.UNSUBSTANTIATED},
    FailOn.NO_CLAIM: _VIOLATED | {Verdict.UNSUBSTANTIATED, Verdict.NO_CLAIM},
}
FOUND, INCOMPLETE = 1, 3
"""Exit codes: a finding at the level asked for; an audit from which nothing follows."""
LEAK_MARGIN = 0.05
"""The share of what guessing leaves open, 1 - baseline, that an attack must win to be a leak."""
INCONCLUSIVE = str(Verdict.INCONCLUSIVE).lower()
"""What a caller allows so that an INCONCLUSIVE verdict is no failure."""
NOT_ASSESSED = "not-assessed"
"""Name by which a caller allows a leak or a severity that was not assessed."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Rule by which a command or a test fails; ``allow`` may name "inconclusive", "not-assessed".

    ``leak_margin`` is by how much an attack must beat guessing to be a leak.

    >>> Gate().code([Verdict.CONSISTENT]), Gate().code([Verdict.VIOLATED])
    (0, 1)
    >>> [gate.code([Verdict.INCONCLUSIVE]) for gate in (Gate(), Gate(allow=("inconclusive",)))]
    [3, 0]
    >>> Gate().code([Verdict.INCONCLUSIVE, Verdict.VIOLATED])
    1
    """

    fail_on: FailOn = FailOn.VIOLATED
    allow: Collection[str] = ()
    leak_margin: float = LEAK_MARGIN

    def __post_init__(self) -> None:
        """InputError for a margin that is no number of [0, 1)."""
        if not 0.0 <= self.leak_margin < 1.0:
            raise InputError(
                f"Expected a leak margin in [0, 1), got {self.leak_margin}. Give for example "
                f"{LEAK_MARGIN}."
            )

    def code(self, verdicts: Iterable[Verdict], *, failing: bool | None = None) -> int:
        """Exit code: 3 if one is UNSOUND; else 1 if one is at the level; else 3 or 0.

        A refuted claim stays refuted whatever else could not be tested, so 3 for one that is
        INCONCLUSIVE and not allowed comes last. ``failing`` says whether the audit fails where not
        the verdicts decide that, but what got worse since a baseline, say.
        """
        reached = set(verdicts)
        if Verdict.UNSOUND in reached:
            return INCOMPLETE
        if failing is None:
            failing = bool(reached & _LEVELS.get(self.fail_on, frozenset()))
        if failing:
            return FOUND
        untested = Verdict.INCONCLUSIVE in reached and INCONCLUSIVE not in self.allow
        return INCOMPLETE if untested else 0


DEFAULT_GATE = Gate()
"""Fails what is refuted, and what shows nothing."""
_BADNESS = {
    Verdict.CONSISTENT: 0,
    Verdict.INCOMPARABLE: 0,
    Verdict.NO_CLAIM: 0,
    Verdict.UNSUBSTANTIATED: 1,
    Verdict.INCONCLUSIVE: 1,
    Verdict.VIOLATED: 2,
    Verdict.UNSOUND: 3,
}


def is_worse(now: Verdict, before: Verdict) -> bool:
    """Whether a claim stands worse now: no longer proved, refuted, or the audit contradicts itself.

    >>> is_worse(Verdict.UNSUBSTANTIATED, Verdict.CONSISTENT)
    True
    """
    return _BADNESS[now] > _BADNESS[before]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, whether the claim says anything at all, and why."""

    verdict: Verdict
    vacuous: bool
    reason: str


def judge_number(
    claimed: float,
    right: float,
    *,
    tolerance: float = 1e-9,
    below: bool = False,
    upper: bool = False,
    basis: Basis = Basis.PRINTED,
) -> Arithmetic:
    """Judge a number that a paper states against the one computed here.

    Parameters
    ----------
    claimed, right : the two numbers; infinities agree with themselves.
    tolerance : how far they may be apart, relative to the right one, absolute below 1.
    below : the paper says only that the right number is below the claimed one.
    upper : the number is an upper bound (an epsilon, a sensitivity), so a larger one still holds.
    basis : who states the number; one that is derived is never WRONG.
    """
    wrong = Arithmetic.UNSTATED if basis is Basis.DERIVED else Arithmetic.WRONG
    if below:
        return Arithmetic.RIGHT if right < claimed else wrong
    close = tolerance * max(1.0, abs(right))
    if claimed == right or (math.isfinite(right) and abs(claimed - right) <= close):
        return Arithmetic.RIGHT
    return Arithmetic.LOOSE if upper and claimed > right else wrong


def worst_number(words: Iterable[Arithmetic]) -> Arithmetic | None:
    """The word for several numbers together: the worst of them; None of none."""
    return max(words, key=list(Arithmetic).index, default=None)


def exceeds(epsilon: float, limit: float) -> bool:
    """Whether ``epsilon`` is above ``limit`` by more than floating-point noise."""
    if math.isinf(limit):
        return False
    return epsilon > limit + _SLACK * max(1.0, abs(limit))


def promises_little(upper: Bound | Claim) -> bool:
    """Whether one bit may be guessed 99.9% of the time, even where the upper bound holds."""
    return guess_probability(upper.epsilon, upper.delta) >= VACUOUS_GUESS


def refutes(lower: Bound, upper: Bound | Claim) -> bool:
    """Whether the lower bound contradicts the upper one: scopes and deltas agree, it is above."""
    return (
        upper.scope.covers(lower.scope)
        and lower.delta >= upper.delta
        and exceeds(lower.epsilon, upper.epsilon)
    )


def refutes_assumptions(lower: Bound | None, upper: Bound | None) -> bool:
    """Whether the lower bound shows that what the upper one assumes is not so."""
    return (
        lower is not None
        and upper is not None
        and bool(upper.assumptions)
        and not lower.assumptions
        and refutes(lower, upper)
    )


def judge(
    claim: Claim,
    *,
    scope: Scope,
    delta: float | None = None,
    accounted: Bound | None = None,
    measured: Bound | None = None,
    sizes: Sizes | None = None,
    outside_model: str = "",
    untested: str = "",
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
    outside_model : what is asked that no claim in this paper speaks of, whatever the scope (that
        users collude, say); "" if nothing is. The claim is then not refuted, however much leaks.
    untested : sentences that say why nothing was measured that could have refuted the claim; ""
        where it was, or where nobody asked for that.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> claim = Claim(epsilon=0.5, scope=scope, statement="It is 0.5-LDP.", source="Theorem 1")
    >>> shown = Bound(epsilon=1.0, side=Side.LOWER, scope=scope, source="exact probabilities")
    >>> print(judge(claim, scope=scope, measured=shown).reason)
    Epsilon is at least 1, exactly (exact probabilities), above the claimed 0.5, in a scope that
    the claim covers.
    """
    _check_sides(scope, accounted, measured)
    vacuous = math.isfinite(claim.epsilon) and promises_little(claim)
    asked = claim.delta if delta is None else check_delta(delta)
    verdict, reason = _conclude(claim, scope, asked, accounted, measured, sizes, outside_model)
    if untested and verdict is Verdict.UNSUBSTANTIATED:
        verdict, reason = Verdict.INCONCLUSIVE, f"{untested} {reason}"
    return Judgement(verdict=verdict, vacuous=vacuous, reason=reason)


def _conclude(
    claim: Claim,
    scope: Scope,
    delta: float,
    accounted: Bound | None,
    measured: Bound | None,
    sizes: Sizes | None,
    outside_model: str,
) -> tuple[Verdict, str]:
    if measured is not None and measured.assumptions:
        verdict, reason = _conclude(claim, scope, delta, accounted, None, sizes, outside_model)
        return verdict, (
            f"{reason} Epsilon is at least {_at(measured)} ({measured.source}) if "
            f"{'; '.join(measured.assumptions)}: that is not known, and decides nothing."
        )
    if measured is not None and accounted is not None and refutes(measured, accounted):
        if accounted.assumptions:
            verdict, reason = _conclude(claim, scope, delta, None, measured, sizes, outside_model)
            return verdict, (
                f"{reason} Nor does the proof of {_at(accounted)} hold: it is not so that "
                f"{'; '.join(accounted.assumptions)}."
            )
        if measured.confidence < ALARM_CONFIDENCE:
            capped = replace(measured, epsilon=accounted.epsilon)
            verdict, reason = _conclude(
                claim, scope, delta, accounted, capped, sizes, outside_model
            )
            return verdict, (
                f"{reason} (The measurement itself, {_at(measured)}, lies above the proof, as "
                f"chance makes some do: no contradiction below {ALARM_CONFIDENCE} confidence.)"
            )
        return Verdict.UNSOUND, (
            f"The lower bound {_at(measured)} ({measured.source}) exceeds our own proved upper "
            f"bound {_at(accounted)} ({accounted.source}) in the same scope. The target, the "
            "accountant or the estimator is wrong; trust nothing else in this audit."
        )
    if measured is not None and not outside_model and refutes(measured, claim):
        derived = claim.basis is Basis.DERIVED
        how = (
            "exactly" if measured.confidence == 1.0 else f"at {measured.confidence:.4g} confidence"
        )
        least = "infinite" if math.isinf(measured.epsilon) else f"at least {_at(measured)}"
        where = "a scope" if claim.scope.covers(scope) else f"[{measured.scope}], a scope"
        reason = (
            f"Epsilon is {least}, {how} ({measured.source}), above the "
            f"{'derived' if derived else 'claimed'} {_number(claim.epsilon)}, in {where} that the "
            "claim covers."
        )
        if not derived:
            return Verdict.VIOLATED, reason
        return Verdict.NO_CLAIM, f"{reason} The authors do not state it: nothing is refuted."
    if math.isinf(claim.epsilon):
        return Verdict.NO_CLAIM, "No epsilon is claimed, so there is nothing to refute."
    differences = [
        f"{name}: claimed for {getattr(claim.scope, name)}, asked for {getattr(scope, name)}"
        for name in claim.scope.uncovered(scope)
    ]
    if delta < claim.delta:
        differences.append(f"delta: claimed at {claim.delta:.3g}, asked at {delta:.3g}")
    if outside_model:
        differences.append(outside_model)
    if differences:
        speaks = measured if measured is not None and measured.delta >= delta else None
        carried = _carried(claim, scope, delta, sizes)
        return Verdict.INCOMPARABLE, _incomparable(claim, differences, carried, accounted, speaks)
    unproved = _unproved(claim, delta, accounted)
    if unproved and measured is not None and not exceeds(measured.largest, claim.epsilon):
        return Verdict.INCONCLUSIVE, (
            f"Had every guess been right, the sample would have shown {_number(measured.largest)} "
            f"at most ({measured.source}): too few draws to refute the claimed "
            f"{_number(claim.epsilon)}. {unproved}"
        )
    if unproved or accounted is None:
        return Verdict.UNSUBSTANTIATED, f"{_tested(measured)}{unproved}"
    found = "no lower bound is known"
    if measured is not None:
        found = f"the largest lower bound found is {_at(measured)} ({measured.source})"
    return Verdict.CONSISTENT, f"Proved at {_proof(accounted)}; {found}."


def _tested(measured: Bound | None) -> str:
    """What a sample found, and what it could have found: a sentence, if there was one."""
    if measured is None or measured.confidence == 1.0:
        return ""
    most = ""
    if measured.largest is not None and math.isfinite(measured.largest):
        most = f", of {_number(measured.largest)} that so many draws could have shown"
    return f"At least {_at(measured)} was found ({measured.source}){most}. "


def _unproved(claim: Claim, delta: float, accounted: Bound | None) -> str:
    """What is missing from a proof of the claim at ``delta``; nothing if it is proved."""
    if accounted is None:
        return "No lower bound refutes it, and no accountant can prove it."
    if accounted.delta > delta:
        return (
            f"Only {_proof(accounted)} can be proved; the claim is asked at delta={_number(delta)}."
        )
    if math.isinf(accounted.epsilon) and not math.isinf(claim.epsilon):
        return "No lower bound refutes it, and no finite epsilon can be proved."
    if exceeds(accounted.epsilon, claim.epsilon):
        return (
            f"No lower bound refutes it, but the least epsilon that can be proved is "
            f"{_proof(accounted)}, above the claimed {_number(claim.epsilon)}."
        )
    return ""


def _carried(claim: Claim, scope: Scope, delta: float, sizes: Sizes | None) -> str:
    """What the claim becomes in a scope that it does not cover, or why nothing follows.

    Without ``sizes`` what needs them is left out.
    """
    if claim.scope.covers(scope):
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
        return f"What the claim becomes there takes the number of {unknown.size}, not known here."
    except InputError:
        if "vantage" in claim.scope.uncovered(scope):
            return (
                "Nothing follows from the claim there: what is seen from the vantage of the "
                f"{scope.vantage} is not made of what is seen from that of the "
                f"{claim.scope.vantage}."
            )
        return "Nothing follows from the claim there."
    how = found.source.removesuffix("; from: the claim")
    return f"Taken at its word, the claim becomes {_at(found)} there ({how})."


def _incomparable(
    claim: Claim,
    differences: list[str],
    carried: str,
    accounted: Bound | None,
    measured: Bound | None,
) -> str:
    parts = [f"The claim does not speak of this scope ({', '.join(differences)}).", carried]
    if accounted is not None:
        most = "no finite epsilon"
        if math.isfinite(accounted.epsilon):
            most = f"at most {_at(accounted)}"
        parts.append(f"In this scope {most} can be proved ({accounted.source}){_if_so(accounted)}.")
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


def _proof(bound: Bound) -> str:
    """An upper bound, where it comes from and what it assumes."""
    return f"{_at(bound)} ({bound.source}){_if_so(bound)}"


def _if_so(bound: Bound) -> str:
    return f", if {'; '.join(bound.assumptions)}" if bound.assumptions else ""


def _at(bound: Bound) -> str:
    delta = f" at delta={bound.delta:.3g}" if bound.delta else ""
    return f"{_number(bound.told)}{delta}"
