"""Standard output and error, which may be closed, full, or read by nobody."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LONGEST = 4_000  # letters of a line


def open_closed() -> None:
    """Lead standard streams that are closed nowhere, before a file of ours gets their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - kept while we run


def discard_output() -> None:
    """Lead standard output nowhere, what waits in its buffer too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def tell(message: str) -> None:
    """One line on standard error, if that can be written, with nothing that a terminal obeys.

    Of a line that is very long, since it quotes what somebody gave, the middle is left out.
    """
    from fedrec_auditor.reports.say import printable

    line = printable(message)
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    with suppress(OSError):
        print("auditor:", line, file=sys.stderr, flush=True)


@contextmanager
def spare_output(otherwise: str) -> Iterator[None]:
    """A context for output that may be lost: then one line on standard error says ``otherwise``.

    Nothing is said if the reader of the output went away.
    """
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the second is how rich ends on the first
        discard_output()
    except OSError as error:
        discard_output()
        tell(f"Expected to print a summary, got: {error.strerror}. {otherwise}")
