"""Verdicts: the only module that makes them, and the definitions of their names.

A lower bound refutes an upper bound only if both conditions hold. The scope of the upper bound must
cover the scope of the lower bound, and the delta of the lower bound must be no smaller than that of
the upper bound: a mechanism that is not (eps, delta)-private at a larger delta is not at a smaller
one either.
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
    UnknownSizeError,
    check_delta,
    guess_probability,
)
from fedrec_auditor.accountants.theorems.conversions import convert

# A claim is vacuous if, even if it holds, a bit can be guessed with this probability (epsilon 6.9).
VACUOUS_GUESS = 0.999
# A measurement contradicts a proof only at this confidence. At 95%, one honest target in a few
# hundred would raise the alarm by chance.
ALARM_CONFIDENCE = 1 - 1e-6
# Relative slack when two epsilons are compared: floating-point noise is not a finding.
_SLACK = 1e-9


class Word(StrEnum):
    """A label of a judgement; ``meaning`` defines it for every page and help text."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """Makes the member whose value is ``word``."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class Verdict(Word):
    """The conclusion of an audit about one claim in one scope.

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
        "run, there were too few samples to refute it even if every guess had been right, or too "
        "few trainings to refute a claim of half their epsilon.",
    )
    CONSISTENT = (
        "CONSISTENT",
        "Proved in this scope, and not refuted. An audit can only fail to refute.",
    )
    INCOMPARABLE = (
        "INCOMPARABLE",
        "The claim is about another scope, so it is neither refuted nor upheld here.",
    )
    NO_CLAIM = (
        "NO CLAIM",
        "The authors claim no epsilon, so there is nothing to refute; a bound may exceed an "
        "epsilon that the audit derived.",
    )
    UNSOUND = (
        "UNSOUND",
        "A lower bound exceeds our own proved upper bound: target, accountant or estimator is "
        "wrong. Trust no number of this audit until it is known which of them is.",
    )


class Arithmetic(Word):
    """Whether a number that a statement rests on is correct; independent of the claim of epsilon.

    Members are ordered from the best to the worst. Only numbers that authors state can be WRONG.
    """

    RIGHT = ("RIGHT", "The numbers that the paper states or relies on are correct.")
    LOOSE = (
        "LOOSE",
        "A number that the paper states is a valid bound, but larger than the truth by more than "
        "rounding.",
    )
    UNSTATED = (
        "UNSTATED",
        "A number that the audit derived, and that the authors do not state, is not correct.",
    )
    WRONG = ("WRONG", "A number that the paper states or relies on is not correct.")


class FailOn(StrEnum):
    """The level at which a command fails: verdicts, or the severity of a system in reports.

    - ``unsubstantiated`` and ``no-claim`` include the verdicts of the levels before them.
    - ``leak`` is a refuted claim, or a system whose leak is medium or worse, even without a claim.
    - ``critical``, ``high`` and ``medium`` are a system whose severity is that or worse.

    At the levels ``leak``, ``critical``, ``high`` and ``medium`` a system whose leak or severity is
    not known is incomplete.
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
        """The equivalent level of verdicts alone, if no attack is run.

        A refuted claim fails all of these levels.

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
"""Exit codes: a finding at the requested level; an audit that allows no conclusion."""
LEAK_MARGIN = 0.05
"""The smallest advantage, as a share of 1 - baseline, with which an attack counts as a leak."""
INCONCLUSIVE = str(Verdict.INCONCLUSIVE).lower()
"""The name in ``Gate.allow`` with which an INCONCLUSIVE verdict is not a failure."""
NOT_ASSESSED = "not-assessed"
"""The name in ``Gate.allow`` for a leak or a severity that was not assessed."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The rule by which a command or a test fails.

    - ``fail_on``: the level at which it fails.
    - ``allow``: results that are not failures: "inconclusive", "not-assessed", or both.
    - ``leak_margin``: the advantage over guessing with which an attack counts as a leak.

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
        """Raises InputError if the margin is not a number in [0, 1)."""
        if not 0.0 <= self.leak_margin < 1.0:
            raise InputError(
                f"Expected leak_margin in [0, 1), got {self.leak_margin}. Give for example "
                f"{LEAK_MARGIN}."
            )

    def code(self, verdicts: Iterable[Verdict], *, failing: bool | None = None) -> int:
        """Exit code: 3 if a verdict is UNSOUND; else 1 if one is at the level; else 3 or 0.

        A refuted claim stays refuted even if something else could not be tested. So the code 3 for
        an INCONCLUSIVE verdict that is not allowed comes last. ``failing`` states whether the audit
        fails, if that does not depend on the verdicts but, for example, on changes since a
        baseline.
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
"""Fails if a claim is refuted or if the audit shows nothing."""
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
    """Whether the verdict of a claim became worse.

    A verdict becomes worse if the claim is no longer proved, is refuted, or the audit contradicts
    itself.

    >>> is_worse(Verdict.UNSUBSTANTIATED, Verdict.CONSISTENT)
    True
    """
    return _BADNESS[now] > _BADNESS[before]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, whether the claim is vacuous, and the reason in words."""

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
    """Judges a number that a paper states against the number computed here.

    Parameters
    ----------
    claimed, right : the stated number and the computed one; equal infinities agree.
    tolerance : largest difference, relative to ``right``; absolute if ``right`` is below 1.
    below : true if the paper states only that the right number is below the claimed one.
    upper : true if the number is an upper bound (epsilon, sensitivity); then a larger one holds.
    basis : authorship of the number; a derived number is never WRONG.
    """
    wrong = Arithmetic.UNSTATED if basis is Basis.DERIVED else Arithmetic.WRONG
    if below:
        return Arithmetic.RIGHT if right < claimed else wrong
    close = tolerance * max(1.0, abs(right))
    if claimed == right or (math.isfinite(right) and abs(claimed - right) <= close):
        return Arithmetic.RIGHT
    return Arithmetic.LOOSE if upper and claimed > right else wrong


