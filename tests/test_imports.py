"""Imports and names: no circle of modules, nothing private to another folder, no class twice.

Imports in functions and for types only count like all others.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("accountants", "attacks", "auditor", "reports", "targets")
# Modules that speak of the parts of another top-level folder, and so may import them.
MAY_REACH = {
    "auditor.catalogue": "targets",
    "auditor.games": "attacks",
    "auditor.reproductions": "attacks",
    "auditor.tracing": "targets",
}


@functools.cache
def modules() -> dict[str, Path]:
    found = {}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(("fedrec_auditor", *parts)).removesuffix(".__init__")
        found[name] = path
    return found


@functools.cache
def trees() -> dict[str, ast.Module]:
    """The parsed sources, by module."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules().items()}


def imported(tree: ast.Module, known: set[str]) -> set[str]:
    """The modules among ``known`` that a source imports anywhere."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & known) or {node.module}
    return found & known


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules left when those that import none of the others are taken away, again and again."""
    left = {name: set(uses) for name, uses in graph.items()}
    while done := [name for name, uses in left.items() if not uses & left.keys()]:
        for name in done:
            del left[name]
    return sorted(left)


def test_a_circle_is_found_wherever_it_is_hidden() -> None:
    sources = {
        "a": "def f():\n    from b import x",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a",
        "c": "import a",
        "d": "",
    }
    graph = {name: imported(ast.parse(source), set(sources)) for name, source in sources.items()}
    assert circle(graph) == ["a", "b", "c"]


def test_no_modules_import_each_other() -> None:
    known = set(trees())
    assert len(known) > 300
    graph = {name: imported(tree, known) - {name} for name, tree in trees().items()}
    assert circle(graph) == []


def private(name: str, importer: str) -> bool:
    """Whether the dotted ``name`` is private to others than the module ``importer``.

    A name with an underscore belongs to its own folder, what is below ``parts`` to its top-level
    folder, but for those who ``MAY_REACH`` it.
    """
    words, place = name.split("."), importer.split(".")
    for at, word in enumerate(words[1:], 1):
        if word.startswith("_") and not word.startswith("__"):
            owner = (
                words[: at - 1]
                if ROOT.joinpath(*words[:at]).with_suffix(".py").is_file()
                else words[:at]
            )
            return place[: len(owner)] != owner
        if word == "parts" and words[0] != place[0]:
            reaching = ".".join(place[:2])
            return MAY_REACH.get(reaching) != words[0]
    return False


def reaches(tree: ast.Module, importer: str) -> set[str]:
    """What a source imports that is private to others."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedrec_auditor."):
            module = str(node.module).removeprefix("fedrec_auditor.")
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in found if private(name, importer)}


def test_no_module_imports_what_is_private_to_another_folder() -> None:
    found = {
        (importer, name)
        for importer, tree in trees().items()
        for name in reaches(tree, importer.removeprefix("fedrec_auditor."))
    }
    assert found == set()


def test_what_is_private_is_found() -> None:
    source = "from fedrec_auditor.{} import {}"
    for module, name, importer in (
        ("targets.datasets.parts.source", "DataFiles", "auditor.runner"),
        ("attacks.parts", "bits", "auditor.runner"),
        ("attacks.base", "_hidden", "auditor.runner"),
        ("attacks._hidden", "name", "auditor.runner"),
        ("targets.systems._hidden", "name", "targets.mechanisms.laplace_mechanisms"),
    ):
        assert reaches(ast.parse(source.format(module, name)), importer), (module, importer)
    for module, name, importer in (
        ("targets.mechanisms.parts.bases", "noise", "targets.papers.privrec.systems"),
        ("targets.papers.dplcf.jaccard", "similarity", "auditor.catalogue"),
        ("attacks.base", "_hidden", "attacks.likelihood_ratio"),
        ("attacks.base", "__doc__", "auditor.runner"),
        ("targets.datasets.base", "Dataset", "auditor.runner"),
    ):
        assert not reaches(ast.parse(source.format(module, name)), importer), (module, importer)


def test_no_public_class_name_is_defined_twice() -> None:
    found = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
