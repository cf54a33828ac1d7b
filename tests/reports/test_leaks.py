"""Leaks: the correction is held to exact limits, and the gate to what it says."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import FailOn, Gate
from fedrec_auditor.reports.leaks import (
    above_guessing,
    comparable,
    corrected_high,
    corrected_low,
    leak_line,
    leaks,
    left_open,
)
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import AttackRow, FurtherFigure

ROWS = (1, 2, 10, 54, 1000)


def row(record: Record, **changes: object) -> AttackRow:
    return record.attacks[0].model_copy(update=changes)


def exact_low(successes: int, n: int, failing: float) -> float:
    """The Clopper-Pearson lower limit that is above the truth with probability ``failing``."""
    return float(stats.beta.ppf(failing, successes, n - successes + 1)) if successes else 0.0


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("n", [20, 500, 20_000])
def test_corrected_limits_of_a_share_are_the_exact_ones(record: Record, n: int, rows: int) -> None:
    for share in (0.02, 0.1, 0.5, 0.7, 0.98, 1.0):
        k = max(1, round(share * n))
        low, high = exact_low(k, n, 0.025), 1 - exact_low(n - k, n, 0.025)
        one = row(record, value=k / n, ci_low=low, ci_high=high, confidence=0.95)
        exact = exact_low(k, n, 0.025 / rows), 1 - exact_low(n - k, n, 0.025 / rows)
        found = corrected_low(one, rows), corrected_high(one, rows)
        assert found == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("rows", ROWS)
def test_of_many_subjects_they_are_normal_ones_whatever_the_scale(
    record: Record, rows: int
) -> None:
    wider = stats.norm.isf(0.025 / rows) / stats.norm.isf(0.025)
    for value in (-0.4, 0.6):
        half = 1e-3
        ends = {"ci_low": value - half, "ci_high": value + half, "confidence": 0.95}
        one = row(record, value=value, baseline=0.5, **ends)
        found = corrected_low(one, rows), corrected_high(one, rows)
        assert found == pytest.approx((value - wider * half, value + wider * half), abs=1e-5)


@pytest.mark.calibration
def test_luck_of_many_rows_is_no_leak(record: Record) -> None:
    """Coins in 50 rows of 100: some rows' own limits are above one half, no corrected one is.

    At most 1 in 40 records may have a false leak; here the margin is none, the worst case.
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
                ci_low=exact_low(int(x), 100, 0.025),
                baseline=0.5,
            )
            for i, x in enumerate(heads)
        )
        plain += any(one.ci_low > 0.5 for one in rows)
        false += bool(leaks(record.model_copy(update={"attacks": rows}), 0.0))
    assert plain > records / 2
    assert stats.binomtest(false, records, 0.025, alternative="greater").pvalue > 0.001


def test_the_worst_leak_is_first_and_named(record: Record) -> None:
    found = leaks(record)
    assert found[0].row.target == "fcf"
    assert found[0].row.value == 1.0
    assert [leak.share for leak in found] == sorted((k.share for k in found), reverse=True)
    tried = Counter(one.target for one in record.attacks)
    assert all(leak.rows == tried[leak.row.target] for leak in found)
    line = leak_line(record, 0.05)
    assert line.startswith("Worst leak: fcf: membership (server) reaches AUC 1, at least 0.9")
    assert f"corrected for {tried['fcf']} rows of the system), where 0.5 is guessed" in line
    assert "fmf-ldp" not in {leak.row.target for leak in found}


def test_a_row_needs_a_baseline_and_finite_numbers(record: Record) -> None:
    rows = (
        row(record, baseline=None, value=1.0, ci_low=1.0),
        row(record, baseline=0.1, value=math.inf, ci_low=1.0),
        row(record, baseline=0.1, value=1.0, ci_low=-math.inf),
    )
    none = record.model_copy(update={"attacks": rows})
    assert comparable(none) == leaks(none) == ()
    assert leak_line(none, 0.05).startswith("No leak found: of 0 attack rows")


@pytest.mark.parametrize(("baseline", "bar"), [(0.0, 0.05), (0.5, 0.525), (0.8, 0.81)])
def test_the_margin_is_a_share_of_what_guessing_leaves_open(
    record: Record, baseline: float, bar: float
) -> None:
    """Above it a leak, below it little, and what is not above guessing is neither."""
    kinds = []
    for value in (bar + 1e-4, bar - 1e-4, baseline):
        one = row(record, value=value, ci_low=value, baseline=baseline)
        only = record.model_copy(update={"attacks": (one,)})
        kinds.append([leak.little for leak in above_guessing(only, 0.05)])
        assert leaks(only, 0.0) == above_guessing(only, 0.0)
    assert kinds == [[False], [True], []]


def test_a_verdict_does_not_depend_on_other_systems(record: Record) -> None:
    """A thousand other rows of another system change nothing; of its own they do."""
    one = row(record, target="it", value=0.6, ci_low=0.55, baseline=0.5)
    luck = row(record, value=0.5, ci_low=0.4, ci_high=0.6, baseline=0.5)
    few, many = (luck.model_copy(update={"target": name}) for name in ("other", "it"))

    def found(*rows: AttackRow) -> list[float]:
        every = above_guessing(record.model_copy(update={"attacks": rows}))
        return [leak.low for leak in every if leak.row.target == "it"]

    assert found(one) == found(one, *[few] * 1000) != []
    assert found(one, *[many] * 1000) == []


def test_what_surely_beats_guessing_makes_no_other_row_less_sure(record: Record) -> None:
    """Holm's step: rows that are rejected do not count against the rest."""
    sure = [row(record, metric=str(i), value=1.0, ci_low=0.99, baseline=0.5) for i in range(30)]
    one = row(record, value=0.6, ci_low=0.53, baseline=0.5)  # not above .5 at .025 / 31 alone
    assert corrected_low(one, 31) < 0.5 < corrected_low(one, 1)
    found = above_guessing(record.model_copy(update={"attacks": (*sure, one)}))
    assert len(found) == 31
    assert all(leak.low >= leak.baseline for leak in found)


def test_a_gain_of_the_same_users_decides_where_there_is_one(record: Record) -> None:
    """Also how far the row may be above guessing where it does not decide."""
    wide = {"value": 0.8, "ci_low": 0.7, "ci_high": 0.9, "baseline": 0.77}
    gain = FurtherFigure(value=0.03, ci_low=0.02, ci_high=0.04)
    none = FurtherFigure(value=0.0, ci_low=-0.01, ci_high=0.01)
    one, same = row(record, gain=gain, **wide), row(record, gain=none, **wide)
    for paired, count in ((one, 1), (same, 0), (row(record, **wide), 0)):
        found = above_guessing(record.model_copy(update={"attacks": (paired,)}))
        assert len(found) == count
    (leak,) = leaks(record.model_copy(update={"attacks": (one,)}))
    assert leak.low == pytest.approx(0.79)
    assert left_open([same]) == (
        "of these attacks, not of others, an advantage of up to 0.01 is not ruled out"
    )


@pytest.mark.parametrize("margin", [-0.1, 1.0, math.nan])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(InputError, match="leak margin"):
        Gate(FailOn.LEAK, leak_margin=margin)