def worst_label(words: Iterable[Arithmetic]) -> Arithmetic | None:
    """The worst label of several numbers; None if there are no numbers."""
    return max(words, key=list(Arithmetic).index, default=None)


def exceeds(epsilon: float, limit: float) -> bool:
    """Whether ``epsilon`` is above ``limit`` by more than floating-point noise."""
    if math.isinf(limit):
        return False
    return epsilon > limit + _SLACK * max(1.0, abs(limit))


def is_vacuous(upper: Bound | Claim) -> bool:
    """Whether the upper bound is vacuous: if it holds, a bit may still be guessed 99.9% of the
    time.
    """
    return guess_probability(upper.epsilon, upper.delta) >= VACUOUS_GUESS


def refutes(lower: Bound, upper: Bound | Claim) -> bool:
    """Whether a lower bound exceeds an upper one in a scope and at a delta where both apply."""
    return (
        upper.scope.covers(lower.scope)
        and lower.delta >= upper.delta
        and exceeds(lower.epsilon, upper.epsilon)
    )


def refutes_assumptions(lower: Bound | None, upper: Bound | None) -> bool:
    """Whether a lower bound without assumptions shows that the upper one's assumptions fail."""
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
    """Judges ``claim`` in ``scope`` against the proved upper bound and the measured lower bound.

    Parameters
    ----------
    claim : the authors' upper bound, in its own scope.
    scope : the scope in question: the claim's own, or one in which a reader would understand it.
    delta : the delta in question; default: the claim's own. A claim also holds at larger deltas.
    accounted : an accountant's upper bound whose scope covers ``scope``, or None.
    measured : the largest lower bound, in a scope that ``scope`` covers, or None.
    sizes : numbers of parts in wider scopes, to convert the claim to them; not for the verdict.
    outside_model : a condition of the question that no claim of this paper covers in any scope (for
        example, that users collude); "" if there is none. The claim is then not refuted, even if
        everything leaks.
    untested : sentences that state why no measurement could have refuted the claim; "" if one could
        have, or if the caller does not ask for it.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> claim = Claim(epsilon=0.5, scope=scope, statement="It is 0.5-LDP.", source="Theorem 1")
    >>> shown = Bound(epsilon=1.0, side=Side.LOWER, scope=scope, source="exact probabilities")
    >>> print(judge(claim, scope=scope, measured=shown).reason)
    Epsilon is at least 1, exactly (exact probabilities), above the claimed 0.5, in a scope that
    the claim covers.
    """
    _check_sides(scope, accounted, measured)
    vacuous = math.isfinite(claim.epsilon) and is_vacuous(claim)
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
            f"{'; '.join(measured.assumptions)}; that is not known, so this bound decides nothing."
        )
    if measured is not None and accounted is not None and refutes(measured, accounted):
        if accounted.assumptions:
            verdict, reason = _conclude(claim, scope, delta, None, measured, sizes, outside_model)
            return verdict, (
                f"{reason} The proof of {_at(accounted)} does not hold either: it is not so that "
                f"{'; '.join(accounted.assumptions)}."
            )
        if measured.confidence < ALARM_CONFIDENCE:
            capped = replace(measured, epsilon=accounted.epsilon)
            verdict, reason = _conclude(
                claim, scope, delta, accounted, capped, sizes, outside_model
            )
            return verdict, (
                f"{reason} (The measurement itself, {_at(measured)}, is above the proof, which "
                f"happens by chance: no contradiction below {ALARM_CONFIDENCE} confidence.)"
            )
        return Verdict.UNSOUND, (
            f"The lower bound {_at(measured)} ({measured.source}) exceeds our own proved upper "
            f"bound {_at(accounted)} ({accounted.source}) in the same scope. The target, the "
            "accountant or the estimator is wrong: trust no other result of this audit."
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
        return Verdict.NO_CLAIM, f"{reason} The authors do not state it, so nothing is refuted."
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
            f"Had every guess been right, the lower bound would be {_number(measured.largest)} "
            f"at most ({measured.source}): there were too few draws to refute the claimed "
            f"{_number(claim.epsilon)}. {unproved}"
        )
    if unproved or accounted is None:
        return Verdict.UNSUBSTANTIATED, f"{_tested(measured)}{unproved}"
    shown = "no lower bound is known"
    if measured is not None:
        shown = f"the largest lower bound found is {_at(measured)} ({measured.source})"
    return Verdict.CONSISTENT, f"Proved at {_proof(accounted)}; {shown}."


