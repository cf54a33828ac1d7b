"""junit.xml, as CI servers read it: a test case a finding, one a leak, one a thing that failed.

Element order follows the schema that Jenkins publishes: properties first; in a test case error or
failure comes before system-out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from fedrec_auditor.accountants.verdict import (
    DEFAULT_GATE,
    INCOMPLETE,
    NOT_ASSESSED,
    FailOn,
    Gate,
    Verdict,
)
from fedrec_auditor.reports import say
from fedrec_auditor.reports.glance import gated
from fedrec_auditor.reports.leaks import leaks
from fedrec_auditor.reports.rows import CheckRow, Contents, Finding


def render(record: Contents, gate: Gate = DEFAULT_GATE, checks: Sequence[CheckRow] = ()) -> bytes:
    """The record as JUnit XML, and a test case for each of ``checks``.

    A finding that ``gate`` fails is a failure, and so is VIOLATED at any level. One from which
    nothing follows, UNSOUND or INCONCLUSIVE, is an error, and so is whatever kept the audit from
    being completed. With ``--fail-on leak`` each leak is a failure, too, and at a level of
    severity or leaks each system that reaches it; one that was not assessed is an error. NO CLAIM,
    and what is allowed of INCONCLUSIVE and of not assessed, are skipped.
    """
    suite = ET.Element("testsuite", name="privacy audit")
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(record):
        ET.SubElement(properties, "property", name=say.legal(name), value=say.legal(value))
    seen: Counter[tuple[str, str]] = Counter()
    for target, name, kind, about, message, out in _cases(record, gate, checks):
        seen[target, name] += 1
        name += f" #{seen[target, name]}" if seen[target, name] > 1 else ""
        told = {"classname": say.legal(target), "name": say.legal(name), "time": "0"}
        case = ET.SubElement(suite, "testcase", told)
        if kind:
            told = {"type": about} if about else {}
            result = ET.SubElement(case, kind, told | {"message": say.legal(message)})
            result.text = say.legal(message) if about == "INCOMPLETE" else None
        if out:
            ET.SubElement(case, "system-out").text = say.legal(out)
    suite.set("tests", str(len(suite) - 1))  # all but the properties
    for key, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("time", "0")
    counted = ("tests", "failures", "errors")
    root = ET.Element("testsuites", {key: suite.attrib[key] for key in counted})
    root.append(suite)
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _cases(
    record: Contents, gate: Gate, checks: Sequence[CheckRow]
) -> Iterator[tuple[str, str, str, str, str, str]]:
    """The target, name, kind of result, its type and message, and the output of each case.

    A case that passes has no kind.
    """
    for finding in record.findings:
        code, verdict, kind = gate.code([finding.verdict]), finding.verdict, ""
        if code or verdict is Verdict.VIOLATED:
            kind = "error" if code == INCOMPLETE else "failure"
        elif verdict in (Verdict.NO_CLAIM, Verdict.INCONCLUSIVE):
            kind = "skipped"
        name = f"epsilon {say.number(finding.claim.epsilon)} [{finding.scope}]"
        about = "" if kind == "skipped" else str(verdict)
        message = f"{verdict}: {finding.reason}"
        yield finding.target, name, kind, about, message, "\n".join(_lines(finding))
    kinds = {True: ("failure", "CHECK"), None: ("skipped", ""), False: ("", "")}
    for row in checks:
        yield row.target, row.check, *kinds[row.failed], row.reason, ""
    if gate.fail_on is FailOn.LEAK:
        for leak in leaks(record, gate.leak_margin):
            name = f"{leak.row.attack} ({leak.row.vantage}): {leak.row.metric}"
            yield leak.row.target, name, "failure", "LEAK", leak.words, ""
    failing, unknown = gated(record, gate)
    name = f"severity: {gate.fail_on}"
    for glance in failing:
        yield glance.section.target, name, "failure", "SEVERITY", glance.exposed, ""
    missing = "skipped" if NOT_ASSESSED in gate.allow else "error"
    for glance in unknown:
        yield glance.section.target, name, missing, "NOT ASSESSED", glance.unknown, ""
    for position, error in enumerate(record.errors, 1):
        yield "audit", f"completed {position}", "error", "INCOMPLETE", error, ""


def _lines(finding: Finding) -> list[str]:
    flag = say.flag_words(finding)
    return [
        f"{finding.verdict}{flag and f' ({flag})'}: {finding.reason}",
        f"claim: {finding.claim.statement} ({finding.claim.source})",
        say.claimed_guess_words(finding.claim),
        f"proved: {say.proved(finding)}",
        f"shown: {say.measured(finding)}",
    ]


def _properties(record: Contents) -> list[tuple[str, str]]:
    provenance = record.provenance
    data = provenance.data
    return [
        ("seed", str(provenance.seed)),
        *(() if data is None else (("data", data.name), ("data.digest", data.digest))),
        *((f"version.{name}", text) for name, text in sorted(provenance.versions.items())),
    ]
