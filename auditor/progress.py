"""Progress with the time left: a bar in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from fedrec_auditor.auditor.stage import listening, stage_words
from fedrec_auditor.auditor.standing import Observer, Standing
from fedrec_auditor.reports.paragraph import paragraph
from fedrec_auditor.reports.words import duration

_PULSE = 1.0
"""Seconds between two looks at one task."""
_SILENT = 30.0
"""Seconds after which a log is told what runs, if no task has ended."""
_LINES = 4
"""Tasks at most that are told to run."""
_SURE = 3.0
"""Seconds before which nobody is told how long it takes."""


@contextmanager
def shown(progress: bool | Observer | None) -> Iterator[Observer | None]:
    """Give what shows progress where it is asked for, or where somebody looks on; or nothing."""
    if callable(progress):
        yield progress
        return
    console = Console(stderr=True)
    looked_at = console.is_jupyter or (console.is_terminal and sys.stderr.isatty())
    if progress is False or (progress is None and not looked_at):
        yield None
        return
    with _notebook() if console.is_jupyter else show(console) as observe:
        yield observe


@contextmanager
def shown_stages(progress: bool | Observer | None, name: str) -> Iterator[None]:
    """A context that shows as ``shown`` where its one task is, if that takes seconds."""
    if progress is False:
        yield
        return
    started = last = time.monotonic()
    observe: Observer | None = None
    with ExitStack() as stack:

        def tell(what: str, done: int, of: int) -> None:
            nonlocal last, observe
            now = time.monotonic()
            if now - last < _PULSE:
                return
            if last == started:
                observe = stack.enter_context(shown(progress))
            last = now
            if observe is not None:
                at = f"{name}, {stage_words(what, done, of)}"
                observe(Standing(done=0, total=1, running=(at,), elapsed=now - started))

        with listening(tell):
            yield


@contextmanager
def show(console: Console) -> Iterator[Observer]:
    """Give an observer that shows progress on ``console``."""
    if not console.is_terminal:
        yield _Log(console)
        return
    columns = (
        TextColumn("{task.description:<23}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with _Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(standing: Standing) -> None:
            bar.running = running(standing)
            left = left_words(standing)
            bar.update(task, completed=standing.done, total=standing.total, description=left)

        yield tell


class _Bar(Progress):
    """A bar, and below it what runs."""

    running: tuple[str, ...] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and a paragraph for each task that runs."""
        yield from super().get_renderables()
        for text in self.running:
            yield Text(paragraph(text, self.console.width, indent=2, hang=2))


class _Log:
    """A line whenever a task ends, or where none has for a while."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, time.monotonic()

    def __call__(self, standing: Standing) -> None:
        """Print the line if there is something to tell."""
        now = time.monotonic()
        if standing.finished is None and now - self._last < _SILENT:
            return
        self._last = now
        with suppress(OSError):  # whether anybody reads it changes no audit
            print(line(standing), file=self._console.file, flush=True)


@contextmanager
def _notebook() -> Iterator[Observer]:
    """An observer that shows a bar in a notebook as text, which needs no widgets."""
    from IPython.display import display

    handle: Any = display({"text/plain": "starting"}, raw=True, display_id=True)

    def tell(standing: Standing) -> None:
        handle.update({"text/plain": _text_bar(standing)}, raw=True)

    yield tell


def _text_bar(standing: Standing) -> str:
    width = 30
    full = width * standing.done // max(standing.total, 1)
    head = (
        f"{'#' * full}{'.' * (width - full)} {standing.done}/{standing.total}, "
        f"{duration(standing.elapsed)} so far, {left_words(standing)}"
    )
    return "\n".join([head, *(f"  {text}" for text in running(standing))])


def line(standing: Standing) -> str:
    """How an audit stands, for a log: what has ended, or else what runs."""
    what = standing.finished or "; ".join(running(standing)) or "nothing runs yet"
    said = f"{what}; {duration(standing.elapsed)} so far, {left_words(standing)}"
    return f"[{standing.done}/{standing.total}] {said}"


def running(standing: Standing) -> tuple[str, ...]:
    """What runs, a line a task, and how many more."""
    first = standing.running[:_LINES]
    more = len(standing.running) - len(first)
    return (*first, f"and {more} more") if more else first


def left_words(standing: Standing) -> str:
    """About how long it still takes, as roughly as it is known.

    >>> [left_words(Standing(done=1, total=2, elapsed=9, left=x)) for x in (40, 130, 1300, 9000)]
    ['under a minute left', 'about 2 min left', 'about 20 min left', 'about 2.5 h left']
    """
    seconds = standing.left
    if standing.done == standing.total:
        return "done"
    if seconds is None or standing.elapsed < _SURE:
        return "time left not known yet"
    if seconds < 50:
        return "under a minute left"
    minutes = seconds / 60
    if minutes < 10:
        return f"about {max(round(minutes), 1)} min left"
    if minutes < 90:
        return f"about {5 * round(minutes / 5)} min left"
    return f"about {round(2 * minutes / 60) / 2:g} h left"
