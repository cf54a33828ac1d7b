"""Execution of an audit: splits a plan into tasks, runs them in worker processes, and assembles the
record.

Equal plans give equal records for any number of workers and threads. Finished tasks are stored in
the run directory, so that an interrupted audit resumes.
"""

# Every task uses its own random seed, derived from the plan's seed and the task's name. Threads
# compute blocks of a training and of messages, whose results are combined in order.

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
from fedrec_auditor.auditor.games.canary_game import MemoryChunkStore
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL_NAME
from fedrec_auditor.auditor.games.stated import explain_no_game, is_external
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.machine import progress as machine_progress
from fedrec_auditor.auditor.machine import workers
from fedrec_auditor.auditor.plan.plan import Plan, check_plan
from fedrec_auditor.auditor.plan.planned_data import make_plan_with_data
from fedrec_auditor.auditor.plan.versions import get_versions
from fedrec_auditor.auditor.run.audited_target import AuditedTarget, play_game
from fedrec_auditor.auditor.run.checkpoints import Checkpoints
from fedrec_auditor.auditor.run.resources import Resources, make_resources
from fedrec_auditor.auditor.run.tasks import BOUNDS, Audit, Task, TaskResult
from fedrec_auditor.auditor.run.trainings import merge_results
from fedrec_auditor.auditor.utility.held_out import HeldOutData
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.frontier import SWEEP_RECORD_FILE
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import Contents, DataRow, Provenance
from fedrec_auditor.targets.compute import limit_to_one_thread, use_threads
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.memory_mapping import map_arrays_to_files
from fedrec_auditor.targets.systems.base import Population, Target, TrainingRun
from fedrec_auditor.targets.wrapped.client import block_exits

logger = logging.getLogger(__name__)

# Result of each task.
ResultsByTask = dict[Task, TaskResult]


def audit(
    targets: str | Sequence[str] = (),
    *,
    out: Path | None = None,
    jobs: int | None = None,
    device: str = "cpu",
    memory: float | None = None,
    backend: str = "loky",
    address: str | None = None,
    progress: bool | machine_progress.ProgressObserver | None = None,
    **fields: Any,
) -> Record:
    """Audits systems by games and attacks, judges their claims, and returns the results.

    Parameters
    ----------
    targets : name of a system, several names, or "all"; by default systems of five papers.
    fields : other fields of a ``Plan``: data, seed, confidence, quick, attacks, games, runs,
        settings, ... ``data`` may be anything that ``audit_system`` accepts; ``users`` and
        ``items`` may be DataFrames.
    out : run directory for reports and stored tasks. Without it, nothing is written.
    jobs : number of worker processes; default: all cores. The number does not change the result.
    device : device on which clients are simulated, as torch names it ("cuda"); default: the CPU.
    memory : GiB that all workers together may use; default: the memory of the machine.
    backend : system that runs the workers: "loky" on this machine, or the cluster of "dask" or
        "ray" at ``address``.
    progress : whether to show progress; None shows it only in a terminal or a notebook. A function
        is called with a ``ProgressReport`` when a task ends and about once a second, from a
        separate thread.

    Raises InputError for invalid arguments or data.

    >>> record = audit("dplcf-sp", data="synthetic", quick=True, games=(), jobs=1)
    >>> for finding in record.findings:
    ...     print(finding.scope.unit, finding.claim.epsilon, finding.verdict)
    interaction 1.0 CONSISTENT
    user 1.0 INCOMPARABLE
    """
    interactions, plan = make_plan_with_data({"targets": targets, **fields})
    check_plan(plan, is_data_in_memory=interactions is not None)
    resources = make_resources(jobs, device, memory, backend, address)
    with machine_progress.show_progress(progress) as observe:
        return run_plan(plan, resources, out=out, observe=observe, interactions=interactions)


