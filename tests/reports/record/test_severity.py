"""Leaks respect exact limits and do not arise by chance; the severity rule, case by case."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Claim
from fedrec_auditor.accountants.verdict import FailOn, Gate
from fedrec_auditor.reports.record import leaks
from fedrec_auditor.reports.record.leaks import Severity
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import AttackRow, Finding, FurtherFigure, SkippedRow
from fedrec_auditor.reports.say import format_ceil
from fedrec_auditor.reports.say.summary import Summary, summarize_systems
from fedrec_auditor.reports.writers import ci
from tests.reports.conftest import finding, lower, scope, upper, vary

USER = scope("user", "training")


def judge(
    record: Record, claimed: float, proved: float | None, shown: float | None, **more: object
) -> Finding:
    """A finding about all data of a user, with these claimed, proved and shown epsilons."""
    claim = Claim(epsilon=claimed, scope=USER, statement="s", source="s")
    measured = None if shown is None else lower(shown, USER, "exact")
    accounted = None if proved is None else upper(proved, USER, "a proof")
    return vary(finding("it", claim, USER, accounted, measured), **more)


def win(record: Record, value: float, family: str = "membership inference") -> AttackRow:
    """An attack of one row with advantage ``value`` over a fair coin, without uncertainty."""
    row = vary(record.attacks[1], target="it", family=family)
    rate = 0.5 + value / 2
    return vary(row, value=rate, ci_low=rate, ci_high=rate, baseline=0.5)


def assess(
    record: Record, one: Finding | None, *attacks: AttackRow, skipped: tuple[SkippedRow, ...] = ()
) -> Summary:
    """The summary of a system with this finding and these attacks."""
    rows = {"findings": () if one is None else (one,), "attacks": attacks, "utility": ()}
    (glance,) = summarize_systems(vary(record, **rows, skipped=skipped, measurements=()))
    return glance


@pytest.mark.parametrize(
    ("claimed", "proved", "shown", "attack", "expected"),
    [
        (1.0, 1.0, 1.0, None, Severity.NOT_ASSESSED),  # a game without an attack
        (1.0, 1.0, 1.0, 0.0, Severity.LOW),
        (1.0, None, None, None, Severity.MEDIUM),  # unproved
        (9.0, 9.0, None, None, Severity.MEDIUM),  # vacuous
        (math.inf, math.inf, None, None, Severity.MEDIUM),  # no claim
        (math.inf, 1.0, None, 0.0, Severity.LOW),  # no claim, but a proof
        (1.0, None, 1.5, None, Severity.HIGH),  # refuted
        (1.0, None, 7.0, None, Severity.CRITICAL),  # refuted, and a bit is revealed
        (1.0, None, 1.5, 0.3, Severity.CRITICAL),
        (3.0, 3.0, 2.3, None, Severity.MEDIUM),  # a bit is guessed with probability 90%
        (1.0, 1.0, None, 0.15, Severity.MEDIUM),
        (1.0, 1.0, None, 0.3, Severity.HIGH),
        (1.0, 1.0, None, 0.7, Severity.CRITICAL),
        (math.inf, math.inf, math.inf, None, Severity.HIGH),
        (math.inf, math.inf, math.inf, 0.9, Severity.CRITICAL),
    ],
)
def test_severity_by_claim_proof_bound_and_attack(
    record: Record,
    claimed: float,
    proved: float | None,
    shown: float | None,
    attack: float | None,
    expected: Severity,
) -> None:
    rows = () if attack is None else (win(record, attack),)
    assert assess(record, judge(record, claimed, proved, shown), *rows).severity is expected


def test_contradictions_are_critical_and_untested_leaks_unassessed(record: Record) -> None:
    assert assess(record, judge(record, 5.0, 1.0, 2.0)).severity is Severity.CRITICAL
    glance = assess(record, judge(record, 1.0, 1.0, None))
    assert glance.leak_assessment.severity is Severity.NOT_ASSESSED
    assert assess(record, None, win(record, 0.0)).severity is Severity.LOW


def test_unassessed_systems_are_not_low(record: Record) -> None:
    """Systems are unassessed if most attacks could not run and the others found nothing."""
    one = SkippedRow(target="it", attack="a", reason="It reads nothing.")
    unread = (one, vary(one, attack="b"))
    assert assess(record, None, skipped=unread).severity is Severity.NOT_ASSESSED
    assert assess(record, None, win(record, 0.0), skipped=unread).severity is Severity.NOT_ASSESSED
    assert assess(record, None, win(record, 0.3), skipped=unread).severity is Severity.HIGH
    upheld, open_ = (judge(record, 1.0, proof, None) for proof in (1.0, None))
    assert assess(record, upheld, skipped=unread).severity is Severity.NOT_ASSESSED
    assert assess(record, open_, skipped=unread).assessment.severity_text == "Medium or worse"
    assert assess(record, open_, skipped=unread).leak_assessment.severity_text == "Not assessed"
    some = assess(record, upheld, win(record, 0.15), skipped=unread)
    assert some.severity is Severity.MEDIUM
    assert some.leak_assessment.severity_text == "Medium or worse"


@pytest.mark.parametrize(
    ("level", "claimed", "measured", "code"),
    [
        (FailOn.LEAK, math.inf, math.inf, 1),  # no attack has an advantage: the epsilon is the leak
        (FailOn.LEAK, 3.0, 2.3, 1),
        (FailOn.LEAK, 1.0, 0.5, 3),  # a game's epsilon does not assess a leak
        (FailOn.LEAK, 1.0, None, 3),
        (FailOn.CRITICAL, math.inf, math.inf, 3),
        (FailOn.HIGH, math.inf, math.inf, 1),
        (FailOn.MEDIUM, math.inf, None, 1),  # neither a claim nor a proof
        (FailOn.MEDIUM, None, None, 3),
        (FailOn.NEVER, math.inf, math.inf, 0),
    ],
)
def test_gates_follow_the_printed_severity(
    record: Record, level: FailOn, claimed: float | None, measured: float | None, code: int
) -> None:
    proved = claimed if claimed is not None and math.isfinite(claimed) else None
    one = () if claimed is None else (judge(record, claimed, proved, measured),)
    skipped = (SkippedRow(target="it", attack="a", reason="It reads nothing."),)
    rows = {"findings": one, "attacks": (), "utility": (), "measurements": (), "skipped": skipped}
    judged_record, gate = vary(record, **rows), Gate(level)
    assert judged_record.exit_code(gate) == code
    suite = ci.render_junit(judged_record, gate).decode()
    assert ('type="SEVERITY"' in suite) == (code == 1)
    assert ('type="NOT ASSESSED"' in suite) == (code == 3)
    results = json.loads(ci.render_sarif(judged_record, gate))["runs"][0]["results"]
    assert any(result["ruleId"] == "LEAK" for result in results) == (measured == math.inf)


def test_distinguishers_and_assumed_bounds_do_not_count(record: Record) -> None:
    """A distinguisher on worst inputs repeats the epsilon; an assumption may be wrong."""
    upheld = judge(record, 1.0, 1.0, 1.0)
    distinguisher = win(record, 0.9, leaks.DISTINGUISHER)
    assert assess(record, upheld, distinguisher).severity is Severity.MEDIUM
    assumed = replace(upheld.measured, epsilon=9.0, assumptions=("luck",))
    doubtful = vary(upheld, measured=assumed)
    assert assess(record, doubtful).leak_assessment.known_severity is Severity.LOW


def test_each_kind_of_read_data_is_listed_once(record: Record) -> None:
    row = win(record, 0.8)
    names = ("gender macro F1 (nobody known)", "gender read for certain", "age_group macro F1")
    attributes = [vary(row, family="attribute inference", metric=name) for name in names]
    links, of = vary(row, family="linkage", metric="linkage top-1"), "interactions"
    got = assess(record, None, row, *attributes, links).attack_result
    said = f"users' age group, users' {of} and who sent which message better than guessing"
    assert got.endswith(said)


def test_noise_is_not_a_leak_whatever_its_largest_value(record: Record) -> None:
    rows = [vary(win(record, 0.3), ci_low=0.51) for _ in range(300)]
    glance = assess(record, judge(record, 1.0, 1.0, None), *rows)
    assert (glance.severity, glance.leaks) == (Severity.LOW, ())
    told = (
        "no attack is shown to beat guessing (300 results; the confidence intervals allow results "
        "up to 0.15 above guessing; other attacks may do better)"
    )
    assert glance.attack_result == told  # the interval ends at the figure, .65
    assert told[3:] in glance.log_line


def test_no_leak_states_the_largest_upper_limit(record: Record) -> None:
    """The limit above guessing is corrected for the number of the system's rows."""
    low = {"value": 0.4, "ci_low": 0.38, "ci_high": 0.42, "baseline": 0.5}
    wide = {"value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "baseline": 0.5}
    sure, open_ = (vary(win(record, 0.0), **row) for row in (low, wide))
    by = {"sure": assess(record, None, sure), "open": assess(record, None, sure, open_)}
    assert (
        "(1 result; the confidence intervals exclude that these attacks beat guessing; "
        "other attacks may do better)" in by["sure"].attack_result
    )
    limit = leaks.widen_ci_high(vary(win(record, 0.0), **wide), 2) - 0.5
    assert f"up to {format_ceil(limit)} above guessing; " in by["open"].attack_result
    assert by["open"].max_gain_text == leaks.describe_max_gain([sure, open_])


def test_attacks_that_could_not_run_are_counted(record: Record) -> None:
    """An attack that ran from one vantage counts as run."""
    row = vary(win(record, 0.3), ci_low=0.3)
    names = (row.attack, "linkage", "linkage")
    skipped = tuple(SkippedRow(target=row.target, attack=name, reason="no") for name in names)
    claimed = judge(record, 1.0, 1.0, None)
    glance = assess(record, claimed, row, skipped=skipped)
    assert glance.section.attacks_not_run == ("linkage",)
    assert glance.attack_result.startswith("the system was hardly tested; no attack is shown")
    second = vary(row, attack="interaction-reconstruction")
    glance = assess(record, claimed, row, second, skipped=skipped)
    assert glance.attack_result == (
        "no attack is shown to beat guessing (2 results; 1 attack could not run; "
        f"{glance.max_gain_text})"
    )


ROWS = (1, 2, 10, 54, 1000)


def row(record: Record, **changes: object) -> AttackRow:
    return vary(record.attacks[0], **changes)


def binomial_low(successes: int, n: int, failing: float) -> float:
    """The Clopper-Pearson lower limit, which exceeds the truth with probability ``failing``."""
    return float(stats.beta.ppf(failing, successes, n - successes + 1)) if successes else 0.0


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("n", [20, 500, 20_000])
def test_corrected_limits_of_a_share_are_exact(record: Record, n: int, rows: int) -> None:
    for share in (0.02, 0.1, 0.5, 0.7, 0.98, 1.0):
        k = max(1, round(share * n))
        low, high = binomial_low(k, n, 0.025), 1 - binomial_low(n - k, n, 0.025)
        one = row(record, value=k / n, ci_low=low, ci_high=high, confidence=0.95)
        exact = binomial_low(k, n, 0.025 / rows), 1 - binomial_low(n - k, n, 0.025 / rows)
        list_limits = leaks.widen_ci_low(one, rows), leaks.widen_ci_high(one, rows)
        assert list_limits == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("rows", ROWS)
def test_corrected_limits_for_many_subjects_are_normal_at_any_scale(
    record: Record, rows: int
) -> None:
    wider = stats.norm.isf(0.025 / rows) / stats.norm.isf(0.025)
    for value in (-0.4, 0.6):
        half = 1e-3
        ends = {"ci_low": value - half, "ci_high": value + half, "confidence": 0.95}
        one = row(record, value=value, baseline=0.5, **ends)
        list_limits = leaks.widen_ci_low(one, rows), leaks.widen_ci_high(one, rows)
        assert list_limits == pytest.approx((value - wider * half, value + wider * half), abs=1e-5)


@pytest.mark.calibration
def test_chance_in_many_rows_is_not_a_leak(record: Record) -> None:
    """Fair coins in 50 rows of 100: some rows' own limits are above one half, no corrected limit
        is.

    At most 1 in 40 records may have a false leak; the margin is zero, the worst case.
    """
    rng = np.random.default_rng(0)
    records, plain, false = 200, 0, 0
    for _ in range(records):
        heads = rng.binomial(100, 0.5, size=50)
        rows = tuple(
            row(
                record,
                metric=str(i),
                value=x / 100,
                ci_low=binomial_low(int(x), 100, 0.025),
                baseline=0.5,
            )
            for i, x in enumerate(heads)
        )
        plain += any(one.ci_low > 0.5 for one in rows)
        false += bool(leaks.find_leaks(vary(record, attacks=rows), 0.0))
    assert plain > records / 2
    assert stats.binomtest(false, records, 0.025, alternative="greater").pvalue > 0.001


def test_a_row_needs_a_baseline_and_finite_numbers(record: Record) -> None:
    rows = (
        row(record, baseline=None, value=1.0, ci_low=1.0),
        row(record, baseline=0.1, value=math.inf, ci_low=1.0),
        row(record, baseline=0.1, value=1.0, ci_low=-math.inf),
    )
    none = vary(record, attacks=rows)
    assert leaks.list_rows_with_baseline(none) == leaks.find_leaks(none) == ()
    text = leaks.describe_leaks(none, 0.05)
    assert text.startswith("No leak is shown: none of 0 comparable results")


@pytest.mark.parametrize(("baseline", "bar"), [(0.0, 0.05), (0.5, 0.525), (0.8, 0.81)])
def test_the_margin_is_a_share_of_one_minus_the_baseline(
    record: Record, baseline: float, bar: float
) -> None:
    """Rows above the margin are leaks, rows below it small leaks, rows at the baseline neither."""
    kinds = []
    for value in (bar + 1e-4, bar - 1e-4, baseline):
        one = row(record, value=value, ci_low=value, baseline=baseline)
        only = vary(record, attacks=(one,))
        kinds.append([leak.is_small for leak in leaks.rank_leaks(only, 0.05)])
        assert leaks.find_leaks(only, 0.0) == leaks.rank_leaks(only, 0.0)
    assert kinds == [[False], [True], []]


def test_a_verdict_does_not_depend_on_other_systems(record: Record) -> None:
    """A thousand rows change nothing if they are another system's, but do if they are its own."""
    one = row(record, target="it", value=0.6, ci_low=0.55, baseline=0.5)
    luck = row(record, value=0.5, ci_low=0.4, ci_high=0.6, baseline=0.5)
    few, many = (vary(luck, target=name) for name in ("other", "it"))

    def list_limits(*rows: AttackRow) -> list[float]:
        every = leaks.rank_leaks(vary(record, attacks=rows))
        return [leak.gain_lower_limit for leak in every if leak.row.target == "it"]

    assert list_limits(one) == list_limits(one, *[few] * 1000) != []
    assert list_limits(one, *[many] * 1000) == []


def test_rejected_rows_do_not_count_against_the_rest(record: Record) -> None:
    """Holm's step-down procedure over the rows of a system."""
    sure = [row(record, metric=str(i), value=1.0, ci_low=0.99, baseline=0.5) for i in range(30)]
    one = row(record, value=0.6, ci_low=0.53, baseline=0.5)  # not above .5 at .025 / 31
    assert leaks.widen_ci_low(one, 31) < 0.5 < leaks.widen_ci_low(one, 1)
    list_limits = leaks.rank_leaks(vary(record, attacks=(*sure, one)))
    assert len(list_limits) == 31
    assert all(leak.gain_lower_limit >= 0.0 for leak in list_limits)


def test_a_paired_gain_decides_if_there_is_one(record: Record) -> None:
    """Also how far the row may be above guessing where it does not decide."""
    wide = {"value": 0.8, "ci_low": 0.7, "ci_high": 0.9, "baseline": 0.77}
    gain = FurtherFigure(value=0.03, ci_low=0.02, ci_high=0.04)
    none = FurtherFigure(value=0.0, ci_low=-0.01, ci_high=0.01)
    one, same = row(record, gain=gain, **wide), row(record, gain=none, **wide)
    for paired, count in ((one, 1), (same, 0), (row(record, **wide), 0)):
        list_limits = leaks.rank_leaks(vary(record, attacks=(paired,)))
        assert len(list_limits) == count
    (leak,) = leaks.find_leaks(vary(record, attacks=(one,)))
    assert leak.gain_lower_limit == pytest.approx(0.02)
    assert leaks.describe_max_gain([same]) == (
        "the confidence intervals allow results up to 0.01 above guessing; other attacks may do "
        "better"
    )


@pytest.mark.parametrize("margin", [-0.1, 1.0, math.nan])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(InputError, match="leak_margin"):
        Gate(FailOn.LEAK, leak_margin=margin)
