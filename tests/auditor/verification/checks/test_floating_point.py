"""Tests of the floating-point check, and of inverting a sampler by chosen uniforms.

Low-order bits reveal inputs; an honest grid does not.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.verification.checks.floating_point import (
    UNIFORM_BITS,
    MonotoneSampler,
    check_floating_point,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.mechanisms.discrete_mechanisms import DiscreteLaplace
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace, SnappedLaplace
from tests.auditor.verification.checks.evidence import collect
from tests.points import later
from tests.specimens.randomizer import make_piecewise

Rng = np.random.Generator


def laplace(x: float, rng: Rng, size: int) -> Any:
    return x + rng.laplace(0.0, 1.0, size)


def coarse(x: float, rng: Rng, size: int) -> Any:
    """A sampler by only the first 10 bits of a uniform, so that all outputs can be listed."""
    u = np.floor(rng.random(size) * 1024.0) / 1024.0
    return x + np.log(u + 0.5 / 1024.0)


def recognise(f: Any, inputs: list[Any], shape: tuple[int, ...] = ()) -> MonotoneSampler | None:
    return MonotoneSampler.recognise(Sampler.wrap(f), inputs, shape, np.random.default_rng(3))


def uniforms(*shape: int) -> Any:
    return np.random.default_rng(5).integers(1, 1 << UNIFORM_BITS, shape)


def test_chosen_uniforms_are_returned() -> None:
    found = recognise(lambda x, rng, size: x + rng.random(size), [0.0])
    wanted = uniforms(1000)
    np.testing.assert_array_equal(found.compute_outputs(0.0, wanted), wanted * 2.0**-UNIFORM_BITS)


def test_numpys_formula_is_reproduced_to_the_last_bit() -> None:
    """numpy's Laplace is ln(2u) below 1/2 and -ln(2 - 2u) above, by the C library's logarithm."""
    found = recognise(laplace, [0.0, 1.0])
    wanted = uniforms(500)
    u = wanted * 2.0**-UNIFORM_BITS
    noise = [math.log(v + v) if v < 0.5 else -math.log(2.0 - v - v) for v in u.tolist()]
    np.testing.assert_array_equal(found.compute_outputs(1.0, wanted), 1.0 + np.array(noise))


def test_one_output_per_call_is_inverted_too() -> None:
    found = recognise(lambda x, rng: x + rng.laplace(), [0.0])
    batch = recognise(laplace, [0.0])
    np.testing.assert_array_equal(
        found.compute_outputs(0.0, uniforms(50)), batch.compute_outputs(0.0, uniforms(50))
    )


@pytest.mark.parametrize("falling", [False, True])
def test_inversion_agrees_with_the_list_of_all_outputs(falling: bool) -> None:
    """The reference is the list of the 1024 outputs under each input."""
    sign = -1.0 if falling else 1.0
    result = recognise(lambda x, rng, size: sign * coarse(x, rng, size), [0.0, 0.75])
    assert result.is_rising is not falling
    everything = sign * np.log((np.arange(1024) + 0.5) / 1024.0)
    outputs = result.compute_outputs(0.0, uniforms(700))
    assert np.isin(outputs, everything).all()
    other = sign * (0.75 + sign * everything)
    inside = (outputs > other.min()) & (outputs < other.max())
    expected = inside & ~np.isin(outputs, other)
    skipped = result.flag_impossible_outputs(0.75, outputs)
    np.testing.assert_array_equal(skipped, expected)
    assert expected.any()
    assert result.flag_impossible_outputs(0.0, outputs).sum() == 0  # type: ignore[union-attr]


def test_outputs_of_an_input_are_possible_under_it() -> None:
    found = recognise(laplace, [0.0, 1.0])
    for value in (0.0, 1.0):
        skipped = found.flag_impossible_outputs(value, found.compute_outputs(value, uniforms(2000)))
        assert not skipped.any()


def test_neighbouring_doubles_are_impossible() -> None:
    """No uniform gives the doubles next to an output; the reference tries all close uniforms."""
    found = recognise(laplace, [1.0])
    start = uniforms(40)
    outputs = np.nextafter(found.compute_outputs(1.0, start), np.inf)
    near = np.clip(np.add.outer(np.arange(-600, 601), start), 1, (1 << UNIFORM_BITS) - 1)
    made = found.compute_outputs(1.0, near.reshape(-1)).reshape(near.shape)
    expected = ~(made == outputs).any(axis=0)
    assert 0 < expected.sum() < len(expected)
    np.testing.assert_array_equal(found.flag_impossible_outputs(1.0, outputs), expected)


def test_entries_of_vectors_are_inverted_one_by_one() -> None:
    def vector(x: Any, rng: Rng, size: int) -> Any:
        return np.asarray(x) + rng.laplace(0.0, 1.0, (size, 2))

    found = recognise(vector, [[0.0, 0.0], [1.0, 0.0]], (2,))
    outputs = found.compute_outputs([0.0, 0.0], uniforms(200, 2))
    skipped = found.flag_impossible_outputs([1.0, 0.0], outputs)
    assert skipped[:, 0].mean() > 0.5
    assert not skipped[:, 1].any()


def test_the_built_in_laplace_is_recognised() -> None:
    assert recognise(Laplace(scale=1.0, low=0.0, high=1.0), [0.0, 1.0]) is not None


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
def test_other_samplers_are_not_recognised(other: Any) -> None:
    assert recognise(other, [0.0, 1.0]) is None


def test_disorder_among_neighbours_is_not_inverted() -> None:
    """A sampler that uses its last bits otherwise is monotone on a large scale only."""

    def frayed(x: float, rng: Rng, size: int) -> Any:
        u = rng.random(size)
        last = (u * 2.0**UNIFORM_BITS) % 2.0
        return x + np.floor(u * 2.0**20) + 0.3 * last

    found = recognise(frayed, [0.0, 0.1])
    assert found.flag_impossible_outputs(0.1, found.compute_outputs(0.0, uniforms(300))) is None


def test_low_bits_that_fill_the_gaps_are_not_inverted() -> None:
    """Outputs are out of order within each cell of 2^-14, all places of which are reached."""

    def refilled(x: float, rng: Rng, size: int) -> Any:
        k = (rng.random(size) * 2.0**UNIFORM_BITS).astype(np.int64)
        u = ((k >> 23) + 0.5) * 2.0**-30
        noise = np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 - 2.0 * u))
        low = ((k >> 10) % 8192 * 5167 + 77) % 8192
        return np.floor((x + noise) * 2.0**14) * 2.0**-14 + low * 2.0**-27

    found = recognise(refilled, [0.0, 1.0])
    outputs = refilled(0.0, np.random.default_rng(1), 100)
    assert found is None or found.flag_impossible_outputs(1.0, outputs) is None


PAIRS = [(0.0, 1.0), (1.0, 1.5), (0.1, 0.3)]


def run_check(f: Any, inputs: Any, **more: Any) -> CheckResult:
    """Runs the check with enough draws to invert a sampler, and to count bits of 92,000 outputs."""
    return check_floating_point(collect(f, inputs, **{"samples": 4_000_000, **more}))


def numpy_laplace(x: float, rng: Rng, size: int) -> Any:
    return x + rng.laplace(0.0, 1.0, size)


def draw_laplace(x: float, rng: Rng, size: int) -> Any:
    return rng.laplace(x, 1.0, size)


def wide_laplace(x: float, rng: Rng, size: int) -> Any:
    return x + rng.laplace(0.0, 1000.0, size)


def inverse(x: float, rng: Rng, size: int) -> Any:
    u = rng.random(size) - 0.5
    return x - np.sign(u) * np.log1p(-2.0 * np.abs(u))


def scipy_laplace(x: float, rng: Rng, size: int) -> Any:
    from scipy import stats

    return stats.laplace.rvs(x, 1.0, size, random_state=rng)


def numpy_normal(x: float, rng: Rng, size: int) -> Any:
    return x + rng.normal(0.0, 2.0, size)


def torch_laplace(x: float, rng: Rng, size: int) -> Any:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(int(rng.integers(1 << 62)))
        return (x + torch.distributions.Laplace(0.0, 1.0).sample((size,))).numpy()


def torch_normal(x: float, rng: Rng, size: int) -> Any:
    import torch

    generator = torch.Generator().manual_seed(int(rng.integers(1 << 62)))
    return (x + 2.0 * torch.randn(size, generator=generator)).numpy()


def grid(*samplers: Any) -> list[Any]:
    """Samplers with pairs of inputs: all for the first; the last for others, the rest later."""
    return [
        later(f, pair) if f is not samplers[0] and pair is not PAIRS[-1] else (f, pair)
        for f in samplers
        for pair in PAIRS
    ]


def rounded(x: float, rng: Rng, size: int) -> Any:
    return np.round((x + rng.laplace(0.0, 1.0, size)) * 2.0**20) * 2.0**-20


def rounded_noise(x: float, rng: Rng, size: int) -> Any:
    return x + np.round(rng.laplace(0.0, 1.0, size) * 2.0**20) * 2.0**-20


@pytest.mark.parametrize(("f", "inputs"), grid(numpy_laplace, draw_laplace, scipy_laplace, inverse))
def test_laplace_in_doubles_is_refuted_by_inversion(f: Any, inputs: Any) -> None:
    found = run_check(f, inputs)
    assert found.status is CheckStatus.FAILED
    assert "inverting" in found.reason


def test_a_large_sensitivity_does_not_hide_the_leak() -> None:
    assert run_check(wide_laplace, (0.0, 1000.0)).status is CheckStatus.FAILED
    found = run_check(lambda x, rng, size: x + rng.normal(0.0, 2e3, size), (0.0, 1e3))
    assert found.status is CheckStatus.FAILED


def test_outputs_outside_the_range_are_not_counted() -> None:
    assert run_check(numpy_laplace, (0.0, 1000.0)).status is CheckStatus.PASSED


@pytest.mark.parametrize(("f", "inputs"), grid(numpy_normal, torch_laplace, torch_normal))
def test_other_noise_is_refuted_by_its_lowest_bits(f: Any, inputs: Any) -> None:
    found = run_check(f, inputs, delta=1e-5)
    assert found.status is CheckStatus.FAILED
    assert "lowest set bit" in found.reason


def test_inversion_detects_inputs_that_differ_in_the_last_place() -> None:
    """The black-box method does not: a Gaussian with such inputs passes, and the reason says so."""
    inputs = (0.0, 2.0**-30)
    assert run_check(numpy_laplace, inputs).status is CheckStatus.FAILED
    passed = run_check(numpy_normal, inputs)
    assert passed.status is CheckStatus.PASSED
    assert "could not be inverted" in passed.reason


def test_bounded_mechanisms_leak_as_well() -> None:
    found = run_check(make_piecewise(1.0), (0.0, 1.0))
    assert found.status is CheckStatus.FAILED


def test_rounding_outputs_helps_and_rounding_noise_does_not() -> None:
    for inputs in PAIRS:
        found = run_check(rounded, inputs)
        assert found.status is CheckStatus.PASSED
        assert "grid of 2^-20" in found.reason
    assert run_check(rounded_noise, (0.0, 1.0)).status is CheckStatus.PASSED
    assert run_check(rounded_noise, (0.1, 0.3)).status is CheckStatus.FAILED


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng, size: x + rng.geometric(0.5, size) - rng.geometric(0.5, size),
        lambda x, rng, size: x + (rng.geometric(0.5, size) - 1.0 * rng.geometric(0.5, size)),
        lambda x, rng, size: (rng.random(size) < 0.7) == bool(x),
        lambda x, rng, size: np.where(rng.random(size) < 0.7, x, 1.0 - x),
        lambda x, rng, size: np.where((rng.random(size) < 0.7) == bool(x), "yes", "no"),
        lambda x, rng, size: np.where(rng.random(size) < 0.7, x, 1 - x).astype(np.float32),
        lambda x, rng, size: rng.laplace(0.0, 1.0, size),
        lambda x, rng, size: np.clip(rounded(x, rng, size), -1.0, 2.0),
    ],
    ids=["integers", "whole", "booleans", "floats", "words", "float32", "no input", "clamped"],
)
def test_honest_outputs_pass(f: Any) -> None:
    assert run_check(f, (0, 1)).status is CheckStatus.PASSED


def test_the_named_output_is_impossible() -> None:
    """The named output is not 1 plus the noise of any of 40,000 uniforms around it.

    The noise is by numpy's formula: ln(u + u) below 1/2 and -ln(2 - u - u) above, in this order,
    because 2 - u is rounded, and by the C library's logarithm, from which np.log differs in the
    last bit.
    """
    found = run_check(numpy_laplace, (0.0, 1.0))
    hexadecimal = re.search(r"\((-?0x[^)]*)\)", found.reason)
    example = float.fromhex(hexadecimal[1])
    assert repr(example) in found.reason
    tail = math.exp(-abs(example - 1.0)) / 2.0
    around = int((tail if example < 1.0 else 1.0 - tail) * 2.0**53)
    u = np.arange(around - 20_000, around + 20_000) * 2.0**-53
    sign, inside = np.where(u < 0.5, 1.0, -1.0), np.where(u < 0.5, u + u, 2.0 - u - u)
    sums = 1.0 + sign * np.array([math.log(v) for v in inside.tolist()])
    assert sums.min() < example < sums.max()
    assert example not in sums


def test_the_stated_share_is_a_confidence_limit() -> None:
    """The share of fresh outputs of 0 that cannot come from 1 is below the stated share.

    The independent count is of outputs below 1/2 that are not multiples of 2^-53, as 1 + noise is.
    """
    found = run_check(numpy_laplace, (0.0, 1.0))
    share = re.search(r"At least ([\d.]+)%", found.reason)
    fresh = numpy_laplace(0.0, np.random.default_rng(9), 100_000)
    sure = (np.abs(fresh) < 0.5) & (np.ldexp(fresh, 53) % 1.0 != 0)
    assert 0.2 < sure.mean() < float(share[1]) / 100.0 < 0.9


@pytest.mark.parametrize(
    ("mechanism", "clean"),
    [
        (Laplace(scale=1.0, low=0.0, high=1.0), False),
        (DiscreteLaplace(scale=1.0, low=0.0, high=1.0, step=2.0**-10), True),
        (SnappedLaplace(scale=1.0, low=0.0, high=1.0, bound=20.0), True),
    ],
)
def test_recommended_mechanisms_pass(mechanism: Any, clean: bool) -> None:
    found = run_check(mechanism, (0.0, 1.0), epsilon=1.2)
    assert found.status is (CheckStatus.PASSED if clean else CheckStatus.FAILED)


def test_a_large_claim_is_refuted_by_inversion_not_by_counts() -> None:
    """Epsilon is infinite if no uniform exists; 'never in 16,384 draws' gives about 7 at most."""
    assert run_check(numpy_laplace, (0.0, 1.0), epsilon=30.0).status is CheckStatus.FAILED
    found = run_check(numpy_normal, (0.0, 1.0), epsilon=30.0, delta=1e-5)
    assert found.status is CheckStatus.NOT_RUN
    assert "too few to refute" in found.reason


def test_a_large_delta_allows_low_order_bits() -> None:
    assert run_check(numpy_laplace, (0.0, 1.0), delta=0.95).status is not CheckStatus.FAILED


def test_vectors_are_checked_by_entry() -> None:
    def vector(x: Any, rng: Rng, size: int) -> Any:
        return np.asarray(x) + rng.laplace(0.0, 1.0, (size, 3))

    assert run_check(vector, ([0.0, 0.0, 0.0], [0.0, 1.0, 0.0])).status is CheckStatus.FAILED
    honest = run_check(
        lambda x, rng, size: np.round(vector(x, rng, size) * 1024.0) / 1024.0,
        ([0.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
    )
    assert honest.status is CheckStatus.PASSED


@pytest.mark.parametrize("seed", range(20))
def test_continuous_distributions_are_not_accused(seed: int) -> None:
    """Both inputs have one continuous distribution: the other half contains all selected cells."""

    def f(x: Any, rng: Rng, size: int) -> Any:
        return rng.normal(size=size) * (1.0 + 1e-9 * x)

    found = run_check(f, (0, 1), epsilon=0.0, samples=24_000, seed=seed)
    assert found.status is CheckStatus.PASSED


def answer_by_sign(x: float, rng: Rng, size: int) -> Any:
    """Randomized response at epsilon 3 whose answer is only the sign of a zero."""
    truth = rng.random(size) < 1 / (1 + np.exp(-3.0))
    return np.copysign(0.0, np.where(truth == bool(x), 1.0, -1.0))


def test_the_sign_of_a_zero_is_detected() -> None:
    found = run_check(answer_by_sign, (0.0, 1.0))
    assert found.status is CheckStatus.FAILED
    assert "-0.0" in found.reason
    vector = run_check(
        lambda x, rng, size: np.stack([np.ones(size), answer_by_sign(x, rng, size)], 1), (0.0, 1.0)
    )
    assert vector.status is CheckStatus.FAILED


def test_a_sign_of_zero_within_the_claim_passes() -> None:
    """Rounding of negative numbers gives -0.0, with a probability that the claim allows."""
    for seed in range(20):
        found = run_check(
            lambda x, rng, size, seed=seed: np.round(x + np.random.default_rng(
                [seed, int(x), int(rng.integers(2**32))]).laplace(size=size)),
            (0.0, 1.0),
        )  # fmt: skip
        assert found.status is CheckStatus.PASSED
    found = run_check(lambda x, rng, size: answer_by_sign(0.0, rng, size), (0.0, 1.0))
    assert found.status is CheckStatus.PASSED
