"""Discrete noise on a grid: a base class of mechanisms, and exact samplers of integers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Shape
from fedrec_auditor.targets.mechanisms.parts.bases import IntervalMechanism
from fedrec_auditor.targets.settings import FiniteFloat, Range, check_settings

# Type of the step of a grid: a power of two.
PowerOfTwo = Annotated[
    float,
    Range(
        "(0, inf)",
        "to be a power of two, whose multiples doubles hold exactly",
        condition=lambda step: math.frexp(step)[0] == 0.5,
    ),
]
_FARTHEST = 2.0**52


@dataclass(frozen=True, slots=True, kw_only=True)
class GridNoise(IntervalMechanism, ABC):
    """Base class of mechanisms that round an entry to a grid and add a random number of steps.

    ``low``, ``high``: ends of the range of an entry.
    ``step``: step of the grid, a power of two, so that doubles represent its multiples exactly.

    The entry is rounded to a multiple of ``step`` before the noise is added (ties to even). The
    sensitivity is the distance of the rounded ends of the range. The mechanism acts elementwise on
    arrays of any shape.
    """

    # All inputs are rounded by the same function, so that no pair of rounded inputs is farther
    # apart than the rounded ends.

    low: FiniteFloat
    high: FiniteFloat
    step: PowerOfTwo = 1.0

    def __post_init__(self) -> None:
        check_settings(self)
        farthest = max(abs(self.low), abs(self.high)) / self.step
        if not (self.low < self.high and farthest <= _FARTHEST and self.sensitivity_steps >= 1):
            raise InputError(
                f"Expected low < high, a step or more apart and within 2^52 steps of 0, got low="
                f"{self.low!r}, high={self.high!r}, step={self.step!r}. Change low, high or step."
            )

    @property
    def sensitivity_steps(self) -> int:
        """Sensitivity in grid steps: the distance between ``low`` and ``high`` after rounding."""
        return round(self.high / self.step) - round(self.low / self.step)

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws outputs, which are multiples of ``step``, float64 of shape ``size``."""
        values = self.domain.expand_batch(value, size)
        steps = self._draw_noise(rng, values.size).reshape(values.shape)
        return np.asarray((np.rint(values / self.step) + steps) * self.step)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(output | value); -inf for an output that is not a multiple of ``step``."""
        steps = np.asarray(output, dtype=np.float64) / self.step
        noise = steps - np.rint(self.domain.check(value) / self.step)
        return np.where(steps == np.rint(steps), self._log_mass(noise), -np.inf)

    @abstractmethod
    def _draw_noise(self, rng: Generator, size: int) -> NDArray[np.int64]:
        """Draws the numbers of steps to add, int64 of shape (size,)."""

    @abstractmethod
    def _log_mass(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the log-probability that the noise is ``steps`` steps."""

    def _check_noise(self, name: str, noise: float, low: float, high: float) -> None:
        """Raises InputError unless the noise scale ``noise`` is from ``low`` to ``high`` steps."""
        if not low <= noise / self.step <= high:
            raise InputError(
                f"Expected {name} from {low:g} to {high:g} times the grid step, got "
                f"{name}={noise!r} with step={self.step:g}. Change step or {name}."
            )


# The samplers below compare integers instead of rounding logarithms, so that draws are exact. A
# sampler that rounds doubles cuts off the tail of the distribution at a point that depends on the
# input. Some outputs are then possible under one input and impossible under another.

_BITS = 2.0**53


def convert_to_uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Converts random 64-bit words to uniform numbers in [0, 1), as numpy's generators do.

    The numbers are multiples of 2^-53.
    """
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def draw_bernoulli(rate: float, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Draws flags that are True with probability exactly ``rate``, bool of shape ``shape``.

    The probability is also exact if ``rate`` is close to 0.
    """
    # Random digits to the base 2^53 are compared with the digits of ``rate``, until a random digit
    # differs from that of ``rate``.
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


def draw_bernoulli_exp(
    numerator: ArrayLike, denominator: int, rng: Generator, size: int
) -> NDArray[np.bool_]:
    """Draws ``size`` flags that are True with probability exactly e^-(numerator/denominator).

    numerator: integer of at least 0; one for all flags, or an array (size,) with one per flag.
    denominator: integer of at least 1.
    """
    whole, rest = np.divmod(np.broadcast_to(np.asarray(numerator), (size,)), denominator)
    out = _draw_exp_below_one(rest, denominator, rng)
    left = whole.copy()
    running = np.flatnonzero(out & (left > 0))
    while running.size:
        out[running] = _draw_exp_below_one(np.ones(running.size, dtype=np.int64), 1, rng)
        left[running] -= 1
        running = running[out[running] & (left[running] > 0)]
    return out


def _draw_exp_below_one(top: NDArray[Any], denominator: int, rng: Generator) -> NDArray[np.bool_]:
    """Draws True with probability e^-g for g = top/denominator in [0, 1].

    Source: von Neumann 1951; Canonne, Kamath and Steinke 2020, Algorithm 1.
    """
    # Bernoulli draws of rate g/1, g/2, g/3, ... are made until one fails. The k-th draw is made
    # with probability g^(k-1)/(k-1)!, so that the failure is at an odd k with probability 1 - g +
    # g^2/2 - ... = e^-g.
    out, running, k = np.zeros(len(top), dtype=bool), np.arange(len(top)), 1
    while running.size:
        on = rng.integers(0, denominator, running.size) < top[running]
        if k > 1:
            on &= rng.integers(0, k, running.size) == 0
        out[running[~on]] = k % 2 == 1
        running, k = running[on], k + 1
    return out


def draw_geometric(scale: Fraction, rng: Generator, size: int) -> NDArray[np.int64]:
    """Draws ``size`` integers g >= 0 with probabilities exactly proportional to e^(-g/scale).

    The numerator of ``scale`` must be below 2^53 and its denominator below 2^63. Source: Canonne,
    Kamath and Steinke 2020, Algorithm 2.
    """
    # In contrast to the paper's algorithm, all integers are drawn together.
    t, s = scale.numerator, scale.denominator
    low, pending = np.zeros(size, dtype=np.int64), np.arange(size)
    while pending.size:
        low[pending] = rng.integers(0, t, pending.size)
        pending = pending[~draw_bernoulli_exp(low[pending], t, rng, pending.size)]
    whole, running = np.zeros(size, dtype=np.int64), np.arange(size)
    while running.size:
        running = running[draw_bernoulli_exp(1, 1, rng, running.size)]
        whole[running] += 1
    return np.asarray((low + t * whole) // s)


def draw_laplace(scale: Fraction, rng: Generator, size: int) -> NDArray[np.int64]:
    """Draws ``size`` integers k of any sign, with P(k) exactly proportional to e^(-|k|/scale).

    This is the discrete Laplace distribution, also called two-sided geometric distribution.
    """
    out, pending = np.zeros(size, dtype=np.int64), np.arange(size)
    while pending.size:
        distance = draw_geometric(scale, rng, pending.size)
        minus = rng.integers(0, 2, pending.size) == 1
        out[pending] = np.where(minus, -distance, distance)
        pending = pending[minus & (distance == 0)]
    return out
