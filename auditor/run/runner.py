"""Runs a plan: splits it into tasks, runs them in worker processes, assembles the record.

Every task draws from its own seed, derived from the plan's seed and the task's name, and computes
in one thread: the same plan gives the same record whatever the number of workers. Finished tasks
are kept in the run directory, so a killed audit resumes where it stopped.
"""

from __future__ import annotations

import functools
import logging
import os
import platform
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import threadpoolctl

from fedrec_auditor.accountants.errors import AuditError, IncompleteError, InputError
from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate
from fedrec_auditor.auditor.games.canary_game import Memory
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL
from fedrec_auditor.auditor.games.stated import is_of_others, why_unplayed
from fedrec_auditor.auditor.judging.accounting import (
    all_accountants,
    least_upper_bound,
    with_untested,
    without_refuted_proofs,
)
from fedrec_auditor.auditor.machine import workers
from fedrec_auditor.auditor.machine.progress import TRAINING, Observer, Watch, note, noted, shown
from fedrec_auditor.auditor.plan.plan import Plan, check_plan
from fedrec_auditor.auditor.plan.planned_data import planned
from fedrec_auditor.auditor.plan.versions import versions
from fedrec_auditor.auditor.run.audited_target import AuditedTarget, played
from fedrec_auditor.auditor.run.checkpoints import Checkpoints
from fedrec_auditor.auditor.run.resources import Resources, make_resources
from fedrec_auditor.auditor.run.tasks import BOUNDS, Audit, Task, TaskResult
from fedrec_auditor.auditor.run.trainings import combine
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.frontier import SWEEP
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import Contents, DataRow, Provenance
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.spill import mapped
from fedrec_auditor.targets.systems.base import Population, Run, Target
from fedrec_auditor.targets.wrapped.client import contained

logger = logging.getLogger(__name__)

Results = dict[Task, TaskResult]


def audit(
    targets: str | Sequence[str] = (),
    *,
    out: Path | None = None,
    jobs: int | None = None,
    device: str = "cpu",
    memory: float | None = None,
    backend: str = "loky",
    address: str | None = None,
    progress: bool | Observer | None = None,
    **fields: Any,
) -> Record:
    """Audit ``targets`` (a name, several, or all) on ``data`` and return the record.

    Parameters
    ----------
    fields : what else a ``Plan`` has: data, seed, confidence, quick, attacks, games, runs,
        population, canaries, estimator, by, settings, only, ...; what is left out or None is as
        it says by default. data may be all that ``audit_system`` takes, users and items DataFrames.
    out : run directory for reports and resumable tasks; nothing is written without it.
    jobs : worker processes, default all cores; does not change the answer.
    device : where clients are simulated, as torch names it ("cuda"); default the CPU.
    memory : GiB that all workers together may take, default the machine's.
    backend : what runs the workers: "loky" on this machine, or the cluster of "dask" or "ray" at
        ``address``; does not change the answer.
    progress : whether to show on standard error, or in a notebook, what runs and how far it is;
        None shows it where somebody looks on, in a terminal or a notebook. Or a function that is
        given a ``Standing`` whenever a task ends and about once a second between, from a thread of
        its own.

    Raises InputError for anything wrong with the arguments or the data.

    >>> record = audit("dplcf-sp", data="synthetic", quick=True, games=(), jobs=1)
    >>> for finding in record.findings:
    ...     print(finding.scope.unit, finding.claim.epsilon, finding.verdict)
    interaction 1.0 CONSISTENT
    user 1.0 INCOMPARABLE
    """
    interactions, plan = planned({"targets": targets, **fields})
    check_plan(plan, given=interactions is not None)
    resources = make_resources(jobs, device, memory, backend, address)
    with shown(progress) as observe:
        return run_plan(plan, resources, out=out, observe=observe, interactions=interactions)


def run_plan(
    plan: Plan,
    resources: Resources,
    *,
    out: Path | None = None,
    gate: Gate = DEFAULT_GATE,
    observe: Observer | None = None,
    interactions: Interactions | None = None,
    systems: Sequence[Target] = (),
    force: bool = False,
) -> Record:
    """Run every task of ``plan`` not yet finished in ``out``; report there; give the record.

    ``interactions`` are the plan's data where they are in memory, ``systems`` targets of one's own
    that it names. ``gate`` decides what junit.xml calls a failure. InputError if ``out`` cannot be
    written, another audit runs in it, or, unless ``force``, it holds the report of another plan.

    >>> plan = Plan(targets=("fcf",), data="synthetic", attacks=(), settings={"fcf": {"rounds": 1}})
    >>> record = run_plan(plan, Resources(jobs=1))
    >>> record.findings[0].verdict
    <Verdict.NO_CLAIM: 'NO CLAIM'>
    """
    started = time.perf_counter()
    audit = Audit.of(
        plan,
        interactions,
        compute=resources.compute,
        memory=resources.memory,
        systems=systems,
    )
    audits = audit.repeated()
    if out is None:
        results = run_audits([(each, None) for each in audits], resources, observe)
        return record_of(audit, resources, combine(results), started)
    with store.lock(out):
        if not force:
            _refuse_another_plans_report(out, audit.plan)
        kept = [(each, Checkpoints.of(out, each)) for each in audits]
        results = run_audits(kept, resources, observe)
        record = record_of(audit, resources, combine(results), started)
        record.save(out, gate)
        if not record.errors:
            shutil.rmtree(kept[0][1].folder, ignore_errors=True)
    return record


