"""Laws that are right in code that is not: broken, and done right."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.specimens.randomizer import Specimen, flip, laplace, on_grid

Rng = np.random.Generator


def response(x: int, rng: Rng, size: int) -> Any:
    return flip(x, 1.0, rng, size)


def one_laplace(x: float, rng: Rng) -> float:
    return float(laplace(2.0)(x, rng, 1)[0])


def memoised() -> Any:
    known: dict[float, float] = {}
    return lambda x, rng: known.setdefault(x, one_laplace(x, rng))


PLUMBING = {
    "one noise for a batch": Specimen(
        mistake="every user of a batch has the same noise: differences are in clear",
        broken=lambda x, rng, size: on_grid(np.full(size, x + rng.laplace(0.0, 2.0))),
        twin=laplace(2.0),
        inputs=[-1.0, 1.0],
    ),
    "seed fixed by the input": Specimen(
        mistake="default_rng(x): who knows the code knows the report of every input",
        broken=lambda x, rng, size: response(x, np.random.default_rng(x), size),
        twin=response,
        inputs=[0, 1],
    ),
    "constant seed": Specimen(
        mistake="default_rng(42): who knows the code subtracts the noise",
        broken=lambda x, rng, size: laplace(2.0)(x, np.random.default_rng(42), size),
        twin=laplace(2.0),
        inputs=[-1.0, 1.0],
    ),
    "memoised answer": Specimen(
        mistake="answers are kept by value, not by user: equal values give equal reports",
        broken=memoised(),
        twin=one_laplace,
        inputs=[-1.0, 1.0],
    ),
    "type by the input": Specimen(
        mistake="a zero is sent as a whole number, a one as a real one",
        broken=lambda x, rng, size: response(x, rng, size).astype(float if x else int),
        twin=response,
        inputs=[0, 1],
    ),
    "type by the truth": Specimen(
        mistake="the input is passed on as it came, a lie is computed: 1.0 is true, 1 is not",
        broken=lambda x, rng: 1 - int(x) if flip(0, 1.0, rng) else x,
        twin=lambda x, rng: int(flip(int(x), 1.0, rng)),
        inputs=[0.0, 1.0],
    ),
}
