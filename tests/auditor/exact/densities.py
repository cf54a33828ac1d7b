"""Distributions written as by a third party, and a short call of the search, for tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import assume, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.exact.output_distribution import Density
from fedrec_auditor.auditor.exact.pair_search import DivergenceSearch, LogRatioSearch
from fedrec_auditor.auditor.exact.search import search_exact_bound
from fedrec_auditor.targets.mechanisms.base import Domain

Rows = NDArray[np.float64] | Sequence[NDArray[np.float64]]
FEW_EXAMPLES = settings(max_examples=25, database=None, derandomize=True)
UNIT = Domain(low=0, high=1)
# Draws per input to find rare outputs: no distribution here has rarer ones.
DRAWS = 20_000


def search(
    mechanism: Any,
    epsilon: float,
    delta: float = 0.0,
    inputs: Any = None,
    seed: int = 0,
    samples: int = DRAWS,
) -> Bound:
    """Runs the search with a third of its usual Hypothesis examples, which suffice here."""
    with (
        mock.patch.object(LogRatioSearch, "max_examples", 60),
        mock.patch.object(DivergenceSearch, "max_examples", 30),
    ):
        return search_exact_bound(
            mechanism,
            epsilon=epsilon,
            delta=delta,
            inputs=inputs,
            seed=np.random.SeedSequence(seed),
            samples=samples,
        )


def make_additive(log_density: Any, noise: Any, domain: Domain | None = UNIT) -> Density:
    """Additive noise on a number, given by the two functions that a third party has."""
    return Density(
        sample=lambda x, rng, size: x + noise(rng, size),
        log_prob=lambda y, x: log_density(np.asarray(y, dtype=float) - x),
        domain=domain,
    )


def laplace(scale: float, domain: Domain | None = UNIT) -> Density:
    return make_additive(
        lambda z: -np.abs(z) / scale - math.log(2 * scale),
        lambda rng, size: rng.laplace(0, scale, size),
        domain,
    )


def gaussian(sigma: float) -> Density:
    return make_additive(
        lambda z: -0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi)),
        lambda rng, size: rng.normal(0, sigma, size),
    )


def make_table(rows: NDArray[np.float64]) -> Density:
    """A mechanism given by probabilities: the input is a row, the output a column."""
    with np.errstate(divide="ignore"):
        logs = np.log(rows)

    def log_prob(output: Any, value: Any) -> Any:
        column = np.asarray(output)
        inside = (column >= 0) & (column < rows.shape[1])
        return np.where(inside, logs[int(value), np.where(inside, column, 0)], -np.inf)

    return Density(
        sample=lambda x, rng, size: rng.choice(rows.shape[1], size, p=rows[int(x)]),
        log_prob=log_prob,
        domain=Domain(low=0, high=len(rows) - 1, values=tuple(map(float, range(len(rows))))),
    )


def slow_epsilon(rows: Rows) -> float:
    """The largest log-ratio of two rows, by a double loop over the definition."""
    worst = 0.0
    for p, q in itertools.permutations(rows, 2):
        for a, b in zip(p, q, strict=True):
            if a > 0:
                worst = max(worst, math.log(a / b) if b > 0 else math.inf)
    return worst


def slow_delta(rows: Rows, epsilon: float) -> float:
    """The largest hockey-stick divergence of two rows, by a double loop over the definition."""
    return max(
        sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))
        for p, q in itertools.permutations(rows, 2)
    )


def assert_least(epsilon: float, rows: Rows, delta: float) -> None:
    """Asserts that ``epsilon`` is the smallest that holds for ``rows`` at ``delta``."""
    if math.isfinite(epsilon):
        assert slow_delta(rows, epsilon) <= delta + 1e-9
    if epsilon > 1e-6:
        assert slow_delta(rows, min(epsilon, 50.0) - 1e-6) > delta - 1e-9


@st.composite
def draw_tables(draw: st.DrawFn) -> NDArray[np.float64]:
    shape = draw(st.tuples(st.integers(2, 4), st.integers(2, 5)))
    size = math.prod(shape)
    weights = draw(st.lists(st.integers(0, 20), min_size=size, max_size=size))
    rows = np.array(weights, dtype=float).reshape(shape)
    assume((rows.sum(axis=1) > 0).all())
    return rows / rows.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class IntegerNoise:
    """Integer noise from a log-weight, normalised over [-400, 400]."""

    log_weight: Any
    domain = Domain(low=0, high=3, values=(0.0, 1.0, 2.0, 3.0))

    @cached_property
    def _logs(self) -> NDArray[np.float64]:
        logs = np.array([self.log_weight(k) for k in range(-400, 401)], dtype=float)
        return np.asarray(logs - special.logsumexp(logs))

    def __call__(self, value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
        p = np.exp(self._logs)
        return int(value) + rng.choice(np.arange(-400, 401), size, p=p / p.sum())

    def log_prob(self, output: Any, value: Any) -> NDArray[np.float64]:
        k = np.asarray(output) - int(value)
        inside = np.abs(k) <= 400
        return np.where(inside, self._logs[np.where(inside, k, 0) + 400], -np.inf)
