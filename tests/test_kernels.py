"""The runs for other processors: what cannot run here is named, what fails is not lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import kernels


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
    said = capsys.readouterr().out
    assert set(begun) == {"as it is", "Prescott", "Nehalem", "Haswell"}
    assert "SkylakeX: NOT RUN: this processor lacks AVX512_SKX" in said
    assert f"Haswell: {'FAILED (exit 1)' if code else 'passed'}, OpenBLAS takes Haswell" in said
