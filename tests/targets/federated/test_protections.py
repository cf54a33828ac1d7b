"""Protections: budgets, noise factors, distributions and promises."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.base import Clients, LocalSettings
from fedrec_auditor.targets.federated.learners import MfLearner
from fedrec_auditor.targets.federated.protections import (
    AdaptiveLaplace,
    GaussianProtection,
    LaplaceProtection,
    ObjectiveProtection,
    Unprotected,
    perturb_features,
)
from fedrec_auditor.targets.mechanisms.report_mechanisms import Piecewise
from fedrec_auditor.targets.papers.fedrec_apm.systems import FGeraiNl
from fedrec_auditor.targets.streams import Streams


def test_unprotected_uploads_are_the_trained_models() -> None:
    clients = Clients(
        interactions=Interactions.create(np.ones((2, 2))),
        features=np.zeros((2, 1)),
        streams=Streams.spawn(np.random.default_rng(0), 2),
    )
    model = {"item": Dense(np.arange(8.0).reshape(2, 2, 2), Payload.MODEL)}
    assert Unprotected().protect(model, {}, clients) == model
    assert Unprotected().prepare_data(clients) is clients


def test_unprotected_uploads_have_no_promise() -> None:
    (promise,) = Unprotected().make_claims(("item",))
    assert promise.epsilon == Unprotected().get_upload_epsilon({"item": 1}) == math.inf
    assert Unprotected().get_upload_randomizer({"item": 1}) is None


GROUPS = ("user", "item", "mlp1", "mlp2")
SCOPE = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)


def test_section_57_and_equation_11_assign_different_budgets() -> None:
    """Entry 19: (30, 60, 40, 50) against equal steps, in the order user, item, MLP 1, MLP 2."""
    printed, rule = AdaptiveLaplace(), AdaptiveLaplace.from_epsilon_range(lowest=30.0, highest=60.0)
    assert [printed.get_epsilon(group) for group in GROUPS] == [30.0, 60.0, 40.0, 50.0]
    assert [rule.get_epsilon(group) for group in GROUPS] == [30.0, 40.0, 50.0, 60.0]


def test_noise_factors_are_those_printed() -> None:
    factors = {group: AdaptiveLaplace().get_group_noise(group).scale for group in GROUPS}
    printed = {"user": 0.033, "item": 0.017, "mlp1": 0.025, "mlp2": 0.020}
    assert {group: round(scale, 3) for group, scale in factors.items()} == printed


@pytest.mark.parametrize("group", GROUPS)
def test_an_entry_spends_the_budget_of_its_group(group: str) -> None:
    protection = AdaptiveLaplace()
    bound = find_exact_bound(protection.get_entry_randomizer(group), SCOPE)
    assert bound.epsilon == pytest.approx(protection.get_epsilon(group))


def test_an_upload_spends_the_sum_over_all_entries() -> None:
    """W1, W2 and b alone cost 247,680 (entry 17 of the catalogue)."""
    protection = AdaptiveLaplace()
    assert protection.get_upload_epsilon({"user": 64 * 64 * 2 + 64}) == pytest.approx(247_680)
    sizes = {"user": 5, "item": 7, "mlp1": 2, "mlp2": 1}
    assert protection.get_upload_epsilon(sizes) == 5 * 30 + 7 * 60 + 2 * 40 + 50
    exact = find_exact_bound(protection.get_upload_randomizer(sizes), SCOPE)
    assert exact.epsilon == pytest.approx(protection.get_upload_epsilon(sizes))


def test_promises_name_the_parts_of_the_model() -> None:
    (both,) = AdaptiveLaplace().make_claims(("user", "item"))
    assert (both.epsilon, both.unit) == (60.0, Unit.COORDINATE)
    assert "mlp" not in both.statement


def test_a_group_without_a_budget_is_refused() -> None:
    with pytest.raises(InputError, match="'conv'"):
        AdaptiveLaplace().get_group_noise("conv")


def test_gaussian_noise_has_no_promise_and_no_epsilon_at_delta_0() -> None:
    (promise,) = GaussianProtection().make_claims(("user", "item"))
    assert promise.epsilon == GaussianProtection().get_upload_epsilon({"item": 3}) == math.inf
    mechanism = GaussianProtection().get_entry_randomizer("item")
    assert find_exact_bound(mechanism, SCOPE).epsilon == math.inf


@pytest.mark.parametrize("entries", [1, 9, 400])
def test_an_upload_of_n_entries_has_the_curve_of_opposite_corners(entries: int) -> None:
    protection = GaussianProtection(sigma=2.0, clip=0.5)
    law = protection.get_upload_randomizer({"user": 1, "item": entries - 1})
    bound = find_exact_bound(law, SCOPE, 1e-5).epsilon
    mu = math.sqrt(entries) / 2.0
    assert compute_gaussian_delta(mu, bound) == pytest.approx(1e-5, rel=1e-6)


def test_gaussian_noise_is_as_large_as_the_laplace_noise() -> None:
    assert GaussianProtection().sigma == pytest.approx(
        math.sqrt(2) * LaplaceProtection().get_group_noise("item").scale, rel=0.02
    )


def test_noise_that_cannot_be_accounted_is_refused() -> None:
    with pytest.raises(InputError, match="sigma"):
        GaussianProtection(sigma=1e-200)


LEVEL = 1e-9
SHAPES = {"user.E": (8, 44), "item": (30, 8), "mlp1.weight": (8, 16)}


def make_clients(count: int = 1) -> Clients:
    streams = Streams.spawn(np.random.default_rng(0), count)
    features = np.tile(np.linspace(0, 1, 10), (count, 1)).astype(np.float32)
    interactions = Interactions.create(np.ones((count, 30)))
    return Clients(interactions=interactions, features=features, streams=streams)


def test_the_linear_term_is_scaled_to_the_linear_coefficients_of_an_example() -> None:
    """Records of all +1 and of all -1 have the farthest linear coefficients."""
    for loss, of_example in (
        ("logistic", lambda z: math.log1p(math.exp(-z))),
        ("squared", lambda z: (1.0 - z) ** 2),
    ):
        slope = (of_example(1e-6) - of_example(-1e-6)) / 2e-6
        first, second = (slope * sign * np.ones(8) for sign in (1, -1))
        local = ObjectiveProtection(loss=loss, epsilon=2.0).adapt_training(LocalSettings(), SHAPES)
        assert local.linear_term_scales["item"] == pytest.approx(np.abs(first - second).sum() / 2.0)
        assert set(local.linear_term_scales) == (set(SHAPES) if loss == "logistic" else {"item"})


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_perturbed_features_are_clipped_piecewise_reports(share: float, epsilon: float) -> None:
    law = Piecewise(epsilon)
    streams = Streams.spawn(np.random.default_rng(3), 40_000)
    drawn = perturb_features(np.full((40_000, 1), share), epsilon, streams)[:, 0]

    def density(x: float) -> float:
        return float(np.exp(law.log_prob(np.array(x), 2 * share - 1)))

    edges = np.linspace(0, 1, 6)
    # edges of the report in [-C, C]; a report beyond [0, 1] is clipped to its ends
    bounds = np.concatenate([[-law.magnitude], 2 * edges[1:-1] - 1, [law.magnitude]])
    shares = [
        integrate.quad(density, low, high, limit=200, points=_jumps(law, share, low, high))[0]
        for low, high in itertools.pairwise(bounds)
    ]
    counts = np.histogram(drawn, bins=edges)[0]
    expected = np.array(shares) / sum(shares) * len(drawn)
    assert stats.chisquare(counts, expected).pvalue > LEVEL
    assert stats.chisquare(counts, expected[::-1]).pvalue < LEVEL or share == 0.5


def _jumps(law: Piecewise, share: float, low: float, high: float) -> list[float] | None:
    c, x = law.magnitude, 2 * share - 1
    left = (c + 1) / 2 * x - (c - 1) / 2
    return [p for p in (left, left + c - 1) if low < p < high] or None


def test_features_are_perturbed_on_demand_and_stay_in_range() -> None:
    before = make_clients(50)
    assert ObjectiveProtection().prepare_data(before).features is before.features
    after = ObjectiveProtection(features=True).prepare_data(before).features
    assert after.dtype == before.features.dtype
    assert after.min() >= 0.0
    assert after[:, :6].max() <= math.log1p(30)
    assert after[:, 6:].max() <= 1.0
    assert (after != before.features).mean() > 0.5


@pytest.mark.parametrize("every_round", [False, True])
def test_a_device_keeps_its_objective_for_the_training(every_round: bool) -> None:
    """A step of rate 1 on a row without gradient subtracts the row's drawn coefficients."""
    system = FGeraiNl(
        learner=MfLearner(dimension=4),
        protection=ObjectiveProtection(every_round=every_round),
        share=1.0,
        rounds=3,
        epochs=1,
        batch=100,
        learning_rate=1.0,
        optimizer="sgd",
    )
    everyone = Interactions.create(np.ones((2, 5)))  # no negatives: all rows are trained
    moved = []
    for one in system.run(everyone, np.random.default_rng(0)).transcript.rounds:
        noisy = one.uploads.components["user.E"].to_dense(np.arange(2)) - one.broadcast["user.E"]
        plain = replace(system, protection=Unprotected()).upload(
            everyone, one.broadcast, np.random.default_rng(0)
        )
        trained = plain.components["user.E"].to_dense(np.arange(2)) - one.broadcast["user.E"]
        moved.append(noisy - trained)
    assert np.abs(moved[0]).min(initial=1.0) > 1e-6
    assert np.abs(moved[0][0] - moved[0][1]).max() > 0.01
    for later in moved[1:]:
        assert np.allclose(later, moved[0], atol=1e-4) == (not every_round)


def test_promises_are_for_an_interaction_and_with_features_for_an_attribute() -> None:
    assert [p.unit for p in ObjectiveProtection().make_claims(("item",))] == [Unit.INTERACTION]
    both = ObjectiveProtection(features=True, feature_epsilon=0.5).make_claims(("item",))
    assert [(p.unit, p.epsilon) for p in both] == [(Unit.INTERACTION, 10.0), (Unit.ATTRIBUTE, 1.0)]
    assert [bool(p.unstated_protection) for p in both] == [True, False]
    assert ObjectiveProtection().get_event_per_attribute() is None
    event = ObjectiveProtection(features=True, feature_epsilon=0.5).get_event_per_attribute()
    assert (event.count, event.event.epsilon) == (2, 0.5)


def test_no_promise_covers_every_pair_of_uploads() -> None:
    assert ObjectiveProtection().get_entry_randomizer("item") is None
    assert ObjectiveProtection().get_upload_randomizer({"item": 3}) is None
    assert ObjectiveProtection().get_upload_epsilon({"item": 3}) == math.inf
