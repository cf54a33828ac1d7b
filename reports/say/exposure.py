"""The exposure of a system to each adversary: its lower and upper bound of epsilon, with deltas.

Both bounds are for one scope, the widest that was examined.
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
from fedrec_auditor.reports.record.leaks import MEDIUM_RATE, lower_bounds
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.record.sections import Section


class Tone(StrEnum):
    """The colour of a table cell, by how much the adversary learns."""

    BAD = "bad"
    OPEN = "open"
    CALM = "calm"


@dataclass(frozen=True, slots=True)
class BoundsInScope:
    """The largest lower bound and the smallest finite upper bound of epsilon in one scope.

    scope: the scope.
    shown: lower bound without assumptions, in this scope or a narrower one that it covers. An
        adversary who distinguishes inputs with less information also does so with more.
    proved: upper bound.
    claimed: claimed epsilons of the system; an equal bound is printed alike.
    """

    scope: Scope
    shown: Bound | None
    proved: Bound | None
    claimed: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """The unit, the horizon, and the delta, or one delta per bound if they differ."""
        known = (("shown", self.shown), ("proved", self.proved))
        deltas = {name: bound.delta for name, bound in known if bound is not None}
        texts = [say.delta_words(delta) for delta in set(deltas.values()) if delta]
        if len(set(deltas.values())) > 1:
            texts = [f"{say.delta_words(delta)} ({name})" for name, delta in deltas.items()]
        return ", ".join((self.scope.unit, self.scope.horizon, *texts))

    @property
    def shown_words(self) -> str:
        """The largest lower bound of epsilon; empty without a lower bound."""
        if self.shown is None:
            return ""
        beside = (*self.claimed, *(() if self.proved is None else (self.proved.epsilon,)))
        epsilon = say.lower_words(self.shown, beside)
        return f"shown {epsilon if math.isinf(self.shown.epsilon) else f'≥ {epsilon}'}"

    @property
    def proved_words(self) -> str:
        """The smallest upper bound of epsilon; "no bound proved" without a finite upper bound."""
        if self.proved is None:
            return "no bound proved"
        beside = () if self.shown is None else (self.shown.epsilon,)
        return f"proved ≤ {say.upper_bound_words(self.proved, (*self.claimed, *beside))}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The label, the lower bound, and the upper bound with a star if it has assumptions."""
        star = " *" if self.proved is not None and self.proved.assumptions else ""
        return tuple(filter(None, (self.label, self.shown_words, self.proved_words + star)))


@dataclass(frozen=True, slots=True)
class Exposure:
    """The exposure of one system to one adversary.

    main: the widest scope, and the scope with the largest lower bound if that is larger.
    others: all other scopes, the widest first.
    tone: colour of the table cell.
    """

    main: tuple[BoundsInScope, ...]
    others: tuple[BoundsInScope, ...]
    tone: Tone


def exposure(section: Section, vantage: Vantage) -> Exposure | None:
    """Returns the exposure of a system to an adversary; None if no scope was examined."""
    findings = [finding for finding in section.findings if finding.scope.vantage is vantage]
    within = {id(finding.measured) for finding in findings}
    judged = [finding for finding in findings if not finding.game]  # a game has fewer items
    bounds = [
        bound
        for bound in lower_bounds(section)
        if bound.scope.vantage is vantage or id(bound) in within
    ]
    scopes = dict.fromkeys([f.scope for f in judged] + [bound.scope for bound in bounds])
    if not scopes:
        return None
    every = [_in_scope(scope, judged, bounds) for scope in sorted(scopes, key=_width, reverse=True)]
    widest, largest = every[0], max(every, key=_shown_epsilon)
    first = (widest, largest) if _shown_epsilon(largest) > _shown_epsilon(widest) else (widest,)
    return Exposure(
        main=first,
        others=tuple(each for each in every if each not in first),
        tone=_tone(judged, max(bounds, key=lambda bound: bound.epsilon, default=None)),
    )


def _in_scope(scope: Scope, judged: Sequence[Finding], bounds: Sequence[Bound]) -> BoundsInScope:
    proofs = [finding.accounted for finding in judged if finding.scope == scope]
    finite = [proof for proof in proofs if proof is not None and math.isfinite(proof.epsilon)]
    covered = [bound for bound in bounds if scope.covers(bound.scope)]
    shown = max(covered, key=lambda bound: bound.epsilon, default=None)
    # A proof at a larger delta is not comparable with a lower bound at a smaller one.
    fitting = [proof for proof in finite if shown is not None and proof.delta <= shown.delta]
    proved = min(fitting or finite, key=lambda proof: proof.epsilon, default=None)
    claimed = dict.fromkeys(f.claim.epsilon for f in judged if f.scope == scope)
    return BoundsInScope(scope=scope, shown=shown, proved=proved, claimed=tuple(claimed))


def _width(scope: Scope) -> tuple[int, int]:
    """A sort key that is larger for a wider unit, then for a longer horizon."""
    return list(Unit).index(scope.unit), list(Horizon).index(scope.horizon)


def _shown_epsilon(within: BoundsInScope) -> float:
    return -1.0 if within.shown is None else within.shown.epsilon


def _tone(findings: list[Finding], shown: Bound | None) -> Tone:
    """The colour of a cell, from the bounds of one adversary.

    The colour is bad if a lower bound shows right guesses at one bit 99.9% of the time. It is calm
    if every proof forbids right guesses 90% of the time.
    """
    if shown is not None and guess_probability(shown.epsilon) >= VACUOUS_GUESS:
        return Tone.BAD
    proved = [
        finding.accounted is not None
        and guess_probability(finding.accounted.epsilon, finding.accounted.delta) < MEDIUM_RATE
        for finding in findings
    ]
    return Tone.CALM if proved and all(proved) else Tone.OPEN
