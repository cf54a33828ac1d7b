"""Runs a plan: splits it into pieces, runs them in worker processes, assembles the record.

A piece is one step (bounds, utility, one attack, or one demonstration) on one target. Every piece
draws from its own seed, derived from the plan's seed and the piece's name, and computes in one
thread: the same plan gives the same record whatever the number of jobs. Finished pieces are kept in
the run directory, so a killed audit resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import threadpoolctl
from pydantic import ValidationError

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.auditor import pieces, workers
from fedrec_auditor.auditor.pieces import Piece, PieceResult
from fedrec_auditor.auditor.plan import (
    Plan,
    Resources,
    Setting,
    make_plan,
    make_resources,
    make_target,
)
from fedrec_auditor.auditor.progress import Observer
from fedrec_auditor.auditor.sources import load_data
from fedrec_auditor.reports import store
from fedrec_auditor.reports.record import DataRow, Provenance, Record
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.filter import Filter

logger = logging.getLogger(__name__)

PIECES = ".pieces"
_PACKAGES = (
    "fedrec-auditor",
    "dp-accounting",
    "numba",
    "numpy",
    "scikit-learn",
    "scipy",
    "torch",
)


def audit(
    targets: str | Sequence[str] = (),
    *,
    data: str | Path = "ml-100k",
    seed: int = 0,
    confidence: float = 0.95,
    quick: bool = False,
    attacks: Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Setting]] | None = None,
    only: str | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    device: str = "cpu",
) -> Record:
    """Audit ``targets`` (a name, several, or all) on ``data`` and return the record.

    Parameters
    ----------
    data : name of a data set, or a path to one.
    settings : fields of a target that differ from its paper's, by target name.
    only : "claims" plays the demonstrations of violated claims and nothing else; no data are read.
    out : run directory for reports and resumable pieces; nothing is written without it.
    jobs : worker processes, default all cores; does not change the answer.
    device : where clients are simulated, as torch names it ("cuda"); default the CPU.

    Raises InputError for anything wrong with the arguments or the data.
    """
    values: dict[str, Any] = {
        "targets": (targets,) if isinstance(targets, str) else tuple(targets),
        "data": str(data),
        "seed": seed,
        "confidence": confidence,
        "quick": quick,
        "attacks": None if attacks is None else tuple(attacks),
        "settings": settings or {},
        "only": only,
    }
    return run_plan(make_plan(values), make_resources(jobs, device), out=out)


def run_plan(
    plan: Plan,
    resources: Resources,
    *,
    out: Path | None = None,
    fail_on: str = "violated",
    observe: Observer | None = None,
) -> Record:
    """Run every piece of ``plan`` not yet finished in ``out``; report there; give the record.

    ``fail_on`` decides what junit.xml calls a failure. InputError if ``out`` cannot be written or
    another audit runs in it.
    """
    started = time.perf_counter()
    plan = plan.resolved()
    interactions = None
    if plan.only is None:
        for name in plan.targets:
            make_target(name, plan).challenges()  # refuse wrong settings before any work
        filters = Filter(min_user=plan.min_user, min_item=plan.min_item)
        interactions = load_data(plan.data, plan.columns, filters)
    if out is None:
        return _record(plan, interactions, resources, None, observe, started)
    with store.held(out):
        shelf = Shelf(out, plan, interactions)
        record = _record(plan, interactions, resources, shelf, observe, started)
        store.write(record, out, fail_on=fail_on)
        if not record.errors:
            shutil.rmtree(shelf.directory, ignore_errors=True)
    return record


def _record(
    plan: Plan,
    interactions: Interactions | None,
    resources: Resources,
    shelf: Shelf | None,
    observe: Observer | None,
    started: float,
) -> Record:
    """The record of a resolved plan, finished pieces taken from the shelf."""
    work = pieces.split(plan, plan.targets)
    results: dict[Piece, PieceResult] = {}
    for piece, result in _run(work, plan, interactions, resources, shelf):
        results[piece] = result
        if observe is not None:
            observe(len(results), len(work), str(piece))
    ordered = [results[piece] for piece in work]
    return Record(
        plan=plan.model_dump(mode="json"),
        provenance=Provenance(
            versions=_versions(),
            seed=plan.seed,
            data=None if interactions is None else _data(interactions),
            timing={
                **{str(piece): results[piece].seconds for piece in work},
                "wall": round(time.perf_counter() - started, 3),
            },
            machine=_machine(resources),
        ),
        findings=tuple(row for result in ordered for row in result.findings),
        measurements=tuple(row for result in ordered for row in result.measurements),
        attacks=tuple(row for result in ordered for row in result.attacks),
        utility=tuple(row for result in ordered for row in result.utility),
        demonstrations=tuple(row for result in ordered for row in result.demonstrations),
        errors=tuple(dict.fromkeys(error for result in ordered for error in result.errors)),
    )


def _data(interactions: Interactions) -> DataRow:
    return DataRow(
        name=interactions.name,
        digest=interactions.digest(),
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_interactions=interactions.ratings.nnz,
    )


def _run(
    work: Sequence[Piece],
    plan: Plan,
    interactions: Interactions | None,
    resources: Resources,
    shelf: Shelf | None,
) -> Iterator[tuple[Piece, PieceResult]]:
    """Finished pieces from the shelf first, then the others as they finish."""
    todo = []
    for piece in pieces.begun(work, plan):
        kept = None if shelf is None else shelf.get(piece)
        if kept is None:
            todo.append(piece)
        else:
            yield piece, kept
    jobs = min(resources.jobs, len(todo))
    finished = workers.results(
        _timed, ((piece, plan, interactions, resources.compute) for piece in todo), jobs=jobs
    )
    for piece, result in finished:
        if shelf is not None and not result.errors:
            shelf.put(piece, result)
        yield piece, result


def _timed(
    piece: Piece, plan: Plan, interactions: Interactions | None, compute: Compute
) -> tuple[Piece, PieceResult]:
    """Run a piece in one thread; a fault in it is told in its result and loses no other piece.

    So is a target's refusal of the data or its settings, unless no other target is audited.
    """
    started = time.perf_counter()
    try:
        with threadpoolctl.threadpool_limits(1):
            result = pieces.run(piece, plan, interactions, compute)
    except InputError as error:
        if len(plan.targets) == 1:
            raise
        result = PieceResult(errors=(f"{piece.target}: {error}",))
    except AuditError:
        raise
    except Exception as error:
        logger.exception("%s failed", piece)
        result = PieceResult(errors=(f"{piece}: {type(error).__name__}: {error}",))
    seconds = round(time.perf_counter() - started, 3)
    return piece, result.model_copy(update={"seconds": seconds})


@dataclass(frozen=True)
class Shelf:
    """Finished pieces of one plan on one data set under one version of the code."""

    directory: Path
    key: str

    def __init__(self, out: Path, plan: Plan, interactions: Interactions | None) -> None:
        data = "" if interactions is None else interactions.digest()
        text = "\n".join([plan.digest(), data, _source_digest(), str(_versions())])
        object.__setattr__(self, "directory", out / PIECES)
        object.__setattr__(self, "key", hashlib.sha256(text.encode()).hexdigest()[:16])

    def get(self, piece: Piece) -> PieceResult | None:
        """The finished piece, or None if it is not there or cannot be read."""
        try:
            return PieceResult.model_validate_json(self._path(piece).read_bytes())
        except (OSError, ValidationError):
            return None

    def put(self, piece: Piece, result: PieceResult) -> None:
        """Keep a finished piece."""
        self.directory.mkdir(exist_ok=True)
        store.write_atomically(self._path(piece), result.model_dump_json().encode())

    def _path(self, piece: Piece) -> Path:
        return self.directory / f"{self.key}-{str(piece).replace(' ', '-')}.json"


def _source_digest() -> str:
    """SHA-256 over our own source, so that pieces of other code are never taken for ours."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for package in sorted(root.iterdir()):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _machine(resources: Resources) -> dict[str, str | int | float]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        "jobs": resources.jobs,
        "device": resources.compute.device,
    }
