"""The three writers render the same document without leaving out a word, from the record alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from fedrec_auditor.accountants.statements import Basis
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import report
from fedrec_auditor.reports.documents.document import (
    BulletList,
    DocSection,
    Facts,
    Paragraph,
    Quantity,
    TableBlock,
    move_repeats_to_notes,
    split_sentences,
)
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import MessagesRow, SkippedRow
from fedrec_auditor.reports.record.sections import assign_html_ids
from fedrec_auditor.reports.say.metrics import CUT_TRAINING_NOTE_PREFIX
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers import html, markdown
from fedrec_auditor.reports.writers.terminal import print_blocks
from tests.reports.conftest import glance_of, vary
from tests.reports.printing import printed
from tests.reports.writers.test_html import Page

TARGETS = ("fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap")


def document(record: Record, target: str, *, page: bool = False) -> DocSection:
    glance = glance_of(record, target)
    html_ids = assign_html_ids(record)[target] if page else None
    return report.build_system_document(record, glance, html_ids)


def said(part: DocSection, *, detail: bool = True) -> Iterator[str]:
    """Every text of a part below its title, in small pieces."""
    for block in part.blocks:
        texts: list[object] = []
        if isinstance(block, Paragraph):
            texts = [block.text]
        elif isinstance(block, BulletList):
            texts = [*block.texts]
        elif isinstance(block, Facts):
            texts = [text for row in block.rows for text in row]
        elif isinstance(block, TableBlock):
            texts = [*block.column_heads[1:], *(cell for row in block.rows for cell in row)]
        elif isinstance(block, DocSection) and (detail or not block.is_html_only):
            yield from (block.title, block.verdict_label, *said(block, detail=detail))
        for text in texts:
            if isinstance(text, Quantity):
                yield from (text.value, *text.qualifiers)
            elif isinstance(text, str):
                yield text


def parts_of(part: DocSection) -> Iterator[DocSection]:
    """The part, and all within it, in their order."""
    yield part
    for block in part.blocks:
        if isinstance(block, DocSection):
            yield from parts_of(block)


def of_page(record: Record, target: str) -> str:
    return Page(html.render_html(record)).said


def of_markdown(record: Record, target: str) -> str:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return Page(parser.render(markdown.format_document(document(record, target)))).said


def of_terminal(record: Record, target: str) -> str:
    return printed(lambda c: print_blocks(document(record, target), c), width=50)


def flat(text: str) -> str:
    return " ".join(text.split()).lower()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("write", "page", "detail"),
    [(of_page, True, True), (of_markdown, False, False), (of_terminal, False, False)],
)
def test_a_writer_leaves_out_no_word(
    record: Record, target: str, write: Callable[[Record, str], str], page: bool, detail: bool
) -> None:
    text = flat(write(record, target))
    texts = list(said(document(record, target, page=page), detail=detail))
    assert len(texts) > 20
    assert [each for each in texts if flat(each) not in text] == []


def test_a_proof_below_a_claim_is_not_printed_above_it(record: Record) -> None:
    finding = record["dplcf-sp"].headline_finding
    claim = replace(finding.claim, epsilon=0.9811234)
    proof = replace(finding.accounted, epsilon=0.98112339)
    kept = vary(finding, claim=claim, accounted=proof)
    assert say.format_number(proof.rounded_epsilon) == "0.981124"
    assert say.make_finding_upper_quantity(kept).value == "epsilon ≤ 0.981123"
    assert say.make_claim_quantity(claim).value == "epsilon ≤ 0.981123"


def test_a_reason_is_told_once_for_all_that_it_keeps_from_running(record: Record) -> None:
    rows = [
        ("tree", "Inferring gender is not possible: 9 columns. Draw less."),
        ("tree", "Inferring age is not possible: 9 columns. Draw less."),
        ("knn", "Inferring job is not possible: 9 columns. Draw less."),
        ("linkage", "It reads whole messages. It runs from: peers."),
        ("rows", "It reads rows. It runs from: peers."),
    ]
    skipped = tuple(SkippedRow(target="fcf", attack=name, reason=why) for name, why in rows)
    whole = document(vary(record, skipped=skipped), "fcf")
    (part,) = (part for part in parts_of(whole) if part.title.startswith("Attacks that could not"))
    assert part.title == "Attacks that could not run: 4 for all adversaries"
    assert part.blocks == (
        Facts(
            (
                ("linkage", "It reads whole messages. It runs from: peers."),
                ("rows", "It reads rows. It runs from: peers."),
                ("tree", "Inferring age or gender is not possible: 9 columns. Draw less."),
                ("knn", "Inferring job is not possible: 9 columns. Draw less."),
            )
        ),
    )


def separate(references: re.Match[str]) -> str:
    return " ".join(f"see note {number}." for number in references[1].split(", "))


def test_references_to_adjacent_notes_are_one_sentence() -> None:
    one, two = (f"Each of these {n} sentences is long enough to become a note." for n in "AB")
    facts = Facts((("Note", f"{one} {two} More."),) * 3)
    (told, _) = move_repeats_to_notes(DocSection("", (facts,))).blocks
    assert dict(told.rows)["Note"] == "See notes 1, 2. More."


def test_a_report_in_markdown_tells_each_finding_and_each_reason_once(record: Record) -> None:
    kept = vary(record.findings[-1], note="What is told of all is told in a note.")
    reason = "It reads whole messages, and none is seen."
    skipped = [
        SkippedRow(target=name, attack=attack, reason=reason)
        for name in TARGETS
        for attack in ("linkage", "rows")
    ]
    findings = [vary(kept, target=name) for name in TARGETS]
    told = vary(record, findings=(*record.findings, *findings), skipped=tuple(skipped))
    text = flat(markdown.render_markdown(told))
    assert "see note 1. see note" not in text
    text = re.sub(r"see notes ([\d, ]+)\.", separate, text)
    assert text.count(flat(kept.note)) == text.count(flat(reason)) == 1
    assert f"**linkage, rows on {', '.join(sorted(TARGETS))}**" in text
    whole = report.build_report_document(told)
    *_, notes = (block for block in whole.blocks if isinstance(block, DocSection))
    assert notes.title == "Notes"
    named = {name.lower(): str(note).lower() for name, note in notes.blocks[0].rows}
    for name, note in named.items():
        assert text.count(f"see {name}.") + text.count(f"({name})") >= 3
        text = text.replace(f"see {name}.", note).replace(f"({name})", note)
    for finding in told.findings:
        for bound in (
            say.make_finding_upper_quantity(finding),
            say.make_finding_lower_quantity(finding),
        ):
            assert flat(markdown.escape_markdown(str(bound))) in text
        assert flat(markdown.escape_markdown(finding.claim.statement)) in text
    for leak in itertools.chain(*(glance.leaks for glance in summarize_systems(told))):
        for sentence in split_sentences(leak.row.note):
            assert flat(markdown.escape_markdown(sentence.rstrip("."))) in text
    assert not any(part.is_html_only and part.title.lower() in text for part in parts_of(whole))


def test_a_figure_that_its_authors_do_not_print_is_labelled(record: Record) -> None:
    """Theorem 5 at delta .1 was a "claim of epsilon 1e-09", under "the authors' figure"."""
    finding = record["dplcf-sp"].headline_finding
    titles = {}
    for basis in Basis:
        claim = replace(finding.claim, epsilon=1e-9, delta=0.1, basis=basis)
        (part,) = report.build_claim_sections([(vary(finding, claim=claim), "")])
        (name, said), *_ = part.blocks[0].rows
        titles[basis] = part.title, name, str(said).rpartition("; ")[2].rstrip(")")
    assert titles[Basis.PRINTED][:2] == ("Claim of epsilon 1e-09", "Claimed")
    words = "computed here from the authors' formula at delta 0.1"
    assert titles[Basis.COMPUTED] == (f"Claim of epsilon 1e-09, {words}", "Claimed", words)
    words = "derived by this audit, claimed by nobody"
    assert titles[Basis.DERIVED] == (f"Epsilon 1e-09, {words}", "Derived", words)


def filed(record: Record, target: str) -> tuple[dict[str, object], str]:
    facts, part = report.build_regulator_section(record, glance_of(record, target)).blocks
    assert isinstance(facts, Facts)
    assert isinstance(part, DocSection)
    (paragraph,) = part.blocks
    assert isinstance(paragraph, Paragraph)
    return dict(facts.rows), paragraph.text


def test_each_risk_is_shown_or_not_shown_or_not_tested(record: Record) -> None:
    facts, text = filed(record, "fcf")
    assert facts["Singling out"] == facts["Linkability"] == "No attack tested this risk."
    assert facts["Inference"].startswith("An attack succeeds: the attacker is right")
    assert f"Inference: {facts['Inference']}" in text
    tried = [r for r in record.attacks if r.baseline is not None]
    none = (vary(r, value=r.baseline, ci_low=0.0, ci_high=r.baseline + 0.01) for r in tried)
    quiet = vary(record, attacks=tuple(none))
    facts, _ = filed(quiet, "fcf")
    assert facts["Inference"].startswith("No attack is shown to beat guessing (attacks: ")
    assert "the confidence intervals allow results up to 0." in facts["Inference"]


def test_a_system_without_a_claim_is_filed(record: Record) -> None:
    facts, _ = filed(vary(record, findings=()), "fcf")
    assert facts["Epsilon"] == "No claim was judged."


def test_what_is_filed_says_how_it_was_audited_and_how_bad_it_is(record: Record) -> None:
    """Nothing to copy without severity, what was cut short, broke down, or is another's code."""
    empty = MessagesRow(target="fmf-ldp", sent=600, empty=570, oversized=0)
    cut = f"{CUT_TRAINING_NOTE_PREFIX}20 of 1,000 rounds."
    utility = tuple(vary(row, paper_note=cut, ci_low=0.0) for row in record.utility)
    lost = {"plan": {"quick": True}, "messages": (empty,), "utility": utility}
    broken = vary(record, **lost)
    _, text = filed(broken, "fmf-ldp")
    for said in (
        "The system is a re-implementation of its paper, not its authors' code.",
        "The audit was quick: it trained 20 of 1,000 rounds. If a quick audit finds nothing, that",
        "Severity: high or worse.",
        "Not assessed: leak (570 of 600 messages reveal nothing).",
        "the training broke down: 570 of 600 messages are empty or unusable",
        "Measures to take: Train the system again before you quote a result",
    ):
        assert said in text
    _, text = filed(vary(record, own=("fcf",)), "fcf")
    assert "re-implementation" not in text
    assert "quick" not in text
    assert "Severity: critical." in text
