"""Tests of the installed package: one top-level package, which runs in any folder."""

from __future__ import annotations

import email
import functools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("accountants/", "attacks/", "auditor/", "reports/", "targets/")
MADE = {"PKG-INFO", "setup.cfg"}  # what setuptools adds to a source distribution
BUILD = "import sys; from setuptools import build_meta as b; b.build_{}(sys.argv[1])"

# Modules of the user's own, called like our folders and like what stands in them.
FOREIGN = {
    "reports/__init__.py": "raise RuntimeError('the reports of somebody else')",
    "targets/__init__.py": "KEEP = 0.7",
    "attacks.py": "raise RuntimeError('the attacks of somebody else')",
    "responses.py": """
import numpy as np
from targets import KEEP

def randomize(x, rng, size):
    return np.where(rng.random(size) < KEEP, x, 1 - x)
""",
}


def run_in(*words: str | Path, folder: Path) -> str:
    """Output of a program in ``folder``, which imports from there, not from this checkout."""
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    program = [str(word) for word in words]
    done = subprocess.run(program, cwd=folder, env=own, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(kind: str, tree: Path, out: Path) -> Path:
    out.mkdir()
    run_in(sys.executable, "-c", BUILD.format(kind), out, folder=tree)
    (built,) = out.iterdir()
    return built


def list_packages() -> list[str]:
    """Folders of this environment's packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


@functools.cache
def list_sources() -> set[str]:
    """The files of the repository; outside of one, those that were installed from."""
    known = ROOT / "fedrec_auditor.egg-info" / "SOURCES.txt"
    listed = (
        run_in("git", "ls-files", folder=ROOT) if (ROOT / ".git").exists() else known.read_text()
    )
    return {x for x in listed.splitlines() if ".egg-info/" not in x and (ROOT / x).exists()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files alone, without links and modes: as Windows has them, or Python from a zip."""
    copy = tmp_path_factory.mktemp("clone") / "tree"
    for name in list_sources():
        assert not (ROOT / name).is_symlink(), name
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tree, tmp_path_factory.mktemp("built") / "dist")


@pytest.fixture(scope="module")
def binaries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment: the wheel, and what it needs from this environment."""
    place = tmp_path_factory.mktemp("clean") / "env"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    install = ("-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run_in(sys.executable, *install, wheel, folder=place)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text("\n".join(list_packages()))
    where = run_in(python, "-c", "import fedrec_auditor as f; print(f.__file__)", folder=place)
    assert Path(where).is_relative_to(packages)
    return place / "bin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FOREIGN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def list_files(wheel: Path) -> set[str]:
    return set(ZipFile(wheel).namelist())


def test_one_package_is_at_the_top_and_all_of_it_is_there(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in list_files(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fedrec_auditor"}
    assert len(tops) == 2
    ours = {name for name in list_sources() if name.startswith(FOLDERS)}
    ours |= {"__init__.py", "__main__.py", "flower.py", "py.typed"}
    inside = {name for name in list_files(wheel) if name.startswith("fedrec_auditor/")}
    assert inside == {f"fedrec_auditor/{name}" for name in ours}
    assert "reports/writers/templates/report.html.j2" in ours


def test_a_source_distribution_is_the_repository_and_builds_the_same_wheel(
    tree: Path, wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(build("sdist", tree, tmp_path / "source")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    inside = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert {name for name in inside - MADE if ".egg-info" not in name} == list_sources()
    assert {"docs/glossary.md", "examples/own_torch.py", "tests/test_wheel.py"} <= inside
    assert list_files(build("wheel", unpacked, tmp_path / "again")) == list_files(wheel)


def test_an_index_shows_where_to_go(wheel: Path) -> None:
    """No link of README needs the repository around it: each leads to a file of this version."""
    (path,) = (name for name in list_files(wheel) if name.endswith("/METADATA"))
    found = email.message_from_bytes(ZipFile(wheel).read(path))
    addresses = dict(line.split(", ", 1) for line in found.get_all("Project-URL", []))
    text, source = str(found.get_payload()), addresses["Repository"]
    ours = re.findall(rf"\]\({source}/(?:blob|raw)/v{found['Version']}/([^)]*)\)", text)
    assert re.findall(r"\]\((?!https://).*", text) == []
    assert len({*ours} & list_sources()) == len({*ours}) > 20
    assert f"![The first screen of the report]({source}/raw/" in text
    assert f"git clone {source} " in text


def test_it_runs_beside_modules_of_the_same_names(binaries: Path, folder: Path) -> None:
    shown = run_in(binaries / "auditor", "list", "targets", folder=folder)
    assert "fedrec-apm" in shown
    words = ("verify", "responses:randomize", "--epsilon", "1", "--samples", "20000")
    assert "epsilon 1" in run_in(binaries / "auditor", *words, folder=folder)


def test_a_new_file_is_seen_without_installing_again(tree: Path, tmp_path: Path) -> None:
    """An editable installation maps each package to its folder."""
    copy = tmp_path / "tree"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("build"))
    ZipFile(build("editable", copy, tmp_path / "dist")).extractall(tmp_path / "site")
    new = copy / "targets" / "mechanisms" / "brand_new.py"
    new.write_text('"""Seen at once."""\n\n\nclass BrandNew:\n    """A mechanism."""\n')
    code = (
        f"import site, sys; site.addsitedir({str(tmp_path / 'site')!r})\n"
        f"sys.path += {list_packages()}\n"
        "from fedrec_auditor.auditor.plan.families import FAMILIES as f\n"
        "member = f['mechanisms'].load_class('brand-new')\n"
        "print(member.__module__, f['mechanisms'].read_summary('brand-new'))"
    )
    shown = run_in(sys.executable, "-S", "-c", code, folder=tmp_path)
    assert shown == "fedrec_auditor.targets.mechanisms.brand_new Seen at once.\n"
