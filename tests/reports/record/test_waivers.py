"""Waivers change the exit code until they expire, and never a verdict."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import FailOn, Gate, Verdict
from fedrec_auditor.accountants.waivers import Waiver
from fedrec_auditor.auditor.plan.waivers import read_waivers
from fedrec_auditor.reports.record.record import GateOutcome, Record
from fedrec_auditor.reports.record.waivers import find_waiver
from fedrec_auditor.reports.writers import ci, html, markdown
from tests.command import cli
from tests.reports.conftest import sample, vary

TABLE = '[[waiver]]\n{}\nreason = "Mended in 2.0"\nowner = "Ada"\nexpires = 2026-06-30\n'
LAST, AFTER = date(2026, 6, 30), date(2026, 7, 1)
CLAIM = 'target = "dplcf-ap"\nresult = "interaction / replace / server / report"'


def waiver(today: date = LAST, **named: str) -> Waiver:
    return Waiver(reason="Known", owner="Ada", expires=LAST, is_expired=today > LAST, **{**named})


def refuted(record: Record) -> Any:
    return next(each for each in record.findings if each.verdict is Verdict.VIOLATED)


def test_a_waived_claim_passes_until_the_waiver_expires(record: Record) -> None:
    found = refuted(record)
    names = {"target": found.target, "result": str(found.scope)}
    gate, late = Gate(waivers=(waiver(**names),)), Gate(waivers=(waiver(AFTER, **names),))
    assert [record.exit_code(each) for each in (Gate(), gate, late)] == [1, 0, 1]
    proved = vary(record, findings=tuple(f for f in record.findings if f is not found))
    assert [proved.exit_code(each) for each in (Gate(), gate, late)] == [0, 0, 1]
    assert proved.exit_code(Gate(FailOn.NEVER, waivers=late.waivers)) == 0
    assert "expired on 2026-06-30" in GateOutcome.of(proved, late).waived[0]
    assert "not used" in GateOutcome.of(proved, gate).waived[0]
    assert "not used" not in GateOutcome.of(record, gate).waived[0]
    other = Gate(waivers=(waiver(target="fcf", result=names["result"]),))
    assert record.exit_code(other) == 1


def test_a_waived_attack_is_no_leak_and_another_remains(record: Record) -> None:
    gate = Gate(FailOn.LEAK)
    outcome = GateOutcome.of(record, gate)
    leaking = {(leak.row.target, leak.row.attack) for s in outcome.failing for leak in s.leaking}
    assert len(leaking) > 1
    waivers = tuple(waiver(target=target, result=attack) for target, attack in leaking)
    left = GateOutcome.of(record, Gate(FailOn.LEAK, waivers=waivers))
    assert not any(summary.leaking for summary in left.failing)
    some = GateOutcome.of(record, Gate(FailOn.LEAK, waivers=waivers[1:]))
    kept = {(leak.row.target, leak.row.attack) for s in some.failing for leak in s.leaking}
    assert kept == {(waivers[0].target, waivers[0].result)}


def test_a_contradiction_cannot_be_waived(record: Record) -> None:
    found = vary(refuted(record), verdict=Verdict.UNSOUND)
    gate = Gate(waivers=(waiver(target=found.target, result=str(found.scope)),))
    assert find_waiver(refuted(record), gate) is not None
    assert find_waiver(found, gate) is None


def test_every_report_shows_it_and_no_verdict_changes(record: Record) -> None:
    found = refuted(record)
    gate = Gate(waivers=(waiver(target=found.target, result=str(found.scope)),))
    said = "the waiver of Ada is valid until 2026-06-30 (Known)."
    for render in (html.render, markdown.render):
        assert said in render(record, gate)
        assert said not in render(record)
        assert render(record, gate).count("false") >= render(record).count("false")
    results = json.loads(ci.render_sarif(record, gate))["runs"][0]["results"]
    assert [r["ruleId"] for r in results if "suppressions" in r] == ["VIOLATED"]
    assert len(results) == len(json.loads(ci.render_sarif(record))["runs"][0]["results"])
    suite = ET.fromstring(ci.render_junit(record, gate))
    assert (suite.get("failures"), said in ET.tostring(suite, "unicode")) == ("0", True)


def test_a_file_of_waivers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(TABLE.format(CLAIM))
    assert [w.is_expired for day in (LAST, AFTER) for w in read_waivers(path, day)] == [False, True]
    assert read_waivers(None, LAST) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE.format('result = "b"'), "missing 1 .* 'target'"),
        (TABLE.format('target = "a"\natack = "b"'), "unexpected .* 'atack'"),
        (TABLE.format(CLAIM).replace("2026-06-30", '"soon"'), "a date such as"),
        (TABLE.format(CLAIM).replace('"Ada"', '""'), "Expected texts as target"),
        ("waiver = 1", "Expected only tables"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_waivers(path, LAST)


def test_commands_obey_it(tmp_path: Path) -> None:
    found, path = refuted(sample()), tmp_path / "waivers.toml"
    names = f'target = "{found.target}"\nresult = "{found.scope}"'
    path.write_text(TABLE.format(names).replace("2026", "9999"))
    now = sample().save(tmp_path / "now")
    before = vary(
        sample(), findings=tuple(f for f in sample().findings if f.verdict is not Verdict.VIOLATED)
    )
    before.save(tmp_path / "before")
    for words in (("compare", tmp_path / "before", now), ("report", now, "--baseline", "before")):
        given = [tmp_path / "before" if word == "before" else word for word in words]
        assert cli(*given)[0] == 1
        code, out, _ = cli(*given, "--waivers", path)
        assert (code, "waiver of Ada is valid" in " ".join(out.split())) == (0, True)
    words = ("verify", "bit-flip", "--set", "p=0.9", "--set", "q=0.1", "--epsilon", "1")
    scope = "report / any pair / server / report"
    path.write_text(
        TABLE.format(f'target = "bit-flip"\nresult = "{scope}"').replace("2026", "9999")
    )
    assert cli(*words)[0] == 1
    code, out, _ = cli(*words, "--waivers", path)
    assert (code, out.split(":")[0], "waiver of Ada is valid" in " ".join(out.split())) == (
        0,
        "False",
        True,
    )
