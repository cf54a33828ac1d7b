"""Tests of the digest of source code, by which results of other versions are not reused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec_auditor.auditor.plan import versions
from fedrec_auditor.targets.own_modules import CODE_FOLDERS
from tests.test_imports import ROOT, list_modules


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("targets/papers/one/numbers.py", True),
        ("targets/papers/one/claims.toml", True),
        ("tests/test_one.py", False),
        (".venv/lib/one.py", False),
    ],
)
def test_the_digest_covers_only_code_and_declarations(
    name: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        versions, "CODE_FOLDERS", [tmp_path / folder.name for folder in CODE_FOLDERS]
    )
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    digests = []
    for text in ("a = 1", "a = 2"):
        path.write_text(text, "utf-8")
        digests.append(versions.hash_source.__wrapped__())
    assert (digests[0] != digests[1]) == counts


def test_code_folders_have_every_module() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in list_modules().values()} == {
        folder.name for folder in CODE_FOLDERS
    }
