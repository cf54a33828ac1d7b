"""Runs a sweep: a plan for each variant and training, all in one pool."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.machine.progress import Observer
from fedrec_auditor.auditor.machine.progress import shown as shown_progress
from fedrec_auditor.auditor.plan.plan import Plan, check_plan, make_target
from fedrec_auditor.auditor.plan.planned_data import planned
from fedrec_auditor.auditor.plan.versions import versions
from fedrec_auditor.auditor.run.checkpoints import Checkpoints
from fedrec_auditor.auditor.run.resources import Resources, make_resources
from fedrec_auditor.auditor.run.runner import record_of, run_audits
from fedrec_auditor.auditor.run.tasks import Audit, left_out
from fedrec_auditor.auditor.run.trainings import METHOD
from fedrec_auditor.auditor.sweep.grid import (
    PRIVACY,
    Axis,
    Variant,
    axes_in,
    figures_of,
    overall,
    ratios,
    variants,
)
from fedrec_auditor.auditor.sweep.until import Condition, search
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.frontier import NOT_PLAYED, AnswerRow, VariantRow
from fedrec_auditor.reports.record.record import Record, Sweep
from fedrec_auditor.reports.record.rows import leaves
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import numbers

logger = logging.getLogger(__name__)


def sweep(
    targets: str | Sequence[str] = (),
    settings: str | Sequence[str] = (),
    *,
    seeds: int = 3,
    out: str | Path | None = None,
    jobs: int | None = None,
    memory: float | None = None,
    progress: bool | Observer | None = None,
    **fields: Any,
) -> Sweep:
    """Audit ``targets`` under every combination of ``settings``, ``seeds`` trainings of each.

    Left out, ``targets`` are those of ``audit``.

    Parameters
    ----------
    settings : texts such as "epsilon=1,2,4", for every target that has this setting, or
        "fmf-ldp.reports=1,2" for one; "privacy=0.25,1,4" multiplies the noise of every system
        that declares what buys privacy.
    out : directory for sweep.json, tables and the page; finished tasks are kept there, and are not
        run again when the grid grows.
    fields : what else a ``Plan`` has: data, seed, quick, attacks, games, ...

    Raises InputError for anything wrong with the arguments or the data.

    >>> found = sweep("dplcf-sp", ["epsilon=1,4"], seeds=2, data="synthetic", attacks=(), jobs=1)
    >>> [(each.target, each.swept) for each in found.variants]
    [('dplcf-sp', {'epsilon': '1'}), ('dplcf-sp', {'epsilon': '4'}), ('lcf-ub', {})]
    >>> found.errors
    ()
    """
    interactions, plan = planned({"targets": targets, **fields})
    texts = [settings] if isinstance(settings, str) else settings
    resources = make_resources(jobs, "cpu", memory)
    with shown_progress(progress) as observe:
        return run_sweep(
            plan,
            axes_of(plan, texts),
            seeds,
            resources,
            out=None if out is None else Path(out),
            observe=observe,
            interactions=interactions,
        )


def axes_of(plan: Plan, texts: Sequence[str]) -> list[Axis]:
    """The axes of these texts among the plan's targets; InputError for a wrong one."""
    targets = plan.resolved().targets
    return [Axis.of(text, targets) for text in texts]


