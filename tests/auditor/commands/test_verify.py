"""Tests of auditor verify: its output, formats and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fedrec_auditor.auditor.verification import CheckResult, CheckStatus
from tests.command import cli, refusal
from tests.reports.record.test_gate import check_sarif

USER_MODULE = """
import numpy as np
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip

tight = BitFlip.symmetric(1.0)
certain = BitFlip.asymmetric(1.0)

def response(x, rng, size):
    return np.where(rng.random(size) < 0.7, x, 1 - x)

def majority(x, rng, size):
    print("a remark")
    return response(int(x.sum() > 1), rng, size)

def answers(x, rng):
    return x if rng.random() < 0.7 else "no"

def raises(x, rng, size):
    raise ValueError("one\\n\\ntwo")

def exits(x, rng, size):
    raise SystemExit(7)

def warns(x, rng, size):
    return np.log(np.full(size, -1.0))

def clear(x, rng, size):
    return np.where(rng.random(size) < 1e-6, 1 - x, x)

def hangs(x, rng, size):
    while True:
        pass

def dies(x, rng, size):
    import os
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def _write_user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "homemade.py").write_text(USER_MODULE)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_tight_claim_exits_with_0() -> None:
    code, out, err = cli("verify", "homemade:tight", "--epsilon", "1", "--samples", "1000")
    assert (code, err) == (0, "")
    assert out.startswith("Proved: ")
    assert "1.0000 of the claim" in out


def test_a_violation_exits_with_1_and_shows_the_witness() -> None:
    code, out, _ = cli("verify", "homemade:response", "--epsilon", "0.5", "--samples", "20000")
    assert code == 1
    assert out.startswith("False: ")
    for label in ("bound", "how", "inputs", "event", "chances", "ratio"):
        assert f"\n  {label} " in out


