"""Builds the document of one system, and of a whole audit report, from the record of an audit.

The last part of a system's document answers regulators' questions: on the risks of singling out,
linkability and inference (Article 29 Working Party, Opinion 05/2014, WP 216), and on epsilon (NIST
SP 800-226, on evaluating promises of differential privacy).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from fedrec_auditor.accountants import verdict
from fedrec_auditor.accountants.statements import Basis
from fedrec_auditor.accountants.verdict import DEFAULT_LEAK_MARGIN, Verdict, refutes
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.document import (
    Block,
    BulletList,
    DocSection,
    Facts,
    FactValue,
    Paragraph,
    Pictures,
    Quantity,
    TableBlock,
    drop_repeated_sentences,
    make_facts,
    make_picture_blocks,
    make_table,
    merge_equal_texts,
    move_repeats_to_notes,
    split_sentences,
)
from fedrec_auditor.reports.documents.figures import draw_system_figures, select_per_user_attack
from fedrec_auditor.reports.documents.overview import draw_overview
from fedrec_auditor.reports.record.leaks import Leak, describe_max_gain, list_rows_with_baseline
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding, SkippedRow, UtilityRow
from fedrec_auditor.reports.record.sections import Section, SystemHtmlIds, make_severity_key
from fedrec_auditor.reports.record.waivers import describe_waivers
from fedrec_auditor.reports.say import metrics, summary
from fedrec_auditor.reports.say.metrics import describe_trainings, format_ci, format_value
from fedrec_auditor.reports.say.summary import Summary

# Reason why an attack does not infer an attribute, perhaps from some features only.
_REASON_PATTERN = re.compile("Inferring (.+?)( from the features “.+”)? was not attempted: (.+)")
# Families of attacks that test each risk.
_RISKS = {
    "Singling out": ("reconstruction", "user-level membership inference"),
    "Linkability": ("linkage",),
    "Inference": ("attribute inference", "membership inference"),
}


def build_regulator_section(record: Contents, glance: Summary) -> DocSection:
    """Builds the section that answers regulators' questions about one system.

    The answers come from the record alone: first the risks of singling out, linkability and
    inference, then facts about epsilon, and a paragraph to copy.
    """
    risks = [(risk, _describe_risk(record, glance, families)) for risk, families in _RISKS.items()]
    texts = (
        *_describe_audit(record, glance),
        glance.verdict_sentences,
        f"{glance.attack_details}.",
        *(f"{risk}: {text}" for risk, text in risks),
        say.fill_text("note", "limit"),
        f"Measures to take: {glance.advice}",
    )
    text = Paragraph(" ".join(texts))
    copied = DocSection("Paragraph for a data protection impact assessment", (text,))
    blocks = (Facts((*risks, *_list_epsilon_facts(glance))), copied)
    return DocSection("Answers for regulators", blocks, is_folded=True, is_html_only=True)


def _describe_risk(record: Contents, glance: Summary, families: tuple[str, ...]) -> str:
    """Returns a sentence on one risk, from the results of the attacks of some ``families``."""
    # The sentence states the best attack that beat guessing, or the advantage that remains
    # possible.
    above = (*glance.leaks, *glance.small_leaks)
    best = next((leak for leak in above if leak.row.family in families), None)
    tried = [row for row in list_rows_with_baseline(record) if row.target == glance.section.target]
    rows = [row for row in tried if row.family in families]
    if best is not None:
        row, much = best.row, ", but learns little more than a guess" if best.is_small else ""
        won, by = metrics.describe_success(row, row.value), metrics.describe_attack(row)
        return f"An attack succeeds{much}: {won} ({by})."
    if rows:
        names = ", ".join(dict.fromkeys(f"“{row.attack}”" for row in rows))
        gain = describe_max_gain(rows, len(tried))
        return f"No attack is shown to beat guessing (attacks: {names}); {gain}."
    return "No attack tested this risk."


def _list_epsilon_facts(glance: Summary) -> Iterator[tuple[str, FactValue]]:
    finding = glance.section.headline_finding
    if finding is None:
        yield "Epsilon", "No claim was judged."
        return
    scope, claim = finding.scope, finding.claim
    yield "Claim", say.make_claim_quantity(claim)
    yield "Unit of privacy", f"The protected data are {say.UNIT_TEXTS[scope.unit]}."
    yield ("Neighbouring inputs", f"Neighbouring inputs {say.ADJACENCY_TEXTS[scope.adjacency]}.")
    whom, time = say.VANTAGE_TEXTS[scope.vantage], say.HORIZON_TEXTS[scope.horizon]
    yield "Adversary and horizon", f"Epsilon is judged against {whom}, {time}."
    yield "Proved upper bound", say.make_proved_quantity(finding)
    yield "Shown lower bound", say.make_shown_quantity(finding)
    if math.isfinite(claim.epsilon):
        yield "Floating point", say.fill_text("note", "floating-point")


def _describe_audit(record: Contents, glance: Summary) -> Iterator[str]:
    """Yields sentences on the audited system, the conditions of the audit, and the severity."""
    data, version = record.provenance.data, record.provenance.versions.get("fedrec-auditor", "")
    on = "" if data is None else f" on {data.name} ({data.n_users:,} users)"
    yield f"{glance.section.target} was audited with fedrec-auditor {version}{on}."
    if not glance.section.is_own:
        yield "The system is a re-implementation of its paper, not its authors' code."
    if glance.section.is_quick:
        cut = metrics.format_trained_rounds(glance.section)
        of = f": it trained {cut} rounds" if cut else ""
        nothing = "If a quick audit finds nothing, that is not evidence of privacy."
        yield f"The audit was quick{of}. {nothing}"
    yield f"Severity: {glance.assessment.severity_text.lower()}."
    if gap := glance.assessment.unassessed_text:
        yield f"Not assessed: {gap}."


# Title of the section with the assumptions and notes of attacks.
ATTACK_NOTES_TITLE = "Knowledge that each attack assumes, and notes on its results"
# Maximum number of results per system that are listed as beating guessing.
_MAX_LEAKS = 5


def build_system_document(
    record: Contents, glance: Summary, anchor: SystemHtmlIds | None = None, *, alone: bool = True
) -> DocSection:
    """Builds the document of one system, with all that the audit's record states about it.

    record: record of the audit.
    glance: summary of the system's results.
    anchor: HTML ids of the system and its findings, for the HTML page. None for other formats:
        these have no drawings, and most revealing inputs only for refuted claims.
    alone: whether the document stands alone. If false, it is part of a report, and omits the parts
        that the report has once for all systems, such as assumptions of the attacks.
    """
    section, page = glance.section, anchor is not None
    headline = section.headline_finding
    hit = select_per_user_attack(glance)
    main = make_facts(
        ("What to do", glance.advice),
        ("In plain words", say.describe_guesses(headline) if headline else ""),
        ("Users most at risk", metrics.describe_user_spread(hit) if hit else ""),
        ("Training", say.capitalize_first(glance.message_warning)),
        ("Utility", metrics.describe_utility(section, record)),
    )
    drawn = list(draw_system_figures(glance)) if page else []
    curves = [each for each in drawn if each.kind in ("roc", "users")]
    places = ("",) * len(section.findings) if anchor is None else anchor.finding_ids
    placed = zip(section.findings, places, strict=True)
    ordered = sorted(placed, key=lambda pair: (bool(pair[0].game), *make_severity_key(pair[0])))
    blocks: list[Block] = [
        Paragraph(glance.verdict_sentences),
        main,
        *make_picture_blocks(each for each in drawn if each not in curves),
        *build_claim_sections(ordered, page=page),
    ]
    if section.other_bounds:
        others = tuple(f"{say.make_lower_bound_quantity(x.bound)}" for x in section.other_bounds)
        blocks.append(DocSection("Other lower bounds", (BulletList(others),), is_folded=True))
    if section.attacks:
        blocks.append(_build_attacks(glance, make_picture_blocks(curves), alone=alone))
    if section.skipped and alone:
        blocks.append(_build_skipped(section))
    if section.utility:
        blocks.append(_build_utility(section))
    blocks.append(build_regulator_section(record, glance))
    return DocSection(section.target, tuple(blocks), html_id=glance.html_id if alone else "")


def build_claim_sections(
    findings_with_ids: Sequence[tuple[Finding, str]], *, plain: bool = False, page: bool = False
) -> Iterator[DocSection]:
    """Builds one section per claim with its findings (judgements in one scope each).

    findings_with_ids: pairs of a finding and its HTML id; the id is "" outside the HTML page.
    plain: whether to add sentences on how often an adversary guesses right about one person.
    page: whether to show the most revealing inputs of every finding. If false, only findings that
        refute their claim show these inputs.

    All findings except the most severe are folded.
    """
    findings = [finding for finding, _ in findings_with_ids]
    worst = min(findings, key=make_severity_key, default=None)
    papers: set[str] = set()
    for claim in dict.fromkeys(finding.claim for finding in findings):
        judged = [pair for pair in findings_with_ids if pair[0].claim == claim]
        notes = drop_repeated_sentences([finding.note for finding, _ in judged])
        promised = math.isfinite(claim.epsilon)
        paper, _, place = claim.source.partition(", section")
        said = say.make_claim_quantity(claim) if promised else ""
        above = f"the paper above, section{place}"
        about = make_facts(
            ("Derived" if claim.basis is Basis.DERIVED else "Claimed", said),
            ("Statement", claim.statement),
            ("Source", above if place and paper in papers else claim.source),
            ("In plain words", say.describe_claimed_guess(claim) if plain and promised else ""),
        )
        parts = list[DocSection]()
        for (finding, html_id), note in zip(judged, notes, strict=True):
            guess = [Paragraph(say.describe_guesses_by_bounds(finding))] if plain else []
            facts = make_facts(
                ("Proved upper bound", say.make_proved_quantity(finding)),
                ("Shown lower bound", say.make_shown_quantity(finding)),
                ("Reason", _shorten_reason(finding)),
                ("Note", note),
                ("Repair", finding.repair and f"With {finding.repair}, the claim is proved."),
            )
            part = DocSection(
                say.join_texts(_describe_scope(finding), say.describe_game(finding), by="; "),
                (*guess, facts, *_build_witness(finding, page=page)),
                verdict_label=f"Verdict “{say.label_verdict(finding).partition(' ')[2]}”",
                colour_verdict=finding.verdict,
                is_folded=finding is not worst,
                html_id=html_id,
            )
            parts.append(part)
        papers.add(paper)
        title = "No claim"
        if promised:
            what = "Epsilon" if claim.basis is Basis.DERIVED else "Claim of epsilon"
            number = say.format_number(claim.epsilon)
            title = say.join_texts(f"{what} {number}", say.describe_basis(claim))
        yield DocSection(title, (about, *parts))


def _describe_scope(finding: Finding) -> str:
    """Describes the scope of a finding, with its adjacency only if it differs from the claim's."""
    claim = finding.claim
    about = "epsilon" if finding.verdict in (Verdict.NO_CLAIM, Verdict.INCOMPARABLE) else "claim"
    same = math.isfinite(claim.epsilon) and claim.scope.adjacency is finding.scope.adjacency
    return f"{about} for {(say.describe_scope if same else say.describe_full_scope)(finding.scope)}"


