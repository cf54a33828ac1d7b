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
    make_laplace,
    snap,
    solve_epsilon,
    solve_mu,
)

Rng = np.random.Generator


def make_gaussian(sigma: float) -> Randomizer:
    return lambda x, rng, size: snap(x + rng.normal(0.0, sigma, size))


def add_byte_noise(x: float, rng: Rng, size: int) -> Any:
    u = (rng.integers(0, 256, size) + 0.5) / 128.0 - 1.0
    return snap(x - np.sign(u) * np.log1p(-np.abs(u)))


def leak_rarely(x: float, rng: Rng, size: int) -> Any:
    return snap(np.where(rng.random(size) < 0.01, x, x + rng.laplace(0.0, 2.0, size)))


def make_two_sided(stay: float) -> Randomizer:
    """Discrete Laplace: the log-probability falls by -ln(1 - stay) a whole number."""
    return lambda x, rng, size: x + rng.geometric(stay, size) - rng.geometric(stay, size)


_QUARTERS, _TOTALS = make_two_sided(-math.expm1(-0.25)), make_two_sided(-math.expm1(-1 / 200))

# Probability of the one step at -1 under Laplace noise of scale 2 centred there.
_CELL = STEP / 4.0

# Width of the inputs by sigma, at epsilon 7 and delta 0.3.
_CLASSICAL = 7.0 / math.sqrt(2.0 * math.log(1.25 / 0.3))

_SIGMA_FOR_FIVE = 5.0 / solve_mu(1.0, 1e-5)

