"""Waivers, by which a gate accepts single findings and leaks, as applied to an audit's record.

A gate is the rule by which an audit fails in CI."""

from __future__ import annotations

from typing import TypeVar

from fedrec_auditor.accountants.verdict import Gate, Verdict
from fedrec_auditor.reports.record.leaks import find_leaks
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding

# Class of a record.
RecordType = TypeVar("RecordType", bound=Contents)


def get_waiver_text(row: Finding | AttackRow, gate: Gate) -> str:
    """Returns the sentence of the waiver that accepts a finding or an attack's result.

    The result is "" if no waiver of ``gate`` accepts it. A contradiction within the audit (UNSOUND)
    cannot be waived.
    """
    if isinstance(row, Finding) and row.verdict is Verdict.UNSOUND:
        return ""
    result = row.attack if isinstance(row, AttackRow) else str(row.scope)
    return gate.waivers.get((row.target, result), "")


def drop_waived(record: RecordType, gate: Gate) -> RecordType:
    """Returns the record without the findings and leaks that waivers of ``gate`` accept.

    An attack result that is waived keeps its row, but with the value of its baseline (a guess), so
    that it is not a leak.
    """
    attacks = []
    for row in record.attacks:
        if row.baseline is not None and get_waiver_text(row, gate):
            guess = dict.fromkeys(("value", "ci_low", "ci_high"), row.baseline)
            row = row.model_copy(update={**guess, "gain": None})
        attacks.append(row)
    findings = tuple(row for row in record.findings if not get_waiver_text(row, gate))
    return record.model_copy(update={"findings": findings, "attacks": tuple(attacks)})


def describe_waivers(record: Contents, gate: Gate) -> list[str]:
    """Returns a sentence on each waiver of ``gate``: its text, and whether the record needs it."""
    failing = [row for row in record.findings if row.verdict is not Verdict.CONSISTENT]
    used = {get_waiver_text(row, gate) for row in failing}
    used |= {get_waiver_text(leak.row, gate) for leak in find_leaks(record, gate.leak_margin)}
    unused = " It is not used: the audit has no such finding or leak."
    waivers = (f"{w}{'' if w in used else unused}" for w in gate.waivers.values())
    return [*gate.expired_waivers, *waivers]
