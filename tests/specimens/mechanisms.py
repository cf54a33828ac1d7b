"""Deliberately broken mechanisms: a contract that passes one of them is itself broken."""

from __future__ import annotations

from typing import Any

import numpy as np
from dp_accounting import DpEvent, RandomizedResponseDpEvent
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.targets.mechanisms.base import WorstCase
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip

Size = tuple[int, ...] | None


class _Flip(BitFlip):
    """The sound mechanism, with one thing wrong in each heir."""


class BiasedSampling(_Flip):
    """Flips a little more often than it says."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return BitFlip(self.p - 0.02, self.q).randomize(value, rng, size)


class LeakyDistribution(_Flip):
    """Probabilities that do not sum to 1."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        return super().log_prob(output, value) + np.log(0.99)


class NanDistribution(_Flip):
    """log(0) - log(0) where an output is impossible."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        law = super().log_prob(output, value)
        return np.where(np.asarray(output) == 0, np.nan, law)


class OpenDomain(_Flip):
    """Accepts anything: whatever is above a half is a 1."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(np.asarray(value) > 0.5, rng, size)


class OwnGenerator(_Flip):
    """Ignores the generator it is given."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, np.random.default_rng(7), size)


class HiddenGenerator(_Flip):
    """Draws from the operating system instead."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, np.random.default_rng(), size)


class SharedNoise(_Flip):
    """Draws once and gives everybody the same noise."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        value = np.asarray(value)
        u = rng.random()
        out = np.where(value == 1, u < self.p, u < self.q)
        self.domain.check(value)
        return np.broadcast_to(out, value.shape if size is None else size)


class NoSize(_Flip):
    """Forgets how many outputs were asked for."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, rng)


class BlindCritical(_Flip):
    """Looks at reported ones only: the trap that p/q <= e^eps suffices."""

    def worst_case(self) -> WorstCase:
        return WorstCase(inputs=np.array([0, 1]), outputs=np.array([1]))


class CheapEvent(_Flip):
    """Charges ln(p/q), forgetting the other ratio."""

    def event(self) -> DpEvent:
        return RandomizedResponseDpEvent(2 / (1 + self.p / self.q), 2)


BROKEN_MECHANISMS = tuple(broken(0.9, 0.3) for broken in _Flip.__subclasses__())
