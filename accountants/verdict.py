"""Verdicts on privacy claims: their definitions, and the only functions that decide them.

A lower bound refutes an upper bound only under two conditions. Its scope is covered by the scope of
the upper bound. Its delta is at least the delta of the upper bound.
"""

# Reason for the second condition: a mechanism that violates (eps, delta)-DP at a larger delta also
# violates it at a smaller delta.

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
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
    compute_guess_probability,
)
from fedrec_auditor.accountants.theorems.conversions import convert_bound

# A claim is vacuous if it permits guessing a bit with this probability (epsilon 6.9).
VACUOUS_GUESS_PROB = 0.999
# Confidence at which a measured lower bound may contradict our own proof and raise an alarm
# (verdict UNSOUND). At 95%, one honest target in a few hundred would raise it by chance.
ALARM_CONFIDENCE = 1 - 1e-6
# Relative slack when two epsilons are compared: floating-point noise is not a finding.
_SLACK = 1e-9


class LabelEnum(StrEnum):
    """Base class of enumerations whose members are codes with a label for people, such as verdicts
    and levels.

    - ``label``: the text for people. Files contain the value of the member, not its label.
    - ``definition``: a sentence that pages and help texts print; "" without one.

    A member is found by its value, its name or its label. Case does not matter, and words are
    separated by spaces, hyphens or underscores:

    >>> Verdict("not-tested") is Verdict("inconclusive") is Verdict.INCONCLUSIVE
    True
    """

    label: str
    definition: str

    def __new__(cls, word: str, label: str = "", meaning: str = "") -> Self:
        """Creates the member with the value ``word``, its label and its definition ``meaning``."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.label = label or word
        member.definition = meaning
        return member

    @property
    def option_value(self) -> str:
        """The label in the form of a command-line value, such as "not-tested"."""
        return _normalize_name(self.label)

    def matches_name(self, text: str) -> bool:
        """Whether ``text`` is the member's name (a code) or its label, in upper or lower
        case, with spaces, hyphens or underscores between words.
        """
        return _normalize_name(text) in (self.option_value, _normalize_name(self.name))

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return next((each for each in cls if each.matches_name(str(value))), None)


def _normalize_name(text: str) -> str:
    return re.sub(r"[\s_-]+", "-", text.strip().lower().replace("'", ""))


class Verdict(LabelEnum):
    """Conclusion of an audit about a claim, for one scope (protected data, adversary and period).

    - ``VIOLATED``: the claim is refuted by a lower bound.
    - ``UNSUBSTANTIATED``: the claim is neither refuted nor proved.
    - ``INCONCLUSIVE``: the claim is not proved, and the audit could not have refuted it.
    - ``CONSISTENT``: the claim is proved and not refuted.
    - ``INCOMPARABLE``: the claim is about another scope.
    - ``NO_CLAIM``: the authors claim no epsilon.
    - ``UNSOUND``: the audit contradicts itself, because a lower bound exceeds its own proof.

    >>> print(Verdict.UNSUBSTANTIATED, "-", Verdict.UNSUBSTANTIATED.definition)
    UNSUBSTANTIATED - The claim is neither refuted nor proved.
    """

    VIOLATED = (
        "VIOLATED",
        "false",
        "A lower bound on epsilon exceeds the claimed epsilon, in a scope that the claim covers.",
    )
    UNSUBSTANTIATED = ("UNSUBSTANTIATED", "unproved", "The claim is neither refuted nor proved.")
    INCONCLUSIVE = (
        "INCONCLUSIVE",
        "not tested",
        "The claim is not proved, and the audit could not have refuted it, even if it is false: "
        "the audit ran no game, or too few samples or trainings.",
    )
    CONSISTENT = (
        "CONSISTENT",
        "proved",
        "The claim is proved in this scope, and the measurements do not refute it.",
    )
    INCOMPARABLE = (
        "INCOMPARABLE",
        "outside the claim's scope",
        "The claim is about another scope, so the audit neither refutes nor proves it here.",
    )
    NO_CLAIM = (
        "NO CLAIM",
        "no claim",
        "The authors claim no epsilon, so there is nothing to refute, even if a lower bound "
        "exceeds an epsilon that the audit derived from their text or code.",
    )
    UNSOUND = (
        "UNSOUND",
        "contradicts our own proof",
        "A lower bound exceeds our own proved upper bound, so the system's code, the accountant "
        "or the estimator is wrong. Do not trust any number of this audit.",
    )


class NumberLabel(LabelEnum):
    """Label that says whether a number in a paper, such as a sensitivity, is correct. The verdict
    on the claimed epsilon is separate.

    Labels are ordered from the best to the worst. WRONG is only for numbers that authors state.
    """

    RIGHT = ("RIGHT", "right", "The numbers that the paper states or relies on are correct.")
    LOOSE = (
        "LOOSE",
        "loose",
        "The paper states a number that is a valid bound, but larger than the correct number, by "
        "more than rounding.",
    )
    UNSTATED = (
        "UNSTATED",
        "not stated",
        "A number that no author states, but one reading of the paper implies, is not correct.",
    )
    WRONG = ("WRONG", "wrong", "A number that the paper states or relies on is not correct.")


class FailOn(LabelEnum):
    """Level at which a command exits with a failure: certain verdicts on claims, or the severity of
    a system in the report.

    - ``false``: a refuted claim.
    - ``unproved``: a refuted claim, or a claim that is neither refuted nor proved.
    - ``no-claim``: as ``unproved``, or a system whose authors state no epsilon.
    - ``leak``: a refuted claim, or attacks that succeed with severity medium or worse, even without
      a claim.
    - ``critical``, ``high``, ``medium``: a system with this severity or a worse one.
    - ``never``: nothing.

    At the levels ``leak``, ``critical``, ``high`` and ``medium``, a system of unknown severity
    makes the audit incomplete.
    """

    VIOLATED = "false"
    LEAK = "leak"
    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    UNSUBSTANTIATED = "unproved"
    NO_CLAIM = "no-claim"
    NEVER = "never"

    @property
    def without_severities(self) -> FailOn:
        """Level that replaces this one in commands that give verdicts on claims, but run no
        attacks, so that severities are unknown.

        A refuted claim fails at all levels except ``never``.

        >>> critical, medium = FailOn.CRITICAL, FailOn.MEDIUM
        >>> print(critical.without_severities, medium.without_severities)
        false unproved
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
# Exit codes: FOUND for a finding at the requested level, INCOMPLETE if there is no conclusion.
EXIT_FOUND, INCOMPLETE = 1, 3
# Smallest advantage over guessing, as a fraction of 1 - baseline, with which an attack counts as a
# leak.
DEFAULT_LEAK_MARGIN = 0.05


