"""The auditor command, run in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

import pytest

from fedrec_auditor.auditor.commands.command_line import main
from fedrec_auditor.auditor.machine import workers


def cli(*words: object) -> tuple[int, str, str]:
    """Runs the command; returns its exit code, standard output and standard error."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(to, "utf-8", newline="", write_through=True) for to in (out, err)]
    with (
        mock.patch.object(workers, "run_in_child", lambda work: work()),  # streams are redirected
        mock.patch.object(sys, "argv", ["auditor", *map(str, words)]),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        pytest.raises(SystemExit) as caught,
    ):
        main()
    return int(caught.value.code or 0), out.getvalue().decode(), err.getvalue().decode()


def refusal(*words: object) -> str:
    """Runs a command that must be refused in one line, with exit code 2; returns this line."""
    code, out, err = cli(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("auditor: ")
    return err
