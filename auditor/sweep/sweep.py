"""Runs a sweep: one audit per variant (a system with settings) and seed, all in one pool of worker
processes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.machine.progress import ProgressObserver
from fedrec_auditor.auditor.machine.progress import show_progress as shown_progress
from fedrec_auditor.auditor.plan.plan import Plan, check_plan, make_target
from fedrec_auditor.auditor.plan.planned_data import make_plan_with_data
from fedrec_auditor.auditor.plan.versions import get_versions
from fedrec_auditor.auditor.run.checkpoints import Checkpoints
from fedrec_auditor.auditor.run.resources import Resources, make_resources
from fedrec_auditor.auditor.run.runner import assemble_record, run_audits
from fedrec_auditor.auditor.run.tasks import Audit, list_audit_omissions
from fedrec_auditor.auditor.run.trainings import CI_METHOD
from fedrec_auditor.auditor.sweep.grid import (
    Axis,
    Variant,
    combine_rows,
    make_ratio_rows,
    make_training_rows,
    make_variants,
    parse_axes,
)
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.frontier import NOT_RUN_SEPARATOR, VariantRow
from fedrec_auditor.reports.record.record import Record, Sweep
from fedrec_auditor.reports.record.rows import walk_leaves
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import get_numbers

logger = logging.getLogger(__name__)


def sweep(
    targets: str | Sequence[str] = (),
    settings: str | Sequence[str] = (),
    *,
    seeds: int = 3,
    out: str | Path | None = None,
    jobs: int | None = None,
    memory: float | None = None,
    progress: bool | ProgressObserver | None = None,
    **fields: Any,
) -> Sweep:
    """Audits ``targets`` for every combination of ``settings``, with ``seeds`` trainings each, and
    returns all results.

    Parameters
    ----------
    targets : names of systems. The default is the same as in ``audit``.
    settings : texts such as "epsilon=1,2,4", for every system that has this setting, or
        "fmf-ldp.reports=1,2" for one system. "privacy=0.25,1,4" multiplies the noise of every
        system with a noise setting.
    seeds : number of trainings of each combination.
    out : directory for sweep.json, tables and the page. It also stores finished tasks, which are
        not repeated if the sweep is run again with more values. None to write no files.
    jobs, memory, progress : number of processes, limit of memory, and display of progress, as in
        ``audit``.
    fields : further fields of a ``Plan``, such as data, seed, quick, attacks and games.

    Noiseless counterparts of the systems, such as lcf-ub for dplcf-sp, are trained, too. Raises
    InputError for wrong arguments or data.

    >>> found = sweep("dplcf-sp", ["epsilon=1,4"], seeds=2, data="synthetic", attacks=(), jobs=1)
    >>> [(each.target, each.swept) for each in found.variants]
    [('dplcf-sp', {'epsilon': '1'}), ('dplcf-sp', {'epsilon': '4'}), ('lcf-ub', {})]
    >>> found.errors
    ()
    """
    interactions, plan = make_plan_with_data({"targets": targets, **fields})
    resources = make_resources(jobs, "cpu", memory)
    with shown_progress(progress) as observe:
        return run_sweep(
            plan,
            parse_axes(plan, [settings] if isinstance(settings, str) else settings),
            seeds,
            resources,
            out=None if out is None else Path(out),
            observe=observe,
            interactions=interactions,
        )


def run_sweep(
    plan: Plan,
    axes: Sequence[Axis],
    n_seeds: int,
    resources: Resources,
    *,
    out: Path | None = None,
    observe: ProgressObserver | None = None,
    force: bool = False,
    interactions: Interactions | None = None,
) -> Sweep:
    """Runs a sweep: audits systems over a grid of settings, and writes the reports to the directory
    ``out``.

    ``plan``: plan of the audits.
    ``axes``: settings to vary, with their values.
    ``n_seeds``: number of trainings of each variant (a system with settings).
    ``resources``: workers, device and memory.
    ``out``: directory of the sweep, whose finished trainings are used again; None to write no
        files.
    ``observe``: function that receives the progress, or None.
    ``force``: whether to replace a sweep of another plan.
    ``interactions``: the data, if they are in memory; otherwise None.

    Raises InputError if ``out`` cannot be written or has other files, or if settings are invalid.
    """
    if not isinstance(n_seeds, int) or not 1 <= n_seeds <= 1000:
        raise InputError(f"Expected 1 to 1,000 seeds, got seeds={n_seeds!r}. Give, for example, 3.")
    check_plan(plan, is_data_in_memory=interactions is not None)
    for note in list_audit_omissions(plan):
        logger.warning("%s", note)
    # Names of attacks are not resolved here, because a quick audit leaves slow attacks out itself.
    plan = plan.model_copy(update={"targets": plan.resolve().targets})
    grid = make_variants(plan, axes, n_seeds)
    trainings = _SweepRunner(resources, out, observe, interactions)
    if out is None:
        return trainings.sweep(plan, axes, grid, n_seeds)
    with store.lock_directory(out):
        if not force:
            _refuse_others(out, plan, grid, n_seeds)
        swept = trainings.sweep(plan, axes, grid, n_seeds)
        swept.save(out)
    return swept


def _refuse_others(out: Path, plan: Plan, grid: Sequence[Variant], seeds: int) -> None:
    """Raises InputError if ``out`` has the report of an audit, a sweep of another plan, or a sweep
    with variants that ``grid`` lacks or with more than ``seeds`` trainings.
    """
    if (out / store.RECORD_FILE).exists():
        raise InputError(
            f"Expected a sweep or no files in {out}, got the report of an audit. Give another "
            "directory with --out."
        )
    before = Sweep.load(out)
    if before is None:
        return
    new, old = _get_fixed_fields(plan.model_dump(mode="json")), _get_fixed_fields(before.plan)
    if differ := sorted(key for key in new.keys() | old.keys() if new.get(key) != old.get(key)):
        raise InputError(
            f"Expected no sweep in directory {out}, or one of this plan, got a sweep with other "
            f"{', '.join(differ)}. Give another directory with --out, or --force to replace it."
        )
    keys = {each.identity for each in grid}
    lost = [
        each
        for each in before.variants
        if (each.target, tuple(sorted(each.settings.items()))) not in keys
    ]
    fewer = sorted(set(before.seeds) - set(_list_seeds(plan, seeds)))
    if lost or fewer:
        less = f"training {fewer[0]}" if fewer else f"{lost[0].target} with {lost[0].settings}"
        raise InputError(
            f"Expected a grid that includes the sweep in {out}, got a grid without {less}. "
            "Add this part, or give another directory with --out, or --force to replace the sweep."
        )


def _get_fixed_fields(plan: dict[str, object]) -> dict[str, object]:
    """Fields of a plan that must stay equal when a sweep is continued: all but systems and
    settings.
    """
    grows = ("targets", "settings")
    return {key: value for key, value in store.to_json(plan).items() if key not in grows}


def _list_seeds(plan: Plan, count: int) -> tuple[int, ...]:
    """Seeds of the ``count`` trainings of a variant: consecutive integers from the plan's seed."""
    return tuple(range(plan.seed, plan.seed + count))


