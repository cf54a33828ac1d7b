"""Honest mechanisms that checks took for broken ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.verification import verify_ldp
from fedrec_auditor.auditor.verification.check import Status


def _on_a_grid(x: float, rng: np.random.Generator, size: int) -> Any:
    return x + np.round(rng.laplace(0.0, 1.0, size), 1)


def _smooth_sensitivity(x: float, rng: np.random.Generator, size: int) -> Any:
    """Epsilon .258 on [0, 1]."""
    return x + 4.0 * np.exp(0.1 * x) * rng.standard_cauchy(size)


def _scaled_to_the_data(x: float, rng: np.random.Generator, size: int) -> Any:
    return x + rng.laplace(0.0, max(abs(x), 0.1), size)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "inputs", "check", "fails"),
    [
        (_on_a_grid, 1.2, [0.0, 1.0], "support", False),
        (_smooth_sensitivity, 0.6, [0.0, 0.5, 1.0], "clipping", False),
        (_scaled_to_the_data, 5.0, [0.5, 1.0], "clipping", True),
    ],
)
def test_a_check_fails_what_is_broken_only(
    mechanism: Callable[..., Any],
    epsilon: float,
    inputs: Sequence[float],
    check: str,
    fails: bool,
) -> None:
    found = verify_ldp(mechanism, epsilon=epsilon, inputs=inputs, samples=200_000)
    assert found.verdict is not Verdict.VIOLATED
    (status,) = (each.status for each in found.checks if each.name == check)
    assert (status is Status.FAILED) == fails
