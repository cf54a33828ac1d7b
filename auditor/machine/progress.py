"""Progress: what runs and how far it is; shown, or reported to a caller."""

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

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.text import Text

from fedrec_auditor.reports.say import duration
from fedrec_auditor.reports.writers.paragraph import paragraph

Listener = Callable[[str, int, int], None]
"""Is told what is counted (a round, a draw, a run), how many are done, and of how many."""
TRAINING = "training"
"""What is counted in a target's training: its rounds."""
_listening: ContextVar[Listener | None] = ContextVar("listening", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """A context in whose thread ``listener`` is told of all stages."""
    token = _listening.set(listener)
    try:
        yield
    finally:
        _listening.reset(token)


def stage(what: str, done: int, of: int) -> None:
    """Say that ``done`` of so many are done; nothing that is computed may depend on it.

    >>> with listening(print):
    ...     stage("draw", 12, 300)
    draw 12 300
    """
    listener = _listening.get()
    if listener is not None:
        listener(what, done, of)


# Progress: what runs and how far it is; shown, or told to a caller.
#
# How long an audit still takes is not told: tasks differ by a factor of a thousand, in ways that
# settings do not tell beforehand, and a figure that grows while one waits is worse than none.
#
# Tasks of any process note where they are in a file (``noted``); a thread reads it (``Watch``), and
# tells an observer: a bar in a terminal, plain lines elsewhere, or a caller's function.

logger = logging.getLogger(__name__)

_PULSE, _SILENT = 1.0, 30.0
"""Seconds between two words to an observer, and after which a log is told what runs."""
_POLL, _OFTEN = 0.2, 0.5
"""Seconds between two looks at the notes, and between two notes of one task."""
_LINES = 4
"""Tasks at most that are told to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far an audit is at one moment.

    ``done`` of ``total`` tasks are finished, ``elapsed`` seconds are over. ``running`` says in
    words what runs now, such as "fcf training, round 12 of 300"; ``finished`` names the task that
    has just ended, if one has.
    """

    done: int
    total: int
    running: tuple[str, ...] = ()
    finished: str | None = None
    elapsed: float = 0.0


Observer = Callable[[Standing], None]
"""Is told how an audit stands, whenever a task ends and about once a second between."""


class Watch:
    """Follows an audit of which ``done`` of ``total`` tasks were finished before.

    An observer that raises is told no more.
    """

    def __init__(self, observe: Observer | None, *, done: int, total: int) -> None:
        self._observe, self._done, self._total = observe, done, total
        self._begun: set[str] = set()
        self._running: dict[str, str] = {}
        self._started = self._told = time.monotonic()

    def at(self, task: str, what: str, done: int, of: int) -> None:
        """A task has done so many of what it counts; of "", itself, it is 0 or 1 of 1."""
        text = f"{task}, {what} {done:,} of {of:,}"
        if what == TRAINING:
            training = f"{task.partition(' ')[0]} {TRAINING}"
            text = f"{training}, round {done + 1:,} of {of:,}"
            if done == of:
                self._begun.discard(training)
        if not what:
            (self._begun.discard if done else self._begun.add)(task)
        if not what or done == of:
            text = task if task in self._begun else ""
        self._running[task] = text
        if not what and done:
            self._done += 1
            self.tell(task)

    def tell(self, finished: str | None = None) -> None:
        """Tell the observer how the audit stands."""
        now = self._told = time.monotonic()
        if self._observe is None:
            return
        standing = Standing(
            done=self._done,
            total=self._total,
            running=tuple(dict.fromkeys(filter(None, self._running.values()))),
            finished=finished,
            elapsed=now - self._started,
        )
        try:
            self._observe(standing)
        except Exception:
            logger.exception("What shows the progress failed, and is told no more")
            self._observe = None

    @contextmanager
    def notes(self) -> Iterator[Path]:
        """A file to which any process of this machine may ``note``; all is read at the end."""
        with tempfile.TemporaryDirectory(prefix="progress-") as folder:
            path, ended = Path(folder) / "notes", threading.Event()
            path.touch()

            def follow() -> None:
                over, rest = False, ""
                while not over:
                    over = ended.wait(_POLL)
                    *lines, rest = (rest + file.read()).split("\n")
                    for line in lines:
                        self.at(*json.loads(line))
                    if time.monotonic() - self._told >= _PULSE:
                        self.tell()

            with path.open(encoding="utf-8") as file:
                reader = threading.Thread(target=follow, daemon=True)
                reader.start()
                try:
                    yield path
                finally:
                    ended.set()
                    reader.join()


def note(path: Path | None, task: str, what: str, done: int, of: int) -> None:
    """Note where a task is, in one piece; a full disk loses the note and nothing else."""
    if path is None:
        return
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{json.dumps([task, what, done, of])}\n".encode())
        finally:
            os.close(file)


@contextmanager
def noted(path: Path | None, task: str) -> Iterator[None]:
    """A context in which a task begins and notes its stages: ends of loops, and twice a second."""
    last = "", 0.0

    def listen(what: str, done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if what != last[0] or done in (0, of) or now - last[1] >= _OFTEN:
            last = what, now
            note(path, task, what, done, of)

    listen("", 0, 1)
    with listening(listen):
        yield


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
    with show(console) as observe:
        yield observe


@contextmanager
def shown_stages(progress: bool | Observer | None, name: str) -> Iterator[None]:
    """A context that shows as ``shown`` where its one task is, about once a second."""
    started = last = time.monotonic()
    with shown(progress) as observe:

        def tell(what: str, done: int, of: int) -> None:
            nonlocal last
            now = time.monotonic()
            if observe is not None and now - last >= _PULSE:
                last = now
                at = f"{name}, {what} {done:,} of {of:,}"
                observe(Standing(done=0, total=1, running=(at,), elapsed=now - started))

        with listening(tell):
            yield


@contextmanager
def show(console: Console) -> Iterator[Observer]:
    """Give an observer that shows progress on ``console``."""
    if not console.is_terminal:
        yield _log(console)
        return
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with _Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(standing: Standing) -> None:
            bar.running = running(standing)
            bar.update(task, completed=standing.done, total=standing.total)

        yield tell


class _Bar(Progress):
    """A bar, and below it what runs."""

    running: tuple[str, ...] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and a paragraph for each task that runs."""
        yield from super().get_renderables()
        for text in self.running:
            yield Text(paragraph(text, self.console.width, indent=2, hang=2))


def _log(console: Console) -> Observer:
    """A line whenever a task ends, or where none has for a while."""
    last = time.monotonic()

    def tell(standing: Standing) -> None:
        nonlocal last
        now = time.monotonic()
        if standing.finished is None and now - last < _SILENT:
            return
        last = now
        with suppress(OSError):  # whether anybody reads it changes no audit
            print(line(standing), file=console.file, flush=True)

    return tell


def line(standing: Standing) -> str:
    """How an audit stands, for a log: what has ended, or else what runs."""
    what = standing.finished or "; ".join(running(standing)) or "nothing runs yet"
    return f"[{standing.done}/{standing.total}] {what}; {duration(standing.elapsed)} so far"


def running(standing: Standing) -> tuple[str, ...]:
    """What runs, a line a task, and how many more."""
    first = standing.running[:_LINES]
    more = len(standing.running) - len(first)
    return (*first, f"and {more} more") if more else first
