"""A target trained on random halves of its users, and who was in which."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.auditor.machine.stage import stage
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import View

COUNT, QUICK_COUNT = 8, 4
"""Trainings on halves of the users."""
SECONDS, QUICK_SECONDS = 3600.0, 6.0
"""Longest that they may take together, as told by their settings (``Workload``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """``included`` (k, n_users): who was in which; ``views`` of each, (k,), by vantage."""

    included: NDArray[np.bool_]
    views: Mapping[Vantage, tuple[View, ...]]

    @classmethod
    def of(
        cls,
        target: Target,
        interactions: Interactions,
        vantages: Collection[Vantage],
        *,
        count: int,
        compute: Compute,
        rng: np.random.Generator,
    ) -> Halves:
        """Train ``count`` times, on users drawn by independent fair coins, and at least on one.

        (Were each user in half of them, the others would give away the one.) InputError where the
        target refuses such data.
        """
        included = rng.random((count, interactions.n_users)) < 0.5
        included[:, 0] |= ~included.any(axis=1)
        views: dict[Vantage, list[View]] = {vantage: [] for vantage in vantages}
        for number, one in enumerate(included):
            stage("training on halves of the users,", number, count)
            some = interactions.take(np.flatnonzero(one))
            transcript = target.run(some, rng, None, compute).transcript
            for vantage, found in views.items():
                found.append(transcript.view(vantage, rng).by_item())
        return cls(included=included, views={v: tuple(found) for v, found in views.items()})
