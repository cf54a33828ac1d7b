"""Who learns how much: of each system and of everyone who may look, what is shown and proved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fedrec_auditor.accountants.statements.bound import Bound, guess_probability
from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import Section
from fedrec_auditor.reports.severity import LIKELY, shown_bounds
from fedrec_auditor.reports.words import at_least, at_most


class Tone(StrEnum):
    """How much is learned: the colour of a cell."""

    BAD = "bad"
    OPEN = "open"
    CALM = "calm"


@dataclass(frozen=True, slots=True)
class Exposure:
    """What one who looks learns of one system, over all scopes asked: ``shown`` and ``proved``.

    ``shown`` is the largest lower bound without an assumption, ``proved`` the least finite upper
    bound; each in a scope of its own, so that the second may be below the first.
    """

    shown: Bound | None
    proved: Bound | None
    tone: Tone

    @property
    def shown_words(self) -> str:
        """The largest epsilon shown; empty if none is."""
        if self.shown is None:
            return ""
        said = at_least(self.shown.epsilon)
        return said if math.isinf(self.shown.epsilon) else f"≥ {said}"

    @property
    def proved_words(self) -> str:
        """The least epsilon proved; empty if none is finite."""
        return "" if self.proved is None else f"≤ {at_most(self.proved.epsilon)}"


def exposure(section: Section, vantage: Vantage) -> Exposure | None:
    """What is learned from a vantage; None where no scope of it was asked."""
    asked = [finding for finding in section.findings if finding.scope.vantage is vantage]
    within = {id(finding.measured) for finding in asked}
    asked = [finding for finding in asked if not finding.game]  # which is of fewer items
    bounds = [
        bound
        for bound in shown_bounds(section)
        if bound.scope.vantage is vantage or id(bound) in within
    ]
    if not asked and not bounds:
        return None
    proofs = [finding.accounted for finding in asked if finding.accounted is not None]
    finite = [proof for proof in proofs if math.isfinite(proof.epsilon)]
    shown = max(bounds, key=lambda bound: bound.epsilon, default=None)
    return Exposure(
        shown=shown,
        proved=min(finite, key=lambda proof: proof.epsilon, default=None),
        tone=_tone(asked, shown),
    )


def scope_label(scope: Scope) -> str:
    """The unit and the horizon, for a cell."""
    return f"{scope.unit}, {scope.horizon}"


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
