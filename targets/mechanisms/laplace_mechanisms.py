"""Laplace noise on numbers, and a variant on a grid without leaks through floating-point
rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Shape, WorstCase
from fedrec_auditor.targets.mechanisms.parts import bases
from fedrec_auditor.targets.mechanisms.parts.grid import draw_bernoulli_exp, draw_geometric
from fedrec_auditor.targets.settings import FiniteFloat, PositiveFloat, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(bases.IntervalMechanism, bases.LaplaceNoise):
    """Adds independent Laplace noise to every entry.

    ``scale``: scale of the Laplace noise.
    ``low``, ``high``: ends of the range of an entry.

    The epsilon of an entry is exactly (high - low)/scale, with the length of the whole range, not
    half of it. The mechanism acts elementwise on arrays of any shape: every entry is a separate
    input.

    Source: Dwork, McSherry, Nissim and Smith 2006.
    """

    # A common error is a scale of c/eps for entries clipped to [-c, c]: their epsilon is 2 eps.

    scale: PositiveFloat
    low: FiniteFloat
    high: FiniteFloat

    def __post_init__(self) -> None:
        check_settings(self)
        bases.check_range(self.low, self.high)

    @property
    def epsilon(self) -> float:
        """Exact epsilon of one entry, (high - low)/scale."""
        return (self.high - self.low) / self.scale

    @property
    def noise_scale(self) -> float:
        """Scale of the Laplace noise; the same number as the field ``scale``."""
        return self.scale

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        Inputs and outputs are the two ends of the range. Outputs beyond the ends have the same
        privacy loss.
        """
        ends = np.array([self.low, self.high])
        return WorstCase(inputs=ends, outputs=ends)

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at ``epsilon``, for the inputs ``low`` and ``high``.

        The value is 1 - e^((epsilon - self.epsilon)/2), or 0 if epsilon is above self.epsilon. No
        pair of inputs has a larger delta.
        """
        return -math.expm1(min(epsilon - self.epsilon, 0.0) / 2.0)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of Laplace noise for the sensitivity high - low."""
        return dp.LaplaceDpEvent(self.scale / (self.high - self.low))


