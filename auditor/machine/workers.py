"""Worker processes: calls run in parallel, and no worker outlives the process that started it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend.process import LokyProcess

from fedrec_auditor.accountants.errors import IncompleteError

Result = TypeVar("Result")


def results(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
) -> Iterator[Result]:
    """``function`` of each of ``arguments``, as they finish; in this process if ``jobs`` is 1.

    IncompleteError if a worker is killed from outside, as by a system that is out of memory.
    """
    if jobs <= 1:
        yield from (function(*each) for each in arguments)
        return
    _begin_anew_elsewhere()
    parallel = joblib.Parallel(
        n_jobs=jobs,
        return_as="generator_unordered",
        batch_size=1,
        initializer=_follow,  # before the first task: a worker that waits for one follows, too
        initargs=(os.getpid(),),
    )
    try:
        yield from parallel(joblib.delayed(function)(*each) for each in arguments)
    except (KeyboardInterrupt, GeneratorExit):
        _end_workers()
        raise
    except BrokenProcessPool as error:
        raise IncompleteError(
            f"Expected {jobs} workers to finish, got one killed, perhaps for want of memory. "
            "Use fewer with --jobs; finished tasks are kept."
        ) from error


_BEGUN: list[tuple[str, ...]] = []
"""Where the workers that wait for more began: their directory, and where they import from."""


def _begin_anew_elsewhere() -> None:
    """End workers that wait for more if they began in another directory, or import from others."""
    here = (os.getcwd(), *sys.path)
    if _BEGUN and _BEGUN[0] != here:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
    _BEGUN[:] = [here]


def _end_workers() -> None:
    """Kill joblib's workers, which joblib does too, but not if it is interrupted meanwhile."""
    for worker in multiprocessing.active_children():
        if isinstance(worker, LokyProcess) and worker.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)


def _follow(parent: int) -> None:
    """End this process within a second of its parent's end, even if that was killed."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