class Exemption(LabelEnum):
    """Outcomes that a user may allow by name (option --allow), so that they do not lead to exit
    code 3.

    - ``INCONCLUSIVE``: an inconclusive verdict on a claim.
    - ``NOT_ASSESSED``: a system whose leak or severity could not be determined.
    """

    INCONCLUSIVE = "not-tested"
    NOT_ASSESSED = "not-assessed"


@dataclass(frozen=True, slots=True)
class Gate:
    """Condition on the verdicts of an audit under which a command or a test fails.

    - ``fail_on``: level at which it fails.
    - ``allow``: labels of outcomes that do not make the audit incomplete: "not-tested" (too few
      measurements to refute a claim), "not-assessed" (severity unknown), or both.
    - ``leak_margin``: advantage over guessing, in [0, 1), with which an attack counts as a leak.
    - ``waivers``: one sentence per waived result. The key has the system's name, and the attack's
      name or the claim's scope.
    - ``expired_waivers``: one sentence per expired waiver. Expired waivers are failures.

    >>> Gate().exit_code([Verdict.CONSISTENT]), Gate().exit_code([Verdict.VIOLATED])
    (0, 1)
    >>> [gate.exit_code([Verdict.INCONCLUSIVE]) for gate in (Gate(), Gate(allow=("not-tested",)))]
    [3, 0]
    >>> Gate().exit_code([Verdict.INCONCLUSIVE, Verdict.VIOLATED])
    1
    """

    fail_on: FailOn = FailOn.VIOLATED
    allow: Collection[str] = ()
    leak_margin: float = DEFAULT_LEAK_MARGIN
    waivers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    expired_waivers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises InputError if ``leak_margin`` is not in [0, 1)."""
        if not 0.0 <= self.leak_margin < 1.0:
            raise InputError(
                f"Expected leak_margin in [0, 1), got {self.leak_margin}. Give, for example, "
                f"{DEFAULT_LEAK_MARGIN}."
            )

    def exit_code(self, verdicts: Iterable[Verdict], *, failing: bool | None = None) -> int:
        """Computes the exit code: 0 for success, 1 for a failure at the level of the gate, 3 for an
        incomplete audit.

        The first rule that applies decides:

        - 3 if a verdict is UNSOUND (the audit contradicts itself);
        - 1 if the audit fails at the level ``fail_on``;
        - 3 if a verdict is INCONCLUSIVE, unless ``allow`` lists "not-tested";
        - 0 otherwise.

        ``failing``: whether the audit fails at this level; None to compute it from the verdicts.
        """
        # ``failing`` is given if it depends on more than the verdicts, for example on changes since
        # a baseline.
        reached = set(verdicts)
        if Verdict.UNSOUND in reached:
            return INCOMPLETE
        if failing is None:
            failing = bool(reached & _LEVELS.get(self.fail_on, frozenset()))
        if failing:
            return EXIT_FOUND
        untested = Verdict.INCONCLUSIVE in reached and not self.allows(Exemption.INCONCLUSIVE)
        return INCOMPLETE if untested else 0

    def apply_expired_waivers(self, code: int) -> int:
        """Returns 1 if ``code`` is 0 and a waiver is expired, otherwise the exit code ``code``.

        At the level ``never``, an expired waiver is ignored.
        """
        fails = self.expired_waivers and self.fail_on is not FailOn.NEVER
        return code or (EXIT_FOUND if fails else 0)

    def allows(self, outcome: Exemption) -> bool:
        """Whether ``outcome`` leaves the audit complete, because ``allow`` lists its label (such as
        "not-tested") or its code.
        """
        return any(map(outcome.matches_name, self.allow))


# Gate that fails if a claim is refuted or if the audit allows no conclusion.
DEFAULT_GATE = Gate()
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
    """Whether the verdict ``now`` is worse than the earlier verdict ``before`` on the same claim.

    The order, from best to worst, is:

    - proved, not comparable, or no claim;
    - neither proved nor refuted;
    - refuted;
    - unsound (the audit contradicts itself).

    >>> is_worse(Verdict.UNSUBSTANTIATED, Verdict.CONSISTENT)
    True
    """
    return _BADNESS[now] > _BADNESS[before]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdict on a claim, with its reason.

    - ``verdict``: the verdict.
    - ``is_vacuous``: true if the claimed epsilon is finite but too large to protect anything: it
      permits guessing a bit correctly with probability 0.999 or more.
    - ``reason``: the reason of the verdict, as sentences.
    """

    verdict: Verdict
    is_vacuous: bool
    reason: str


