"""Tests of refusals of the auditor command: one clear line, exit code 2, and no files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import cli, refusal

BAD_COMMANDS = {
    "unknown target": (("run", "dplcf-app"), "Did you mean dplcf-ap"),
    "unknown data": (("run", "--data", "ml-100kk"), "Did you mean ml-100k"),
    "unknown attack": (("run", "--attacks", "linkag"), "Did you mean linkage"),
    "unknown game": (("run", "--games", "rounds"), "Did you mean round"),
    "unknown estimator": (("run", "--estimator", "join-binomial"), "Did you mean joint-binomial"),
    "unknown attack to bound": (("run", "--by", "linkag"), "Did you mean linkage"),
    "too few runs": (("run", "--runs", "3"), "runs=3"),
    "unknown setting": (("run", "--set", "fcf.roundz=3"), "Did you mean rounds"),
    "unknown target to record": (("record", "fcff", "--out", "/nowhere/x"), "Did you mean fcf"),
    "unknown data of a table": (
        ("reproduce", "dplcf", "--data", "ml-1mm=x", "--out", "/nowhere/x"),
        "Did you mean ml-1m",
    ),
    "unknown reproduction": (("reproduce", "dplfc", "--out", "/nowhere/x"), "Did you mean dplcf"),
    "unknown paper": (("claims", "--paper", "dplfc"), "Did you mean dplcf"),
    "unknown word": (("claims", "--all", "--only", "fals"), "Did you mean false"),
    "beginning of a name": (("list", "fmf"), "fmf-hfl or fmf-ldp or fmf-lfl or fmf-vfl?"),
    "name in capitals": (("run", "FMF-LDP"), "Did you mean fmf-ldp?"),
    "setting of no target": (("run", "--set", "epsilon=1"), "Expected --set TARGET.NAME=VALUE"),
    "mechanism in words": (
        ("verify", "randomized-response", "--epsilon", "1"),
        "The mechanisms are: bit-flip, one-coordinate.",
    ),
    "unknown mechanism": (("verify", "bitflip", "--epsilon", "1"), "Did you mean bit-flip"),
    "no such path": (("run", "--data", "/nowhere/at/all"), "not there"),
    "no such plan": (("run", "--plan", "/nowhere/plan.toml"), "readable plan"),
    "no recording": (("attack", "/nowhere", "--out", "/nowhere/x"), "the directory of a recording"),
    "negative seed": (("run", "--seed", "-1"), "seed=-1"),
    "no jobs": (("run", "--jobs", "0"), "jobs=0"),
    "unknown device": (("run", "--device", "tpu"), "device='tpu'"),
    "unwritable": (("run", "fcf", "--data", "synthetic", "--out", "/proc/nope"), "can be written"),
    "unknown family": (("list", "target"), "got 'target'"),
    "no attribute": (("verify", "math:nope", "--epsilon", "1"), "Expected 'nope' in math"),
    "no callable": (("verify", "math", "--epsilon", "1"), "PACKAGE.MODULE:CALLABLE"),
    "no run directory": (("report", "/nowhere"), "report.json"),
    "seed not a number": (("run", "--seed", "x"), "'--seed'"),
    "seed not whole": (("run", "--seed=1.5"), "got '1.5'"),
    "unknown level": (("run", "--fail-on", "maybe"), "got 'maybe'. See `auditor run --help`"),
    "a device as event": (("account", "--event", "/dev/zero"), "a device"),
    "a path that is too long": (("report", "x" * 5000), "xx ... xx"),
    "settings of nothing": (("verify", "bit-flop", "--epsilon", "1", "--set", "a=1"), "bit-flip"),
    "a module with .py": (("run", "math.py:sin", "--data", "synthetic"), "must not end in .py"),
    "unknown option": (("run", "--sede", "1"), "--sede"),
    "option without a value": (("run", "--out"), "See `auditor run --help`"),
    "unknown command": (("rum",), "'rum'. Did you mean 'run'? See"),
    "no epsilon": (("verify", "math:sin"), "--epsilon"),
    "relative module": (("verify", ".math:sin", "--epsilon", "1"), ".math:sin"),
}


@pytest.mark.parametrize(("words", "message"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_bad_input_is_one_clear_line_and_exit_code_2(words: tuple[str, ...], message: str) -> None:
    assert message in refusal(*words)


FAST_REFUSALS = (
    "unknown target",
    "unknown data",
    "too few runs",
    "unknown attack",
    "no jobs",
    "unwritable",
)
FAST_REFUSALS += ("unknown reproduction", "unknown target to record", "unknown device")
HEAVY_MODULES = ("torch", "scipy", "dp_accounting.dp_event", "numpy", "numba", "pyarrow", "sklearn")


@pytest.mark.parametrize("case", FAST_REFUSALS)
def test_bad_input_is_refused_before_heavy_imports(case: str) -> None:
    words, message = BAD_COMMANDS[case]
    code = (
        "import sys; from fedrec_auditor.auditor.commands.command_line import main\n"
        f"sys.argv = {['auditor', *words]!r}\n"
        "try: main()\n"
        f"finally: print(*[name for name in {HEAVY_MODULES!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "\n")
    assert message in done.stderr


def test_the_command_alone_shows_the_help() -> None:
    code, out, err = cli()
    assert (code, err) == (2, "")
    assert "doctor" in out


def test_a_broken_line_of_ratings_is_named(tmp_path: Path) -> None:
    genres = "|".join(["0"] * 19)
    (tmp_path / "u.user").write_text("1|30|M|writer|0\n")
    (tmp_path / "u.item").write_text(f"1|A|01-Jan-1990||x|{genres}\n", encoding="latin-1")
    (tmp_path / "u.data").write_text("1\t1\t5\t10\n1\t1\tfive\t20\n")
    err = refusal("run", "--data", tmp_path, "--out", tmp_path / "out")
    assert "u.data" in err
    assert "line 2" in err


def test_missing_columns_are_requested_as_options(tmp_path: Path) -> None:
    table = tmp_path / "sales.csv"
    table.write_text("customer,article\n1,2\n")
    err = refusal("run", "random", "--data", table, "--out", tmp_path / "out")
    assert "--column item=NAME" in err or "--column user=NAME" in err


def test_a_table_of_many_columns_needs_named_attributes(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("user,item\n1,2\n2,3\n3,2\n4,3\n")
    rows = [
        ",".join(f"c{k}" for k in range(10_000)),
        *[",".join("ab"[u % 2] * 10_000) for u in range(4)],
    ]
    table = "\n".join(f"{user},{row}" for user, row in zip(["user", 1, 2, 3, 4], rows, strict=True))
    (tmp_path / "u.csv").write_text(table)
    words = ("doctor", "--data", tmp_path / "r.csv", "--users", tmp_path / "u.csv")
    assert "--attribute" in refusal(*words)
    assert cli(*words, "--attribute", "c7")[0] == 0


# Each file once took minutes to read.
@pytest.mark.parametrize("text", ['"a\\' * 60_000, '"""\\"' * 50_000, "x = 0x" + "f" * 9_000])
def test_pathological_claim_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "claim.toml").write_text(text)
    refusal("run", "os:x", "--claim", tmp_path / "claim.toml", "--data", "nowhere")


@pytest.mark.parametrize("device", ["meta", "cuda:99"])
def test_a_device_that_cannot_compute_is_named(tmp_path: Path, device: str) -> None:
    words = ("run", "random", "--data", "synthetic", "--device", device, "--out", tmp_path / "out")
    assert f"device={device!r}" in refusal(*words)
