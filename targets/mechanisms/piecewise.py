"""One number in [-1, 1], reported as a number that is likely near it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.targets.mechanisms.base import Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.entries import PureEpsilon, UnitEntry
from fedrec_auditor.targets.mechanisms.parts.exact_draws import bernoulli
from fedrec_auditor.targets.mechanisms.parts.rates import share_of_noise
from fedrec_auditor.targets.settings import Range

_CELLS = 2**48
PiecewiseEpsilon = Annotated[float, Range("[1e-9, 40]")]
"""Up to the largest epsilon for which the cells resolve the distribution."""


@dataclass(frozen=True, slots=True)
class Piecewise(PureEpsilon, UnitEntry):
    """Density e^eps as high on [l(x), r(x)] as elsewhere on [-C, C]: exactly epsilon-private.

    C = (e^(eps/2) + 1)/(e^(eps/2) - 1), r - l = C - 1 and l(x) = (C + 1) x/2 - (C - 1)/2, so that
    the mean output is x. Drawn as: uniform on [-C, C] with probability e^(-eps/2), else uniform on
    [l, r].
    Source: Wang et al. 2019 (ICDE), Algorithm 2; there l and r are computed per input
    and a double between them is drawn, which reaches doubles that tell the input.

    Here [-C, C] has 2^48 cells, l(x) is rounded to a cell's edge, and the output is the middle of a
    cell: every output is possible under every input, with the probability that the density says.
    The mean is x but for that rounding, 2^-48 C. ``noise`` is rounded up, so that the epsilon of
    the number stored is never above ``epsilon``.

    Elementwise over arrays of any shape; outputs are float64.
    """

    epsilon: PiecewiseEpsilon

    @property
    def noise(self) -> float:
        """Probability that the output is drawn without looking at the input: e^(-eps/2)."""
        return share_of_noise(self.epsilon, _CELLS, self._near)

    @property
    def magnitude(self) -> float:
        """C, the largest output."""
        return _CELLS / (_CELLS - self._near) / (1.0 - self.noise)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw reports, float64 of shape ``size``, exactly by the distribution on the cells."""
        first = self._first(self.domain.spread(value, size))
        anywhere = bernoulli(self.noise, rng, first.shape)
        near = first + rng.integers(0, self._near, first.shape)
        return self._middle(np.where(anywhere, rng.integers(0, _CELLS, first.shape), near))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of ``output`` given ``value``, broadcast; -inf outside [-C, C]."""
        cell = (np.asarray(output, dtype=np.float64) / self.magnitude + 1.0) * (_CELLS / 2)
        first = self._first(self.domain.check(value))
        near = (cell >= first) & (cell <= first + self._near)
        low, width = self.noise / _CELLS, 2.0 * self.magnitude / _CELLS
        high = low + (1.0 - self.noise) / self._near
        inside = (cell >= 0) & (cell <= _CELLS)
        density = np.where(near, math.log(high / width), math.log(low / width))
        return np.where(inside, density, -np.inf)

    def delta(self, epsilon: float) -> float:
        """Of two inputs whose intervals are apart: high (1 - e^(epsilon - eps)) times their width.

        The ends -1 and 1 are such inputs; where intervals overlap less of them counts.
        """
        near = 1.0 - self.noise * (1.0 - self._near / _CELLS)
        own = math.log(near / self._near) - math.log(self.noise / _CELLS)
        return near * -math.expm1(min(epsilon - own, 0.0))

    def worst_case(self) -> WorstCase:
        """The two ends; one output of each of the three pieces that they cut."""
        reach = self._near / 2
        middles = np.array([reach, _CELLS / 2, _CELLS - reach])
        return WorstCase(inputs=np.array([-1.0, 1.0]), outputs=self._middle(middles))

    @property
    def _near(self) -> int:
        """How many cells [l, r] has: (C - 1)/(2C) = 1/(e^(eps/2) + 1) of them."""
        return round(_CELLS / (math.exp(self.epsilon / 2.0) + 1.0))

    def _first(self, value: NDArray[Any]) -> NDArray[np.int64]:
        """The first cell of [l(x), r(x)]."""
        return np.asarray(np.rint((_CELLS - self._near) * ((1.0 + value) / 2.0)), dtype=np.int64)

    def _middle(self, cell: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray((2.0 * cell + (1.0 - _CELLS)) / _CELLS * self.magnitude)
