"""A category as k bits, of which one is 1, every bit flipped by itself."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.targets.mechanisms.base import Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.categories import Categorical
from fedrec_auditor.targets.mechanisms.parts.entries import PureEpsilon
from fedrec_auditor.targets.mechanisms.parts.exact_draws import bernoulli


@dataclass(frozen=True, slots=True)
class Unary(PureEpsilon, Categorical):
    """P(1 | 1) = 1 - ``missed`` and P(1 | 0) = ``invented``; two inputs differ in two bits.

    Inputs are whole numbers 0 ... k - 1, outputs (*size, k) bools. The rates are stored as those
    of what is rare, and drawn exactly.
    """

    @property
    @abstractmethod
    def missed(self) -> float:
        """Probability that the bit of the input's category is sent as 0."""

    @property
    @abstractmethod
    def invented(self) -> float:
        """Probability that the bit of another category is sent as 1."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """A bit a category."""
        return (self.categories,)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw reports, bool of shape (*size, k), exactly by the distribution."""
        values = self.domain.spread(value, size)
        out = bernoulli(self.invented, rng, (*values.shape, self.categories))
        kept = ~bernoulli(self.missed, rng, values.shape)
        np.put_along_axis(out, values.astype(np.int64)[..., None], kept[..., None], axis=-1)
        return out

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(bits | value), broadcast; -inf for what are no bits."""
        out, truth = np.asarray(output), self.one_hot(self.domain.check(value))
        one = np.where(truth, math.log1p(-self.missed), math.log(self.invented))
        zero = np.where(truth, math.log(self.missed), math.log1p(-self.invented))
        each = np.where(out == 1, one, np.where(out == 0, zero, -np.inf))
        return np.asarray(each.sum(axis=-1))

    def estimate(self, output: ArrayLike) -> NDArray[np.float64]:
        """What a report adds to the estimated count of every category, (..., k): unbiased.

        The mean over a report's distribution is 1 at the true category and 0 elsewhere. Infinite at
        epsilon 0, where a report says nothing.
        """
        gap = 1.0 - self.missed - self.invented
        return self._unbiased(np.asarray(output, dtype=np.float64), self.invented, gap)

    def worst_case(self) -> WorstCase:
        """Two categories and their two bits: the others say nothing, and all pairs are alike."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.array(list(itertools.product([False, True], repeat=2))),
            part=None if self.categories == 2 else replace(self, categories=2),
            exhaustive=True,
            name_input="true category {}".format,
            name_output=lambda bits: f"bits {bits[0]:d}, {bits[1]:d} of categories 0 and 1",
        )
