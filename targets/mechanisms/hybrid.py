"""One number in [-1, 1], reported now by the one, now by the other of two mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.targets.mechanisms.base import Size, WorstCase
from fedrec_auditor.targets.mechanisms.duchi import Duchi
from fedrec_auditor.targets.mechanisms.parts.entries import PureEpsilon, UnitReport
from fedrec_auditor.targets.mechanisms.parts.exact_draws import bernoulli
from fedrec_auditor.targets.mechanisms.parts.rates import ratio_of_flip
from fedrec_auditor.targets.mechanisms.piecewise import Piecewise, PiecewiseEpsilon

_ROOT = 405.0 * math.sqrt(241.0)
_ROOTS = math.cbrt(6353.0 - _ROOT) + math.cbrt(6353.0 + _ROOT)
THRESHOLD = math.log((2.0 * _ROOTS - 5.0) / 27.0)
"""0.61: up to this epsilon ``Duchi`` alone has the smaller worst variance."""


@dataclass(frozen=True, slots=True)
class Hybrid(PureEpsilon, UnitReport):
    """``Piecewise`` with probability 1 - e^(-eps/2), else ``Duchi``; up to eps 0.61 ``Duchi`` only.

    Exactly epsilon-private, as both are and the choice says nothing of the input; unbiased. At
    these odds the variance does not depend on the input (above 0.61).
    Source: Wang et al. 2019 (ICDE), hybrid mechanism.

    Elementwise over arrays of any shape; outputs are float64. The distribution has a density on
    [-C, C] and two atoms, Duchi's +B and -B; ``log_prob`` is a probability there and a density
    elsewhere, so outputs tell which of the two was used, but for a share of 2^-48.
    """

    epsilon: PiecewiseEpsilon

    @property
    def share(self) -> float:
        """Probability with which the ``Piecewise`` mechanism is used."""
        return -math.expm1(-self.epsilon / 2.0) if self.epsilon > THRESHOLD else 0.0

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw reports, float64 of shape ``size``."""
        values = self.domain.spread(value, size)
        pieces = bernoulli(self.share, rng, values.shape)
        out = self._duchi.randomize(values, rng)
        out[pieces] = self._piecewise.randomize(values[pieces], rng)
        return out

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-probability at +B and -B, log-density elsewhere, broadcast."""
        atom = self._duchi.log_prob(output, value) + math.log1p(-self.share)
        with np.errstate(divide="ignore"):
            density = self._piecewise.log_prob(output, value) + np.log(self.share)
        return np.where(np.isneginf(atom), density, atom)

    def delta(self, epsilon: float) -> float:
        """That of the parts, in their shares: both have the two ends as their worst pair."""
        flip = self._duchi.flip
        two = (1.0 - flip) * -math.expm1(min(epsilon - ratio_of_flip(flip), 0.0))
        return self.share * self._piecewise.delta(epsilon) + (1.0 - self.share) * two

    def worst_case(self) -> WorstCase:
        """The two ends; both atoms and an output of each piece."""
        atoms, pieces = self._duchi.worst_case(), self._piecewise.worst_case()
        return WorstCase(
            inputs=atoms.inputs, outputs=np.concatenate([atoms.outputs, pieces.outputs])
        )

    @property
    def _duchi(self) -> Duchi:
        return Duchi(self.epsilon)

    @property
    def _piecewise(self) -> Piecewise:
        return Piecewise(self.epsilon)
