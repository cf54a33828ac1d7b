"""Every epsilon that a specimen states, worked out a second way: from draws, or by another law."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.sampler import Sampler
from tests.specimens.randomizer import Randomizer, solve_epsilon, solve_mu
from tests.specimens.randomizers import INNOCENTS, RANDOMIZERS

# They change only where a specimen does.
pytestmark = pytest.mark.calibration
PURE = [(name, specimen) for name, specimen in RANDOMIZERS.items() if specimen.delta == 0]
STATED = [
    *((f"broken: {n}", s.broken, s.inputs, s.truth) for n, s in PURE),
    *((f"twin: {n}", s.twin, s.inputs, s.twin_truth) for n, s in PURE),
    *((f"innocent: {n}", i.randomizer, i.inputs, i.truth) for n, i in INNOCENTS.items()),
]
# Ratios beyond e^6 are too rare to be counted.
MEASURED = [row for row in STATED if row[3] < 6]


def count_outcomes(draws: list[NDArray[Any]]) -> NDArray[np.int64]:
    """Counts of (inputs, outcomes); many values fall into bins, a vector's by its corners."""
    flat = np.concatenate(draws).reshape(len(draws) * len(draws[0]), -1)
    if len(np.unique(flat[:5000], axis=0)) > 100:
        edges = np.unique(np.quantile(flat, np.arange(1, 64) / 64)) if flat.shape[1] == 1 else [-1]
        flat = np.digitize(flat, edges)
    codes = np.zeros(len(flat), dtype=np.int64)
    for column in flat.T:
        values, places = np.unique(column, return_inverse=True)
        codes = codes * len(values) + places
    codes = codes.reshape(len(draws), -1)
    return np.stack([np.bincount(row, minlength=codes.max() + 1) for row in codes])


@pytest.mark.parametrize("stated", MEASURED, ids=lambda stated: stated[0])
def test_the_stated_epsilon_is_what_counts_show(
    stated: tuple[str, Randomizer, list[Any], float],
) -> None:
    """The largest log-ratio of counts lies within six standard errors of it."""
    _, randomizer, inputs, truth = stated
    sampler = Sampler.wrap(randomizer)
    size = 100_000 if sampler.takes_size else 20_000
    rngs = np.random.default_rng(11).spawn(len(inputs))
    counts = count_outcomes([sampler.draw(x, r, size) for x, r in zip(inputs, rngs, strict=True)])
    pairs = np.array(list(itertools.permutations(range(len(inputs)), 2)))
    a, b = counts[pairs[:, 0]], counts[pairs[:, 1]]
    frequent = np.minimum(a, b) >= 100
    assert (a[~frequent] < 2000).all(), "An outcome of one input only: its epsilon is infinite."
    a, b = a[frequent], b[frequent]
    ratio, error = np.log(a / b), np.sqrt(1 / a + 1 / b)
    assert (ratio - 6 * error).max() <= truth + 1e-9 <= (ratio + 6 * error).max() + 2e-9


def test_gaussian_epsilons_by_another_library() -> None:
    for name, specimen in RANDOMIZERS.items():
        if "Gaussian at" in name or "variance" in name:
            mu = solve_mu(specimen.truth, specimen.delta)
            other = get_epsilon_gaussian(1 / mu, specimen.delta)
            assert other == pytest.approx(specimen.truth, rel=1e-6)
    assert get_epsilon_gaussian(1 / solve_mu(1.0, 1e-5), 1e-5) == pytest.approx(1.0, rel=1e-6)
    assert solve_epsilon(solve_mu(7.0, 0.3), 0.3) == pytest.approx(7.0)


def test_delta_for_each_coordinate_by_enumeration() -> None:
    """All 4^8 reports: the twin keeps (1, 0.01), the broken one keeps no epsilon at 0.01."""
    keep = 1 / (1 + math.exp(-1 / 8))

    def get_laws(delta: float) -> tuple[NDArray[Any], NDArray[Any]]:
        zero = np.array([(1 - delta) * keep, (1 - delta) * (1 - keep), delta, 0.0])
        one = zero[[1, 0, 3, 2]]
        first = second = np.ones(1)
        for _ in range(8):
            first, second = np.outer(first, zero).ravel(), np.outer(second, one).ravel()
        return first, second

    p, q = get_laws(0.01 / 8)
    assert np.maximum(p - math.e * q, 0).sum() <= 0.01
    p, q = get_laws(0.01)
    assert p[q == 0].sum() > 0.07


def test_specimens_state_a_violation_and_twins_none() -> None:
    assert len(RANDOMIZERS) >= 26
    for specimen in RANDOMIZERS.values():
        assert specimen.twin_truth <= specimen.epsilon < specimen.truth
    assert all(innocent.truth <= innocent.claim["epsilon"] for innocent in INNOCENTS.values())
