"""No protection at all: the upload is the value itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.entries import OneBit


@dataclass(frozen=True, slots=True)
class Identity(OneBit):
    """The output is the input: epsilon is infinite, as any output names its input.

    Elementwise over arrays of bits, which are enough to show it. Outputs are bool.
    """

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """The value, bool of shape ``size``; ``rng`` is not drawn from."""
        return self.domain.spread(value, size).astype(bool)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """0 where output and value agree, -inf elsewhere."""
        return np.where(np.asarray(output) == self.domain.check(value), 0.0, -np.inf)

    def worst_case(self) -> WorstCase:
        """Both bits, both outputs: all there is."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.array([0, 1]),
            exhaustive=True,
            name_input="true entry {}".format,
            name_output="uploaded entry {}".format,
        )

    def event(self) -> dp.DpEvent:
        """A non-private event: the output is the input."""
        return dp.NonPrivateDpEvent()
