"""Tests of check_fit: honest samplers pass, wrong ones fail with the worst cell."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedrec_auditor.auditor.exact.fit as fit
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus, check_fit
from fedrec_auditor.auditor.exact.output_distribution import Density, OutputDistribution
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Product, Shuffled
from fedrec_auditor.targets.mechanisms.discrete_mechanisms import DiscreteLaplace
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace, SnappedLaplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate
from tests.points import later

NUMBERS = [0.0, 0.3, 1.0]


def run_check(thing: Any, inputs: list[Any], samples: int = 40_000, seed: int = 0) -> CheckResult:
    law = OutputDistribution.wrap(thing)
    return check_fit(law.sampler, law, inputs, samples=samples, seed=np.random.SeedSequence(seed))


def log_laplace(z: Any) -> Any:
    return -np.abs(z) - math.log(2.0)


def additive(noise: Any, log_density: Any = log_laplace) -> Density:
    return Density(
        sample=lambda x, rng, size: x + noise(rng, size),
        log_prob=lambda y, x: log_density(np.asarray(y, dtype=float) - x),
    )


def iid_vector(noise: Any, length: int = 3) -> Density:
    """A density that claims independent Laplace noise of scale 1 on every entry."""
    return Density(
        sample=lambda x, rng, size: x + noise(rng, (size, length)),
        log_prob=lambda y, x: log_laplace(np.asarray(y) - x).sum(axis=-1),
    )


VECTORS = [np.zeros(3), np.ones(3), np.array([0.0, 0.5, -0.5])]


def exact(rng: np.random.Generator, size: Any) -> Any:
    return rng.laplace(0.0, 1.0, size)


def clipped(top: float) -> Density:
    """Laplace noise, then clipped to [-1, top]: a density between two atoms at the ends."""

    def log_prob(y: Any, x: Any) -> Any:
        ends = (stats.laplace.logcdf(-1.0 - x), stats.laplace.logsf(2.0 - x))
        inside = np.where(np.abs(np.asarray(y) - 0.5) < 1.5, log_laplace(y - x), -np.inf)
        return np.where(y == -1.0, ends[0], np.where(y == 2.0, ends[1], inside))

    return Density(
        sample=lambda x, rng, size: np.clip(x + rng.laplace(0, 1, size), -1.0, top),
        log_prob=log_prob,
    )


HONEST: dict[str, tuple[Any, list[Any]]] = {
    "bits": (BitFlip(0.9, 0.3), [0, 1]),
    "rare bits": (BitFlip(0.003, 0.001), [0, 1]),
    "certain bits": (BitFlip(1.0, 0.0), [0, 1]),
    "numbers": (Laplace(scale=0.7, low=0, high=1), NUMBERS),
    "normal numbers": (Gaussian(sigma=1.5, low=0, high=1), NUMBERS),
    "reports": (OneCoordinate(2.5, 3), [np.ones(3), -np.ones(3), np.array([0.5, 0.0, -1.0])]),
    "many outputs": (Shuffled(1.0, 400), [-1.0, 1.0]),
    "bit vectors": (Product(BitFlip(0.8, 0.3), 3), [np.zeros(3), np.array([0, 1, 1])]),
    "vectors": (iid_vector(exact), VECTORS),
    "float32": (additive(lambda r, n: r.laplace(0, 1, n).astype(np.float32)), NUMBERS),
    "clipped": (clipped(2.0), NUMBERS),
    "a grid": (DiscreteLaplace(low=0, high=1, step=0.25, scale=0.7), [0.0, 0.25, 1.0]),
    "a grid with ends": (SnappedLaplace(scale=0.25, low=0, high=1, bound=2.0), NUMBERS),
    "a fine grid whose law is finite between": (
        Density(
            sample=lambda x, rng, size: np.round((x + rng.laplace(0, 1, size)) / 1e-3) * 1e-3,
            log_prob=lambda y, x: log_laplace(y - x) + math.log(1e-3),
        ),
        [0.0, 0.5],
    ),
}


@pytest.mark.parametrize("seed", [0, later(1), later(2)])
@pytest.mark.parametrize("name", HONEST)
def test_honest_samplers_pass(name: str, seed: int) -> None:
    found = run_check(*HONEST[name], seed=seed)
    assert found.status is CheckStatus.PASSED, found.reason


def _cut_tail(rng: np.random.Generator, size: Any) -> Any:
    draws = rng.laplace(0.0, 1.0, size)
    return np.where(np.abs(draws) > 5.0, 0.0, draws)


def _redraw_tail(rng: np.random.Generator, size: Any) -> Any:
    draws = rng.laplace(0.0, 1.0, size)
    return np.where(np.abs(draws) > 4.0, rng.laplace(0.0, 1.0, size), draws)


class Biased(BitFlip):
    def randomize(self, value: Any, rng: np.random.Generator, size: Any = None) -> Any:
        return BitFlip(self.p - 0.02, self.q).randomize(value, rng, size)


class Leaky(BitFlip):
    def log_prob(self, output: Any, value: Any) -> Any:
        return super().log_prob(output, value) + math.log(0.99)


class Impossible(BitFlip):
    """A flip that sends the bit itself once in 1,000 times; log_prob excludes that for a 0."""

    def randomize(self, value: Any, rng: np.random.Generator, size: Any = None) -> Any:
        return np.where(rng.random(size) < 1e-3, 1, super().randomize(value, rng, size))


BROKEN: dict[str, tuple[Any, list[Any], str]] = {
    "a bit flipped too often": (Biased(0.9, 0.3), [0, 1], "input 1, the output"),
    "probabilities below 1 in all": (Leaky(0.9, 0.3), [0, 1], "occurred 20000 times in 20000"),
    "an impossible output": (Impossible(0.5, 0.0), [0, 1], "log_prob > -inf"),
    "a tenth less noise": (additive(lambda r, n: r.laplace(0, 0.9, n)), NUMBERS, "an output in"),
    "a tail set to zero": (additive(_cut_tail), NUMBERS, "over outputs that repeat"),
    "a tail drawn again": (additive(_redraw_tail), NUMBERS, "occurred"),
    "a normaliser off by 1%": (
        additive(exact, lambda z: log_laplace(z) + math.log(1.01)),
        NUMBERS,
        r"to integrate to 1 .*, got 1\.01",
    ),
    "rounded outputs of a density": (
        additive(lambda r, n: np.round(r.laplace(0, 1, n), 1)),
        [0.0, 0.1],
        "to sum to at most 1",
    ),
    "one input treated alone": (
        Density(
            sample=lambda x, rng, size: x + rng.laplace(0, 0.5 if x == 1.0 else 1.0, size),
            log_prob=lambda y, x: log_laplace(y - x),
        ),
        NUMBERS,
        "input 1",
    ),
    "noise shared by entries": (
        iid_vector(lambda r, size: np.repeat(r.laplace(0, 1, (size[0], 1)), size[1], axis=1)),
        VECTORS,
        "log-ratio",
    ),
    "vectors with less noise": (
        iid_vector(lambda r, size: r.laplace(0, 0.9, size)),
        VECTORS,
        "log-ratio",
    ),
    "another clip": (clipped(1.9), NUMBERS, "over outputs that repeat"),
    "nan": (additive(exact, lambda z: np.where(z > 0, np.nan, log_laplace(z))), NUMBERS, "got nan"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_samplers_fail_and_the_worst_cell_is_named(name: str) -> None:
    thing, inputs, words = BROKEN[name]
    found = run_check(thing, inputs)
    assert found.status is CheckStatus.FAILED
    assert re.search(words, found.reason), found.reason


def test_chi_square_is_invalid_at_this_level_for_5_expected() -> None:
    """The p-values of check_fit are exact binomial ones.

    The chi-square p-value of an honest cell with 5 expected and 20 observed outputs is too small by
    a factor above 100.
    """
    cells, expected, count = 10_000, 5.0, 20
    true = stats.binom.sf(count - 1, 50_000, expected / 50_000)
    chi_square = stats.chi2.sf((count - expected) ** 2 / expected, 1)
    assert true > 100 * chi_square
    test = fit._Test(
        *2 * (np.full(cells, 1e-4),), np.full(cells, count), np.full(cells, 50_000), str, ""
    )
    np.testing.assert_allclose(test.compute_p_values(), 2 * true)


@pytest.mark.calibration
def test_the_level_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a level of 20%, at most 20% of checks of honest samplers fail, over all three samplers."""
    monkeypatch.setattr(fit, "FALSE_FAILURE_RATE", 0.2)
    runs = [
        run_check(HONEST[name][0], HONEST[name][1][:2], samples=2000, seed=seed).status
        for name in ("bits", "numbers", "vectors")
        for seed in range(20)
    ]
    failed = runs.count(CheckStatus.FAILED)
    assert stats.binom.sf(failed - 1, len(runs), 0.2) > 1e-3


