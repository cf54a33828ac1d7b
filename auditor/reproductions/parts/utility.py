"""Figures of utility: a system trained as its paper trains it, measured as its paper measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy import sparse

from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.reproductions.base import Measurable
from fedrec_auditor.reports.rows import ReproducedRow, UtilityRow
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.filter import Filter
from fedrec_auditor.targets.systems.base import Target

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedSystem:
    """A system in one setting, and what is printed of it there, by metric.

    ``place`` and ``method`` are the table and what it calls the system; ``said`` is why the figures
    differ. Metrics without a printed figure are left out, but where ``printed`` is empty: then the
    one of the largest K stands alone. ``items`` draws so many items of at least 60 interactions.
    """

    target: str
    place: str
    method: str = ""
    data: str = "ml-100k"
    settings: Mapping[str, bool | int | float] = field(default_factory=dict)
    min_rating: float = 0.0
    items: int = 0
    printed: Mapping[str, float] = field(default_factory=dict)
    said: str = ""

    def part(self) -> Measurable:
        """The training, named so that no other setting has its name."""
        settings = "".join(f" {key}={value:g}" for key, value in self.settings.items())
        cut = f" {self.items} items" if self.items else ""
        name = f"{self.place} {self.method or self.target} {self.data}{cut}{settings}"
        return Measurable(name=name, data=self.data, measure=partial(_measured, self))


def _measured(
    one: TrainedSystem, interactions: Interactions | None, rng: np.random.Generator, quick: bool
) -> tuple[ReproducedRow, ...]:
    assert interactions is not None
    target: Target = FAMILIES["targets"].member(one.target)(**one.settings)
    if quick:
        target = target.shortened(max(1, (target.sizes.rounds or 1) // 10))
    data = Filter(min_rating=one.min_rating)(interactions)
    data = _cut(data, one.items, rng) if one.items else data
    with one_thread():
        held = utility.hold_out(target.evaluation, data, rng)
        model = target.run(held.train, rng, keep=0).model
        found = held.evaluate(target, model, confidence=CONFIDENCE, rng=rng)
    largest = f"@{max(target.evaluation.cutoffs, default=0)}"
    told = [row for row in found if row.metric in one.printed] or [
        row for row in found if row.metric.endswith(largest) or row.metric == "MSE"
    ]
    return tuple(
        ReproducedRow(
            place=one.place,
            system=one.method or one.target,
            what=f"{row.metric}, {row.protocol}, {data.name}",
            printed=one.printed.get(row.metric),
            value=row.value,
            ci_low=row.ci_low,
            ci_high=row.ci_high,
            beside={"random": row.random, **_simpler(row)},
            note=one.said if number == 0 else "",
        )
        for number, row in enumerate(told)
    )


def _simpler(row: UtilityRow) -> dict[str, float]:
    """What needs no federated training, by name: popularity, or user and item means."""
    return {} if row.baseline is None else {row.baseline.name: row.baseline.value}


def _cut(interactions: Interactions, items: int, rng: np.random.Generator) -> Interactions:
    """All users, and so many items drawn from those of 60 interactions or more."""
    met = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    enough = np.flatnonzero(met >= 60)
    drawn = np.sort(rng.choice(enough, min(items, len(enough)), replace=False))
    ratings = sparse.csr_array(interactions.ratings[:, drawn])
    return Interactions.of(ratings, name=f"{interactions.name}, {items:,} items")
