"""Clipping in front of a mechanism."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.auditor.exact import delta_at, exact_lower_bound, has_curve
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT as SCOPE
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Product
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate

LAPLACE = Laplace(scale=0.5, low=-0.5, high=0.5)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-3, 3))
def test_the_law_is_that_of_the_nearest_input(value: float, output: float) -> None:
    inner = Laplace(scale=0.5, low=-0.2, high=0.7)
    nearest = min(max(value, -0.2), 0.7)
    assert Clipped(inner).log_prob(output, value) == inner.log_prob(output, nearest)


def test_epsilon_is_that_of_one_coordinate_times_all_that_are_sent() -> None:
    assert exact_lower_bound(Clipped(LAPLACE), SCOPE).epsilon == pytest.approx(2.0)
    upload = Clipped(Product(LAPLACE, 100))
    assert exact_lower_bound(upload, SCOPE).epsilon == pytest.approx(200.0)
    ends = np.array([[9.0] * 100, [-9.0] * 100])
    table = upload.log_prob(ends, ends[:, None])
    assert table[0, 0] - table[1, 0] == pytest.approx(200.0)


def test_clipping_after_the_noise_bounds_nothing() -> None:
    """The law of clip(x + noise) at the two ends: the farther the inputs, the surer the end."""
    rng = np.random.default_rng(1)
    late = np.clip(np.array([-20.0, 20.0]) + rng.laplace(0.0, 0.5, (10_000, 2)), -0.5, 0.5)
    assert (late == [-0.5, 0.5]).all()
    early = Clipped(LAPLACE).randomize([-20.0, 20.0], rng, (10_000, 2))
    assert (early[:, 0] > 0.5).mean() > 0.05


def test_a_curve_is_known_where_the_inner_one_is() -> None:
    curved = Clipped(Gaussian(sigma=1.0, low=0.0, high=1.0))
    assert isinstance(curved, PrivacyCurve)
    assert delta_at(curved, 0.5) == delta_at(curved.mechanism, 0.5)
    blunt = Clipped(Product(LAPLACE, 2))
    assert not isinstance(blunt, PrivacyCurve)
    assert not has_curve(blunt, 0.1)
    reports = Clipped(OneCoordinate(1.0, 3))
    assert has_curve(reports, 0.1)
    assert exact_lower_bound(reports, SCOPE).epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("inner", [LAPLACE, Product(LAPLACE, 2)])
def test_it_is_plain_data(inner: Laplace) -> None:
    clipped = Clipped(inner)
    assert copy.deepcopy(clipped) == replace(clipped) == Clipped(inner)
    assert repr(clipped) == f"Clipped(mechanism={inner!r})"
