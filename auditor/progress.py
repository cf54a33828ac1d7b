"""Progress with the time left: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Observer = Callable[[int, int, str], None]


@contextmanager
def progress(console: Console) -> Iterator[Observer]:
    """Give a callback (done, in all, what was just finished) that shows progress on ``console``."""
    started = time.monotonic()

    def left(done: int, total: int) -> str:
        seconds = (time.monotonic() - started) * (total - done) / max(done, 1)
        return f"about {seconds:.0f} s left" if done < total else "done"

    if not console.is_terminal:

        def line(done: int, total: int, what: str) -> None:
            said = f"[{done}/{total}] {what}; {left(done, total)}"
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

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what, left=left(done, total))

        yield show
