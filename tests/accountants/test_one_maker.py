"""Tests that only ``accountants/verdict.py`` makes verdicts and labels of numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrec_auditor.accountants.verdict import NumberLabel, Verdict

ROOT = Path(__file__).parents[2]
MAKER = ROOT / "accountants" / "verdict.py"
SOURCES = [
    path
    for folder in ("accountants", "targets", "attacks", "auditor", "reports")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != MAKER
]
KINDS = ("Verdict", "NumberLabel")
WORDS = {str(word) for kind in (Verdict, NumberLabel) for word in kind}


def find_makers(source: str) -> list[int]:
    """Lines that make a judgement or use a verdict as a value.

    Comparisons, lookups, orderings and meanings of verdicts do not count.
    """
    if not any(word in source for word in ("Judgement", *KINDS, *WORDS)):
        return []
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def is_harmless(node: ast.AST) -> bool:
        parent = parents[node]
        if isinstance(parent, ast.Tuple | ast.Set | ast.List):
            top = isinstance(parents.get(parents[parent]), ast.Module)
            return top or is_harmless(parent)
        if isinstance(parent, ast.Dict):
            return node in parent.keys
        return isinstance(parent, ast.Compare | ast.Subscript | ast.Attribute | ast.Expr)

    def judging_lines() -> Iterator[int]:
        for node in ast.walk(tree):
            call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if call and node.func.id in ("Judgement", *KINDS):
                yield node.lineno
            member = (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in KINDS
            )
            word = isinstance(node, ast.Constant) and node.value in WORDS
            if (member or word) and not is_harmless(node):
                yield node.lineno

    return sorted(set(judging_lines()))


def test_no_verdict_is_made_elsewhere() -> None:
    lines = {str(path): find_makers(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: found for path, found in lines.items() if found} == {}


@pytest.mark.parametrize(
    "source",
    [
        "Verdict.VIOLATED if exceeds(bound, claim) else Verdict.CONSISTENT",
        "def judged(bound):\n    return Verdict.CONSISTENT",
        "found = Verdict('VIOLATED')",
        "Judgement(verdict=word, is_vacuous=False, reason='')",
        "Finding(verdict=Verdict.UNSUBSTANTIATED)",
        "Finding(verdict='CONSISTENT')",
        "row.model_copy(update={'verdict': Verdict.CONSISTENT})",
        "word = NumberLabel.RIGHT if close else NumberLabel.WRONG",
        "def both():\n    return [Verdict.VIOLATED]",
    ],
)
def test_a_second_maker_is_found(source: str) -> None:
    assert find_makers(source)


@pytest.mark.parametrize(
    "source",
    [
        "failed = found.verdict is Verdict.VIOLATED or found.verdict in (Verdict.UNSOUND, 'WRONG')",
        "STYLES = {Verdict.VIOLATED: 'red'}\nstyle = STYLES[Verdict.VIOLATED]",
        "ORDER = (Verdict.UNSOUND, Verdict.VIOLATED)",
        "text = Verdict.NO_CLAIM.meaning\nfor word in tuple(Verdict): pass",
    ],
)
def test_reading_a_verdict_is_not_making_one(source: str) -> None:
    assert not find_makers(source)
