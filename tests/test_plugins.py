"""Members that a distribution of somebody else's adds by entry points."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.members import make_mechanism
from fedrec_auditor.auditor.testing import Case, MechanismContract
from fedrec_auditor.auditor.testing.targets import TargetCase, TargetContract
from tests.command import cli
from tests.contracts.laws import hold
from tests.docs.blocks import blocks

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "their-members"
version = "1.0"

[project.entry-points."fedrec_auditor.mechanisms"]
coin = "their_members:Coin"

[project.entry-points."fedrec_auditor.targets"]
their-fcf = "their_members:TheirFcf"
no-class = "their_members:KEEP"

[project.entry-points."fedrec_auditor.papers"]
my-paper = "my_paper"

[tool.setuptools]
packages = ["my_paper", "my_paper.systems"]
py-modules = ["their_members"]
package-data = { my_paper = ["*.toml"] }
"""
MEMBERS = '''
"""A mechanism and a system of somebody else."""

from dataclasses import dataclass

import numpy as np
from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent
from fedrec_auditor.targets.mechanisms.base import Domain
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf

KEEP = 0.75


@dataclass(frozen=True)
class Coin(BitFlip):
    """Keeps a bit three times in four."""

    p: float = KEEP
    q: float = 1.0 - KEEP


@dataclass(frozen=True, kw_only=True)
class TheirFcf(Fcf):
    """FCF of two rounds."""

    rounds: int = 2
    name = "their-fcf"
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip leaves of a pure wheel: its package and its dist-info."""
    tree = tmp_path_factory.mktemp("their") / "project"
    tree.mkdir()
    (tree / "pyproject.toml").write_text(PROJECT)
    (tree / "their_members.py").write_text(MEMBERS)
    (tree / "my_paper" / "systems").mkdir(parents=True)
    for package, said in (("my_paper", "Five rounds are enough."), ("my_paper/systems", "One.")):
        (tree / package / "__init__.py").write_text(f'"""{said}"""\n')
    for block in blocks("docs/extending.md"):
        if block.file:
            (tree / block.file).write_text(block.text)
    build = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True)
    (wheel,) = (tree / "dist").glob("*.whl")
    ZipFile(wheel).extractall(tree / "site")
    return tree / "site"


@pytest.fixture
def plug_in(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "coin" not in FAMILIES["mechanisms"].list_names()
    monkeypatch.syspath_prepend(str(installed))


@pytest.mark.usefixtures("plug_in")
def test_its_members_are_listed_with_ours() -> None:
    for kind, name, value in (
        ("mechanisms", "coin", "their_members:Coin"),
        ("targets", "their-fcf", "their_members:TheirFcf"),
    ):
        code, out, _ = cli("list", kind)
        assert code == 0
        (line,) = (line for line in out.splitlines() if name in line)
        assert f"plug-in {value}" in line


@pytest.mark.usefixtures("plug_in")
def test_its_paper_is_one_folder(tmp_path: Path) -> None:
    """The recipe of docs/extending.md, installed: what lists, judges, runs and shows has it."""
    for kind, name in (
        ("papers", "my-paper"),
        ("targets", "my-fmf"),
        ("reproductions", "my-paper"),
    ):
        code, out, _ = cli("list", kind)
        assert code == 0
        assert any(line.split()[:1] == [name] for line in out.splitlines()), kind
    code, out, _ = cli("claims", "my-fmf", "--json")
    assert code == 0
    (finding,) = json.loads(out)
    assert (finding["claim"]["epsilon"], finding["accounted"]["epsilon"]) == (250.0, 1250.0)
    code, out, _ = cli("claims", "101", "--json")
    assert code == 0
    assert json.loads(out)[0]["arithmetic"] == "WRONG"
    plan = tmp_path / "plan.toml"
    plan.write_text("attacks = []\nmin_user = 70\nruns = 100\npopulation = [4, 10]\n")
    words = ("--plan", plan, "--data", "synthetic", "--jobs", "1", "--out", tmp_path / "out")
    code, out, _ = cli("run", "my-fmf", *words, "--quick", "--fail-on", "never")
    assert code == 0
    assert "Somebody: five rounds are enough" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.usefixtures("plug_in")
def test_settings_are_read_of_a_module_whose_annotations_are_no_texts() -> None:
    found: Any = make_mechanism("coin", ["p=0.8", "q=0.2"])
    assert (found.p, found.q) == (0.8, 0.2)


@pytest.mark.usefixtures("plug_in")
def test_its_members_keep_the_shipped_contracts() -> None:
    coin = FAMILIES["mechanisms"].load_class("coin")()
    bits = np.array([0, 1])
    hold(MechanismContract, Case(coin, bits, bits))
    hold(TargetContract, TargetCase(FAMILIES["targets"].load_class("their-fcf")()))


@pytest.mark.usefixtures("plug_in")
def test_an_entry_point_that_is_no_class_is_refused() -> None:
    assert "no-class" in {point.name for point in entry_points(group="fedrec_auditor.targets")}
    with pytest.raises(InputError, match=r"'no-class' of their-members 1.0 .*not a class"):
        FAMILIES["targets"].load_class("no-class")
