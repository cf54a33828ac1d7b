"""Exposure of each system to everyone who may look: what is shown and what is proved.

Both of one scope, the widest asked, with their deltas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fedrec_auditor.accountants.statements import (
    Bound,
    Horizon,
    Scope,
    Unit,
    Vantage,
    guess_probability,
)
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import LIKELY, shown_bounds
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.record.sections import Section


class Tone(StrEnum):
    """How much is learned: the colour of a cell."""

    BAD = "bad"
    OPEN = "open"
    CALM = "calm"


@dataclass(frozen=True, slots=True)
class InScope:
    """The largest lower bound of one scope, and its least finite upper bound.

    ``shown`` holds without an assumption, and may be that of a narrower scope, which this one
    covers: who is told apart by less is told apart by more. ``claimed`` are the epsilons that are
    claimed of the system: equal ones are printed alike.
    """

    scope: Scope
    shown: Bound | None
    proved: Bound | None
    claimed: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """The unit, the horizon and the delta, or both deltas."""
        known = (("shown", self.shown), ("proved", self.proved))
        deltas = {name: bound.delta for name, bound in known if bound is not None}
        told = [say.delta_words(delta) for delta in set(deltas.values()) if delta]
        if len(set(deltas.values())) > 1:
            told = [f"{say.delta_words(delta)} ({name})" for name, delta in deltas.items()]
        return ", ".join((self.scope.unit, self.scope.horizon, *told))

    @property
    def shown_words(self) -> str:
        """The largest epsilon shown; empty if none is."""
        if self.shown is None:
            return ""
        beside = (*self.claimed, *(() if self.proved is None else (self.proved.epsilon,)))
        said = say.shown_words(self.shown, beside)
        return f"shown {said if math.isinf(self.shown.epsilon) else f'≥ {said}'}"

    @property
    def proved_words(self) -> str:
        """The least epsilon proved; "nothing proved" if none is finite."""
        if self.proved is None:
            return "nothing proved"
        beside = () if self.shown is None else (self.shown.epsilon,)
        return f"proved ≤ {say.proved_words(self.proved, (*self.claimed, *beside))}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The scope, what is shown in it, and what is proved: with a star, of an assumption."""
        star = " *" if self.proved is not None and self.proved.assumptions else ""
        return tuple(filter(None, (self.label, self.shown_words, self.proved_words + star)))


@dataclass(frozen=True, slots=True)
class Exposure:
    """The knowledge of one observer about one system.

    ``told`` is the widest scope asked; and the one in which most is shown, if that is more.
    ``others`` are the other scopes, wider ones first.
    """

    told: tuple[InScope, ...]
    others: tuple[InScope, ...]
    tone: Tone


def exposure(section: Section, vantage: Vantage) -> Exposure | None:
    """The exposure from a vantage; None where no scope of it was asked."""
    findings = [finding for finding in section.findings if finding.scope.vantage is vantage]
    within = {id(finding.measured) for finding in findings}
    judged = [finding for finding in findings if not finding.game]  # which is of fewer items
    bounds = [
        bound
        for bound in shown_bounds(section)
        if bound.scope.vantage is vantage or id(bound) in within
    ]
    scopes = dict.fromkeys([f.scope for f in judged] + [bound.scope for bound in bounds])
    if not scopes:
        return None
    asked = [_in_scope(scope, judged, bounds) for scope in sorted(scopes, key=_width, reverse=True)]
    widest, loudest = asked[0], max(asked, key=_loudness)
    told = (widest, loudest) if _loudness(loudest) > _loudness(widest) else (widest,)
    return Exposure(
        told=told,
        others=tuple(each for each in asked if each not in told),
        tone=_tone(judged, max(bounds, key=lambda bound: bound.epsilon, default=None)),
    )


def _in_scope(scope: Scope, judged: Sequence[Finding], bounds: Sequence[Bound]) -> InScope:
    proofs = [finding.accounted for finding in judged if finding.scope == scope]
    finite = [proof for proof in proofs if proof is not None and math.isfinite(proof.epsilon)]
    covered = [bound for bound in bounds if scope.covers(bound.scope)]
    shown = max(covered, key=lambda bound: bound.epsilon, default=None)
    # A proof at a larger delta says nothing of what is shown at a smaller one.
    alike = [proof for proof in finite if shown is not None and proof.delta <= shown.delta]
    proved = min(alike or finite, key=lambda proof: proof.epsilon, default=None)
    claimed = dict.fromkeys(f.claim.epsilon for f in judged if f.scope == scope)
    return InScope(scope=scope, shown=shown, proved=proved, claimed=tuple(claimed))


def _width(scope: Scope) -> tuple[int, int]:
    """Larger for a wider unit, and of one unit for a longer horizon."""
    return list(Unit).index(scope.unit), list(Horizon).index(scope.horizon)


def _loudness(asked: InScope) -> float:
    return -1.0 if asked.shown is None else asked.shown.epsilon


def _tone(asked: list[Finding], shown: Bound | None) -> Tone:
    """Bad if a bit is shown to be guessed 99.9% of the time, calm if 90% is proved out of reach."""
    if shown is not None and guess_probability(shown.epsilon) >= VACUOUS_GUESS:
        return Tone.BAD
    proved = [
        finding.accounted is not None
        and guess_probability(finding.accounted.epsilon, finding.accounted.delta) < LIKELY
        for finding in asked
    ]
    return Tone.CALM if proved and all(proved) else Tone.OPEN
