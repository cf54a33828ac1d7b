"""Counts in parts, against a slow reading of their definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import cuts_between, histogram
from fedrec_auditor.auditor.worlds.estimators.parts.rule_selection import _middles

CUTS = st.lists(st.integers(-4, 4).map(lambda x: x / 2), unique=True, min_size=1, max_size=9)
VALUES = st.lists(
    st.one_of(st.integers(-3, 3), st.sampled_from([-math.inf, 0.5, 2.5, math.inf])), min_size=1
)


def parts(values: np.ndarray, cuts: list[float]) -> list[list[float]]:
    ends = [-math.inf, *cuts, math.inf]
    found = [
        [x for x in values.tolist() if low <= x < high] for low, high in itertools.pairwise(ends)
    ]
    found[-1] += [x for x in values.tolist() if x == math.inf]
    return found


@given(VALUES, CUTS)
def test_every_value_is_counted_in_its_part(values: list[float], cuts: list[float]) -> None:
    cuts.sort()
    floats = np.array(values, dtype=np.float64)
    whole = floats[np.isfinite(floats)].astype(np.int8)
    for array in (floats, whole, whole > 0, np.abs(whole).astype(np.uint64)):
        expected = [len(part) for part in parts(array, cuts)]
        assert histogram(array, np.array(cuts)).tolist() == expected


@given(VALUES, VALUES, CUTS)
def test_the_middle_of_a_part_is_the_mean_in_it(
    first: list[float], second: list[float], cuts: list[float]
) -> None:
    cuts.sort()
    one, other = np.clip(first, -9, 9), np.clip(second, -9, 9)
    expected = [np.mean(part) if part else math.nan for part in parts(np.append(one, other), cuts)]
    assert np.allclose(_middles(one, other, np.array(cuts)), expected, equal_nan=True)


def test_an_atom_in_a_grid_is_cut_out_though_hundreds_of_other_values_came_oftener() -> None:
    """In a grid of 1/1024 under Laplace noise, each input itself at a rate of .0003."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = np.repeat([0.0, 1.0], 100_000)
        noise = np.round((0.5 * inputs + rng.laplace(size=200_000)) * 1024) / 1024
        values = np.where(rng.random(200_000) < 3e-4, inputs, noise)
        counts = np.unique(values, return_counts=True)[1]
        assert (counts > np.count_nonzero(values == 1.0)).sum() > 128
        assert {1.0, float(np.nextafter(1.0, np.inf))} <= set(cuts_between(values).tolist())