NOISE = {
    "half the Laplace scale": Specimen(
        mistake="1/eps, the largest absolute value by eps, where the width is 2",
        broken=make_laplace(1.0),
        twin=make_laplace(2.0),
        inputs=[-1.0, 1.0],
        strategy=st.floats(-1.0, 1.0),
        truth=2.0,
    ),
    "sensitivity off by one": Specimen(
        mistake="ratings 1 to 5 have width 4, but 0 for 'not rated' is sent as well",
        broken=make_laplace(4.0),
        twin=make_laplace(5.0),
        inputs=[0, 1, 2, 3, 4, 5],
        truth=1.25,
    ),
    "clip after noise": Specimen(
        mistake="the report is clipped to [-1, 1], the input is not",
        broken=lambda x, rng, size: snap(np.clip(x + rng.laplace(0.0, 2.0, size), -1.0, 1.0)),
        twin=lambda x, rng, size: make_laplace(2.0)(np.clip(x, -1.0, 1.0), rng, size),
        inputs=[-1.0, 1.0, 5.0],
        truth=3.0,
    ),
    "truncated tail": Specimen(
        mistake="noise of at most three scales, so that the far ends of the reports tell",
        broken=lambda x, rng, size: snap(x + np.clip(rng.laplace(0.0, 2.0, size), -6.0, 6.0)),
        twin=lambda x, rng, size: snap(np.clip(x + rng.laplace(0.0, 2.0, size), -6.0, 6.0)),
        inputs=[-1.0, 1.0],
    ),
    "noise from one byte": Specimen(
        mistake="the noise takes 256 values, which differ by no difference of inputs",
        broken=add_byte_noise,
        twin=make_laplace(1.0),
        inputs=[0.0, 0.5, 1.0],
    ),
    "multiplied noise": Specimen(
        mistake="the noise is in proportion to the input, and 0 stays 0",
        broken=lambda x, rng, size: snap(x * (1.0 + rng.laplace(0.0, 1.0, size))),
        twin=make_laplace(1.0),
        inputs=[0.0, 0.5, 1.0],
    ),
    "sometimes in clear": Specimen(
        mistake="one report in a hundred is sent without noise",
        broken=leak_rarely,
        twin=make_laplace(2.0),
        inputs=[-1.0, 1.0],
        truth=math.log((0.01 + 0.99 * _CELL) / (0.99 * _CELL * math.exp(-1.0))),
    ),
    "Laplace in doubles": Specimen(
        mistake="the last bits of the sum tell the input (Mironov 2012)",
        broken=lambda x, rng, size: x + rng.laplace(0.0, 2.0, size),
        twin=make_laplace(2.0),
        inputs=[-1.0, 1.0],
    ),
    "Gaussian in doubles": Specimen(
        mistake="the last bits of the sum tell the input",
        broken=lambda x, rng, size: x + rng.normal(0.0, 1.0 / solve_mu(1.0, 1e-5), size),
        twin=make_gaussian(1.0 / solve_mu(1.0, 1e-5)),
        delta=1e-5,
        inputs=[0.0, 1.0],
    ),
    "noise in single precision": Specimen(
        mistake="24 bits of noise leave the low bits of a double as they are",
        broken=lambda x, rng, size: (
            x + rng.laplace(0.0, 1.0, size).astype(np.float32).astype(float)
        ),
        twin=make_laplace(1.0),
        inputs=[0.0, 0.1, 1.0],
    ),
    "classical Gaussian at a large epsilon": Specimen(
        mistake="sqrt(2 ln(1.25/delta)) / eps is proved for eps <= 1, and false here",
        broken=make_gaussian(1.0 / _CLASSICAL),
        twin=make_gaussian(1.0 / solve_mu(7.0, 0.3)),
        epsilon=7.0,
        delta=0.3,
        inputs=[0.0, 1.0],
        truth=solve_epsilon(_CLASSICAL, 0.3),
        twin_truth=7.0,
    ),
    "deviation taken for a variance": Specimen(
        mistake="sqrt(sigma) is passed as the standard deviation",
        broken=make_gaussian(math.sqrt(_SIGMA_FOR_FIVE)),
        twin=make_gaussian(_SIGMA_FOR_FIVE),
        delta=1e-5,
        inputs=[0.0, 2.5, 5.0],
        truth=solve_epsilon(5.0 / math.sqrt(_SIGMA_FOR_FIVE), 1e-5),
    ),
    "Gaussian claimed pure": Specimen(
        mistake="width/eps is no deviation for any epsilon at delta 0",
        broken=make_gaussian(1.0),
        twin=make_laplace(1.0),
        inputs=[0.0, 1.0],
    ),
    "one-sided geometric": Specimen(
        mistake="the noise is never negative: a report below 2 rules 2 out",
        broken=lambda x, rng, size: x + rng.geometric(-math.expm1(-0.5), size) - 1,
        twin=make_two_sided(-math.expm1(-0.5)),
        inputs=[0, 1, 2],
    ),
    "discrete Laplace with the wrong rate": Specimen(
        mistake="e^-eps is passed as the rate of stopping, where it is the rate of going on",
        broken=make_two_sided(math.exp(-0.3)),
        twin=make_two_sided(-math.expm1(-0.3)),
        epsilon=0.3,
        inputs=[0, 1],
        truth=-math.log(-math.expm1(-0.3)),
        twin_truth=0.3,
    ),
    "rounding in one branch": Specimen(
        mistake="inputs below a half are not rounded to the grid of the noise",
        broken=lambda x, rng, size: _QUARTERS(round(4 * x) if x >= 0.5 else 4 * x, rng, size) / 4,
        twin=lambda x, rng, size: _QUARTERS(round(4 * x), rng, size) / 4,
        inputs=[0.0, 0.26, 1.0],
    ),
    "integer overflow": Specimen(
        mistake="totals up to 200 wrap at 127 before the noise: width 255",
        broken=lambda x, rng, size: _TOTALS(int(np.array(x).astype(np.int8)), rng, size),
        twin=_TOTALS,
        inputs=[0, 127, 128, 200],
        truth=255 / 200,
    ),
}

INNOCENT_NOISE = {
    "report wrapped in a byte": Innocent(
        why="an overflow after the noise is a function of the report",
        randomizer=lambda x, rng, size: _TOTALS(x, rng, size).astype(np.int8),
        inputs=[0, 127, 128, 200],
        truth=math.log(math.cosh(128 / 200)),
    )
}