def _shorten_reason(finding: Finding) -> str:
    """Returns the part of a verdict's reason that the numbers next to it do not imply."""
    # Empty if they imply the whole reason.
    shown, proof = finding.measured, finding.accounted
    if shown is not None and (shown.assumptions or (proof is not None and refutes(shown, proof))):
        return finding.reason
    exceeded = finding.verdict is Verdict.NO_CLAIM and math.isfinite(finding.claim.epsilon)
    if not exceeded and finding.verdict in (Verdict.CONSISTENT, Verdict.NO_CLAIM, Verdict.VIOLATED):
        return ""
    if finding.verdict is not Verdict.INCOMPARABLE:
        return finding.reason
    differences, _, there = finding.reason.partition(" In this scope ")[0].partition("). ")
    return there or differences


def _build_witness(finding: Finding, *, page: bool) -> Iterator[DocSection]:
    refuted = finding.verdict in (Verdict.VIOLATED, Verdict.UNSOUND)
    if finding.measured is None or not finding.measured.witness or not (refuted or page):
        return
    title = "Counterexample" if refuted else "The most revealing pair of inputs"
    pairs = say.describe_witness(finding.measured)
    rows = tuple((say.capitalize_first(name), text) for name, text in pairs)
    yield DocSection(title, (Facts(rows),), is_folded=not refuted)


