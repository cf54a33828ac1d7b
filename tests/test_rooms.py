"""Ceilings of rooms, and runs for other processors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import kernels
from tests.rooms import count_code_lines, find_room, list_excess

SOURCE = '''"""A module
of two lines."""

# A comment.
value = 1  # code


def function() -> None:
    """A docstring."""
    return None
'''


def test_blanks_comments_and_docstrings_are_no_code() -> None:
    assert count_code_lines(SOURCE) == 3


def test_a_file_belongs_to_its_innermost_room() -> None:
    rooms = {"auditor", "auditor/games"}
    assert find_room(Path("auditor/games/local.py"), rooms) == ("auditor/games", "source")
    assert find_room(Path("tests/auditor/run/test_x.py"), rooms) == ("auditor", "tests")
    with pytest.raises(LookupError, match="settings"):
        find_room(Path("targets/settings.py"), rooms)


def test_a_room_above_its_ceiling_is_named_with_both_figures() -> None:
    counts = Counter({("attacks", "source"): 1200, ("attacks", "tests"): 10})
    (sentence,) = list_excess(counts, {"attacks": {"source": 1199, "tests": 10}})
    assert "at most 1,199 code lines of source in attacks, got 1,200" in sentence
    assert len(list_excess(counts, {"attacks": {}})) == 2


@pytest.mark.parametrize("code", [0, 1])
def test_a_kernel_that_this_processor_lacks_is_named_and_not_begun(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> SimpleNamespace:
        begun.append(env.get("OPENBLAS_CORETYPE", "as it is"))
        return SimpleNamespace(stdout=b"Haswell", returncode=code)

    monkeypatch.setattr(kernels.subprocess, "run", run)
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    features = {"SSE42": True, "AVX2": True, "AVX512_SKX": False}
    monkeypatch.setattr(np._core._multiarray_umath, "__cpu_features__", features)
    assert kernels.main(["-q"]) == code
    output = capsys.readouterr().out
    assert set(begun) == {"as it is", "Prescott", "Nehalem", "Haswell"}
    assert "SkylakeX: NOT RUN: this processor lacks AVX512_SKX" in output
    assert f"Haswell: {'FAILED (exit 1)' if code else 'passed'}, OpenBLAS takes Haswell" in output
