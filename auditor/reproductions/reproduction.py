"""Reproduces a paper's numbers: runs the trainings and calculations that the paper's folder
declares, and writes the results.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.machine.progress import ProgressObserver, ProgressTracker
from fedrec_auditor.auditor.machine.workers import run_parallel
from fedrec_auditor.auditor.plan.families import check_name, list_reproductions, load_papers
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.auditor.plan.versions import get_versions, hash_source
from fedrec_auditor.auditor.reproductions.tables import PaperPart
from fedrec_auditor.auditor.run import checkpoints
from fedrec_auditor.auditor.run.checkpoints import Checkpoints
from fedrec_auditor.auditor.run.tasks import Task, TaskResult
from fedrec_auditor.reports.record.rows import ReproducedRow
from fedrec_auditor.reports.writers import reproductions
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import Paper, ReportedRanking


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Reproduction of the numbers that one paper prints: trainings and calculations that measure
    them again.

    ``paper``: the paper, with its systems and printed numbers, as declared in the paper's
        folder.
    """

    paper: Paper

    @property
    def paper_title(self) -> str:
        """Title and source of the paper."""
        return self.paper.heading.title

    @property
    def unmeasured_number_notes(self) -> tuple[str, ...]:
        """Sentences about numbers that the paper prints, but that this reproduction does not
        measure.
        """
        absent = self.paper.printed_numbers.absent
        return tuple(f"not measured here: {each}" for each in absent)

    def list_parts(self) -> Sequence[PaperPart]:
        """Lists all trainings and calculations of the reproduction. They are independent of each
        other, so that they can run in different processes.
        """
        from fedrec_auditor.auditor.reproductions import tables

        paper = self.paper
        made = [*tables.iter_training_parts(paper), *tables.iter_attack_parts(paper)]
        if (epsilons := paper.printed_numbers.epsilons) is not None:
            measure = partial(_calculate_epsilons, paper, epsilons.system)
            made.append(PaperPart(name="calculations", data_set="", compute_rows=measure))
        return made

    def summarize(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        """Returns sentences that summarise the measured ``rows``: remarks, rankings of systems, and
        comparisons with the numbers in the paper.
        """
        from fedrec_auditor.auditor.reproductions import tables

        printed = self.paper.printed_numbers
        return [
            *printed.remark,
            *(line for order in printed.order for line in _compare(self.paper, order, rows)),
            *tables.compare_with_paper(rows),
            *_compare_epsilons(rows),
        ]


def get_reproduction(name: str) -> Reproduction:
    """Returns the reproduction of the paper with this short ``name``. Raises InputError, which
    suggests similar names, if there is none.
    """
    check_name("reproductions", name, list_reproductions())
    return Reproduction(load_papers()[name])


def _calculate_epsilons(
    paper: Paper,
    system: str,
    interactions: Interactions | None,
    rng: np.random.Generator,
    quick: bool,
) -> tuple[ReproducedRow, ...]:
    """Rows that compare each epsilon in the paper with an upper and a lower bound.

    The arguments ``interactions``, ``rng`` and ``quick`` are ignored.
    """
    return tuple(
        ReproducedRow(
            place=f"Table {entry.table}",
            system=system,
            what=f"epsilon at delta {entry.delta:g}, {entry.clients} of {entry.n_users} clients",
            printed=entry.printed,
            value=entry.upper,
            beside={"by the authors' counting": entry.counted, "leaks at least": entry.lower},
        )
        for entry in paper.compute_epsilon_rows()
    )


def _compare(paper: Paper, order: ReportedRanking, rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """Yields a sentence that compares a printed ranking of systems with the measured one, if all
    these systems are measured.
    """
    printed = list(order.rows)
    if not printed:
        scores = {
            row: table.get_row(row)[order.metric]
            for table in paper.printed_numbers.table
            if table.place == order.place
            for row in table.rows
        }
        printed = sorted(scores, key=lambda row: -scores[row])
    measured = {
        row.system: row.value
        for row in reversed(rows)  # the first protocol is that of the paper
        if row.what.startswith(f"{order.metric},") and f", {order.data}" in row.what
    }
    if set(printed) <= set(measured):
        falling = order.metric != "MSE"
        ranking = sorted(printed, key=lambda row: -measured[row] if falling else measured[row])
        outcome = "as here" if ranking == printed else f"here {', '.join(ranking)}"
        figures = ", ".join(f"{measured[row]:.3f}" for row in printed)
        yield (
            f"By {order.metric} on {order.data}, from the best: {', '.join(printed)} "
            f"({order.place}): {outcome} ({figures})."
        )


def _compare_epsilons(rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """Yields a sentence that counts the printed epsilons above the upper bounds that are proved;
    nothing if no finite epsilon is printed.
    """
    cells = [row for row in rows if row.printed is not None and "leaks at least" in row.beside]
    if cells:
        above = sum(row.value < (row.printed or 0.0) for row in cells)
        yield f"Of {len(cells)} finite printed epsilons, {above} are above what is proved."


def reproduce_papers(
    names: Sequence[str],
    out: Path,
    *,
    data: Mapping[str, str],
    only: Sequence[str],
    quick: bool,
    jobs: int,
    observe: ProgressObserver,
) -> Path:
    """Measures the numbers that papers print, and writes ``reproductions.md`` and
    ``reproductions.json`` to ``out``.

    - ``names``: short names of the papers.
    - ``out``: folder of the results. Finished parts (trainings and calculations) that it stores are
      not run again for the same code and data.
    - ``data``: path of each data set, by name.
    - ``only``: texts; only parts whose name contains one of them are run. Empty for all parts.
    - ``quick``: whether to run shorter trainings and fewer draws.
    - ``jobs``: number of processes.
    - ``observe``: function that receives the progress.

    Returns the path of ``reproductions.md``. Raises InputError for an unknown name, or if no part
    is selected.
    """
    chosen = {name: get_reproduction(name) for name in names}
    out.mkdir(parents=True, exist_ok=True)
    done = Checkpoints(out / checkpoints.TASKS_FOLDER, _make_key(data, quick))
    every = [(name, part) for name, entry in chosen.items() for part in entry.list_parts()]
    selected = [(name, part) for name, part in every if _is_selected(part, only)]
    parts = {Task(name, re.sub(r"[^\w.]+", "-", part.name)): part for name, part in selected}
    if not parts:
        raise InputError(
            f"Expected --only to select a part, got no part whose name contains {_join_or(only)}. "
            f"Give words of a part, such as {', '.join(part.name for _, part in every[:3])}."
        )
    made = {task: result for task in parts if (result := done.get(task)) is not None}
    missing = [
        (task, parts[task], data.get(parts[task].data_set, parts[task].data_set), quick)
        for task in parts
        if task not in made
    ]
    watch = ProgressTracker(observe, done=len(made), total=len(parts))
    for task, result in run_parallel(_run_part, missing, jobs=jobs):
        made[task] = result
        if not result.errors:
            done.put(task, result)
        watch.record_step(parts[task].name, "", 1, 1)
    pages = [
        reproductions.PaperRun(
            name=name,
            paper=entry.paper_title,
            rows=(rows := tuple(_select_rows(made, parts, name))),
            remarks=tuple(entry.summarize(rows)),
            left_out=(
                *(
                    f"{parts[task].name}: {error}"
                    for task in parts
                    if task.target == name
                    for error in made[task].errors
                ),
                *_describe_rest(name, only, every),
                *entry.unmeasured_number_notes,
            ),
        )
        for name, entry in chosen.items()
    ]
    command = _format_command(names, data, only, quick)
    return reproductions.write_reproductions(pages, out, command=command, quick=quick)


def _format_command(
    names: Sequence[str], data: Mapping[str, str], only: Sequence[str], quick: bool
) -> str:
    """The command line that repeats the reproduction, without paths of this machine."""
    every = sorted(names) == sorted(list_reproductions())
    words = ["auditor", "reproduce", *(["all"] if every else names)]
    words += [word for name in data for word in ("--data", f"{name}=PATH")]
    words += [word for text in only for word in ("--only", text)]
    return shlex.join([*words, *(["--quick"] if quick else [])])


def _is_selected(part: PaperPart, only: Sequence[str]) -> bool:
    return not only or any(text in part.name for text in only)


def _join_or(only: Sequence[str]) -> str:
    return " or ".join(map(repr, only))


def _describe_rest(
    name: str, only: Sequence[str], whole: Sequence[tuple[str, PaperPart]]
) -> Iterator[str]:
    count = sum(of == name and not _is_selected(part, only) for of, part in whole)
    if count:
        yield f"{count} parts whose names do not contain {_join_or(only)}."


def _select_rows(
    outcomes: Mapping[Task, TaskResult], parts: Mapping[Task, PaperPart], name: str
) -> Iterator[ReproducedRow]:
    for task in parts:
        if task.target == name:
            yield from outcomes[task].reproduced


def _run_part(task: Task, part: PaperPart, source: str, quick: bool) -> tuple[Task, TaskResult]:
    """Runs one training or calculation with a seed derived from its name. An error, such as missing
    data, is stored in the result.
    """
    started = time.monotonic()
    words = np.frombuffer(hashlib.sha256(part.name.encode()).digest(), dtype=np.uint32)
    rng = np.random.default_rng(np.random.SeedSequence([*map(int, words)]))
    try:
        rows = part.compute_rows(load_data(source) if source else None, rng, quick)
        result = TaskResult(reproduced=rows)
    except Exception as error:
        result = TaskResult(errors=(f"{type(error).__name__}: {error}",))
    return task, result.model_copy(update={"seconds": time.monotonic() - started})


def _make_key(data: Mapping[str, str], quick: bool) -> str:
    text = f"{sorted(data.items())} {quick} {get_versions()} {hash_source()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