def _tested(measured: Bound | None) -> str:
    """A sentence on the lower bound of a sample and the largest bound possible; "" if no sample."""
    if measured is None or measured.confidence == 1.0:
        return ""
    limit = ""
    if measured.largest is not None and math.isfinite(measured.largest):
        limit = f"; the sample could have shown at most {_number(measured.largest)}"
    return f"The measured lower bound is {_at(measured)} ({measured.source}){limit}. "


def _unproved(claim: Claim, delta: float, accounted: Bound | None) -> str:
    """A sentence on what a proof of the claim at ``delta`` lacks; "" if the claim is proved."""
    if accounted is None:
        return "No lower bound refutes it, and no accountant can prove it."
    if accounted.delta > delta:
        return f"Only {_proof(accounted)} can be proved; the delta in question is {_number(delta)}."
    if math.isinf(accounted.epsilon) and not math.isinf(claim.epsilon):
        return "No lower bound refutes it, and no finite epsilon can be proved."
    if exceeds(accounted.epsilon, claim.epsilon):
        return (
            f"No lower bound refutes it, but the smallest epsilon that can be proved is "
            f"{_proof(accounted)}, above the claimed {_number(claim.epsilon)}."
        )
    return ""


def _carried(claim: Claim, scope: Scope, delta: float, sizes: Sizes | None) -> str:
    """A sentence that converts the claim to a scope that it does not cover, or says why it cannot.

    Without ``sizes``, a conversion that needs them gives "".
    """
    if claim.scope.covers(scope):
        return ""
    stated = Bound(
        epsilon=claim.epsilon,
        delta=claim.delta,
        side=Side.UPPER,
        scope=claim.scope,
        source="the claim",
    )
    try:
        converted = convert(stated, scope, sizes, delta)
    except UnknownSizeError as unknown:
        if sizes is None:
            return ""
        return f"Converting the claim takes the number of {unknown.size}, which is not known."
    except InputError:
        if "vantage" in claim.scope.uncovered(scope):
            return (
                "The claim implies nothing in this scope: the view from the vantage "
                f"{scope.vantage} is not a function of the view from the vantage "
                f"{claim.scope.vantage}."
            )
        return "The claim implies nothing in this scope."
    how = converted.source.removesuffix("; from: the claim")
    return f"Converted to this scope, the claim is epsilon {_at(converted)} ({how})."


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
            f"A reader who takes the claim as a promise in this scope is wrong: epsilon is {least} "
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
            f"Expected measured as a lower bound in the scope [{scope}] or a narrower one, got the "
            f"{measured.side} bound in [{measured.scope}]. Measure a lower bound in that scope."
        )


def _number(value: float) -> str:
    """At most six significant digits; large epsilons in full, as in the tables of the reports."""
    if math.isinf(value):
        return "infinite"
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e9 else f"{value:.6g}"


def _proof(bound: Bound) -> str:
    """An upper bound, its source and its assumptions, as text."""
    return f"{_at(bound)} ({bound.source}){_if_so(bound)}"


def _if_so(bound: Bound) -> str:
    return f", if {'; '.join(bound.assumptions)}" if bound.assumptions else ""


def _at(bound: Bound) -> str:
    delta = f" at delta={bound.delta:.3g}" if bound.delta else ""
    return f"{_number(bound.rounded)}{delta}"