def judge_number(
    claimed: float,
    correct: float,
    *,
    tolerance: float = 1e-9,
    is_below_claimed: bool = False,
    is_upper_bound: bool = False,
    basis: Basis = Basis.PRINTED,
) -> NumberLabel:
    """Compares a number that a paper states with the number computed here, and returns a label.

    Parameters
    ----------
    claimed, correct : the stated number and the computed number. Equal infinities agree.
    tolerance : largest difference of numbers that agree: relative to ``correct``, or absolute if
        the absolute value of ``correct`` is below 1.
    is_below_claimed : true if the paper states only that the number is below ``claimed``.
    is_upper_bound : true if the number is an upper bound (epsilon, sensitivity). A larger stated
        number is then LOOSE, not WRONG.
    basis : origin of the claimed number. An incorrect number that the audit derived is UNSTATED,
        not WRONG.
    """
    wrong = NumberLabel.UNSTATED if basis is Basis.DERIVED else NumberLabel.WRONG
    if is_below_claimed:
        return NumberLabel.RIGHT if correct < claimed else wrong
    close = tolerance * max(1.0, abs(correct))
    if claimed == correct or (math.isfinite(correct) and abs(claimed - correct) <= close):
        return NumberLabel.RIGHT
    return NumberLabel.LOOSE if is_upper_bound and claimed > correct else wrong


