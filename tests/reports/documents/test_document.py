"""Three writers render the same document completely, from the record alone."""

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
from tests.reports.conftest import get_summary, vary
from tests.reports.printing import capture
from tests.reports.writers.test_html import Page

TARGETS = ("fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap")


def build(record: Record, target: str, *, page: bool = False) -> DocSection:
    glance = get_summary(record, target)
    html_ids = assign_html_ids(record)[target] if page else None
    return report.build_system_document(record, glance, html_ids)


def list_texts(part: DocSection, *, detail: bool = True) -> Iterator[str]:
    """Every text of a section below its title, in small pieces."""
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
            yield from (block.title, block.verdict_label, *list_texts(block, detail=detail))
        for text in texts:
            if isinstance(text, Quantity):
                yield from (text.value, *text.qualifiers)
            elif isinstance(text, str):
                yield text


def walk(part: DocSection) -> Iterator[DocSection]:
    """The section and all sections within it, in order."""
    yield part
    for block in part.blocks:
        if isinstance(block, DocSection):
            yield from walk(block)


def read_page(record: Record, target: str) -> str:
    return Page(html.render_html(record)).words


def read_markdown(record: Record, target: str) -> str:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return Page(parser.render(markdown.format_document(build(record, target)))).words


def read_terminal(record: Record, target: str) -> str:
    return capture(lambda c: print_blocks(build(record, target), c), width=50)


def normalize(text: str) -> str:
    return " ".join(text.split()).lower()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("write", "page", "detail"),
    [(read_page, True, True), (read_markdown, False, False), (read_terminal, False, False)],
)
def test_every_writer_renders_every_text(
    record: Record, target: str, write: Callable[[Record, str], str], page: bool, detail: bool
) -> None:
    text = normalize(write(record, target))
    texts = list(list_texts(build(record, target, page=page), detail=detail))
    assert len(texts) > 20
    assert [each for each in texts if normalize(each) not in text] == []


def test_a_proof_below_a_claim_is_not_printed_above_it(record: Record) -> None:
    finding = record["dplcf-sp"].headline_finding
    claim = replace(finding.claim, epsilon=0.9811234)
    proof = replace(finding.accounted, epsilon=0.98112339)
    kept = vary(finding, claim=claim, accounted=proof)
    assert say.format_number(proof.rounded_epsilon) == "0.981124"
    assert say.make_proved_quantity(kept).value == "epsilon ≤ 0.981123"
    assert say.make_claim_quantity(claim).value == "epsilon ≤ 0.981123"


def test_equal_reasons_of_skipped_attacks_are_merged(record: Record) -> None:
    rows = [
        ("tree", "Inferring gender was not attempted: 9 columns. Draw less."),
        ("tree", "Inferring age was not attempted: 9 columns. Draw less."),
        ("knn", "Inferring job was not attempted: 9 columns. Draw less."),
        ("linkage", "It reads whole messages. It runs from: peers."),
        ("rows", "It reads rows. It runs from: peers."),
    ]
    skipped = tuple(SkippedRow(target="fcf", attack=name, reason=why) for name, why in rows)
    whole = build(vary(record, skipped=skipped), "fcf")
    (part,) = (part for part in walk(whole) if part.title.startswith("Attacks that could not"))
    assert part.title == "Attacks that could not run: 4 for every adversary"
    assert part.blocks == (
        Facts(
            (
                ("linkage", "It reads whole messages. It runs from: peers."),
                ("rows", "It reads rows. It runs from: peers."),
                ("tree", "Inferring age or gender was not attempted: 9 columns. Draw less."),
                ("knn", "Inferring job was not attempted: 9 columns. Draw less."),
            )
        ),
    )


def split_references(references: re.Match[str]) -> str:
    return " ".join(f"see note {number}." for number in references[1].split(", "))


def test_references_to_adjacent_notes_are_merged() -> None:
    one, two = (f"Each of these {n} sentences is long enough to become a note." for n in "AB")
    facts = Facts((("Note", f"{one} {two} More."),) * 3)
    (told, _) = move_repeats_to_notes(DocSection("", (facts,))).blocks
    assert dict(told.rows)["Note"] == "See notes 1, 2. More."


