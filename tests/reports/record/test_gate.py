"""Gates and outputs: a system that was not assessed never passes and is never labelled low."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from fedrec_auditor.accountants.verdict import Exemption, FailOn, Gate, Verdict
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.leaks import DISTINGUISHER, Severity, find_leaks
from fedrec_auditor.reports.record.record import GateOutcome, Record
from fedrec_auditor.reports.record.rows import MessagesRow, SkippedRow
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers import ci, html, markdown, terminal
from tests.command import cli
from tests.reports.conftest import vary
from tests.reports.record.test_severity import judge, win

# Severity of a claim: 0 low, 1 medium, 2 high, 3 critical.
CLAIM = {
    Verdict.UNSOUND: 3,
    Verdict.VIOLATED: 2,
    Verdict.INCONCLUSIVE: 1,
    Verdict.UNSUBSTANTIATED: 1,
    Verdict.NO_CLAIM: 1,  # without a proof
    Verdict.CONSISTENT: 0,
    Verdict.INCOMPARABLE: 0,
    None: 0,
}
# Advantages of an attack for a leak of severity low, medium, high and critical.
ADVANTAGES = (0.0, 0.15, 0.3, 0.7)
MIN_SEVERITY = {FailOn.MEDIUM: 1, FailOn.HIGH: 2, FailOn.CRITICAL: 3}
REFUTED = {FailOn.VIOLATED, FailOn.LEAK, FailOn.UNSUBSTANTIATED, FailOn.NO_CLAIM}
VERDICTS = {
    Verdict.VIOLATED: REFUTED,
    Verdict.UNSUBSTANTIATED: {FailOn.UNSUBSTANTIATED, FailOn.NO_CLAIM},
    Verdict.NO_CLAIM: {FailOn.NO_CLAIM},
}
CASES = list(product(CLAIM, range(4), (True, False)))


def audit(
    record: Record, verdict: Verdict | None, leak: int = 0, *, assessed: bool = True, runs: int = 1
) -> Record:
    """A system with a leak of this severity; if not assessed, half of its attacks could not run."""
    finding = judge(record, 1.0, None if verdict is Verdict.NO_CLAIM else 1.0, None)
    unread = SkippedRow(target="it", attack="linkage", reason="It reads nothing.")
    rows = {
        "findings": () if verdict is None else (vary(finding, verdict=verdict),),
        "attacks": (win(record, ADVANTAGES[leak]),) * runs,
        "skipped": () if assessed else (unread,),
    }
    return vary(record, utility=(), measurements=(), **rows)


@pytest.mark.parametrize("fail_on", list(FailOn))
def test_the_exit_code_of_every_verdict_leak_and_level(record: Record, fail_on: FailOn) -> None:
    for verdict, leak, assessed in CASES:
        worst = max(CLAIM[verdict], leak, 3 * (verdict is Verdict.VIOLATED and leak >= 2))
        fails = fail_on in VERDICTS.get(verdict, ())
        fails |= fail_on in MIN_SEVERITY and worst >= MIN_SEVERITY[fail_on]
        fails |= fail_on is FailOn.LEAK and leak >= 1
        unknown = not assessed and (fail_on in MIN_SEVERITY or fail_on is FailOn.LEAK)
        unknown |= verdict is Verdict.INCOMPARABLE and fail_on in MIN_SEVERITY
        untested = verdict is Verdict.INCONCLUSIVE
        result = audit(record, verdict, leak, assessed=assessed)
        case = (verdict, leak, assessed)
        for allow, open_ in (((), unknown or untested), ((Exemption.NOT_ASSESSED,), untested)):
            code = 3 if verdict is Verdict.UNSOUND else 1 if fails else 3 if open_ else 0
            assert result.exit_code(Gate(fail_on, allow)) == code, (case, allow)


@pytest.mark.parametrize(("verdict", "leak", "assessed"), CASES)
def test_no_output_labels_unassessed_systems_low(
    record: Record, verdict: Verdict | None, leak: int, assessed: bool
) -> None:
    result = audit(record, verdict, leak, assessed=assessed)
    (glance,) = summarize_systems(result)
    encoded = store.encode_record(result)
    gaps = json.loads(encoded)["severity"]["not_assessed"]
    results = json.loads(ci.render_sarif(result))["runs"][0]["results"]
    noted = any(each["ruleId"] == "NOT ASSESSED" for each in results)
    severity_text = glance.assessment.severity_text
    critical = severity_text == "Critical"
    expected = not critical and (not assessed or verdict is Verdict.INCOMPARABLE)
    assert (bool(gaps), noted) == (expected, expected)
    worse = " or worse" in severity_text or severity_text == "Not assessed"
    assert worse == expected
    if not assessed and leak == 0:
        gap = "leak (1 of 2 attacks could not run here)"
        assert gap in glance.assessment.unassessed_text or critical
        assert glance.leak_assessment.severity_text == "Not assessed"
        assert glance.attack_result.startswith("the system was hardly tested; ")
        page = html.render_html(result)
        assert "Leak: not assessed" in page
        assert ">Low<" not in page
        assert "| Low |" not in markdown.render_markdown(result)
        assert "it: Low" not in glance.log_line


def test_assessed_systems_are_labelled_low(record: Record) -> None:
    found = audit(record, Verdict.CONSISTENT)
    assert ">Low<" in html.render_html(found)
    assert "| Low |" in markdown.render_markdown(found)
    assert "it: Low" in summarize_systems(found)[0].log_line


def gate_line(record: Record, gate: Gate) -> str:
    console = Console(file=StringIO(), width=200)
    terminal.print_gate(GateOutcome.evaluate_gate(record, gate), gate, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().strip()


def test_the_line_names_the_system_the_reason_and_the_option(record: Record) -> None:
    open_ = audit(record, Verdict.UNSUBSTANTIATED, assessed=False)
    line = "not assessed: it: leak (1 of 2 attacks could not run here)"
    for level in (FailOn.LEAK, FailOn.HIGH, FailOn.CRITICAL):
        assert gate_line(open_, Gate(level)).startswith(f"{line}. Exit code 3; --allow not-as")
        assert f"{line}. Allowed" in gate_line(open_, Gate(level, (Exemption.NOT_ASSESSED,)))
        suite = ci.render_junit(open_, Gate(level)).decode()
        assert 'type="NOT ASSESSED"' in suite
        allowing = Gate(level, (Exemption.NOT_ASSESSED,))
        assert "<error" not in ci.render_junit(open_, allowing).decode()
    assert gate_line(open_, Gate(FailOn.MEDIUM)).startswith(
        "fails: it: Medium or worse; claim: unproved; leak: not assessed; "
    )
    assert "code 3" not in gate_line(audit(record, Verdict.VIOLATED, assessed=False), Gate("leak"))


def test_no_leak_names_tried_and_untried_attacks(record: Record) -> None:
    row = win(record, 0.0)
    other = vary(row, attack="attribute-bayes")
    found = audit(record, Verdict.CONSISTENT, assessed=False)
    found = vary(found, attacks=(row, other))
    text = gate_line(found, Gate(FailOn.LEAK))
    said = f"{row.attack}, attribute-bayes. Attacks that could not run on it: linkage."
    assert said in " ".join(text.split())


def with_attacks(found: Record, names: Iterable[str], family: str) -> Record:
    row = found.attacks[0]
    rows = tuple(vary(row, attack=name, family=family) for name in names)
    return vary(found, attacks=rows)


def test_games_and_distinguishers_do_not_assess_leaks(record: Record) -> None:
    """Systems are also unassessed if most messages could not be read."""
    found = audit(record, Verdict.CONSISTENT)
    assert summarize_systems(found)[0].assessment.unassessed_text == ""
    shown = judge(record, 1.0, 1.0, 0.5, game="local game over 36 items")
    nobody = vary(found, findings=(shown,), attacks=())
    assert summarize_systems(nobody)[0].assessment.unassessed_text == "leak (no attack ran)"
    mild = with_attacks(found, ["verify"], DISTINGUISHER)
    assert summarize_systems(mild)[0].assessment.unassessed_text == "leak (only verify ran)"
    alone = vary(found.attacks[0], baseline=None)
    assert summarize_systems(vary(found, attacks=(alone,)))[0].assessment.unassessed_text
    empty = MessagesRow(target="it", sent=600, empty=500, oversized=69)
    broken = vary(found, messages=(empty,))
    gap_text = summarize_systems(broken)[0].assessment.unassessed_text
    assert "(569 of 600 messages reveal nothing)" in gap_text
    for each in (nobody, mild, broken):
        assert each.exit_code(Gate(FailOn.CRITICAL)) == 3


def test_comparisons_do_not_pass_unassessed_systems(record: Record, tmp_path: Path) -> None:
    known = audit(record, Verdict.CONSISTENT)
    unknown = audit(record, Verdict.CONSISTENT, assessed=False)
    before, now = known.save(tmp_path / "a"), unknown.save(tmp_path / "b")
    assert cli("compare", before, before)[0] == 0
    for earlier in (before, now):
        code, text, _ = cli("compare", earlier, now)
        assert code == 3
        assert "not assessed: it: leak (1 of 2 attacks could not run here)" in text
        assert "Nothing is worse in the parts that could be compared." in text
        assert cli("compare", earlier, now, "--allow", "not-assessed")[0] == 0
    for level in FailOn:
        lost = unknown.exit_code(Gate(level), known)
        assert lost == (0 if level is FailOn.NEVER else 3)
        kept = level in MIN_SEVERITY or level is FailOn.LEAK
        assert unknown.exit_code(Gate(level), unknown) == (3 if kept else 0)
        assert unknown.exit_code(Gate(level, (Exemption.NOT_ASSESSED,)), known) == 0
        assert known.exit_code(Gate(level), unknown) == 0


@pytest.mark.parametrize("level", [each for each in FailOn if each is not FailOn.NEVER])
def test_a_refuted_randomizer_fails_at_every_level_of_severity(level: FailOn) -> None:
    assert Gate(level.without_severities).exit_code([Verdict.VIOLATED]) == 1
    assert Gate(level.without_severities).exit_code([Verdict.INCONCLUSIVE]) == 3


SCHEMA = jsonschema.Draft4Validator(
    json.loads(Path(__file__).with_name("sarif-2.1.0-schema.json").read_text())
)


def check_sarif(log: dict[str, Any]) -> None:
    """Asserts that a log satisfies the schema, and each result its rule and one location."""
    assert [error.message for error in SCHEMA.iter_errors(log)] == []
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        level = rule["defaultConfiguration"]["level"]
        assert (result["ruleId"], result["level"]) == (rule["id"], level)
        assert result["partialFingerprints"]
        (place,) = result["locations"]
        assert set(place) == {"logicalLocations", "physicalLocation"}


def read_sarif(record: Record, gate: Gate | None = None) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(ci.render_sarif(record, gate or Gate()))
    check_sarif(log)
    return log


def list_exposed(record: Record) -> list[str]:
    """Systems with a large shown epsilon and no attack that beats guessing."""
    worst = (Severity.CRITICAL, Severity.HIGH)
    seen = [each for each in summarize_systems(record) if each.leak_assessment.severity in worst]
    return [each.section.target for each in seen if not each.leaks]


@pytest.mark.parametrize(("verdict", "level"), [*ci.SARIF_LEVEL_BY_VERDICT.items()])
def test_each_verdict_has_its_sarif_level(record: Record, verdict: Verdict, level: str) -> None:
    finding = vary(record.findings[0], verdict=verdict)
    only = vary(record, findings=(finding,), attacks=())
    apart = ("LEAK", "NOT ASSESSED")
    (result,) = (r for r in read_sarif(only)["runs"][0]["results"] if r["ruleId"] not in apart)
    assert (result["ruleId"], result["level"]) == (verdict, level)


def test_incomplete_audits_are_not_successful_in_sarif(record: Record) -> None:
    failed = vary(record, errors=("no {memory} [left](here)",))
    (invocation,) = read_sarif(failed)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (gate_line,) = invocation["toolExecutionNotifications"]
    assert gate_line["message"]["text"] == "no {{memory}} [left] (here)"
    assert read_sarif(record)["runs"][0]["invocations"] == [{"executionSuccessful": True}]


def test_fingerprints_do_not_depend_on_values(record: Record) -> None:
    def list_fingerprints(one: Record) -> set[str]:
        results = read_sarif(one)["runs"][0]["results"]
        return {r["partialFingerprints"]["audit/v1"] for r in results if r["ruleId"] == "LEAK"}

    moved = tuple(vary(row, value=row.value - 1e-3) for row in record.attacks)
    assert list_fingerprints(record) == list_fingerprints(vary(record, attacks=moved))
    assert len(list_fingerprints(record)) == len(find_leaks(record)) + len(list_exposed(record))
