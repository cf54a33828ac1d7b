"""One system as a document: what it comes to first, and behind it what that rests on.

Its last part answers what regulators ask, from the record and nothing else. The three risks are
those of the Article 29 Working Party (Opinion 05/2014, WP 216); the questions about epsilon are
those of NIST SP 800-226 on evaluating promises of differential privacy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements import Basis
from fedrec_auditor.accountants.verdict import LEAK_MARGIN, Verdict, refutes
from fedrec_auditor.reports import say
from fedrec_auditor.reports.attack_words import (
    baseline_words,
    beside_words,
    ends_words,
    further_words,
    gain_words,
    got_words,
    risk_words,
    trainings_words,
)
from fedrec_auditor.reports.charts import interval, scale
from fedrec_auditor.reports.document import (
    Block,
    Cell,
    Facts,
    Grid,
    Listing,
    Paragraph,
    Passage,
    Picture,
    Pictures,
    Said,
    Text,
    remarks,
    sentences,
    told_of,
)
from fedrec_auditor.reports.figures import hit_row, system_figures
from fedrec_auditor.reports.leaks import Leak, comparable, left_open
from fedrec_auditor.reports.section import worst_first
from fedrec_auditor.reports.usefulness import cut_short, utility_line

if TYPE_CHECKING:
    from fedrec_auditor.reports.glance import Glance
    from fedrec_auditor.reports.rows import AttackRow, Contents, Finding, SkippedRow, UtilityRow
    from fedrec_auditor.reports.section import Anchor, Section


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
    yield "Claimed", say.claimed(claim)
    yield "Unit of privacy", f"{say.capitalized(say.UNITS[scope.unit])}."
    yield "Neighbours", f"{say.capitalized(say.ADJACENCIES[scope.adjacency])}."
    yield "Who may look", f"What is {say.VANTAGES[scope.vantage]}, {say.HORIZONS[scope.horizon]}."
    yield "Accounting", say.proved(finding)
    yield "Lower bound", say.measured(finding)
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


ASSUMED = "What the attacker is assumed to know, and what is counted"
"""The title of what is to be known of attacks."""
_MOST = 5
"""Figures of a system that beat guessing and are shown at once; the others are folded."""


def system_document(
    record: Contents, glance: Glance, anchor: Anchor | None = None, *, alone: bool = True
) -> Passage:
    """All that the record says of a system.

    A page, which has an ``anchor``, has drawings and the pairs of inputs that refute nothing, too.
    Not ``alone``, it lacks what a report tells of all systems together: what is
    assumed of attackers, the count of figures by attack, what could not run.
    """
    section, page = glance.section, anchor is not None
    headline = section.headline_finding
    facts = (
        ("What to do", glance.todo),
        ("For one person", say.guess_words(headline) if headline else ""),
        ("Most at risk", "" if (hit := hit_row(glance)) is None else risk_words(hit)),
        ("Training", say.capitalized(glance.broken)),
        ("Utility", utility_line(section, record)),
    )
    figures = list(system_figures(glance)) if page else []
    pictures = [Picture(each.svg, each.title, each.caption) for each in figures]
    apart = [each.kind in ("roc", "users") for each in figures]
    places = ("",) * len(section.findings) if anchor is None else anchor.findings
    placed = zip(section.findings, places, strict=True)
    ordered = sorted(placed, key=lambda pair: (bool(pair[0].game), *worst_first(pair[0])))
    blocks: list[Block] = [
        Paragraph(glance.sentence),
        _facts(*facts),
        *_pictures(p for p, curve in zip(pictures, apart, strict=True) if not curve),
        *claim_parts(ordered, page=page),
    ]
    if section.others:
        others = tuple(f"epsilon {say.shown(other.bound)}" for other in section.others)
        blocks.append(Passage("Other lower bounds", (Listing(others),), folded=True))
    if section.attacks:
        roc = _pictures(p for p, curve in zip(pictures, apart, strict=True) if curve)
        blocks.append(_attacks(record, glance, roc, page=page, alone=alone))
    if section.skipped and alone:
        blocks.append(_skipped(section))
    if section.utility:
        blocks.append(_utility(section))
    blocks.append(filing_part(record, glance))
    return Passage(section.target, tuple(blocks), place=glance.anchor if alone else "")


def claim_parts(
    placed: Sequence[tuple[Finding, str]], *, plain: bool = False, page: bool = False
) -> Iterator[Passage]:
    """A part a claim, with its findings, in the order of these; all but the worst are folded.

    ``placed`` are findings and their addresses in a page. Where they are ``plain`` a sentence says
    what each comes to.
    """
    findings = [finding for finding, _ in placed]
    worst = min(findings, key=worst_first, default=None)
    papers: set[str] = set()
    for claim in dict.fromkeys(finding.claim for finding in findings):
        judged = [pair for pair in placed if pair[0].claim == claim]
        notes = remarks([finding.note for finding, _ in judged])
        promised = math.isfinite(claim.epsilon)
        paper, _, place = claim.source.partition(", section")
        said = say.claimed(claim) if promised else ""
        facts = (
            ("Derived" if claim.basis is Basis.DERIVED else "Claimed", said),
            ("In our words", claim.statement),
            ("Source", f"as above, section{place}" if place and paper in papers else claim.source),
            ("For one person", say.claimed_guess_words(claim) if plain and promised else ""),
        )
        parts = (
            Passage(
                say.listed(_scope_words(finding), say.asked_words(finding), by="; "),
                (
                    *([Paragraph(say.found_guess_words(finding))] if plain else []),
                    _numbers(finding, note),
                    *_witness(finding, page=page),
                ),
                verdict=say.verdict_words(finding),
                colour=finding.verdict,
                folded=finding is not worst,
                place=place,
            )
            for (finding, place), note in zip(judged, notes, strict=True)
        )
        papers.add(paper)
        title = "No claim"
        if promised:
            what = "Epsilon" if claim.basis is Basis.DERIVED else "Claim of epsilon"
            title = say.listed(f"{what} {say.number(claim.epsilon)}", say.basis_words(claim))
        yield Passage(title, (_facts(*facts), *parts))


def _scope_words(finding: Finding) -> str:
    """The scope of a finding, with its neighbours where the claim above it names no such ones."""
    claim = finding.claim
    told = math.isfinite(claim.epsilon) and claim.scope.adjacency is finding.scope.adjacency
    return (say.brief_scope_words if told else say.pair_scope_words)(finding.scope)


def _numbers(finding: Finding, note: str) -> Facts:
    return _facts(
        ("Proved", say.proved(finding)),
        ("Shown", say.measured(finding)),
        ("Why", _why(finding)),
        ("Note", note),
        ("Repair", finding.repair),
    )


def _why(finding: Finding) -> str:
    """The part of a verdict's reason that the numbers beside it do not say."""
    shown, proof = finding.measured, finding.accounted
    if shown is not None and (shown.assumptions or (proof is not None and refutes(shown, proof))):
        return finding.reason
    exceeded = finding.verdict is Verdict.NO_CLAIM and math.isfinite(finding.claim.epsilon)
    told = finding.verdict in (Verdict.CONSISTENT, Verdict.NO_CLAIM, Verdict.VIOLATED)
    if told and not exceeded:
        return ""
    if finding.verdict is not Verdict.INCOMPARABLE:
        return finding.reason
    differences, _, there = finding.reason.partition(" In this scope ")[0].partition("). ")
    return there or differences