def run_plan(
    plan: Plan,
    resources: Resources,
    *,
    out: Path | None = None,
    gate: Gate = DEFAULT_GATE,
    observe: machine_progress.ProgressObserver | None = None,
    interactions: Interactions | None = None,
    systems: Sequence[Target] = (),
    force: bool = False,
) -> Record:
    """Runs the unfinished tasks of ``plan``, writes reports to ``out``, and returns the results.

    - ``out``: run directory, or None to write nothing.
    - ``gate``: condition that decides which judgements are failures in the report junit.xml.
    - ``observe``: observer that receives the progress, or None.
    - ``interactions``: data of the plan, if they are in memory; otherwise None.
    - ``systems``: the user's own systems, which the plan names.
    - ``force``: whether to replace the report of another plan in ``out``; without it, InputError.

    Raises InputError if ``out`` cannot be written, or if another audit is running in it.

    >>> plan = Plan(targets=("fcf",), data="synthetic", attacks=(), settings={"fcf": {"rounds": 1}})
    >>> record = run_plan(plan, Resources(jobs=1))
    >>> record.findings[0].verdict
    <Verdict.NO_CLAIM: 'NO CLAIM'>
    """
    started = time.perf_counter()
    audit = Audit.from_plan(plan, interactions, resources.machine, resources.max_bytes, systems)
    audits = audit.list_repetitions()
    if out is None:
        results = run_audits([(each, None) for each in audits], resources, observe)
        return assemble_record(audit, resources, merge_results(results), started)
    with store.lock_directory(out):
        if not force:
            _check_same_plan(out, audit.plan)
        resumable = [(each, Checkpoints.open(out, each)) for each in audits]
        results = run_audits(resumable, resources, observe)
        record = assemble_record(audit, resources, merge_results(results), started)
        record.save(out, gate)
        if not record.errors:
            shutil.rmtree(resumable[0][1].folder, ignore_errors=True)
    return record


def _check_same_plan(out: Path, plan: Plan) -> None:
    """Raises InputError if the directory ``out`` contains a finished audit of another plan or
    version, or a sweep (audits of one plan with several settings).
    """
    if (out / SWEEP_RECORD_FILE).exists():
        raise InputError(
            f"Expected no report of another plan in {out}, got a sweep with its stored tasks. Give "
            "another directory with --out."
        )
    if not (out / store.RECORD_FILE).exists():
        return
    try:
        before = store.read_record(out, Contents).plan
    except InputError as error:
        raise InputError(
            f"Expected no other report in {out}, got a report.json that this version cannot read. "
            "Give another directory with --out, or --force to replace it."
        ) from error
    fields = store.to_json(plan.model_dump(mode="json"))
    if differ := sorted(
        key for key in before.keys() | fields.keys() if before.get(key) != fields.get(key)
    ):
        raise InputError(
            f"Expected no report of another plan in {out}, got a report of a plan with other "
            f"{', '.join(differ)}. Give another directory with --out, or --force to replace it."
        )


def run_audits(
    audits: Sequence[tuple[Audit, Checkpoints | None]],
    resources: Resources,
    observe: machine_progress.ProgressObserver | None,
) -> list[ResultsByTask]:
    """Runs all tasks of each audit that have no stored result; returns all results, one mapping per
    audit.

    ``audits``: pairs of an audit and the storage of its finished tasks, or None to store nothing.
        Several audits need different ``label``s.
    ``resources``: workers, device and memory, which all audits share.
    ``observe``: observer that receives the progress, or None.
    """
    count = min(audit.count_workers(resources.jobs, resources.max_bytes) for audit, _ in audits)
    cluster = resources.cluster
    call = workers.run_parallel if cluster is None else cluster.run_parallel
    queues = [_Queue.make(*pair, count if len(audits) == 1 else 1) for pair in audits]
    watch = machine_progress.ProgressTracker(
        observe,
        done=sum(len(queue.results) for queue in queues),
        total=sum(len(queue.tasks) for queue in queues),
    )
    with watch.open_notes_file() as notes:
        runners = [_TaskRunner(*pair, notes) for pair in audits]
        # Workers of a cluster have no access to local files: their results are stored here.
        remote = runners if cluster is None else [_TaskRunner(audit) for audit, _ in audits]
        jobs: list[tuple[float, tuple[Any, ...]]] = []
        for number, queue in enumerate(queues):
            trained = runners[number].train(queue.jobs) if cluster is None else {}
            for job, seconds in queue.jobs.items():
                jobs.append((seconds, (number, remote[number], job, trained.get(job[0].target))))
        jobs.sort(key=lambda timed: -timed[0])
        for number, results in call(
            _run_job, [work for _, work in jobs], jobs=min(count, len(jobs))
        ):
            queues[number].results.update(results)
            for task, result in results.items() if cluster is not None else ():
                runners[number].keep(task, result)
        for runner, queue in zip(runners, queues, strict=True):
            for task in queue.parallel_tasks:
                queue.results[task] = runner.run(task, runner.bind(task, count, call))
    return [{task: queue.results[task] for task in queue.tasks} for queue in queues]


