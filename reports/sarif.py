"""report.sarif, as code scanning reads it: SARIF 2.1.0 (OASIS), one result a finding or a leak.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. A result is about a system, not a
line of a file: its place is a logical location. The physical one beside it, the record or the code
that was tested, is there because GitHub refuses results without one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
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
    file, line = place
    physical = {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": line}}
    meanings = {str(verdict): (verdict.meaning, level) for verdict, level in LEVELS.items()}
    meanings[_LEAK] = (_LEAK_MEANING, "warning")
    meanings[_UNKNOWN] = (_UNKNOWN_MEANING, "note")
    if checks:
        meanings[_CHECK] = (_CHECK_MEANING, "error")
    index = {name: position for position, name in enumerate(meanings)}
    results = [
        {
            "ruleId": rule,
            "ruleIndex": index[rule],
            "level": meanings[rule][1],
            "message": {"text": _said(message)},
            "locations": [
                {
                    "logicalLocations": [
                        {"fullyQualifiedName": say.legal(target), "kind": "module"}
                    ],
                    "physicalLocation": physical,
                }
            ],
            "partialFingerprints": {"audit/v1": _mark(rule, target, identity)},
        }
        for rule, target, message, identity in _results(record, gate, checks)
    ]
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
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "invocations": [invocation], "results": results}],
    }
    return (json.dumps(log, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()


def _results(
    record: Contents, gate: Gate, checks: Sequence[CheckRow]
) -> Iterator[tuple[str, str, str, str]]:
    """The rule, the target, the message and the identity of each result.

    The identity says which of a target's it is from one audit to the next.
    """
    for finding in record.findings:
        if finding.verdict in LEVELS:
            claim, verdict = finding.claim, str(finding.verdict)
            about = f"epsilon {say.number(claim.epsilon)} for {finding.scope}"
            yield (
                verdict,
                finding.target,
                f"{verdict}: {about}: {finding.reason}",
                f"{claim.epsilon} {claim.delta} {claim.scope} "
                f"{finding.scope} {finding.delta} {finding.game}",
            )
    for leak in leaks(record, gate.leak_margin):
        row = leak.row
        yield _LEAK, row.target, f"{leak.words}.", f"{row.attack} {row.vantage} {row.metric}"
    seen = glances(record, gate.leak_margin)
    for glance in seen:
        if not glance.leaking and glance.leak.severity in (Severity.CRITICAL, Severity.HIGH):
            yield _LEAK, glance.section.target, f"{glance.exposed}.", "epsilon shown"
    for glance in seen:
        if glance.assessment.gap and (glance.section.attacks or glance.section.skipped):
            yield _UNKNOWN, glance.section.target, f"{glance.unknown}.", ""
    for check in checks:
        if check.failed:
            yield _CHECK, check.target, f"{check.check}: {check.reason}", check.check


def _mark(*identity: str) -> str:
    return hashlib.sha256("\n".join(identity).encode("utf-8", "replace")).hexdigest()


def _said(text: str) -> str:
    """Text as SARIF's messages take it: braces are placeholders there, ``[a](b)`` is a link."""
    return say.legal(text).replace("](", "] (").replace("{", "{{").replace("}", "}}")
