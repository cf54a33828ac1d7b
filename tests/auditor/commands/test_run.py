"""The gate of `auditor run` and `auditor report`: leaks, and what got worse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]


def run(cli: Cli, target: str, out: Path, *words: object) -> tuple[int, str, str]:
    plan = out.with_suffix(".toml")
    plan.write_text(
        f'targets = ["{target}"]\ndata = "synthetic"\nquick = true\n'
        'attacks = ["interaction-reconstruction"]\n'
    )
    return cli("run", "--plan", plan, "--jobs", "1", "--out", out, *words)


def test_fail_on_leak_tells_a_system_that_leaks_from_one_that_sends_nothing(
    cli: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "fcf"
    code, text, _ = run(cli, "fcf", out, "--fail-on", "leak")
    assert code == 1
    *_, last, pointer = text.strip().splitlines()
    assert "\nWorst leak: fcf: interaction-reconstruction (server) reaches" in text
    assert "summary.md, junit.xml, report.sarif, report.json" in last
    assert pointer == f"Details: auditor show {out} fcf"
    assert run(cli, "fcf", out)[0] == 0
    code, text, _ = run(cli, "random", tmp_path / "random", "--fail-on", "leak")
    assert code == 0
    assert "No leak: of 0 attack rows" in text

    junit = (out / "junit.xml").read_text()
    assert 'type="LEAK"' not in junit
    assert cli("report", out, "--fail-on", "leak")[0] == 0
    assert 'type="LEAK"' in (out / "junit.xml").read_text()

    before = tmp_path / "before.json"
    before.write_bytes((out / "report.json").read_bytes())
    code, text, _ = run(cli, "fcf", out, "--fail-on", "leak", "--baseline", before)
    assert (code, "Nothing is worse" in text) == (0, True)
    record = json.loads(before.read_text())
    for row in record["attacks"]:
        row["value"], row["ci_low"], row["ci_high"] = 0.1, 0.05, 0.15
    del record["severity"]  # which would not be that of these rows
    before.write_text(json.dumps(record))
    code, text, _ = cli("report", out, "--baseline", before)
    assert code == 1
    text = " ".join(text.split())
    assert "worse: fcf: interaction-reconstruction (server) reaches interaction F1 1" in text
    assert "was 0.1 [0.05, 0.15]" in text


def test_a_baseline_with_nothing_in_common_is_no_pass(cli: Cli, tmp_path: Path) -> None:
    """A system that was renamed is compared with nothing, which says nothing of it."""
    run(cli, "fmf-ldp", tmp_path / "old")
    run(cli, "dplcf-sp", tmp_path / "new")
    code, text, _ = cli("report", tmp_path / "new", "--baseline", tmp_path / "old")
    assert (code, "Nothing could be compared" in text) == (3, True)
    assert cli("report", tmp_path / "new", "--baseline", tmp_path / "new")[0] == 0


@pytest.mark.parametrize("command", ["run", "report"])
def test_a_baseline_that_is_none_is_refused_before_any_work(
    cli: Cli, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "out"
    words = ("fcf", "--out", out) if command == "run" else (out,)
    code, _, err = cli(command, *words, "--baseline", tmp_path / "none.json")
    assert code == 2
    assert "report.json" in err
    assert not out.exists()
