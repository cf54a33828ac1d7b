"""What regulators ask of a system, answered from its record and nothing else.

The three risks are those of the Article 29 Working Party (Opinion 05/2014, WP 216); the questions
about epsilon are those of NIST SP 800-226 on evaluating promises of differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedrec_auditor.reports.attack_words import got_words
from fedrec_auditor.reports.document import Facts, Paragraph, Passage, Text
from fedrec_auditor.reports.leaks import comparable, left_open
from fedrec_auditor.reports.say import say_claimed, say_measured, say_proved
from fedrec_auditor.reports.usefulness import cut_short
from fedrec_auditor.reports.words import ADJACENCIES, HORIZONS, UNITS, VANTAGES, capitalized

if TYPE_CHECKING:
    from fedrec_auditor.reports.glance import Glance
    from fedrec_auditor.reports.rows import Contents

_RISKS = {
    "Singling out": ("reconstruction", "user-level membership inference"),
    "Linkability": ("linkage",),
    "Inference": ("attribute inference", "membership inference"),
}
"""Each risk, and the families of attacks that try it."""


def filing_part(record: Contents, glance: Glance) -> Passage:
    """Singling out, linkability, inference; unit, trust, accounting; a paragraph to copy."""
    risks = [(risk, _tried(record, glance, families)) for risk, families in _RISKS.items()]
    facts: list[tuple[str, Text]] = [*risks, *_epsilon(glance)]
    summary = [*_subject(record, glance), glance.sentence, f"Attacks: {glance.got_words}."]
    summary += [f"{risk}: {text}" for risk, text in risks]
    summary += [
        "An audit can refute a claim or fail to refute it; it never shows that nothing leaks.",
        f"Measure: {glance.todo}",
    ]
    blocks = (
        Facts(tuple(facts)),
        Passage("For a data protection impact assessment", (Paragraph(" ".join(summary)),)),
    )
    return Passage("For those who file it", blocks, folded=True, detail=True)


def _tried(record: Contents, glance: Glance, families: tuple[str, ...]) -> str:
    """The most that attacks of these families got, or what they would have shown."""
    above = (*glance.leaking, *glance.little)
    best = next((leak for leak in above if leak.row.family in families), None)
    tried = [row for row in comparable(record) if row.target == glance.section.target]
    rows = [row for row in tried if row.family in families]
    if best is not None:
        row, much = best.row, ", little more than is guessed" if best.little else ""
        return f"Shown{much}: {got_words(row)} ({row.attack}, {row.vantage})."
    if rows:
        names = ", ".join(dict.fromkeys(row.attack for row in rows))
        return f"Not shown by {names}: {left_open(rows, len(tried))}."
    return "Not tested."


def _epsilon(glance: Glance) -> Iterator[tuple[str, Text]]:
    finding = glance.section.headline_finding
    if finding is None:
        yield "Epsilon", "No claim was judged."
        return
    scope, claim = finding.scope, finding.claim
    yield "Claimed", say_claimed(claim)
    yield "Unit of privacy", f"{capitalized(UNITS[scope.unit])}."
    yield "Neighbours", f"{capitalized(ADJACENCIES[scope.adjacency])}."
    yield "Who may look", f"What is {VANTAGES[scope.vantage]}, {HORIZONS[scope.horizon]}."
    yield "Accounting", say_proved(finding)
    yield "Lower bound", say_measured(finding)
    if math.isfinite(claim.epsilon):
        yield "Floating point", "Not examined: proofs are of real numbers (see `auditor verify`)."


def _subject(record: Contents, glance: Glance) -> Iterator[str]:
    """Facts without which no number may be read: what was audited, how, and how bad it is."""
    data, version = record.provenance.data, record.provenance.versions.get("fedrec-auditor", "")
    on = "" if data is None else f" on {data.name} ({data.n_users:,} users)"
    yield f"{glance.section.target} was audited with fedrec-auditor {version}{on}."
    if not glance.section.own:
        yield "It is a re-implementation of what its paper prints, not its authors' code."
    if glance.section.quick:
        cut = cut_short(glance.section)
        of = f": it trained {cut} rounds" if cut else ""
        yield f"The audit was quick{of}; one that finds nothing is no evidence."
    yield f"Severity: {glance.assessment.words.lower()}."
    if gap := glance.assessment.gap:
        yield f"Not assessed: {gap}."
