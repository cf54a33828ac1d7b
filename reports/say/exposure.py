"""Exposure of a system to each adversary: its lower and upper bound of epsilon, with deltas.

The bounds to quote first are for the widest scope (unit and time span) that was examined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fedrec_auditor.accountants import statements
from fedrec_auditor.accountants.statements import Bound, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS_PROB
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import MIN_GUESS_RATE_FOR_MEDIUM, list_lower_bounds
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.record.sections import Section


class CellTone(StrEnum):
    """Colour of a table cell, by the probability that the adversary guesses one bit of the data
    right.

    BAD: by a lower bound of epsilon, this probability is 99.9% or more.
    UNDECIDED: neither ``BAD`` nor ``CALM``.
    CALM: not ``BAD``, and all judged claims have upper bounds by which this probability is below
        90%.
    """

    BAD = "bad"
    UNDECIDED = "open"
    CALM = "calm"


@dataclass(frozen=True, slots=True)
class BoundsInScope:
    """Largest lower bound and smallest finite upper bound of epsilon in one scope.

    scope: protected data, adjacency, adversary and period.
    lower_bound: largest lower bound without assumptions, in this scope or in a scope that it
        covers; None without one.
    upper_bound: smallest finite upper bound, of those whose delta is at most that of the lower
        bound; if there are none, of all. None without one.
    claimed_epsilons: epsilons that the system claims in this scope; a bound that equals one of them
        is rounded equally.
    """

    scope: Scope
    lower_bound: Bound | None
    upper_bound: Bound | None
    claimed_epsilons: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """Unit (protected data), horizon (time span) and delta as text.

        If the two bounds have different deltas, the text states both.
        """
        known = (("shown", self.lower_bound), ("proved", self.upper_bound))
        deltas = {name: bound.delta for name, bound in known if bound is not None}
        texts = [say.format_delta(delta) for delta in set(deltas.values()) if delta]
        if len(set(deltas.values())) > 1:
            texts = [f"{say.format_delta(delta)} ({name})" for name, delta in deltas.items()]
        unit = say.UNIT_TEXTS[self.scope.unit].removeprefix("all data of ").partition(" of ")[0]
        label = ", ".join((unit, say.HORIZON_TEXTS[self.scope.horizon], *texts))
        return label.replace(", over ", ", ")

    @property
    def lower_bound_text(self) -> str:
        """Largest lower bound of epsilon as text; empty if there is none."""
        if self.lower_bound is None:
            return ""
        beside = self.claimed_epsilons
        beside += () if self.upper_bound is None else (self.upper_bound.epsilon,)
        epsilon = f"≥ {say.format_lower_bound(self.lower_bound, beside)}"
        return f"shown: epsilon {'infinite' if math.isinf(self.lower_bound.epsilon) else epsilon}"

    @property
    def upper_bound_text(self) -> str:
        """Smallest finite upper bound of epsilon as text, or "no proved upper bound"."""
        if self.upper_bound is None:
            return "no proved upper bound"
        beside = self.claimed_epsilons
        beside += () if self.lower_bound is None else (self.lower_bound.epsilon,)
        return f"proved: epsilon ≤ {say.format_upper_bound(self.upper_bound, beside)}"


@dataclass(frozen=True, slots=True)
class Exposure:
    """Exposure of one system to one adversary: bounds of epsilon by scope.

    main_bounds: bounds in the widest scope; then, if another scope has a larger lower bound, those
        in the scope with the largest.
    other_bounds: bounds in all other scopes, the widest first.
    cell_tone: colour of the table cell.
    """

    main_bounds: tuple[BoundsInScope, ...]
    other_bounds: tuple[BoundsInScope, ...]
    cell_tone: CellTone


def find_exposure(section: Section, vantage: Vantage) -> Exposure | None:
    """Returns the bounds of epsilon of a system against the adversary with the view ``vantage``.

    None if no scope was examined for this adversary.
    """
    findings = [finding for finding in section.findings if finding.scope.vantage is vantage]
    ids = {id(finding.measured) for finding in findings}
    judged = [finding for finding in findings if not finding.game]  # a game has fewer items
    bounds = [b for b in list_lower_bounds(section) if b.scope.vantage is vantage or id(b) in ids]
    scopes = dict.fromkeys([f.scope for f in judged] + [bound.scope for bound in bounds])
    if not scopes:
        return None
    every = [_collect(scope, judged, bounds) for scope in sorted(scopes, key=_width, reverse=True)]
    widest, largest = every[0], max(every, key=_shown_epsilon)
    first = (widest, largest) if _shown_epsilon(largest) > _shown_epsilon(widest) else (widest,)
    return Exposure(
        main_bounds=first,
        other_bounds=tuple(each for each in every if each not in first),
        cell_tone=_choose_tone(judged, max(bounds, key=lambda bound: bound.epsilon, default=None)),
    )


def _collect(scope: Scope, judged: Sequence[Finding], bounds: Sequence[Bound]) -> BoundsInScope:
    proofs = [finding.accounted for finding in judged if finding.scope == scope]
    finite = [proof for proof in proofs if proof is not None and math.isfinite(proof.epsilon)]
    covered = [bound for bound in bounds if scope.covers(bound.scope)]
    shown = max(covered, key=lambda bound: bound.epsilon, default=None)
    # A proof at a larger delta is not comparable with a lower bound at a smaller one.
    fitting = [proof for proof in finite if shown is not None and proof.delta <= shown.delta]
    proved = min(fitting or finite, key=lambda proof: proof.epsilon, default=None)
    claimed = tuple(dict.fromkeys(f.claim.epsilon for f in judged if f.scope == scope))
    return BoundsInScope(scope, lower_bound=shown, upper_bound=proved, claimed_epsilons=claimed)


def _width(scope: Scope) -> tuple[int, int]:
    """Returns a sort key that is larger for a wider unit, then for a longer horizon."""
    return list(Unit).index(scope.unit), list(Horizon).index(scope.horizon)


def _shown_epsilon(within: BoundsInScope) -> float:
    return -1.0 if within.lower_bound is None else within.lower_bound.epsilon


def _choose_tone(findings: list[Finding], shown: Bound | None) -> CellTone:
    """Returns the colour of the table cell for one adversary, from the bounds of epsilon."""
    # The colour is bad if a lower bound shows right guesses at one bit 99.9% of the time. It is
    # calm if every proof forbids right guesses 90% of the time.
    guess = statements.compute_guess_probability
    if shown is not None and guess(shown.epsilon) >= VACUOUS_GUESS_PROB:
        return CellTone.BAD
    proofs = [finding.accounted for finding in findings if finding.accounted is not None]
    rates = [guess(proof.epsilon, proof.delta) for proof in proofs]
    calm = len(proofs) == len(findings) and max(rates, default=1.0) < MIN_GUESS_RATE_FOR_MEDIUM
    return CellTone.CALM if calm else CellTone.UNDECIDED
