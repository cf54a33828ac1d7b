"""What a regulator asks: every answer is of the record, and what was not tried is said so."""

from __future__ import annotations

from fedrec_auditor.reports.document import Facts, Paragraph, Passage
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import MessagesRow
from fedrec_auditor.reports.say import UNITS, capitalized
from fedrec_auditor.reports.system_document import filing_part
from fedrec_auditor.reports.usefulness import CUT


def filed(record: Record, target: str) -> tuple[dict[str, object], str]:
    (glance,) = (each for each in glances(record) if each.section.target == target)
    facts, part = filing_part(record, glance).blocks
    assert isinstance(facts, Facts)
    assert isinstance(part, Passage)
    (paragraph,) = part.blocks
    assert isinstance(paragraph, Paragraph)
    return dict(facts.rows), paragraph.text


def test_each_risk_is_shown_or_not_shown_or_not_tested(record: Record) -> None:
    facts, text = filed(record, "fcf")
    assert facts["Singling out"] == facts["Linkability"] == "Not tested."
    assert facts["Inference"].startswith("Shown: of an item that a user met")
    assert f"Inference: {facts['Inference']}" in text
    quiet = record.model_copy(
        update={"attacks": tuple(r.model_copy(update={"value": r.baseline, "ci_low": 0.0,
                                                      "ci_high": r.baseline + 0.01})
                                 for r in record.attacks if r.baseline is not None)}
    )  # fmt: skip
    facts, _ = filed(quiet, "fcf")
    assert facts["Inference"].startswith("Not shown by ")
    assert "an advantage of up to 0." in facts["Inference"]


def test_questions_about_epsilon_follow_the_worst_finding(record: Record) -> None:
    facts, text = filed(record, "dplcf-sp")
    finding = record["dplcf-sp"].headline_finding
    assert facts["Unit of privacy"] == f"{capitalized(UNITS[finding.scope.unit])}."
    assert str(facts["Accounting"]).startswith("≤ 1 (delta 0")
    assert "Floating point" in facts
    assert "dplcf-sp was audited" in text
    assert "it never shows that nothing leaks" in text
    assert "Floating point" not in filed(record, "fcf")[0]


def test_a_system_without_a_claim_is_filed(record: Record) -> None:
    facts, _ = filed(record.model_copy(update={"findings": ()}), "fcf")
    assert facts["Epsilon"] == "No claim was judged."


def test_what_is_filed_says_how_it_was_audited_and_how_bad_it_is(record: Record) -> None:
    """Nothing to copy without severity, what was cut short, broke down, or is another's code."""
    empty = MessagesRow(target="fmf-ldp", sent=600, empty=570, oversized=0)
    cut = f"{CUT}20 of 1,000 rounds."
    utility = tuple(
        row.model_copy(update={"paper_note": cut, "ci_low": 0.0}) for row in record.utility
    )
    lost = {"plan": {"quick": True}, "messages": (empty,), "utility": utility}
    broken = record.model_copy(update=lost)
    _, text = filed(broken, "fmf-ldp")
    for said in (
        "It is a re-implementation of what its paper prints, not its authors' code.",
        "The audit was quick: it trained 20 of 1,000 rounds; one that finds nothing is no ev",
        "Severity: high or worse.",
        "Not assessed: leak (570 of 600 messages tell nothing).",
        "the training broke down: 570 of 600 messages tell nothing",
        "Measure: Train it again before a figure is quoted",
    ):
        assert said in text
    _, text = filed(record.model_copy(update={"own": ("fcf",)}), "fcf")
    assert "re-implementation" not in text
    assert "quick" not in text
    assert "Severity: critical." in text