@dataclass(frozen=True)
class _SweepRunner:
    """Trains the variants (systems with settings) of a sweep, and measures attacks and utility on
    each training.

    ``resources``: workers, device and memory.
    ``out``: directory of finished tasks, or None.
    ``observe``: function that receives the progress, or None.
    ``interactions``: the data, if they are in memory; otherwise None.
    """

    resources: Resources
    out: Path | None
    observe: ProgressObserver | None
    interactions: Interactions | None

    def sweep(self, plan: Plan, axes: Sequence[Axis], grid: Sequence[Variant], count: int) -> Sweep:
        """Audits all variants (systems with settings) of ``grid``, with ``count`` trainings each,
        and returns their combined results.
        """
        seeds = _list_seeds(plan, count)
        cells = [(place, seed) for place in range(len(grid)) for seed in seeds]
        records = self._run_cells(plan, grid, cells)
        rows = [
            row
            for (place, seed), record in zip(cells, records, strict=True)
            for row in make_training_rows(place, seed, record)
        ]
        errors = [
            f"{error} (training {seed} with {_format_settings(grid[place])})"
            for (place, seed), record in zip(cells, records, strict=True)
            for error in record.errors
        ]
        data = records[0].provenance.data
        return Sweep(
            plan=_get_fixed_fields(plan.model_dump(mode="json")),
            axes={axis.name: axis.values for axis in sorted(axes, key=lambda axis: axis.name)},
            seeds=seeds,
            data={} if data is None else data.model_dump(mode="json"),
            versions=get_versions(),
            method=CI_METHOD,
            variants=tuple(
                VariantRow(
                    target=each.target,
                    settings=each.all_settings,
                    swept=dict(sorted(each.varied_settings.items())),
                    twin=each.noiseless_index,
                )
                for each in grid
            ),
            rows=tuple(rows),
            overall=tuple(combine_rows(rows, count, plan.confidence)),
            relative=tuple(combine_rows([*make_ratio_rows(rows, grid)], count, plan.confidence)),
            notes=_list_notes(plan, grid, records),
            errors=tuple(errors),
        )

    def _run_cells(
        self, plan: Plan, grid: Sequence[Variant], cells: Sequence[tuple[int, int]]
    ) -> list[Record]:
        """Runs the audits of all ``cells`` in one pool, and returns the record of each in order.

        ``cells``: pairs of the index of a variant and a seed.
        """
        started = time.perf_counter()
        audits: list[Audit] = []
        for place, seed in cells:
            audit = Audit.from_plan(
                grid[place].make_plan(plan, seed),
                audits[0].interactions if audits else self.interactions,
                machine=self.resources.machine,
                memory=self.resources.max_bytes,
                label=f"[{place}/{seed}]",
            )
            audits.append(audit)
        out = self.out
        given = [(audit, None if out is None else Checkpoints.open(out, audit)) for audit in audits]
        results = run_audits(given, self.resources, self.observe)
        return [
            assemble_record(audit, self.resources, each, started)
            for audit, each in zip(audits, results, strict=True)
        ]


