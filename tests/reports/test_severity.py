"""The rule of severity, case by case; and that what is called a leak is no luck."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.verdict import FailOn, Gate
from fedrec_auditor.reports import junit, sarif
from fedrec_auditor.reports.glance import Glance, glances
from fedrec_auditor.reports.leaks import corrected_high, left_open
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import AttackRow, Finding, SkippedRow
from fedrec_auditor.reports.say import at_most
from fedrec_auditor.reports.severity import DISTINGUISHER, Severity
from tests.reports.conftest import finding, lower, scope, upper

USER = scope("user", "training")


def judged(
    record: Record, claimed: float, proved: float | None, shown: float | None, **more: object
) -> Finding:
    claim = Claim(epsilon=claimed, scope=USER, statement="s", source="s")
    measured = None if shown is None else lower(shown, USER, "exact")
    accounted = None if proved is None else upper(proved, USER, "a proof")
    return finding("it", claim, USER, accounted, measured).model_copy(update=more)


def won(record: Record, value: float, family: str = "membership inference") -> AttackRow:
    """An attack of one row that wins ``value`` of what a coin leaves open, without doubt."""
    row = record.attacks[1].model_copy(update={"target": "it", "family": family})
    rate = 0.5 + value / 2
    return row.model_copy(update={"value": rate, "ci_low": rate, "ci_high": rate, "baseline": 0.5})


def seen(
    record: Record,
    one: Finding | None,
    *attacks: AttackRow,
    skipped: tuple[SkippedRow, ...] = (),
) -> Glance:
    rows = {"findings": () if one is None else (one,), "attacks": attacks, "utility": ()}
    (glance,) = glances(record.model_copy(update={**rows, "skipped": skipped, "measurements": ()}))
    return glance


@pytest.mark.parametrize(
    ("claimed", "proved", "shown", "attack", "expected"),
    [
        (1.0, 1.0, 1.0, None, Severity.NOT_ASSESSED),  # a game, and no attack
        (1.0, 1.0, 1.0, 0.0, Severity.LOW),
        (1.0, None, None, None, Severity.MEDIUM),  # unproved
        (9.0, 9.0, None, None, Severity.MEDIUM),  # vacuous
        (math.inf, math.inf, None, None, Severity.MEDIUM),  # no claim
        (math.inf, 1.0, None, 0.0, Severity.LOW),  # no claim, but a proof
        (1.0, None, 1.5, None, Severity.HIGH),  # refuted
        (1.0, None, 7.0, None, Severity.CRITICAL),  # refuted, and a bit is guessed
        (1.0, None, 1.5, 0.3, Severity.CRITICAL),
        (3.0, 3.0, 2.3, None, Severity.MEDIUM),  # a bit is guessed 90% of the time
        (1.0, 1.0, None, 0.15, Severity.MEDIUM),
        (1.0, 1.0, None, 0.3, Severity.HIGH),
        (1.0, 1.0, None, 0.7, Severity.CRITICAL),
        (math.inf, math.inf, math.inf, None, Severity.HIGH),
        (math.inf, math.inf, math.inf, 0.9, Severity.CRITICAL),
    ],
)
def test_the_rule(
    record: Record,
    claimed: float,
    proved: float | None,
    shown: float | None,
    attack: float | None,
    expected: Severity,
) -> None:
    rows = () if attack is None else (won(record, attack),)
    assert seen(record, judged(record, claimed, proved, shown), *rows).severity is expected


def test_a_contradiction_is_critical_and_nobody_looking_is_no_leak(record: Record) -> None:
    assert seen(record, judged(record, 5.0, 1.0, 2.0)).severity is Severity.CRITICAL
    assert seen(record, judged(record, 1.0, 1.0, None)).leak.severity is Severity.NOT_ASSESSED
    assert seen(record, None, won(record, 0.0)).severity is Severity.LOW


def test_what_was_not_looked_at_is_not_low(record: Record) -> None:
    """Nor is what most attacks could not read, and the others found nothing in."""
    unread = tuple(
        SkippedRow(target="it", attack=name, reason="It reads nothing.") for name in ("a", "b")
    )
    assert seen(record, None, skipped=unread).severity is Severity.NOT_ASSESSED
    assert seen(record, None, won(record, 0.0), skipped=unread).severity is Severity.NOT_ASSESSED
    assert seen(record, None, won(record, 0.3), skipped=unread).severity is Severity.HIGH
    upheld, open_ = (judged(record, 1.0, proof, None) for proof in (1.0, None))
    assert seen(record, upheld, skipped=unread).severity is Severity.NOT_ASSESSED
    assert seen(record, open_, skipped=unread).assessment.words == "Medium or worse"
    assert seen(record, open_, skipped=unread).leak.words == "Not assessed"
    some = seen(record, upheld, won(record, 0.15), skipped=unread)
    assert (some.severity, some.leak.words) == (Severity.MEDIUM, "Medium or worse")


@pytest.mark.parametrize(
    ("level", "claimed", "shown", "code"),
    [
        (FailOn.LEAK, math.inf, math.inf, 1),  # no attack won a thing: the epsilon is the leak
        (FailOn.LEAK, 3.0, 2.3, 1),
        (FailOn.LEAK, 1.0, 0.5, 3),  # an epsilon of a game assesses no leak
        (FailOn.LEAK, 1.0, None, 3),
        (FailOn.CRITICAL, math.inf, math.inf, 3),
        (FailOn.HIGH, math.inf, math.inf, 1),
        (FailOn.MEDIUM, math.inf, None, 1),  # nothing is claimed, and nothing proved
        (FailOn.MEDIUM, None, None, 3),
        (FailOn.NEVER, math.inf, math.inf, 0),
    ],
)
def test_a_gate_follows_the_severity_that_is_printed(
    record: Record, level: FailOn, claimed: float | None, shown: float | None, code: int
) -> None:
    proved = claimed if claimed is not None and math.isfinite(claimed) else None
    one = () if claimed is None else (judged(record, claimed, proved, shown),)
    skipped = (SkippedRow(target="it", attack="a", reason="It reads nothing."),)
    rows = {"findings": one, "attacks": (), "utility": (), "measurements": (), "skipped": skipped}
    judged_record, gate = record.model_copy(update=rows), Gate(level)
    assert judged_record.exit_code(gate) == code
    suite = junit.render(judged_record, gate).decode()
    assert ('type="SEVERITY"' in suite) == (code == 1)
    assert ('type="NOT ASSESSED"' in suite) == (code == 3)
    results = json.loads(sarif.render(judged_record, gate))["runs"][0]["results"]
    assert any(result["ruleId"] == "LEAK" for result in results) == (shown == math.inf)


def test_a_distinguisher_and_a_bound_under_an_assumption_do_not_count(record: Record) -> None:
    """Worst inputs give the epsilon again; an assumption may be wrong."""
    upheld = judged(record, 1.0, 1.0, 1.0)
    assert seen(record, upheld, won(record, 0.9, DISTINGUISHER)).severity is Severity.MEDIUM
    assumed = replace(upheld.measured, epsilon=9.0, assumptions=("luck",))
    doubtful = upheld.model_copy(update={"measured": assumed})
    assert seen(record, doubtful).leak.level is Severity.LOW


def test_all_that_was_read_is_told_each_once(record: Record) -> None:
    row = won(record, 0.8)
    names = ("gender macro F1 (nobody known)", "gender read for certain", "age_group macro F1")
    attributes = [
        row.model_copy(update={"family": "attribute inference", "metric": name}) for name in names
    ]
    links = row.model_copy(update={"family": "linkage", "metric": "linkage top-1"})
    got = seen(record, None, row, *attributes, links).got
    assert got.endswith("; above guessing, too: age group, histories, who sent a message")


def test_noise_is_no_leak_whatever_its_largest_figure(record: Record) -> None:
    rows = [won(record, 0.3).model_copy(update={"ci_low": 0.51}) for _ in range(300)]
    glance = seen(record, judged(record, 1.0, 1.0, None), *rows)
    assert (glance.severity, glance.leaking) == (Severity.LOW, ())
    told = (
        "none of the attacks tried beat guessing (0 of 300 figures; of these attacks, not of "
        "others, an advantage of up to 0.15 is not ruled out)"
    )
    assert glance.got == told  # the interval ends at the figure, .65
    assert told[3:] in glance.line


def test_no_leak_says_what_the_intervals_leave_open(record: Record) -> None:
    """The largest upper limit above guessing, corrected for rows of the system."""
    low = {"value": 0.4, "ci_low": 0.38, "ci_high": 0.42, "baseline": 0.5}
    wide = {"value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "baseline": 0.5}
    sure, open_ = (won(record, 0.0).model_copy(update=row) for row in (low, wide))
    by = {"sure": seen(record, None, sure), "open": seen(record, None, sure, open_)}
    assert (
        "(0 of 1 figure; none of these attacks has an advantage; others may have one)"
        in by["sure"].got
    )
    most = corrected_high(won(record, 0.0).model_copy(update=wide), 2) - 0.5
    assert f"up to {at_most(most)} is" in by["open"].got
    assert by["open"].unseen == left_open([sure, open_])


def test_what_could_not_be_tried_is_said_where_nothing_was_found(record: Record) -> None:
    """An attack that ran from one vantage, and not from another, did run."""
    row = won(record, 0.3).model_copy(update={"ci_low": 0.3})
    names = (row.attack, "linkage", "linkage")
    skipped = tuple(SkippedRow(target=row.target, attack=name, reason="no") for name in names)
    claimed = judged(record, 1.0, 1.0, None)
    glance = seen(record, claimed, row, skipped=skipped)
    assert glance.section.unplayed == ("linkage",)
    assert glance.got.startswith("hardly tested: none of the attacks tried")
    second = row.model_copy(update={"attack": "interaction-reconstruction"})
    glance = seen(record, claimed, row, second, skipped=skipped)
    assert glance.got == (
        "none of the attacks tried beat guessing (0 of 2 figures; 1 attack could not run; of these "
        "attacks, not of others, an advantage of up to 0.15 is not ruled out)"
    )
