"""Results of other code, or of other declarations of a paper, are not taken for ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec_auditor.auditor.plan import versions


@pytest.mark.parametrize(
    "name", ["targets/papers/one/numbers.py", "targets/papers/one/claims.toml"]
)
def test_the_digest_is_of_code_and_of_declarations(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "auditor" / "plan" / "versions.py"))
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    digests = []
    for text in ("a = 1", "a = 2"):
        path.write_text(text, "utf-8")
        digests.append(versions.source_digest.__wrapped__())
    assert digests[0] != digests[1]
