"""Tests of outputs that drift with time or calls for all inputs alike, which is not accused."""

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


def answer(bit: int, rng: Rng, epsilon: float) -> int:
    return bit if rng.random() < 1 / (1 + np.exp(-epsilon)) else 1 - bit


def answer_all(bit: int, rng: Rng, size: int, epsilon: float) -> Any:
    return np.where(rng.random(size) < 1 / (1 + np.exp(-epsilon)), bit, 1 - bit)


def add_epoch(epsilon: float) -> Mechanism:
    """Reports with an epoch that changes after every thousand calls."""
    calls = itertools.count()
    return lambda bit, rng: {"epoch": next(calls) // 1000, "bit": answer(bit, rng, epsilon)}


def add_clock(epsilon: float) -> Mechanism:
    """Reports with a clock of seven values, each for a hundred calls."""
    calls = itertools.count()
    return lambda bit, rng: (next(calls) // 100 % 7, answer(bit, rng, epsilon))


def add_walk(epsilon: float) -> Mechanism:
    """A number with Laplace noise around a centre that drifts slowly."""
    walk = np.cumsum(0.02 * np.random.default_rng(1).standard_normal(200_000))
    centre = iter(walk.tolist())
    return lambda bit, rng: float(bit + next(centre) + rng.laplace(scale=1 / epsilon))


def add_milliseconds(epsilon: float) -> Mechanism:
    return lambda bit, rng: {"ms": int(time.time() * 1000) % 1000, "bit": answer(bit, rng, epsilon)}


def add_counter(epsilon: float) -> Mechanism:
    calls = itertools.count()
    return lambda bit, rng: {"n": next(calls), "bit": answer(bit, rng, epsilon)}


def write_log_line(epsilon: float) -> Mechanism:
    calls = itertools.count()
    return lambda bit, rng: f"id={next(calls)} bit={answer(bit, rng, epsilon)}"


def add_batch_number(epsilon: float) -> Mechanism:
    """Calls for many outputs, which contain the number of the call."""
    calls = itertools.count()
    return lambda bit, rng, size: np.stack(
        [np.full(size, next(calls)), answer_all(bit, rng, size, epsilon)], axis=1
    )


def add_batch_epoch(epsilon: float) -> Mechanism:
    """Calls for many outputs, which contain an epoch that advances after every 5,000 outputs."""
    outputs = itertools.count()
    return lambda bit, rng, size: np.stack(
        [[next(outputs) // 5000 % 7 for _ in range(size)], answer_all(bit, rng, size, epsilon)],
        axis=1,
    )


DRIFTS = {
    "an epoch": (add_epoch, "output.epoch follows the order of calls"),
    "a clock of few values": (add_clock, "entry 0 follows the order of calls"),
    "a walk": (add_walk, ""),
    "milliseconds": (add_milliseconds, "output.ms follows the order of calls"),
    "a counter": (add_counter, "output.n follows the order of calls"),
    "a line of text": (write_log_line, "output piece 1 follows the order of calls"),
    "batch numbers": (add_batch_number, "entry 0 follows the order of calls"),
    "batch epochs": (add_batch_epoch, ""),
}


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize("seed", [0, *map(later, (1, 2))])
def test_an_honest_mechanism_is_not_accused(drift: str, seed: int) -> None:
    mechanism, note = DRIFTS[drift]
    found = verify_ldp(mechanism(0.5), epsilon=1.0, inputs=[0, 1], samples=4_000, seed=seed)
    assert found.verdict is Verdict.UNSUBSTANTIATED
    assert found.epsilon_lower < 0.7
    assert {check.name for check in found.faults} <= {"floating point"}
    (noise,) = (check.reason for check in found.checks if check.name == "shared noise")
    assert note in noise


@pytest.mark.parametrize("drift", [name for name in DRIFTS if name != "a line of text"])
def test_a_leak_beside_a_drift_is_found(drift: str) -> None:
    found = verify_ldp(DRIFTS[drift][0](3.0), epsilon=1.0, inputs=[0, 1], samples=4_000, seed=0)
    assert found.verdict is Verdict.VIOLATED
    assert 1.0 < found.epsilon_lower <= 3.0


@pytest.mark.parametrize("step", [0.03, *map(later, (0.12, 0.5)), 2.0])
def test_a_leak_beside_a_clock_of_any_pace_is_found(step: float) -> None:
    """Regression: a rule on past values of the clock did not detect the leaked bit."""
    calls = itertools.count()

    def report(bit: int, rng: Rng) -> dict[str, int]:
        return {"ms": int(next(calls) * step) % 1000, "bit": answer(bit, rng, 3.0)}

    found = verify_ldp(report, epsilon=1.0, inputs=[0, 1], samples=4_000, seed=0)
    assert found.verdict is Verdict.VIOLATED
    assert found.epsilon_lower > 2.0


def test_noise_shared_by_many_calls_is_not_a_drift() -> None:
    """The output also has a counter, and little independent noise, which violates the claim."""
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
    """The outputs are on a grid that moves by half a step, for every input."""
    calls = itertools.count()

    def moved(x: float, rng: Rng, size: int) -> Any:
        return np.round(x + rng.laplace(scale=4.0, size=size)) + next(calls) // 40 % 2 / 2

    for seed in range(3):
        found = verify_ldp(moved, epsilon=0.5, inputs=[0.0, 1.0], samples=20_000, seed=seed)
        assert not found.faults
