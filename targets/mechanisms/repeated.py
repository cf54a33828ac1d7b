"""Fresh reports on the same input: what an upload in every round amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.mechanisms.base import Domain
from fedrec_auditor.targets.mechanisms.parts.uses import NormalUses, Uses


@dataclass(frozen=True, slots=True)
class Repeated(Uses):
    """``count`` fresh uses on one input: epsilon adds up, and exactly so.

    The same output may come ``count`` times. Normal noise adds up in squares, and the repetition
    knows its curve: mu is sqrt(count) times that of one report.

    Inputs are (*batch, *inner domain), outputs (*size, count, *inner output).
    """

    @property
    def domain(self) -> Domain:
        """Inputs of the inner mechanism."""
        return self.mechanism.domain

    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.expand_dims(values, values.ndim - len(self.domain.shape))


class _NormalRepeated(Repeated, NormalUses):
    """Reports with normal noise."""

    __slots__ = ()
    __qualname__ = "Repeated"


Repeated.kinds = (Repeated, _NormalRepeated)