def find_worst_label(labels: Iterable[NumberLabel]) -> NumberLabel | None:
    """Returns the worst of several labels, or None if there are none."""
    return max(labels, key=list(NumberLabel).index, default=None)


def exceeds(epsilon: float, limit: float) -> bool:
    """Whether ``epsilon`` is above ``limit`` by more than floating-point error."""
    if math.isinf(limit):
        return False
    return epsilon > limit + _SLACK * max(1.0, abs(limit))


def is_vacuous(upper: Bound | Claim) -> bool:
    """Whether an upper bound is vacuous: it permits guessing a bit correctly with probability 0.999
    or more.
    """
    return compute_guess_probability(upper.epsilon, upper.delta) >= VACUOUS_GUESS_PROB


def refutes(lower: Bound, upper: Bound | Claim) -> bool:
    """Whether the lower bound ``lower`` refutes the upper bound or claim ``upper``.

    The epsilon of ``lower`` must be larger, its delta at least as large, and its scope covered by
    the scope of ``upper`` (``Scope.covers``).
    """
    is_comparable = upper.scope.covers(lower.scope) and lower.delta >= upper.delta
    return is_comparable and exceeds(lower.epsilon, upper.epsilon)


def refutes_assumptions(lower: Bound | None, upper: Bound | None) -> bool:
    """Whether a lower bound without assumptions exceeds an upper bound with assumptions.

    One of these assumptions is then false. The result is false if either bound is None.
    """
    return (
        lower is not None
        and upper is not None
        and bool(upper.assumptions)
        and not lower.assumptions
        and refutes(lower, upper)
    )


