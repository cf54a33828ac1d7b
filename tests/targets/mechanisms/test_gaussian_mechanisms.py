"""Gaussian noise on vectors and embeddings: replaced, revealed and sampled."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Scope
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import (
    EmbeddingGaussian,
    Gaussian,
    NoiseReplacement,
    RevealedGaussian,
    SampledGaussian,
    VectorGaussian,
    clip_embedding,
)
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.parts.bases import clip_norm
from fedrec_auditor.targets.papers.federated_mf.systems.parts.lower_bounds import (
    LowerBoundMechanism,
)
from tests.contracts.laws import check_ranges

VECTORS = arrays(np.float64, 3, elements=st.floats(-1e308, 1e308))


GOALS = [(0.0, 1e-3), (0.1, 1e-6), (1.0, 1e-5), (4.0, 1e-5), (20.0, 1e-5), (50.0, 0.1)]


def make_noise(sigma: float = 1.0) -> VectorGaussian:
    return VectorGaussian(sigma=sigma, clip=2.0, dimension=3)


@given(VECTORS, VECTORS)
def test_no_pair_differs_by_more_than_twice_the_bound(x: np.ndarray, y: np.ndarray) -> None:
    apart = make_noise().compute_noiseless(x) - make_noise().compute_noiseless(y)
    assert math.hypot(*apart) <= make_noise().mu * (1 + 1e-14)


def test_opposite_vectors_attain_the_bound_and_zero_half_of_it() -> None:
    x = np.array([3.0, 0.0, -4.0])
    assert math.hypot(
        *(make_noise().compute_noiseless(x) - make_noise().compute_noiseless(-x))
    ) == pytest.approx(make_noise().mu)
    apart = math.hypot(*(make_noise().compute_noiseless(x) - make_noise().compute_noiseless(0 * x)))
    assert apart == pytest.approx(make_noise().mu / 2)


@given(VECTORS)
def test_clipping_only_shortens_a_vector(x: np.ndarray) -> None:
    clipped, norm = clip_norm(x, 2.0), math.hypot(*x)
    share = 1.0 if norm <= 2.0 else 2.0 / norm if norm < math.inf else 2.0 / math.hypot(*x / 4) / 4
    np.testing.assert_allclose(clipped, share * x, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize(("epsilon", "delta"), GOALS)
def test_the_calibrated_noise_is_the_least(epsilon: float, delta: float) -> None:
    calibrated = Gaussian.calibrate(epsilon=epsilon, delta=delta, low=-1.0, high=1.0)
    assert calibrated.delta(epsilon) <= delta
    less = Gaussian(sigma=calibrated.sigma * (1 - 1e-9), low=-1.0, high=1.0)
    assert less.delta(epsilon) > delta
    vector = VectorGaussian.calibrate(epsilon=epsilon, delta=delta, clip=1.0, dimension=5)
    assert vector.sigma == calibrated.sigma
    if epsilon == 0:  # dp-accounting divides by epsilon; the curve at 0 has a closed form.
        assert 2 / calibrated.sigma == pytest.approx(2 * stats.norm.ppf((1 + delta) / 2))
        return
    other = GaussianPrivacyLoss.from_privacy_guarantee(
        DifferentialPrivacyParameters(epsilon, delta), sensitivity=2.0
    )
    assert calibrated.sigma == pytest.approx(other.standard_deviation, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.0, 0.4), (0.5, 1.0), (3.0, 2.0), (9.0, 4.0)])
def test_the_curve_is_the_integral_of_the_excess_density(epsilon: float, mu: float) -> None:
    # The first density exceeds e^eps times the second from this point on.
    start = mu / 2 + epsilon / mu
    more, _ = integrate.quad(
        lambda y: stats.norm.pdf(y, mu) - math.exp(epsilon) * stats.norm.pdf(y),
        start,
        start + 12,
        epsabs=1e-14,
    )
    assert make_noise(4.0 / mu).delta(epsilon) == pytest.approx(more, rel=1e-9)


R = 5.0


EMBEDDINGS = arrays(np.float64, 3, elements=st.floats(-20, 20))


def embed(u: np.ndarray, v: np.ndarray, *, joint: bool = False) -> EmbeddingGaussian:
    return EmbeddingGaussian(sigma=3.0, bound=R, user=tuple(u), item=tuple(v), joint=joint)


@given(EMBEDDINGS, EMBEDDINGS)
def test_the_projection_is_feasible_and_nearest(raw: np.ndarray, other: np.ndarray) -> None:
    near, feasible = clip_embedding(raw, R), clip_embedding(other, R)
    assert (near >= 0).all()
    assert near @ near <= R * (1 + 1e-14)
    # The nearest point of a convex set: no other point of the set lies on the raw point's side.
    assert (raw - near) @ (feasible - near) <= 1e-9
    np.testing.assert_allclose(clip_embedding(near, R), near, rtol=1e-14)


@given(EMBEDDINGS, EMBEDDINGS, st.floats(0, R), st.booleans())
def test_changing_a_rating_never_exceeds_the_sensitivity(
    u: np.ndarray, v: np.ndarray, x: float, joint: bool
) -> None:
    assume(u.max() > 1e-9)
    step = embed(u, v, joint=joint)
    centers = step.compute_noiseless(np.array([-1.0, x, 0.0, R]))
    apart = np.linalg.norm(centers[:, None] - centers, axis=-1)
    assert apart.max() <= step.sensitivity * (1 + 1e-12)
    assert apart.max() == pytest.approx(step.mu * step.sigma)
    assert step.sensitivity == pytest.approx(2 * (2 if joint else 1) ** 0.5 * R**1.5)


@pytest.mark.parametrize("joint", [False, True])
def test_a_rating_of_r_at_orthogonal_embeddings_attains_the_bound(joint: bool) -> None:
    step = EmbeddingGaussian.create_worst_case(sigma=3.0, bound=R, joint=joint)
    none, rated = step.compute_noiseless(np.array([-1.0, R]))
    assert (none == 0).all()
    assert np.linalg.norm(rated) == pytest.approx(step.sensitivity)
    assert step.event() == GaussianDpEvent(3.0 / step.sensitivity)
    assert step.mu == pytest.approx(step.sensitivity / 3.0)


def test_a_rating_of_zero_at_equal_embeddings_attains_the_bound() -> None:
    e = np.array([math.sqrt(R), 0.0, 0.0])
    step = embed(e, e, joint=True)
    assert np.linalg.norm(step.compute_noiseless(np.array(0.0))) == pytest.approx(step.sensitivity)


def test_the_center_is_the_derivative_of_the_squared_error() -> None:
    u, v, x, step = np.array([0.4, 1.1, 0.2]), np.array([0.9, 0.3, 0.7]), 3.0, 1e-6

    def loss(w: np.ndarray) -> float:
        return float((x - w[:3] @ w[3:]) ** 2)

    at = np.r_[u, v]
    slow = [(loss(at + step * e) - loss(at - step * e)) / (2 * step) for e in np.eye(6)]
    joint = embed(u, v, joint=True).compute_noiseless(np.array(x))
    np.testing.assert_allclose(joint, slow, rtol=1e-8)
    np.testing.assert_allclose(embed(u, v).compute_noiseless(np.array(x)), slow[3:], rtol=1e-8)


def test_a_rating_hidden_by_a_row_is_revealed_by_the_other_row() -> None:
    assert embed(-np.ones(2), np.ones(2), joint=True).mu > 0


def build(
    n: int = 10, omega: float = 0.3, masked: int = 10, replaced: int = 10, *, ratio: float = 1.0
) -> NoiseReplacement:
    return NoiseReplacement(
        sigma=ratio * 2.0, sensitivity=2.0, n_users=n, omega=omega, masked=masked, replaced=replaced
    )


@st.composite
def runs(draw: st.DrawFn) -> NoiseReplacement:
    n = draw(st.integers(2, 12))
    omega = draw(st.integers(5, 90)) / 100
    # Excludes rounding just above the minimum, where the repaired protocol has no noise to remove.
    masked = draw(st.integers(math.floor((1 - omega) * n * (1 + 1e-9)) + 1, n))
    run = build(n, omega, masked, draw(st.integers(0, masked)))
    return replace(run, repaired=draw(st.booleans()))


@given(runs().filter(lambda run: run.replaced > 1), st.floats(1, 5), st.integers(0, 2**32 - 1))
def test_the_density_accounts_for_colluders_and_false_counts(
    run: NoiseReplacement, lie: float, seed: int
) -> None:
    """Compared with the run without the colluders, with the shares dealt as with them."""
    told = replace(run, announced=lie * run.masked, colluding=run.replaced - 1)
    out = told.randomize([0.0, 1.3], np.random.default_rng(seed))
    assert out.shape == (2, 2)
    slow = [
        stats.multivariate_normal.logpdf(y - g * np.eye(2)[0], cov=run.sigma**2 * table)
        for y, g in zip(out, [0.0, 1.3], strict=True)
        for table in [get_sum_and_message(told)]
    ]
    np.testing.assert_allclose(told.log_prob(out, [0.0, 1.3]), slow, rtol=1e-8, atol=1e-8)
    assert 1 / np.linalg.inv(get_sum_and_message(told))[0, 0] == pytest.approx(told.variance)


def get_sum_and_message(run: NoiseReplacement) -> np.ndarray:
    """Two numbers: the sum without the known parts, and the message of one honest user."""
    zeta1, zeta2 = 1 / ((1 - run.omega) * run.n_users), 1 / run.announced
    known = -(zeta1 - zeta2) if run.repaired else -zeta1
    blurred = zeta1 - zeta2 if run.repaired else zeta1 + zeta2
    return np.array([[(run.masked - run.replaced + 1) * zeta1, known], [known, blurred]])


def test_simulated_false_counts_leave_the_stated_variance() -> None:
    """10^5 runs with 2 of 9 users colluding and twice the true number of survivors announced."""
    n = 100_000
    for repaired in (False, True):
        run = replace(build(masked=9, replaced=8), colluding=2, announced=18, repaired=repaired)
        out = run.randomize(0.0, np.random.default_rng(1), (n,)) / run.sigma
        seen = (out[:, 0] + run.round_2_weight * out[:, 1:].sum(axis=1)).var() * n / run.variance
        assert 1e-9 < stats.chi2.cdf(seen, n - 1) < 1 - 1e-9


RATING = Scope.parse("rating / add-remove / server / training")


def make_revealed(z: float = 1.0, rate: float = 0.3, count: int = 4) -> RevealedGaussian:
    return RevealedGaussian(noise_multiplier=z, sampling_probability=rate, count=count)


@given(
    z=st.floats(0.3, 5.0),
    rate=st.floats(0.01, 1.0),
    count=st.integers(1, 12),
    epsilon=st.floats(0.0, 6.0),
)
@settings(max_examples=25)
def test_the_curve_is_the_mean_over_all_patterns_of_coins(
    z: float, rate: float, count: int, epsilon: float
) -> None:
    """By the explicit binomial distribution, and the two terms of each Gaussian's curve."""
    expected = 0.0
    for k in range(1, count + 1):
        chance = math.comb(count, k) * rate**k * (1 - rate) ** (count - k)
        mu = math.sqrt(k) / z
        far = stats.norm.cdf(mu / 2 - epsilon / mu)
        expected += chance * (far - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))
    assert make_revealed(z, rate, count).delta(epsilon) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("z", "rate", "count"), [(1.4144, 0.01, 1000), (0.8, 0.2, 30)])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_the_accountant_gives_the_same_epsilon(
    z: float, rate: float, count: int, delta: float
) -> None:
    mechanism = make_revealed(z, rate, count)
    least = find_exact_bound(mechanism, RATING, delta).epsilon
    proved = Pld().bound(mechanism.event(), delta=delta, scope=RATING).epsilon
    assert least <= proved <= least * 1.001 + 0.01


