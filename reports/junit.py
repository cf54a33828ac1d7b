"""junit.xml, as CI servers read it: a test case a finding, one a leak, one a thing that failed.

Element order follows the schema that Jenkins publishes: properties first; in a test case error or
failure comes before system-out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
    for finding in record.findings:
        _case(suite, finding, gate, seen)
    for row in checks:
        case = _testcase(suite, row.target, _unused(seen, row.target, row.check))
        if row.failed:
            ET.SubElement(case, "failure", type="CHECK", message=say.legal(row.reason))
        elif row.failed is None:
            ET.SubElement(case, "skipped", message=say.legal(row.reason))
    if gate.fail_on is FailOn.LEAK:
        for leak in leaks(record, gate.leak_margin):
            name = f"{leak.row.attack} ({leak.row.vantage}): {leak.row.metric}"
            case = _testcase(suite, leak.row.target, _unused(seen, leak.row.target, name))
            ET.SubElement(case, "failure", type="LEAK", message=say.legal(leak.words))
    kinds = (("failure", "SEVERITY"), ("error", "NOT ASSESSED"))
    for (kind, word), systems in zip(kinds, gated(record, gate), strict=True):
        for glance in systems:
            target = glance.section.target
            case = _testcase(suite, target, _unused(seen, target, f"severity: {gate.fail_on}"))
            if kind == "error" and NOT_ASSESSED in gate.allow:
                kind = "skipped"
            message = glance.exposed if kind == "failure" else glance.unknown
            ET.SubElement(case, kind, type=word, message=say.legal(message))
    for position, message in enumerate(record.errors):
        case = _testcase(suite, "audit", f"completed {position + 1}")
        error = ET.SubElement(case, "error", type="INCOMPLETE", message=say.legal(message))
        error.text = say.legal(message)
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


def _case(suite: ET.Element, finding: Finding, gate: Gate, seen: Counter[tuple[str, str]]) -> None:
    name = f"epsilon {say.number(finding.claim.epsilon)} [{finding.scope}]"
    case = _testcase(suite, finding.target, _unused(seen, finding.target, name))
    message = f"{finding.verdict}: {finding.reason}"
    code = gate.code([finding.verdict])
    if code or finding.verdict is Verdict.VIOLATED:
        kind = "error" if code == INCOMPLETE else "failure"
        ET.SubElement(case, kind, type=finding.verdict, message=say.legal(message))
    elif finding.verdict in (Verdict.NO_CLAIM, Verdict.INCONCLUSIVE):
        ET.SubElement(case, "skipped", message=say.legal(message))
    ET.SubElement(case, "system-out").text = say.legal("\n".join(_lines(finding)))


def _unused(seen: Counter[tuple[str, str]], target: str, name: str) -> str:
    """``name``, numbered where the target has a case of this name."""
    seen[target, name] += 1
    return name if seen[target, name] == 1 else f"{name} #{seen[target, name]}"


def _testcase(suite: ET.Element, classname: str, name: str) -> ET.Element:
    return ET.SubElement(
        suite, "testcase", classname=say.legal(classname), name=say.legal(name), time="0"
    )


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
