"""Printing to standard output and standard error that survives closed, full or unread streams."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_MAX_LINE, _MAX_WORD = 4_000, 300  # characters of a line, and of a word in it


def open_std_streams() -> None:
    """Opens closed standard streams on the null device.

    Otherwise another file might receive their file descriptors.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open until the process ends


def discard_output() -> None:
    """Redirects standard output to the null device, also text that is still in its buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def print_message(message: str) -> None:
    """Prints one line on standard error, if it is writable, without terminal control codes.

    The middle of a very long word or line, which may quote a user's input, is omitted.
    """
    from fedrec_auditor.reports.say import make_printable

    line = re.sub(
        rf"\S{{{_MAX_WORD},}}",
        lambda word: f"{word[0][:100]} ... {word[0][-100:]}",
        make_printable(message),
    )
    if len(line) > _MAX_LINE:
        line = f"{line[: _MAX_LINE // 2]} ... {line[-_MAX_LINE // 2 :]}"
    with suppress(OSError):
        print("auditor:", line, file=sys.stderr, flush=True)


@contextmanager
def catch_output_errors(fallback_note: str) -> Iterator[None]:
    """Context manager for printing a summary on standard output, which may be closed, full or
    unread.

    If the reader has closed the stream, nothing is printed. Other errors are printed on standard
    error.

    ``fallback_note``: sentence that is added to the message of such an error.
    """
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich raises SystemExit on a broken pipe
        discard_output()
    except OSError as error:
        discard_output()
        print_message(f"Expected to print a summary, got: {error.strerror}. {fallback_note}")
