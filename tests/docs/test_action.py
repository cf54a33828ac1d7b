"""The GitHub Action and the pre-commit hooks: shell steps run, and called commands exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.session import check

yaml = pytest.importorskip("yaml", reason="the extra `docs` reads YAML")
TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")
ACTION = yaml.safe_load(TEXT)
STEPS = {step["name"].partition(" ")[0]: step for step in ACTION["runs"]["steps"]}
# Replacement of each program: records the arguments of its calls.
STUB = """#!/bin/bash
printf '%s\\n' "${0##*/}" "$@" >> "$GITHUB_OUTPUT"
echo "$EARLIER"
exit "${CODE:-0}"
"""
AUDIT = {"ARGUMENTS": "a:b --claim 'my claim.toml'\n--data $HOME", "FAIL_ON": "leak"}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs the shell of a step as the host does; returns (exit code, recorded lines)."""
    for name in ("auditor", "gh", "python"):
        (tmp_path / name).write_text(STUB, encoding="utf-8")
        (tmp_path / name).chmod(0o700)
    (tmp_path / "my out").mkdir()
    for name in ("report.md", "report.sarif"):
        (tmp_path / "my out" / name).write_text("# A\n![B [c]](overview.svg)\n", encoding="utf-8")
    wrote = tmp_path / "wrote"

    def step(name: str, **given: str) -> tuple[int, list[str]]:
        wrote.write_text("", encoding="utf-8")
        given |= dict.fromkeys(("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"), str(wrote))
        given |= {"PATH": f"{tmp_path}:{os.defpath}", "RUNNER_TEMP": str(tmp_path)}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
        code = subprocess.run(shell, cwd=tmp_path, env={"OUT": "my out"} | given).returncode
        return code, wrote.read_text(encoding="utf-8").splitlines()

    return step


def test_inputs_are_declared_and_never_expanded_in_a_shell() -> None:
    assert set(re.findall(r"inputs\.([\w-]+)", TEXT)) == set(ACTION["inputs"])
    assert not any("${{" in step.get("run", "") for step in STEPS.values())
    check(f"auditor run x:y --fail-on {ACTION['inputs']['fail-on']['default']}")


def test_steps_call_programs_with_the_expected_arguments(run: Any) -> None:
    pip, cpu = "python -m pip install ", "torch --index-url https://download.pytorch.org/whl/cpu"
    code, wrote = run("Install", GITHUB_ACTION_PATH="here", REQUIREMENTS=". 'a<2'")
    assert (code, " ".join(wrote)) == (0, f"{pip}{cpu} {pip}here {pip}. a<2")
    code, wrote = run("Audit", **AUDIT, CODE="3")
    assert (code, wrote[:7]) == (3, ["auditor", "run", *shlex.split(AUDIT["ARGUMENTS"])])
    assert wrote[7:11] == ["--fail-on", "leak", "--out", "my out"]
    assert wrote[11:] == ["exit-code=3", "sarif=my out/report.sarif"]
    assert run("Summary") == (0, ["# A", "B [c]"])
    assert run("Summary", OUT="nothing") == (0, [])


@pytest.mark.parametrize(
    ("earlier", "call"),
    [("", "POST repos/o/r/issues/7/comments"), ("12\n34", "PATCH repos/o/r/issues/comments/12")],
)
def test_a_later_commit_rewrites_the_comment(run: Any, earlier: str, call: str) -> None:
    assert run("Comment") == (0, [])
    run("Summary")
    code, wrote = run("Comment", GITHUB_REPOSITORY="o/r", NUMBER="7", EARLIER=earlier)
    assert (code, f"gh api --method {call} --field body=@" in " ".join(wrote)) == (0, True)


def test_commands_of_the_recipe_and_the_hooks_parse() -> None:
    (recipe,) = (yaml.safe_load(b.text) for b in blocks("docs/ci-gate.md") if "OWNER" in b.text)
    given = recipe["jobs"]["audit"]["steps"][-1]["with"]
    assert set(given) <= set(ACTION["inputs"])
    check(f"auditor run {given['arguments']} --fail-on {given['fail-on']}")
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")):
        check(f"{hook['entry']} x:y{' --epsilon 1' * ('verify' in hook['id'])}")