def _build_attacks(glance: Summary, curves: Sequence[Pictures], *, alone: bool) -> DocSection:
    """The section on attacks: the results that beat guessing, and a table of all results."""
    leaking, margin = _order_leaks(glance.leaks), say.to_percent(DEFAULT_LEAK_MARGIN)
    but = f" Still, {glance.max_gain_text}." if glance.n_results and not leaking else ""
    n_small = len(glance.small_leaks)
    few = f" {say.format_count(n_small, 'other result')} beat guessing by less." if n_small else ""
    blocks: list[Block] = [
        Paragraph(
            f"{len(leaking)} of {glance.n_results:,} attack results close at least {margin} of the "
            f"gap between guessing and certainty, even corrected for multiple testing.{few}{but}"
        )
    ]
    if leaking:
        blocks.append(make_table(leaking[:_MAX_LEAKS], _LEAK_COLUMNS, "Results that beat guessing"))
    if alone and (notes := list_attack_assumptions(glance)):
        blocks.append(DocSection(ATTACK_NOTES_TITLE, (Facts(notes),), is_folded=True))
    blocks += curves
    blocks.append(_tabulate_results(glance))
    return DocSection("Attacks", tuple(blocks))


def _format_result(leak: Leak) -> Quantity:
    row = leak.row
    about = f"{metrics.describe_attack(row)}, “{row.metric}” on {row.n:,} {row.subject}"
    return Quantity(say.capitalize_first(metrics.describe_success(row, row.value)), (about,))


