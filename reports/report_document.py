"""The whole record as a document: what it comes to, then system by system."""

from __future__ import annotations

from fedrec_auditor.reports import demonstrations
from fedrec_auditor.reports.document import Block, Facts, Grid, Listing, Paragraph, Passage
from fedrec_auditor.reports.glance import glances, hidden_words, summary
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.system_document import system_document
from fedrec_auditor.reports.words import OVER, counted

HEADS = ("Severity", "System", "Is the claim true?", "What an attacker got", "What to do")


def report_document(record: Contents) -> Passage:
    """All that a record says."""
    seen, data = glances(record), record.provenance.data
    read = "none were read"
    if data is not None:
        sizes = (
            counted(data.n_users, "user"),
            counted(data.n_items, "item"),
            counted(data.n_interactions, "interaction"),
        )
        read = f"{data.name} ({', '.join(sizes)})"
    blocks: list[Block] = [
        Paragraph(
            f"Data: {read}; seed {record.provenance.seed}. An audit can refute a claim or fail to "
            f"refute it; it never shows that nothing leaks. {OVER}"
        ),
        Paragraph(f"{summary(record)} {hidden_words(record)}"),
    ]
    said = [("Not completed", error) for error in record.errors]
    said += [("Left out", note) for note in record.notes]
    blocks += [Facts(tuple(said))] if said else []
    if seen:
        rows = tuple(
            (
                glance.severity.value,
                glance.section.target,
                glance.claim_words,
                glance.got_words,
                f"{glance.todo} {glance.shortfall}".strip(),
            )
            for glance in seen
        )
        blocks.append(Grid("", HEADS, rows))
    if record.demonstrations:
        count = Paragraph(demonstrations.summary(record.demonstrations))
        parts = map(demonstrations.demonstration_part, record.demonstrations)
        blocks.append(Passage("Demonstrations", (count, *parts)))
    blocks += (system_document(record, glance) for glance in seen)
    versions = sorted(record.provenance.versions.items())
    made = [] if data is None else [f"data digest {data.digest}"]
    made += [f"{name} {version}" for name, version in versions]
    blocks.append(Passage("Provenance", (Listing(tuple(made)),)))
    return Passage("Privacy audit", tuple(blocks))
