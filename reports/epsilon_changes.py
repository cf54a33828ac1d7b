"""Epsilons that differ between two records, beyond noise.

An epsilon lies between what is shown at least and what is proved at most; a calculated lower bound
that is tight is its upper end, too. It rose or fell if these two intervals do not overlap. Where
both are calculated, more shown is worse, too; less shown proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import refutes
from fedrec_auditor.reports.change import Change, Subject, Trend, pairs, question
from fedrec_auditor.reports.rows import Contents, Finding
from fedrec_auditor.reports.words import (
    assumption_words,
    at_most,
    question_words,
    shown_epsilon,
    sure_words,
)

_APART = 1e-3
"""How far apart two calculated epsilons are that are not the same, relative to the larger."""


def epsilon_changes(record: Contents, baseline: Contents) -> Iterator[Change]:
    """What is shown and what is proved of each question that both audits ask."""
    for now, old in pairs(record.findings, baseline.findings, question):
        yield from filter(None, (_shown(now, old), _proved(now, old)))


def moved_samples(record: Contents, baseline: Contents) -> int:
    """How many lower bounds rest on samples and moved, but by no more than noise may."""
    return sum(
        not (_calculated(_lower(now)) and _calculated(_lower(old)))
        and _differ(_epsilon(_lower(now)) or 0.0, _epsilon(_lower(old)) or 0.0)
        and _shown(now, old) is None
        for now, old in pairs(record.findings, baseline.findings, question)
    )


def _shown(now: Finding, old: Finding) -> Change | None:
    after, was = _lower(now), _lower(old)
    rose, fell = _exceeds(after, _upper(old)), _exceeds(was, _upper(now))
    both = _calculated(after) and _calculated(was)
    if both and _differ(_epsilon(after) or 0.0, _epsilon(was) or 0.0):
        words = f"was {_least(was)}"
        rose |= after is not None and was is not None and after.epsilon > was.epsilon
    elif rose:
        words = f"while it was {_most(_upper(old))}"
    elif fell:
        words = f"and {_most(_upper(now))}, was {_least(was)}"
    else:
        return None
    trend = Trend.WORSE if rose else Trend.BETTER if fell else Trend.OTHER
    words = f"epsilon shown is {_least(after)}, {words}, for {question_words(now)}."
    return Change(trend, Subject.SHOWN, now.target, words, _epsilon(was), _epsilon(after))


def _proved(now: Finding, old: Finding) -> Change | None:
    after, was = _proof(now), _proof(old)
    most, before = (math.inf if proof is None else proof.epsilon for proof in (after, was))
    moved = _differ(most, before)
    if_so, if_then = assumption_words(after), assumption_words(was)
    same = if_so == if_then
    if not moved and same:
        return None
    trend = Trend.OTHER
    if moved:
        trend = Trend.WORSE if most > before else Trend.BETTER
    told = (f"epsilon proved is {_most(after)}", "" if same else if_so, f"was {_most(was)}")
    about = f"for {question_words(now)}"
    words = f"{', '.join(filter(None, (*told, if_then, about)))}."
    return Change(trend, Subject.PROVED, now.target, words, before, most)


def _lower(finding: Finding) -> Bound | None:
    """What is shown without an assumption, and no more than the same audit proves."""
    shown, proof = finding.shown, finding.accounted
    if _exceeds(shown, proof) and shown is not None and proof is not None:  # by chance
        return replace(shown, epsilon=proof.epsilon)
    return shown


def _upper(finding: Finding) -> Bound | None:
    """The least that epsilon is known to be at most without an assumption."""
    shown, proof = _lower(finding), finding.accounted
    known = [proof] if proof is not None and not proof.assumptions else []
    known += [shown] if shown is not None and shown.tight and _calculated(shown) else []
    return min(known, key=lambda bound: bound.epsilon, default=None)


def _proof(finding: Finding) -> Bound | None:
    """What is proved at the delta that is asked."""
    proof = finding.accounted
    return proof if proof is not None and proof.delta <= finding.delta else None


def _exceeds(shown: Bound | None, most: Bound | None) -> bool:
    """Whether a bound refutes one that assumes nothing, by more than rounding."""
    if shown is None or most is None or most.assumptions:
        return False
    return refutes(shown, most) and _differ(shown.epsilon, most.epsilon)


def _calculated(bound: Bound | None) -> bool:
    return bound is None or bound.confidence == 1.0


def _epsilon(bound: Bound | None) -> float | None:
    return None if bound is None else bound.epsilon


def _differ(one: float, other: float) -> bool:
    return not math.isclose(one, other, rel_tol=_APART, abs_tol=1e-12)


def _least(bound: Bound | None) -> str:
    if bound is None:
        return "nothing"
    least = shown_epsilon(bound.epsilon)
    return least if bound.confidence == 1.0 else f"{least} ({sure_words(bound)})"


def _most(bound: Bound | None) -> str:
    if bound is None or math.isinf(bound.epsilon):
        return "not finite"
    return f"at most {at_most(bound.epsilon)}"
