"""What every reproduction offers: trainings, and figures beside those that a paper prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedrec_auditor.reports.rows import ReproducedRow
from fedrec_auditor.targets.datasets.base import Interactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurable:
    """One training, or one calculation, and the rows it gives.

    ``data`` names the data set that ``measure`` is given, none if it is empty; the boolean asks for
    a quick answer. ``name`` is unique within a reproduction; finished parts are kept by it.
    """

    name: str
    data: str
    measure: Callable[[Interactions | None, np.random.Generator, bool], tuple[ReproducedRow, ...]]


class Reproduction(Protocol):
    """The figures of one paper."""

    @property
    def paper(self) -> str:
        """Which paper, as it is cited."""
        ...

    def parts(self) -> Sequence[Measurable]:
        """All that is run, each by itself and in any process."""
        ...

    def remarks(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        """What the rows say together, in sentences."""
        ...
