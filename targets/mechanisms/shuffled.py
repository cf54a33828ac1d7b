"""One binary report among those of other users, seen after a shuffle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import expit

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Size, WorstCase
from fedrec_auditor.targets.mechanisms.one_coordinate import OneCoordinate
from fedrec_auditor.targets.mechanisms.parts.entries import UnitEntry
from fedrec_auditor.targets.settings import AboveZero, Whole

_MANY = 10**6
# Minus the logarithm of a probability that is 0 in doubles.
_RARE = 750.0


@dataclass(frozen=True, slots=True)
class Shuffled(UnitEntry):
    """How many of ``n_users`` shuffled reports are +B, when all others hold -1.

    Each user sends +B with probability (1 + v (e^eps - 1)/(e^eps + 1))/2 for the entry v in
    [-1, 1]. The value is one user's entry and the output, in 0 ... n, the number of +B reports: all
    that a shuffle leaves of binary reports, and all that matters of one-coordinate reports of
    users at the corners (the coordinates are drawn alike by everybody). The others are fixed: a
    lower bound on epsilon for this distribution is one for the shuffle, but an upper bound is not.
    """

    epsilon: AboveZero
    n_users: Whole

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw the numbers of +B reports, int64 of shape ``size``."""
        values = self.domain.spread(value, size)
        others = rng.binomial(self.n_users - 1, expit(-self.epsilon), size=values.shape)
        return np.asarray(others + self._report.bits(values, rng))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(number of +B | value), broadcast; -inf for a number that cannot be."""
        count, vector = np.asarray(output), self.domain.check(value)[..., None]
        return np.asarray(
            np.logaddexp(
                self._report.log_prob([0, 1], vector) + self._others(count - 1),
                self._report.log_prob([0, 0], vector) + self._others(count),
            )
        )

    def worst_case(self) -> WorstCase:
        """The two corners, every number; of millions none that is less likely than a double is.

        That is e^-745, by Bernstein's inequality. Both ends are kept, as they tell the most.
        """
        outputs = np.arange(self.n_users + 1) if self.n_users <= _MANY else self._likely()
        return WorstCase(
            inputs=np.array([1.0, -1.0]),
            outputs=outputs,
            exhaustive=True,
            name_input="one user at {:+g}, all others at -1".format,
            name_output=f"{{}} of {self.n_users} reports are +B".format,
        )

    def event(self) -> dp.DpEvent:
        """One shuffle of a binary report a user."""
        return dp.ShuffledDpEvent(self.epsilon, self.n_users, binary=True)

    def _others(self, count: NDArray[Any]) -> NDArray[np.float64]:
        """ln P(number of +B of the others); among millions the logarithm of the probability.

        Differences of log-factorials would lose too many digits there.
        """
        others = stats.binom(self.n_users - 1, expit(-self.epsilon))
        if self.n_users <= _MANY:
            return np.asarray(others.logpmf(count))
        probability = others.pmf(count)
        rare = probability < 1e-300
        found = np.log(np.where(rare, 1.0, probability))
        found[rare] = others.logpmf(count[rare])
        return np.asarray(found)

    def _likely(self) -> NDArray[np.int64]:
        """The bulk of the numbers of +B, and 0 and n."""
        others = stats.binom(self.n_users - 1, expit(-self.epsilon))
        width = math.sqrt(2.0 * _RARE * others.var()) + _RARE
        low = max(1, math.floor(others.mean() - width))
        high = min(self.n_users - 1, math.ceil(others.mean() + width) + 1)
        return np.concatenate([[0], np.arange(low, high + 1), [self.n_users]])

    @property
    def _report(self) -> OneCoordinate:
        return OneCoordinate(self.epsilon, 1)
