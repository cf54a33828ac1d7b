"""Outputs that drift with time or calls, in the same way for all inputs, are not accused."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.verdict import Verdict
from tests.points import later

Mechanism = Callable[..., Any]
Rng = np.random.Generator


def told(bit: int, rng: Rng, epsilon: float) -> int:
    return bit if rng.random() < 1 / (1 + np.exp(-epsilon)) else 1 - bit


def told_all(bit: int, rng: Rng, size: int, epsilon: float) -> Any:
    return np.where(rng.random(size) < 1 / (1 + np.exp(-epsilon)), bit, 1 - bit)


def epoch(epsilon: float) -> Mechanism:
    """Reports with an epoch that changes after every thousand calls."""
    calls = itertools.count()
    return lambda bit, rng: {"epoch": next(calls) // 1000, "bit": told(bit, rng, epsilon)}


def ticking(epsilon: float) -> Mechanism:
    """Reports with a clock of seven values, each for a hundred calls."""
    calls = itertools.count()
    return lambda bit, rng: (next(calls) // 100 % 7, told(bit, rng, epsilon))


def walking(epsilon: float) -> Mechanism:
    """A number with Laplace noise around a centre that drifts slowly."""
    walk = np.cumsum(0.02 * np.random.default_rng(1).standard_normal(200_000))
    centre = iter(walk.tolist())
    return lambda bit, rng: float(bit + next(centre) + rng.laplace(scale=1 / epsilon))


def by_the_clock(epsilon: float) -> Mechanism:
    return lambda bit, rng: {"ms": int(time.time() * 1000) % 1000, "bit": told(bit, rng, epsilon)}


def counter(epsilon: float) -> Mechanism:
    calls = itertools.count()
    return lambda bit, rng: {"n": next(calls), "bit": told(bit, rng, epsilon)}


def log_line(epsilon: float) -> Mechanism:
    calls = itertools.count()
    return lambda bit, rng: f"id={next(calls)} bit={told(bit, rng, epsilon)}"


def batch_numbers(epsilon: float) -> Mechanism:
    """Calls for many outputs, which contain the number of the call."""
    calls = itertools.count()
    return lambda bit, rng, size: np.stack(
        [np.full(size, next(calls)), told_all(bit, rng, size, epsilon)], axis=1
    )


def batch_epochs(epsilon: float) -> Mechanism:
    """Calls for many outputs, which contain an epoch that advances after every 5,000 outputs."""
    outputs = itertools.count()
    return lambda bit, rng, size: np.stack(
        [[next(outputs) // 5000 % 7 for _ in range(size)], told_all(bit, rng, size, epsilon)],
        axis=1,
    )


DRIFTING = {
    "an epoch": (epoch, "output.epoch follows the order of calls"),
    "a clock of few values": (ticking, "entry 0 follows the order of calls"),
    "a walk": (walking, ""),
    "milliseconds": (by_the_clock, "output.ms follows the order of calls"),
    "a counter": (counter, "output.n follows the order of calls"),
    "a line of text": (log_line, "output piece 1 follows the order of calls"),
    "batch numbers": (batch_numbers, "entry 0 follows the order of calls"),
    "batch epochs": (batch_epochs, ""),
}


@pytest.mark.parametrize("drift", DRIFTING)
@pytest.mark.parametrize("seed", [0, *map(later, (1, 2))])
def test_an_honest_mechanism_is_not_accused(drift: str, seed: int) -> None:
    mechanism, note = DRIFTING[drift]
    found = verify_ldp(mechanism(0.5), epsilon=1.0, inputs=[0, 1], samples=4_000, seed=seed)
    assert found.verdict is Verdict.UNSUBSTANTIATED
    assert found.epsilon_lower < 0.7
    assert {check.name for check in found.faults} <= {"floating point"}
    (noise,) = (check.reason for check in found.checks if check.name == "shared noise")
    assert note in noise


@pytest.mark.parametrize("drift", [name for name in DRIFTING if name != "a line of text"])
def test_a_leak_is_found_beside_it(drift: str) -> None:
    found = verify_ldp(DRIFTING[drift][0](3.0), epsilon=1.0, inputs=[0, 1], samples=4_000, seed=0)
    assert found.verdict is Verdict.VIOLATED
    assert 1.0 < found.epsilon_lower <= 3.0


@pytest.mark.parametrize("step", [0.03, *map(later, (0.12, 0.5)), 2.0])
def test_a_leak_is_found_beside_a_clock_of_any_pace(step: float) -> None:
    """Regression: a rule on past values of the clock did not detect the leaked bit."""
    calls = itertools.count()

    def report(bit: int, rng: Rng) -> dict[str, int]:
        return {"ms": int(next(calls) * step) % 1000, "bit": told(bit, rng, 3.0)}

    found = verify_ldp(report, epsilon=1.0, inputs=[0, 1], samples=4_000, seed=0)
    assert found.verdict is Verdict.VIOLATED
    assert found.epsilon_lower > 2.0


def test_noise_that_every_user_gets_for_a_while_is_no_drift() -> None:
    """The output has a counter too, and little noise of its own, which does not keep the claim."""
    calls = itertools.count()
    noise: list[float] = []

    def shared(bit: int, rng: Rng) -> tuple[int, float]:
        n = next(calls)
        if n % 1000 == 0:
            noise[:] = [rng.laplace(scale=2.0)]
        return n, float(bit + noise[0] + rng.laplace(scale=0.05))

    found = verify_ldp(shared, epsilon=1.0, inputs=[0, 1], samples=20_000)
    assert "shared noise" in {check.name for check in found.faults}


def test_an_inverted_sampler_that_jumps_between_calls_is_not_accused() -> None:
    """The outputs lie on a grid that moves by half a step, for every input."""
    calls = itertools.count()

    def moved(x: float, rng: Rng, size: int) -> Any:
        return np.round(x + rng.laplace(scale=4.0, size=size)) + next(calls) // 40 % 2 / 2

    for seed in range(3):
        found = verify_ldp(moved, epsilon=0.5, inputs=[0.0, 1.0], samples=20_000, seed=seed)
        assert not found.faults
