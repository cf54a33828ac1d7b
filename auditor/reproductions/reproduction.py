"""The figures of a paper, measured again: what its folder declares, run, compared, written."""

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
from fedrec_auditor.auditor.machine.progress import Observer, Watch
from fedrec_auditor.auditor.machine.workers import results
from fedrec_auditor.auditor.plan.families import check_name, papers, reproduction_names
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.auditor.plan.versions import source_digest, versions
from fedrec_auditor.auditor.reproductions.tables import Measurable
from fedrec_auditor.auditor.run import checkpoints
from fedrec_auditor.auditor.run.checkpoints import Checkpoints
from fedrec_auditor.auditor.run.tasks import Task, TaskResult
from fedrec_auditor.reports.record.rows import ReproducedRow
from fedrec_auditor.reports.writers import reproductions
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import Order, Paper


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The figures of one paper."""

    declared: Paper

    @property
    def paper(self) -> str:
        """Which paper, as it is cited."""
        return self.declared.heading.title

    @property
    def absent(self) -> tuple[str, ...]:
        """Printed figures that are measured nowhere, as the page says it."""
        return tuple(f"not measured here: {each}" for each in self.declared.printed.absent)

    def parts(self) -> Sequence[Measurable]:
        """All that is run, each by itself and in any process."""
        from fedrec_auditor.auditor.reproductions import tables

        paper = self.declared
        made = [*tables.trained_parts(paper), *tables.attacked_parts(paper)]
        if (epsilons := paper.printed.epsilons) is not None:
            measure = partial(_calculated, paper, epsilons.system)
            made.append(Measurable(name="calculations", data="", measure=measure))
        return made

    def remarks(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        """What the rows say together, in sentences."""
        from fedrec_auditor.auditor.reproductions import tables

        printed = self.declared.printed
        return [
            *printed.remark,
            *(line for order in printed.order for line in _ranked(self.declared, order, rows)),
            *tables.remarks(rows),
            *_above(rows),
        ]


def reproduction(name: str) -> Reproduction:
    """The reproduction of the paper of this name; InputError with near names if there is none."""
    check_name("reproductions", name, reproduction_names())
    return Reproduction(papers()[name])


def _calculated(
    paper: Paper,
    system: str,
    interactions: Interactions | None,
    rng: np.random.Generator,
    quick: bool,
) -> tuple[ReproducedRow, ...]:
    """Each printed epsilon beside what is proved, and what leaks, for the same rounds."""
    return tuple(
        ReproducedRow(
            place=f"Table {entry.table}",
            system=system,
            what=f"epsilon at delta {entry.delta:g}, {entry.clients} of {entry.n_users} clients",
            printed=entry.printed,
            value=entry.upper,
            beside={"by the authors' counting": entry.counted, "leaks at least": entry.lower},
        )
        for entry in paper.epsilons()
    )


def _ranked(paper: Paper, order: Order, rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """Whether systems rank as the paper says; nothing where one of them is not measured."""
    printed = list(order.rows)
    if not printed:
        scores = {
            row: table.row(row)[order.metric]
            for table in paper.printed.table
            if table.place == order.place
            for row in table.rows
        }
        printed = sorted(scores, key=lambda row: -scores[row])
    ours = {
        row.system: row.value
        for row in reversed(rows)  # the first protocol is the printed one
        if row.what.startswith(f"{order.metric},") and f", {order.data}" in row.what
    }
    if set(printed) <= set(ours):
        falling = order.metric != "MSE"
        found = sorted(printed, key=lambda row: -ours[row] if falling else ours[row])
        said = "as here" if found == printed else f"here {', '.join(found)}"
        figures = ", ".join(f"{ours[row]:.3f}" for row in printed)
        yield (
            f"By {order.metric} on {order.data}, from the best: {', '.join(printed)} "
            f"({order.place}): {said} ({figures})."
        )


def _above(rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """How many printed epsilons are above what is proved."""
    cells = [row for row in rows if row.printed is not None and "leaks at least" in row.beside]
    if cells:
        above = sum(row.value < (row.printed or 0.0) for row in cells)
        yield f"Of {len(cells)} finite printed epsilons, {above} are above what is proved."


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    data: Mapping[str, str],
    only: Sequence[str],
    quick: bool,
    jobs: int,
    observe: Observer,
) -> Path:
    """Run the named reproductions and write ``reproductions.md`` and ``.json`` in ``out``.

    ``data`` leads from the name of a data set to a path; one of ``only``, if there are any, is in
    the names of the parts that are run, and the page says how many are not. Finished parts are kept
    in ``out``, and are not run again by the same code with the same data. InputError for an unknown
    name.
    """
    made = {name: reproduction(name) for name in names}
    out.mkdir(parents=True, exist_ok=True)
    kept = Checkpoints(out / checkpoints.FOLDER, _key(data, quick))
    whole = [(name, part) for name, one in made.items() for part in one.parts()]
    parts = {
        Task(name, re.sub(r"[^\w.]+", "-", part.name)): part
        for name, part in whole
        if _asked(part, only)
    }
    if not parts:
        raise InputError(
            f"Expected a part whose name has {_either(only)} in it, got none. There are for "
            f"example {', '.join(part.name for _, part in whole[:3])}."
        )
    found = {task: result for task in parts if (result := kept.get(task)) is not None}
    missing = [
        (task, parts[task], data.get(parts[task].data, parts[task].data), quick)
        for task in parts
        if task not in found
    ]
    watch = Watch(observe, done=len(found), total=len(parts))
    for task, result in results(_measured, missing, jobs=jobs):
        found[task] = result
        if not result.errors:
            kept.put(task, result)
        watch.at(parts[task].name, "", 1, 1)
    pages = [
        reproductions.Page(
            name=name,
            paper=one.paper,
            rows=(rows := tuple(_rows(found, parts, name))),
            remarks=tuple(one.remarks(rows)),
            left_out=(
                *(
                    f"{parts[task].name}: {error}"
                    for task in parts
                    if task.target == name
                    for error in found[task].errors
                ),
                *_not_asked(name, only, whole),
                *one.absent,
            ),
        )
        for name, one in made.items()
    ]
    command = _command(names, data, only, quick)
    return reproductions.write(pages, out, command=command, quick=quick)


def _command(
    names: Sequence[str], data: Mapping[str, str], only: Sequence[str], quick: bool
) -> str:
    """The command line that gives the same figures, without paths of this machine."""
    every = sorted(names) == sorted(reproduction_names())
    words = ["auditor", "reproduce", *(["all"] if every else names)]
    words += [word for name in data for word in ("--data", f"{name}=PATH")]
    words += [word for text in only for word in ("--only", text)]
    return shlex.join([*words, *(["--quick"] if quick else [])])


def _asked(part: Measurable, only: Sequence[str]) -> bool:
    return not only or any(text in part.name for text in only)


def _either(only: Sequence[str]) -> str:
    return " or ".join(map(repr, only))


def _not_asked(
    name: str, only: Sequence[str], whole: Sequence[tuple[str, Measurable]]
) -> Iterator[str]:
    count = sum(of == name and not _asked(part, only) for of, part in whole)
    if count:
        yield f"{count} parts whose names do not have {_either(only)} in them."


def _rows(
    found: Mapping[Task, TaskResult], parts: Mapping[Task, Measurable], name: str
) -> Iterator[ReproducedRow]:
    for task in parts:
        if task.target == name:
            yield from found[task].reproduced


def _measured(task: Task, part: Measurable, source: str, quick: bool) -> tuple[Task, TaskResult]:
    """One part, from a seed of its own name; a data set that is not there is an error of its."""
    started = time.monotonic()
    words = np.frombuffer(hashlib.sha256(part.name.encode()).digest(), dtype=np.uint32)
    rng = np.random.default_rng(np.random.SeedSequence([*map(int, words)]))
    try:
        rows = part.measure(load_data(source) if source else None, rng, quick)
        result = TaskResult(reproduced=rows)
    except Exception as error:
        result = TaskResult(errors=(f"{type(error).__name__}: {error}",))
    return task, result.model_copy(update={"seconds": time.monotonic() - started})


def _key(data: Mapping[str, str], quick: bool) -> str:
    text = f"{sorted(data.items())} {quick} {versions()} {source_digest()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