def _format_value(leak: Leak) -> Quantity:
    row, gain, low = leak.row, leak.row.gain, say.format_floor(leak.gain_lower_limit)
    sure = f"{say.to_percent(row.confidence)} confidence interval"
    support = (
        f"{sure} {format_ci(row)} {describe_trainings([row])}",
        f"{metrics.describe_interval(gain)} above the best guess" if gain else "",
        f"at least {low} above guessing, corrected for multiple testing",
        metrics.format_further_metrics(row),
    )
    return Quantity(say.format_short(row.value), tuple(filter(None, support)))


_LEAK_COLUMNS: dict[str, Callable[[Leak], FactValue]] = {
    "Result of the attack": _format_result,
    "Value": _format_value,
    "Guess without uploads": lambda leak: metrics.format_baselines(leak.row),
}


def _order_leaks(leaking: Sequence[Leak]) -> list[Leak]:
    """Orders leaks (results above guessing) so that one leak of each kind comes first."""
    first: dict[tuple[str, str], Leak] = {}
    for leak in leaking:
        first.setdefault((leak.row.family, leak.row.metric.partition(" ")[0]), leak)
    return sorted(leaking, key=lambda leak: leak not in first.values())


def list_attack_assumptions(glance: Summary) -> tuple[tuple[str, str], ...]:
    """Returns pairs (names of attacks, their assumption in a sentence).

    Only attacks with a leak (an advantage over guessing above the margin) are included.
    """
    rows = [leak.row for leak in _order_leaks(glance.leaks)]
    return merge_equal_texts(
        (row.attack, text) for row in rows for text in split_sentences(row.note) if text
    )


def _tabulate_results(glance: Summary) -> DocSection:
    """Builds the table of all attack results of a system, with the best guess for comparison."""
    rows, above = glance.section.attacks, (*glance.leaks, *glance.small_leaks)
    over = f" {describe_trainings(rows)}" if rows else ""
    marks = {id(leak.row): " ↗" if leak.is_small else " ↑" for leak in above}
    columns: dict[str, Callable[[AttackRow], FactValue]] = {
        "Attack": lambda row: f"{row.attack} {say.PHRASES['attacker'][row.vantage]}",
        "Measure (in brackets: users whose class the attacker knows)": lambda row: row.metric,
        "Result [confidence interval]": lambda row: (
            f"{say.format_short(row.value)}{marks.get(id(row), '')} {format_ci(row)}"
        ),
        "Best guess": lambda row: "" if row.baseline is None else say.format_short(row.baseline),
        "Result minus best guess": lambda row: (
            format_ci(row.gain_over_baseline) if row.gain_over_baseline else ""
        ),
    }
    margin = say.to_percent(DEFAULT_LEAK_MARGIN)
    under = say.fill_text("caption", "figures", over=over, margin=margin)
    title = f"All {say.format_count(len(rows), 'result')} of attacks; {len(above)} beat guessing"
    return DocSection(title, (make_table(rows, columns, under),), is_folded=True, is_html_only=True)


