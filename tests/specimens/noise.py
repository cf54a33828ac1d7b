"""Numbers with noise added: broken, and done right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.specimens.randomizer import (
    STEP,
    Innocent,
    Randomizer,
    Specimen,
    gaussian_epsilon,
    gaussian_mu,
    on_grid,
)

Rng = np.random.Generator


def laplace(scale: float) -> Randomizer:
    def randomize(x: float, rng: Rng, size: int) -> Any:
        return on_grid(x + rng.laplace(0.0, scale, size))

    return randomize


def gaussian(sigma: float) -> Randomizer:
    def randomize(x: float, rng: Rng, size: int) -> Any:
        return on_grid(x + rng.normal(0.0, sigma, size))

    return randomize


def naive_laplace(x: float, rng: Rng, size: int) -> Any:
    return x + rng.laplace(0.0, 2.0, size)


def naive_gaussian(x: float, rng: Rng, size: int) -> Any:
    return x + rng.normal(0.0, 1.0 / gaussian_mu(1.0, 1e-5), size)


def float32_noise(x: float, rng: Rng, size: int) -> Any:
    return np.float64(x) + rng.laplace(0.0, 1.0, size).astype(np.float32)


def clip_after(x: float, rng: Rng, size: int) -> Any:
    return on_grid(np.clip(x + rng.laplace(0.0, 2.0, size), -1.0, 1.0))


def clip_before(x: float, rng: Rng, size: int) -> Any:
    return on_grid(np.clip(x, -1.0, 1.0) + rng.laplace(0.0, 2.0, size))


def truncated_noise(x: float, rng: Rng, size: int) -> Any:
    return on_grid(x + np.clip(rng.laplace(0.0, 2.0, size), -6.0, 6.0))


def truncated_report(x: float, rng: Rng, size: int) -> Any:
    return on_grid(np.clip(x + rng.laplace(0.0, 2.0, size), -6.0, 6.0))


def one_byte_noise(x: float, rng: Rng, size: int) -> Any:
    u = (rng.integers(0, 256, size) + 0.5) / 128.0 - 1.0
    return on_grid(x - np.sign(u) * np.log1p(-np.abs(u)))


def multiplied_noise(x: float, rng: Rng, size: int) -> Any:
    return on_grid(x * (1.0 + rng.laplace(0.0, 1.0, size)))


def sometimes_clear(x: float, rng: Rng, size: int) -> Any:
    return on_grid(np.where(rng.random(size) < 0.01, x, x + rng.laplace(0.0, 2.0, size)))


def two_sided(stay: float) -> Randomizer:
    """Discrete Laplace: the log-probability falls by -ln(1 - stay) a whole number."""

    def randomize(x: int, rng: Rng, size: int) -> Any:
        return x + rng.geometric(stay, size) - rng.geometric(stay, size)

    return randomize


def one_sided(x: int, rng: Rng, size: int) -> Any:
    return x + rng.geometric(-math.expm1(-0.5), size) - 1


def rounded_above_a_half(x: float, rng: Rng, size: int) -> Any:
    start = round(4 * x) if x >= 0.5 else 4 * x
    return two_sided(-math.expm1(-0.25))(start, rng, size) / 4


def rounded(x: float, rng: Rng, size: int) -> Any:
    return two_sided(-math.expm1(-0.25))(round(4 * x), rng, size) / 4


def total_in_a_byte(x: int, rng: Rng, size: int) -> Any:
    return two_sided(-math.expm1(-1 / 200))(int(np.array(x).astype(np.int8)), rng, size)


def wrapped_report(x: int, rng: Rng, size: int) -> Any:
    return two_sided(-math.expm1(-1 / 200))(x, rng, size).astype(np.int8)


_CELL = STEP / 4.0
"""Probability of the one step at -1 under Laplace noise of scale 2 centred there."""

_CLASSICAL = 7.0 / math.sqrt(2.0 * math.log(1.25 / 0.3))
"""Width of the inputs by sigma, at epsilon 7 and delta 0.3."""

_SIGMA_FOR_FIVE = 5.0 / gaussian_mu(1.0, 1e-5)

NOISE = (
    Specimen(
        name="half the Laplace scale",
        mistake="1/eps, the largest absolute value by eps, where the width is 2",
        broken=laplace(1.0),
        twin=laplace(2.0),
        epsilon=1.0,
        inputs=[-1.0, 1.0],
        strategy=st.floats(-1.0, 1.0),
        truth=2.0,
        twin_truth=1.0,
    ),
    Specimen(
        name="sensitivity off by one",
        mistake="ratings 1 to 5 have width 4, but 0 for 'not rated' is sent as well",
        broken=laplace(4.0),
        twin=laplace(5.0),
        epsilon=1.0,
        inputs=[0, 1, 2, 3, 4, 5],
        truth=1.25,
        twin_truth=1.0,
    ),
    Specimen(
        name="clip after noise",
        mistake="the report is clipped to [-1, 1], the input is not",
        broken=clip_after,
        twin=clip_before,
        epsilon=1.0,
        inputs=[-1.0, 1.0, 5.0],
        truth=3.0,
        twin_truth=1.0,
    ),
    Specimen(
        name="truncated tail",
        mistake="noise of at most three scales, so that the far ends of the reports tell",
        broken=truncated_noise,
        twin=truncated_report,
        epsilon=1.0,
        inputs=[-1.0, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="noise from one byte",
        mistake="the noise takes 256 values, which differ by no difference of inputs",
        broken=one_byte_noise,
        twin=laplace(1.0),
        epsilon=1.0,
        inputs=[0.0, 0.5, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="multiplied noise",
        mistake="the noise is in proportion to the input, and 0 stays 0",
        broken=multiplied_noise,
        twin=laplace(1.0),
        epsilon=1.0,
        inputs=[0.0, 0.5, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="sometimes in clear",
        mistake="one report in a hundred is sent without noise",
        broken=sometimes_clear,
        twin=laplace(2.0),
        epsilon=1.0,
        inputs=[-1.0, 1.0],
        truth=math.log((0.01 + 0.99 * _CELL) / (0.99 * _CELL * math.exp(-1.0))),
        twin_truth=1.0,
    ),
    Specimen(
        name="Laplace in doubles",
        mistake="the last bits of the sum tell the input (Mironov 2012)",
        broken=naive_laplace,
        twin=laplace(2.0),
        epsilon=1.0,
        inputs=[-1.0, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="Gaussian in doubles",
        mistake="the last bits of the sum tell the input",
        broken=naive_gaussian,
        twin=gaussian(1.0 / gaussian_mu(1.0, 1e-5)),
        epsilon=1.0,
        delta=1e-5,
        inputs=[0.0, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="noise in single precision",
        mistake="24 bits of noise leave the low bits of a double as they are",
        broken=float32_noise,
        twin=laplace(1.0),
        epsilon=1.0,
        inputs=[0.0, 0.1, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="classical Gaussian at a large epsilon",
        mistake="sqrt(2 ln(1.25/delta)) / eps is proved for eps <= 1, and false here",
        broken=gaussian(1.0 / _CLASSICAL),
        twin=gaussian(1.0 / gaussian_mu(7.0, 0.3)),
        epsilon=7.0,
        delta=0.3,
        inputs=[0.0, 1.0],
        truth=gaussian_epsilon(_CLASSICAL, 0.3),
        twin_truth=7.0,
    ),
    Specimen(
        name="deviation taken for a variance",
        mistake="sqrt(sigma) is passed as the standard deviation",
        broken=gaussian(math.sqrt(_SIGMA_FOR_FIVE)),
        twin=gaussian(_SIGMA_FOR_FIVE),
        epsilon=1.0,
        delta=1e-5,
        inputs=[0.0, 2.5, 5.0],
        truth=gaussian_epsilon(5.0 / math.sqrt(_SIGMA_FOR_FIVE), 1e-5),
        twin_truth=1.0,
    ),
    Specimen(
        name="Gaussian claimed pure",
        mistake="width/eps is no deviation for any epsilon at delta 0",
        broken=gaussian(1.0),
        twin=laplace(1.0),
        epsilon=1.0,
        inputs=[0.0, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="one-sided geometric",
        mistake="the noise is never negative: a report below 2 rules 2 out",
        broken=one_sided,
        twin=two_sided(-math.expm1(-0.5)),
        epsilon=1.0,
        inputs=[0, 1, 2],
        twin_truth=1.0,
    ),
    Specimen(
        name="discrete Laplace with the wrong rate",
        mistake="e^-eps is passed as the rate of stopping, where it is the rate of going on",
        broken=two_sided(math.exp(-0.3)),
        twin=two_sided(-math.expm1(-0.3)),
        epsilon=0.3,
        inputs=[0, 1],
        truth=-math.log(-math.expm1(-0.3)),
        twin_truth=0.3,
    ),
    Specimen(
        name="rounding in one branch",
        mistake="inputs below a half are not rounded to the grid of the noise",
        broken=rounded_above_a_half,
        twin=rounded,
        epsilon=1.0,
        inputs=[0.0, 0.26, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="integer overflow",
        mistake="totals up to 200 wrap at 127 before the noise: width 255",
        broken=total_in_a_byte,
        twin=two_sided(-math.expm1(-1 / 200)),
        epsilon=1.0,
        inputs=[0, 127, 128, 200],
        truth=255 / 200,
        twin_truth=1.0,
    ),
)

INNOCENT_NOISE = (
    Innocent(
        name="report wrapped in a byte",
        why="an overflow after the noise is a function of the report",
        randomizer=wrapped_report,
        epsilon=1.0,
        inputs=[0, 127, 128, 200],
        truth=math.log(math.cosh(128 / 200)),
    ),
)
