"""Bounds and noise that follow the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.check import Check, Status
from fedrec_auditor.auditor.verification.checks.clipping import clipping
from fedrec_auditor.auditor.worlds.sampler import UsedUp
from fedrec_auditor.targets.mechanisms.laplace import Laplace
from tests.auditor.verification.checks.evidence import evidence
from tests.specimens.randomizer import duchi, piecewise

Rng = np.random.Generator
NUMBERS = (0.0, 1.0)
VECTORS = (np.zeros(5), np.array([1.0, 0.5, 0.2, -0.5, -1.0]))


def look(f: Any, inputs: Any = NUMBERS, **more: Any) -> Check:
    return clipping(evidence(f, inputs, **more))


def noise(x: Any, rng: Rng, size: int, scale: float = 1.0) -> Any:
    return np.asarray(x) + rng.laplace(0.0, scale, (size, *np.shape(x)))


def median_bound(x: Any, rng: Rng, size: int) -> Any:
    bound = np.median(np.abs(x))
    return noise(np.clip(x, -bound, bound), rng, size)


@pytest.mark.parametrize(
    ("f", "inputs"),
    [
        (lambda x, rng, size: noise(x, rng, size, max(abs(x), 1e-9)), NUMBERS),
        (lambda x, rng, size: noise(x, rng, size, max(abs(x), 1.0)), NUMBERS),
        (lambda x, rng, size: noise(x, rng, size, max(1.0, np.abs(x).max())), VECTORS),
        (median_bound, VECTORS),
    ],
    ids=["noise", "noise beyond a floor", "largest entry", "median"],
)
def test_what_follows_the_data_is_found(f: Any, inputs: Any) -> None:
    assert look(f, inputs).status is Status.FAILED


@pytest.mark.parametrize(
    ("f", "inputs"),
    [
        (lambda x, rng, size: noise(np.clip(x, 0, 1), rng, size), NUMBERS),
        (lambda x, rng, size: noise(np.clip(x, -2, 2), rng, size), NUMBERS),
        (lambda x, rng, size: noise(np.tanh(x), rng, size), NUMBERS),
        (lambda x, rng, size: noise(x / max(1.0, np.linalg.norm(x)), rng, size), VECTORS),
    ],
    ids=["clip", "wider clip", "squashed", "norm"],
)
def test_fixed_bounds_pass(f: Any, inputs: Any) -> None:
    found = look(f, inputs)
    assert found.status is Status.PASSED
    assert "one place" in found.reason


def student(degrees: float) -> Any:
    return lambda x, rng, size: x + 2 * x * rng.standard_t(degrees, size)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_may_follow_the_data(degrees: int, seed: int) -> None:
    """As that of smooth sensitivity does (Nissim, Raskhodnikova and Smith 2007)."""
    assert look(student(degrees), (1.0, 1.2), seed=seed).status is Status.NOT_RUN


def test_a_scale_of_smooth_sensitivity_may_as_well() -> None:
    """Epsilon .258 on [0, 1]."""
    found = look(
        lambda x, rng, size: x + 4.0 * np.exp(0.1 * x) * rng.standard_cauchy(size), (0.0, 0.5, 1.0)
    )
    assert found.status is Status.NOT_RUN


@pytest.mark.parametrize(
    ("inputs", "delta", "status"),
    [
        ((1.0, 1.1), 0.01, Status.NOT_RUN),
        ((1.0, 3.0), 0.01, Status.FAILED),
        ((1.0, 1.1), 0.0, Status.FAILED),
    ],
)
def test_a_delta_lets_scales_differ_a_little(inputs: Any, delta: float, status: Status) -> None:
    for draw in (Rng.laplace, Rng.normal):
        found = look(
            lambda x, rng, size, draw=draw: x + draw(rng, 0, 4 * x, size), inputs, delta=delta
        )
        assert found.status is status


def refuses(x: float, rng: Rng, size: int) -> Any:
    if abs(x) > 1:
        raise ValueError("out of range")
    return noise(x, rng, size)


def test_refusing_passes() -> None:
    assert "refuses" in look(refuses).reason
    assert look(refuses).status is Status.PASSED
    assert look(Laplace(scale=1.0, low=0.0, high=1.0)).status is Status.PASSED


@pytest.mark.parametrize("samples", [21_000, 22_000, 23_000])
def test_draws_that_are_used_up_are_no_refusal(samples: int) -> None:
    with pytest.raises(UsedUp, match="draws that are its share"):
        look(noise, samples=samples)


def rejecting(scale: float) -> Any:
    """Laplace drawn again until it lies in [0, 1]: at 64 it would never end."""

    def f(x: float, rng: Rng) -> float:
        while not 0.0 <= (y := x + rng.laplace(0.0, scale)) <= 1.0:
            pass
        return float(y)

    return f


@pytest.mark.parametrize(
    ("f", "inputs"),
    [
        *[(piecewise(e, swap), (-1.0, 1.0)) for e in (0.1, 1.0, 4.0) for swap in (False, True)],
        (duchi(1.0), (-1.0, 1.0)),
        (lambda x, rng, size: np.where(rng.random(size) < 0.7, x, -x), (-1.0, 1.0)),
        (lambda x, rng, size: np.where(rng.random(size) < 0.7, x, 1 - x), NUMBERS),
        (rejecting(1.0), NUMBERS),
        (rejecting(0.02), NUMBERS),
        (lambda x, rng, size: x * np.exp(rng.laplace(size=size)), (1.0, 2.0)),
        (noise, NUMBERS),
        (noise, VECTORS),
        (lambda x, rng, size: noise(x, rng, size, 1000.0), NUMBERS),
        (lambda x, rng, size: x + np.random.default_rng().laplace(size=size), NUMBERS),
        (noise, (0, 1)),
        (lambda x, rng, size: np.full(size, x), ("a", "b")),
    ],
)
def test_bounded_and_linear_ones_are_not_accused(f: Any, inputs: Any) -> None:
    assert look(f, inputs).status is Status.NOT_RUN


def test_outputs_unlike_the_input_are_refused() -> None:
    with pytest.raises(InputError, match="shape of an input"):
        look(lambda x, rng, size: rng.laplace(x, 1.0, (size, 2)))


def test_what_is_made_for_the_unit_sphere_is_not_asked_beyond_it() -> None:
    """Its noise is scaled to the length of the input, 1; of other inputs, that is the fault."""

    def direction(x: Any, rng: Rng, size: int) -> Any:
        return x + np.linalg.norm(x) * rng.normal(size=(size, 3))

    sphere = [np.array([0.6, 0.0, 0.8]), np.array([-0.6, 0.8, 0.0])]
    assert look(direction, sphere).status is Status.NOT_RUN
    assert look(direction, [*sphere, np.array([0.5, 0.0, 0.5])]).status is Status.FAILED
