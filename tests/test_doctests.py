"""The examples in the source print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("accountants", "attacks", "auditor", "reports", "targets")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def shown(path: Path) -> bool:
    return ">>> " in path.read_text(encoding="utf-8")


def modules() -> list[str]:
    """Names of all modules with an example."""
    found = ["fedrec_auditor"] if shown(ROOT / "src" / "fedrec_auditor" / "__init__.py") else []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if shown(path):
                parts = path.relative_to(ROOT).with_suffix("").parts
                found.append(".".join(("fedrec_auditor", *parts)).removesuffix(".__init__"))
    return found


@pytest.mark.parametrize("name", modules())
def test_examples_print_what_they_say(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fedrec_auditor"):
            raise
        pytest.skip(f"needs {error.name}, which is not installed")
    failed, tried = doctest.testmod(module, optionflags=OPTIONS)
    assert tried, "the example is in no docstring that doctest finds"
    assert not failed, "see the differences above"
