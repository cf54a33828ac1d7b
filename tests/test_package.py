"""The public surface, as ``tests/public_surface.txt`` holds it, and what importing it costs.

``python -m tests.test_package`` writes the file.
"""

from __future__ import annotations

import difflib
import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import fedrec_auditor
from fedrec_auditor.auditor.commands.command_line import make_app
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.plan.plugins import ENTRY_POINT_PREFIX

STORED = Path(__file__).with_name("public_surface.txt")
MODULES = ("fedrec_auditor", "fedrec_auditor.auditor.testing")


def run_lines(code: str) -> str:
    """Output of these lines in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def list_surface() -> Iterator[str]:
    """The lines of the file: names, options and fields that programs of others may rely on."""
    for module in map(import_module, MODULES):
        yield f"from {module.__name__} import"
        for name in sorted(module.__all__):
            yield from describe(name, getattr(module, name))
    for name, command in sorted(typer.main.get_group(make_app()).commands.items()):
        yield f"auditor {name}"
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        yield from (f"    {' '.join([*each.opts, *each.secondary_opts])}" for each in shown)
    yield "a plan"
    yield from (f"    {name}" for name in Plan.model_fields)
    yield "groups of entry points for plug-ins, then the entry points of the distribution"
    yield from (f"    {ENTRY_POINT_PREFIX}{kind}" for kind in FAMILIES)
    points = distribution("fedrec-auditor").entry_points
    yield from sorted(f"    {point.group}: {point.name}" for point in points)


def describe(name: str, public: Any) -> Iterator[str]:
    """A name with its parameters; below it the further attributes of a class."""
    if name == "InputError" or not callable(public):
        yield f"    {name}"
        return
    taken = getattr(public, "model_fields", None) or inspect.signature(public).parameters
    yield f"    {name}({', '.join(taken)})"
    if inspect.isclass(public):
        own = {each for each in vars(public) if not each.startswith(("_", "model_"))}
        yield from (f"        .{each}" for each in sorted(own - taken.keys()))


def test_the_public_surface_is_the_stored_one() -> None:
    stored, found = STORED.read_text(encoding="utf-8").splitlines(), [*list_surface()]
    assert stored == found, (
        "Expected the public names of tests/public_surface.txt, got others. If that is meant, run "
        "`python -m tests.test_package`, and say it in CHANGELOG.md. CONTRIBUTING.md (Versions) "
        "says when a name may go: somebody's program uses it.\n"
        + "\n".join(difflib.unified_diff(stored, found, "stored", "now", n=1, lineterm=""))
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_no_other_names(name: str) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = import_module(name).nothing


def test_completion_offers_the_public_names_before_any_is_used() -> None:
    shown = run_lines("import fedrec_auditor as f; print(dir(f))")
    assert shown == str(sorted(fedrec_auditor.__all__))


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
    assert run_lines(code) == "[]"


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
    "sweep fcf --along privacy": "sweep.grid",  # refused: no noise
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
    assert done.returncode == (2 if "sweep" in words else 0), done.stderr[-500:]
    assert f"fedrec_auditor.auditor.{COMMANDS[words]}" in imported
    assert not {"torch", "numba", "pyarrow", "sklearn"} & imported


def test_names_of_dp_accounting_are_imported_one_by_one() -> None:
    code = (
        "import sys, fedrec_auditor.accountants.events, dp_accounting\n"
        "print(dp_accounting.GaussianDpEvent.__name__, 'scipy' in sys.modules)\n"
        "print(hasattr(dp_accounting, 'nothing'), dp_accounting.pld.PLDAccountant.__name__)"
    )
    assert run_lines(code).split() == ["GaussianDpEvent", "False", "False", "PLDAccountant"]


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


if __name__ == "__main__":
    STORED.write_text("".join(f"{line}\n" for line in list_surface()), encoding="utf-8")
