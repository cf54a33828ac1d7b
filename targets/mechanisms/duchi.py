"""One number in [-1, 1], reported as one of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.entries import UnitReport
from fedrec_auditor.targets.mechanisms.parts.exact_draws import bernoulli
from fedrec_auditor.targets.mechanisms.parts.rates import flip_rate
from fedrec_auditor.targets.settings import Range


@dataclass(frozen=True, slots=True)
class Duchi(UnitReport):
    """+B with 1/2 + x (e^eps - 1)/(2 (e^eps + 1)), else -B; B = (e^eps + 1)/(e^eps - 1).

    Exactly epsilon-private, attained by x = 1 against x = -1, and unbiased: the mean output is x.
    It is the one-coordinate report (``OneCoordinate``) of a vector of one entry. Drawn as a corner,
    +1 with (1 + x)/2, whose sign is flipped at 1/(e^eps + 1), rounded up: the epsilon of the number
    stored is never above ``epsilon``, and no rounding of x makes an output impossible.
    Source: Duchi, Jordan and Wainwright 2018; Wang et al. 2019, Algorithm 1.

    Elementwise over arrays of any shape; outputs are float64.
    """

    epsilon: Annotated[float, Range("[1e-9, 700]", "in [1e-9, 700], where doubles hold its rates")]

    @property
    def flip(self) -> float:
        """The rate at which a corner's sign is flipped."""
        return flip_rate(self.epsilon)

    @property
    def magnitude(self) -> float:
        """B, the absolute value of every output."""
        return 1.0 / (1.0 - 2.0 * self.flip)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw reports, float64 of shape ``size``."""
        share = (1.0 + self.domain.spread(value, size)) / 2.0
        plus = (rng.random(share.shape) < share) ^ bernoulli(self.flip, rng, share.shape)
        return np.where(plus, self.magnitude, -self.magnitude)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(output | value), broadcast; -inf for what is neither +B nor -B."""
        out = np.asarray(output, dtype=np.float64)
        share = (1.0 + np.sign(out) * self.domain.check(value)) / 2.0
        rate = share * (1.0 - self.flip) + (1.0 - share) * self.flip
        return np.where(np.abs(out) == self.magnitude, np.log(rate), -np.inf)

    def worst_case(self) -> WorstCase:
        """The two ends, both outputs."""
        return WorstCase(
            inputs=np.array([1.0, -1.0]),
            outputs=np.array([self.magnitude, -self.magnitude]),
            exhaustive=True,
        )

    def event(self) -> dp.DpEvent:
        """Randomized response over two buckets, between the two ends."""
        return dp.RandomizedResponseDpEvent(2.0 * self.flip, 2)
