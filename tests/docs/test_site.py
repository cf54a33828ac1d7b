"""All pages are in the site's navigation, and relative links resolve.

The site is built as ``make docs`` does, with warnings as errors; that needs the extra `docs`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedrec_auditor
from fedrec_auditor.auditor import testing
from fedrec_auditor.auditor.plan.families import FAMILIES
from tests.docs.blocks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
ID = re.compile(r'id="(fedrec_auditor[\w.]+)"')
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def list_navigation() -> list[str]:
    """The pages of the site's navigation, in its order."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"^ +- [^:]+: (\S+\.md)$", text[text.index("\nnav:") :], re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Ids, and anchors of headings as both a code host and the site make them."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    return made | set(re.findall(r'id="([^"]+)"', text))


def test_every_page_is_in_the_navigation_once() -> None:
    found = list_navigation()
    assert len(found) == len(set(found))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        there = page.parent / path if path else page
        assert there.exists(), path
        assert not anchor or anchor in anchors(there), f"{path}#{anchor}"


def test_contributing_has_a_row_per_family() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| (\w+) \| `([\w/]+?)(?:/|\.py)(?:<paper>/)?` \|", text, re.MULTILINE)
    )
    packages = {kind: family.package for kind, family in FAMILIES.items()}
    assert {
        kind: f"fedrec_auditor.{folder.replace('/', '.')}" for kind, folder in rows.items()
    } == packages


def test_the_citation_is_of_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {PROJECT['version']}\n" in cited
    assert f"license: {PROJECT['license']}\n" in cited
    assert f"  - name: {PROJECT['authors'][0]['name']}\n" in cited


PLACEHOLDER = re.compile(r"(?:https://|[\w-]+@)example\.org[^\s)>\"@]*")


def test_texts_repeat_the_addresses_and_the_version_of_pyproject() -> None:
    """pyproject.toml is their only source: the test lists the other texts to change with them."""
    known = (*PROJECT["urls"].values(), PROJECT["authors"][0]["email"])
    paths = [*PAGES, *(ROOT / ".github").rglob("*.yml"), *ROOT.glob("*.yml"), ROOT / "CITATION.cff"]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    found = [(name, link) for name in texts for link in PLACEHOLDER.findall(texts[name])]
    assert sorted({name for name, link in found if not link.startswith(known)}) == []
    assert sum(text.count(PROJECT["urls"]["Repository"]) for text in texts.values()) >= 5
    gate = re.findall(r"(?:fedrec-auditor@|rev: )v([\d.]+)", texts["docs/ci-gate.md"])
    assert gate == [PROJECT["version"]] * 3


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Built by the Makefile's command, in an environment with only the package."""
    for module in ("mkdocs", "mkdocstrings"):
        pytest.importorskip(module, reason="the site is built where the extra `docs` is installed")
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    result = re.search(r"^docs: .*\n\t(.*)$", rules, re.MULTILINE)
    assert result
    command = result[1].replace("$(BIN)", str(Path(sys.executable).parent)).split()
    subprocess.run(["make", "tree"], cwd=ROOT, check=True)
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name in ("index.html", "claims/index.html"):
        page = tmp_path / "site" / name
        (link,) = re.findall(r'href="([^"]*register\.html)"', page.read_text(encoding="utf-8"))
        assert (page.parent / link).is_file()
    pages = [tmp_path / "site" / name / "index.html" for name in ("python", "extending")]
    shown = {result for page in pages for result in ID.findall(page.read_text(encoding="utf-8"))}
    public = {f"fedrec_auditor.{name}" for name in fedrec_auditor.__all__}
    public |= {f"{testing.__name__}.{name}" for name in testing.__all__}
    public |= {f"{testing.__name__}.targets.{name}" for name in ("TargetCase", "TargetContract")}
    assert public - shown == {"fedrec_auditor.__version__"}
