"""Gates and outputs where something was not assessed: it never passes, and is never called low."""

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
from fedrec_auditor.reports.record.leaks import DISTINGUISHER_FAMILY, Severity, find_leaks
from fedrec_auditor.reports.record.record import GateOutcome, Record
from fedrec_auditor.reports.record.rows import MessagesRow, SkippedRow
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers import ci, html, markdown, terminal
from tests.command import cli
from tests.reports.conftest import vary
from tests.reports.record.test_severity import judged, won

# How bad a claim is: 0 low, 1 medium, 2 high, 3 critical.
CLAIM = {
    Verdict.UNSOUND: 3,
    Verdict.VIOLATED: 2,
    Verdict.INCONCLUSIVE: 1,
    Verdict.UNSUBSTANTIATED: 1,
    Verdict.NO_CLAIM: 1,  # and nothing proved
    Verdict.CONSISTENT: 0,
    Verdict.INCOMPARABLE: 0,
    None: 0,
}
# Shares that an attack wins for a leak to be low, medium, high and critical.
WON = (0.0, 0.15, 0.3, 0.7)
BARS = {FailOn.MEDIUM: 1, FailOn.HIGH: 2, FailOn.CRITICAL: 3}
REFUTED = {FailOn.VIOLATED, FailOn.LEAK, FailOn.UNSUBSTANTIATED, FailOn.NO_CLAIM}
VERDICTS = {
    Verdict.VIOLATED: REFUTED,
    Verdict.UNSUBSTANTIATED: {FailOn.UNSUBSTANTIATED, FailOn.NO_CLAIM},
    Verdict.NO_CLAIM: {FailOn.NO_CLAIM},
}
TABLE = list(product(CLAIM, range(4), (True, False)))


def audited(
    record: Record, verdict: Verdict | None, leak: int = 0, *, assessed: bool = True, runs: int = 1
) -> Record:
    """One system whose leak is so bad; not assessed, as many attacks could not run as ran."""
    finding = judged(record, 1.0, None if verdict is Verdict.NO_CLAIM else 1.0, None)
    unread = SkippedRow(target="it", attack="linkage", reason="It reads nothing.")
    rows = {
        "findings": () if verdict is None else (vary(finding, verdict=verdict),),
        "attacks": (won(record, WON[leak]),) * runs,
        "skipped": () if assessed else (unread,),
    }
    return vary(record, utility=(), measurements=(), **rows)


@pytest.mark.parametrize("fail_on", list(FailOn))
def test_the_exit_code_of_every_verdict_leak_and_level(record: Record, fail_on: FailOn) -> None:
    for verdict, leak, assessed in TABLE:
        worst = max(CLAIM[verdict], leak, 3 * (verdict is Verdict.VIOLATED and leak >= 2))
        fails = fail_on in VERDICTS.get(verdict, ())
        fails |= fail_on in BARS and worst >= BARS[fail_on]
        fails |= fail_on is FailOn.LEAK and leak >= 1
        unknown = not assessed and (fail_on in BARS or fail_on is FailOn.LEAK)
        unknown |= verdict is Verdict.INCOMPARABLE and fail_on in BARS
        untested = verdict is Verdict.INCONCLUSIVE
        found = audited(record, verdict, leak, assessed=assessed)
        told = (verdict, leak, assessed)
        for allow, open_ in (((), unknown or untested), ((Exemption.NOT_ASSESSED,), untested)):
            code = 3 if verdict is Verdict.UNSOUND else 1 if fails else 3 if open_ else 0
            assert found.exit_code(Gate(fail_on, allow)) == code, (told, allow)