@dataclass(frozen=True)
class _Queue:
    """Work of an audit: finished and unfinished tasks.

    - ``tasks``: all tasks.
    - ``results``: results of finished tasks.
    - ``jobs``: unfinished jobs (groups of tasks for a single worker), with their estimated seconds.
    - ``parallel_tasks``: unfinished tasks that occupy all workers.
    """

    tasks: tuple[Task, ...]
    results: ResultsByTask
    jobs: Mapping[tuple[Task, ...], float]
    parallel_tasks: tuple[Task, ...]

    @classmethod
    def make(cls, audit: Audit, checkpoints: Checkpoints | None, workers: int) -> _Queue:
        """Makes the queue of an audit for this number of ``workers``.

        ``checkpoints``: storage of finished tasks, or None.
        """
        tasks = audit.list_tasks()
        stored = {} if checkpoints is None else {task: checkpoints.get(task) for task in tasks}
        results = {task: result for task, result in stored.items() if result is not None}
        unfinished = [task for task in tasks if task not in results]
        parallel = tuple(task for task in unfinished if task.uses_all_workers)
        return cls(tasks, results, audit.group_tasks(unfinished, workers), parallel)


@dataclass(frozen=True)
class _TaskRunner:
    """Runs tasks of an audit, reports their progress, measures their time and stores their results.

    ``audit``: the audit.
    ``checkpoints``: storage of finished tasks, or None.
    ``notes``: file to which progress is written, or None.
    """

    audit: Audit
    checkpoints: Checkpoints | None = None
    notes: Path | None = None

    def run(self, task: Task, work: Callable[[], TaskResult]) -> TaskResult:
        """Runs the function ``work`` of a task, with libraries in one thread; returns its result.

        These failures become errors of the result, so that other tasks continue:

        - an exception in ``work``;
        - NaN among the numbers;
        - InputError, by which a system refuses the data or its settings; raised if no other system
          is audited.
        """
        name = self.audit.label_step(task.target, task.step)
        with limit_to_one_thread(None), machine_progress.note_progress(self.notes, name):
            started = time.perf_counter()
            try:
                with block_exits():
                    result = work()
            except InputError as error:
                if self.audit.ends_on_refusal:
                    raise
                result = TaskResult(errors=(f"{task.target}: {error}",))
            except AuditError:
                raise
            except Exception as error:
                logger.exception("%s failed", task)
                result = TaskResult(errors=(f"{task}: {type(error).__name__}: {error}",))
            try:
                store.to_json(result.model_dump(mode="python"))
            except IncompleteError as error:
                result = TaskResult(errors=(f"{task}: {error}",))
            seconds = round(time.perf_counter() - started, 3)
        result = result.model_copy(update={"seconds": seconds})
        self.keep(task, result)
        return result

    def keep(self, task: Task, result: TaskResult) -> None:
        """Stores the result of a finished task on disk, unless it has errors, and reports the end
        of the task.
        """
        if self.checkpoints is not None and not result.errors:
            self.checkpoints.put(task, result)
        machine_progress.write_progress_note(
            self.notes, self.audit.label_step(task.target, task.step), "", 1, 1
        )

    def train(self, jobs: Iterable[Sequence[Task]]) -> dict[str, tuple[HeldOutData, TrainingRun]]:
        """Trains the systems that several jobs need; returns held-out data and training by system.

        ``jobs``: groups of tasks, each for a single worker.

        The arrays of the results are in files. A system whose training fails is left out.
        """
        on_disk = replace(self.audit, machine=replace(self.audit.machine, memory=0))
        times = Counter(job[0].target for job in jobs if job[0].step not in (BOUNDS, LOCAL_NAME))
        trainings = {}
        for target in (target for target, count in times.items() if count > 1):
            name = self.audit.label_step(target, machine_progress.TRAINING_STAGE)
            # A failure here repeats in each task, which then reports the error.
            with (
                limit_to_one_thread(None),
                machine_progress.note_progress(self.notes, name),
                suppress(Exception),
            ):
                held_out, run = AuditedTarget(on_disk, target).held_out_and_run
                trainings[target] = map_arrays_to_files(held_out), run
            if target not in trainings:
                machine_progress.write_progress_note(
                    self.notes, name, machine_progress.TRAINING_STAGE, 1, 1
                )
        return trainings

    def bind(self, task: Task, workers: int, call: Callable[..., Any]) -> Callable[[], TaskResult]:
        """A function without arguments that plays the game ``task`` and returns its result.

        ``workers``: number of workers.
        ``call``: function that distributes the runs of the game to the workers.

        The runs are stored.
        """

        def parallel(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
            every = ((function, *each) for each in arguments)
            return call(_run_in_one_thread, every, jobs=min(workers, len(arguments)))

        kept = self.checkpoints
        chunks = MemoryChunkStore() if kept is None else kept.get_chunk_store()
        return functools.partial(play_game, task, self.audit, parallel, chunks)


def _run_job(
    number: int,
    runner: _TaskRunner,
    tasks: Sequence[Task],
    trained: tuple[HeldOutData, TrainingRun] | None,
) -> tuple[int, ResultsByTask]:
    """Runs ``tasks`` of one system; returns ``number``, the index of their audit, with the result
    of each task.

    ``trained``: held-out data and finished training of the system, or None to train it here.
    """
    audited = AuditedTarget(runner.audit, tasks[0].target, trained)
    with use_threads(runner.audit.machine.threads):
        return number, {
            task: runner.run(task, functools.partial(audited.run_step, task.step)) for task in tasks
        }


def _run_in_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    with limit_to_one_thread(None):
        return function(*arguments)


def assemble_record(
    audit: Audit, resources: Resources, results: ResultsByTask, start_time: float
) -> Record:
    """Assembles the results of all tasks of an audit, in their order, into the audit's record.

    ``resources``: workers and device, which the record states.
    ``results``: result of each task.
    ``start_time``: value of ``time.perf_counter`` at the start of the audit.
    """
    ordered = list(results.values())
    not_run = [row for result in ordered for row in result.skipped if row.attack in CANARY_GAMES]
    of_others = {n: explain_no_game(each) for n, each in audit.targets.items() if is_external(each)}
    findings = accounting.drop_refuted_proofs(
        (row for result in ordered for row in result.findings), functools.partial(_get_proof, audit)
    )
    return Record(
        plan=audit.plan.model_dump(mode="json"),
        provenance=Provenance(
            versions=get_versions(),
            seed=audit.plan.seed,
            data=_make_data_row(audit.interactions),
            timing={
                **{str(task): result.seconds for task, result in results.items()},
                "wall": round(time.perf_counter() - start_time, 3),
            },
            machine={
                "system": platform.system(),
                "architecture": platform.machine(),
                "cores": os.cpu_count() or 1,
                "jobs": resources.jobs,
                "backend": "loky" if resources.cluster is None else resources.cluster.name,
                "device": audit.device,
                "kernels": _name_kernels(),
            },
        ),
        findings=accounting.mark_untested(findings, not_run, of_others),
        measurements=tuple(row for result in ordered for row in result.measurements),
        attacks=tuple(row for result in ordered for row in result.attacks),
        skipped=tuple(row for result in ordered for row in result.skipped),
        utility=tuple(row for result in ordered for row in result.utility),
        messages=tuple(dict.fromkeys(row for result in ordered for row in result.messages)),
        own=tuple(of_others),
        notes=audit.notes,
        errors=tuple(dict.fromkeys(error for result in ordered for error in result.errors)),
    )


def _get_proof(audit: Audit, name: str, bound: Bound) -> Bound | None:
    """Proved upper bound in the scope, and at the delta, of a measured ``bound``; None if the
    system has no assumptions.

    ``name``: name of the system.
    """
    target, data = audit.targets.get(name), audit.interactions
    if target is None or data is None or not target.assumes:
        return None
    crowd = Population(n_users=data.n_users, n_items=data.n_items)
    return accounting.find_upper_bound(
        target, bound.scope, crowd, bound.delta, accounting.list_accountants()
    )


def _name_kernels() -> str:
    """Names of the linear algebra kernels for this processor, as text. The kernels determine the
    last digits of results.
    """
    pools = threadpoolctl.threadpool_info()
    names = {
        f"{pool['internal_api']} {pool['architecture']}" for pool in pools if "architecture" in pool
    }
    return ", ".join(sorted(names)) or "unknown"


def _make_data_row(interactions: Interactions) -> DataRow:
    return DataRow(
        name=interactions.name,
        digest=interactions.digest(),
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_interactions=interactions.ratings.nnz,
    )