def _list_notes(plan: Plan, grid: Sequence[Variant], records: Sequence[Record]) -> tuple[str, ...]:
    """Notes of all trainings, and notes on attacks that did not run and on noiseless counterparts
    that differ in other settings.
    """
    notes = [note for record in records for note in record.notes]
    notes += [
        f"{row.target}: {row.attack}{NOT_RUN_SEPARATOR}{row.reason}"
        for record in records
        for row in record.skipped
    ]
    notes += [note for each in grid if (note := _describe_twin(each, grid, plan))]
    return tuple(dict.fromkeys(notes))


def _describe_twin(variant: Variant, grid: Sequence[Variant], plan: Plan) -> str:
    """Sentence on the settings, other than the protection, in which the noiseless counterpart of a
    variant differs.

    The sentence is "" if there is no counterpart, if it is the same system, or if no setting
    differs.
    """
    index = variant.noiseless_index
    if index is None or (twin := grid[index]).target == variant.target:
        return ""
    systems = (make_target(each.target, each.make_plan(plan, 0)) for each in (variant, twin))
    own, twins = (dict(get_numbers(each)) for each in systems)
    differ = [
        f"{name} {twins[name]:g} instead of {own[name]:g}"
        for name in sorted(own.keys() & twins.keys())
        if own[name] != twins[name]
    ]
    if not differ:
        return ""
    return (
        f"{twin.target}, the noiseless counterpart of {variant.target}, has {', '.join(differ)}: "
        "relative utility is not the price of protection alone."
    )


def _format_settings(variant: Variant) -> str:
    return (
        ", ".join(f"{name}={value}" for name, value in walk_leaves(variant.settings))
        or "no settings"
    )
