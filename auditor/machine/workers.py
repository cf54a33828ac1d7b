"""Worker processes: calls run in parallel, stopped at a deadline, none outliving its parent."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe
from typing import Any, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend.process import LokyProcess

from fedrec_auditor.accountants.errors import AuditError, IncompleteError, InputError

# Work that may hang, in C code too, is stopped at a deadline.
#
# Foreign code runs in a child process, forked before anything heavy is imported, in a process group
# of its own: killing that group ends whatever the code started and asks nobody's consent. The child
# says nothing on standard output; its answer comes back whole or not at all.

_LONGEST = 1e6
_GRACE = 5.0
"""Seconds after the deadline at which a child ends itself, should its parent have been killed."""


def answer_within(seconds: float, work: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """The exit code and the text that ``work`` gives, if it does so within ``seconds``.

    InputError if it does not, or if its process ends without an answer; AuditErrors of ``work``
    are raised again here. What ``work`` prints goes to standard error; it finds no standard input.
    Where processes cannot be forked, ``work`` runs here, and at the deadline this process ends with
    exit code 2.
    """
    if not 0 < seconds <= _LONGEST:
        raise InputError(
            f"Expected a timeout in (0, {_LONGEST:g}] seconds, got timeout={seconds!r}. "
            "Give 600, say."
        )
    if not hasattr(os, "fork"):
        return _watched(seconds, work)
    ours, theirs = Pipe(duplex=False)
    # An interrupt while the child begins waits until we can end it.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = get_context("fork").Process(target=_work, args=(theirs, seconds, work, unblocked))
    try:
        child.start()
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        raise
    assert child.pid is not None  # it has been started
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        theirs.close()
        answer = ours.recv_bytes() if ours.poll(seconds) else None
    except EOFError:
        answer = b""
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()
        ours.close()
    if answer is None:
        raise _late(seconds)
    if not answer:
        ended = f"ended with exit code {child.exitcode}"
        if child.exitcode is not None and child.exitcode < 0:
            ended = f"was ended by {signal.Signals(-child.exitcode).name}"
        raise InputError(f"Expected an answer, but the process {ended}. Mend the callable.")
    kind, code, text = json.loads(answer)
    if kind:
        raise {"input": InputError, "audit": AuditError, "fault": IncompleteError}[kind](text)
    return code, text


def _work(
    back: Connection,
    seconds: float,
    work: Callable[[], tuple[int, str]],
    unblocked: set[signal.Signals],
) -> None:
    """In the child: send what came, or the error."""
    os.setpgid(0, 0)
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE)
    for ending in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(ending) != signal.SIG_IGN or ending == signal.SIGALRM:
            signal.signal(ending, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with suppress(OSError):
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    kind, code = "", 0
    try:
        code, text = work()
    except AuditError as error:
        kind, text = "input" if isinstance(error, InputError) else "audit", str(error)
    except BaseException:
        traceback.print_exc()
        kind, text = "fault", "a fault of ours, not yours; please report these lines."
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    back.send_bytes(json.dumps([kind, code, text]).encode())


def _watched(seconds: float, work: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    def stop() -> None:
        print("auditor:", _late(seconds), file=sys.stderr, flush=True)
        os._exit(2)

    watchdog = threading.Timer(seconds, stop)
    watchdog.daemon = True
    watchdog.start()
    try:
        return work()
    finally:
        watchdog.cancel()


def _late(seconds: float) -> InputError:
    return InputError(
        f"Expected an answer within {seconds:g} s, got none, and stopped. Mend the callable, "
        "give --seconds, lower --samples or raise --timeout."
    )


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
