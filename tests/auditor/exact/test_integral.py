"""Masses on cells against cumulative laws that are known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.auditor.exact.integral import AGREEMENT, edges_around, integrate

LAWS = {
    "normal": stats.norm(3.0, 0.01),
    "laplace, with a kink": stats.laplace(0.3, 2.0),
    "cauchy, with heavy tails": stats.cauchy(),
    "uniform, with jumps": stats.uniform(0.1, 0.77),
    "gamma": stats.gamma(2.5),
    "narrow on wide": stats.norm(0, 1e-4),
}


def _cells(law: Any, seed: int = 0) -> Any:
    draws = law.rvs(1000, random_state=np.random.default_rng(seed))
    return integrate(lambda x: np.exp(law.logpdf(x))[None], edges_around(draws))


@pytest.mark.parametrize("name", LAWS)
def test_every_cell_kept_has_its_mass(name: str) -> None:
    law = LAWS[name]
    cells = _cells(law)
    known = law.cdf(cells.high) - law.cdf(cells.low)
    seen = known > 1e-3  # where the difference of two numbers near 1 still has digits
    np.testing.assert_allclose(cells.masses[0, seen], known[seen], rtol=100 * AGREEMENT)
    assert cells.masses.sum() == pytest.approx(1.0, abs=2 * cells.doubt[0] + 1e-9)
    assert cells.doubt[0] < 1e-6
    assert (cells.low[1:] != cells.low[:-1]).all()


def test_cells_are_disjoint_and_lie_in_their_interval() -> None:
    edges = np.array([-40.0, -1.0, 0.3, 2.0, 40.0])
    cells = integrate(lambda x: np.exp(LAWS["laplace, with a kink"].logpdf(x))[None], edges)
    order = np.argsort(cells.low)
    assert (cells.high[order][:-1] <= cells.low[order][1:]).all()
    assert (edges[cells.cell] <= cells.low).all()
    assert (cells.high <= edges[cells.cell + 1]).all()


@given(at=st.floats(-3.0, 3.0), height=st.floats(0.1, 5.0))
@settings(max_examples=60, database=None, derandomize=True)
def test_no_jump_hides(at: float, height: float) -> None:
    """Wherever a density jumps, what is kept of it is not above its mass, and nearly all of it."""
    cells = integrate(lambda x: np.where(x < at, height, 0.0)[None], np.linspace(-4.0, 4.0, 9))
    known = height * np.clip(at - cells.low, 0.0, cells.high - cells.low)
    assert (cells.masses[0] <= known * (1 + 1e-9) + 1e-15).all()
    assert cells.masses.sum() == pytest.approx(height * (at + 4.0), rel=1e-5)
    assert abs(cells.masses.sum() - height * (at + 4.0)) <= cells.doubt[0] + 1e-9


def test_a_density_that_is_nan_somewhere_is_left_out_there() -> None:
    cells = integrate(lambda x: np.where(x < 0, np.nan, 1.0)[None], np.array([-1.0, 0.0, 1.0]))
    assert cells.masses.sum() == pytest.approx(1.0)
