"""The remaining noise, against the covariance of all messages that the server sees."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import TwoRoundNoise, min_variance


def make_shares(
    n: int = 10, omega: float = 0.3, masked: int = 10, replaced: int = 10
) -> TwoRoundNoise:
    return TwoRoundNoise(n_users=n, omega=omega, masked=masked, replaced=replaced)


@st.composite
def runs(draw: st.DrawFn) -> TwoRoundNoise:
    n = draw(st.integers(2, 9))
    omega = draw(st.integers(5, 90)) / 100
    # Excludes rounding just above the minimum, where no noise can be removed.
    masked = draw(st.integers(math.floor((1 - omega) * n * (1 + 1e-9)) + 1, n))
    replaced = draw(st.integers(0, masked))
    return replace(
        make_shares(n, omega, masked, replaced),
        colluding=draw(st.integers(0, min(replaced, masked - 1))),
        announced=draw(st.one_of(st.none(), st.floats(1, 4).map(lambda lie: lie * masked))),
        repaired=draw(st.booleans()),
    )


def message_rows(run: TwoRoundNoise) -> np.ndarray:
    """Messages as rows: the sum, every message, colluders' draws; columns are unit normals.

    Survivors of round 1 have two draws each: (xi, xi') in the paper, (a, b) in the repaired
    protocol.
    """
    told = run.masked if run.announced is None else run.announced
    first, second = 1 / ((1 - run.omega) * run.n_users), 1 / told
    own, other = (second, first - second) if run.repaired else (first, second)
    draws = np.diag(np.sqrt(np.tile([own, other], run.masked)))
    one, two = draws[0::2], draws[1::2]
    xi, sent = (one + two, -two) if run.repaired else (one, two - one)
    rows = [xi.sum(axis=0), *sent[: run.replaced], *one[: run.colluding], *two[: run.colluding]]
    return np.array(rows)


def least_squares(rows: np.ndarray) -> float:
    """Variance of the best linear statistic of mean g, if only the first row has mean g."""
    rest = rows[1:].T
    if rest.shape[1] == 0:
        return float(rows[0] @ rows[0])
    known = rest @ np.linalg.lstsq(rest, rows[0], rcond=None)[0]
    return float(np.sum((rows[0] - known) ** 2))


@given(runs())
def test_the_remaining_variance_is_that_of_least_squares(run: TwoRoundNoise) -> None:
    """The reference uses all draws that the server and its accomplices know."""
    assert least_squares(message_rows(run)) == pytest.approx(run.variance, rel=1e-7, abs=1e-12)


@given(runs())
def test_the_result_is_the_last_sum_without_what_accomplices_know(run: TwoRoundNoise) -> None:
    rows = message_rows(run)
    total = rows[: 1 + run.replaced].sum(axis=0)
    alone = np.array([total, *rows[1 + run.replaced :]])
    assert least_squares(alone) == pytest.approx(run.claimed_variance, rel=1e-7, abs=1e-12)
    assert run.variance <= run.claimed_variance * (1 + 1e-12)


@given(runs(), st.integers(0, 2**32 - 1))
def test_no_other_weights_do_better(run: TwoRoundNoise, seed: int) -> None:
    """Sums S + sum of w_i R_i of honest messages, minus colluders' noise, vary at least as much."""
    rows, rng = message_rows(run), np.random.default_rng(seed)
    honest = rows[1 + run.colluding : 1 + run.replaced]
    hidden = rows[0] * (np.arange(rows.shape[1]) >= 2 * run.colluding)
    weights = rng.normal(run.round_2_weight, rng.choice([0.0, 0.1, 1.0]), len(honest))
    assert np.sum((hidden + weights @ honest) ** 2) >= run.variance * (1 - 1e-9)
    best = hidden + run.round_2_weight * honest.sum(axis=0)
    assert np.sum(best**2) == pytest.approx(run.variance, abs=1e-12)


@given(runs())
def test_the_variance_with_honest_users_is_the_catalogues(run: TwoRoundNoise) -> None:
    a, b, omega = run.masked / run.n_users, run.replaced / run.masked, run.omega
    honest = make_shares(run.n_users, omega, run.masked, run.replaced)
    catalogue = a * (b / (1 - omega + a) + (1 - b) / (1 - omega))
    assert honest.variance == pytest.approx(catalogue)
    assert honest.claimed_variance >= 1 - 1e-12
    assert honest.claimed_variance == pytest.approx(b + a * (1 - b) / (1 - omega))


@given(runs())
def test_colluders_and_false_counts_never_add_variance(run: TwoRoundNoise) -> None:
    for less in ({"announced": None}, {"colluding": 0}):
        assert run.variance <= replace(run, **less).variance * (1 + 1e-12)


@given(runs())
def test_the_least_variance_is_least_over_all_dropouts(run: TwoRoundNoise) -> None:
    """Search over all numbers of survivors with the same shares of lies and colluders."""
    lie = 1.0 if run.announced is None else run.announced / run.masked
    c = run.colluding / run.n_users
    least = min_variance(omega=run.omega, colluding_share=c, overstated=lie, repaired=run.repaired)
    assert run.variance >= least - 1e-12


@pytest.mark.parametrize("repaired", [False, True])
def test_the_least_variance_is_reached_in_the_limit(repaired: bool) -> None:
    n, lie = 100_000, 1.5
    told = {"colluding": 10_000, "announced": lie * 60_001, "repaired": repaired}
    worst = replace(make_shares(n, 0.4, 60_001, 60_001), **told)
    least = min_variance(omega=0.4, colluding_share=0.1, overstated=lie, repaired=repaired)
    assert worst.variance == pytest.approx(least, rel=1e-4)


def test_known_values_of_the_variance() -> None:
    assert make_shares(omega=0.3).variance == pytest.approx(1 / 1.7)
    assert make_shares(omega=0.6).variance == pytest.approx(1 / 1.4)
    for fewest in (make_shares(masked=7, replaced=7), make_shares(omega=0.0)):
        assert (fewest.variance, fewest.claimed_variance) == pytest.approx((0.5, 1.0))
    assert min_variance(omega=0.3) == min_variance(omega=0.01) == 0.5
    assert min_variance(omega=0.3, repaired=True) == 1.0
    assert min_variance(omega=0.3, colluding_share=0.8) == 0.0


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"masked": 11}, "replaced <= masked"),
        ({"replaced": 11}, "replaced <= masked"),
        ({"masked": 6, "replaced": 6}, "Raise masked or omega"),
        ({"masked": 0, "replaced": 0}, "Raise masked or omega"),
        ({"colluding": 10}, "colluding"),
        ({"replaced": 3, "colluding": 4}, "colluding"),
        ({"announced": 9.0}, "announced"),
        ({"announced": math.inf}, "announced"),
        ({"announced": math.nan}, "announced"),
        ({"masked": 7, "replaced": 7, "repaired": True}, "if repaired=True"),
    ],
)
def test_invalid_numbers_are_refused(wrong: dict[str, float], word: str) -> None:
    with pytest.raises(InputError, match=word):
        replace(make_shares(), **wrong)


@pytest.mark.parametrize("wrong", [{"omega": 1.0}, {"colluding_share": 1.0}, {"overstated": 0.9}])
def test_invalid_shares_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        min_variance(**{"omega": 0.3, **wrong})