def make_sampled(
    z: float = 1.0, rate: float = 0.3, rounds: int = 1, steps: int = 1, opposite: float = 0.0
) -> SampledGaussian:
    law = {"noise_multiplier": z, "sampling_probability": rate, "opposite": opposite}
    return SampledGaussian(**law, rounds=rounds, local_steps=steps)


def integral(mechanism: SampledGaussian, epsilon: float) -> float:
    """Divergence of one round by quadrature of explicit densities."""
    z = mechanism.noise_multiplier * math.sqrt(mechanism.local_steps)
    q, n = mechanism.sampling_probability, mechanism.local_steps

    def density(shift: float) -> np.ndarray:
        return sum(
            math.comb(n, k) * q**k * (1 - q) ** (n - k) * stats.norm.pdf(x, k * shift, z)
            for k in range(n + 1)
        )

    x = np.linspace(-n * mechanism.opposite - 10 * z, n + 10 * z, 400_001)
    excess = np.maximum(density(1.0) - math.exp(epsilon) * density(-mechanism.opposite), 0.0)
    return float(integrate.simpson(excess, x=x))


@pytest.mark.parametrize(
    ("z", "rate", "steps", "opposite"),
    [(1.0, 0.3, 1, 0.0), (0.7, 0.2, 3, 0.0), (1.3, 0.5, 2, 0.8), (0.4, 0.1, 1, 1.0)],
)
def test_one_round_is_the_integral_from_below(
    z: float, rate: float, steps: int, opposite: float
) -> None:
    mechanism = make_sampled(z, rate, 1, steps, opposite)
    for epsilon in (0.0, 0.5, 2.0):
        exact = integral(mechanism, epsilon)
        assert exact - 0.01 <= mechanism.delta(epsilon) <= exact + 1e-9