def judge_claim(
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
    """Decides the verdict on ``claim`` in ``scope`` from the proved upper bound and the measured
    lower bound.

    Parameters
    ----------
    claim : the authors' upper bound, in its own scope.
    scope : scope of the verdict: the claim's own, or one in which a reader may understand the
        claim.
    delta : delta of the verdict; None means the claim's own. A claim also holds at larger deltas.
    accounted : an accountant's upper bound whose scope covers ``scope``, or None.
    measured : the largest lower bound, in a scope that ``scope`` covers, or None.
    sizes : numbers of items, reports and rounds, with which the reason converts the claim to a
        wider scope. They do not affect the verdict.
    outside_model : text on a condition outside the paper's threat model, for example that users
        collude; "" if none. Under such a condition, the claim is never refuted.
    untested : sentences on why no measurement could have refuted the claim; "" if one could
        have, or if the caller does not ask. Given sentences turn UNSUBSTANTIATED into INCONCLUSIVE.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> claim = Claim(epsilon=0.5, scope=scope, statement="It is 0.5-LDP.", source="Theorem 1")
    >>> shown = Bound(epsilon=1.0, side=Side.LOWER, scope=scope, source="exact probabilities")
    >>> print(judge_claim(claim, scope=scope, measured=shown).reason)
    Epsilon is at least 1, by calculation (exact probabilities), above the claimed epsilon, 0.5, in
    a scope that the claim covers.
    """
    _check_sides(scope, accounted, measured)
    vacuous = math.isfinite(claim.epsilon) and is_vacuous(claim)
    asked = claim.delta if delta is None else check_delta(delta)
    verdict, reason = _conclude(claim, scope, asked, accounted, measured, sizes, outside_model)
    if untested and verdict is Verdict.UNSUBSTANTIATED:
        verdict, reason = Verdict.INCONCLUSIVE, f"{untested} {reason}"
    return Judgement(verdict=verdict, is_vacuous=vacuous, reason=reason)


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
            f"{reason} Epsilon is at least {_state(measured)} ({measured.source}) if "
            f"{' and '.join(measured.assumptions)}. That is unknown, so this bound decides nothing."
        )
    if measured is not None and accounted is not None and refutes(measured, accounted):
        if accounted.assumptions:
            verdict, reason = _conclude(claim, scope, delta, None, measured, sizes, outside_model)
            return verdict, (
                f"{reason} The proof of {_state(accounted)} does not hold either: it is false that "
                f"{' and '.join(accounted.assumptions)}."
            )
        if measured.confidence < ALARM_CONFIDENCE:
            equal = replace(measured, epsilon=accounted.epsilon)
            verdict, reason = _conclude(claim, scope, delta, accounted, equal, sizes, outside_model)
            return verdict, (
                f"{reason} (The measured lower bound, {_state(measured)}, exceeds the proved upper "
                f"bound. At a confidence below {ALARM_CONFIDENCE}, that counts as chance.)"
            )
        return Verdict.UNSOUND, (
            f"The lower bound of epsilon, {_state(measured)} ({measured.source}), exceeds our own "
            f"proved bound, {_state(accounted)} ({accounted.source}), in the same scope. The "
            "system, the accountant or the estimator is wrong: trust no other result of this audit."
        )
    if measured is not None and not outside_model and refutes(measured, claim):
        derived = claim.basis is Basis.DERIVED
        sure = measured.confidence
        how = "by calculation" if sure == 1.0 else f"at {sure:.4g} confidence"
        least = "infinite" if math.isinf(measured.epsilon) else f"at least {_state(measured)}"
        where = "a scope" if claim.scope.covers(scope) else f"[{measured.scope}], a scope"
        reason = (
            f"Epsilon is {least}, {how} ({measured.source}), above the "
            f"{'derived' if derived else 'claimed'} epsilon, {_format(claim.epsilon)}, in {where} "
            f"that {'the derived epsilon' if derived else 'the claim'} covers."
        )
        if not derived:
            return Verdict.VIOLATED, reason
        return Verdict.NO_CLAIM, f"{reason} This audit derived that epsilon; nobody claims it."
    if math.isinf(claim.epsilon):
        return Verdict.NO_CLAIM, "No epsilon is claimed, so there is nothing to refute."
    differences = [
        f"{name}: claimed {getattr(claim.scope, name)}, judged {getattr(scope, name)}"
        for name in claim.scope.list_uncovered_fields(scope)
    ]
    if delta < claim.delta:
        differences.append(f"delta: claimed {claim.delta:.3g}, judged {delta:.3g}")
    if outside_model:
        differences.append(outside_model)
    if differences:
        speaks = measured if measured is not None and measured.delta >= delta else None
        carried = _convert_claim(claim, scope, delta, sizes)
        return Verdict.INCOMPARABLE, _explain_scope(claim, differences, carried, accounted, speaks)
    unproved = _explain_unproved(claim, delta, accounted)
    if unproved and measured is not None and not exceeds(measured.largest, claim.epsilon):
        return Verdict.INCONCLUSIVE, (
            f"Even if every guess had been right, the lower bound of epsilon would be "
            f"at most {_format(measured.largest)} ({measured.source}). The draws were too few to "
            f"refute the claimed epsilon, {_format(claim.epsilon)}. {unproved}"
        )
    if unproved or accounted is None:
        return Verdict.UNSUBSTANTIATED, f"{_describe_measured(measured)}{unproved}"
    shown = "No lower bound of epsilon is known"
    if measured is not None:
        shown = f"The largest lower bound of epsilon is {_state(measured)} ({measured.source})"
    return Verdict.CONSISTENT, f"The proved upper bound is {_state_proof(accounted)}. {shown}."


def _describe_measured(measured: Bound | None) -> str:
    """Sentence on a measured lower bound, and on the largest lower bound that its sample could have
    given; "" if nothing was measured from a sample.
    """
    if measured is None or measured.confidence == 1.0:
        return ""
    limit = ""
    if measured.largest is not None and math.isfinite(measured.largest):
        limit = f". This sample could have shown at most an epsilon of {_format(measured.largest)}"
    return f"The measured lower bound of epsilon is {_state(measured)} ({measured.source}){limit}. "


