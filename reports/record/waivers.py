"""Applies waivers to the record of an audit, for gates (rules for failing CI)."""

from __future__ import annotations

from typing import TypeVar

from fedrec_auditor.accountants.verdict import Gate, Verdict
from fedrec_auditor.accountants.waivers import Waiver
from fedrec_auditor.reports.record.leaks import find_leaks
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding

Kept = TypeVar("Kept", bound=Contents)


def find_waiver(row: Finding | AttackRow, gate: Gate) -> Waiver | None:
    """Returns the waiver of ``gate`` that is valid for a finding or an attack's result, or None.

    A contradiction within the audit (UNSOUND) cannot be waived.
    """
    result = row.attack if isinstance(row, AttackRow) else str(row.scope)
    if isinstance(row, Finding) and row.verdict is Verdict.UNSOUND:
        return None
    return next((each for each in gate.waivers if each.covers(row.target, result)), None)


def excuse(record: Kept, gate: Gate) -> Kept:
    """Returns the record as ``gate`` judges it: without waived findings and leaks.

    A waived attack counts as one that ran and only guessed.
    """
    findings = [row for row in record.findings if find_waiver(row, gate) is None]
    attacks = [
        row if row.baseline is None or find_waiver(row, gate) is None else _as_guess(row)
        for row in record.attacks
    ]
    return record.model_copy(update={"findings": tuple(findings), "attacks": tuple(attacks)})


def _as_guess(row: AttackRow) -> AttackRow:
    guess = dict.fromkeys(("value", "ci_low", "ci_high"), row.baseline)
    return row.model_copy(update={**guess, "gain": None})


def waiver_lines(record: Contents, gate: Gate) -> list[str]:
    """A sentence on each waiver of ``gate``, and on whether the record has what it accepts."""
    failing: list[Finding | AttackRow] = [leak.row for leak in find_leaks(record, gate.leak_margin)]
    failing += [row for row in record.findings if row.verdict is not Verdict.CONSISTENT]
    used = [find_waiver(row, gate) for row in failing]
    return [
        str(each)
        if each.is_expired or each in used
        else f"{each} It is not used, because the audit has no such finding or leak."
        for each in gate.waivers
    ]
