"""Figures of utility: a system trained as its paper trains it, measured as its paper measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.reproductions.measurable import Measurable
from fedrec_auditor.reports.rows import ReproducedRow, UtilityRow
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.declarations.printed import TrainedRows
from fedrec_auditor.targets.filter import Filter
from fedrec_auditor.targets.systems.base import Target

CONFIDENCE = 0.95


def parts(paper: Paper) -> Iterator[Measurable]:
    """The trainings of a paper, one a row and data set."""
    for trained in paper.printed.trained:
        for data in trained.data:
            for row in trained.rows:
                yield _part(paper, trained, row, data)


def _part(paper: Paper, trained: TrainedRows, row: str, data: str) -> Measurable:
    """One training, named so that no other setting has its name."""
    tables = [table for table in paper.printed.table if table.place == trained.place]
    systems = [table.of(row)[0] for table in tables if row in table.rows]
    system = trained.system or next(iter(systems), row)
    printed = {column: value for table in tables for column, value in table.row(row).items()}
    method = trained.method or row
    settings = "".join(f" {key}={value:g}" for key, value in trained.settings.items())
    cut = f" {trained.items} items" if trained.items else ""
    return Measurable(
        name=f"{trained.place} {method} {data}{cut}{settings}",
        data=data,
        measure=partial(measured, trained, system, method, printed),
    )


def measured(
    trained: TrainedRows,
    system: str,
    method: str,
    printed: Mapping[str, float],
    interactions: Interactions | None,
    rng: np.random.Generator,
    quick: bool,
) -> tuple[ReproducedRow, ...]:
    """The printed metrics of the system, or that of the largest K where none is printed."""
    assert interactions is not None
    target: Target = FAMILIES["targets"].member(system)(**trained.settings)
    if quick:
        target = target.shortened(max(1, (target.sizes.rounds or 1) // 10))
    data = Filter(min_rating=trained.min_rating)(interactions)
    data = _cut(data, trained.items, rng) if trained.items else data
    with one_thread():
        held = utility.hold_out(target.evaluation, data, rng)
        model = target.run(held.train, rng, keep=0).model
        found = held.evaluate(target, model, confidence=CONFIDENCE, rng=rng)
    largest = f"@{max(target.evaluation.cutoffs, default=0)}"
    shown = [row for row in found if row.metric in printed] or [
        row for row in found if row.metric.endswith(largest) or row.metric == "MSE"
    ]
    return tuple(
        ReproducedRow(
            place=trained.place,
            system=method,
            what=f"{row.metric}, {row.protocol}, {data.name}",
            printed=printed.get(row.metric),
            value=row.value,
            ci_low=row.ci_low,
            ci_high=row.ci_high,
            beside={"random": row.random, **_simpler(row)},
            note=trained.said if number == 0 else "",
        )
        for number, row in enumerate(shown)
    )


def _simpler(row: UtilityRow) -> dict[str, float]:
    """What needs no federated training, by name: popularity, or user and item means."""
    return {} if row.baseline is None else {row.baseline.name: row.baseline.value}


def _cut(interactions: Interactions, items: int, rng: np.random.Generator) -> Interactions:
    """All users, and so many items drawn from those of 60 interactions or more."""
    met = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    enough = np.flatnonzero(met >= 60)
    drawn = np.sort(rng.choice(enough, min(items, len(enough)), replace=False))
    return Interactions.of(
        interactions.ratings[:, drawn], name=f"{interactions.name}, {items:,} items"
    )
