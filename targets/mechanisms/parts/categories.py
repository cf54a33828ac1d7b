"""Reports of one of k categories: what the mechanisms of a category share."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.targets.mechanisms.base import Domain
from fedrec_auditor.targets.settings import Checked, Range


@dataclass(frozen=True, slots=True)
class Categorical(Checked, ABC):
    """A mechanism of ``epsilon`` whose inputs are whole numbers 0 ... ``categories`` - 1."""

    epsilon: Annotated[float, Range("[0, 700]", "in [0, 700], where doubles hold its rates")]
    categories: Annotated[int, Range("[2, inf)", whole=True)]

    @property
    def domain(self) -> Domain:
        """One category, a whole number from 0."""
        values = tuple(map(float, range(self.categories)))
        return Domain(low=0, high=self.categories - 1, values=values)

    def one_hot(self, category: ArrayLike) -> NDArray[np.bool_]:
        """(..., categories): True at the category."""
        return np.asarray(np.asarray(category)[..., None] == np.arange(self.categories))

    @staticmethod
    def _unbiased(seen: NDArray[Any], false: float, gap: float) -> NDArray[np.float64]:
        """Estimated counts from indicators that are 1 with ``false``, or ``gap`` more if true."""
        with np.errstate(divide="ignore"):
            return np.asarray((seen - false) / np.float64(gap))
