"""Laplace noise on the coefficients of a training objective, which is then minimised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.mechanisms.base import WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import Laplacian, RealVector
from fedrec_auditor.targets.mechanisms.parts.entries import PureEpsilon
from fedrec_auditor.targets.settings import AboveZero, NotZero, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbation(PureEpsilon, RealVector, Laplacian):
    """Loss l(w.x) = const + a w.x + c (w.x)^2 of one record x, every coefficient in w noisy.

    The functional mechanism: noise of scale D/eps on the linear coefficients a x_i and on those of
    the monomials w_i w_j (c x_i^2, and 2 c x_i x_j for i < j), where D = 2 (|a| d + |c| d^2) is
    twice the largest L1 norm for x in [-1, 1]^d. The claim of ``budget`` = eps holds, loosely: for
    x, x' = s + t, s - t the coefficients are

        2|a| |t|_1 + 2|c| sum over i, j of |s_i t_j + t_i s_j|

    apart, at most 2T (|a| + 2|c| S) with S = |s|_1, T = |t|_1 and S + T <= d, and equal to it where
    all s_i = S/d and t_i = T/d. The maximum is at T = (|a| + 2|c| d)/(4|c|), or d if that is more,
    and ``epsilon`` is it over the scale, exactly: for the logistic loss
    (d + 2)^2/(2 d (d + 4)) of eps from d = 2 on, half of it in high dimension.

    What it protects is one record: a client who trains on n records under one draw of noise
    spends n epsilon, and again in every round. The minimiser is covered as post-processing only if
    it is computed from the noisy coefficients alone. A client that goes on with gradients of its
    data, or perturbs the linear term alone while the quadratic one keeps its x, is not covered.
    Source: Zhang et al. (fedrec-apm), section 5.2, name objective perturbation for F-GERAI and
    F-DPMF and fix no distribution; this is the functional mechanism (Zhang, Zhang, Xiao, Yang and
    Winslett 2012, Algorithm 1), which is assumed. ``logistic`` and ``squared`` are the losses of
    the two.

    Inputs are records, (*batch, dimension), clipped elementwise to [-1, 1]; an output has the d
    linear coefficients, then the quadratic ones of i <= j, row by row.
    """

    budget: AboveZero
    dimension: Whole
    linear: NotZero
    quadratic: NotZero

    @classmethod
    def logistic(cls, *, budget: float, dimension: int) -> Self:
        """-ln sigma(w.x) to second order at 0 (F-GERAI; x is negated for a negative item)."""
        return cls(budget=budget, dimension=dimension, linear=-0.5, quadratic=0.125)

    @classmethod
    def squared(cls, *, budget: float, dimension: int) -> Self:
        """(1 - w.x)^2, an interaction with the embedding x (F-DPMF)."""
        return cls(budget=budget, dimension=dimension, linear=-2.0, quadratic=1.0)

    @property
    def epsilon(self) -> float:
        """The exact epsilon of one record."""
        a, c = abs(self.linear), abs(self.quadratic)
        apart = self._apart
        return 2.0 * apart * (a + 2.0 * c * (self.dimension - apart)) / self.noise_scale

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(d + d (d + 1)/2,)."""
        return (self.dimension * (self.dimension + 3) // 2,)

    @property
    def noise_scale(self) -> float:
        """The scale D/eps of the Laplace noise."""
        d = self.dimension
        return 2.0 * (abs(self.linear) * d + abs(self.quadratic) * d**2) / self.budget

    def center(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """The coefficients of the record's loss."""
        x = np.clip(value, -1.0, 1.0)
        row, column = np.triu_indices(self.dimension)
        weight = self.quadratic * np.where(row == column, 1.0, 2.0)
        quadratic = weight * x[..., row] * x[..., column]
        return np.concatenate([self.linear * x, quadratic], axis=-1)

    def worst_case(self) -> WorstCase:
        """Records all +1 and all 1 - 2T/d; the outputs are their coefficients."""
        inputs = np.ones((2, self.dimension))
        inputs[1] -= 2.0 * self._apart / self.dimension
        return WorstCase(inputs=inputs, outputs=self.center(inputs))

    @property
    def _apart(self) -> float:
        """T at the maximum."""
        a, c = abs(self.linear), abs(self.quadratic)
        return min(float(self.dimension), (a + 2.0 * c * self.dimension) / (4.0 * c))
