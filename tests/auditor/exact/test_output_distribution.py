"""Tests of distributions claimed by log_prob: masses of outputs, divergences and bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.fit import CheckStatus
from fedrec_auditor.auditor.exact.output_distribution import (
    MAX_NEG_LOG_PROB,
    Density,
    is_single_precision,
    lift_underflow,
)
from fedrec_auditor.auditor.verification.checks.support import check_support
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from tests.auditor.exact.densities import (
    FEW_EXAMPLES,
    IntegerNoise,
    assert_least,
    draw_tables,
    gaussian,
    laplace,
    make_table,
    search,
    slow_delta,
)
from tests.auditor.verification.checks.evidence import collect
from tests.points import later


@given(draw_tables(), st.sampled_from([0.01, 0.2]))
@FEW_EXAMPLES
def test_epsilon_at_delta_is_where_the_divergence_equals_delta(
    rows: NDArray[np.float64], delta: float
) -> None:
    assert_least(search(make_table(rows), 0.5, delta).epsilon, rows, delta)


@pytest.mark.parametrize(
    ("sigma", "delta"), [(0.5, 1e-5), (3.0, 1e-2), later(0.5, 1e-2), later(3.0, 1e-5)]
)
def test_densities_without_a_curve_are_integrated_from_below(sigma: float, delta: float) -> None:
    found = search(gaussian(sigma), 100.0, delta).epsilon
    assert compute_gaussian_delta(1 / sigma, found) >= delta * (1 - 1e-9)
    assert compute_gaussian_delta(1 / sigma, found + 1e-3) < delta
    truth = 2.0 + 2.0 * math.log1p(-delta)
    assert truth - 1e-4 < search(laplace(0.5), 9.0, delta).epsilon <= truth + 1e-9


class TooLowCurve(Gaussian):
    """A broken mechanism: its curve is that of half the distance between inputs."""

    def delta(self, epsilon: float) -> float:
        return compute_gaussian_delta((self.high - self.low) / self.sigma / 2, epsilon)


def test_a_curve_that_is_too_low_does_not_lower_the_bound() -> None:
    honest, too_low = (kind(sigma=1.0, low=0, high=1) for kind in (Gaussian, TooLowCurve))
    found = search(too_low, 3.0, 1e-5)
    assert found.epsilon == pytest.approx(search(honest, 3.0, 1e-5).epsilon, abs=1e-3)
    assert found.witness is not None


def test_infinite_discrete_outputs_have_a_lower_bound() -> None:
    found = search(IntegerNoise(lambda k: -0.5 * abs(int(k))), 1.5, 0.01).epsilon
    p = np.exp(-0.5 * np.abs(np.arange(-100, 101)))
    rows = [p / p.sum(), np.roll(p / p.sum(), 3)]
    assert slow_delta(rows, found) >= 0.01 * (1 - 1e-6)
    assert slow_delta(rows, found + 0.02) < 0.01


def is_refuted(thing: Any, epsilon: float, inputs: list[Any]) -> bool:
    return exceeds(search(thing, epsilon, inputs=inputs, seed=1).epsilon, epsilon)


def geometric(last: int) -> Density:
    """Two-sided geometric noise cut off at 0 and ``last``: epsilon is exactly 1 per unit.

    The log-probabilities come from a table of probabilities, as authors write them: they underflow.
    """
    numbers = np.arange(last + 1)
    probs = np.exp(-np.abs(numbers[:, None] - numbers)) * math.tanh(0.5)
    probs[:, 0], probs[:, -1] = (np.exp(-d) / (1 + math.exp(-1)) for d in (numbers, numbers[::-1]))
    with np.errstate(divide="ignore"):
        logs = np.log(probs)

    def log_prob(output: Any, value: int) -> Any:
        inside = (np.asarray(output) >= 0) & (np.asarray(output) <= last)
        return np.where(inside, logs[value][np.where(inside, output, 0)], -np.inf)

    def sample(value: int, rng: np.random.Generator, size: int) -> Any:
        return rng.choice(last + 1, size, p=probs[value])

    return Density(sample=sample, log_prob=log_prob)


@pytest.mark.parametrize("inputs", [list(range(0, 1001, 83)), [0, 996]])
def test_an_underflow_is_not_an_impossible_output(inputs: list[int]) -> None:
    law = geometric(1000)
    assert not is_refuted(law, 996.0, inputs)
    assert is_refuted(law, 590.0, inputs)
    found = check_support(collect(law, inputs, epsilon=996.0, samples=3_000, law=True))
    assert found.status is CheckStatus.PASSED


def make_float32_laplace(shape: tuple[int, ...]) -> Density:
    def log_prob(output: Any, value: float) -> Any:
        away = np.abs(np.asarray(output, dtype=np.float32) - np.float32(value))
        logs = -away - np.float32(math.log(2.0))
        return logs.sum(axis=tuple(range(1, 1 + len(shape))), dtype=np.float32)

    return Density(
        sample=lambda x, rng, size: x + rng.laplace(size=(size, *shape)), log_prob=log_prob
    )


@pytest.mark.parametrize("shape", [(), (50,)])
def test_single_precision_refutes_no_tight_claim(shape: tuple[int, ...]) -> None:
    epsilon = float(math.prod(shape))
    assert not is_refuted(make_float32_laplace(shape), epsilon, [0.0, 1.0])
    assert is_refuted(make_float32_laplace(shape), 0.999 * epsilon, [0.0, 1.0])


def test_single_precision_is_detected_from_the_bits() -> None:
    logs = np.log(np.random.default_rng(0).random(20))
    assert is_single_precision(logs.astype(np.float32).astype(float))
    assert not is_single_precision(logs)
    assert not is_single_precision(np.array([0.0, -np.inf, -1.0, -0.5]))


LOGS = st.one_of(st.just(-math.inf), st.floats(-2000.0, 0.0), st.floats(-750.0, -700.0))


@given(hnp.arrays(np.float64, (3, 4), elements=LOGS), st.floats(0.0, 2000.0))
def test_underflow_is_raised_only_as_far_as_the_claim_allows(log_probs: Any, claim: float) -> None:
    raised = lift_underflow(log_probs, claim)
    assert (raised >= log_probs).all()
    assert (raised.max(axis=0) == log_probs.max(axis=0)).all()
    changed = raised != log_probs
    high = np.broadcast_to(log_probs.max(axis=0), log_probs.shape)
    assert (high[changed] - raised[changed] <= claim).all()
    assert (high < claim - MAX_NEG_LOG_PROB)[changed].all()


@pytest.mark.parametrize("scale", [0.05, 0.02, 0.01])
def test_little_noise_has_a_finite_epsilon_at_delta(scale: float) -> None:
    """Masses of cells underflow, but not their logs; exact epsilon: d/scale + 2 ln(1 - delta)."""

    def bound(claim: float) -> float:
        return search(laplace(scale, None), claim, 1e-5, inputs=[0.0, 20.0], seed=1).epsilon

    truth = 20.0 / scale + 2.0 * math.log1p(-1e-5)
    assert truth / 3 < bound(truth) <= truth + 1e-6
    assert 300.0 < bound(300.0) <= truth + 1e-6