def _build_skipped(section: Section) -> DocSection:
    some = {row.attack for row in section.skipped} & {row.attack for row in section.attacks}
    also = f", {len(some)} for some adversaries" if some else ""
    count = len(set(section.attacks_not_run))
    title = f"Attacks that could not run: {count} for every adversary{also}"
    return DocSection(title, (Facts(list_skip_reasons(section.skipped)),), is_folded=True)


def list_skip_reasons(skipped: Sequence[SkippedRow]) -> tuple[tuple[str, str], ...]:
    """Returns pairs (names of attacks, reason why they did not run); each reason occurs once.

    If an attack cannot infer several attributes (or read several features) for one reason, one pair
    names them, joined by "or".
    """
    texts, parts = list[tuple[str, str]](), dict[tuple[str, str], list[tuple[str, str]]]()
    for row in skipped:
        if part := _REASON_PATTERN.fullmatch(row.reason):
            parts.setdefault((row.attack, part[3]), []).append((part[1], part[2] or ""))
        else:
            texts.append((row.attack, row.reason))
    for (attack, reason), pairs in parts.items():
        for names, features in merge_equal_texts(pairs):
            of, using = " or ".join(names.rsplit(", ", 1)), re.sub("”  .+? “", "” or “", features)
            texts.append((attack, f"Inferring {of}{using} was not attempted: {reason}"))
    return merge_equal_texts(texts)


_UTILITY_COLUMNS: dict[str, Callable[[UtilityRow], FactValue]] = {
    "Measure": lambda row: row.metric,
    "Value [confidence interval]": format_value,
    "Value of a recommender that uses no personal data": metrics.describe_baseline,
    "Value of random ranking or the mean rating": lambda row: say.format_short(row.random),
    "Value in the paper": lambda row: (
        "none" if row.paper_value is None else say.format_short(row.paper_value)
    ),
}


def _build_utility(section: Section) -> DocSection:
    groups: dict[tuple[str, float, int], list[UtilityRow]] = {}
    for row in section.utility:
        groups.setdefault((row.protocol, row.confidence, row.n), []).append(row)
    blocks: list[Block] = []
    for (protocol, confidence, n), rows in groups.items():
        test, sure = say.PHRASES["protocol"].get(protocol, protocol), say.to_percent(confidence)
        caption = (
            f"Test: {test} ({n:,} test cases). The {sure} confidence intervals account for the "
            f"choice of users, {describe_trainings(rows)}"
        )
        blocks.append(make_table(rows, _UTILITY_COLUMNS, caption))
        for begins in (False, True):  # the conditions of the paper, then the choices of the audit
            notes: dict[str, list[str]] = {}
            for row in rows:
                texts = split_sentences(row.paper_note)
                ours = (x for x in texts if x.startswith("This audit ") is begins)
                notes.setdefault(" ".join(ours), []).append(row.metric)
            notes.pop("", None)
            head = "" if begins else "The paper measured {} under these conditions: "
            blocks += (Paragraph(head.format(", ".join(of)) + x) for x, of in notes.items())
    title = f"Utility in full: {say.format_count(len(section.utility), 'value')}"
    return DocSection(title, tuple(blocks), is_folded=True, is_html_only=True)


_SYSTEM_COLUMNS: dict[str, Callable[[Summary], FactValue]] = {
    "Severity": lambda glance: glance.assessment.severity_text,
    "System": lambda glance: glance.section.target,
    "Verdict on the claim": lambda glance: glance.verdict,
    "Result of the attacks": lambda glance: glance.attack_details,
    "What to do": lambda glance: say.join_texts(glance.advice, glance.utility_shortfall, by=" "),
}