def _refuse_another_plans_report(out: Path, plan: Plan) -> None:
    """InputError where ``out`` holds a finished audit that another plan asked for, or a sweep."""
    if (out / SWEEP).exists():
        raise InputError(
            f"Expected the report of this plan or none in {out}, got a sweep, whose tasks are kept "
            "there. Give another directory with --out."
        )
    if not (out / store.RECORD).exists():
        return
    try:
        before = store.read(out, Contents).plan
    except InputError:  # it is no report
        return
    ours = store.plain(plan.model_dump(mode="json"))
    if differ := sorted(
        key for key in before.keys() | ours.keys() if before.get(key) != ours.get(key)
    ):
        raise InputError(
            f"Expected the report of this plan or none in {out}, got one of a plan with other "
            f"{', '.join(differ)}. Give another directory with --out, or --force to replace it."
        )


def run_audits(
    audits: Sequence[tuple[Audit, Checkpoints | None]],
    resources: Resources,
    observe: Observer | None,
) -> list[Results]:
    """The results of all tasks of each audit: those kept, and the others run by the same workers.

    The longest jobs of all audits come first. Audits beside others have a ``label`` each.
    """
    count = min(audit.workers(resources.jobs, resources.memory) for audit, _ in audits)
    cluster = resources.cluster
    call = workers.results if cluster is None else cluster.results
    queues = [_Queue.of(*each, count if len(audits) == 1 else 1) for each in audits]
    watch = Watch(
        observe,
        done=sum(len(queue.results) for queue in queues),
        total=sum(len(queue.tasks) for queue in queues),
    )
    with watch.notes() as notes:
        desks = [_Desk(*each, notes) for each in audits]
        # Workers of a cluster see no file of ours: what they finish is kept when it is here.
        there = desks if cluster is None else [_Desk(audit) for audit, _ in audits]
        jobs: list[tuple[float, tuple[Any, ...]]] = []
        for number, queue in enumerate(queues):
            trained = desks[number].train(queue.jobs) if cluster is None else {}
            for job, seconds in queue.jobs.items():
                jobs.append((seconds, (number, there[number], job, trained.get(job[0].target))))
        jobs.sort(key=lambda each: -each[0])
        for number, results in call(_job, [each for _, each in jobs], jobs=min(count, len(jobs))):
            queues[number].results.update(results)
            for task, result in results.items() if cluster is not None else ():
                desks[number].keep(task, result)
        for desk, queue in zip(desks, queues, strict=True):
            for task in queue.wide:
                queue.results[task] = desk.run(task, desk.game(task, count, call))
    return [{task: queue.results[task] for task in queue.tasks} for queue in queues]


@dataclass(frozen=True)
class _Queue:
    """The jobs that an audit has left, with their seconds, and tasks that keep all workers busy.

    ``results`` are those of its ``tasks`` that are finished.
    """

    tasks: tuple[Task, ...]
    results: Results
    jobs: Mapping[tuple[Task, ...], float]
    wide: tuple[Task, ...]

    @classmethod
    def of(cls, audit: Audit, checkpoints: Checkpoints | None, workers: int) -> _Queue:
        """The queue of an audit on so many workers."""
        tasks = audit.tasks()
        kept = {} if checkpoints is None else {task: checkpoints.get(task) for task in tasks}
        results = {task: result for task, result in kept.items() if result is not None}
        left = [task for task in tasks if task not in results]
        wide = tuple(task for task in left if task.wide)
        return cls(tasks=tasks, results=results, jobs=audit.jobs(left, workers), wide=wide)


