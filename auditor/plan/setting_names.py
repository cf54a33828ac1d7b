"""The settings of a target by name, read from its source: nothing is imported to look a name up."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fedrec_auditor.auditor.plan.families import FAMILIES

LEARNS = "learns"
"""A setting of every target: that those under which it learns are beneath the others."""
_COMPOSED = "fedrec_auditor.targets.systems.federated"
_OURS = "fedrec_auditor."


def fields_of(name: str) -> tuple[frozenset[str], Mapping[str, str]]:
    """The fields of the target of this name with ``LEARNS``, and its ``aliases`` of them.

    InputError with near names if there is none. A plug-in is imported.

    >>> "rounds" in fields_of("fcf")[0], fields_of("lfl-sgdmf")[1]["sigma"]
    (True, 'noise_multiplier')
    """
    family = FAMILIES["targets"]
    family.check(name)
    module, _, composed = family.module(name).partition(":")
    if module.startswith(_OURS):
        own = "federated" if composed else name.replace("-", "")
        names, aliases = _read(_COMPOSED if composed else module, own)
        return names | {LEARNS}, aliases
    kind = family.member(name)
    return frozenset({LEARNS, *(f.name for f in dataclasses.fields(kind) if f.init)}), kind.aliases


@cache
def _read(module: str, own: str) -> tuple[frozenset[str], dict[str, str]]:
    """Fields and aliases of the class of this name, in any case, and of those that it extends."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    places = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_OURS)
        for alias in node.names
    }
    kinds = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    kind = next(
        kind for name, kind in kinds.items() if name.lower() in (own.lower(), f"{own}target")
    )
    names: set[str] = set()
    aliases: dict[str, str] = {}
    for base in reversed(kind.bases):
        text = ast.unparse(base).partition("[")[0]
        place = (module, text) if text in kinds else places.get(text)
        if place is not None:
            more, others = _read(str(place[0]), place[1])
            names, aliases = names | more, aliases | others
    made = any("dataclass" in ast.unparse(each) for each in kind.decorator_list)
    for node in kind.body:
        if isinstance(node, ast.AnnAssign) and made and "ClassVar" not in ast.unparse(node):
            names.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "aliases":
            assert isinstance(node.value, ast.Call)
            aliases = ast.literal_eval(node.value.args[0])
    return frozenset(names), aliases