def _explain_unproved(claim: Claim, delta: float, accounted: Bound | None) -> str:
    """Sentence on why the upper bound ``accounted`` does not prove the claim at ``delta``; "" if it
    proves the claim.
    """
    if accounted is None:
        return "No lower bound refutes the claim, and no accountant can prove it."
    if accounted.delta > delta:
        return f"Only {_state_proof(accounted)} can be proved, but the judged delta is {delta:.6g}."
    if math.isinf(accounted.epsilon) and not math.isinf(claim.epsilon):
        return "No lower bound refutes the claim, and no finite epsilon can be proved."
    if exceeds(accounted.epsilon, claim.epsilon):
        return (
            f"No lower bound refutes the claim, but the smallest epsilon that can be proved is "
            f"{_state_proof(accounted)}, above the claimed epsilon, {_format(claim.epsilon)}."
        )
    return ""


def _convert_claim(claim: Claim, scope: Scope, delta: float, sizes: Sizes | None) -> str:
    """Sentence that converts the claim to a scope that the claim does not cover, or states why this
    is impossible.

    The sentence is "" if the claim covers the scope, or if a size is needed and ``sizes`` is None.
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
        converted = convert_bound(stated, scope, sizes, delta)
    except UnknownSizeError as unknown:
        if sizes is None:
            return ""
        name = unknown.size_name
        return f"The claim cannot be converted to this scope: the number of {name} is not known."
    except InputError:
        if "vantage" in claim.scope.list_uncovered_fields(scope):
            return (
                "The claim implies nothing in this scope: the adversary "
                f"“{scope.vantage}” sees messages that cannot be computed from those that the "
                f"adversary of the claim, “{claim.scope.vantage}”, sees."
            )
        return "The claim implies nothing in this scope."
    how = converted.source.removesuffix("; from: the claim")
    return f"Converted to this scope, the claim is: epsilon at most {_state(converted)} ({how})."


def _explain_scope(
    claim: Claim,
    differences: list[str],
    carried: str,
    accounted: Bound | None,
    measured: Bound | None,
) -> str:
    parts = [f"The claim does not cover this scope ({'; '.join(differences)}).", carried]
    if accounted is not None:
        most = "no finite epsilon"
        if math.isfinite(accounted.epsilon):
            most = f"an epsilon of at most {_state(accounted)}"
        parts += [f"In this scope {most} can be proved ({accounted.source}){_state_if(accounted)}."]
    if measured is not None and exceeds(measured.epsilon, claim.epsilon):
        least = "infinite" if math.isinf(measured.epsilon) else f"at least {_state(measured)}"
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
            f"Expected `accounted` to be an upper bound that covers [{scope}], got the "
            f"{accounted.side} bound for [{accounted.scope}]. Give an upper bound for [{scope}]."
        )
    if measured is not None and not (measured.side is Side.LOWER and scope.covers(measured.scope)):
        raise InputError(
            f"Expected `measured` to be a lower bound for [{scope}] or a scope within it, got the "
            f"{measured.side} bound for [{measured.scope}]. Give a lower bound for [{scope}]."
        )


def _format(value: float) -> str:
    """A number as text with at most six significant digits; large epsilons in full, as in the
    tables of the reports.
    """
    if math.isinf(value):
        return "infinite"
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e9 else f"{value:.6g}"


def _state_proof(bound: Bound) -> str:
    """Text that states an upper bound with its source and its assumptions."""
    return f"{_state(bound)} ({bound.source}){_state_if(bound)}"


def _state_if(bound: Bound) -> str:
    return f", if {'; '.join(bound.assumptions)}" if bound.assumptions else ""


def _state(bound: Bound) -> str:
    delta = f" at delta={bound.delta:.3g}" if bound.delta else ""
    return f"{_format(bound.rounded_epsilon)}{delta}"
