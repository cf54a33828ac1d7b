"""The lint of texts finds what the house style forbids, and nothing in plain sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import wording

BREACHES = {
    "opening": "Of the release all but the sum.",
    "pronoun": "It is drawn anew.",
    "participle": "Returns what is revealed.",
    "per": "A table with a row a user.",
    "not": "Whether this is no number.",
    "so many": "Draws so many outputs.",
    "tell": "The vector tells the user.",
}
PLAIN = "Returns one row per user, of shape (n, d), with as many columns as the model has."


@pytest.mark.parametrize("rule", wording.RULES)
def test_each_rule_finds_its_breach(rule: str, tmp_path: Path, monkeypatch) -> None:
    """In a docstring, and in the text under a constant."""
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    module, breach = tmp_path / "module.py", BREACHES[rule]
    module.write_text(f'"""{breach}\n\n{PLAIN}\n"""\nN = 1\n"""{breach}"""\n', encoding="utf-8")
    found = [kind for kind, _ in wording.list_breaches(module)]
    assert found == [f"{rule} in docstring", f"{rule} in comment"]


def test_a_name_of_long_scope_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    module = tmp_path / "module.py"
    gap = "\n" * 12
    module.write_text(f"def f():\n    found = 1{gap}    return found\n", encoding="utf-8")
    assert [kind for kind, _ in wording.list_breaches(module)] == ["name"]
    module.write_text("def f():\n    found = 1\n    return found\n", encoding="utf-8")
    assert not [*wording.list_breaches(module)]
