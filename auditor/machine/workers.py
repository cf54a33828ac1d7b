"""Worker processes: parallel function calls, and time limits for code that may hang.

All worker processes end with their parent process.
"""

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

from fedrec_auditor.accountants.errors import AuditError, IncompleteError, InputError

# Code that may hang, also in C, is stopped at a deadline.
#
# Foreign code runs in a child process, forked before large imports, in its own process group.
# Killing the group also ends every process that the code started. The child writes nothing to
# standard output, and its answer arrives complete or not at all.

_MAX_SECONDS = 1e6
# Seconds after the deadline at which a child process ends itself, if its parent was killed.
_GRACE = 5.0
# Maximum number of bytes of an answer.
_MAX_BYTES = 1 << 28


def run_with_timeout(seconds: float, work: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Runs ``work`` in a child process for at most ``seconds``, and returns its result.

    ``work``: function that returns an exit code and a text. Its standard output is redirected to
        standard error, and its standard input is empty.

    Raises these errors:

    - InputError if ``work`` takes longer, or if its process ends without a result;
    - an InputError or AuditError of ``work``, as it is;
    - IncompleteError for any other exception of ``work``.

    If processes cannot be forked, ``work`` runs in this process, which exits with code 2 at the
    deadline.
    """
    if not 0 < seconds <= _MAX_SECONDS:
        raise InputError(
            f"Expected a timeout in (0, {_MAX_SECONDS:g}] seconds, got timeout={seconds!r}. "
            "Give 600, for example."
        )
    if not hasattr(os, "fork"):
        return _run_with_watchdog(seconds, work)
    receiver, sender = Pipe(duplex=False)
    seal = os.urandom(16).hex().encode()
    # An interrupt is blocked while the child starts, so that the child can be ended.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = get_context("fork").Process(
        target=_run_child, args=(sender, seal, seconds, work, unblocked)
    )
    try:
        child.start()
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        raise
    assert child.pid is not None  # the child has been started
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        sender.close()
        answer = receiver.recv_bytes(_MAX_BYTES) if receiver.poll(seconds) else None
    except EOFError:
        answer = b""
    except OSError:  # not a whole message
        answer = b"[]"
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()
        receiver.close()
    if answer is None:
        raise _make_timeout_error(seconds)
    if not answer:
        raise _make_exit_error(child.exitcode)
    sealed, _, content = answer.partition(b"\n")
    if sealed != seal:  # the child process has written a message of its own
        raise InputError(
            "Expected the result of the child process, got bytes that your code wrote into its "
            "pipe. Let the code write only to files that it opened."
        )
    kind, code, text = json.loads(content)
    if kind:
        raise {"input": InputError, "audit": AuditError, "fault": IncompleteError}[kind](text)
    return code, text


def _run_child(
    sender: Connection,
    seal: bytes,
    seconds: float,
    work: Callable[[], tuple[int, str]],
    unblocked: set[signal.Signals],
) -> None:
    """Runs ``work`` in the child process; sends its result or its error to the parent process.

    ``seal``: random bytes that begin the answer, so that the parent process recognises it.
    ``unblocked``: mask of blocked signals that is restored when the child has started.
    """
    os.setpgid(0, 0)
    _end_with_parent(os.getppid())
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
    sender.send_bytes(seal + b"\n" + json.dumps([kind, code, text]).encode())


def run_in_child(work: Callable[[], int]) -> int:
    """Runs ``work`` in a child process, and returns the exit code that ``work`` returns.

    Raises InputError if the process ends before ``work`` returns. Signals are passed on to the
    child process, which ends together with this process. On systems without ``signal.sigwaitinfo``
    (macOS, Windows), ``work`` runs in this process.
    """
    if not hasattr(signal, "sigwaitinfo"):
        return work()
    passed = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, passed)
    receiver, sender = os.pipe()
    parent, child = os.getpid(), os.fork()
    if not child:
        os.close(receiver)
        _end_with_parent(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        code = work()
        os.write(sender, bytes([code]))
        return code
    os.close(sender)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        got = signal.sigwaitinfo(passed)
        if got.si_signo != signal.SIGCHLD and got.si_pid:  # a terminal signals both processes
            os.kill(child, got.si_signo)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    if answer := os.read(receiver, 1):
        return answer[0]
    # A user's code may end the process in a way that no exception handler sees.
    raise _make_exit_error(os.waitstatus_to_exitcode(ended[1]))


def _make_exit_error(code: int | None) -> InputError:
    """Returns the error for a process that ended without an answer.

    ``code``: exit code; minus the number of the signal if a signal ended the process.
    """
    ended = f"ended with exit code {code}"
    if code is not None and code < 0:
        lack = ", perhaps for lack of memory" * (code == -signal.SIGKILL)
        ended = f"was ended by {signal.Signals(-code).name}{lack}"
    return InputError(f"Expected a result, but the process {ended}. Correct the code you gave.")


def _run_with_watchdog(seconds: float, work: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    def stop() -> None:
        print("auditor:", _make_timeout_error(seconds), file=sys.stderr, flush=True)
        os._exit(2)

    watchdog = threading.Timer(seconds, stop)
    watchdog.daemon = True
    watchdog.start()
    try:
        return work()
    finally:
        watchdog.cancel()


def _make_timeout_error(seconds: float) -> InputError:
    return InputError(
        f"Expected a result within {seconds:g} s, got none. Correct the callable, give --seconds, "
        "lower --samples or raise --timeout."
    )


# Type of the result of one call.
Result = TypeVar("Result")


def run_parallel(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
) -> Iterator[Result]:
    """Calls ``function`` with each tuple of ``arguments`` in ``jobs`` processes, and yields the
    results.

    The results come in the order in which calls finish. With one job, the calls run in this
    process. Raises IncompleteError if a worker is killed from outside, for example for lack of
    memory.
    """
    if jobs <= 1:
        yield from (function(*args) for args in arguments)
        return
    import joblib

    _end_outdated_workers()
    parallel = joblib.Parallel(
        n_jobs=jobs,
        return_as="generator_unordered",
        batch_size=1,
        initializer=_end_with_parent,  # runs before the first task, so idle workers end, too
        initargs=(os.getpid(),),
    )
    try:
        yield from parallel(joblib.delayed(function)(*args) for args in arguments)
    except (KeyboardInterrupt, GeneratorExit):
        _end_workers()
        raise
    except BrokenProcessPool as error:
        raise IncompleteError(
            f"Expected {jobs} workers to finish, got one killed, perhaps for lack of memory. "
            "Use fewer workers with --jobs. Finished tasks are stored."
        ) from error


# Directory and import path with which the idle workers were started.
_WORKER_PATHS: list[tuple[str, ...]] = []


def _end_outdated_workers() -> None:
    """Ends idle workers that were started in another directory or with another import path."""
    here = (os.getcwd(), *sys.path)
    if _WORKER_PATHS and _WORKER_PATHS[0] != here:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)
    _WORKER_PATHS[:] = [here]


def _end_workers() -> None:
    """Kills the worker processes of joblib, because joblib does not end them if interrupted."""
    from joblib.externals.loky.backend.process import LokyProcess

    for worker in multiprocessing.active_children():
        if isinstance(worker, LokyProcess) and worker.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)


def _end_with_parent(parent: int) -> None:
    """Ends this process within a second after the process ``parent`` ends or is killed."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
