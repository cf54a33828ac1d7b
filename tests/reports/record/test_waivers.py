"""Waivers change the exit code until they expire, and never a verdict."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import FailOn, Gate, Verdict
from fedrec_auditor.auditor.plan.waivers import read_waivers
from fedrec_auditor.reports.record.record import GateOutcome, Record
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.record.waivers import describe_waivers, get_waiver_text
from fedrec_auditor.reports.writers import ci, html, markdown
from tests.command import cli
from tests.reports.conftest import sample, vary

TABLE = '[[waiver]]\ntarget = "{}"\nresult = "{}"\nreason = "Known"\nowner = "Ada"\nexpires = {}\n'


def get_refuted(record: Record) -> Finding:
    return next(each for each in record.findings if each.verdict is Verdict.VIOLATED)


def test_a_waived_claim_passes_until_the_waiver_expires(record: Record, tmp_path: Path) -> None:
    finding, path = get_refuted(record), tmp_path / "waivers.toml"
    path.write_text(TABLE.format(finding.target, finding.scope, "2026-06-30"))
    last, after = (read_waivers(path, day) for day in (date(2026, 6, 30), date(2026, 7, 1)))
    gate, late = Gate(FailOn.VIOLATED, (), 0.05, *last), Gate(FailOn.VIOLATED, (), 0.05, *after)
    proved = vary(record, findings=tuple(f for f in record.findings if f is not finding))
    for each, codes in ((record, [1, 0, 1]), (proved, [0, 0, 1])):
        assert [each.exit_code(gate_) for gate_ in (Gate(), gate, late)] == codes
    assert proved.exit_code(Gate(FailOn.NEVER, expired_waivers=late.expired_waivers)) == 0
    assert "of Ada expired on 2026-06-30" in describe_waivers(proved, late)[0]
    assert 'type="WAIVER"' in ci.render_junit(proved, late).decode()
    assert ["not used" in describe_waivers(r, gate)[0] for r in (record, proved)] == [0, 1]
    assert record.exit_code(Gate(waivers={("fcf", str(finding.scope)): "of another"})) == 1
    assert get_waiver_text(finding, gate)
    assert not get_waiver_text(vary(finding, verdict=Verdict.UNSOUND), gate)


def test_waived_attacks_are_not_leaks_and_others_remain(record: Record) -> None:
    def list_leaks(gate: Gate) -> set[tuple[str, str]]:
        failing = GateOutcome.evaluate_gate(record, gate).failing_systems
        return {(leak.row.target, leak.row.attack) for each in failing for leak in each.leaks}

    leaks = list_leaks(Gate(FailOn.LEAK))
    assert len(leaks) > 1
    first, *others = leaks
    waivers = dict.fromkeys(others, "of all others")
    assert list_leaks(Gate(FailOn.LEAK, waivers=waivers)) == {first}
    assert not list_leaks(Gate(FailOn.LEAK, waivers=waivers | {first: "of it"}))


def test_reports_show_waivers_and_keep_verdicts(record: Record) -> None:
    finding = get_refuted(record)
    gate = Gate(waivers={(finding.target, str(finding.scope)): "Known to Ada"})
    for render in (html.render_html, markdown.render_markdown):
        assert "Known to Ada" not in render(record)
        assert "Known to Ada" in render(record, gate)
        assert render(record, gate).count("false") == render(record).count("false")
    results = json.loads(ci.render_sarif(record, gate))["runs"][0]["results"]
    assert [r["ruleId"] for r in results if "suppressions" in r] == ["VIOLATED"]
    assert len(results) == len(json.loads(ci.render_sarif(record))["runs"][0]["results"])
    suite = ci.render_junit(record, gate).decode()
    assert 'failures="0"' in suite
    assert '<skipped message="Known to Ada"' in suite


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TABLE.format("a", "", "2026-06-30"), "got waiver.0.result: String should have"),
        (TABLE.format("a", "b", '"soon"'), "got waiver.0.expires: "),
        (TABLE.format("a", "b", "2026-06-30\nwho = 1"), "got waiver.0.who: Extra"),
        ("other = 1", "got other"),
    ],
)
def test_invalid_waiver_files_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=expected):
        read_waivers(path, date(2026, 6, 30))


def test_commands_apply_waivers(tmp_path: Path) -> None:
    finding, path = get_refuted(sample()), tmp_path / "waivers.toml"
    now, before = sample().save(tmp_path / "now"), tmp_path / "before"
    rest = tuple(f for f in sample().findings if f.verdict is not Verdict.VIOLATED)
    vary(sample(), findings=rest).save(before)
    claim = finding.target, finding.scope
    mechanism = "bit-flip", "report / any pair / server / report"
    for words, names in (
        (("compare", before, now), claim),
        (("report", now, "--baseline", before), claim),
        (("verify", "bit-flip", "--set", "p=0.9", "--set", "q=0.1", "--epsilon", "1"), mechanism),
    ):
        assert cli(*words)[0] == 1
        path.write_text(TABLE.format(*names, "9999-06-30"))
        code, out, _ = cli(*words, "--waivers", path)
        assert (code, "the waiver of Ada" in " ".join(out.split())) == (0, True)
        path.write_text(TABLE.format(*names, "2001-06-30"))
        assert cli(*words, "--waivers", path)[0] == 1