def _witness(finding: Finding, *, page: bool) -> Iterator[Passage]:
    refuted = finding.verdict in (Verdict.VIOLATED, Verdict.UNSOUND)
    if finding.measured is None or not finding.measured.witness or not (refuted or page):
        return
    title = "Counterexample" if refuted else "The pair of inputs that tells most"
    rows = tuple(
        (say.capitalized(name), text) for name, text in say.witness_words(finding.measured)
    )
    yield Passage(title, (Facts(rows),), folded=not refuted)


def _attacks(
    record: Contents, glance: Glance, curves: Sequence[Pictures], *, page: bool, alone: bool
) -> Passage:
    """The figures that beat guessing in full, and the numbers of all others."""
    leaking = _varied(glance.leaking)
    but = f"; {glance.unseen}" if glance.rows and not leaking else ""
    blocks: list[Block] = [
        Paragraph(
            f"Corrected for all, {len(leaking)} of {glance.rows:,} figures beat guessing by "
            f"{say.percent(LEAK_MARGIN)} or more of what it leaves open, {len(glance.little)} by "
            f"less{but}."
        )
    ]
    if leaking:
        blocks.append(_leaks(leaking[:_MOST], page=page))
    if alone and (notes := assumed(glance)):
        blocks.append(Passage(ASSUMED, (Facts(notes),), folded=True))
    blocks += curves
    if alone and (counts := _counts(record, glance)):
        blocks.append(Listing(counts))
    blocks.append(_map(glance))
    return Passage("Attacks", tuple(blocks))