@dataclass(frozen=True)
class _Desk:
    """Runs tasks of an audit: each is noted while it runs, timed, and kept once finished."""

    audit: Audit
    checkpoints: Checkpoints | None = None
    notes: Path | None = None

    def run(self, task: Task, work: Callable[[], TaskResult]) -> TaskResult:
        """The result of a task by its ``work``, in one thread.

        A fault in it is an error of the result and loses no other task. So is a target's refusal of
        the data or its settings, unless no other target is audited, and a NaN among the numbers.
        """
        with one_thread(None), noted(self.notes, self.audit.named(task.target, task.step)):
            started = time.perf_counter()
            try:
                with contained():
                    result = work()
            except InputError as error:
                if self.audit.alone:
                    raise
                result = TaskResult(errors=(f"{task.target}: {error}",))
            except AuditError:
                raise
            except Exception as error:
                logger.exception("%s failed", task)
                result = TaskResult(errors=(f"{task}: {type(error).__name__}: {error}",))
            try:
                store.plain(result.model_dump(mode="python"))
            except IncompleteError as error:
                result = TaskResult(errors=(f"{task}: {error}",))
            seconds = round(time.perf_counter() - started, 3)
        result = result.model_copy(update={"seconds": seconds})
        self.keep(task, result)
        return result

    def keep(self, task: Task, result: TaskResult) -> None:
        """Keep a finished task, and note its end."""
        if self.checkpoints is not None and not result.errors:
            self.checkpoints.put(task, result)
        note(self.notes, self.audit.named(task.target, task.step), "", 1, 1)

    def train(self, jobs: Iterable[Sequence[Task]]) -> dict[str, tuple[Held, Run]]:
        """The trainings that several jobs need, by target; their workers map one set of files."""
        on_disk = replace(self.audit, compute=replace(self.audit.compute, memory=0))
        times = Counter(job[0].target for job in jobs if job[0].step not in (BOUNDS, LOCAL))
        made = {}
        for target in (target for target, count in times.items() if count > 1):
            name = self.audit.named(target, TRAINING)
            # What fails here fails again in each task, which has the error then.
            with one_thread(None), noted(self.notes, name), suppress(Exception):
                held, run = AuditedTarget(on_disk, target).trained
                made[target] = mapped(held), run
            if target not in made:
                note(self.notes, name, TRAINING, 1, 1)
        return made

    def game(self, task: Task, workers: int, call: Callable[..., Any]) -> Callable[[], TaskResult]:
        """The work of a game whose runs are dealt to ``workers`` by ``call`` and kept."""

        def parallel(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
            every = ((function, *each) for each in arguments)
            return call(_in_one_thread, every, jobs=min(workers, len(arguments)))

        kept = Memory() if self.checkpoints is None else self.checkpoints.runs()
        return functools.partial(played, task, self.audit, parallel, kept)


def _job(
    number: int, desk: _Desk, tasks: Sequence[Task], trained: tuple[Held, Run] | None
) -> tuple[int, Results]:
    """Run tasks of one target, and hand back the ``number`` of their audit with the results."""
    audited = AuditedTarget(desk.audit, tasks[0].target, trained)
    return number, {
        task: desk.run(task, functools.partial(audited.run, task.step)) for task in tasks
    }


def _in_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    with one_thread(None):
        return function(*arguments)


def record_of(audit: Audit, resources: Resources, results: Results, started: float) -> Record:
    """The record of an audit whose results are all there, in the order of its tasks."""
    ordered = list(results.values())
    unplayed = [row for result in ordered for row in result.skipped if row.attack in CANARY_GAMES]
    of_others = {n: why_unplayed(each) for n, each in audit.targets.items() if is_of_others(each)}
    findings = without_refuted_proofs(
        (row for result in ordered for row in result.findings), functools.partial(_proof, audit)
    )
    return Record(
        plan=audit.plan.model_dump(mode="json"),
        provenance=Provenance(
            versions=versions(),
            seed=audit.plan.seed,
            data=_data(audit.interactions),
            timing={
                **{str(task): result.seconds for task, result in results.items()},
                "wall": round(time.perf_counter() - started, 3),
            },
            machine={
                "system": platform.system(),
                "architecture": platform.machine(),
                "cores": os.cpu_count() or 1,
                "jobs": resources.jobs,
                "backend": "loky" if resources.cluster is None else resources.cluster.name,
                "device": audit.device,
                "kernels": _kernels(),
            },
        ),
        findings=with_untested(findings, unplayed, of_others),
        measurements=tuple(row for result in ordered for row in result.measurements),
        attacks=tuple(row for result in ordered for row in result.attacks),
        skipped=tuple(row for result in ordered for row in result.skipped),
        utility=tuple(row for result in ordered for row in result.utility),
        messages=tuple(dict.fromkeys(row for result in ordered for row in result.messages)),
        own=tuple(of_others),
        notes=audit.notes,
        errors=tuple(dict.fromkeys(error for result in ordered for error in result.errors)),
    )


def _proof(audit: Audit, name: str, bound: Bound) -> Bound | None:
    """What is proved of a target where a bound was measured, if it rests on somebody's word."""
    target, data = audit.targets.get(name), audit.interactions
    if target is None or data is None or not target.assumes:
        return None
    crowd = Population(n_users=data.n_users, n_items=data.n_items)
    return least_upper_bound(target, bound.scope, crowd, bound.delta, all_accountants())


def _kernels() -> str:
    """The kernels of linear algebra that this processor was given, which set the last digits."""
    pools = threadpoolctl.threadpool_info()
    names = {
        f"{pool['internal_api']} {pool['architecture']}" for pool in pools if "architecture" in pool
    }
    return ", ".join(sorted(names)) or "unknown"


def _data(interactions: Interactions) -> DataRow:
    return DataRow(
        name=interactions.name,
        digest=interactions.digest(),
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_interactions=interactions.ratings.nnz,
    )