@given(
    z=st.floats(0.6, 4.0),
    rate=st.floats(0.01, 0.6),
    rounds=st.integers(1, 40),
    delta=st.sampled_from([1e-6, 1e-3, 0.05]),
)
@settings(max_examples=8)
def test_single_steps_stay_just_below_the_proof(
    z: float, rate: float, rounds: int, delta: float
) -> None:
    """Compared with dp-accounting's Poisson-sampled Gaussian, from above."""
    grid = 1e-3
    proof = privacy_loss_distribution.from_gaussian_mechanism(
        z, sampling_prob=rate, value_discretization_interval=grid
    ).self_compose(rounds)
    epsilon = proof.get_epsilon_for_delta(delta)
    mechanism = make_sampled(z, rate, rounds)
    assert mechanism.delta(epsilon) <= delta * (1 + 1e-9)
    if epsilon > 0.1:
        assert mechanism.delta(epsilon - 0.05) > delta


@given(
    z=st.floats(0.5, 4.0),
    rate=st.floats(0.01, 1.0),
    rounds=st.integers(1, 20),
    steps=st.integers(1, 4),
    epsilon=st.floats(0.0, 4.0),
)
@settings(max_examples=20)
def test_curves_of_smaller_views_are_smaller(
    z: float, rate: float, rounds: int, steps: int, epsilon: float
) -> None:
    """Views with sums instead of steps, and views of steps with secret draws."""
    sums = make_sampled(z, rate, rounds, steps).delta(epsilon)
    parts = make_sampled(z, rate, rounds * steps).delta(epsilon)
    told = RevealedGaussian(
        noise_multiplier=z, sampling_probability=rate, count=rounds * steps
    ).delta(epsilon)
    slack = parts - make_sampled(z, rate, rounds * steps).delta(epsilon + 0.05)  # for both grids
    assert sums <= parts + slack + 1e-9
    assert parts <= told + 1e-9


