"""Laws that are right in code that is not: broken, and done right."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.specimens.randomizer import Specimen, flip, on_grid

Rng = np.random.Generator


def laplace(x: float, rng: Rng, size: int) -> Any:
    return on_grid(x + rng.laplace(0.0, 2.0, size))


def response(x: int, rng: Rng, size: int) -> Any:
    return flip(x, 1.0, rng, size)


def one_noise_a_batch(x: float, rng: Rng, size: int) -> Any:
    return on_grid(np.full(size, x + rng.laplace(0.0, 2.0)))


def seeded_by_input(x: int, rng: Rng, size: int) -> Any:
    return flip(x, 1.0, np.random.default_rng(x), size)


def constant_seed(x: float, rng: Rng, size: int) -> Any:
    return laplace(x, np.random.default_rng(42), size)


def one_laplace(x: float, rng: Rng) -> float:
    return float(laplace(x, rng, 1)[0])


def memoised() -> Any:
    known: dict[float, float] = {}

    def randomize(x: float, rng: Rng) -> float:
        return known.setdefault(x, one_laplace(x, rng))

    return randomize


def typed_by_input(x: int, rng: Rng, size: int) -> Any:
    return response(x, rng, size).astype(float if x else int)


def typed_by_truth(x: float, rng: Rng) -> float:
    return 1 - int(x) if flip(0, 1.0, rng) else x


def same_type(x: float, rng: Rng) -> int:
    return int(flip(int(x), 1.0, rng))


PLUMBING = (
    Specimen(
        name="one noise for a batch",
        mistake="every user of a batch has the same noise: differences are in clear",
        broken=one_noise_a_batch,
        twin=laplace,
        epsilon=1.0,
        inputs=[-1.0, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="seed fixed by the input",
        mistake="default_rng(x): who knows the code knows the report of every input",
        broken=seeded_by_input,
        twin=response,
        epsilon=1.0,
        inputs=[0, 1],
        twin_truth=1.0,
    ),
    Specimen(
        name="constant seed",
        mistake="default_rng(42): who knows the code subtracts the noise",
        broken=constant_seed,
        twin=laplace,
        epsilon=1.0,
        inputs=[-1.0, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="memoised answer",
        mistake="answers are kept by value, not by user: equal values give equal reports",
        broken=memoised(),
        twin=one_laplace,
        epsilon=1.0,
        inputs=[-1.0, 1.0],
        twin_truth=1.0,
    ),
    Specimen(
        name="type by the input",
        mistake="a zero is sent as a whole number, a one as a real one",
        broken=typed_by_input,
        twin=response,
        epsilon=1.0,
        inputs=[0, 1],
        twin_truth=1.0,
    ),
    Specimen(
        name="type by the truth",
        mistake="the input is passed on as it came, a lie is computed: 1.0 is true, 1 is not",
        broken=typed_by_truth,
        twin=same_type,
        epsilon=1.0,
        inputs=[0.0, 1.0],
        twin_truth=1.0,
    ),
)
