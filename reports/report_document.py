"""The whole record as a document: what it comes to, then system by system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fedrec_auditor.reports import say
from fedrec_auditor.reports.document import (
    Block,
    Facts,
    Grid,
    Paragraph,
    Passage,
    sentences,
    told_of,
    told_once,
)
from fedrec_auditor.reports.glance import Glance, glances, hidden_words, summary
from fedrec_auditor.reports.leaks import comparable
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.system_document import ASSUMED, assumed, reasons, system_document

HEADS = ("Severity", "System", "Claim", "What an attacker got", "Utility")
IN_FULL = (
    "report.html has more: every figure of attacks and of utility with its interval, drawings, the "
    "pairs of inputs that tell most, and answers for those who file a report. report.json has all."
)


def report_document(record: Contents) -> Passage:
    """All that a record says."""
    seen, data = glances(record), record.provenance.data
    read = "none were read"
    if data is not None:
        sizes = (
            say.counted(data.n_users, "user"),
            say.counted(data.n_items, "item"),
            say.counted(data.n_interactions, "interaction"),
        )
        read = f"{data.name} ({', '.join(sizes)})"
    blocks: list[Block] = [
        Paragraph(
            f"Data: {read}; seed {record.provenance.seed}. An audit can refute a claim or fail to "
            f"refute it; it never shows that nothing leaks. {say.OVER}"
        ),
        Paragraph(f"{summary(record)} {hidden_words(record)} {IN_FULL}"),
    ]
    said = [("Not completed", error) for error in record.errors]
    said += [("Left out", note) for note in record.notes]
    blocks += [Facts(tuple(said))] if said else []
    if seen:
        rows = tuple(
            (g.assessment.words, g.section.target, g.verdict, g.got_words, g.shortfall)
            for g in seen
        )
        blocks.append(Grid("", HEADS, rows))
    blocks += (system_document(record, glance, alone=False) for glance in seen)
    blocks += [_map(record, seen), _assumed(seen)] if record.attacks else []
    blocks += [_unplayed(seen)] if record.skipped else []
    versions = sorted(record.provenance.versions.items())
    made = [] if data is None else [f"data digest {data.digest}"]
    made += [f"{name} {version}" for name, version in versions]
    blocks.append(Passage("Provenance", (Paragraph(", ".join(made)),)))
    return told_once(Passage("Privacy audit", tuple(blocks)))


def _map(record: Contents, seen: Sequence[Glance]) -> Passage:
    """How many figures of which attack beat guessing, and of how many, by system."""
    above = {id(x.row) for glance in seen for x in (*glance.leaking, *glance.little)}
    compared = Counter((row.attack, row.target) for row in comparable(record))
    won = Counter((row.attack, row.target) for row in record.attacks if id(row) in above)
    lost = {(attack, g.section.target) for g in seen for attack in g.section.unplayed}
    names = {row.attack for row in record.attacks} | {row.attack for row in record.skipped}

    def cell(attack: str, glance: Glance) -> str:
        key = (attack, glance.section.target)
        return f"{won[key]}/{compared[key]}" if key in compared else "no" if key in lost else ""

    caption = "Figures that beat guessing, of those that have a guess. no: the attack could not run"
    rows = tuple((attack, *(cell(attack, glance) for glance in seen)) for attack in sorted(names))
    heads = ("Attack", *(glance.section.target for glance in seen))
    return Passage("Attacks against systems", (Grid(caption, heads, rows),))


def _assumed(seen: Sequence[Glance]) -> Passage:
    """Assumptions of each attack that beats guessing somewhere."""
    return Passage(ASSUMED, (_by_attack((glance, assumed(glance)) for glance in seen),))


def _unplayed(seen: Sequence[Glance]) -> Passage:
    """Why attacks could not run."""
    told = ((glance, reasons(glance.section.skipped)) for glance in seen)
    return Passage("Attacks that could not run", (_by_attack(told),))


def _by_attack(told: Iterable[tuple[Glance, Iterable[tuple[str, str]]]]) -> Facts:
    """Notes on attacks: each sentence once, behind all systems that it is about."""
    on: dict[str, list[tuple[str, str]]] = {}
    for glance, notes in told:
        for attack, note in notes:
            pairs = ((glance.section.target, sentence) for sentence in sentences(note))
            on.setdefault(attack, []).extend(pairs)
    rows = ((attack, row) for attack, pairs in sorted(on.items()) for row in told_of(pairs))
    return Facts(tuple((f"{attack}: {systems}", text) for attack, (systems, text) in rows))