def test_full_sampling_gives_one_gaussian_in_sums_too() -> None:
    for steps in (1, 4):
        mechanism = make_sampled(2.0, 1.0, 5, steps, 0.5)
        exact = compute_gaussian_delta(1.5 * math.sqrt(5 * steps) / 2.0, 1.0)
        assert exact - 0.01 <= mechanism.delta(1.0) <= exact


def test_large_shifts_reveal_the_drawn_rows() -> None:
    """The curve is between two Gaussian curves for an adversary that sees which rows are drawn.

    The upper one is at twice the distance. The lower one is at the distance from 0, less -ln q for
    every drawn row, because an output is a drawn row or an outlier without a draw.
    """
    mechanism = make_sampled(0.1, 0.01, 1000, 1, 1.0)
    near, far = (
        RevealedGaussian(noise_multiplier=z, sampling_probability=0.01, count=1000)
        for z in (0.1, 0.05)
    )
    for epsilon in (300.0, 600.0, 1000.0):
        assert mechanism.delta(epsilon) <= far.delta(epsilon)
        assert mechanism.delta(epsilon) >= near.delta(epsilon + 5.0 * epsilon / 40) > 1e-4


def test_the_curve_decreases_to_zero() -> None:
    mechanism = make_sampled(1.0, 0.1, 20, 2)
    curve = [mechanism.delta(epsilon) for epsilon in np.linspace(0, 30, 200)]
    assert all(a >= b for a, b in itertools.pairwise(curve))
    assert mechanism.delta(1e4) == 0.0


def test_failure_probabilities_and_shares_are_subtracted() -> None:
    law = RevealedGaussian(noise_multiplier=1.0, sampling_probability=0.5, count=3)
    whole = law.delta(1.0)
    less = LowerBoundMechanism(
        mechanism=law, p_follows=0.5, p_deviates_present=1e-3, p_deviates_absent=1e-4
    )
    assert less.delta(1.0) == pytest.approx(0.5 * whole - 1e-3 - math.e * 1e-4)
    assert LowerBoundMechanism(mechanism=law, p_deviates_present=1.0).delta(0.0) == 0.0
    assert LowerBoundMechanism(mechanism=law, p_deviates_absent=1e-300).delta(1e6) == 0.0
    assert LowerBoundMechanism(mechanism=law).delta(1.0) == whole
    assert less.event() == law.event()


def test_failure_probabilities_must_be_probabilities() -> None:
    law = RevealedGaussian(noise_multiplier=1.0, sampling_probability=0.5, count=3)
    check_ranges(LowerBoundMechanism(mechanism=law))
    with pytest.raises(InputError, match="a method delta"):
        LowerBoundMechanism(mechanism=Repeated(Laplace(scale=1.0, low=0.0, high=1.0), 3))
