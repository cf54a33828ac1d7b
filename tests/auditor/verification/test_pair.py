"""Tests of search_pair: it returns a simple pair with a large epsilon in few calls, repeatably."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification.verification import make_claim
from fedrec_auditor.auditor.verification.verify import search_pair
from fedrec_auditor.auditor.worlds.sampler import Sampler


def search(randomizer: Any, strategy: Any, epsilon: float = 1.0, delta: float = 0.0) -> list[Any]:
    return search_pair(
        Sampler.wrap(randomizer),
        strategy,
        claim=make_claim(epsilon, delta),
        samples=60_000,
        seed=np.random.SeedSequence(3),
    )


def leak_at_7(x: int, rng: np.random.Generator, size: int) -> Any:
    return rng.random(size) < (0.02 if x == 7 else 0.3)


def response(x: int, rng: np.random.Generator) -> int:
    return int((rng.random() < 0.75) == bool(x))


def laplace(x: float, rng: np.random.Generator, size: int) -> Any:
    return x + rng.laplace(0.0, 1.0, size)


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_a_single_bad_input_of_many_is_found(delta: float) -> None:
    assert sorted(search(leak_at_7, st.integers(0, 20), delta=delta)) == [0, 7]


def test_without_a_violation_the_worst_pair_is_returned() -> None:
    assert sorted(search(response, st.integers(0, 1), epsilon=9.0)) == [0, 1]
    a, b = search(laplace, st.floats(0, 1))
    assert abs(a - b) > 0.8


def test_a_violating_pair_is_simple() -> None:
    a, b = search(laplace, st.floats(-100, 100))
    assert float(a).is_integer()
    assert float(b).is_integer()
    assert abs(a - b) > 1


def test_the_search_is_repeatable_and_bounded() -> None:
    drawn = 0

    def counted(x: float, rng: np.random.Generator, size: int) -> Any:
        nonlocal drawn
        drawn += size
        return laplace(x, rng, size)

    first = search(counted, st.floats(0, 5))
    assert 0 < drawn <= 120 * 1_000
    assert search(counted, st.floats(0, 5)) == first


def test_a_leaking_entry_of_long_vectors_is_found() -> None:
    def leaky(x: Any, rng: np.random.Generator, size: int) -> Any:
        return rng.random(size) < (0.9 if x[8] else 0.3)

    bits = st.lists(st.booleans(), min_size=16, max_size=16).map(np.array)
    a, b = search(leaky, bits)
    assert a[8] != b[8]


def test_bad_strategies_and_callables_are_refused() -> None:
    with pytest.raises(InputError, match="2 or more values"):
        search(laplace, st.just(0.5))
    with pytest.raises(InputError, match="TypeError"):
        search(laplace, st.sampled_from(["a", "b"]))