def test_a_single_input_of_vectors_cannot_be_tested() -> None:
    assert run_check(iid_vector(exact), VECTORS[:1]).status is CheckStatus.NOT_RUN


def test_a_sampler_that_raises_is_an_input_error() -> None:
    def fails(x: Any, rng: Any, size: int) -> Any:
        raise ZeroDivisionError("oh")

    with pytest.raises(InputError, match="ZeroDivisionError"):
        run_check(Density(sample=fails, log_prob=lambda y, x: y), [0, 1])


def test_a_grid_too_fine_to_repeat_is_not_taken_for_a_density() -> None:
    fine = DiscreteLaplace.calibrate(1.0, low=-1, high=1, step=2.0**-20)
    found = check_fit(
        Sampler.wrap(fine),
        OutputDistribution.wrap(fine),
        [-1, 1],
        samples=50_000,
        seed=np.random.SeedSequence(3),
    )
    assert found.status is CheckStatus.PASSED


def test_a_log_probability_of_one_output_at_a_time_passes() -> None:
    """``math.log`` and ``if`` refuse arrays, which is not a misfit."""
    keep = 1.0 / (1.0 + math.exp(-1.0))

    def flip(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < keep, x, 1 - x)

    def log_flip(output: int, value: int) -> float:
        return math.log(keep if output == value else 1.0 - keep)

    def log_noise(output: float, value: float) -> float:
        if output > value:
            return -math.log(2.0) - (output - value)
        return -math.log(2.0) + (output - value)

    noise = Density(sample=lambda x, rng, size: x + rng.laplace(size=size), log_prob=log_noise)
    for thing in (Density(sample=flip, log_prob=log_flip), noise):
        assert run_check(thing, [0, 1], samples=4_000).status is CheckStatus.PASSED
