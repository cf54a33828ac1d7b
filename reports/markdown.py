"""The record as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fedrec_auditor.reports import demonstrations as shown
from fedrec_auditor.reports.record import (
    AttackRow,
    DemonstrationRow,
    Finding,
    MeasuredRow,
    Record,
    UtilityRow,
    WitnessRow,
)
from fedrec_auditor.reports.section import Section, sections, tally
from fedrec_auditor.reports.words import (
    SIGNS,
    asked_words,
    brief,
    chance_words,
    claimed_guess_words,
    delta_words,
    flag_words,
    legal,
    measured_words,
    number,
    outcome_words,
    percent,
    proved_words,
    ratio_words,
    scope_words,
    shown_guess_words,
)

_FINDINGS = ("scope", "claimed", "proved", "measured", "verdict")
_ATTACKS = ("attack", "vantage", "metric", "value [interval]", "baseline", "subjects")
_UTILITY = ("metric", "protocol", "value [interval]", "random", "paper", "users")
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~@:-])")


def render(record: Record) -> str:
    """The whole record, a section a target."""
    data = record.provenance.data
    said = "Data: none were read"
    if data is not None:
        said = (
            f"Data: {escape(data.name)} ({data.n_users:,} users, {data.n_items:,} items, "
            f"{data.n_interactions:,} interactions)"
        )
    parts = [
        "# Privacy audit",
        f"{said}; seed {record.provenance.seed}. "
        "An audit can refute a claim or fail to refute it; it never shows that nothing leaks.",
        f"**{tally(record)}**",
    ]
    if record.errors:
        parts += ["**Not completed:**", _list(record.errors)]
    cut = sections(record)
    if cut:
        parts.append(
            _table(
                ("target", "verdict", "in one sentence", "what to do"),
                ([s.target, _verdict(s.lead), s.headline, s.advice] for s in cut),
            )
        )
    if record.demonstrations:
        parts += _demonstrations(record.demonstrations)
    for section in cut:
        parts += _section(section)
    versions = (f"{name} {text}" for name, text in sorted(record.provenance.versions.items()))
    digest = [] if data is None else [f"data digest {data.digest}"]
    parts += ["## Provenance", _list([*digest, *versions])]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """``text`` on one line, with nothing in it that Markdown or HTML would obey."""
    line = " ".join(legal(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", line.replace(">", "&gt;"))


def _demonstrations(rows: Sequence[DemonstrationRow]) -> list[str]:
    table = (
        [
            shown.title(row),
            shown.brief_claim(row.violation),
            shown.brief_bound(row.violation),
            shown.brief_control(row.control),
            shown.outcome(row),
        ]
        for row in rows
    )
    parts = ["## Demonstrations", escape(shown.tally(rows)), _table(shown.HEADS, table)]
    for row in rows:
        lines = [shown.violation_words(row), shown.control_words(row)]
        parts += [
            f"### {escape(shown.title(row))}",
            _list([*lines, *([row.note] * bool(row.note))]),
        ]
    return parts


def _section(section: Section) -> list[str]:
    parts = [f"## {escape(section.target)}", escape(section.headline)]
    if section.findings:
        parts += [_table(_FINDINGS, map(_finding, section.findings))]
        parts += [_list([_reason(f) for f in section.findings])]
    for finding in section.findings:
        parts += _witness(finding)
    if section.attacks:
        parts += ["### Attacks", _table(_ATTACKS, map(_attack, section.attacks))]
    if section.utility:
        parts += ["### Utility", _table(_UTILITY, map(_utility, section.utility))]
    if section.others:
        bounds = [f"epsilon {measured_words(m.bound)}" for m in section.others]
        parts += ["### Other lower bounds", _list(bounds)]
    return parts


def _verdict(finding: Finding | None) -> str:
    if finding is None:
        return "none"
    flag = flag_words(finding)
    return f"{SIGNS[finding.verdict]} {finding.verdict}{flag and f', {flag}'}"


def _finding(finding: Finding) -> list[str]:
    claim = finding.claim
    return [
        f"{scope_words(finding.scope)} {asked_words(finding)}".strip(),
        f"{number(claim.epsilon)} ({delta_words(claim.delta)}; {claim.scope.scope()})",
        "none" if finding.accounted is None else proved_words(finding.accounted),
        "none" if finding.measured is None else measured_words(finding.measured),
        _verdict(finding),
    ]


def _reason(finding: Finding) -> str:
    said = [f"{finding.claim.statement} ({finding.claim.source}).", finding.reason]
    said.append(claimed_guess_words(finding.claim))
    if finding.measured is not None:
        said.append(shown_guess_words(finding.measured))
    return " ".join([*said, finding.note]).strip()


def _witness(finding: Finding) -> list[str]:
    if finding.measured is None or finding.measured.witness is None:
        return []
    witness = finding.measured.witness
    rows = [
        ["input a", witness.input_a],
        ["input b", witness.input_b],
        ["output", witness.output],
        [f"{outcome_words(witness).lower()} given a, given b", _chances(finding.measured, witness)],
        ["ratio", ratio_words(finding.measured)],
        ["independent copies", f"{witness.copies:,}"],
        ["bound", f"epsilon {measured_words(finding.measured)}"],
    ]
    if witness.note:
        rows.append(["note", witness.note])
    return ["### Counterexample" if finding.verdict == "VIOLATED" else "### Worst pair",
            _table(("", f"{finding.scope.scope()}"), rows)]  # fmt: skip


def _attack(row: AttackRow) -> list[str]:
    base = "; ".join(f"{name} {brief(value)}" for name, value in sorted(row.baselines.items()))
    return [
        f"{row.attack} ({row.family})",
        row.vantage,
        row.metric,
        _interval(row),
        base or ("none" if row.baseline is None else brief(row.baseline)),
        f"{row.n:,} {row.subject}",
    ]


def _utility(row: UtilityRow) -> list[str]:
    paper = "none" if row.paper_value is None else brief(row.paper_value)
    return [
        row.metric,
        row.protocol,
        _interval(row),
        brief(row.random),
        f"{paper} {row.paper_note}".strip(),
        f"{row.n:,}",
    ]


def _interval(row: AttackRow | UtilityRow) -> str:
    return (
        f"{brief(row.value)} [{brief(row.ci_low)}, {brief(row.ci_high)}] "
        f"at {percent(row.confidence)}"
    )


def _chances(measured: MeasuredRow, witness: WitnessRow) -> str:
    given = (witness.probability_a, witness.probability_b)
    return ", ".join(chance_words(measured, chance) for chance in given)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads)]
    body = [" | ".join(map(escape, row)) for row in rows]
    return "\n".join(f"| {line} |" for line in [*(" | ".join(row) for row in lines), *body])


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)
