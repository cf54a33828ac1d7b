"""Tests of events of noise: comparisons and rounding have the exact probability."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from fedrec_auditor.auditor.tracing.trace import NotTraced
from tests.auditor.tracing.distributions import compute_epsilon, follow, list_probs

Rng = np.random.Generator
E = math.e


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (lambda rng: rng.geometric(0.5) <= 2, 0.75),
        (lambda rng: rng.geometric(0.5) < 2, 0.5),
        (lambda rng: rng.geometric(0.5) >= 2, 0.5),
        (lambda rng: rng.geometric(0.5) > 2, 0.25),
        (lambda rng: rng.geometric(0.5) == 2, 0.25),
        (lambda rng: rng.geometric(0.5) != 2, 0.75),
        (lambda rng: rng.geometric(0.5) < 2.5, 0.75),
        (lambda rng: 3 - rng.geometric(0.5) <= 1, 0.5),
        (lambda rng: 3 - rng.geometric(0.5) < 1, 0.25),
        (lambda rng: rng.geometric(0.5) - rng.geometric(0.5) > 0, 1 / 3),
        (lambda rng: math.floor(rng.exponential()) <= 1, 1 - E**-2),
        (lambda rng: math.floor(rng.exponential()) < 1, 1 - 1 / E),
        (lambda rng: math.floor(rng.exponential()) == 1, 1 / E - E**-2),
        (lambda rng: -math.log(1 - rng.random()) > 0.5, E**-0.5),
        (lambda rng: np.log(rng.random()) < -1, 1 / E),
        (lambda rng: min(-np.log1p(-rng.random()), 1.0) == 1.0, 1 / E),
        (lambda rng: rng.laplace() > 1, 0.5 / E),
        (lambda rng: abs(rng.laplace()) <= 1, 1 - 1 / E),
        (lambda rng: np.sign(rng.laplace(0, 2)) == -1, 0.5),
        (lambda rng: math.copysign(2, rng.laplace(1)) > 0, 1 - 0.5 / E),
        (lambda rng: rng.normal(1, 2) < 3, ndtr(1)),
        (lambda rng: rng.normal() + rng.normal() < math.sqrt(2), ndtr(1)),
        (lambda rng: rng.exponential() - rng.exponential() > 1, 0.5 / E),
        (lambda rng: 0.25 < rng.random() < 0.75, 0.5),
        (lambda rng: round(rng.random() * 10) == 3, 0.1),
        (lambda rng: int(rng.random() * 3 - 1.5) == 0, 2 / 3),
        (lambda rng: math.ceil(rng.uniform(-1, 1)) == 0, 0.5),
        (lambda rng: round(rng.laplace(), 1) <= 0.1, 1 - 0.5 * E**-0.15),
    ],
)
def test_events(event: Callable[[Rng], Any], expected: float) -> None:
    (dist,) = follow(lambda x, rng: bool(event(rng)), [0]).dists
    assert float(list_probs(dist)["value", (True,)]) == pytest.approx(expected, rel=1e-12)


def _used_again(x: float, rng: Rng) -> Any:
    noise = rng.normal()
    return x + noise + rng.normal(), noise


def _known_in_part(x: float, rng: Rng) -> Any:
    noise = rng.normal()
    return x + noise + rng.normal() if noise > 0 else x


def _one_coin_of_two_noises(x: float, rng: Rng) -> Any:
    coin = rng.integers(2)
    return x * coin + rng.laplace(), coin + rng.laplace()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_used_again, "is used again"),
        (_known_in_part, "no density that tracing knows"),
        (_one_coin_of_two_noises, "two noises that depend on the same random draws"),
    ],
)
def test_noises_that_depend_on_each_other_are_refused(function: Any, reason: str) -> None:
    with pytest.raises(NotTraced, match=reason):
        compute_epsilon(function, [0.0, 1.0])
