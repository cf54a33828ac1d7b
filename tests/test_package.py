"""What is offered by the names that users import, and what importing them costs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import fedrec_auditor

SURFACE = {
    "fedrec_auditor": [
        "Account", "Claim", "InputError", "Record", "RecordingWriter", "Sweep", "Verification",
        "__version__", "account", "attack_recording", "audit", "audit_system", "from_scores",
        "record_uploads", "sweep", "verify_ldp", "wrap_system", "wrap_torch",
    ],
    "fedrec_auditor.auditor.testing": ["Case", "MechanismContract", "assert_ldp", "inputs_of"],
}  # fmt: skip


def fresh(code: str) -> str:
    """What these lines print in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", SURFACE)
def test_the_public_names_are_these(name: str) -> None:
    """A name that is taken away or renamed breaks somebody's program: say so in CHANGELOG.md."""
    module = import_module(name)
    assert sorted(module.__all__) == SURFACE[name]
    assert all(getattr(module, each) is not None for each in SURFACE[name])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def test_completion_offers_the_public_names_before_any_is_used() -> None:
    shown = fresh("import fedrec_auditor as f; print(dir(f))")
    assert shown == str(SURFACE["fedrec_auditor"])


def test_the_version_is_that_of_the_distribution() -> None:
    assert fedrec_auditor.__version__ == version("fedrec-auditor")


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("fedrec_auditor", ("numba", "numpy", "pytest")),
        ("fedrec_auditor.auditor.testing", ("numba", "numpy", "pytest")),
        ("fedrec_auditor.auditor.commands.command_line", ("matplotlib",)),
    ],
)
def test_importing_it_imports_nothing_heavy(module: str, more: tuple[str, ...]) -> None:
    heavy = ("torch", "scipy", "sklearn", "dp_accounting.dp_event", *more)
    code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    assert fresh(code) == "[]"


# Commands, and a module that each of them must import.
COMMANDS = {
    "--version": "commands.command_line",
    "list": "commands.listing",
    "account --gaussian z=1.1 --rate 0.01 --delta 1e-6": "spending.spend",
    "claims dp-privrec": "judging.accounting",
    "claims dp-sgd-mf": "judging.accounting",
    "estimate scores.npz": "worlds.scores",
    "report run": "commands.report",
    "compare run run": "commands.compare",
    "verify coin:flip --epsilon 1.2": "verification.verify",
    "verify coin:flip --epsilon 1.2 --no-trace": "verification.verify",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_that_train_nothing_import_no_heavy_library(words: str, tmp_path: Path) -> None:
    (tmp_path / "coin.py").write_text("def flip(x, rng): return x ^ (rng.random() < 0.25)\n")
    (tmp_path / "run").mkdir()
    shutil.copy(Path(__file__).parent / "reports/record-5.json", tmp_path / "run/report.json")
    np.savez(tmp_path / "scores.npz", in_scores=np.arange(99.0), out_scores=np.arange(99.0) - 0.5)
    code = (
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *more): os.write(2, f'{name}\\n'.encode())\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from fedrec_auditor import __main__; __main__.main()"
    )
    words_given = [sys.executable, "-c", code, *words.split()]
    done = subprocess.run(words_given, capture_output=True, text=True, cwd=tmp_path, check=False)
    imported = set(done.stderr.splitlines())  # also in a child process
    assert done.returncode in (0, 1), done.stderr[-500:]
    assert f"fedrec_auditor.auditor.{COMMANDS[words]}" in imported
    assert not {"torch", "numba", "pyarrow", "sklearn"} & imported


def test_names_of_dp_accounting_are_imported_one_by_one() -> None:
    code = (
        "import sys, fedrec_auditor.accountants.events, dp_accounting\n"
        "print(dp_accounting.GaussianDpEvent.__name__, 'scipy' in sys.modules)\n"
        "print(hasattr(dp_accounting, 'nothing'), dp_accounting.pld.PLDAccountant.__name__)"
    )
    assert fresh(code).split() == ["GaussianDpEvent", "False", "False", "PLDAccountant"]


@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM"])
def test_a_signal_during_imports_is_one_line(ending: str) -> None:
    code = (
        "import os, signal, sys; from fedrec_auditor import __main__\n"
        "class Finder:\n"
        "    def find_spec(self, name, *more):\n"
        f"        if name == 'typer': os.kill(os.getpid(), signal.{ending})\n"
        "sys.meta_path.insert(0, Finder()); __main__.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "auditor: Interrupted.\n")
