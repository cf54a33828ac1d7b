"""Test of messages on standard error: one line that fits a log, whatever text it quotes."""

from __future__ import annotations

import pytest

from fedrec_auditor.auditor.machine.output import print_message


def test_the_middle_of_a_long_line_is_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(f"Expected a name, got {'a' * 10**6}\n\x1b[31m. Give another.")
    line = capsys.readouterr().err
    assert line.startswith("auditor: Expected a name, got aaa")
    assert line.endswith("[31m. Give another.\n")
    assert len(line) < 5_000
    assert line.count("\n") == 1
    assert "\x1b" not in line
