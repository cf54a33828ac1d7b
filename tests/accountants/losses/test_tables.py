"""Tests of masses of densities on cells, and of copies of a table, against exact sums."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.losses import tables
from fedrec_auditor.accountants.losses.composition import compute_lower_epsilon
from fedrec_auditor.accountants.losses.divergences import bisect_threshold, find_min_epsilon
from fedrec_auditor.accountants.losses.tables import (
    MAX_QUADRATURE_ERROR,
    integrate_cells,
    make_integration_edges,
    make_loss_pair,
)

DISTS = {
    "normal": stats.norm(3.0, 0.01),
    "laplace, with a kink": stats.laplace(0.3, 2.0),
    "cauchy, with heavy tails": stats.cauchy(),
    "uniform, with jumps": stats.uniform(0.1, 0.77),
    "gamma": stats.gamma(2.5),
    "narrow on wide": stats.norm(0, 1e-4),
}


def _make_cells(law: Any, seed: int = 0) -> Any:
    draws = law.rvs(1000, random_state=np.random.default_rng(seed))
    return integrate_cells(lambda x: np.exp(law.logpdf(x))[None], make_integration_edges(draws))


@pytest.mark.parametrize("name", DISTS)
def test_every_cell_has_its_mass(name: str) -> None:
    law = DISTS[name]
    cells = _make_cells(law)
    known = law.cdf(cells.ends) - law.cdf(cells.starts)
    seen = known > 1e-3  # where the difference of two numbers near 1 still has digits
    np.testing.assert_allclose(cells.masses[0, seen], known[seen], rtol=100 * MAX_QUADRATURE_ERROR)
    assert cells.masses.sum() == pytest.approx(1.0, abs=2 * cells.lost_mass[0] + 1e-9)
    assert cells.lost_mass[0] < 1e-6
    assert (cells.starts[1:] != cells.starts[:-1]).all()


def test_cells_are_disjoint_and_inside_their_interval() -> None:
    edges = np.array([-40.0, -1.0, 0.3, 2.0, 40.0])
    cells = integrate_cells(lambda x: np.exp(DISTS["laplace, with a kink"].logpdf(x))[None], edges)
    order = np.argsort(cells.starts)
    assert (cells.ends[order][:-1] <= cells.starts[order][1:]).all()
    assert (edges[cells.interval_index] <= cells.starts).all()
    assert (cells.ends <= edges[cells.interval_index + 1]).all()


@given(at=st.floats(-3.0, 3.0), height=st.floats(0.1, 5.0))
@settings(max_examples=60, database=None, derandomize=True)
def test_densities_with_jumps_keep_their_mass(at: float, height: float) -> None:
    """The cells of a density with a jump have almost all of its mass, and not more."""
    cells = integrate_cells(
        lambda x: np.where(x < at, height, 0.0)[None], np.linspace(-4.0, 4.0, 9)
    )
    known = height * np.clip(at - cells.starts, 0.0, cells.ends - cells.starts)
    assert (cells.masses[0] <= known * (1 + 1e-9) + 1e-15).all()
    assert cells.masses.sum() == pytest.approx(height * (at + 4.0), rel=1e-5)
    assert abs(cells.masses.sum() - height * (at + 4.0)) <= cells.lost_mass[0] + 1e-9


def test_cells_omit_positions_with_nan_densities() -> None:
    cells = integrate_cells(
        lambda x: np.where(x < 0, np.nan, 1.0)[None], np.array([-1.0, 0.0, 1.0])
    )
    assert cells.masses.sum() == pytest.approx(1.0)


def test_losses_beyond_doubles_have_a_lower_bound() -> None:
    """For 100 copies of losses +-10 and 0 the exact value is a sum over the numbers of each."""
    high, low = 0.85, 0.85 * math.exp(-10.0)
    laws = np.log([[high, low, 1 - high - low], [low, high, 1 - high - low]])
    one = np.array([low, 1 - high - low, high])
    chance = functools.reduce(np.convolve, [one] * 100)
    loss = 10.0 * np.arange(-100, 101)
    assert float(chance @ loss) > 745

    def delta_of(epsilon: float) -> float:
        return float(chance @ -np.expm1(np.minimum(epsilon - loss, 0.0)))

    truth = bisect_threshold(lambda epsilon: delta_of(epsilon) <= 1e-3, precision=1e-12)
    found = compute_lower_epsilon(((make_loss_pair(*laws), 100),), 1e-3)
    assert truth - 0.1 <= found <= truth + 1e-9


@pytest.mark.parametrize("count", [200_000, 2_000_000])
def test_lower_bounds_of_millions_of_copies_equal_an_exact_sum(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits of rates 0.5 and 0.55, on a grid, and with the likely counts instead of all counts."""
    pair = np.log([0.45, 0.55]), np.log([0.5, 0.5])
    on_grid = compute_lower_epsilon(((make_loss_pair(*pair), count),), 1e-6)
    monkeypatch.setattr(tables, "_MANY_COPIES", 0)
    bulk = tables.merge_copies_log_probs(*pair, count)
    assert len(bulk[0]) < count
    monkeypatch.setattr(tables, "_MANY_COPIES", count)
    whole = tables.merge_copies_log_probs(*pair, count) if count < 10**6 else bulk
    truth, short = (find_min_epsilon(p[::-1], q[::-1], 1e-6) for p, q in (whole, bulk))
    assert 0.98 * truth <= on_grid <= truth
    assert short == pytest.approx(truth, rel=1e-7)
