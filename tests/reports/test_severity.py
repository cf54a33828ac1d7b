"""The rule of severity, case by case; and that what is called a leak is no luck."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.reports.glance import Glance, glances
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import AttackRow, Finding, SkippedRow
from fedrec_auditor.reports.severity import Severity
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
        (1.0, 1.0, 1.0, None, Severity.LOW),
        (1.0, None, None, None, Severity.MEDIUM),  # unproved
        (9.0, 9.0, None, None, Severity.MEDIUM),  # vacuous
        (math.inf, math.inf, None, None, Severity.MEDIUM),  # no claim
        (math.inf, 1.0, None, None, Severity.LOW),  # no claim, but a proof
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
    assert seen(record, judged(record, 1.0, 1.0, None)).leak_severity is None
    assert seen(record, None, won(record, 0.0)).severity is Severity.LOW


def test_a_distinguisher_and_a_bound_under_an_assumption_do_not_count(record: Record) -> None:
    """What it wins on worst inputs is the epsilon again; an assumption may be wrong."""
    upheld = judged(record, 1.0, 1.0, 1.0)
    assert seen(record, upheld, won(record, 0.9, "distinguisher")).severity is Severity.MEDIUM
    assert upheld.measured is not None
    assumed = replace(upheld.measured, epsilon=9.0, assumptions=("luck",))
    doubtful = upheld.model_copy(update={"measured": assumed})
    assert seen(record, doubtful).leak_severity is None


def test_noise_is_no_leak_whatever_its_largest_figure(record: Record) -> None:
    rows = [won(record, 0.3).model_copy(update={"ci_low": 0.51}) for _ in range(30)]
    glance = seen(record, judged(record, 1.0, 1.0, None), *rows)
    assert (glance.severity, glance.leaking) == (Severity.LOW, ())
    assert glance.got == "no attack beat guessing (0 of 30 figures)"


def test_what_could_not_be_tried_is_said_where_nothing_was_found(record: Record) -> None:
    """An attack that ran from one vantage, and not from another, did run."""
    row = won(record, 0.3).model_copy(update={"ci_low": 0.3})
    names = (row.attack, "linkage", "linkage")
    skipped = tuple(SkippedRow(target=row.target, attack=name, reason="no") for name in names)
    glance = seen(record, judged(record, 1.0, 1.0, None), row, skipped=skipped)
    assert glance.section.unplayed == ("linkage",)
    assert glance.got == "no attack beat guessing (0 of 1 figure; 1 attack could not run)"
