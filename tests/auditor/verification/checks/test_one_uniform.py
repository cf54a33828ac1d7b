"""Inverting a sampler by running it on uniforms of one's choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.verification.checks.floating_point import BITS, OneUniform
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace

Rng = np.random.Generator


def laplace(x: float, rng: Rng, size: int) -> Any:
    return x + rng.laplace(0.0, 1.0, size)


def coarse(x: float, rng: Rng, size: int) -> Any:
    """Made of the first 10 bits of a uniform only: all outputs can be listed."""
    u = np.floor(rng.random(size) * 1024.0) / 1024.0
    return x + np.log(u + 0.5 / 1024.0)


def sampler(f: Any, inputs: list[Any], shape: tuple[int, ...] = ()) -> OneUniform | None:
    return OneUniform.recognise(Sampler.of(f), inputs, shape, np.random.default_rng(3))


def uniforms(*shape: int) -> Any:
    return np.random.default_rng(5).integers(1, 1 << BITS, shape)


def test_uniforms_are_those_asked_for() -> None:
    found = sampler(lambda x, rng, size: x + rng.random(size), [0.0])
    wanted = uniforms(1000)
    np.testing.assert_array_equal(found.outputs(0.0, wanted), wanted * 2.0**-BITS)


def test_numpys_formula_is_reproduced_to_the_last_bit() -> None:
    """numpy's Laplace: ln(2u) below one half, -ln(2 - 2u) above, by the C library's logarithm."""
    found = sampler(laplace, [0.0, 1.0])
    wanted = uniforms(500)
    u = wanted * 2.0**-BITS
    noise = [math.log(v + v) if v < 0.5 else -math.log(2.0 - v - v) for v in u.tolist()]
    np.testing.assert_array_equal(found.outputs(1.0, wanted), 1.0 + np.array(noise))


def test_one_output_a_call_is_inverted_as_well() -> None:
    found = sampler(lambda x, rng: x + rng.laplace(), [0.0])
    batch = sampler(laplace, [0.0])
    np.testing.assert_array_equal(
        found.outputs(0.0, uniforms(50)), batch.outputs(0.0, uniforms(50))
    )


@pytest.mark.parametrize("falling", [False, True])
def test_inversion_agrees_with_the_list_of_all_outputs(falling: bool) -> None:
    """Oracle: the 1024 outputs under either input, listed."""
    sign = -1.0 if falling else 1.0
    found = sampler(lambda x, rng, size: sign * coarse(x, rng, size), [0.0, 0.75])
    assert found.rises is not falling
    everything = sign * np.log((np.arange(1024) + 0.5) / 1024.0)
    outputs = found.outputs(0.0, uniforms(700))
    assert np.isin(outputs, everything).all()
    other = sign * (0.75 + sign * everything)
    inside = (outputs > other.min()) & (outputs < other.max())
    expected = inside & ~np.isin(outputs, other)
    skipped = found.skips(0.75, outputs)
    np.testing.assert_array_equal(skipped, expected)
    assert expected.any()
    assert found.skips(0.0, outputs).sum() == 0  # type: ignore[union-attr]


def test_what_an_input_gives_it_can_give() -> None:
    found = sampler(laplace, [0.0, 1.0])
    for value in (0.0, 1.0):
        skipped = found.skips(value, found.outputs(value, uniforms(2000)))
        assert not skipped.any()


def test_neighbouring_doubles_by_brute_force() -> None:
    """Beside an output lie doubles that no uniform makes: all uniforms near are tried."""
    found = sampler(laplace, [1.0])
    start = uniforms(40)
    outputs = np.nextafter(found.outputs(1.0, start), np.inf)
    near = np.clip(np.add.outer(np.arange(-600, 601), start), 1, (1 << BITS) - 1)
    made = found.outputs(1.0, near.reshape(-1)).reshape(near.shape)
    expected = ~(made == outputs).any(axis=0)
    assert 0 < expected.sum() < len(expected)
    np.testing.assert_array_equal(found.skips(1.0, outputs), expected)


def test_entries_of_vectors_are_inverted_one_by_one() -> None:
    def vector(x: Any, rng: Rng, size: int) -> Any:
        return np.asarray(x) + rng.laplace(0.0, 1.0, (size, 2))

    found = sampler(vector, [[0.0, 0.0], [1.0, 0.0]], (2,))
    skipped = found.skips([1.0, 0.0], found.outputs([0.0, 0.0], uniforms(200, 2)))
    assert skipped[:, 0].mean() > 0.5
    assert not skipped[:, 1].any()


def test_our_own_laplace_is_recognised() -> None:
    assert sampler(Laplace(scale=1.0, low=0.0, high=1.0), [0.0, 1.0]) is not None


@pytest.mark.parametrize(
    "other",
    [
        lambda x, rng, size: x + rng.normal(size=size),
        lambda x, rng, size: x + rng.exponential(size=size),
        lambda x, rng, size: x + rng.random(size) + rng.random(size),
        lambda x, rng, size: x + np.cumsum(rng.random(size)),
        lambda x, rng, size: x + np.random.default_rng().laplace(size=size),
        lambda x, rng, size: x + (rng.random(size) - 0.5) ** 2,
        lambda x, rng, size: x + np.log(rng.integers(1 << 64, size=size, dtype="u8") / 2.0**64),
    ],
    ids=["ziggurat", "exponential", "two", "chained", "own source", "not monotone", "64 bits"],
)
def test_other_samplers_are_not_taken_for_it(other: Any) -> None:
    assert sampler(other, [0.0, 1.0]) is None


def test_disorder_among_neighbours_is_no_proof() -> None:
    """A sampler that uses its last bits for something else is monotone from afar only."""

    def frayed(x: float, rng: Rng, size: int) -> Any:
        u = rng.random(size)
        last = (u * 2.0**BITS) % 2.0
        return x + np.floor(u * 2.0**20) + 0.3 * last

    found = sampler(frayed, [0.0, 0.1])
    assert found.skips(0.1, found.outputs(0.0, uniforms(300))) is None


def test_low_bits_that_fill_what_high_bits_leave_are_not_inverted() -> None:
    """In order as a whole, out of order within each cell of 2^-14, where every place is reached."""

    def refilled(x: float, rng: Rng, size: int) -> Any:
        k = (rng.random(size) * 2.0**BITS).astype(np.int64)
        u = ((k >> 23) + 0.5) * 2.0**-30
        noise = np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 - 2.0 * u))
        low = ((k >> 10) % 8192 * 5167 + 77) % 8192
        return np.floor((x + noise) * 2.0**14) * 2.0**-14 + low * 2.0**-27

    found = sampler(refilled, [0.0, 1.0])
    outputs = refilled(0.0, np.random.default_rng(1), 100)
    assert found is None or found.skips(1.0, outputs) is None
