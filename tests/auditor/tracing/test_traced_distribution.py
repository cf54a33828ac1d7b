"""Tests of outputs with several components that depend on one draw or one noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.auditor.tracing.distributions import compute_epsilon, follow

Rng = np.random.Generator
DEPENDENT: list[Any] = []


def case(expected: float, *inputs: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        DEPENDENT.append(pytest.param(function, expected, inputs or (0, 1), id=function.__name__))
        return function

    return add


@case(1.0)
def twice_the_same(x: int, rng: Rng) -> Any:
    y = x + rng.laplace()
    return y, 2 * y + 1, y > 0


@case(math.inf)
def beside_its_noise(x: int, rng: Rng) -> Any:
    noise = rng.laplace()
    return x + noise, noise


@case(math.inf)
def added_and_subtracted(x: int, rng: Rng) -> Any:
    noise = rng.normal()
    return np.array([x + noise, x - noise])


@case(2.0)
def of_two_noises(x: int, rng: Rng) -> Any:
    return x + rng.laplace(), x + rng.laplace()


@case(1.0 + math.log(3))
def beside_its_sign(x: int, rng: Rng) -> Any:
    noise = rng.laplace()
    return (noise > 0) ^ (rng.random() < 0.25), x + noise


@case(math.inf)
def one_coin_in_two_bits(x: int, rng: Rng) -> Any:
    u = rng.random()
    return x ^ int(u < 0.25), x ^ int(u < 0.5)


@case(math.log(3))
def one_coin_that_hides_itself(x: int, rng: Rng) -> Any:
    flip = int(rng.random() < 0.25)
    return [x ^ flip, flip ^ flip, 1 - (x ^ flip)]


@case(math.log((math.e + 1) / 2))
def a_shift_by_a_coin(x: int, rng: Rng) -> Any:
    return np.where(rng.random() < 0.5, x + rng.laplace(), rng.laplace())


@case(math.log(3))
def a_bit_within_noise(x: int, rng: Rng) -> Any:
    return (x ^ int(rng.random() < 0.25)) * 10 + rng.uniform()


@case(math.inf, 1, 2)
def the_scale(x: float, rng: Rng) -> Any:
    return x * rng.laplace()


@case(math.inf)
def the_support(x: int, rng: Rng) -> Any:
    y = rng.laplace()
    return x + y if y > 0 else None


@case(0.5, 0, 0.5)
def whole_parts(x: float, rng: Rng) -> Any:
    return math.floor(x + rng.laplace())


@case(math.log(4 / 3))
def other_parts_by_path(x: int, rng: Rng) -> Any:
    return [1, 2] if rng.random() < (0.5 if x else 0.25) + 0.25 * (1 - x) / 2 else [3]


@case(math.inf)
def the_structure(x: int, rng: Rng) -> Any:
    return {"a": 1} if x and rng.random() < 1e-6 else {"b": 1}


@case(math.log(2))
def two_paths_beside_another(x: int, rng: Rng) -> Any:
    if rng.random() < (0.5 if x else 0.25):
        return None
    return [rng.integers(2)] if rng.random() < 0.5 else [1 - rng.integers(2)]


@case(math.inf)
def the_structure_of_noise(x: int, rng: Rng) -> Any:
    noise = rng.laplace()
    return ["raw", noise] if x and rng.random() < 1e-6 else noise


@case(math.log(2))
def a_number_beside_a_lattice(x: int, rng: Rng) -> Any:
    return rng.geometric(0.5) if rng.random() < (0.5 if x else 0.25) else 0


@case(math.log(9 / 8))
def a_number_on_a_lattice(x: int, rng: Rng) -> Any:
    return rng.geometric(0.5) if rng.random() < (0.9 if x else 0.8) else 1


@case(math.log(1.5))
def a_cut_lattice_against_numbers(x: int, rng: Rng) -> Any:
    return rng.choice([1, 2, 3]) if x else np.clip(rng.geometric(0.5), 1, 3)


@case(0.0)
def the_same_by_other_paths(x: int, rng: Rng) -> Any:
    if x:
        return int(rng.random() < 0.5)
    return rng.integers(2) if rng.random() < 0.125 else 1 - rng.integers(2)


@pytest.mark.parametrize(("function", "expected", "inputs"), DEPENDENT)
def test_epsilon_of_dependent_components(
    function: Callable[..., Any], expected: float, inputs: Any
) -> None:
    assert compute_epsilon(function, list(inputs)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_log_probabilities_are_those_of_the_distribution() -> None:
    trace = follow(a_bit_within_noise, [0, 1])
    found = trace.log_prob(np.array([0.5, 10.5, 1.5]), trace.inputs[0])
    assert np.exp(found) == pytest.approx([0.75, 0.25, 0.0])
    trace = follow(beside_its_sign, [0, 1])
    found = trace.log_prob([True, 1.0], trace.inputs[0])
    assert np.exp(found) == pytest.approx(0.75 * 0.5 / math.e)