@pytest.mark.parametrize(("verdict", "leak", "assessed"), TABLE)
def test_no_output_calls_low_what_was_not_assessed(
    record: Record, verdict: Verdict | None, leak: int, assessed: bool
) -> None:
    found = audited(record, verdict, leak, assessed=assessed)
    (glance,) = summarize_systems(found)
    told = store.encode_record(found)
    gaps = json.loads(told)["severity"]["not_assessed"]
    results = json.loads(ci.render_sarif(found))["runs"][0]["results"]
    noted = any(each["ruleId"] == "NOT ASSESSED" for each in results)
    severity_text = glance.assessment.severity_text
    critical = severity_text == "Critical"
    expected = not critical and (not assessed or verdict is Verdict.INCOMPARABLE)
    assert (bool(gaps), noted) == (expected, expected)
    worse = " or worse" in severity_text or severity_text == "Not assessed"
    assert worse == expected
    if not assessed and leak == 0:
        assert (
            "leak (1 of 2 attacks could not run here)" in glance.assessment.unassessed_text
            or critical
        )
        assert glance.leak_assessment.severity_text == "Not assessed"
        assert glance.attack_result.startswith("the system was hardly tested: ")
        page = html.render_html(found)
        assert "Leak: not assessed" in page
        assert ">Low<" not in page
        assert "| Low |" not in markdown.render_markdown(found)
        assert "it: Low" not in glance.log_line


def test_low_is_said_where_it_was_assessed(record: Record) -> None:
    found = audited(record, Verdict.CONSISTENT)
    assert ">Low<" in html.render_html(found)
    assert "| Low |" in markdown.render_markdown(found)
    assert "it: Low" in summarize_systems(found)[0].log_line


