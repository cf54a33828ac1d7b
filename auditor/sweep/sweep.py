"""Runs a sweep: a plan for each variant and training, all in one pool."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.machine.progress import Observer
from fedrec_auditor.auditor.machine.progress import shown as shown_progress
from fedrec_auditor.auditor.plan.plan import Plan, amend, check_plan, make_target
from fedrec_auditor.auditor.plan.planned_data import given_data
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
    relative,
    variants,
)
from fedrec_auditor.auditor.sweep.until import Condition, search
from fedrec_auditor.reports.record.frontier import NOT_PLAYED, AnswerRow, VariantRow
from fedrec_auditor.reports.record.record import Sweep, store
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
    said = {name: fields.pop(name, None) for name in ("data", "users", "items")}
    plan = amend(None, {"targets": targets, **fields})
    data = plan.data if said["data"] is None else said["data"]
    interactions, plan = given_data(data, plan, users=said["users"], items=said["items"])
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
    trainings = tuple(range(plan.seed, plan.seed + seeds))
    if out is None:
        return _run(plan, axes, grid, trainings, resources, None, observe, interactions)
    with store.lock(out):
        if not force:
            _refuse_others(out, plan, () if until is not None else grid, trainings)
        answers: list[AnswerRow] = []
        if until is not None:
            answers, axes = _searched(
                plan, axes, trainings, resources, out, observe, until, interactions
            )
            grid = variants(plan, axes)
        found = _run(plan, axes, grid, trainings, resources, out, observe, interactions)
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


def _searched(
    plan: Plan,
    axes: Sequence[Axis],
    seeds: Sequence[int],
    resources: Resources,
    out: Path,
    observe: Observer | None,
    until: Condition,
    interactions: Interactions | None,
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
            more = tuple(range(seeds[0], seeds[0] + count))
            grid = variants(alone, noise)
            return _run(alone, noise, grid, more, resources, out, observe, interactions)

        answer, factors = search(target, until, trained, len(seeds), plan.confidence)
        answers.append(answer)
        tried.append(Axis(PRIVACY, tuple(f"{factor:g}" for factor in factors), target))
    return answers, tried


def _refuse_others(out: Path, plan: Plan, grid: Sequence[Variant], seeds: Sequence[int]) -> None:
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
    fewer = sorted(set(before.seeds) - set(seeds))
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


def _run(
    plan: Plan,
    axes: Sequence[Axis],
    grid: Sequence[Variant],
    seeds: Sequence[int],
    resources: Resources,
    out: Path | None,
    observe: Observer | None,
    interactions: Interactions | None,
) -> Sweep:
    started = time.perf_counter()
    cells = [(place, seed) for place in range(len(grid)) for seed in seeds]
    audits: list[Audit] = []
    for place, seed in cells:
        audit = Audit.of(
            grid[place].plan(plan, seed),
            interactions,
            compute=resources.compute,
            memory=resources.memory,
            label=f"[{place}/{seed}]",
        )
        interactions = audit.interactions
        audits.append(audit)
    given = [(audit, None if out is None else Checkpoints.of(out, audit)) for audit in audits]
    records = [
        record_of(audit, resources, results, started)
        for audit, results in zip(audits, run_audits(given, resources, observe), strict=True)
    ]
    found = [
        row
        for (place, seed), record in zip(cells, records, strict=True)
        for row in figures_of(place, seed, record)
    ]
    notes = dict.fromkeys(note for record in records for note in record.notes)
    notes |= dict.fromkeys(
        f"{row.target}: {row.attack}{NOT_PLAYED}{row.reason}"
        for record in records
        for row in record.skipped
    )
    notes |= dict.fromkeys(note for each in grid if (note := _twin_words(each, grid, plan)))
    errors = [
        f"{error} (training {seed} with {_words(grid[place])})"
        for (place, seed), record in zip(cells, records, strict=True)
        for error in record.errors
    ]
    data = records[0].provenance.data
    return Sweep(
        plan=_common(plan.model_dump(mode="json")),
        axes={axis.name: axis.values for axis in sorted(axes, key=lambda axis: axis.name)},
        seeds=tuple(seeds),
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
        rows=tuple(found),
        overall=tuple(overall(found, len(seeds), plan.confidence)),
        relative=tuple(relative(found, grid, len(seeds), plan.confidence)),
        notes=tuple(notes),
        errors=tuple(errors),
    )


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