def test_sarif_and_junit_files_have_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("verify", "homemade:response", "--epsilon", "0.5", "--samples", "20000")
    code, out, _ = cli(*words, "--sarif", "found.sarif", "--junit", "found.xml")
    assert (code, out.split(":")[0]) == (1, "False")
    log = json.loads((tmp_path / "found.sarif").read_text("utf-8"))
    check_sarif(log)
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("VIOLATED", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "homemade.py"
    line = USER_MODULE.splitlines()[place["region"]["startLine"] - 1]
    assert line == "def response(x, rng, size):"
    cases = ET.parse(tmp_path / "found.xml").getroot().findall("testsuite/testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == [
        "epsilon 0.5 [report / any pair / server / report]"
    ]
    assert {"determinism", "floating point"} < {case.get("name") for case in cases}
    assert "--junit as files in existing folders" in refusal(
        *words, "--junit", tmp_path / "no" / "found.xml"
    )


def test_an_unproved_claim_fails_only_with_fail_on() -> None:
    words = ("verify", "homemade:response", "--epsilon", "1", "--samples", "2000", "--no-trace")
    for more, expected in (
        ((), 0),
        (("--fail-on", "unsubstantiated"), 1),
        (("--fail-on", "unproved"), 1),
        (("--fail-on", "never"), 0),
    ):
        code, out, _ = cli(*words, *more)
        assert (code, out.split(":")[0]) == (expected, "Unproved")
    refuted = ("verify", "homemade:response", "--epsilon", "0.5", "--samples", "20000")
    assert cli(*refuted, "--fail-on", "never")[0] == 0


def test_an_inconclusive_sample_exits_with_3_and_names_a_larger_size() -> None:
    words = ("verify", "homemade:clear", "--epsilon", "10", "--no-trace", "--samples", "8000")
    code, out, _ = cli(*words)
    text = " ".join(out.split())
    assert (code, out.split(":")[0]) == (3, "Not tested")
    assert "these draws is 8.26078, not above the claim of 10" in text
    assert text.count("--samples 37948") == 1
    assert "--samples 8000" not in text
    assert cli(*words, "--allow", "inconclusive")[0] == 0
    assert cli(*words, "--allow", "not-tested", "--fail-on", "unsubstantiated")[0] == 0
    code, out, _ = cli(*words[:-1], "37948")
    assert (code, out.split(":")[0]) == (1, "False")


def test_json_is_valid_for_an_infinite_epsilon() -> None:
    code, out, _ = cli(
        "verify", "homemade:certain", "--epsilon", "1", "--samples", "1000", "--json"
    )
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (code, found["verdict"], found["epsilon_lower"]) == (1, "VIOLATED", "inf")
    assert found["exact"] is True
    assert found["witness"]["probability_b"] == 0.0
    assert isinstance(found["checks"], list)


def test_lists_of_lists_are_arrays_and_prints_do_not_spoil_json() -> None:
    words = ("--inputs", "[[0, 0, 1], [1, 1, 1]]", "--samples", "5000", "--json")
    code, out, _ = cli("verify", "homemade:majority", "--epsilon", "0.5", *words)
    assert code == 1
    assert json.loads(out)["witness"]["input_a"].startswith("[")


def test_inputs_may_be_strings() -> None:
    words = ("--inputs", '["yes", "no"]', "--samples", "2000")
    code, out, _ = cli("verify", "homemade:answers", "--epsilon", "1", *words)
    assert code == 1
    assert "'no'" in out


def test_a_failed_check_exits_with_1_unless_it_is_waived(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from fedrec_auditor.auditor import verification

    real = verification.verify_ldp
    failed = CheckResult(name="a name", status=CheckStatus.FAILED, reason="Seen. Mend it.")
    monkeypatch.setattr(
        verification,
        "verify_ldp",
        lambda *a, **k: dataclasses.replace(real(*a, **k), checks=(failed,)),
    )
    words = ("verify", "homemade:tight", "--epsilon", "1", "--samples", "500")
    code, out, _ = cli(*words)
    assert (code, "FAILED    a name: Seen. Mend it." in out) == (1, True)
    code, out, _ = cli(*words, "--allow", "a name")
    assert (code, "waived    a name: Seen. Mend it." in out) == (0, True)
    assert "one of a name, not-tested, got 'a nam'" in refusal(*words, "--allow", "a nam")


BAD_ARGUMENTS = {
    "epsilon no number": (("tight", "--epsilon", "one"), "'one'"),
    "timeout": (("tight", "--epsilon", "1", "--timeout", "0"), "timeout=0"),
    "timeout NaN": (("tight", "--epsilon", "1", "--timeout", "nan"), "timeout=nan"),
    "inputs not JSON": (("response", "--epsilon", "1", "--inputs", "0,1"), "JSON list"),
    "inputs no list": (("response", "--epsilon", "1", "--inputs", "1"), "Add the brackets"),
    "inputs NaN": (("response", "--epsilon", "1", "--inputs", "[NaN, 1]"), "NaN is not a JSON"),
    "inputs too deep": (("response", "--epsilon", "1", "--inputs", "[" * 9999), "JSON list"),
    "inputs ragged": (("response", "--epsilon", "1", "--inputs", "[[0, [1]], 1]"), "ragged"),
    "input out of the domain": (
        ("tight", "--epsilon", "1", "--inputs", "[0, 5]"),
        "inputs in {0, 1}",
    ),
    "inputs of another shape": (("tight", "--epsilon", "1", "--inputs", "[[0], [1]]"), "shape"),
    "unknown check": (
        ("tight", "--epsilon", "1", "--samples", "500", "--allow", "nothing"),
        "got 'nothing'",
    ),
    "no such name": (("absent", "--epsilon", "1"), "Expected 'absent' in homemade"),
    "raises": (("raises", "--epsilon", "1"), "ValueError: one two"),
    "exits": (("exits", "--epsilon", "1"), "SystemExit: 7"),
    "hangs": (("hangs", "--epsilon", "1", "--timeout", "0.5"), "within 0.5 s"),
    "dies": (("dies", "--epsilon", "1"), "SIGKILL"),
}


@pytest.mark.parametrize(("words", "message"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_bad_input_is_one_clear_line_and_exit_code_2(words: tuple[str, ...], message: str) -> None:
    assert message in refusal("verify", f"homemade:{words[0]}", *words[1:])


def test_warnings_of_the_callable_do_not_crowd_the_refusal(tmp_path: Path) -> None:
    words = ["verify", "homemade:warns", "--epsilon", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "fedrec_auditor", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "NaN" in done.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc here")
def test_an_interrupt_ends_the_command_and_its_children(tmp_path: Path) -> None:
    words = ["verify", "homemade:hangs", "--epsilon", "1"]
    # a background job of a shell ignores the signal, and so would its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [sys.executable, "-m", "fedrec_auditor", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        deadline = time.monotonic() + 120
        while not (started := children.read_text().split()) and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert (running.returncode, out, err) == (3, "", "auditor: Interrupted.\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started[0]), 0)


def test_no_files_are_left_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "noise.py").write_text(
        "from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace\n"
        "noise = Laplace(scale=1, low=0, high=1)\n"
    )
    words = ("verify", "noise:noise", "--epsilon", "1", "--samples", "1000")
    command = (sys.executable, "-B", "-m", "fedrec_auditor", *words)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "homemade.py"] == ["noise.py"]


def test_a_built_in_mechanism_is_verified_by_name_and_settings() -> None:
    words = ("verify", "laplace", "--set", "scale=0.5", "--set", "low=0", "--set", "high=1")
    code, out, err = cli(*words, "--epsilon", "2", "--samples", "1000", "--allow", "floating point")
    assert (code, err) == (0, "")
    assert "of the claim" in out
    code, out, _ = cli(*words, "--epsilon", "1.9", "--samples", "1000")
    assert (code, out[:5]) == (1, "False")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("laplace", "--set", "scale=1"), "got no low, high. Add --set low=VALUE"),
        (("laplace", "--set", "scal=1"), "Did you mean scale?"),
        (("clipped", "--set", "scale=1"), "has other mechanisms"),
        (("homemade:tight", "--set", "p=1"), "Leave the settings out"),
    ],
)
def test_settings_that_a_mechanism_does_not_have_are_refused(
    words: tuple[str, ...], message: str
) -> None:
    assert message in refusal("verify", *words, "--epsilon", "1")


FAULTS = {
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "cancels": ("class E(BaseException): pass\nraise E('one')", "E: one"),
    "is-mute": (
        "class E(Exception):\n    def __str__(self): raise OSError\n    __repr__ = __str__\n"
        "def f(x, rng): raise E",
        "E: a message that cannot be read",
    ),
    "is-mute-at-import": (
        "class E(Exception):\n    def __str__(self): raise OSError\n    __repr__ = __str__\n"
        "raise E",
        "E: a message that cannot be read",
    ),
    "has-no-attributes": (
        "class C:\n    def __getattr__(self, n): raise RuntimeError('no')\n"
        "    def __call__(self, x, rng): return x\nf = C()",
        "RuntimeError: no",
    ),
    "has-no-name": (
        "class C:\n    __name__ = property(lambda self: 1 // 0)\n"
        "    def __call__(self, x, rng): return x\nf = C()",
        "ZeroDivisionError",
    ),
    "is-no-array": (
        "import sys\nclass A:\n    def __array__(self, *a, **k): sys.exit(0)\n"
        "def f(x, rng): return A()",
        "SystemExit: 0",
    ),
    "exits-at-import": ("raise SystemExit(4)", "SystemExit: 4 (fault_exits_at_import.py:1)"),
    "raises-at-import": ("raise RuntimeError('at import')", "import (fault_raises_at_import.py:1)"),
    "is-no-python": ("def (", "SyntaxError"),
    "generates": ("def f(x, rng): raise GeneratorExit('one')", "GeneratorExit: one"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failure_of_the_callable_is_reported(tmp_path: Path, fault: str) -> None:
    """The failure is never reported as a fault of the auditor."""
    text, message = FAULTS[fault]
    name = f"fault_{fault.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(text)
    assert message in refusal("verify", f"{name}:f", "--epsilon", 1, "--inputs", "[0, 1]")
