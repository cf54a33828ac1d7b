"""Others' code, contained: however it would end the process is an error like any other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


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


def message_of(error: BaseException) -> str:
    """What an exception says, in a line; that it says nothing if it cannot."""
    try:
        return " ".join(str(error).split())
    except Exception as fault:
        return f"a message that cannot be read ({type(fault).__name__})"
