"""Reports of several entries: broken, and done right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.specimens.randomizer import Randomizer, Specimen, flip, make_laplace, snap

Rng = np.random.Generator
Vector = tuple[float, ...]
Bits = tuple[int, ...]


def add_to_touched(x: Vector, rng: Rng, size: int) -> Any:
    noise = rng.laplace(0.0, 6.0, (size, len(x)))
    return snap(np.asarray(x) + np.where(np.asarray(x) != 0.0, noise, 0.0))


def make_one_coordinate(is_projected: bool) -> Randomizer:
    """Minto et al. 2021, Algorithm 1, at epsilon 1: [coordinate, bit]."""

    def randomize(x: Vector, rng: Rng, size: int) -> Any:
        values = np.clip(x, -1.0, 1.0) if is_projected else np.asarray(x)
        chosen = rng.integers(0, len(x), size)
        one = np.clip(0.5 + values * math.tanh(0.5) / 2.0, 0.0, 1.0)[chosen]
        return np.stack([chosen, rng.random(size) < one], axis=1)

    return randomize


def make_leaky_flip(delta: float) -> Randomizer:
    """Eight bits, each flipped at epsilon 1/8, or sent in clear (as 2 or 3) at a rate delta."""

    def randomize(x: Bits, rng: Rng, size: int) -> Any:
        clear = rng.random((size, len(x))) < delta
        return np.where(clear, 2 + np.asarray(x), flip(x, 1 / 8, rng, (size, len(x))))

    return randomize


def sort(x: Bits, rng: Rng, size: int) -> Any:
    order = np.argsort(-np.asarray(x), kind="stable")
    return 2 * order + flip(x, 1 / 3, rng, (size, len(x)))[:, order]


def shuffle(x: Bits, rng: Rng, size: int) -> Any:
    order = rng.permuted(np.tile(np.arange(len(x)), (size, 1)), axis=1)
    return 2 * order + np.take_along_axis(flip(x, 1 / 3, rng, (size, len(x))), order, axis=1)


def flip_all(x: Bits, rng: Rng) -> tuple[int, ...]:
    return tuple(int(flip(bit, 1 / 2, rng)) for bit in x)


def flip_padded(x: Bits, rng: Rng) -> tuple[int, ...]:
    return flip_all((*x, 0)[:2], rng)


def make_text(randomizer: Randomizer) -> Randomizer:
    return lambda x, rng: "".join(map(str, randomizer(x, rng)))


VECTORS = {
    "one noise for all coordinates": Specimen(
        mistake="the differences of the coordinates are those of the input",
        broken=lambda x, rng, size: snap(x + rng.laplace(0.0, 6.0, (size, 1))),
        twin=make_laplace(6.0),
        inputs=[(-1.0, -1.0, -1.0), (-1.0, 0.0, 1.0), (1.0, 1.0, 1.0)],
    ),
    "noise on touched rows only": Specimen(
        mistake="a row that was not touched is sent as an exact 0",
        broken=add_to_touched,
        twin=make_laplace(6.0),
        inputs=[(-1.0, -1.0, -1.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0)],
        strategy=st.sampled_from([(-1.0, -1.0, -1.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0)]),
    ),
    "budget not split over coordinates": Specimen(
        mistake="noise for one coordinate on each of four",
        broken=make_laplace(2.0),
        twin=make_laplace(8.0),
        inputs=[(-1.0, -1.0, -1.0, -1.0), (1.0, 1.0, 1.0, 1.0)],
        truth=4.0,
    ),
    "own maximum as the clip bound": Specimen(
        mistake="noise in proportion to the largest entry of the input itself",
        broken=lambda x, rng, size: make_laplace(4.0 * np.abs(x).max())(x, rng, size),
        twin=make_laplace(4.0),
        inputs=[(0.01, 0.01), (-1.0, -1.0), (1.0, 1.0)],
    ),
    "no projection before one coordinate": Specimen(
        mistake="entries beyond 1 make the rate of a bit 0 or 1",
        broken=make_one_coordinate(is_projected=False),
        twin=make_one_coordinate(is_projected=True),
        inputs=[(-5.0, 0.0, 0.0), (0.0, 0.0, 0.0), (5.0, 0.0, 0.0)],
    ),
    "delta for each coordinate": Specimen(
        mistake="each of eight bits fails at the delta of the whole",
        broken=make_leaky_flip(0.01),
        twin=make_leaky_flip(0.01 / 8),
        delta=0.01,
        inputs=[(0,) * 8, (1,) * 8],
    ),
    "shuffled by sorting": Specimen(
        mistake="the reports leave in the order of what they report",
        broken=sort,
        twin=shuffle,
        inputs=[(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 1, 1)],
    ),
    "as long as the history": Specimen(
        mistake="as many bits are sent as the user has",
        broken=flip_all,
        twin=flip_padded,
        inputs=[(1,), (0, 1)],
    ),
    "a text as long as the history": Specimen(
        mistake="as many letters are sent as the user has bits",
        broken=make_text(flip_all),
        twin=make_text(flip_padded),
        inputs=[(1,), (0, 1)],
    ),
}
