"""Finished tasks on disk, so that a killed audit resumes where it stopped."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from fedrec_auditor.auditor.tasks import Audit, Task, TaskResult
from fedrec_auditor.reports import store

FOLDER = ".tasks"
_PACKAGES = (
    "fedrec-auditor",
    "dp-accounting",
    "numba",
    "numpy",
    "scikit-learn",
    "scipy",
    "torch",
)


@dataclass(frozen=True)
class Checkpoints:
    """Results of one plan on one data set under one version of the code, a file a task."""

    folder: Path
    key: str

    @classmethod
    def of(cls, out: Path, audit: Audit) -> Checkpoints:
        """Those of ``audit`` in the run directory ``out``."""
        data = "" if audit.interactions is None else audit.interactions.digest()
        text = "\n".join([audit.plan.digest(), data, _source_digest(), str(versions())])
        return cls(out / FOLDER, hashlib.sha256(text.encode()).hexdigest()[:16])

    def get(self, task: Task) -> TaskResult | None:
        """The finished task, or None if it is not there or cannot be read."""
        try:
            return TaskResult.model_validate_json(self._path(task).read_bytes())
        except (OSError, ValidationError):
            return None

    def put(self, task: Task, result: TaskResult) -> None:
        """Keep a finished task."""
        self.folder.mkdir(exist_ok=True)
        store.write_atomically(self._path(task), result.model_dump_json().encode())

    def _path(self, task: Task) -> Path:
        return self.folder / f"{self.key}-{str(task).replace(' ', '-')}.json"


def versions() -> dict[str, str]:
    """Versions of Python and of what the numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _source_digest() -> str:
    """SHA-256 over our own source, so that results of other code are never taken for ours."""
    digest = hashlib.sha256()
    for folder in sorted(Path(__file__).parents[1].iterdir()):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