def run_sweep(
    plan: Plan,
    axes: Sequence[Axis],
    seeds: int,
    resources: Resources,
    *,
    out: Path | None = None,
    observe: Observer | None = None,
    force: bool = False,
    until: Condition | None = None,
    interactions: Interactions | None = None,
) -> Sweep:
    """Run what of the grid is not yet finished in ``out``, and leave its reports there.

    With ``until`` the noise of each target is searched for the least that keeps this condition,
    and the grid is of all that were tried. InputError if ``out`` cannot be written, holds something
    else, or a variant cannot be made.
    """
    if not isinstance(seeds, int) or not 1 <= seeds <= 1000:
        raise InputError(f"Expected seeds from 1 to 1,000, got {seeds!r}. Give for example 3.")
    check_plan(plan, given=interactions is not None)
    for note in left_out(plan):
        logger.warning("%s", note)
    # Attacks stay as they are asked for: a quick audit leaves slow ones out by itself.
    plan = plan.model_copy(update={"targets": plan.resolved().targets})
    if until is not None:
        until.check(plan)
    grid = variants(plan, axes, seeds)
    trainings = _Trainings(resources, out, observe, interactions)
    if out is None:
        return trainings.sweep(plan, axes, grid, seeds)
    with store.lock(out):
        if not force:
            _refuse_others(out, plan, () if until is not None else grid, seeds)
        answers: list[AnswerRow] = []
        if until is not None:
            answers, axes = _search_noise(plan, axes, seeds, trainings, until)
            grid = variants(plan, axes)
        found = trainings.sweep(plan, axes, grid, seeds)
        more = [
            f"{each.target}: the answer is by {each.trainings} trainings of its setting, of which "
            f"the first {seeds} are here."
            for each in answers
            if each.trainings > seeds
        ]
        notes = (*found.notes, *more)
        found = found.model_copy(update={"answers": tuple(answers), "notes": notes})
        found.save(out)
    return found


def _search_noise(
    plan: Plan, axes: Sequence[Axis], seeds: int, trainings: _Trainings, until: Condition
) -> tuple[list[AnswerRow], list[Axis]]:
    """The least noise of each target, and the axes with what was tried."""
    if wrong := [axis.name for axis in axes if len(axis.values) > 1 or axis.field == PRIVACY]:
        raise InputError(
            f"Expected one value a setting where the noise is searched for, got {wrong[0]} with "
            "others. Give one, and leave privacy out."
        )
    if fixed := [name for name in plan.targets if make_target(name, plan).privacy is None]:
        raise InputError(
            f"Expected systems that say what buys privacy, got {fixed[0]}, which has no noise. "
            "Leave it out."
        )
    answers, tried = [], list(axes)
    for target in plan.targets:
        alone = plan.model_copy(update={"targets": (target,)})
        own = axes_in(target, axes, plan)

        def trained(factor: float, count: int, alone: Plan = alone, own: list[Axis] = own) -> Sweep:
            noise = [*own, Axis(PRIVACY, (f"{factor:g}",))]
            return trainings.sweep(alone, noise, variants(alone, noise), count)

        answer, factors = search(target, until, trained, seeds, plan.confidence)
        answers.append(answer)
        tried.append(Axis(PRIVACY, tuple(f"{factor:g}" for factor in factors), target))
    return answers, tried


def _refuse_others(out: Path, plan: Plan, grid: Sequence[Variant], seeds: int) -> None:
    """InputError where ``out`` holds an audit, a sweep of another plan, or more of this one."""
    if (out / store.RECORD).exists():
        raise InputError(
            f"Expected a sweep or nothing in {out}, got the report of an audit. Give another "
            "directory with --out."
        )
    before = Sweep.found(out)
    if before is None:
        return
    ours, theirs = _common(plan.model_dump(mode="json")), _common(before.plan)
    if differ := sorted(
        key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)
    ):
        raise InputError(
            f"Expected a sweep of this plan or none in {out}, got one with other "
            f"{', '.join(differ)}. Give another directory with --out, or --force to replace it."
        )
    kept = {each.key for each in grid}
    lost = [
        each
        for each in before.variants
        if (each.target, tuple(sorted(each.settings.items()))) not in kept
    ]
    fewer = sorted(set(before.seeds) - set(_seeds(plan, seeds)))
    if grid and (lost or fewer):
        less = f"training {fewer[0]}" if fewer else f"{lost[0].target} with {lost[0].settings}"
        raise InputError(
            f"Expected a grid that holds all of the sweep in {out}, got one without {less}. Add "
            "it, give another directory with --out, or --force to replace the sweep."
        )


def _common(plan: dict[str, object]) -> dict[str, object]:
    """What all trainings of a sweep share, but for what may grow."""
    grows = ("targets", "settings")
    return {key: value for key, value in store.plain(plan).items() if key not in grows}


