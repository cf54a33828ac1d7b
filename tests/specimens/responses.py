"""Answers out of a few: broken, and done right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.specimens.randomizer import Innocent, Randomizer, Specimen, flip, get_rate, snap

Rng = np.random.Generator


def make_bit_flip(p: float, q: float) -> Randomizer:
    """A one with probability p for a one, q for a zero."""
    return lambda x, rng, size: (rng.random(size) < (p if x else q)).astype(np.int64)


def make_k_ary(keep: float, k: int, first_lie: int = 1) -> Randomizer:
    """The truth, or another of k categories, uniformly from ``first_lie`` places on."""

    def randomize(x: int, rng: Rng, size: int) -> Any:
        lie = (x + rng.integers(first_lie, k, size)) % k
        return np.where(rng.random(size) < keep, x, lie)

    return randomize


def make_unary(p: float, q: float, k: int = 4) -> Randomizer:
    """k bits: the one of the category is sent as one with probability p, any other with q."""
    return lambda x, rng, size: (rng.random((size, k)) < np.where(np.arange(k) == x, p, q)).astype(
        np.int64
    )


def make_duchi(slope: float) -> Randomizer:
    """A sign, whose mean is ``slope`` times the input."""
    return lambda x, rng, size: np.where(rng.random(size) < 0.5 + slope * x / 2.0, 1, -1)


def make_piecewise(share: float) -> Randomizer:
    """Wang et al. 2019 at epsilon 1, with a middle piece of ``share`` times its width C - 1."""
    e = math.exp(0.5)
    c = (e + 1.0) / (e - 1.0)

    def randomize(x: float, rng: Rng, size: int) -> Any:
        left, width = (c + 1.0) / 2.0 * x - (c - 1.0) / 2.0, share * (c - 1.0)
        outside = rng.random(size) * (2.0 * c - width) - c
        outside += np.where(outside >= left, width, 0.0)
        middle = left + rng.random(size) * width
        return snap(np.where(rng.random(size) < e / (e + 1.0), middle, outside))

    return randomize


def make_choice(slope: float) -> Randomizer:
    """Exponential mechanism: item i with probability proportional to e^(slope x_i)."""

    def randomize(x: tuple[float, ...], rng: Rng, size: int) -> Any:
        weights = np.exp(slope * np.asarray(x))
        return rng.choice(len(x), size, p=weights / weights.sum())

    return randomize


def answer_twice(x: int, rng: Rng, size: int) -> Any:
    answer = flip(x, 1.0, rng, size)
    return np.stack([answer, answer, 1 - answer], axis=1)


_P_OUE = 1.0 / (1.0 + math.e)

RESPONSES = {
    "asymmetric flip": Specimen(
        mistake="ones are never flipped: a zero proves a zero",
        broken=make_bit_flip(1.0, math.exp(-1.0)),
        twin=make_bit_flip(get_rate(1.0), get_rate(-1.0)),
        inputs=[0, 1],
    ),
    "p/q alone": Specimen(
        mistake="p/q = e^eps is kept to, (1-q)/(1-p) is not looked at",
        broken=make_bit_flip(0.8, 0.8 / math.e),
        twin=make_bit_flip(1.0 - (1.0 - 0.8 / math.e) / math.e, 0.8 / math.e),
        inputs=[0, 1],
        truth=math.log((1.0 - 0.8 / math.e) / 0.2),
    ),
    "a lie that is never told": Specimen(
        mistake="lies start two categories on, so that the next one proves that it is the truth",
        broken=make_k_ary(math.e / (math.e + 4.0), 5, first_lie=2),
        twin=make_k_ary(math.e / (math.e + 4.0), 5),
        inputs=[0, 1, 2, 3, 4],
        strategy=st.integers(0, 4),
    ),
    "one category too few": Specimen(
        mistake="e^eps / (e^eps + k - 2): the truth is kept as if there were k - 1 categories",
        broken=make_k_ary(math.e / (math.e + 2.0), 4),
        twin=make_k_ary(math.e / (math.e + 3.0), 4),
        inputs=[0, 1, 2, 3],
        truth=1.0 + math.log(1.5),
    ),
    "the rate of a bit for a category": Specimen(
        mistake="e^eps / (1 + e^eps) is right for two categories, here are four",
        broken=make_k_ary(get_rate(1.0), 4),
        twin=make_k_ary(math.e / (math.e + 3.0), 4),
        inputs=[0, 1, 2, 3],
        truth=1.0 + math.log(3.0),
    ),
    "optimal unary encoding with RAPPOR's p": Specimen(
        mistake="the one is kept with probability 3/4 where q = 1/(1 + e^eps) asks for 1/2",
        broken=make_unary(0.75, _P_OUE),
        twin=make_unary(0.5, _P_OUE),
        inputs=[0, 1, 3],
        truth=1.0 + math.log(3.0),
    ),
    "epsilon for each bit of a one-hot vector": Specimen(
        mistake="two bits differ between two categories, and each costs epsilon",
        broken=make_unary(get_rate(1.0), get_rate(-1.0)),
        twin=make_unary(get_rate(0.5), get_rate(-0.5)),
        inputs=[0, 1, 3],
        truth=2.0,
    ),
    "wrong normaliser": Specimen(
        mistake="1/2 + x (e^eps - 1)/(e^eps + 1), where the denominator is twice that",
        broken=make_duchi(2.0 * math.tanh(0.5)),
        twin=make_duchi(math.tanh(0.5)),
        inputs=[-1.0, 0.0, 1.0],
        strategy=st.floats(-1.0, 1.0),
        truth=math.log((0.5 + math.tanh(0.5)) / (0.5 - math.tanh(0.5))),
    ),
    "middle piece of half the width": Specimen(
        mistake="(C - 1)/2 instead of C - 1",
        broken=make_piecewise(0.5),
        twin=make_piecewise(1.0),
        inputs=[-1.0, 0.0, 1.0],
        truth=math.log(2.0 * math.e + math.exp(0.5)),
    ),
    "exponential mechanism without its half": Specimen(
        mistake="e^(eps u) where the normaliser moves too: e^(eps u / 2)",
        broken=make_choice(1.0),
        twin=make_choice(0.5),
        inputs=[(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 1.0)],
        truth=1.0 + math.log((1.0 + 2.0 * math.e) / (math.e + 2.0)),
        twin_truth=0.5 + math.log((1.0 + 2.0 * math.exp(0.5)) / (math.exp(0.5) + 2.0)),
    ),
}

INNOCENT_RESPONSES = {
    "optimal unary encoding, p and q swapped": Innocent(
        why="the ratio p (1-q) / (q (1-p)) turns over; useless for counting, no less private",
        randomizer=make_unary(_P_OUE, 0.5),
        inputs=[0, 1, 3],
    ),
    "words": Innocent(
        why="one answer at a time, in text",
        randomizer=lambda x, rng: "yes" if flip(x, 1.0, rng) else "no",
        inputs=[0, 1],
    ),
    "said twice": Innocent(
        why="a coordinate that repeats another is a function of the same report",
        randomizer=answer_twice,
        inputs=[0, 1],
    ),
    "silent": Innocent(
        why="the same output from every seed, and for every input",
        randomizer=lambda x, rng, size: np.zeros(size, dtype=np.int64),
        inputs=[0, 1],
        truth=0.0,
    ),
}
