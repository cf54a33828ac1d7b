from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

import pytest
from hypothesis import settings

from fedrec_auditor.auditor.command_line import main

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: a process a core
sys.dont_write_bytecode = False  # hundreds of processes import the same modules
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
gc.disable()  # until all tests are collected, for they are kept to the end
# A busy machine is slow, and not wrong. Examples are the same in every run, unless EXPLORE is set.
settings.register_profile("gate", deadline=None, derandomize="EXPLORE" not in os.environ)
settings.load_profile("gate")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process: (exit code, standard output, standard error)."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["auditor", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return call
