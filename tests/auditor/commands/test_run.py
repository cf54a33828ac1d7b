"""Tests of the gate of `auditor run` and `auditor report`: leaks, and findings that got worse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedrec_auditor.reports.record.record import Record
from tests.command import cli, refusal


def run_audit(target: str, out: Path, *words: object) -> tuple[int, str, str]:
    plan = out.with_suffix(".toml")
    plan.write_text(
        f'targets = ["{target}"]\ndata = "synthetic"\nquick = true\n'
        'attacks = ["interaction-reconstruction"]\nmin_user = 70\nruns = 100\n'
    )
    return cli("run", "--plan", plan, "--jobs", "1", "--out", out, *words)


def test_fail_on_leak_fails_a_leak_and_does_not_pass_a_silent_system(tmp_path: Path) -> None:
    out = tmp_path / "fcf"
    code, text, _ = run_audit("fcf", out, "--fail-on", "leak")
    assert code == 1
    *_, last, pointer = text.strip().splitlines()
    assert "\nThe worst leak is in fcf: attack “interaction-reconstruction” (server)" in text
    assert "report.md, overview.svg, junit.xml, report.sarif, report.json" in last
    assert pointer == f"Details: auditor report {out} fcf"
    assert run_audit("fcf", out)[0] == 0
    code, text, _ = run_audit("random", tmp_path / "random", "--fail-on", "leak")
    assert code == 3  # a system without uploads is not attacked, which is not the same as resisting
    text = " ".join(text.split())
    assert "not assessed: random: leak (" in text
    assert " attacks could not run here). Exit code 3; --allow not-assessed" in text
    assert cli("report", tmp_path / "random", "--fail-on", "leak")[0] == 0

    junit = (out / "junit.xml").read_text()
    assert 'type="LEAK"' not in junit
    assert cli("report", out, "--fail-on", "leak")[0] == 0
    assert 'type="LEAK"' in (out / "junit.xml").read_text()

    before = tmp_path / "before.json"
    before.write_bytes((out / "report.json").read_bytes())
    code, text, _ = run_audit("fcf", out, "--fail-on", "leak", "--baseline", before)
    assert (code, "Nothing is worse" in text) == (0, True)
    record = json.loads(before.read_text())
    for row in record["attacks"]:
        row["value"], row["ci_low"], row["ci_high"] = 0.1, 0.05, 0.15
    del record["severity"]  # so that the severity is computed from the edited rows
    before.write_text(json.dumps(record))
    code, text, _ = cli("report", out, "--baseline", before)
    assert code == 1
    text = " ".join(text.split())
    assert "worse: fcf: interaction-reconstruction (server) reaches interaction F1 = 1" in text
    assert "was 0.1 [0.05, 0.15]" in text


def test_a_baseline_without_common_systems_does_not_pass(tmp_path: Path) -> None:
    """A renamed system has no counterpart in the baseline, so the gate does not pass."""
    run_audit("fmf-ldp", tmp_path / "old")
    run_audit("dplcf-sp", tmp_path / "new")
    code, text, _ = cli("report", tmp_path / "new", "--baseline", tmp_path / "old")
    assert (code, "Nothing could be compared" in text) == (3, True)
    assert cli("report", tmp_path / "new", "--baseline", tmp_path / "new")[0] == 0


@pytest.mark.parametrize("command", ["run", "report"])
def test_a_missing_baseline_is_refused_before_any_work(tmp_path: Path, command: str) -> None:
    out = tmp_path / "out"
    words = ("fcf", "--out", out) if command == "run" else (out,)
    assert "report.json" in refusal(command, *words, "--baseline", tmp_path / "none.json")
    assert not out.exists()


CLIENT = "\n".join(
    (
        "import asyncio, os, sys",
        "from fedrec_auditor import wrap_system",
        "class Own(BaseException): pass",
        "class Mute(Exception):",
        "    def __str__(self): raise RuntimeError",
        "class Odd:",
        "    def __getattr__(self, name): raise Own(name)",
        "def client(history, model, rng):",
        "    {body}",
        "system = wrap_system(client)",
        "",
    )
)
EXITS = {
    "an exit at import": ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
    "an end of the process at import": ("import os\nos._exit(0)\n", "os._exit(0)"),
    "an exit": (CLIENT.format(body="sys.exit(0)"), "SystemExit: 0"),
    "an end of the process": (CLIENT.format(body="os._exit(0)"), "os._exit(0)"),
    "a cancellation": (CLIENT.format(body="raise asyncio.CancelledError"), "CancelledError"),
    "an exception of its own": (CLIENT.format(body="raise Own('enough')"), "Own: enough"),
    "one that cannot be read": (CLIENT.format(body="raise Mute"), "Mute: a message that cannot be"),
    "an answer that raises": (CLIENT.format(body="return Odd()"), "Own: "),
    "a module that raises": ("def __getattr__(name): raise SystemExit(0)\n", "SystemExit: 0"),
    "an object that ends": ("import sys\nsystem = sys.exit\n", "SystemExit"),
}


@pytest.mark.parametrize("case", EXITS)
def test_audited_code_cannot_end_the_audit_as_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    source, words = EXITS[case]
    module = f"ends_{list(EXITS).index(case)}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    err = refusal("run", f"{module}:system", "--data", "synthetic", "--jobs", "1", "--out", out)
    assert words in err
    assert module in err
    assert not (out / "report.json").exists()


def test_a_report_of_another_plan_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("random", "--data", "synthetic", "--quick", "--jobs", "1", "--out", out)
    assert cli("run", *words)[0] == 0
    before = (out / "report.json").read_bytes()
    assert cli("run", *words)[0] == 0  # the same plan
    assert "a plan with other seed" in refusal("run", *words, "--seed", "5")
    assert json.loads((out / "report.json").read_bytes())["plan"] == json.loads(before)["plan"]
    assert cli("run", *words, "--seed", "5", "--force")[0] == 0
    assert json.loads((out / "report.json").read_bytes())["plan"]["seed"] == 5
    (out / "report.json").write_text('{"schema_version": 4}')
    assert "--force" in refusal("run", *words)
    assert (out / "report.json").read_text() == '{"schema_version": 4}'


def test_a_table_is_read_by_its_separator_and_columns(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = (f"{i % 30}|{i * i % 17}\n" for i in range(300))
    table.write_text("who|what\n" + "".join(rows))
    words = ("run", "random", "--data", table, "--column", "user=who", "--column", "item=what")
    out = ("--quick", "--jobs", "1", "--out", tmp_path / "out")
    code, _, _ = cli(*words, "--separator", "|", *out)
    assert code == 0
    assert Record.read(tmp_path / "out").plan["columns"] == {
        "user": "who", "item": "what", "separator": "|"
    }  # fmt: skip
    assert "Leave --separator out" in refusal(*words, "--separator", ";", *out)
