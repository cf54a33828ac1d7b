"""Stores finished tasks on disk, so that an interrupted audit resumes where it stopped."""

from __future__ import annotations

import hashlib
import io
import logging
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.auditor.games.canary_game import Features, MemoryChunkStore
from fedrec_auditor.auditor.plan.objects import compute_fingerprint, is_built_in
from fedrec_auditor.auditor.plan.versions import get_versions, hash_source
from fedrec_auditor.auditor.run.tasks import Audit, Task, TaskResult
from fedrec_auditor.reports.record import store

logger = logging.getLogger(__name__)

# Name of the folder with the results of finished tasks, in the run directory.
TASKS_FOLDER = ".tasks"
# Largest size, in bytes, of a stored task that is read. Typical large ones have some 100,000 bytes.
MAX_TASK_FILE_BYTES = 2**26


@dataclass(frozen=True)
class Checkpoints:
    """Stored results of an audit's tasks, for one plan, data set and code version; one file per
    task.

    - ``folder``: directory of the files.
    - ``key_prefix``: hash of the plan, the data and the code, which is the first part of each
      file's name.

    The first line of a file is the SHA-256 of its name and content. The second line is the result
    as JSON.
    """

    folder: Path
    key_prefix: str

    @classmethod
    def open(cls, out: Path, audit: Audit) -> Checkpoints:
        """Returns the storage of finished tasks of ``audit`` in the run directory ``out``.

        The storage is the folder ``TASKS_FOLDER`` in ``out``. Raises InputError if a link, or
        anything else that is not a folder, has this name.
        """
        folder = (out / TASKS_FOLDER).absolute()  # workers may have begun in another directory
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            kind = "a link" if folder.is_symlink() else "something else"
            raise InputError(
                f"Expected a folder of finished tasks or nothing at {folder}, got {kind}. Remove "
                "it, or give another directory with --out."
            )
        data = audit.interactions.digest()
        own = [compute_fingerprint(t) for t in audit.targets.values() if not is_built_in(t)]
        text = "\n".join([audit.plan.digest(), data, hash_source(), str(get_versions()), *own])
        return cls(folder, hashlib.sha256(text.encode()).hexdigest()[:16])

    def get(self, task: Task) -> TaskResult | None:
        """Returns the stored result of ``task`` (such as an attack); None if there is no file, or
        the file is damaged or of a failed task, which is logged.
        """
        try:
            result = TaskResult.model_validate_json(_read(self._get_path(task)))
            store.to_json(result.model_dump(mode="python"))
            if result.errors:
                raise ValueError("a failed task's result; the task is run again")
        except FileNotFoundError:
            return None
        except ValidationError:
            why = "a result of another form"
        except (OSError, ValueError, IncompleteError) as error:
            why = getattr(error, "strerror", None) or str(error)
        else:
            return result
        logger.warning(
            "Expected a finished task in %s, got %s. It is run again.", self._get_path(task), why
        )
        return None

    def get_chunk_store(self) -> FileChunkStore:
        """Returns the storage of simulated runs."""
        return FileChunkStore(self.folder, self.key_prefix)

    def put(self, task: Task, result: TaskResult) -> None:
        """Stores the result of a finished task."""
        _write(self._get_path(task), result.model_dump_json().encode())

    def _get_path(self, task: Task) -> Path:
        return self.folder / f"{self.key_prefix}-{str(task).replace(' ', '-')}.json"


@dataclass(frozen=True)
class FileChunkStore:
    """Storage of simulated runs (experiments that measure epsilon), one file per chunk of runs.

    - ``folder``: directory of the files.
    - ``key_prefix``: first part of the files' names: a hash of the plan, the data and the code.
    - ``chunk_cache``: chunks that this process has read or written.

    A file has the SHA-256 of its name and content, followed by an npz archive.
    """

    folder: Path
    key_prefix: str
    chunk_cache: MemoryChunkStore = field(default_factory=MemoryChunkStore)

    def get(self, name: str) -> Features | None:
        """Returns the chunk of simulated runs stored under ``name``; None for a missing or damaged
        file.

        A chunk maps each adversary's name to the features, (n, f), that it computes from n runs.
        """
        chunk = self.chunk_cache.get(name)
        if chunk is not None:
            return chunk
        try:
            with np.load(io.BytesIO(_read(self._get_path(name))), allow_pickle=False) as archive:
                chunk = dict(archive)
        except (OSError, ValueError):
            return None
        self.chunk_cache.put(name, chunk)
        return chunk

    def put(self, name: str, features: Features) -> None:
        """Stores a chunk of simulated runs under ``name``.

        ``features``: numbers that an adversary computes from each of n runs, (n, f), by name of the
            adversary.
        """
        buffer = io.BytesIO()
        np.savez(buffer, **features)  # type: ignore[arg-type]
        _write(self._get_path(name), buffer.getvalue())
        self.chunk_cache.put(name, features)

    def _get_path(self, name: str) -> Path:
        return self.folder / f"{self.key_prefix}-{name}.npz"


def _read(path: Path) -> bytes:
    """Reads the content of a file after the line with its SHA-256. Raises ValueError if the SHA-256
    does not agree with name and content.
    """
    digest, _, content = store.read_regular_file(path, MAX_TASK_FILE_BYTES).partition(b"\n")
    if digest != _digest(path, content):
        raise ValueError("a damaged file: its content differs from its SHA-256")
    return content


def _write(path: Path, content: bytes) -> None:
    """Writes a file: a line with the SHA-256 of its name and content, then the content. A folder of
    this name is deleted first.
    """
    path.parent.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    store.write_atomically(path, _digest(path, content) + b"\n" + content)


def _digest(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + b"\n" + content).hexdigest().encode()
