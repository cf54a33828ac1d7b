"""report.sarif, as code scanning reads it: SARIF 2.1.0 (OASIS), one result a finding or a leak.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. A result is about a system, not a
line of a file: its place is a logical location. The physical one beside it, the record or the code
that was tested, is there because GitHub refuses results without one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate, Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.leaks import leaks
from fedrec_auditor.reports.rows import CheckRow, Contents
from fedrec_auditor.reports.severity import Severity

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {
    Verdict.UNSOUND: "error",
    Verdict.VIOLATED: "error",
    Verdict.UNSUBSTANTIATED: "note",
    Verdict.INCONCLUSIVE: "note",
}
"""The level of a result; other verdicts are no result."""
_LEAK, _CHECK, _UNKNOWN = "LEAK", "CHECK", "NOT ASSESSED"
_UNKNOWN_MEANING = "Too little was looked at to say how bad it is at most."
_CHECK_MEANING = "A check of what no epsilon tells failed."
_LEAK_MEANING = (
    "An attack gets more from the uploads than is guessed without them, or so large an epsilon is "
    "shown that an adversary may guess one bit nearly always."
)


def render(
    record: Contents,
    gate: Gate = DEFAULT_GATE,
    checks: Sequence[CheckRow] = (),
    place: tuple[str, int] = ("report.json", 1),
) -> bytes:
    """The record as SARIF 2.1.0: refuted claims are errors, leaks warnings, what is open notes.

    Failed ``checks`` are errors, too; ``place`` is the file of all results, and the line in it.
    """
    seen = glances(record, gate.leak_margin)
    results = [
        _result(
            str(finding.verdict),
            LEVELS[finding.verdict],
            f"{finding.verdict}: epsilon {say.number(finding.claim.epsilon)} for {finding.scope}: "
            f"{finding.reason}",
            finding.target,
            f"{finding.claim.epsilon} {finding.claim.delta} {finding.claim.scope} "
            f"{finding.scope} {finding.delta} {finding.game}",
        )
        for finding in record.findings
        if finding.verdict in LEVELS
    ]
    results += [
        _result(
            _LEAK,
            "warning",
            f"{leak.words}.",
            leak.row.target,
            f"{leak.row.attack} {leak.row.vantage} {leak.row.metric}",
        )
        for leak in leaks(record, gate.leak_margin)
    ]
    results += [
        _result(_LEAK, "warning", f"{glance.exposed}.", glance.section.target, "epsilon shown")
        for glance in seen
        if not glance.leaking and glance.leak.severity in (Severity.CRITICAL, Severity.HIGH)
    ]
    results += [
        _result(_UNKNOWN, "note", f"{glance.unknown}.", glance.section.target, "")
        for glance in seen
        if glance.assessment.gap and (glance.section.attacks or glance.section.skipped)
    ]
    results += [
        _result(_CHECK, "error", f"{row.check}: {row.reason}", row.target, row.check)
        for row in checks
        if row.failed
    ]
    meanings = {str(verdict): (verdict.meaning, level) for verdict, level in LEVELS.items()}
    meanings[_LEAK] = (_LEAK_MEANING, "warning")
    meanings[_UNKNOWN] = (_UNKNOWN_MEANING, "note")
    if checks:
        meanings[_CHECK] = (_CHECK_MEANING, "error")
    index = {name: position for position, name in enumerate(meanings)}
    driver = {
        "name": "fedrec-auditor",
        "version": say.legal(record.provenance.versions.get("fedrec-auditor", "unknown")),
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": meaning},
                "defaultConfiguration": {"level": level},
            }
            for name, (meaning, level) in meanings.items()
        ],
    }
    invocation: dict[str, Any] = {"executionSuccessful": not record.errors}
    if record.errors:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": _said(error)}} for error in record.errors
        ]
    file, line = place
    physical = {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": line}}
    for result in results:
        result["ruleIndex"] = index[result["ruleId"]]
        result["locations"][0]["physicalLocation"] = physical
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "invocations": [invocation], "results": results}],
    }
    return (json.dumps(log, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()


def _result(rule: str, level: str, message: str, target: str, identity: str) -> dict[str, Any]:
    """One result; ``identity`` says which of a target's it is from one audit to the next."""
    mark = hashlib.sha256(f"{rule}\n{target}\n{identity}".encode("utf-8", "replace")).hexdigest()
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": _said(message)},
        "locations": [
            {
                "logicalLocations": [{"fullyQualifiedName": say.legal(target), "kind": "module"}],
            }
        ],
        "partialFingerprints": {"audit/v1": mark},
    }


def _said(text: str) -> str:
    """Text as SARIF's messages take it: braces are placeholders there, ``[a](b)`` is a link."""
    return say.legal(text).replace("](", "] (").replace("{", "{{").replace("}", "}}")
