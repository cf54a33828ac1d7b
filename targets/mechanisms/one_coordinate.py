"""One coordinate of a vector, drawn uniformly, reported as a randomized sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.rates import RateOrNone
from fedrec_auditor.targets.settings import Checked, Whole


@dataclass(frozen=True, slots=True)
class OneCoordinate(Checked):
    """A report of one coordinate is exactly epsilon-private, whatever the vector.

    The coordinate c is uniform, whatever the input; then P(bit = 1 | v) =
    (v_c (e^eps - 1) + e^eps + 1) / (2 e^eps + 2), and the server reads +B or -B with
    B = (e^eps + 1)/(e^eps - 1) dimension, of which the mean is v. Right only if every entry lies
    in [-1, 1] (``project``): beyond (e^eps+1)/(e^eps-1) the formula is no probability.
    Source: Minto et al. 2021, Algorithm 1 and Theorem 3 (after Nguyen et al. 2016).

    Inputs are (*batch, dimension); an output is int64 [coordinate, bit].
    """

    epsilon: RateOrNone
    dimension: Whole

    @property
    def magnitude(self) -> float:
        """B, what a bit stands for in the server's unbiased estimate; infinite at epsilon 0."""
        if self.epsilon == 0:
            return math.inf
        return self.dimension / math.tanh(self.epsilon / 2)

    @property
    def domain(self) -> Domain:
        """Vectors (dimension,) of entries in [-1, 1]."""
        return Domain(low=-1, high=1, shape=(self.dimension,))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Two numbers: the coordinate, and its bit."""
        return (2,)

    def project(self, value: ArrayLike) -> NDArray[np.float64]:
        """Clip every entry to [-1, 1]: the caller's duty before ``randomize`` and ``bits``."""
        return np.clip(np.asarray(value, dtype=np.float64), -1.0, 1.0)

    def coordinates(self, rng: Generator, size: tuple[int, ...]) -> NDArray[np.int64]:
        """Draw coordinates, so that only those entries need be computed."""
        return rng.integers(0, self.dimension, size=size)

    def bits(self, value_at: ArrayLike, rng: Generator) -> NDArray[np.bool_]:
        """Draw the bits of entries ``value_at`` in [-1, 1], any shape; InputError outside."""
        shape = np.shape(value_at)
        return self.bits_at(value_at, flip=rng.random(shape), corner=rng.random(shape))

    def coordinates_at(self, draw: NDArray[np.float64]) -> NDArray[np.int64]:
        """The coordinates of uniform draws from [0, 1): each has 1/dimension to 2^-53."""
        return (draw * self.dimension).astype(np.int64)

    def bits_at(
        self, value_at: ArrayLike, *, flip: NDArray[np.float64], corner: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """The bits of entries ``value_at``, given two uniform draws from [0, 1) each.

        A corner is drawn, then its bit is flipped. The rarer of the two is what is drawn, at a
        rate rounded up to a multiple of 2^-53: a rate next to 1 would round to 1 above epsilon 37,
        and a bit would prove a corner.
        """
        share = (1.0 + Domain(low=-1, high=1).check(value_at)) / 2.0
        return np.asarray((corner < share) ^ (flip < expit(-self.epsilon)))

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw reports, int64 of shape (*size, 2)."""
        vectors = self.domain.spread(value, size)
        index = self.coordinates(rng, vectors.shape[:-1])
        bits = self.bits(np.take_along_axis(vectors, index[..., None], axis=-1)[..., 0], rng)
        return np.stack([index, bits], axis=-1)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P([coordinate, bit] | value), broadcast; -inf for an output that cannot be."""
        out, vectors = np.asarray(output), self.domain.check(value)
        shape = np.broadcast_shapes(out.shape[:-1], vectors.shape[:-1])
        index, bit = np.broadcast_to(out[..., 0], shape), np.broadcast_to(out[..., 1], shape)
        possible = (index >= 0) & (index < self.dimension) & ((bit == 0) | (bit == 1))
        chosen = np.where(possible, index, 0).astype(np.int64)[..., None]
        vectors = np.broadcast_to(vectors, (*shape, self.dimension))
        at = np.take_along_axis(vectors, chosen, axis=-1)[..., 0]
        rate = self._rate(np.where(bit == 1, at, -at))
        return np.where(possible, np.log(rate) - math.log(self.dimension), -np.inf)

    def worst_case(self) -> WorstCase:
        """The two opposite corners, all +1 and all -1; every output."""
        inputs = np.repeat([[1.0], [-1.0]], self.dimension, axis=1)
        coordinate, bit = np.divmod(np.arange(2 * self.dimension), 2)
        return WorstCase(
            inputs=inputs,
            outputs=np.stack([coordinate, bit], axis=-1),
            exhaustive=True,
            name_input=lambda vector: f"all {len(vector)} entries {vector[0]:+g}",
            name_output=lambda report: f"entry {report[0]} sent as {'+' if report[1] else '-'}B",
        )

    def event(self) -> dp.DpEvent:
        """Randomized response over two buckets: the coordinate says nothing of the input."""
        return dp.RandomizedResponseDpEvent(2.0 * float(expit(-self.epsilon)), 2)

    def _rate(self, value_at: ArrayLike) -> NDArray[np.float64]:
        """P(bit = 1), as a mixture of the two corners: nothing cancels at large epsilon."""
        share = (1.0 + np.asarray(value_at, dtype=np.float64)) / 2.0
        return np.asarray(share * expit(self.epsilon) + (1.0 - share) * expit(-self.epsilon))
