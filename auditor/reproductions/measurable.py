"""What is run of a paper, a piece at a time: a training or a calculation, and its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
