"""Laws that are right in code that is not: broken, and done right."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.specimens.randomizer import Specimen, flip, make_laplace, snap

Rng = np.random.Generator


def answer(x: int, rng: Rng, size: int) -> Any:
    return flip(x, 1.0, rng, size)


def add_laplace(x: float, rng: Rng) -> float:
    return float(make_laplace(2.0)(x, rng, 1)[0])


def make_memo() -> Any:
    known: dict[float, float] = {}
    return lambda x, rng: known.setdefault(x, add_laplace(x, rng))


PLUMBING = {
    "one noise for a batch": Specimen(
        mistake="every user of a batch has the same noise: differences are in clear",
        broken=lambda x, rng, size: snap(np.full(size, x + rng.laplace(0.0, 2.0))),
        twin=make_laplace(2.0),
        inputs=[-1.0, 1.0],
    ),
    "seed fixed by the input": Specimen(
        mistake="default_rng(x): who knows the code knows the report of every input",
        broken=lambda x, rng, size: answer(x, np.random.default_rng(x), size),
        twin=answer,
        inputs=[0, 1],
    ),
    "constant seed": Specimen(
        mistake="default_rng(42): who knows the code subtracts the noise",
        broken=lambda x, rng, size: make_laplace(2.0)(x, np.random.default_rng(42), size),
        twin=make_laplace(2.0),
        inputs=[-1.0, 1.0],
    ),
    "memoised answer": Specimen(
        mistake="answers are kept by value, not by user: equal values give equal reports",
        broken=make_memo(),
        twin=add_laplace,
        inputs=[-1.0, 1.0],
    ),
    "type by the input": Specimen(
        mistake="a zero is sent as a whole number, a one as a real one",
        broken=lambda x, rng, size: answer(x, rng, size).astype(float if x else int),
        twin=answer,
        inputs=[0, 1],
    ),
    "type by the truth": Specimen(
        mistake="the input is passed on as it came, a lie is computed: 1.0 is true, 1 is not",
        broken=lambda x, rng: 1 - int(x) if flip(0, 1.0, rng) else x,
        twin=lambda x, rng: int(flip(int(x), 1.0, rng)),
        inputs=[0.0, 1.0],
    ),
}
