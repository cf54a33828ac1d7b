"""Exact Bernoulli and geometric draws: whole numbers are compared, no logarithm is rounded.

A sampler of doubles next to a distribution's tail cuts the tail off, and where it does so depends
on the input: an output is then possible under one input and impossible under another.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BITS = 2.0**53


def unit(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniform in [0, 1) from random words: multiples of 2^-53, as numpy's generators draw them."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def bernoulli(rate: float, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """True with probability ``rate``, exactly, however close to 0 the double is.

    Uniform digits to base 2^53 are compared with those of ``rate`` until they differ.
    """
    digit = math.floor(rate * _BITS)
    drawn = rng.integers(0, 2**53, math.prod(shape))
    out = drawn < digit
    tied, rest = np.flatnonzero(drawn == digit), rate * _BITS - digit
    while tied.size and rest > 0.0:
        digit = math.floor(rest * _BITS)
        drawn = rng.integers(0, 2**53, tied.size)
        out[tied] = drawn < digit
        tied, rest = tied[drawn == digit], rest * _BITS - digit
    return out.reshape(shape)


def bernoulli_exp(
    numerator: ArrayLike, denominator: int, rng: np.random.Generator, size: int
) -> NDArray[np.bool_]:
    """True with probability e^-(numerator/denominator), exactly; the numerators not negative."""
    whole, rest = np.divmod(np.broadcast_to(np.asarray(numerator), (size,)), denominator)
    out = _bernoulli_exp_below_one(rest, denominator, rng)
    left = whole.copy()
    running = np.flatnonzero(out & (left > 0))
    while running.size:
        out[running] = _bernoulli_exp_below_one(np.ones(running.size, dtype=np.int64), 1, rng)
        left[running] -= 1
        running = running[out[running] & (left[running] > 0)]
    return out


def _bernoulli_exp_below_one(
    numerators: NDArray[Any], denominator: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """True with probability e^-g for g = numerator/denominator in [0, 1].

    Bernoulli draws of rate g/1, g/2, g/3, ... are made until one fails: the k-th is reached with
    probability g^(k-1)/(k-1)!, so it fails at an odd k with probability 1 - g + g^2/2 - ... = e^-g
    (von Neumann 1951; Canonne, Kamath and Steinke 2020, Algorithm 1).
    """
    out, running, k = np.zeros(len(numerators), dtype=bool), np.arange(len(numerators)), 1
    while running.size:
        on = rng.integers(0, denominator, running.size) < numerators[running]
        if k > 1:
            on &= rng.integers(0, k, running.size) == 0
        out[running[~on]] = k % 2 == 1
        running, k = running[on], k + 1
    return out


def geometric(scale: Fraction, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """P(g) proportional to e^(-g/scale) for g = 0, 1, ...: exactly, and without an end.

    Canonne, Kamath and Steinke 2020, Algorithm 2, over all outputs at once. Numerator and
    denominator of ``scale`` must be below 2^53 and 2^63.
    """
    t, s = scale.numerator, scale.denominator
    low, pending = np.zeros(size, dtype=np.int64), np.arange(size)
    while pending.size:
        low[pending] = rng.integers(0, t, pending.size)
        pending = pending[~bernoulli_exp(low[pending], t, rng, pending.size)]
    whole, running = np.zeros(size, dtype=np.int64), np.arange(size)
    while running.size:
        running = running[bernoulli_exp(1, 1, rng, running.size)]
        whole[running] += 1
    return np.asarray((low + t * whole) // s)


def discrete_laplace(scale: Fraction, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """P(k) proportional to e^(-|k|/scale) over the whole numbers, exactly."""
    out, pending = np.zeros(size, dtype=np.int64), np.arange(size)
    while pending.size:
        distance = geometric(scale, rng, pending.size)
        minus = rng.integers(0, 2, pending.size) == 1
        out[pending] = np.where(minus, -distance, distance)
        pending = pending[minus & (distance == 0)]
    return out
