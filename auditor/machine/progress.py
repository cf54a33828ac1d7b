"""Progress of an audit: running and finished tasks, displayed or passed to a function."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec_auditor.reports.say import format_duration
from fedrec_auditor.reports.writers.paragraph import wrap_paragraph

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Function that receives progress: the name of the work (such as "draws"), the number of finished
# steps, and the number of all steps.
StepListener = Callable[[str, int, int], None]
# Name under which the training of a system counts its rounds.
TRAINING_STAGE = "training"
_listening: ContextVar[StepListener | None] = ContextVar("listening", default=None)


@contextmanager
def listen_to_steps(listener: StepListener) -> Iterator[None]:
    """Context manager in which calls of ``report_step`` call the function ``listener``.

    The listener receives the name of the work, the number of finished steps, and the number of all
    steps.
    """
    token = _listening.set(listener)
    try:
        yield
    finally:
        _listening.reset(token)


def report_step(work: str, done: int, total: int) -> None:
    """Reports that ``done`` of ``total`` steps of ``work``, such as "draws", are finished.

    The listener of ``listen_to_steps`` receives the report; without a listener, nothing happens.
    Results of an audit must not depend on reports.

    >>> with listen_to_steps(print):
    ...     report_step("draw", 12, 300)
    draw 12 300
    """
    listener = _listening.get()
    if listener is not None:
        listener(work, done, total)


# The remaining time of an audit is not estimated, because the times of tasks differ by a factor of
# a thousand, which settings do not predict.
#
# Tasks write their progress to a file (``note_progress``), from any process. A thread reads the
# file (``ProgressTracker``) and calls an observer: a progress bar in a terminal, log lines
# elsewhere, or a caller's function.

logger = logging.getLogger(__name__)

# Seconds between two calls of an observer; seconds without a finished task after which a log names
# the running tasks.
_PULSE, _SILENT_SECONDS = 1.0, 30.0
# Seconds between two reads of the notes, and between two notes of one task.
_POLL, _NOTE_SECONDS = 0.2, 0.5
# Largest number of running tasks that are named.
_MAX_LINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """Progress of an audit at one moment.

    - ``done``: number of finished tasks.
    - ``total``: number of all tasks.
    - ``running``: descriptions of running tasks, such as "fcf training, round 12 of 300".
    - ``last_task``: name of the task that has just finished; None if none has finished
      since the previous report.
    - ``elapsed``: seconds since the start.
    """

    done: int
    total: int
    running: tuple[str, ...] = ()
    last_task: str | None = None
    elapsed: float = 0.0


# Function that receives the progress of an audit, when a task finishes and about once a second.
ProgressObserver = Callable[[ProgressReport], None]


class ProgressTracker:
    """Tracks the finished and running tasks of an audit, and passes the progress to a function.

    - ``observe``: function that receives each ``ProgressReport``, or None. If it raises an
      exception, it is not called again.
    - ``done``: number of tasks that were finished before the tracker starts.
    - ``total``: number of all tasks.
    """

    def __init__(self, observe: ProgressObserver | None, *, done: int, total: int) -> None:
        self._observe, self._done, self._total = observe, done, total
        self._begun: set[str] = set()
        self._running: dict[str, str] = {}
        self._started = self._notified = time.monotonic()

    def record_step(self, task: str, work: str, done: int, total: int) -> None:
        """Records that ``task`` has finished ``done`` of ``total`` steps of ``work``.

        ``task``: name of the task.
        ``work``: name of the steps, such as "draws". If it is empty, the task itself begins (0 of
            1) or ends (1 of 1).
        """
        text = f"{task}, {work} {done:,} of {total:,}"
        if work == TRAINING_STAGE:
            training = f"{task.partition(' ')[0]} {TRAINING_STAGE}"
            text = f"{training}, round {done + 1:,} of {total:,}"
            if done == total:
                self._begun.discard(training)
        if not work:
            (self._begun.discard if done else self._begun.add)(task)
        if not work or done == total:
            text = task if task in self._begun else ""
        self._running[task] = text
        if not work and done:
            self._done += 1
            self.notify_observer(task)

    def notify_observer(self, finished: str | None = None) -> None:
        """Calls the function ``observe`` with the current progress.

        ``finished``: name of the task that has just finished, or None.
        """
        now = self._notified = time.monotonic()
        if self._observe is None:
            return
        report = ProgressReport(
            done=self._done,
            total=self._total,
            running=tuple(dict.fromkeys(filter(None, self._running.values()))),
            last_task=finished,
            elapsed=now - self._started,
        )
        try:
            self._observe(report)
        except Exception:
            logger.exception("The progress observer failed; it is not called again")
            self._observe = None

    @contextmanager
    def open_notes_file(self) -> Iterator[Path]:
        """Context manager that provides the path of a file for ``write_progress_note``.

        Any process of this machine can write notes to the file. A thread of this process reads the
        notes, the last ones on exit.
        """
        with tempfile.TemporaryDirectory(prefix="progress-") as folder:
            path, ended = Path(folder) / "notes", threading.Event()
            path.touch()

            def read_notes() -> None:
                """Reads notes and records their steps until ``ended`` is set."""
                over, rest = False, ""
                while not over:
                    over = ended.wait(_POLL)
                    *lines, rest = (rest + file.read()).split("\n")
                    for line in lines:
                        self.record_step(*json.loads(line))
                    if time.monotonic() - self._notified >= _PULSE:
                        self.notify_observer()

            with path.open(encoding="utf-8") as file:
                reader = threading.Thread(target=read_notes, daemon=True)
                reader.start()
                try:
                    yield path
                finally:
                    ended.set()
                    reader.join()


def write_progress_note(path: Path | None, task: str, work: str, done: int, total: int) -> None:
    """Appends a note to the file ``path``: the task has finished ``done`` of ``total`` steps.

    ``path``: the file; None to do nothing. Errors of the operating system are ignored.
    ``task``: name of the task.
    ``work``: name of the steps, such as "draws".
    """
    if path is None:
        return
    with suppress(OSError):
        # Appended in one write, so that notes of several processes do not mix.
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{json.dumps([task, work, done, total])}\n".encode())
        finally:
            os.close(file)


@contextmanager
def note_progress(path: Path | None, task: str) -> Iterator[None]:
    """Context manager in which calls of ``report_step`` write notes to the file ``path``.

    Each beginning and end is noted, and further steps at most twice a second.
    """
    last = "", 0.0

    def listen(what: str, done: int, of: int) -> None:
        """Writes a note on a step of ``what``, unless one was written just before."""
        nonlocal last
        now = time.monotonic()
        if what != last[0] or done in (0, of) or now - last[1] >= _NOTE_SECONDS:
            last = what, now
            write_progress_note(path, task, what, done, of)

    listen("", 0, 1)
    with listen_to_steps(listen):
        yield


@contextmanager
def show_progress(progress: bool | ProgressObserver | None) -> Iterator[ProgressObserver | None]:
    """Context manager that provides the function to call with each progress report; None without a
    display.

    ``progress``: whether to display progress; None to display it only in a terminal or a notebook;
        or a function that receives the reports.
    """
    if progress is False or callable(progress):
        yield progress or None
        return
    from rich.console import Console

    console = Console(stderr=True)
    is_interactive = console.is_jupyter or (console.is_terminal and sys.stderr.isatty())
    if progress is None and not is_interactive:
        yield None
        return
    with display_on_console(console) as observe:
        yield observe


@contextmanager
def show_task_progress(progress: bool | ProgressObserver | None, name: str) -> Iterator[None]:
    """Context manager that displays the progress of a single task.

    ``progress``: whether to display progress; None to display it only in a terminal or a notebook;
        or a function that receives the reports.
    ``name``: name of the task.
    """
    started = last = time.monotonic()
    with show_progress(progress) as observe:

        def update(what: str, done: int, of: int) -> None:
            """Displays a step of ``what``, at most once a second."""
            nonlocal last
            now = time.monotonic()
            if observe is not None and now - last >= _PULSE:
                last = now
                at = f"{name}, {what} {done:,} of {of:,}"
                observe(ProgressReport(done=0, total=1, running=(at,), elapsed=now - started))

        with listen_to_steps(update):
            yield


@contextmanager
def display_on_console(console: Console) -> Iterator[ProgressObserver]:
    """Context manager that provides a function which displays progress reports on ``console``."""
    if not console.is_terminal:
        yield _make_log_observer(console)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
    from rich.text import Text

    class Bar(Progress):
        """Progress bar with the running tasks below it.

        ``running``: descriptions of the running tasks.
        """

        running: tuple[str, ...] = ()

        def get_renderables(self) -> Iterable[RenderableType]:
            """Yields the bar, and a paragraph for each running task."""
            yield from super().get_renderables()
            for text in self.running:
                yield Text(wrap_paragraph(text, self.console.width, indent=2, hang=2))

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def observe(report: ProgressReport) -> None:
            """Displays a progress report by the bar."""
            bar.running = format_running_tasks(report)
            bar.update(task, completed=report.done, total=report.total)

        yield observe


def _make_log_observer(console: Console) -> ProgressObserver:
    """Returns a function that prints progress reports as lines of a log.

    A line is printed when a task finishes, and after 30 seconds without a line.
    """
    last = time.monotonic()

    def observe(report: ProgressReport) -> None:
        nonlocal last
        now = time.monotonic()
        if report.last_task is None and now - last < _SILENT_SECONDS:
            return
        last = now
        with suppress(OSError):  # an audit does not depend on a reader of its log
            print(format_log_line(report), file=console.file, flush=True)

    return observe


def format_log_line(report: ProgressReport) -> str:
    """Returns a progress report as one line of a log.

    The line states the numbers of finished and of all tasks, the task that has just finished
    (otherwise the running tasks), and the elapsed time.
    """
    what = report.last_task or "; ".join(format_running_tasks(report)) or "nothing runs yet"
    return f"[{report.done}/{report.total}] {what}; {format_duration(report.elapsed)} so far"


def format_running_tasks(report: ProgressReport) -> tuple[str, ...]:
    """Returns the names of at most four running tasks, and the number of further ones as text."""
    first = report.running[:_MAX_LINES]
    more = len(report.running) - len(first)
    return (*first, f"and {more} more") if more else first
