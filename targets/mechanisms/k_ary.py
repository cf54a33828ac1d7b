"""One of k categories, kept or replaced: generalised randomized response."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.entries import OneNumber
from fedrec_auditor.targets.mechanisms.parts.exact_draws import bernoulli
from fedrec_auditor.targets.mechanisms.parts.rates import share_of_noise
from fedrec_auditor.targets.settings import Checked, Range


@dataclass(frozen=True, slots=True)
class KAry(OneNumber, Checked):
    """The true category with e^eps/(e^eps + k - 1), any other one with 1/(e^eps + k - 1).

    Exactly epsilon-private: the report says the truth e^eps times as likely as any other input
    would. It is drawn as randomized response: with probability ``noise`` = k/(e^eps + k - 1) a
    uniform category, else the truth; ``noise`` is rounded up, so that the epsilon of the number
    stored is never above ``epsilon``.
    Source: Kairouz, Bonawitz and Ramage 2016 (k-RR); Wang et al. 2017 (direct encoding).

    Elementwise over arrays of any shape; inputs and outputs are whole numbers 0 ... k - 1.
    """

    epsilon: Annotated[float, Range("[0, 700]", "in [0, 700], where doubles hold its rates")]
    categories: Annotated[int, Range("[2, inf)", whole=True)]

    @property
    def domain(self) -> Domain:
        """One category, a whole number from 0."""
        values = tuple(map(float, range(self.categories)))
        return Domain(low=0, high=self.categories - 1, values=values)

    @property
    def noise(self) -> float:
        """Probability that the report is drawn without looking at the input."""
        return share_of_noise(self.epsilon, self.categories)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw reports, int64 of shape ``size``, exactly by the distribution."""
        values = self.domain.spread(value, size)
        lost = bernoulli(self.noise, rng, values.shape)
        out = values.astype(np.int64)
        out[lost] = rng.integers(0, self.categories, np.count_nonzero(lost))
        return out

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(output | value), broadcast; -inf for what is no category."""
        out, values = np.asarray(output), self.domain.check(value)
        possible = (out >= 0) & (out < self.categories) & (out == np.rint(out))
        false = math.log(self.noise) - math.log(self.categories)
        true = math.log((1.0 - self.noise) + self.noise / self.categories)
        return np.where(possible, np.where(out == values, true, false), -np.inf)

    def estimate(self, output: ArrayLike) -> NDArray[np.float64]:
        """What a report adds to the estimated count of every category, (..., k): unbiased.

        The mean over a report's distribution is 1 at the true category and 0 elsewhere. Infinite at
        epsilon 0, where a report says nothing.
        """
        reported = np.asarray(output)[..., None] == np.arange(self.categories)
        with np.errstate(divide="ignore"):
            counts = (reported - self.noise / self.categories) / np.float64(1.0 - self.noise)
        return np.asarray(counts)

    def worst_case(self) -> WorstCase:
        """Two categories, every report: all pairs are alike."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.arange(self.categories),
            exhaustive=True,
            name_input="true category {}".format,
            name_output="reported category {}".format,
        )

    def event(self) -> dp.DpEvent:
        """Randomized response over k buckets, which is what it is."""
        return dp.RandomizedResponseDpEvent(self.noise, self.categories)