def _seeds(plan: Plan, count: int) -> tuple[int, ...]:
    """The seeds of so many trainings of a variant."""
    return tuple(range(plan.seed, plan.seed + count))


@dataclass(frozen=True)
class _Trainings:
    """Trains the variants of a grid, and measures attacks and utility on each training.

    ``interactions`` are the data where they are in memory.
    """

    resources: Resources
    out: Path | None
    observe: Observer | None
    interactions: Interactions | None

    def sweep(self, plan: Plan, axes: Sequence[Axis], grid: Sequence[Variant], count: int) -> Sweep:
        """The sweep of a grid, with ``count`` trainings of each variant."""
        seeds = _seeds(plan, count)
        cells = [(place, seed) for place in range(len(grid)) for seed in seeds]
        records = self._records(plan, grid, cells)
        rows = [
            row
            for (place, seed), record in zip(cells, records, strict=True)
            for row in figures_of(place, seed, record)
        ]
        errors = [
            f"{error} (training {seed} with {_words(grid[place])})"
            for (place, seed), record in zip(cells, records, strict=True)
            for error in record.errors
        ]
        data = records[0].provenance.data
        return Sweep(
            plan=_common(plan.model_dump(mode="json")),
            axes={axis.name: axis.values for axis in sorted(axes, key=lambda axis: axis.name)},
            seeds=seeds,
            data={} if data is None else data.model_dump(mode="json"),
            versions=versions(),
            method=METHOD,
            variants=tuple(
                VariantRow(
                    target=each.target,
                    settings=each.spelled_out,
                    swept=dict(sorted(each.swept.items())),
                    twin=each.twin,
                )
                for each in grid
            ),
            rows=tuple(rows),
            overall=tuple(overall(rows, count, plan.confidence)),
            relative=tuple(overall([*ratios(rows, grid)], count, plan.confidence)),
            notes=_notes(plan, grid, records),
            errors=tuple(errors),
        )

    def _records(
        self, plan: Plan, grid: Sequence[Variant], cells: Sequence[tuple[int, int]]
    ) -> list[Record]:
        """The record of each cell, a place in the grid and a seed; all run in one pool."""
        started = time.perf_counter()
        audits: list[Audit] = []
        for place, seed in cells:
            audit = Audit.of(
                grid[place].plan(plan, seed),
                audits[0].interactions if audits else self.interactions,
                compute=self.resources.compute,
                memory=self.resources.memory,
                label=f"[{place}/{seed}]",
            )
            audits.append(audit)
        out = self.out
        given = [(audit, None if out is None else Checkpoints.of(out, audit)) for audit in audits]
        results = run_audits(given, self.resources, self.observe)
        return [
            record_of(audit, self.resources, each, started)
            for audit, each in zip(audits, results, strict=True)
        ]


def _notes(plan: Plan, grid: Sequence[Variant], records: Sequence[Record]) -> tuple[str, ...]:
    """The notes of all trainings, what was not played, and how twins differ, each once."""
    notes = [note for record in records for note in record.notes]
    notes += [
        f"{row.target}: {row.attack}{NOT_PLAYED}{row.reason}"
        for record in records
        for row in record.skipped
    ]
    notes += [note for each in grid if (note := _twin_words(each, grid, plan))]
    return tuple(dict.fromkeys(notes))


def _twin_words(variant: Variant, grid: Sequence[Variant], plan: Plan) -> str:
    """In which settings, beside protection, the twin of another name differs as it is trained."""
    if variant.twin is None or (twin := grid[variant.twin]).target == variant.target:
        return ""
    made, other = (make_target(each.target, each.plan(plan, 0)) for each in (variant, twin))
    ours, theirs = (dict(numbers(each)) for each in (made, other))
    differ = [
        f"{name} {theirs[name]:g} instead of {ours[name]:g}"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    ]
    if not differ:
        return ""
    return (
        f"{twin.target}, beside which {variant.target} stands, has {', '.join(differ)}: "
        "utility over it is not the price of protection alone."
    )


def _words(variant: Variant) -> str:
    return ", ".join(f"{name}={value}" for name, value in leaves(variant.settings)) or "no settings"