def test_markdown_has_each_finding_and_each_reason_once(record: Record) -> None:
    noted = vary(record.findings[-1], note="What is told of all is told in a note.")
    reason = "It reads whole messages, and none is seen."
    skipped = [
        SkippedRow(target=name, attack=attack, reason=reason)
        for name in TARGETS
        for attack in ("linkage", "rows")
    ]
    findings = [vary(noted, target=name) for name in TARGETS]
    changed = vary(record, findings=(*record.findings, *findings), skipped=tuple(skipped))
    text = normalize(markdown.render_markdown(changed))
    assert "see note 1. see note" not in text
    text = re.sub(r"see notes ([\d, ]+)\.", split_references, text)
    assert text.count(normalize(noted.note)) == text.count(normalize(reason)) == 1
    assert f"**linkage, rows on {', '.join(sorted(TARGETS))}**" in text
    whole = report.build_report_document(changed)
    *_, notes = (block for block in whole.blocks if isinstance(block, DocSection))
    assert notes.title == "Notes"
    named = {name.lower(): str(note).lower() for name, note in notes.blocks[0].rows}
    for name, note in named.items():
        assert text.count(f"see {name}.") + text.count(f"({name})") >= 3
        text = text.replace(f"see {name}.", note).replace(f"({name})", note)
    for finding in changed.findings:
        for bound in (say.make_proved_quantity(finding), say.make_shown_quantity(finding)):
            assert normalize(markdown.escape_markdown(str(bound))) in text
        assert normalize(markdown.escape_markdown(finding.claim.statement)) in text
    for leak in itertools.chain(*(glance.leaks for glance in summarize_systems(changed))):
        for sentence in split_sentences(leak.row.note):
            assert normalize(markdown.escape_markdown(sentence.rstrip("."))) in text
    assert not any(part.is_html_only and part.title.lower() in text for part in walk(whole))


def test_epsilons_that_authors_do_not_print_are_labelled(record: Record) -> None:
    """Regression: Theorem 5 at delta .1 was a "claim of epsilon 1e-09", under "the authors'
    figure".
    """
    finding = record["dplcf-sp"].headline_finding
    titles = {}
    for basis in Basis:
        claim = replace(finding.claim, epsilon=1e-9, delta=0.1, basis=basis)
        (part,) = report.build_claim_sections([(vary(finding, claim=claim), "")])
        (name, stated), *_ = part.blocks[0].rows
        titles[basis] = part.title, name, str(stated).rpartition("; ")[2].rstrip(")")
    assert titles[Basis.PRINTED][:2] == ("Claim of epsilon 1e-09", "Claimed")
    words = "computed here from the authors' formula at delta 0.1"
    assert titles[Basis.COMPUTED] == (f"Claim of epsilon 1e-09, {words}", "Claimed", words)
    words = "derived by this audit, claimed by nobody"
    assert titles[Basis.DERIVED] == (f"Epsilon 1e-09, {words}", "Derived", words)


def build_answers(record: Record, target: str) -> tuple[dict[str, object], str]:
    facts, part = report.build_regulator_section(record, get_summary(record, target)).blocks
    assert isinstance(facts, Facts)
    assert isinstance(part, DocSection)
    (paragraph,) = part.blocks
    assert isinstance(paragraph, Paragraph)
    return dict(facts.rows), paragraph.text


def test_a_risk_is_shown_or_not_shown_or_not_tested(record: Record) -> None:
    facts, text = build_answers(record, "fcf")
    assert facts["Singling out"] == facts["Linkability"] == "No attack tested this risk."
    assert facts["Inference"].startswith("An attack succeeds: the attacker is right")
    assert f"Inference: {facts['Inference']}" in text
    tried = [r for r in record.attacks if r.baseline is not None]
    none = (vary(r, value=r.baseline, ci_low=0.0, ci_high=r.baseline + 0.01) for r in tried)
    quiet = vary(record, attacks=tuple(none))
    facts, _ = build_answers(quiet, "fcf")
    assert facts["Inference"].startswith("No attack is shown to beat guessing (attacks: ")
    assert "the confidence intervals allow results up to 0." in facts["Inference"]


def test_answers_about_a_system_without_a_claim(record: Record) -> None:
    facts, _ = build_answers(vary(record, findings=()), "fcf")
    assert facts["Epsilon"] == "No claim was judged."


def test_answers_state_the_severity_and_the_limits_of_the_audit(record: Record) -> None:
    """Limits: a cut training, a failed training, and code that is not the authors'."""
    empty = MessagesRow(target="fmf-ldp", sent=600, empty=570, oversized=0)
    cut = f"{CUT_TRAINING_NOTE_PREFIX}20 of 1,000 rounds."
    utility = tuple(vary(row, paper_note=cut, ci_low=0.0) for row in record.utility)
    lost = {"plan": {"quick": True}, "messages": (empty,), "utility": utility}
    broken = vary(record, **lost)
    _, text = build_answers(broken, "fmf-ldp")
    for words in (
        "The system is a re-implementation of its paper, not its authors' code.",
        "The audit was quick: it trained 20 of 1,000 rounds. If a quick audit finds nothing, that",
        "Severity: high or worse.",
        "Not assessed: leak (570 of 600 messages reveal nothing).",
        "the training broke down: 570 of 600 messages are empty or unusable",
        "Measures to take: Train the system again before you quote a result",
    ):
        assert words in text
    _, text = build_answers(vary(record, own=("fcf",)), "fcf")
    assert "re-implementation" not in text
    assert "quick" not in text
    assert "Severity: critical." in text