def told(record: Record, gate: Gate) -> str:
    console = Console(file=StringIO(), width=200)
    terminal.print_gate(GateOutcome.evaluate_gate(record, gate), gate, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().strip()


def test_the_line_names_the_system_the_reason_and_the_way_out(record: Record) -> None:
    open_ = audited(record, Verdict.UNSUBSTANTIATED, assessed=False)
    line = "not assessed: it: leak (1 of 2 attacks could not run here)"
    for level in (FailOn.LEAK, FailOn.HIGH, FailOn.CRITICAL):
        assert told(open_, Gate(level)) == f"{line}. Exit 3; --allow not-assessed"
        assert f"{line}. Allowed" in told(open_, Gate(level, (Exemption.NOT_ASSESSED,)))
        suite = ci.render_junit(open_, Gate(level)).decode()
        assert 'type="NOT ASSESSED"' in suite
        allowing = Gate(level, (Exemption.NOT_ASSESSED,))
        assert "<error" not in ci.render_junit(open_, allowing).decode()
    assert told(open_, Gate(FailOn.MEDIUM)).startswith(
        "fails: it: Medium or worse; claim: unproved; leak: not assessed; "
    )
    assert "Exit 3" not in told(audited(record, Verdict.VIOLATED, assessed=False), Gate("leak"))


def test_no_leak_names_what_was_tried_and_what_was_not(record: Record) -> None:
    row = won(record, 0.0)
    other = vary(row, attack="attribute-bayes")
    found = audited(record, Verdict.CONSISTENT, assessed=False)
    found = vary(found, attacks=(row, other))
    text = told(found, Gate(FailOn.LEAK))
    said = f"{row.attack}, attribute-bayes. Attacks that could not run on it: linkage."
    assert said in " ".join(text.split())


def rows_of(found: Record, names: Iterable[str], family: str) -> Record:
    row = found.attacks[0]
    rows = tuple(vary(row, attack=name, family=family) for name in names)
    return vary(found, attacks=rows)


def test_an_epsilon_of_a_game_and_attacks_that_find_little_assess_no_leak(record: Record) -> None:
    """Nor do messages of which most could not be read."""
    found = audited(record, Verdict.CONSISTENT)
    assert summarize_systems(found)[0].assessment.unassessed_text == ""
    shown = judged(record, 1.0, 1.0, 0.5, game="local game over 36 items")
    nobody = vary(found, findings=(shown,), attacks=())
    assert summarize_systems(nobody)[0].assessment.unassessed_text == "leak (no attack ran)"
    mild = rows_of(found, ["verify"], DISTINGUISHER_FAMILY)
    assert summarize_systems(mild)[0].assessment.unassessed_text == "leak (only verify ran)"
    alone = vary(found.attacks[0], baseline=None)
    assert summarize_systems(vary(found, attacks=(alone,)))[0].assessment.unassessed_text
    empty = MessagesRow(target="it", sent=600, empty=500, oversized=69)
    broken = vary(found, messages=(empty,))
    gap_text = summarize_systems(broken)[0].assessment.unassessed_text
    assert "(569 of 600 messages reveal nothing)" in gap_text
    for each in (nobody, mild, broken):
        assert each.exit_code(Gate(FailOn.CRITICAL)) == 3


def test_a_comparison_is_no_pass_of_what_was_not_assessed(record: Record, tmp_path: Path) -> None:
    known = audited(record, Verdict.CONSISTENT)
    unknown = audited(record, Verdict.CONSISTENT, assessed=False)
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
        kept = level in BARS or level is FailOn.LEAK
        assert unknown.exit_code(Gate(level), unknown) == (3 if kept else 0)
        assert unknown.exit_code(Gate(level, (Exemption.NOT_ASSESSED,)), known) == 0
        assert known.exit_code(Gate(level), unknown) == 0


@pytest.mark.parametrize("level", [each for each in FailOn if each is not FailOn.NEVER])
def test_a_refuted_randomizer_fails_at_every_level_of_severity(level: FailOn) -> None:
    assert Gate(level.level_without_severities).exit_code([Verdict.VIOLATED]) == 1
    assert Gate(level.level_without_severities).exit_code([Verdict.INCONCLUSIVE]) == 3


FITS = jsonschema.Draft4Validator(
    json.loads(Path(__file__).with_name("sarif-2.1.0-schema.json").read_text())
)


def check(log: dict[str, Any]) -> None:
    """Hold a log to the schema, and its results to their rule and one place."""
    assert [error.message for error in FITS.iter_errors(log)] == []
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


def read(record: Record, gate: Gate | None = None) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(ci.render_sarif(record, gate or Gate()))
    check(log)
    return log


def exposed(record: Record) -> list[str]:
    """The systems of which a large epsilon is shown, and no attack beat guessing."""
    worst = (Severity.CRITICAL, Severity.HIGH)
    seen = [each for each in summarize_systems(record) if each.leak_assessment.severity in worst]
    return [each.section.target for each in seen if not each.leaks]


@pytest.mark.parametrize(("verdict", "level"), [*ci.SARIF_LEVEL_BY_VERDICT.items()])
def test_each_verdict_has_its_level(record: Record, verdict: Verdict, level: str) -> None:
    finding = vary(record.findings[0], verdict=verdict)
    only = vary(record, findings=(finding,), attacks=())
    apart = ("LEAK", "NOT ASSESSED")
    (result,) = (r for r in read(only)["runs"][0]["results"] if r["ruleId"] not in apart)
    assert (result["ruleId"], result["level"]) == (verdict, level)


def test_what_was_not_completed_is_no_success(record: Record) -> None:
    failed = vary(record, errors=("no {memory} [left](here)",))
    (invocation,) = read(failed)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (told,) = invocation["toolExecutionNotifications"]
    assert told["message"]["text"] == "no {{memory}} [left] (here)"
    assert read(record)["runs"][0]["invocations"] == [{"executionSuccessful": True}]


def test_a_result_keeps_its_fingerprint_when_the_figure_moves(record: Record) -> None:
    def marks(one: Record) -> set[str]:
        results = read(one)["runs"][0]["results"]
        return {r["partialFingerprints"]["audit/v1"] for r in results if r["ruleId"] == "LEAK"}

    moved = tuple(vary(row, value=row.value - 1e-3) for row in record.attacks)
    assert marks(record) == marks(vary(record, attacks=moved))
    assert len(marks(record)) == len(find_leaks(record)) + len(exposed(record))
