"""Laplace and Gaussian noise, and compositions of mechanisms."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent

from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Product, Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate


def test_events_are_at_the_sensitivity_of_the_range() -> None:
    assert Laplace(scale=1.5, low=-1, high=2).event() == LaplaceDpEvent(0.5)
    assert Laplace(scale=1.5, low=-1, high=2).epsilon == pytest.approx(2.0)
    assert Gaussian(sigma=1.5, low=-1, high=2).event() == GaussianDpEvent(0.5)


def test_identity_gives_the_value_and_draws_nothing() -> None:
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    bits = np.array([[0, 1], [1, 1]])
    np.testing.assert_array_equal(Identity().randomize(bits, rng), bits)
    assert rng.bit_generator.state == before
    np.testing.assert_array_equal(
        Identity().log_prob([0, 1], [[0], [1]]), [[0, -np.inf], [-np.inf, 0]]
    )


def test_compositions_charge_every_use() -> None:
    one = OneCoordinate(1.0, 4)
    event = Repeated(Product(one, 3), 5).event()
    assert event == SelfComposedDpEvent(SelfComposedDpEvent(one.event(), 3), 5)
    worst_case = Repeated(Product(one, 3), 5).worst_case()
    assert worst_case.copies == 15
    assert worst_case.part is one
