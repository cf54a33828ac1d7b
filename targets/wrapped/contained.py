"""Others' code, contained: however it would end the process is an error like any other."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedrec_auditor.accountants.errors import AuditError, InputError

_LIBRARIES = (
    *{os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib")},
    os.path.join(Path(__file__).parents[2], ""),
    "<",  # what is made of a text, as by dataclasses
)
"""How the names of our files begin, and those of libraries."""


class Ended(Exception):
    """Others' code asked for the end of the process, or raised what handlers of errors pass on."""


@contextmanager
def contained() -> Iterator[None]:
    """A context in which exits and cancellations of others' code are an ``Ended``.

    So are calls of ``os._exit`` in this process; a process that the code forks ends as it likes.
    Ctrl-C stays what it is.
    """
    leave, process = os._exit, os.getpid()

    def refuse(status: int = 0) -> None:
        if os.getpid() != process:
            leave(status)
        raise Ended(f"os._exit({status!r})")

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise Ended(f"{type(error).__name__}: {message_of(error)}") from error
    finally:
        os._exit = leave


@contextmanager
def accountable(name: str) -> Iterator[None]:
    """A context in which what is raised below a line of others' code is an InputError.

    ``name`` is what their code is called. An error below lines of ours and of libraries alone stays
    what it is.
    """
    try:
        yield
    except AuditError:
        raise
    except BaseException as error:
        lines = traceback.extract_tb(error.__traceback__)
        theirs = [line for line in lines if not line.filename.startswith(_LIBRARIES)]
        if not theirs:
            raise
        where = f"{theirs[-1].filename.rpartition('/')[2]}:{theirs[-1].lineno}"
        raise InputError(
            f"Expected {name} to answer, got {type(error).__name__}: {message_of(error)} "
            f"({where}). Mend it."
        ) from error


def message_of(error: BaseException) -> str:
    """What an exception says, in a line; that it says nothing if it cannot."""
    try:
        return " ".join(str(error).split())
    except Exception as fault:
        return f"a message that cannot be read ({type(fault).__name__})"