_FINE = 2**20
_DIGITS = 2**30
_MAX_STEPS = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class SnappedLaplace(bases.PureDpMixin, bases.IntervalMechanism):
    """Adds Laplace noise to an entry and rounds the sum to a grid, against floating-point leaks.

    ``scale``: scale of the Laplace noise.
    ``low``, ``high``: ends of the range of an entry.
    ``bound``: largest absolute value of an output, before it is rounded up to the grid.

    The sum is rounded to multiples of ``grid_step`` and clamped to [-bound, bound]. Epsilon is at
    most (high - low)/scale, and equal to it if possible outputs lie on both sides of [low, high].

    The mechanism acts elementwise on arrays of any shape; outputs are float64.

    Source: Mironov 2012 (the snapping mechanism).
    """

    # The noise of Mironov's paper is the logarithm of a double, which costs slightly more epsilon
    # than this class.
    # Rounding and clamping lose information. The rounded sum is drawn directly from its
    # distribution, by comparing integers. The sum either stays in the grid cell of the entry, or
    # leaves the cell on one side by a geometric number of cells. ``log_prob`` returns exactly the
    # probabilities of these draws. To make all numbers integers, the entry is first rounded to
    # 2^-20 of a step, and ``scale`` is rounded up to 2^-30 of a step.

    scale: PositiveFloat
    low: FiniteFloat
    high: FiniteFloat
    bound: PositiveFloat

    def __post_init__(self) -> None:
        check_settings(self)
        if not -self.bound <= self.low < self.high <= self.bound:
            raise InputError(
                f"Expected -bound <= low < high <= bound, got low={self.low!r}, "
                f"high={self.high!r}, bound={self.bound!r}. Give low < high, within the bound."
            )
        if not self.bound / self.grid_step <= _MAX_STEPS:
            raise InputError(
                f"Expected bound of at most {_MAX_STEPS} grid steps of {self.grid_step:g}, got "
                f"bound={self.bound!r}. Lower the bound; noise of this scale does not reach it."
            )

    @property
    def grid_step(self) -> float:
        """Distance of neighbouring outputs: the smallest power of two of at least ``scale``."""
        mantissa, exponent = math.frexp(self.scale)
        return math.ldexp(1.0, exponent - (mantissa == 0.5))

    @property
    def epsilon(self) -> float:
        """Exact epsilon of one entry: the largest absolute privacy loss over all outputs."""
        worst_case = self.worst_case()
        first, second = self.log_prob(worst_case.outputs, worst_case.inputs[:, None])
        return float(np.abs(first - second).max())

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws outputs, which are multiples of ``grid_step``, float64 of shape ``size``.

        The draws follow the distribution of ``log_prob`` exactly.
        """
        values = self.domain.expand_batch(value, size)
        cell, offset = (part.ravel() for part in self._find_cell(values))
        side = 2 * rng.integers(0, 2, values.size) - 1
        gap = (_FINE // 2 - side * offset) * _DIGITS
        left = draw_bernoulli_exp(gap, _FINE * self._integer_scale.numerator, rng, values.size)
        steps = 1 + draw_geometric(self._integer_scale / _DIGITS, rng, int(left.sum()))
        cell[left] += side[left] * steps
        out = np.clip(cell, -self._max_steps, self._max_steps) * self.grid_step
        return np.asarray(out.reshape(values.shape))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(``output`` | ``value``), exactly as ``randomize`` draws outputs.

        The result is -inf for an output that is not a multiple of ``grid_step`` within [-bound,
        bound].
        """
        out = np.asarray(output, dtype=np.float64) / self.grid_step
        cell, offset = self._find_cell(self.domain.check(value))
        rate = _DIGITS / float(self._integer_scale)
        at, moved = offset / _FINE, out - cell
        side = np.where(moved < 0, -1.0, 1.0)
        # ln P(the output lies on this side, at this distance or farther away).
        beyond = math.log(0.5) - (np.abs(moved) - 0.5 - side * at) * rate
        last = np.abs(out) == self._max_steps
        away = beyond + np.where(last, 0.0, math.log(-math.expm1(-rate)))
        leaves = sum(
            np.where(way * cell < self._max_steps, 0.5 * np.exp(-(0.5 - way * at) * rate), 0.0)
            for way in (-1, 1)
        )
        stays = np.log1p(-leaves)
        possible = (out == np.rint(out)) & (np.abs(out) <= self._max_steps)
        return np.where(possible, np.where(moved == 0, stays, away), -np.inf)

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        The inputs are the two ends of the range. The outputs are all possible outputs.
        """
        # The distribution is log-concave in the distance from the input. The outputs whose ratio of
        # probabilities exceeds a threshold are therefore all outputs on one side of some point. The
        # probability of one side differs most between the two ends of the range.
        return WorstCase(
            inputs=np.array([self.low, self.high]),
            outputs=np.arange(-self._max_steps, self._max_steps + 1) * self.grid_step,
            exhaustive=True,
        )

    @property
    def _integer_scale(self) -> Fraction:
        """``scale`` in units of 2^-30 of a step of the grid, rounded up to an integer."""
        return Fraction(math.ceil(Fraction(self.scale) / Fraction(self.grid_step) * _DIGITS))

    @property
    def _max_steps(self) -> int:
        """Largest output, in steps of the grid."""
        return math.ceil(self.bound / self.grid_step)

    def _find_cell(self, value: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the index of the nearest grid point, and the entry's offset from this point.

        The offset is in units of 2^-20 of a step.
        """
        fine = np.asarray(np.rint(value / self.grid_step * _FINE), dtype=np.int64)
        cell = (fine + _FINE // 2) // _FINE
        return cell, fine - cell * _FINE
