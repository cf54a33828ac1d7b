"""Tests of noise shared by outputs of one call, or by entries of one output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.verification.checks.shared_evidence import check_call_pairs
from fedrec_auditor.auditor.verification.checks.shared_noise import _find_basis, check_shared_noise
from tests.auditor.verification.checks.evidence import collect

Rng = np.random.Generator
VECTORS = [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
BITS = [[0, 0, 1], [1, 0, 1], [1, 1, 1]]


def check_call(f: Any, seed: int = 0) -> CheckResult | None:
    return collect(f, seed=seed).shared_noise_result


def check_entries(f: Any, inputs: Any, **more: Any) -> CheckResult:
    return check_shared_noise(collect(f, inputs, **{"samples": 50_000, **more}))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng, size: np.full(size, x + rng.laplace()),
        lambda x, rng, size: np.full(size, x ^ (rng.random() < 0.3)),
        lambda x, rng, size: np.tile(x + rng.laplace(size=(size + 1) // 2), 2)[:size],
        lambda x, rng, size: np.tile(x + rng.laplace(size=3), (size, 1)),
    ],
    ids=["one number", "one bit", "every other", "one vector"],
)
def test_noise_of_a_call_is_found(f: Any) -> None:
    found = check_call(f)
    assert found.status is CheckStatus.FAILED


def antithetic_halves(x: Any, rng: Rng, size: int) -> Any:
    noise = rng.laplace(size=size - size // 2)
    return x + np.concatenate([noise, -noise])[:size]


def antithetic_neighbours(x: Any, rng: Rng, size: int) -> Any:
    noise = rng.laplace(size=(size + 1) // 2)
    return x + np.stack([noise, -noise], axis=1).ravel()[:size]


def moving_average(x: Any, rng: Rng, size: int) -> Any:
    noise = rng.normal(size=size + 3)
    return x + noise[3:] + noise[2:-1] + noise[1:-2] + noise[:-3]


def telescoping(x: Any, rng: Rng, size: int) -> Any:
    return x + np.diff(rng.laplace(size=size + 1))


def stratified(x: Any, rng: Rng, size: int) -> Any:
    uniform = (rng.permutation(size) + rng.random(size)) / size
    return x - np.log(1 / uniform - 1)


def exact_share(x: Any, rng: Rng, size: int) -> Any:
    return np.where(rng.permutation(size) < round(0.73 * size), x, 1 - x)


def copy_bits(x: Any, rng: Rng, size: int) -> Any:
    bits = np.where(rng.random(size) < 0.73, x, 1 - x)
    odd = np.arange(1, size, 2)
    bits[odd] = np.where(rng.random(len(odd)) < 0.8, bits[odd - 1], bits[odd])
    return bits


@pytest.mark.parametrize(
    "f",
    [
        antithetic_halves,
        antithetic_neighbours,
        moving_average,
        telescoping,
        stratified,
        exact_share,
        copy_bits,
    ],
)
def test_dependence_within_a_call_is_found(f: Any) -> None:
    for seed in range(3):
        found = check_call(f, seed=seed)
        assert found.status is CheckStatus.FAILED


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng, size: x + rng.laplace(size=size),
        lambda x, rng, size: x ^ (rng.random(size) < 0.3),
        lambda x, rng, size: x ^ (rng.random(size) < 1e-3),
        lambda x, rng, size: rng.integers(0, 1 << 12, size),
        lambda x, rng, size: np.zeros(size),
        lambda x, rng, size: np.round(x + rng.laplace(size=size), 2),
    ],
    ids=["laplace", "bit", "rare bit", "birthdays", "constant", "rounded"],
)
def test_honest_calls_are_not_accused(f: Any) -> None:
    assert all(check_call(f, seed=seed) is None for seed in range(30))


def make_additive(*shape: Any) -> Any:
    def f(x: Any, rng: Rng, size: int) -> Any:
        return np.asarray(x) + rng.laplace(0.0, 2.0, (size, *shape))

    return f


def weighted(x: Any, rng: Rng, size: int) -> Any:
    noise = rng.laplace(0.0, 2.0, (size, 2))
    return np.asarray(x) + np.stack([noise[:, 0], noise[:, 1], 2 * noise[:, 0] - noise[:, 1]], 1)


def some_bits(x: Any, rng: Rng, size: int) -> Any:
    flips = rng.random((size, 2)) < 0.3
    return np.asarray(x) ^ np.concatenate([flips, flips[:, :1] ^ flips[:, 1:]], axis=1)


@pytest.mark.parametrize(
    ("f", "inputs", "word"),
    [
        (make_additive(1), VECTORS, "weighted sum"),
        (weighted, VECTORS, "weighted sum"),
        (lambda x, rng, size: np.float32(make_additive(1)(x, rng, size)), VECTORS, "weighted sum"),
        (lambda x, rng, size: np.asarray(x) + [0, 1, 1] * rng.laplace(0.0, 2.0, (size, 3)),
         VECTORS, "Entry 0"),
        (lambda x, rng, size: np.asarray(x) ^ (rng.random((size, 1)) < 0.3), BITS, "exclusive or"),
        (some_bits, BITS, "exclusive or of the entries 0, 1, 2"),
    ],
    ids=["one for all", "dependent", "single", "bare entry", "one flip", "dependent flips"],
)  # fmt: skip
def test_noise_of_entries_is_found(f: Any, inputs: Any, word: str) -> None:
    found = check_entries(f, inputs)
    assert found.status is CheckStatus.FAILED
    assert word in found.reason


def one_hot(x: int, rng: Rng, size: int) -> Any:
    return np.eye(4)[np.where(rng.random(size) < 0.4, x, rng.integers(0, 4, size))]


def index_and_bit(x: Any, rng: Rng, size: int) -> Any:
    index = rng.integers(0, 3, size)
    bit = rng.random(size) < np.where(np.asarray(x)[index] > 0, 0.7, 0.3)
    return np.stack([index, bit], axis=1)


@pytest.mark.parametrize(
    ("f", "inputs"),
    [
        (make_additive(3), VECTORS),
        (lambda x, rng, size: np.asarray(x) + rng.laplace(0, [1e-6, 1.0, 1e6], (size, 3)),
         [[0.0, 0.0, 0.0], [1e-7, 0.1, 1e5]]),
        (one_hot, [0, 1, 2, 3]),
        (index_and_bit, VECTORS),
        (lambda x, rng, size: np.asarray(x) ^ (rng.random((size, 3)) < 0.3), BITS),
        (lambda x, rng, size: np.repeat(rng.random((size, 1)) < 0.5 + 0.1 * x, 3, axis=1), [0, 1]),
        (lambda x, rng, size: np.eye(2)[(rng.random(size) < 0.3) ^ x], [0, 1]),
    ],
    ids=["laplace", "scales", "one-hot", "index and bit", "flips", "said thrice", "two-hot"],
)  # fmt: skip
def test_honest_vectors_pass(f: Any, inputs: Any) -> None:
    assert check_entries(f, inputs).status is CheckStatus.PASSED


def test_a_large_claim_is_left_open() -> None:
    assert check_entries(make_additive(1), VECTORS, epsilon=30.0).status is CheckStatus.NOT_RUN


@given(st.lists(st.integers(0, 255), max_size=12))
@settings(max_examples=100)
def test_echelon_spans_what_it_is_given(vectors: list[int]) -> None:
    rows = _find_basis(vectors)
    span = {0}
    for row in rows.values():
        span |= {row ^ other for other in span}
    assert len(span) == 2 ** len(rows)
    closure = {0}
    for vector in vectors:
        closure |= {vector ^ other for other in closure}
    assert span == closure
    for pivot in rows:
        assert sum(row >> pivot & 1 for row in rows.values()) == 1


class Antithetic:
    """Noise of which ``later`` calls are drawn, and the next ``later`` calls are its negatives."""

    def __init__(self, later: int = 1) -> None:
        self.kept: list[Any] = []
        self.later = later
        self.calls = 0

    def noise(self, draw: Any) -> Any:
        self.calls += 1
        if (self.calls - 1) // self.later % 2:
            return -self.kept.pop(0)
        self.kept.append(draw())
        return self.kept[-1]


def check_calls(f: Any) -> CheckResult:
    return check_shared_noise(collect(f, samples=12_000))


def draw_every(count: int, draw: Any) -> Any:
    """A randomizer that draws new noise only in every ``count``-th call."""
    state: dict[str, Any] = {"calls": 0}

    def f(x: Any, rng: Rng) -> Any:
        if state["calls"] % count == 0:
            state["noise"] = draw(rng)
        state["calls"] += 1
        return x + state["noise"]

    return f


def make_antithetic(later: int, f: Any) -> Any:
    source = Antithetic(later)
    return lambda x, rng: f(x, rng, source)


@pytest.mark.parametrize(
    "f",
    [
        draw_every(2, lambda rng: rng.laplace()),
        draw_every(10, lambda rng: rng.laplace()),
        draw_every(3, lambda rng: rng.normal(size=3)),
        make_antithetic(1, lambda x, rng, a: int(a.noise(rng.normal) > 0.3) ^ x),
        make_antithetic(2, lambda x, rng, a: int(a.noise(rng.normal) > 0.3) ^ x),
        make_antithetic(1, lambda x, rng, a: x + a.noise(rng.laplace)),
        make_antithetic(3, lambda x, rng, a: x + a.noise(lambda: rng.normal(size=2))),
        make_antithetic(1, lambda x, rng, a: "yes" if a.noise(rng.normal) > 0.5 else "no"),
    ],
    ids=["two", "ten", "three, vectors", "bits", "bits, two later", "laplace", "vectors", "words"],
)
def test_noise_shared_by_calls_is_found(f: Any) -> None:
    found = check_calls(f)
    assert found.status is CheckStatus.FAILED
    assert "in every call" in found.reason


def test_noise_shared_by_calls_for_many_outputs_is_found() -> None:
    source = Antithetic()
    found = check_call(lambda x, rng, size: x + source.noise(lambda: rng.laplace(size=size)))
    assert "the next call" in found.reason


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng: x + rng.laplace(),
        lambda x, rng: int(rng.random() < 0.3) ^ x,
        lambda x, rng: int(rng.random() < 1e-3) ^ x,
        lambda x, rng: x + rng.normal(size=3),
        lambda x, rng: x,
        lambda x, rng: str(rng.integers(3)),
    ],
    ids=["laplace", "bit", "rare bit", "vector", "constant", "words"],
)
def test_independent_calls_are_not_accused(f: Any) -> None:
    assert check_calls(f).status is not CheckStatus.FAILED


@pytest.mark.parametrize("calls", [np.zeros(2000), np.arange(40) % 2])
def test_uninformative_calls_do_not_pass(calls: Any) -> None:
    assert check_call_pairs(calls[:, None], 0, 1e-6).status is CheckStatus.NOT_RUN


@pytest.mark.calibration
def test_independent_calls_are_accused_at_the_stated_rate() -> None:
    """Tests 500 sequences of independent bits at an error of 5%."""
    rng = np.random.default_rng(5)
    accused = sum(
        check_call_pairs(rng.random((400, 1)) < 0.3, 0, 0.05).status is CheckStatus.FAILED
        for _ in range(500)
    )
    assert accused <= 40  # 25 are expected; more than 40 have probability 2e-3
