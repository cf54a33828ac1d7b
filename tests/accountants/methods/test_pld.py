"""Accountants against closed forms, against each other, and against dp-accounting's fault."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from scipy import stats

from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    RevealedSamplingDpEvent,
)
from fedrec_auditor.accountants.losses.pairs import Poisson, dominating_pair
from fedrec_auditor.accountants.losses.pure import ThreePointLoss
from fedrec_auditor.accountants.methods.accounting_methods import Pld, Pure, Rdp
from fedrec_auditor.accountants.statements import Adjacency
from tests.contracts.events import SCOPE, gaussian, response, response_event


def epsilon(accountant: object, event: DpEvent, delta: float) -> float:
    return accountant.bound(event, delta=delta, scope=SCOPE).epsilon


def test_the_library_still_ignores_the_count_of_a_repeated_response() -> None:
    """When this fails, dp-accounting is mended: say so in the docstring of ``Pld``."""
    one = RandomizedResponseDpEvent(0.5, 2)
    raw = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    assert raw.compose(SelfComposedDpEvent(one, 10)).get_epsilon(1e-6) == pytest.approx(
        math.log(3), abs=1e-3
    )
    ours = epsilon(Pld(), SelfComposedDpEvent(one, 10), 1e-6)
    assert ours == pytest.approx(response(math.log(3))(10, 1e-6), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize(("local", "count"), [(0.01, 2000), (0.25, 2000), (2.5, 2000), (8.0, 3)])
def test_responses_are_the_exact_binomial(local: float, count: int, delta: float) -> None:
    event = SelfComposedDpEvent(response_event(local), count)
    truth = response(local)(count, delta)
    assert epsilon(Pld(), event, delta) == pytest.approx(truth, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(("noise", "count"), [(1.0, 1), (5.0, 300), (100.0, 10)])
def test_gaussians_are_the_exact_curve(noise: float, count: int, delta: float) -> None:
    event = ComposedDpEvent(
        [SelfComposedDpEvent(GaussianDpEvent(noise), count - 1), GaussianDpEvent(noise)]
        if count > 1
        else [GaussianDpEvent(noise)]
    )
    assert epsilon(Pld(), event, delta) == pytest.approx(
        gaussian(noise)(count, delta), rel=1e-8, abs=1e-8
    )


EVENTS = {
    "responses": SelfComposedDpEvent(response_event(0.25), 2000),
    "strong responses": SelfComposedDpEvent(response_event(3.0), 30),
    "five buckets": SelfComposedDpEvent(RandomizedResponseDpEvent(0.4, 5), 60),
    "flips": SelfComposedDpEvent(BitFlipDpEvent(0.7, 0.2), 100),
    "gaussians": SelfComposedDpEvent(GaussianDpEvent(10.0), 100),
    "laplaces": SelfComposedDpEvent(LaplaceDpEvent(2.0), 300),
    "the item table": SelfComposedDpEvent(LaplaceDpEvent(1 / 60), 64 * 1682),
    "mixture": ComposedDpEvent(
        [
            SelfComposedDpEvent(response_event(0.25), 500),
            SelfComposedDpEvent(BitFlipDpEvent(0.6, 0.3), 50),
            SelfComposedDpEvent(GaussianDpEvent(8.0), 40),
            SelfComposedDpEvent(LaplaceDpEvent(3.0), 40),
        ]
    ),
}


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_renyi_is_never_below_the_loss_distribution(event: DpEvent, delta: float) -> None:
    started = time.process_time()
    tight = epsilon(Pld(), event, delta)
    assert time.process_time() - started < 2.0
    assert epsilon(Rdp(), event, delta) >= tight - 1e-9
    if Pure().supports(event):
        assert epsilon(Pure(), event, delta) >= tight - 1e-9


def test_the_grid_agrees_with_the_exact_path_from_above() -> None:
    """A no-account second kind of leaf sends the same responses over the grid."""
    weak = RandomizedResponseDpEvent(1.0, 2)
    for delta in (1e-8, 1e-6, 1e-3):
        responses = SelfComposedDpEvent(response_event(0.25), 2000)
        truth = response(0.25)(2000, delta)
        grid = epsilon(Pld(), ComposedDpEvent([responses, weak]), delta)
        assert truth - 1e-9 <= grid <= truth * 1.001


def test_opposite_flips_are_covered() -> None:
    """Bits flipped one way and bits flipped the other, all together, by brute force."""
    p, q, each = 0.7, 0.05, 3
    up, down = np.array([1 - p, p]), np.array([1 - q, q])
    laws = []
    for first, second in ((up, down), (down, up)):
        law = np.ones(1)
        for one in [first] * each + [second] * each:
            law = np.outer(law, one).ravel()
        laws.append(law)
    for delta in (1e-4, 0.01, 0.2):
        bound = epsilon(Pld(), SelfComposedDpEvent(BitFlipDpEvent(p, q), 2 * each), delta)
        assert np.maximum(laws[0] - math.exp(bound) * laws[1], 0).sum() <= delta + 1e-12


@pytest.mark.parametrize(("p", "q"), [(0.7, 0.2), (0.2, 0.7), (0.9, 0.3), (1.0, 0.4), (0.3, 0.3)])
def test_the_three_point_pair_is_the_larger_of_both_directions(p: float, q: float) -> None:
    pair = ThreePointLoss.of(BitFlipDpEvent(p, q))
    rest = pair.uninformative
    for a in np.geomspace(1e-3, 1e3, 61):
        ours = sum(
            max(0.0, x - a * y)
            for x, y in ((pair.likely, pair.unlikely), (rest, rest), (pair.unlikely, pair.likely))
        )
        both = [max(0.0, x - a * y) + max(0.0, 1 - x - a * (1 - y)) for x, y in ((p, q), (q, p))]
        assert ours == pytest.approx(max(both), abs=1e-12)


def test_a_proof_at_delta_for_the_asymmetric_flip_says_how_much_is_disclosed() -> None:
    flip = BitFlipDpEvent(1.0, math.exp(-1))
    disclosed = 1 - math.exp(-1)
    assert math.isinf(epsilon(Pld(), flip, disclosed - 1e-9))
    assert epsilon(Pld(), flip, disclosed + 1e-9) == 0.0


def test_one_laplace_is_its_closed_form() -> None:
    """delta(eps) = 1 - e^((eps - 1/b)/2)."""
    for noise, delta in ((1.0, 0.01), (0.2, 1e-4)):
        truth = 1 / noise + 2 * math.log1p(-delta)
        assert truth <= epsilon(Pld(), LaplaceDpEvent(noise), delta) <= truth + 1e-3


def test_whoever_supports_a_sampled_event_reads_it() -> None:
    scope = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
    able = []
    for noise in (GaussianDpEvent(2.0), LaplaceDpEvent(2.0), RandomizedResponseDpEvent(0.5, 2)):
        event = PoissonSampledDpEvent(0.1, noise)
        accountants = [a for a in (Pure(), Pld(), Rdp()) if a.supports(event)]
        able.append([type(a) for a in accountants])
        for accountant in accountants:
            assert 0 < accountant.bound(event, delta=1e-5, scope=scope).epsilon < math.inf
    assert able == [[Pld, Rdp], [Pld], [Pld]]


def test_the_gaussian_reference_is_balle_and_wang() -> None:
    """The reference curve itself, against the definition integrated numerically."""
    eps, x = 1.3, np.linspace(-12, 13, 400_001)
    p, q = stats.norm.pdf(x, 1), stats.norm.pdf(x)
    delta = float(np.maximum(p - math.exp(eps) * q, 0).sum() * (x[1] - x[0]))
    assert gaussian(1.0)(1, delta) == pytest.approx(eps, abs=1e-6)


@pytest.mark.parametrize("local", [0.3, 2.0, 50.0])
def test_a_sampled_pure_epsilon_is_its_closed_form_at_delta_zero(local: float) -> None:
    """ln(1 + q (e^eps - 1)): Balle, Barthe and Gaboardi 2018, at delta 0."""
    pure = PureDpEvent(local)
    for event, adjacency in (
        (PoissonSampledDpEvent(0.1, pure), Adjacency.ADD_REMOVE),
        (SampledWithoutReplacementDpEvent(50, 5, pure), Adjacency.REPLACE),
    ):
        scope = replace(SCOPE, adjacency=adjacency)
        at_zero = Pld().bound(event, delta=0.0, scope=scope).epsilon
        assert at_zero == pytest.approx(math.log(1 + 0.1 * math.expm1(local)), rel=1e-12)
        tiny = Pld().bound(event, delta=1e-14, scope=scope).epsilon
        assert at_zero - 1e-6 <= tiny <= at_zero


@pytest.mark.parametrize(
    "event",
    [
        RandomizedResponseDpEvent(1.0, 2),
        RandomizedResponseDpEvent(0.4, 5),
        BitFlipDpEvent(0.3, 0.3),
        BitFlipDpEvent(1.0, 0.4),
        PureDpEvent(0.0),
        PureDpEvent(2e3),
        LaplaceDpEvent(0.7),
        GaussianDpEvent(0.7),
    ],
)
def test_the_pair_of_every_leaf_is_a_pair_of_laws(event: DpEvent) -> None:
    """Nothing is lost: masses under P add up to 1, sampled in any way too, and so under Q."""
    edges = np.concatenate([[-np.inf], np.linspace(-3e3, 3e3, 6001), [np.inf]])
    seen = [event, RevealedSamplingDpEvent(0.3, event), PoissonSampledDpEvent(0.3, event)]
    for one in (*seen, SampledWithoutReplacementDpEvent(10, 3, event)):
        pair = dominating_pair(one)
        log_p, log_q = pair.between(edges)
        assert np.exp(log_p).sum() + pair.infinite == pytest.approx(1, abs=1e-12)
        told_by_q = 0.0 if isinstance(pair, Poisson) else pair.infinite
        assert np.exp(log_q).sum() + told_by_q == pytest.approx(1, abs=1e-12)


def test_a_sampled_disclosure_is_its_enumeration() -> None:
    """A one is reported only by whoever holds one: four Poisson samples, every outcome listed."""
    rate, q, uses = 0.3, 0.4, 4
    holds, lacks = np.array([1.0, 0.0]), np.array([q, 1 - q])
    scope = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
    event = SelfComposedDpEvent(PoissonSampledDpEvent(rate, BitFlipDpEvent(1.0, q)), uses)
    for one, other in ((holds, lacks), (lacks, holds)):
        mixed = (1 - rate) * other + rate * one
        law, twin = np.ones(1), np.ones(1)
        for _ in range(uses):
            law, twin = np.outer(law, mixed).ravel(), np.outer(twin, other).ravel()
        for delta in (0.01, 0.5, 0.6, 0.7):
            found = Pld().bound(event, delta=delta, scope=scope).epsilon
            for p, r in ((law, twin), (twin, law)):
                told = np.maximum(p - math.exp(min(found, 700)) * r, 0)
                assert math.isinf(found) or told.sum() <= delta + 1e-9


@pytest.mark.parametrize(
    ("each", "count", "delta", "truth"),
    [
        (1.0, 10**5, 1e-6, 47540.251660494513),
        (0.1, 10**5, 1e-6, 648.74373620044062),
        (0.01, 10**5, 1e-9, 23.406220450743824),
    ],
)
def test_what_logarithms_of_factorials_lose_is_charged(
    each: float, count: int, delta: float, truth: float
) -> None:
    """The truth in 40 digits."""
    found = epsilon(Pld(), SelfComposedDpEvent(PureDpEvent(each), count), delta)
    assert truth <= found <= truth * (1.0 + 1e-9)


@pytest.mark.parametrize("noise", [1e-3, 1e-4, 1e-6])
def test_hardly_any_noise_under_sampling_fits_into_memory(noise: float) -> None:
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(noise))
    scope = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
    found = Pld().bound(event, delta=1e-3, scope=scope).epsilon
    assert 0.5 / noise**2 < found < 0.6 / noise**2
    assert Pld().bound(event, delta=0.5, scope=scope).epsilon == 0.0


@pytest.mark.parametrize("accountant", [Pld(), Rdp()])
def test_hidden_sampling_is_an_assumption_that_is_told(accountant: Pld | Rdp) -> None:
    noise = GaussianDpEvent(2.0)
    hidden = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, noise), 3)
    for event, told in (
        (hidden, True),
        (noise, False),
        (RevealedSamplingDpEvent(0.1, noise), False),
    ):
        bound = accountant.bound(
            event, delta=1e-5, scope=replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
        )
        assert any("who was drawn" in line for line in bound.assumptions) is told


def test_of_a_fixed_sample_it_is_told_of_how_many_nobody_is_known() -> None:
    """Who knows that it was not drawn itself has one fewer left."""
    event = SampledWithoutReplacementDpEvent(942, 30, GaussianDpEvent(2.0))
    bound = Pld().bound(event, delta=1e-5, scope=replace(SCOPE, adjacency=Adjacency.REPLACE))
    assert bound.assumptions == ("the adversary does not learn who of 942 was drawn",)