def _leaks(leaking: Sequence[Leak], *, page: bool) -> Grid:
    low, high = scale([leak.row for leak in leaking])
    heads = ["What an attacker got", "Value", "Guessed without the uploads"]
    rows: list[list[Cell]] = [
        [
            Said(
                say.capitalized(gain_words(row, row.value)),
                (f"{row.attack}, {row.metric}, {row.vantage}", f"{row.n:,} {row.subject}"),
            ),
            Said(
                say.brief(row.value),
                _all(
                    f"{ends_words(row)} at {say.percent(row.confidence)}, {trainings_words([row])}",
                    "" if row.gain is None else f"above guessing by {ends_words(row.gain)}",
                    f"at least {say.brief(leak.low)}, corrected",
                    further_words(row),
                ),
            ),
            baseline_words(row),
        ]
        for leak in leaking
        for row in (leak.row,)
    ]
    caption = ""
    if page:
        heads.insert(2, "Against guessing")
        caption = (
            "Dot: the attack. Bar: its interval. Tick: the best guess without seeing any "
            f"upload. Scale {say.number(low)} to {say.number(high)}"
        )
        for cells, leak in zip(rows, leaking, strict=True):
            row = leak.row
            cells.insert(2, Picture(interval(row, low, high), _bar_words(row)))
    return Grid(caption, tuple(heads), tuple(map(tuple, rows)))


def _bar_words(row: AttackRow) -> str:
    ends = f"interval {say.brief(row.ci_low)} to {say.brief(row.ci_high)}"
    return f"{row.metric} {say.brief(row.value)}, {ends}, baseline {baseline_words(row)}"


def _varied(leaking: Sequence[Leak]) -> list[Leak]:
    """The leaks in their order, but the first of each kind of figure before all others."""
    first: dict[tuple[str, str], Leak] = {}
    for leak in leaking:
        first.setdefault((leak.row.family, leak.row.metric.partition(" ")[0]), leak)
    kinds = list(first.values())
    return [*kinds, *(leak for leak in leaking if leak not in kinds)]


def assumed(glance: Glance) -> tuple[tuple[str, str], ...]:
    """Assumptions of attacks that beat guessing."""
    rows = [leak.row for leak in _varied(glance.leaking)]
    return told_of((row.attack, text) for row in rows for text in sentences(row.note) if text)


def _counts(record: Contents, glance: Glance) -> tuple[str, ...]:
    """How many figures of which attack do not beat guessing, or cannot be held against it."""
    beaten = {id(leak.row) for leak in (*glance.leaking, *glance.little)}
    compared = {id(row) for row in comparable(record)}
    others = [row for row in glance.section.attacks if id(row) not in beaten]
    kinds = (
        ("are not shown to beat guessing", [row for row in others if id(row) in compared]),
        ("have no figure for guessing", [row for row in others if id(row) not in compared]),
    )
    return tuple(
        f"{len(rows):,} {words}: "
        + ", ".join(f"{name} {count}" for name, count in Counter(r.attack for r in rows).items())
        + "."
        for words, rows in kinds
        if rows
    )


