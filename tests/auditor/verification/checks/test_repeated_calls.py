"""Tests of clocks (columns that follow the order of calls) and of determinism.

Another seed must give other outputs.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.exact.fit import CheckStatus
from fedrec_auditor.auditor.verification.checks.repeated_calls import (
    _log_repeat_prob,
    check_determinism,
    find_clock_columns,
)
from tests.auditor.verification.checks.evidence import collect
from tests.specimens.randomizer import make_flip

# Input of each output: two inputs in turn, four outputs per call.
PLACES = np.repeat([*[0, 1] * 33, 0], 4)


@pytest.mark.parametrize("changes", [(40, 84), (40, 80), (42, 90), ()], ids=str)
def test_an_epoch_is_a_clock_at_any_change(changes: tuple[int, ...]) -> None:
    """An epoch may end equally often before calls of both inputs, which rank tests miss."""
    epoch = np.searchsorted(changes, np.arange(len(PLACES)), side="right").astype(float)
    counter = np.arange(len(PLACES))
    found = find_clock_columns(np.stack([epoch, counter], axis=1), PLACES)
    assert found == ((0, 1) if changes else (1,))


def test_a_column_that_depends_on_the_input_is_not_a_clock() -> None:
    rng = np.random.default_rng(0)
    places = np.repeat(rng.integers(2, size=80), 4)
    leaking = places + np.arange(len(places)) // 100
    fresh = rng.integers(7, size=len(places))
    assert find_clock_columns(np.stack([leaking, fresh], axis=1), places) == ()


Rng = np.random.Generator


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng, size: x + np.random.default_rng(0).laplace(size=size),
        lambda x, rng, size: x + np.random.default_rng(x).laplace(size=size),
        lambda x, rng, size: x ^ (np.random.default_rng(x + 5).random(size) < 0.3),
        lambda x, rng: x + np.random.default_rng(0).laplace(),
        lambda x, rng, size: np.full(size, x),
        lambda x, rng: x,
        lambda x, rng: "yes" if x else "no",
    ],
    ids=["one seed", "seed by input", "bits", "one a call", "identity", "clear", "words"],
)
def test_predictable_noise_is_found(f: Any) -> None:
    assert check_determinism(collect(f)).status is CheckStatus.FAILED


def test_memoised_outputs_are_found() -> None:
    kept: dict[tuple[int, int], Any] = {}

    def memoised(x: int, rng: Rng, size: int) -> Any:
        return kept.setdefault((x, size), x + rng.laplace(size=size))

    assert check_determinism(collect(memoised)).status is CheckStatus.FAILED


@pytest.mark.parametrize(
    "f",
    [
        make_flip(1.0),
        lambda x, rng, size: x + rng.laplace(size=size),
        lambda x, rng: x + rng.geometric(0.5) - rng.geometric(0.5),
        lambda x, rng, size: np.stack([rng.integers(0, 3, size), rng.integers(0, 2, size)], 1),
    ],
    ids=["response", "laplace", "geometric", "vector"],
)
def test_honest_randomizers_pass(f: Any) -> None:
    found = check_determinism(collect(f))
    assert found.status is CheckStatus.PASSED
    assert "source of its own" not in found.reason


def test_an_own_generator_is_not_a_fault() -> None:
    found = check_determinism(
        collect(lambda x, rng, size: x + np.random.default_rng().laplace(size=size))
    )
    assert found.status is CheckStatus.PASSED
    assert "does not reproduce" in found.reason


def test_rare_outputs_are_not_evidence() -> None:
    """At epsilon 20 no answer is false; at 6 one or two are, sometimes at equal positions."""
    assert check_determinism(collect(make_flip(20.0), epsilon=20.0)).status is CheckStatus.NOT_RUN
    for seed in range(100):
        found = check_determinism(collect(make_flip(6.0), epsilon=6.0, samples=3840, seed=seed))
        assert found.status is not CheckStatus.FAILED


def test_constant_outputs_are_not_a_fault() -> None:
    found = check_determinism(collect(lambda x, rng, size: np.zeros(size)))
    assert found.status is CheckStatus.NOT_RUN


def test_the_probability_equals_a_count_of_all_orders() -> None:
    """The probability is the share of orders of the draws in which the two batches are equal."""
    rows = np.array([[0], [1], [1], [2]])
    pool = [0, 1, 1, 2] * 2
    orders = set(itertools.permutations(pool))
    equal = sum(order[:4] == order[4:] for order in orders)
    assert math.exp(_log_repeat_prob(rows)) == pytest.approx(equal / len(orders))
