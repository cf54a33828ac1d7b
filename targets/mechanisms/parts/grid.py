"""Whole numbers of steps of noise on a number that is rounded to whole steps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.parts.entries import BoundedEntry
from fedrec_auditor.targets.settings import Finite, Range, check

PowerOfTwo = Annotated[
    float,
    Range(
        "(0, inf)",
        "to be a power of two, whose multiples doubles hold exactly",
        also=lambda step: math.frexp(step)[0] == 0.5,
    ),
]
_FARTHEST = 2.0**52


@dataclass(frozen=True, slots=True, kw_only=True)
class OnGrid(BoundedEntry, ABC):
    """The nearest multiple of ``step`` to an entry in [low, high], moved by random steps.

    ``step`` is a power of two, so that doubles hold every multiple exactly. The entry is rounded
    first (ties to even), which is the same for all inputs and needs no noise to hide it; the
    sensitivity is that of the rounded ends. Elementwise over arrays of any shape.
    """

    low: Finite
    high: Finite
    step: PowerOfTwo = 1.0

    def __post_init__(self) -> None:
        check(self)
        farthest = max(abs(self.low), abs(self.high)) / self.step
        if not (self.low < self.high and farthest <= _FARTHEST and self.width >= 1):
            raise InputError(
                f"Expected low < high, a step apart and at most 2^52 steps from 0, got "
                f"low={self.low!r}, high={self.high!r}, step={self.step!r}. Change the step."
            )

    @property
    def width(self) -> int:
        """The sensitivity: how many steps the rounded ends are apart."""
        return round(self.high / self.step) - round(self.low / self.step)

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Draw multiples of the step, float64 of shape ``size``."""
        values = self.domain.spread(value, size)
        steps = self._noise(rng, values.size).reshape(values.shape)
        return np.asarray((np.rint(values / self.step) + steps) * self.step)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(output | value), broadcast; -inf for what is no multiple of the step."""
        steps = np.asarray(output, dtype=np.float64) / self.step
        noise = steps - np.rint(self.domain.check(value) / self.step)
        return np.where(steps == np.rint(steps), self._log_mass(noise), -np.inf)

    @abstractmethod
    def _noise(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """How many steps to move, int64 of shape (size,)."""

    @abstractmethod
    def _log_mass(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """ln P(moved by ``steps``)."""

    def _check_noise(self, name: str, noise: float, least: float, most: float) -> None:
        """InputError unless ``noise`` is from ``least`` to ``most`` steps."""
        if not least <= noise / self.step <= most:
            raise InputError(
                f"Expected {name} of {least:g} to {most:g} steps, got {name}={noise!r} with a step "
                f"of {self.step:g}. Change the step."
            )
