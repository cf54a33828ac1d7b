"""Leaks: the correction is held to exact limits, and the gate to what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import FailOn, Gate
from fedrec_auditor.reports.leaks import comparable, corrected_low, leak_line, leaks, widening
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import AttackRow

ROWS = (1, 2, 10, 54, 1000)


def row(record: Record, **changes: object) -> AttackRow:
    return record.attacks[0].model_copy(update=changes)


def exact_low(successes: int, n: int, failing: float) -> float:
    """The Clopper-Pearson lower limit that is above the truth with probability ``failing``."""
    return float(stats.beta.ppf(failing, successes, n - successes + 1)) if successes else 0.0


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("n", [20, 500, 20_000])
def test_the_corrected_limit_is_no_higher_than_the_exact_one(
    record: Record, n: int, rows: int
) -> None:
    for share in (0.02, 0.1, 0.5, 0.7, 0.98, 1.0):
        successes = max(1, round(share * n))
        value = successes / n
        one = row(record, value=value, ci_low=exact_low(successes, n, 0.025), confidence=0.95)
        assert corrected_low(one, rows) <= exact_low(successes, n, 0.025 / rows) + 1e-12


@pytest.mark.parametrize("rows", ROWS)
def test_the_corrected_limit_is_no_higher_than_a_normal_one(rows: int) -> None:
    for confidence in (0.8, 0.95, 0.999):
        failing = (1 - confidence) / 2
        normal = stats.norm.isf(failing / rows) / stats.norm.isf(failing)
        assert widening(confidence, rows) >= normal - 1e-12
    assert widening(0.95, 1) == widening(1.0, rows) == 1.0


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
    assert [leak.excess for leak in found] == sorted((k.excess for k in found), reverse=True)
    assert all(leak.rows == len(record.attacks) for leak in found)
    line = leak_line(record, found, 0.05)
    assert line.startswith("Worst leak: fcf: membership (server) reaches AUC 1, at least 0.9")
    assert "corrected for 8 rows, where 0.5 is guessed" in line
    assert "fmf-ldp" not in {leak.row.target for leak in found}


def test_a_row_needs_a_baseline_and_finite_numbers(record: Record) -> None:
    rows = (
        row(record, baseline=None, value=1.0, ci_low=1.0),
        row(record, baseline=0.1, value=math.inf, ci_low=1.0),
        row(record, baseline=0.1, value=1.0, ci_low=-math.inf),
    )
    none = record.model_copy(update={"attacks": rows})
    assert comparable(none) == leaks(none) == ()
    assert leak_line(none, (), 0.05).startswith("No leak: of 0 attack rows")


def test_the_margin_decides(record: Record) -> None:
    one = row(record, value=0.6, ci_low=0.6, baseline=0.5)
    only = record.model_copy(update={"attacks": (one,)})
    assert leaks(only, 0.09)
    assert not leaks(only, 0.11)


@pytest.mark.parametrize("margin", [-0.1, 1.0, math.nan])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(InputError, match="leak margin"):
        Gate(FailOn.LEAK, leak_margin=margin)
