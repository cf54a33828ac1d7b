"""Hooks of MkDocs, which build the site from the repository's pages.

Pages link to files outside of docs/ (``../benchmarks/RESULTS.md``), and the README links to
``docs/...``. The root of the site is docs/. Linked files outside of docs/ are added to the site
under their own path, the README becomes the first page, and links are adapted. Each notebook of
examples/ becomes a page. Pages on measurements get all results, printed from the stored data. The
page on Python and the page on families get a reference of names.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
import tomllib
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files, InclusionLevel

from fedrec_auditor.auditor.judging.catalogue import judge_entries, list_entries
from fedrec_auditor.reports.writers import reproductions

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=[)#])")
TESTING = "fedrec_auditor.auditor.testing"
README = "README.md"
SPEED = "benchmarks/RESULTS.md"
RULED = re.compile(r"^(\w+)\n-{3,}$", re.MULTILINE)
PARAMETER = re.compile(r"^([\w*, ]+) : ", re.MULTILINE)
EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Sets the addresses of the site and of its repository, which pyproject.toml has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.site_url = f"{project['urls']['Documentation']}/"
    config.repo_url = project["urls"]["Repository"]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the README, the pages of the navigation, and all files that they link to."""
    sys.path.insert(0, str(ROOT))  # for benchmarks; MkDocs drops what a hook adds while it loads
    named = {README, *_named(config.nav)}
    todo = [f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")]
    todo += named
    notebooks = sorted(ROOT.glob("examples/*.ipynb"))
    todo += [f"examples/{path.name}" for path in notebooks]
    seen = set()
    while todo:
        page = todo.pop()
        if page in seen or not (ROOT / page).is_file():
            continue
        seen.add(page)
        if files.get_file_from_path(_in_site(page)) is None:
            shown = InclusionLevel.INCLUDED if page in named else InclusionLevel.NOT_IN_NAV
            path = str(ROOT / page)
            files.append(File.generated(config, _in_site(page), abs_src_path=path, inclusion=shown))
        if page.endswith(".md"):
            text = (ROOT / page).read_text(encoding="utf-8")
            todo += [_target(page, link) for link in LINK.findall(text)]
    for path in notebooks:
        page = f"examples/{path.stem}.md"
        files.append(File.generated(config, page, content=_cells(path)))
    speed, register = (import_module(f"benchmarks.{name}") for name in ("__main__", "register"))
    claims = register.collect(judge_entries(list_entries()))
    files.append(File.generated(config, SPEED, content=speed.format_page()))
    files.append(File.generated(config, "register.html", content=register.format_page(claims)))
    return files


def _cells(path: Path) -> str:
    """Returns a notebook as Markdown: its texts, its code, and the stored outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            shown = "".join(output.get("text") or output["data"]["text/plain"]).rstrip("\n")
            parts.append(f"```text\n{shown}\n```")
    return "\n\n".join([*parts, f"The notebook: [{path.name}]({path.name})\n"])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns a page with its printed results appended, and with links adapted to the site."""
    here = _in_repository(page.file.src_uri)
    folder = posixpath.dirname(page.file.src_uri) or "."
    printed = PRINTED.get(here, str)()
    return LINK.sub(
        lambda found: posixpath.relpath(_in_site(_target(here, found[1])), folder),
        f"{markdown}\n\n{printed}",
    )


def _named(nav: Any) -> list[str]:
    """Returns the paths of a navigation, relative to the repository."""
    if isinstance(nav, str):
        return [_in_repository(nav)]
    return [
        path for each in (nav.values() if isinstance(nav, dict) else nav) for path in _named(each)
    ]


def _target(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _in_site(path: str) -> str:
    return "index.md" if path == README else path.removeprefix("docs/")


def _in_repository(path: str) -> str:
    if path == "index.md":
        return README
    return f"docs/{path}" if (ROOT / "docs" / path).is_file() else path


def _sections(page: str) -> str:
    """Returns a page without its title and introduction."""
    return page[page.index("\n## ") :]


def _reproductions() -> str:
    """Returns the tables of all reproduced figures as Markdown."""
    stored = (ROOT / "docs" / "reproductions.json").read_text(encoding="utf-8")
    return _sections(
        reproductions.render_results(reproductions.RunResults.model_validate_json(stored))
    )


def _wild() -> str:
    """Returns the results for all mechanisms of public packages as Markdown."""
    return import_module("benchmarks.found_in_the_wild").format_stored_page()


def _reference(names: list[str]) -> str:
    """Returns a mkdocstrings directive for each name."""
    return "\n".join(["## Reference", "", *(f"::: {name}\n" for name in names)])


def _public() -> str:
    """Returns the reference of all public names, ordered by module."""
    return _reference(
        [
            f"{module}.{name}"
            for module in ("fedrec_auditor", TESTING)
            for name in sorted(set(import_module(module).__all__) - {"__version__"}, key=str.lower)
        ]
    )


def _contracts() -> str:
    """Returns the reference of a target's contract and of its test case."""
    return _reference([f"{TESTING}.targets.{name}" for name in ("TargetCase", "TargetContract")])


def _register(link: str) -> str:
    """Returns a link to the register, a page that exists only in the site."""
    return f"[The register]({link}) lists every claim with its verdict, to filter and search."


PRINTED = {
    README: partial(_register, "docs/register.html"),
    "docs/claims.md": partial(_register, "register.html"),
    "docs/reproductions.md": _reproductions,
    "docs/found-in-the-wild.md": _wild,
    "docs/python.md": _public,
    "docs/extending.md": _contracts,
}


class Docstrings(griffe.Extension):
    """Renders docstrings as Markdown: bold headings, lists of parameters, examples as sessions."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of one function, class or attribute."""
        if obj.docstring is not None:
            text = RULED.sub(r"**\1**\n", obj.docstring.value)
            text = PARAMETER.sub(r"- `\1`: ", text)
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)
