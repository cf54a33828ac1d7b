"""Progress with the time left: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Observer = Callable[[int, int, str, float | None], None]
"""Is told the tasks done, their number, what was just finished, and the seconds left if known."""
_POLL = 0.2


class Pace:
    """The time left, told from what finished steps of the same kind took.

    Steps differ a thousandfold: a bound of FCF says nothing of how long an attack on it takes. So
    there is no time left to tell while a kind of step is left of which none has finished.

    >>> pace = Pace(["bounds", "attack", "bounds", "attack"], workers=2)
    >>> pace.finish("bounds", 0.1), pace.left()
    (None, None)
    >>> pace.finish("attack", 60.0), pace.left()
    (None, 30.05)
    """

    def __init__(self, kinds: Iterable[str], *, workers: int) -> None:
        self._left, self._workers = Counter(kinds), workers
        self._took: dict[str, list[float]] = {}

    def finish(self, kind: str, seconds: float) -> None:
        """A step of this kind took so long."""
        self._left[kind] -= 1
        self._took.setdefault(kind, []).append(seconds)

    def left(self) -> float | None:
        """Seconds until all steps have finished; None if some kind was never timed."""
        kinds = +self._left
        if any(kind not in self._took for kind in kinds):
            return None
        work = sum(count * float(np.mean(self._took[kind])) for kind, count in kinds.items())
        return work / min(self._workers, max(kinds.total(), 1))


@contextmanager
def diary(read: Callable[[str], None]) -> Iterator[Path]:
    """A file to which any process may ``note`` lines, and a thread that reads them as they come.

    All are read when the context ends.
    """
    with tempfile.TemporaryDirectory(prefix="progress-") as folder:
        path, ended = Path(folder) / "lines", threading.Event()
        path.touch()
        with path.open(encoding="utf-8") as lines:

            def follow() -> None:
                while not ended.wait(_POLL):
                    take()

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


@contextmanager
def progress(console: Console) -> Iterator[Observer]:
    """Give an observer that shows progress on ``console``."""
    started = time.monotonic()
    if not console.is_terminal:

        def line(done: int, total: int, what: str, left: float | None) -> None:
            elapsed = _duration(time.monotonic() - started)
            said = f"[{done}/{total}] {what}; {elapsed} so far, {_left(done, total, left)}"
            with suppress(OSError):  # whether anybody reads it changes no audit
                print(said, file=console.file, flush=True)

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading the data", total=None, left="")

        def show(done: int, total: int, what: str, left: float | None) -> None:
            said = _left(done, total, left)
            bar.update(task, completed=done, total=total, description=what, left=said)

        yield show


def _left(done: int, total: int, seconds: float | None) -> str:
    if done == total:
        return "done"
    return "time left not known yet" if seconds is None else f"about {_duration(seconds)} left"


def _duration(seconds: float) -> str:
    """The two largest units: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
