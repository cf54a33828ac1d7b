"""No public class name is defined twice in the source."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.test_imports import ROOT, modules


def test_no_public_class_name_is_defined_twice() -> None:
    found = defaultdict(list)
    for path in modules().values():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert twice == {}
