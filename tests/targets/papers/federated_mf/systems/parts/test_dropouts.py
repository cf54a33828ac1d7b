"""Rounds with dropouts: how many survive, and the curve against the sum over all of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import gaussian_divergence
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import NoiseShares
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import Dropouts
from tests.contracts.laws import check_ranges

SCOPE = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.AGGREGATE,
    horizon=Horizon.TRAINING,
)


def build(
    n: int = 4, dropout: float = 0.3, count: int = 2, *, omega: float = 0.6, repaired: bool = False
) -> Dropouts:
    return Dropouts(
        sigma=2.0,
        sensitivity=2.0,
        n_users=n,
        omega=omega,
        dropout=dropout,
        count=count,
        repaired=repaired,
    )


@st.composite
def runs(draw: st.DrawFn) -> Dropouts:
    n = draw(st.integers(2, 4))
    return replace(
        build(n, draw(st.floats(0.05, 0.9)), draw(st.integers(1, 2))),
        # Not within rounding of the fewest survivors, where no noise could be taken back.
        omega=draw(st.integers(0, 90)) / 100,
        repaired=draw(st.booleans()),
        colluding=draw(st.integers(0, n - 1)),
        overstated=draw(st.sampled_from([1.0, 2.0])),
    )


def patterns(run: Dropouts) -> list[tuple[int, int, float]]:
    """m, r and probability of a round, device by device; (0, 0) where the first is not in a sum.

    Of every honest device: gone, there in round 1 only, or in both.
    """
    d = run.dropout
    fates = ((0, 0, d), (1, 0, (1 - d) * d), (1, 1, (1 - d) ** 2))
    found = []
    for all_fates in itertools.product(fates, repeat=run.n_users - run.colluding):
        m, r = (run.colluding + sum(fate[k] for fate in all_fates) for k in (0, 1))
        there = all_fates[0][0] == 1 and m > (1 - run.omega) * run.n_users
        chance = math.prod(fate[2] for fate in all_fates)
        found.append((m, r, chance) if there else (0, 0, chance))
    return found


def square(run: Dropouts, m: int, r: int) -> float:
    """mu^2 of one round."""
    if m == 0:
        return 0.0
    shares = NoiseShares(
        n_users=run.n_users,
        omega=run.omega,
        masked=m,
        replaced=r,
        colluding=run.colluding,
        announced=round(run.overstated * m),
        repaired=run.repaired,
    )
    return (run.sensitivity / run.sigma) ** 2 / shares.variance


@given(runs())
def test_survivors_have_the_probabilities_of_their_patterns(run: Dropouts) -> None:
    expected: dict[tuple[int, int], float] = {}
    for m, r, chance in patterns(run):
        expected[m, r] = expected.get((m, r), 0.0) + chance
    expected.pop((0, 0), None)
    found = {(m, r): p for m, r, p in zip(*run.survivors(), strict=True)}
    assert found == pytest.approx(expected)


@given(runs(), st.floats(0.0, 3.0))
@settings(max_examples=20)
def test_the_curve_is_the_mean_over_all_survivors(run: Dropouts, epsilon: float) -> None:
    """From below, and within a thousandth."""
    exact = 0.0
    for rounds in itertools.product(patterns(run), repeat=run.count):
        total = sum(square(run, m, r) for m, r, _ in rounds)
        if total > 0:
            chance = math.prod(p for _, _, p in rounds)
            exact += chance * gaussian_divergence(math.sqrt(total), epsilon)
    assert isinstance(run, PrivacyCurve)
    assert exact * (1 - 5e-3) - 1e-9 <= run.delta(epsilon) <= exact * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize("n", [10, 943])
def test_the_lower_bound_lies_below_the_event_at_the_worst_dropouts(n: int, repaired: bool) -> None:
    run = build(n, 0.1, 10, omega=0.3, repaired=repaired)
    lower = exact_lower_bound(run, SCOPE, 1e-5).epsilon
    upper = Pld().bound(run.event(), delta=1e-5, scope=SCOPE).epsilon
    assert 0.7 * upper < lower < upper
    fewer = exact_lower_bound(replace(run, dropout=0.2), SCOPE, 1e-5).epsilon
    assert fewer < lower


def test_few_dropouts_cost_what_none_does() -> None:
    """In the limit, the curve of T rounds that all survive: mu^2 = T (2 - omega)."""
    run = build(50, 1e-9, 10, omega=0.3)
    limit = gaussian_divergence(math.sqrt(10 * 1.7), 20.0)
    assert run.delta(20.0) == pytest.approx(limit, rel=5e-3)


@given(runs().filter(lambda run: len(run.survivors()[0]) > 0), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_the_density_is_that_of_who_survives_and_both_sums(run: Dropouts, seed: int) -> None:
    out = run.randomize([0.0, 1.3], np.random.default_rng(seed))
    assert out.shape == (2, run.count, 4)
    for rows, value in zip(out, (0.0, 1.3), strict=True):
        slow = 0.0
        for m, r, total, sent in rows:
            chance = sum(p for a, b, p in patterns(run) if (a, b) == (m, r))
            slow += math.log(chance)
            if m:
                slow += density(run, int(m), int(r), total - value, sent)
        assert run.log_prob(rows, value) == pytest.approx(slow, rel=1e-7, abs=1e-7)


def density(run: Dropouts, m: int, r: int, total: float, sent: float) -> float:
    """Of the two sums, by the covariance of the noises that honest devices drew."""
    first, second = 1 / ((1 - run.omega) * run.n_users), 1 / round(run.overstated * m)
    honest = r - run.colluding
    shared = first - second if run.repaired else first
    blurred = first - second if run.repaired else first + second
    top = (m - run.colluding) * first
    if honest == 0 or blurred <= 0:
        assert sent == 0
        return float(stats.norm.logpdf(total, 0, run.sigma * math.sqrt(top)))
    table = run.sigma**2 * np.array([[top, -honest * shared], [-honest * shared, honest * blurred]])
    return float(stats.multivariate_normal.logpdf([total, sent], cov=table))


def test_simulated_rounds_are_as_often_survived_as_is_said() -> None:
    run = build(6, 0.3, 1, omega=0.7)
    out = run.randomize(0.0, np.random.default_rng(3), (50_000,))[:, 0]
    masked, replaced, chance = run.survivors()
    seen = [
        ((out[:, 0] == m) & (out[:, 1] == r)).sum() for m, r in zip(masked, replaced, strict=True)
    ]
    seen, expected = (
        np.append(seen, (out[:, 0] == 0).sum()),
        50_000 * np.append(chance, 1 - chance.sum()),
    )
    common = expected > 5
    rest = [array[~common].sum() for array in (seen, expected)]
    cells = [np.append(array[common], r) for array, r in zip((seen, expected), rest, strict=True)]
    assert stats.chisquare(*cells).pvalue > 1e-7


def test_no_round_goes_on_where_all_have_to_survive() -> None:
    """With omega 0 every round halts, as at most n survive."""
    run = build(4, 0.3, 2, omega=0.0)
    assert len(run.survivors()[0]) == 0
    assert run.delta(0.0) == 0.0


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"colluding": 4}, "colluding"),
        ({"overstated": 0.5}, "announced"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float], word: str) -> None:
    check_ranges(build())
    with pytest.raises(InputError, match=word):
        replace(build(), **wrong)
