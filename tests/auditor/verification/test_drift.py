"""What drifts with time or with the number of calls, alike for all inputs, accuses nobody."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.verdict import Verdict

Mechanism = Callable[[int, np.random.Generator], Any]


def told(bit: int, rng: np.random.Generator, epsilon: float) -> int:
    return bit if rng.random() < 1 / (1 + np.exp(-epsilon)) else 1 - bit


def counted(epsilon: float) -> Mechanism:
    """Reports with an epoch, which is another after every thousand calls."""
    calls = itertools.count()
    return lambda bit, rng: {"epoch": next(calls) // 1000, "bit": told(bit, rng, epsilon)}


def ticking(epsilon: float) -> Mechanism:
    """Reports with a clock of seven values, each of which lasts for a hundred calls."""
    calls = itertools.count()
    return lambda bit, rng: (next(calls) // 100 % 7, told(bit, rng, epsilon))


def wandering(epsilon: float) -> Mechanism:
    """A number with Laplace noise around a centre that walks slowly away."""
    walk = np.cumsum(0.01 * np.random.default_rng(1).standard_normal(200_000))
    centre = iter(walk.tolist())
    return lambda bit, rng: float(bit + next(centre) + rng.laplace(scale=1 / epsilon))


DRIFTING = {"an epoch": counted, "a clock": ticking, "a walk": wandering}


@pytest.mark.parametrize("drift", DRIFTING)
@pytest.mark.parametrize("seed", range(3))
def test_an_honest_mechanism_is_not_accused(drift: str, seed: int) -> None:
    found = verify_ldp(DRIFTING[drift](0.5), epsilon=1.0, inputs=[0, 1], samples=4_000, seed=seed)
    assert found.verdict is Verdict.UNSUBSTANTIATED
    assert found.epsilon_lower < 0.7


@pytest.mark.parametrize("drift", DRIFTING)
def test_a_leak_is_found_beside_it(drift: str) -> None:
    found = verify_ldp(DRIFTING[drift](3.0), epsilon=1.0, inputs=[0, 1], samples=4_000, seed=0)
    assert found.verdict is Verdict.VIOLATED
    assert 1.0 < found.epsilon_lower <= 3.0