def build_report_document(
    record: Contents, gate: verdict.Gate = verdict.DEFAULT_GATE
) -> DocSection:
    """Builds the document of a whole audit: a summary, one section per system, and shared notes.

    The summary states the waivers of ``gate``, the rule for failing CI.
    """
    summaries, origin = summary.summarize_systems(record), record.provenance
    data = origin.data
    read, made, limit = "no data set", list[str](), say.fill_text("note", "limit")
    in_full, counts = say.fill_text("note", "in-full"), summary.describe_verdict_counts(record)
    if data is not None:
        of = {"user": data.n_users, "item": data.n_items, "interaction": data.n_interactions}
        read = f"{data.name} ({', '.join(say.format_count(n, what) for what, n in of.items())})"
        made.append(f"digest of the data: {data.digest}")
    made += [f"{name} {version}" for name, version in sorted(origin.versions.items())]
    gaps = [("Not completed", error) for error in record.errors]
    gaps += [("Left out", note) for note in record.notes]
    gaps += [("Waiver", line) for line in describe_waivers(record, gate)]
    blocks: list[Block] = [
        Pictures(draw_overview(summaries)[:1]),
        Paragraph(
            f"Data: {read}; seed {origin.seed}. {limit} {say.fill_text('note', 'intervals')}"
        ),
        Paragraph(f"{counts} {summary.describe_user_hiding(record)} {in_full}"),
    ]
    blocks += [Facts(tuple(gaps))] if gaps else []
    blocks += [make_table(summaries, _SYSTEM_COLUMNS)] if summaries else []
    blocks += (build_system_document(record, glance, alone=False) for glance in summaries)
    if record.attacks:
        known = DocSection(ATTACK_NOTES_TITLE, (_merge_notes(summaries, list_attack_assumptions),))
        blocks += [_tabulate_systems(record, summaries), known]
    if record.skipped:
        why = _merge_notes(summaries, lambda glance: list_skip_reasons(glance.section.skipped))
        blocks.append(DocSection("Attacks that not every adversary could run", (why,)))
    blocks.append(DocSection("Provenance", (Paragraph(", ".join(made)),)))
    return move_repeats_to_notes(DocSection("Privacy audit", tuple(blocks)))


def _tabulate_systems(record: Contents, summaries: Sequence[Summary]) -> DocSection:
    """Builds the section with a table of attacks (rows) and systems (columns)."""
    # A cell counts the attack's results that beat guessing, and those that were compared with
    # guessing.
    above = {id(x.row) for glance in summaries for x in (*glance.leaks, *glance.small_leaks)}
    compared = Counter((row.attack, row.target) for row in list_rows_with_baseline(record))
    won = Counter((row.attack, row.target) for row in record.attacks if id(row) in above)
    lost = {(attack, g.section.target) for g in summaries for attack in g.section.attacks_not_run}
    names = {row.attack for row in record.attacks} | {row.attack for row in record.skipped}

    def cell(attack: str, glance: Summary) -> str:
        key = (attack, glance.section.target)
        count = f"{won[key]} of {compared[key]}" if key in compared else ""
        return "could not run" if key in lost else count

    caption = "Each cell states how many of the attack's results on the system beat guessing"
    rows = tuple((name, *(cell(name, glance) for glance in summaries)) for name in sorted(names))
    heads = ("Attack", *(glance.section.target for glance in summaries))
    return DocSection("Results of each attack on each system", (TableBlock(caption, heads, rows),))


def _merge_notes(
    summaries: Sequence[Summary], notes_of: Callable[[Summary], Iterable[tuple[str, str]]]
) -> Facts:
    """Builds notes on attacks; each sentence occurs once, with the systems that it concerns."""
    # ``notes_of`` returns pairs of an attack and a note for one system.
    on: dict[str, list[tuple[str, str]]] = {}
    for glance in summaries:
        for attack, note in notes_of(glance):
            pairs = ((glance.section.target, sentence) for sentence in split_sentences(note))
            on.setdefault(attack, []).extend(pairs)
    merged = ((attack, merge_equal_texts(pairs)) for attack, pairs in sorted(on.items()))
    rows = ((f"{attack} on {systems}", text) for attack, row in merged for systems, text in row)
    return Facts(tuple(rows))
