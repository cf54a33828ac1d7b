"""The page on recordings: its example is run, its commands exist, its tables are complete."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.recorded.manifest import Manifest

PAGE = (Path(__file__).parents[2] / "docs" / "recorded-uploads.md").read_text("utf-8")
Cli = Callable[..., tuple[int, str, str]]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("python")
    exec(compile(example, "the page", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == blocks("text")[0]


def test_the_commands_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh")[1:] for line in block.splitlines()]
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line)[1:]  # by one worker: others stay in the directory of before
        code, _, err = cli(*words, *(["--jobs", "1"] if words[0] == "attack" else []))
        assert code == 0, err
    assert "interaction F1" in (tmp_path / "report" / "report.md").read_text("utf-8")


def test_every_key_and_kind_is_explained() -> None:
    table = PAGE[PAGE.index("### manifest.json") : PAGE.index("### Messages in safetensors")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(
        Manifest.model_fields
    )
    assert all(f'"{kind}"' in table for kind in Kind)


def test_a_wrong_recording_ends_with_a_line(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("attack", tmp_path, "--out", tmp_path / "report")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "recording's manifest" in err
    assert not (tmp_path / "report").exists()
