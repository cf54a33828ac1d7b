"""Who learns how much: of each system and of everyone who may look, what is shown and proved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from xml.sax.saxutils import escape

from fedrec_auditor.accountants.statements.bound import Bound, guess_probability
from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from fedrec_auditor.reports import drawing
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import Section
from fedrec_auditor.reports.severity import LIKELY, shown_bounds
from fedrec_auditor.reports.words import LOOKERS, at_least, at_most, legal

_NAME, _CELL, _ROW, _HEAD = 136.0, 152.0, 72.0, 24.0  # of the map as a drawing
_LONGEST = 20  # letters of a name there
_COLOURS = {"bad": "bad", "open": "warn", "calm": "open"}
"""The colour of a tone in the page's style; of its ink the same with ``-ink``."""


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

    @property
    def lines(self) -> tuple[str, ...]:
        """What is shown and proved (a star: of an assumption), the scope of each below it."""
        told = []
        if self.shown is not None:
            told += [f"shown {self.shown_words}", scope_label(self.shown.scope)]
        if self.proved is not None:
            star = " *" if self.proved.assumptions else ""
            told += [f"proved {self.proved_words}{star}", scope_label(self.proved.scope)]
        return tuple(told) or ("nothing proved",)


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


def exposure_map(sections: Sequence[Section]) -> str:
    """The map of systems and of those who may look, as SVG; names are cut to fit."""
    lookers = list(Vantage)
    width = _NAME + _CELL * len(lookers)
    drawn = [
        drawing.text(_NAME + _CELL * place + 6, 14, LOOKERS[looker], bold=True)
        for place, looker in enumerate(lookers)
    ]
    for row, section in enumerate(sections):
        top = _HEAD + row * _ROW
        name = section.target
        cut = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
        drawn.append(drawing.text(0, top + 16, escape(legal(cut)), bold=True))
        for place, looker in enumerate(lookers):
            x, cell = _NAME + _CELL * place, exposure(section, looker)
            if cell is None:
                drawn.append(drawing.text(x + 6, top + 16, "not asked", muted=True))
                continue
            colour = _COLOURS[cell.tone]
            drawn.append(drawing.box(x, top, _CELL - 2, _ROW - 2, colour))
            drawn += [
                drawing.text(x + 6, top + 16 + 16 * line, words, colour=f"{colour}-ink")
                for line, words in enumerate(cell.lines)
            ]
    return drawing.svg(width, _HEAD + _ROW * len(sections), drawn)


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
