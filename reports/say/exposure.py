"""The exposure of a system to each adversary: its lower and upper bound of epsilon, with deltas.

Both bounds are for the widest scope (unit and time span) that was examined.
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
    compute_guess_probability,
)
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS_PROB
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import MIN_MEDIUM_GUESS_RATE, list_lower_bounds
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
    lower_bound: lower bound without assumptions, in this scope or a narrower scope that it covers; None
        without one. An adversary who distinguishes inputs with less information also does so with
        more.
    upper_bound: upper bound; None without one.
    claimed_epsilons: claimed epsilons of the system; a bound that equals one of them is rounded like it.
    """

    scope: Scope
    lower_bound: Bound | None
    upper_bound: Bound | None
    claimed_epsilons: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """The unit (protected data), the horizon (time span) and the delta as text.

        Two deltas if those of the bounds differ.
        """
        known = (("shown", self.lower_bound), ("proved", self.upper_bound))
        deltas = {name: bound.delta for name, bound in known if bound is not None}
        texts = [say.format_delta(delta) for delta in set(deltas.values()) if delta]
        if len(set(deltas.values())) > 1:
            texts = [f"{say.format_delta(delta)} ({name})" for name, delta in deltas.items()]
        unit = say.UNITS[self.scope.unit].removeprefix("all data of ").partition(" of ")[0]
        return ", ".join((unit, say.HORIZONS[self.scope.horizon], *texts)).replace(", over ", ", ")

    @property
    def lower_bound_text(self) -> str:
        """The largest lower bound of epsilon as text; empty if there is none."""
        if self.lower_bound is None:
            return ""
        beside = (
            *self.claimed_epsilons,
            *(() if self.upper_bound is None else (self.upper_bound.epsilon,)),
        )
        epsilon = say.format_lower_bound(self.lower_bound, beside)
        return f"shown: epsilon {'infinite' if math.isinf(self.lower_bound.epsilon) else f'≥ {epsilon}'}"

    @property
    def upper_bound_text(self) -> str:
        """The smallest finite upper bound of epsilon, or "no upper bound is proved"."""
        if self.upper_bound is None:
            return "no proved upper bound"
        beside = () if self.lower_bound is None else (self.lower_bound.epsilon,)
        return f"proved: epsilon ≤ {say.format_upper_bound(self.upper_bound, (*self.claimed_epsilons, *beside))}"


@dataclass(frozen=True, slots=True)
class Exposure:
    """The exposure of one system to one adversary: bounds of epsilon by scope.

    main_bounds: bounds in the widest scope, and in the scope with the largest lower bound if that is
        larger.
    other_bounds: bounds in all other scopes, the widest first.
    tone: colour of the table cell.
    """

    main_bounds: tuple[BoundsInScope, ...]
    other_bounds: tuple[BoundsInScope, ...]
    tone: Tone


def find_exposure(section: Section, vantage: Vantage) -> Exposure | None:
    """Returns the bounds of epsilon of a system against the adversary with the view ``vantage``.

    None if no scope was examined for this adversary.
    """
    findings = [finding for finding in section.findings if finding.scope.vantage is vantage]
    within = {id(finding.measured) for finding in findings}
    judged = [finding for finding in findings if not finding.game]  # a game has fewer items
    bounds = [
        bound
        for bound in list_lower_bounds(section)
        if bound.scope.vantage is vantage or id(bound) in within
    ]
    scopes = dict.fromkeys([f.scope for f in judged] + [bound.scope for bound in bounds])
    if not scopes:
        return None
    every = [_in_scope(scope, judged, bounds) for scope in sorted(scopes, key=_width, reverse=True)]
    widest, largest = every[0], max(every, key=_shown_epsilon)
    first = (widest, largest) if _shown_epsilon(largest) > _shown_epsilon(widest) else (widest,)
    return Exposure(
        main_bounds=first,
        other_bounds=tuple(each for each in every if each not in first),
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
    return BoundsInScope(
        scope=scope, lower_bound=shown, upper_bound=proved, claimed_epsilons=tuple(claimed)
    )


def _width(scope: Scope) -> tuple[int, int]:
    """A sort key that is larger for a wider unit, then for a longer horizon."""
    return list(Unit).index(scope.unit), list(Horizon).index(scope.horizon)


def _shown_epsilon(within: BoundsInScope) -> float:
    return -1.0 if within.lower_bound is None else within.lower_bound.epsilon


def _tone(findings: list[Finding], shown: Bound | None) -> Tone:
    """The colour of the table cell for one adversary, from the bounds of epsilon."""
    # The colour is bad if a lower bound shows right guesses at one bit 99.9% of the time. It is
    # calm if every proof forbids right guesses 90% of the time.
    if shown is not None and compute_guess_probability(shown.epsilon) >= VACUOUS_GUESS_PROB:
        return Tone.BAD
    proved = [
        finding.accounted is not None
        and compute_guess_probability(finding.accounted.epsilon, finding.accounted.delta)
        < MIN_MEDIUM_GUESS_RATE
        for finding in findings
    ]
    return Tone.CALM if proved and all(proved) else Tone.OPEN
