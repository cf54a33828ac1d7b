"""What got worse, and what did not, between two records."""

from __future__ import annotations

import pytest

from fedrec_auditor.accountants.verdict import FailOn, Gate, Verdict
from fedrec_auditor.reports.comparison import Comparison
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import AttackRow, Finding


def of(record: Record, baseline: Record, fail_on: str = "violated") -> Comparison:
    return Comparison.of(record, baseline, Gate(FailOn(fail_on)))


def with_rows(record: Record, *rows: AttackRow) -> Record:
    return record.model_copy(update={"attacks": rows})


def with_findings(record: Record, *findings: Finding) -> Record:
    return record.model_copy(update={"findings": findings})


@pytest.mark.parametrize("fail_on", list(FailOn))
def test_nothing_got_worse_than_itself(record: Record, fail_on: FailOn) -> None:
    assert of(record, record, fail_on) == Comparison((), ())


def test_a_verdict_that_got_worse_is_told_and_a_better_one_is_not(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    unproved = Finding.of(proved.target, proved.claim, proved.scope, delta=proved.delta)
    now, before = with_findings(record, unproved), with_findings(record, proved)
    (line,) = of(now, before).worse
    assert line.startswith(f"{proved.target}: UNSUBSTANTIATED for epsilon")
    assert line.endswith("was CONSISTENT.")
    assert of(before, now).worse == ()
    assert of(now, before, "never").worse == ()


def test_a_new_violation_is_worse_and_a_lost_one_is_told(record: Record) -> None:
    refuted = next(f for f in record.findings if f.verdict is Verdict.VIOLATED)
    rest = [f for f in record.findings if f is not refuted]
    fewer = with_findings(record, *rest)
    (line,) = of(record, fewer).worse
    assert "VIOLATED" in line
    assert line.endswith("not in the baseline.")
    back = of(fewer, record)
    assert back.worse == ()
    assert "1 findings" in back.uncertain[0]


def test_a_new_finding_is_worse_at_the_level_that_fails_it(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    unproved = Finding.of(proved.target, proved.claim, proved.scope, delta=proved.delta)
    now, before = with_findings(record, unproved), with_findings(record)
    assert of(now, before).worse == ()
    assert len(of(now, before, "unsubstantiated").worse) == 1


@pytest.mark.parametrize(
    ("value", "worse"),
    [(0.64, False), (0.60, False), (0.75, True)],
    ids=["within both intervals", "lower", "beyond both"],
)
def test_a_leak_got_worse_beyond_both_intervals(record: Record, value: float, worse: bool) -> None:
    def row(value: float) -> AttackRow:
        return record.attacks[1].model_copy(
            update={"value": value, "ci_low": value - 0.03, "ci_high": value + 0.03}
        )

    found = of(with_rows(record, row(value)), with_rows(record, row(0.62))).worse
    assert bool(found) is worse
    assert all("was 0.62 [0.59, 0.65]" in line for line in found)


def test_a_rise_to_no_more_than_guessing_is_no_leak(record: Record) -> None:
    def row(value: float) -> AttackRow:
        return record.attacks[1].model_copy(
            update={"value": value, "ci_low": value, "ci_high": value}
        )

    assert of(with_rows(record, row(0.5)), with_rows(record, row(0.3))).worse == ()


def test_a_new_leak_counts_at_the_level_of_leaks(record: Record) -> None:
    none = with_rows(record)
    assert of(record, none).worse == ()
    assert len(of(record, none, "leak").worse) > 1


def test_other_data_and_lost_rows_are_told(record: Record) -> None:
    other = record.provenance.model_copy(update={"data": None})
    found = of(with_rows(record), record.model_copy(update={"provenance": other}))
    assert found.worse == ()
    assert "other data" in found.uncertain[0]
    assert "8 attack rows" in found.uncertain[1]