def _map(glance: Glance) -> Passage:
    """Every figure, beside what is guessed."""
    rows, above = glance.section.attacks, (*glance.leaking, *glance.little)
    over = f" {trainings_words(rows)}" if rows else ""
    marks = {id(leak.row): " ↗" if leak.little else " ↑" for leak in above}
    table = Grid(
        f"With intervals{over}, and the best guess; ↑: above guessing, ↗: little above, corrected "
        "for all that were tried",
        ("Attack, who looks", "Figure", "Value", "Guessed without", "Above it by"),
        tuple(
            (
                f"{row.attack}, {row.vantage}",
                row.metric,
                f"{say.brief(row.value)}{marks.get(id(row), '')} {ends_words(row)}",
                "" if row.baseline is None else say.brief(row.baseline),
                ends_words(row.ahead) if row.ahead else "",
            )
            for row in rows
        ),
    )
    title = f"All {say.counted(len(rows), 'figure')}, {len(above)} of them above guessing"
    return Passage(title, (table,), folded=True, detail=True)


def _skipped(section: Section) -> Passage:
    unplayed = set(section.unplayed)
    some = {row.attack for row in section.skipped} & {row.attack for row in section.attacks}
    from_some = f", {len(some)} from some vantage" if some else ""
    return Passage(
        f"Attacks that could not run: {len(unplayed)} at all{from_some}",
        (Facts(reasons(section.skipped)),),
        folded=True,
    )


def reasons(skipped: Sequence[SkippedRow]) -> tuple[tuple[str, str], ...]:
    """Each reason with the attacks that it holds for, behind the parts of them if not for all."""
    parts: dict[tuple[str, str], list[str]] = {}
    for row in skipped:
        part, colon, rest = row.reason.partition(": ")
        alike = sum(other.reason.endswith(f": {rest}") for other in skipped) > 1
        shared = bool(colon) and alike and ". " not in part  # a part is named, no sentence ends
        reason, what = (rest, [part]) if shared else (row.reason, [])
        parts.setdefault((row.attack, reason), []).extend(what)
    return told_of(
        (attack, f"{'; '.join(of)}: {reason}" if of else reason)
        for (attack, reason), of in parts.items()
    )


def _utility(section: Section) -> Passage:
    alike: dict[tuple[str, float, int], list[UtilityRow]] = {}
    for row in section.utility:
        alike.setdefault((row.protocol, row.confidence, row.n), []).append(row)
    blocks: list[Block] = []
    for (protocol, confidence, n), rows in alike.items():
        cells = tuple(
            (
                row.metric,
                f"{say.brief(row.value)} {ends_words(row)}",
                beside_words(row),
                say.brief(row.random),
                "none" if row.paper_value is None else say.brief(row.paper_value),
            )
            for row in rows
        )
        caption = (
            f"{say.capitalized(protocol)}: intervals over users, {trainings_words(rows)}, at "
            f"{say.percent(confidence)} confidence, {n:,} tested"
        )
        heads = ("Metric", "Here", "Baseline", "Random", "The paper")
        blocks.append(Grid(caption, heads, cells))
        for note in dict.fromkeys(row.paper_note for row in rows if row.paper_note):
            of = ", ".join(row.metric for row in rows if row.paper_note == note)
            blocks.append(Paragraph(f"{of}: {note}"))
    title = f"Utility in full: {say.counted(len(section.utility), 'figure')}"
    return Passage(title, tuple(blocks), folded=True, detail=True)


def _facts(*rows: tuple[str, Text]) -> Facts:
    """The facts that say something."""
    return Facts(tuple((name, text) for name, text in rows if text))


def _pictures(pictures: Iterator[Picture]) -> tuple[Pictures, ...]:
    found = tuple(pictures)
    return (Pictures(found),) if found else ()


def _all(*texts: str) -> tuple[str, ...]:
    return tuple(filter(None, texts))
