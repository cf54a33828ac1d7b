"""A diary: a file to which any process of this machine notes what it does."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_POLL, _OFTEN = 0.2, 0.5
"""Seconds between two looks at the file, and between two notes of a task on its stage."""


@contextmanager
def diary(read: Callable[[str], None], idle: Callable[[], None]) -> Iterator[Path]:
    """A file to which any process may ``note`` lines, and a thread that reads them as they come.

    All are read when the context ends. Between two looks the thread calls ``idle``.
    """
    with tempfile.TemporaryDirectory(prefix="progress-") as folder:
        path, ended = Path(folder) / "lines", threading.Event()
        path.touch()
        with path.open(encoding="utf-8") as lines:

            def follow() -> None:
                while not ended.wait(_POLL):
                    take()
                    idle()

            def take() -> None:
                for line in lines:
                    read(line.rstrip("\n"))

            reader = threading.Thread(target=follow, daemon=True)
            reader.start()
            try:
                yield path
            finally:
                ended.set()
                reader.join()
                take()


def note(path: Path, line: str) -> None:
    """Add a line to a ``diary``, in one piece; a full disk loses the line and nothing else."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)


class StageNotes:
    """Notes in a diary on the stage of one task, twice a second at most."""

    def __init__(self, path: Path, task: str) -> None:
        self._path, self._task, self._last = path, task, 0.0
        self._what = ""

    def __call__(self, what: str, done: int, of: int) -> None:
        """The listener of ``listening``: the first and the last of a loop are noted always."""
        now = time.monotonic()
        if self._what == what and 0 < done < of and now - self._last < _OFTEN:
            return
        self._what, self._last = what, now
        note(self._path, f"at\t{self._task}\t{what}\t{done}\t{of}")
