"""A deliberately broken local randomizer, beside the same one done right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta

# ``f(x, rng, size)``, or ``f(x, rng)`` for one report at a time.
Randomizer = Callable[..., Any]

# Real outputs are reported in whole steps; see ``snap``.
STEP = 2.0**-20


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """A claim of (epsilon, delta) about two callables: a ``broken`` one, and its honest ``twin``.

    By default epsilon 1 is claimed, which holds for the twin; no epsilon holds for the broken one.

    ``inputs``: inputs to be compared in pairs. If there is a Hypothesis ``strategy``, inputs are
        drawn from it instead, and ``inputs`` are its extremes.
    ``truth``: true epsilon of the broken callable at delta, over these inputs, for a server that
        sees all outputs; infinite if no epsilon holds.
    ``twin_truth``: an epsilon that holds for the twin; its exact epsilon if ``test_truths``
        measures it.
    """

    mistake: str
    broken: Randomizer
    twin: Randomizer
    epsilon: float = 1.0
    delta: float = 0.0
    inputs: list[Any]
    strategy: Any = None
    truth: float = math.inf
    twin_truth: float = 1.0

    @property
    def claim(self) -> dict[str, Any]:
        """Arguments of ``verify_ldp``."""
        inputs = self.inputs if self.strategy is None else self.strategy
        return {"epsilon": self.epsilon, "delta": self.delta, "inputs": inputs}


@dataclass(frozen=True, kw_only=True)
class Innocent:
    """A callable that looks broken, but satisfies epsilon 1; ``truth`` is its true epsilon."""

    why: str
    randomizer: Randomizer
    inputs: list[Any]
    truth: float = 1.0

    @property
    def claim(self) -> dict[str, Any]:
        """Arguments of ``verify_ldp``."""
        return {"epsilon": 1.0, "inputs": self.inputs}


def snap(value: ArrayLike) -> NDArray[np.float64]:
    """Whole steps: any report may come of any input, as over the reals.

    Left as doubles, sums of an input and a noise have last bits that tell the input. A step of
    2^-20 is finer than any noise here needs and so coarse that all of its multiples are reached,
    except in tails of mass 2^-31, which no sample shows.
    """
    return np.asarray(np.round(np.asarray(value, dtype=np.float64) / STEP) * STEP)


def make_laplace(scale: float) -> Randomizer:
    """Laplace noise on a number, or on each of a vector."""
    return lambda x, rng, size: snap(x + rng.laplace(0.0, scale, (size, *np.shape(x))))


def flip(bits: ArrayLike, epsilon: float, rng: np.random.Generator, size: Any = None) -> Any:
    """Randomized response: every bit is kept with probability e^eps / (1 + e^eps)."""
    return np.asarray(bits) ^ (rng.random(size) < 1.0 / (1.0 + math.exp(epsilon)))


def get_rate(epsilon: float) -> float:
    """e^eps / (1 + e^eps)."""
    return 1.0 / (1.0 + math.exp(-epsilon))


def make_flip(epsilon: float) -> Randomizer:
    """Randomized response on a bit."""
    return lambda x, rng, size: np.where(rng.random(size) < get_rate(epsilon), x, 1 - x)


def make_k_ary(k: int, epsilon: float) -> Randomizer:
    """The truth, or any of k categories."""
    p = math.expm1(epsilon) / (math.exp(epsilon) + k - 1)
    return lambda x, rng, size: np.where(rng.random(size) < p, x, rng.integers(k, size=size))


def make_one_hot(k: int, epsilon: float) -> Randomizer:
    """One bit a category, each flipped at half of epsilon."""
    p = get_rate(epsilon / 2)
    return lambda x, rng, size: rng.random((size, k)) < np.where(np.arange(k) == x, p, 1 - p)


def make_piecewise(epsilon: float) -> Randomizer:
    """Wang et al. 2019, Algorithm 2, which takes anything and means [-1, 1]."""
    e = np.exp(epsilon / 2)
    c = (e + 1) / (e - 1)

    def randomize(x: float, rng: np.random.Generator, size: int) -> Any:
        left = (c + 1) / 2 * x - (c - 1) / 2
        u, w = rng.random(size), rng.random(size) * (c + 1)
        tails = np.where(w < left + c, w - c, w - c + (c - 1))
        return np.where(rng.random(size) < e / (e + 1), left + u * (c - 1), tails)

    return randomize


def solve_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon at delta of two unit normals ``mu`` apart."""
    return float(brentq(lambda e: compute_gaussian_delta(mu, e) - delta, 0.0, 1e3))


def solve_mu(epsilon: float, delta: float) -> float:
    """How far apart two unit normals may be at (epsilon, delta)."""
    return float(brentq(lambda mu: compute_gaussian_delta(mu, epsilon) - delta, 1e-6, 1e3))
