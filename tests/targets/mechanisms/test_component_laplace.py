"""Uploads whose components have separate budgets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, LaplaceDpEvent, SelfComposedDpEvent

from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE as SCOPE
from fedrec_auditor.targets.federated.protections import AdaptiveLaplace
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from tests.contracts.laws import check_ranges

SMALL = ComponentLaplace((NoisyComponent("user", 1, 0.3), NoisyComponent("item", 3, 0.6)), clip=0.5)


def test_a_coordinate_costs_its_budget_and_an_upload_the_sum() -> None:
    assert SMALL.epsilon == pytest.approx(0.3 + 3 * 0.6)
    for position, epsilon in enumerate([0.3, 0.6, 0.6, 0.6]):
        x, y = np.zeros(4), np.zeros(4)
        x[position], y[position] = 0.5, -0.5
        ratio = SMALL.log_prob(x, x) - SMALL.log_prob(x, y)
        assert ratio == pytest.approx(epsilon)


def test_no_pair_of_corners_beats_the_sum_and_opposite_ones_attain_it() -> None:
    corners = np.array(list(itertools.product([-0.5, 0.5], repeat=4)))
    table = SMALL.log_prob(corners[:, None], corners)
    assert (table[:, :, None] - table[:, None]).max() == pytest.approx(SMALL.epsilon)
    assert find_exact_bound(SMALL, SCOPE).epsilon == pytest.approx(SMALL.epsilon)
    assert Pure().bound(SMALL.event(), delta=0.0, scope=SCOPE).epsilon == pytest.approx(
        SMALL.epsilon
    )


def test_the_scale_is_twice_the_bound_over_the_budget() -> None:
    np.testing.assert_allclose(SMALL.noise_scale, [1 / 0.3, 1 / 0.6, 1 / 0.6, 1 / 0.6])


def test_equation_11_spaces_the_budgets_evenly_unlike_section_5_7() -> None:
    sizes = {"user": 2, "item": 3, "mlp1": 1, "mlp2": 1}
    made = AdaptiveLaplace.from_epsilon_range(lowest=30.0, highest=60.0, clip=0.5)
    apm = made.get_upload_randomizer(sizes)
    assert [part.epsilon for part in apm.components] == [30.0, 40.0, 50.0, 60.0]
    # The noise factor 0.033 of the fixed baseline is a budget of 30 at clip 0.5.
    assert apm.noise_scale[0] == pytest.approx(0.033, abs=5e-4)
    counts = zip((30, 40, 50, 60), sizes.values(), strict=True)
    events = [SelfComposedDpEvent(LaplaceDpEvent(1 / epsilon), n) for epsilon, n in counts]
    assert apm.event() == ComposedDpEvent(events)


def test_components_are_recognised_in_an_upload() -> None:
    parts = SMALL.split_upload(np.arange(8.0).reshape(2, 4))
    np.testing.assert_array_equal(parts["user"], [[0], [4]])
    np.testing.assert_array_equal(parts["item"], [[1, 2, 3], [5, 6, 7]])


def test_invalid_components_are_refused() -> None:
    check_ranges(NoisyComponent("user", 1, 1.0))
