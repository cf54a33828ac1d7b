"""Renders the record of an audit for continuous integration: SARIF 2.1.0 (OASIS) and JUnit XML.

A SARIF result concerns a system, so it has a logical location. The result also has a physical
location (the record or the tested code), which GitHub requires. JUnit elements follow the schema
that Jenkins publishes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from fedrec_auditor.accountants import verdict as verdicts
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate, Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import Severity, find_leaks
from fedrec_auditor.reports.record.rows import CheckRow, Contents, Finding
from fedrec_auditor.reports.record.waivers import drop_waived, get_waiver_text
from fedrec_auditor.reports.say.links import find_rule_address
from fedrec_auditor.reports.say.summary import select_by_gate, summarize_systems

# Address of the JSON schema of SARIF files.
SARIF_SCHEMA_URL = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# SARIF level of each verdict; other verdicts give no result.
SARIF_LEVEL_BY_VERDICT = {
    Verdict.UNSOUND: "error",
    Verdict.VIOLATED: "error",
    Verdict.UNSUBSTANTIATED: "note",
    Verdict.INCONCLUSIVE: "note",
}
_LEAK, _CHECK, _UNKNOWN = "LEAK", "CHECK", "NOT ASSESSED"
# Rules of SARIF in their order, with the level of their results and their meaning.
_RULES = {
    **{str(word): (level, word.definition) for word, level in SARIF_LEVEL_BY_VERDICT.items()},
    _LEAK: ("warning", say.fill_text("rule", _LEAK)),
    _UNKNOWN: ("note", say.fill_text("rule", _UNKNOWN)),
    _CHECK: ("error", say.fill_text("rule", _CHECK)),
}


@dataclass(frozen=True, slots=True)
class _Result:
    """A result of SARIF, or a test case of JUnit."""

    # rule: rule that the result breaks; empty if none.
    # target: name of the system.
    # name: name that identifies the result among those of the system, the same in every audit.
    # message: text for the reader.
    # kind: JUnit element (failure, error or skipped); empty if the test case passes.
    # out: output of the test case.
    # waiver: the sentence of the waiver for the result; empty without one.

    rule: str
    target: str
    name: str
    message: str
    kind: str = ""
    out: str = ""
    waiver: str = ""


def render_sarif(
    record: Contents,
    gate: Gate = DEFAULT_GATE,
    checks: Sequence[CheckRow] = (),
    place: tuple[str, int] = ("report.json", 1),
) -> bytes:
    """Renders the record of an audit as SARIF 2.1.0.

    record: the record.
    gate: rule for failing CI, which sets the smallest advantage over guessing that counts as a
        leak.
    checks: results of checks of properties that epsilon does not express, such as a shared seed.
    place: path of the file to which results refer, and a line in it.

    Refuted claims and failed checks are errors, leaks are warnings. Undecided claims and systems
    that were not assessed are notes.
    """
    file, line = place
    physical = {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": line}}
    rules = [name for name in _RULES if checks or name != _CHECK]
    version = record.provenance.versions.get("fedrec-auditor", "unknown")
    driver = {
        "name": "fedrec-auditor",
        "version": say.replace_unsafe_chars(version),
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": _RULES[name][1]},
                "defaultConfiguration": {"level": _RULES[name][0]},
                **({"helpUri": address} if (address := find_rule_address(name)) else {}),
            }
            for name in rules
        ],
    }
    results = [
        {
            "ruleId": result.rule,
            "ruleIndex": rules.index(result.rule),
            "level": _RULES[result.rule][0],
            "message": {"text": _escape_text(result.message)},
            "locations": [
                {"logicalLocations": [_make_location(result.target)], "physicalLocation": physical}
            ],
            "partialFingerprints": {"audit/v1": _hash_result(result)},
            **({"suppressions": [_make_suppression(result.waiver)]} if result.waiver else {}),
        }
        for result in _list_results(record, gate, checks)
    ]
    invocation: dict[str, Any] = {"executionSuccessful": not record.errors}
    if record.errors:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": _escape_text(error)}} for error in record.errors
        ]
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    log = {"$schema": SARIF_SCHEMA_URL, "version": "2.1.0", "runs": [run]}
    return (json.dumps(log, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()


def _list_results(record: Contents, gate: Gate, checks: Sequence[CheckRow]) -> Iterator[_Result]:
    """Yields the SARIF results: everything that breaks a rule, whether or not the gate fails it."""
    for finding in record.findings:
        if finding.verdict in SARIF_LEVEL_BY_VERDICT:
            claim, scope, verdict = finding.claim, finding.scope, str(finding.verdict)
            name = f"{claim.epsilon} {claim.delta} {claim.scope} {scope} {finding.delta}"
            epsilon = say.format_number(claim.epsilon)
            message = f"{verdict}: epsilon {epsilon} for {scope}: {finding.reason}"
            name, waiver = f"{name} {finding.game}", get_waiver_text(finding, gate)
            yield _Result(verdict, finding.target, name, message, waiver=waiver)
    for leak in find_leaks(record, gate.leak_margin):
        row = leak.row
        name = f"{row.attack} {row.vantage} {row.metric}"
        yield _Result(_LEAK, row.target, name, f"{leak.clause}.", waiver=get_waiver_text(row, gate))
    summaries = summarize_systems(record, gate.leak_margin)
    for glance in summaries:
        severity = glance.leak_assessment.severity
        if not glance.leaks and severity in (Severity.CRITICAL, Severity.HIGH):
            yield _Result(_LEAK, glance.section.target, "epsilon shown", f"{glance.severity_line}.")
    for glance in summaries:
        if glance.assessment.unassessed_text and (glance.section.attacks or glance.section.skipped):
            yield _Result(_UNKNOWN, glance.section.target, "", f"{glance.gap_and_attack_line}.")
    for check in checks:
        if check.failed:
            yield _Result(_CHECK, check.target, check.check, f"{check.check}: {check.reason}")


def _make_location(target: str) -> dict[str, str]:
    return {"fullyQualifiedName": say.replace_unsafe_chars(target), "kind": "module"}


def _make_suppression(waiver: str) -> dict[str, str]:
    return {"kind": "external", "justification": _escape_text(waiver)}


def _hash_result(result: _Result) -> str:
    identity = "\n".join((result.rule, result.target, result.name))
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()


def _escape_text(text: str) -> str:
    """Escapes ``text`` for a SARIF message, in which braces and ``[a](b)`` have a meaning."""
    return say.replace_unsafe_chars(text).replace("](", "] (").replace("{", "{{").replace("}", "}}")


def render_junit(
    record: Contents, gate: Gate = DEFAULT_GATE, checks: Sequence[CheckRow] = ()
) -> bytes:
    """Renders the record of an audit as JUnit XML, with a test case for each of ``checks``.

    The outcomes of test cases by ``gate`` (the rule for failing CI) are:

    - failure: a finding (judged claim) that ``gate`` fails, or whose claim is refuted; an expired
      waiver; a failed check. With ``--fail-on leak``: each leak, and each system whose leak has
      severity medium or worse. With ``--fail-on`` and a severity: each system of at least this
      severity.
    - error: the verdicts UNSOUND and INCONCLUSIVE; errors of the audit; a system that was not
      assessed.
    - skipped: waived findings; the verdict NO CLAIM; INCONCLUSIVE and systems that were not
      assessed, if the gate allows them; checks that did not run.
    """
    suite = ET.Element("testsuite", name="privacy audit")
    properties = ET.SubElement(suite, "properties")
    for name, value in _list_properties(record):
        fields = {"name": say.replace_unsafe_chars(name), "value": say.replace_unsafe_chars(value)}
        ET.SubElement(properties, "property", fields)
    kinds: Counter[str] = Counter()
    names: Counter[tuple[str, str]] = Counter()
    for case_row in _list_cases(record, gate, checks):
        kinds[case_row.kind] += 1
        names[case_row.target, case_row.name] += 1
        count = names[case_row.target, case_row.name]
        name = f"{case_row.name} #{count}" if count > 1 else case_row.name
        system = say.replace_unsafe_chars(case_row.target)
        fields = {"classname": system, "name": say.replace_unsafe_chars(name), "time": "0"}
        case = ET.SubElement(suite, "testcase", fields)
        if case_row.kind:
            attributes = {"type": case_row.rule} if case_row.rule else {}
            attributes["message"] = say.replace_unsafe_chars(case_row.message)
            outcome = ET.SubElement(case, case_row.kind, attributes)
            outcome.text = attributes["message"] if case_row.rule == "INCOMPLETE" else None
        if case_row.out:
            ET.SubElement(case, "system-out").text = say.replace_unsafe_chars(case_row.out)
    totals = {"tests": kinds.total(), "failures": kinds["failure"], "errors": kinds["error"]}
    root = ET.Element("testsuites", {key: str(count) for key, count in totals.items()})
    suite.attrib |= root.attrib | {"skipped": str(kinds["skipped"]), "time": "0"}
    root.append(suite)
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _list_cases(record: Contents, gate: Gate, checks: Sequence[CheckRow]) -> Iterator[_Result]:
    """Yields the JUnit test cases: everything that was examined, with its outcome by the gate."""
    for finding in record.findings:
        code, verdict, kind = gate.exit_code([finding.verdict]), finding.verdict, ""
        if code or verdict is Verdict.VIOLATED:
            kind = "error" if code == verdicts.INCOMPLETE else "failure"
        elif verdict in (Verdict.NO_CLAIM, Verdict.INCONCLUSIVE):
            kind = "skipped"
        waiver = get_waiver_text(finding, gate)
        kind = "skipped" if waiver else kind
        rule = "" if kind == "skipped" else str(verdict)
        name = f"epsilon {say.format_number(finding.claim.epsilon)} [{finding.scope}]"
        message = waiver or f"{verdict}: {finding.reason}"
        yield _Result(rule, finding.target, name, message, kind, "\n".join(_describe(finding)))
    kinds = {True: "failure", None: "skipped", False: ""}
    for row in checks:
        rule = _CHECK if row.failed else ""
        yield _Result(rule, row.target, row.check, row.reason, kinds[row.failed])
    for line in gate.expired_waivers:
        yield _Result("WAIVER", "waivers", line.partition(":")[0], line, "failure")
    record = drop_waived(record, gate)
    if gate.fail_on is verdicts.FailOn.LEAK:
        for leak in find_leaks(record, gate.leak_margin):
            name = f"{leak.row.attack} ({leak.row.vantage}): {leak.row.metric}"
            yield _Result(_LEAK, leak.row.target, name, leak.clause, "failure")
    failing, unknown = select_by_gate(record, gate)
    name = f"severity: {gate.fail_on}"
    for glance in failing:
        yield _Result("SEVERITY", glance.section.target, name, glance.severity_line, "failure")
    kind = "skipped" if gate.allows(verdicts.Exemption.NOT_ASSESSED) else "error"
    for glance in unknown:
        yield _Result(_UNKNOWN, glance.section.target, name, glance.gap_and_attack_line, kind)
    for position, error in enumerate(record.errors, 1):
        yield _Result("INCOMPLETE", "audit", f"completed {position}", error, "error")


def _describe(finding: Finding) -> Iterator[str]:
    flag = say.label_vacuous_claim(finding)
    yield f"{finding.verdict}{flag and f' ({flag})'}: {finding.reason}"
    yield f"Claim: {finding.claim.statement} ({finding.claim.source})"
    yield say.describe_claimed_guess(finding.claim)
    yield f"Upper bound: {say.make_proved_quantity(finding)}"
    yield f"Lower bound: {say.make_shown_quantity(finding)}"


def _list_properties(record: Contents) -> Iterator[tuple[str, str]]:
    provenance, data = record.provenance, record.provenance.data
    yield "seed", str(provenance.seed)
    if data is not None:
        yield from (("data", data.name), ("data.digest", data.digest))
    for name, text in sorted(provenance.versions.items()):
        yield f"version.{name}", text
