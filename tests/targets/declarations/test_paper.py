"""Declarations of papers are read as written, and errors name the invalid part."""

from __future__ import annotations

import ast
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import NumberLabel
from fedrec_auditor.auditor.plan.families import load_papers
from fedrec_auditor.auditor.reproductions import tables
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.systems.base import Population

ROOT = Path(__file__).parents[3]
HEAD = """
[paper]
title = "A paper"
[paper.threat]
place = "section 1"
adversary = "the server"
trusted = "the device"
[paper.symbols]
eps = "epsilon"
"""
CLAIMS = """
[[claim]]
number = "100"
system = ["one", "other"]
scope = "user / any pair / server / round"
epsilon = "spent"
delta = "delta"
statement = "In {rounds} rounds {epsilon:g} for {n_users} users."
source = "Theorem {rounds}"
note = ["Always.", { text = "Repaired.", when = { as_published = false } }]

[[claim]]
of = ["100"]
system = "one"
scope = "user / any pair / server / training"
note = "A training is {rounds} rounds."

[[claim]]
name = "any delta"
system = "one"
when = { rounds = [1, 2] }
scope = "rating / replace / release / training"
epsilon = "at"
delta = 0.1
curve = true

[[claim]]
number = "100b"
repeats = "100"
system = "other"
settings = { rounds = 7 }
statement = "The same in {rounds} rounds."
"""
TABLES = """
[[table]]
place = "Table 1"
data = "large"
protocol = "all items"
note = "note"
columns = ["HR@1", "HR@2"]
systems = { Ours = ["one", "other"] }
[table.rows]
Ours = [0.1, 0.2]
[[table]]
place = "Table 2"
data = "small"
protocol = "all items"
columns = ["HR@2"]
systems = { Ours = "one" }
[table.rows]
Ours = [0.3]
"""
POPULATION = Population(n_users=10, n_items=4)


@dataclass(frozen=True)
class System:
    """Members of a system that declarations use."""

    rounds: int = 2
    as_published: bool = True
    delta: float = 1e-5
    name: str = "one"

    @property
    def spent(self) -> float:
        return 3.0 * self.rounds

    def at(self, population: Population, delta: float) -> float:
        return population.n_users / delta

    def get_claims(self, population: Population) -> tuple[Any, ...]:
        return ()


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Paper]:
    """A paper with these declarations, as another distribution may provide it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    count = 0

    def make_paper(claims: str = CLAIMS, printed: str = TABLES, head: str = HEAD) -> Paper:
        nonlocal count
        count += 1
        folder = tmp_path / f"paper_{tmp_path.name}_{count}".replace("-", "_")
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "claims.toml").write_text(head + claims)
        (folder / "printed.toml").write_text(printed)
        return Paper.load(folder.name)

    return make_paper


def test_claims_follow_the_settings_of_their_entry(paper: Callable[..., Paper]) -> None:
    system: Any = System(rounds=3)
    first, wide = paper().get_claims("one", system, POPULATION)
    assert (first.claim.epsilon, first.delta, first.epsilon_by_delta) == (9.0, 1e-5, None)
    assert first.claim.statement == "In 3 rounds 9 for 10 users."
    assert first.claim.source == "A paper, Theorem 3"
    assert (first.note, wide.note) == ("Always.", "A training is 3 rounds.")
    assert wide.claim == first.claim
    assert str(wide.scope) == "user / any pair / server / training"
    assert wide.delta == first.delta
    repaired: Any = System(as_published=False)
    assert paper().get_claims("other", repaired, POPULATION)[0].note == "Always. Repaired."


def test_a_formula_may_hold_at_any_delta(paper: Callable[..., Paper]) -> None:
    system: Any = System(rounds=1)
    *_, curved = paper().get_claims("one", system, POPULATION)
    assert (curved.claim.epsilon, curved.claim.delta) == (100.0, 0.1)
    again = curved.convert_to_delta(0.01)
    assert (again.claim.epsilon, again.delta) == (1000.0, 0.01)


def test_repeated_entries_are_not_second_claims(paper: Callable[..., Paper]) -> None:
    made, system = paper(), System(rounds=7, name="other")
    target: Any = system
    (own,) = made.get_claims("other", target, POPULATION)
    entry = made.get_entry("100b")
    assert made.get_claim(entry, target, POPULATION) == own
    assert made.get_entry_scope(entry) == own.scope
    assert made.fill_statement(entry, target, POPULATION) == "The same in 7 rounds."


def test_the_first_table_with_a_metric_gives_its_value(paper: Callable[..., Paper]) -> None:
    first, second = paper().get_reported_metrics("one")
    assert (first.metric, first.value, first.note) == ("HR@1", 0.1, "note; data: large")
    assert (second.metric, second.value) == ("HR@2", 0.2)
    assert second.note == "note; data: large. The paper also prints 0.3, for small"
    assert [each.value for each in paper().get_reported_metrics("other")] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"head": ""}, "paper"),
        ({"claims": CLAIMS + "colour = 3\n"}, "colour"),
        ({"claims": CLAIMS.replace("server / round", "server / day")}, "day"),
        ({"claims": CLAIMS.replace("server / round", "round")}, "scope"),
        ({"claims": "= 3"}, "claims.toml"),
        ({"printed": TABLES.replace("[0.1, 0.2]", "[0.1]")}, "expected 2 numbers, got 1"),
    ],
    ids=str,
)
def test_invalid_declarations_are_named(
    paper: Callable[..., Paper], files: dict[str, str], expected: str
) -> None:
    with pytest.raises(InputError, match=r"Expected a valid .*toml") as caught:
        paper(**files)
    assert expected in str(caught.value)


def test_unknown_names_are_named(paper: Callable[..., Paper]) -> None:
    system: Any = System()
    with pytest.raises(InputError, match="got 'colour'"):
        paper(CLAIMS.replace("{n_users}", "{colour}")).get_claims("one", system, POPULATION)
    with pytest.raises(InputError, match=r"number or name of an entry of .*, got '200'"):
        paper().get_entry("200")
    nothing = paper().get_entry("100b").model_copy(update={"repeats": "", "number": "300"})
    with pytest.raises(InputError, match=r"of entry 300, got 0\. Give"):
        paper().get_claim(nothing, system, POPULATION)


def list_constants(path: Path) -> set[float]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
    }


@pytest.mark.parametrize("name", load_papers())
def test_printed_table_numbers_are_not_repeated_in_python(name: str) -> None:
    """Only numbers of three or more digits count, because shorter numbers are settings as well."""
    printed = {
        value
        for table in load_papers()[name].printed_numbers.table
        for row in table.rows.values()
        for value in row
        if math.isfinite(value) and round(value, 2) != value
    }
    folder = ROOT / "targets" / "papers" / name.replace("-", "_")
    assert folder.is_dir()
    for path in folder.rglob("*.py"):
        assert not printed & list_constants(path), path


ATTACKS = """
[[table]]
place = "Table 9"
data = "Small"
attribute = "job"
columns = ["Spy 0.5"]
[table.rows]
One = [0.4]
Two = [0.3]
[[table]]
place = "Table 8"
data = "small"
columns = ["HR@5"]
[table.rows]
One = [0.1]
[attacks]
attackers = { Spy = "attribute-tree", Mole = "attribute-knn" }
cutoff = 5
drawn = "Figure 7"
[attacks.components]
place = "Figure 8"
rows = "Two"
attributes = "job"
columns = "Mole 0.2"
[[attacks.trained]]
rows = ["One", "Two"]
data = "small"
"""


def test_declared_attacks_are_measured_again(paper: Callable[..., Paper]) -> None:
    """Attackers, metrics and cutoff are those declared."""
    parts = tables.iter_attack_parts(paper(printed=ATTACKS))
    one, two = (part.compute_rows.args[0] for part in parts)
    assert (one.hit_cutoff, one.component_scores) == (5, [])
    assert [x.place_and_hit_rate for x in (one, two)] == [("Table 8", 0.1), ("Figure 7", None)]
    (cell,), (drawn,) = two.upload_scores, two.component_scores
    assert (cell.table_name, cell.attack, cell.known_user_share, cell.printed_f1) == (
        "Table 9",
        "attribute-tree",
        0.5,
        0.3,
    )
    assert (drawn.table_name, drawn.attack, drawn.printed_f1) == ("Figure 8", "attribute-knn", None)


COMPUTED = """
[[claim]]
number = "100"
system = "one"
statement = "It is so much."
computed = "found"
[[claim.numbers]]
what = "{of}, first"
how = "counted"
below = true
[[claim.numbers]]
what = "second"
how = "measured"
"""


def test_numbers_of_a_claim_are_listed_in_turn(paper: Callable[..., Paper]) -> None:
    made = paper(claims=COMPUTED)
    module = Path(importlib.import_module(made.package).__file__ or "").with_name("numbers.py")
    module.write_text(
        "def found():\n"
        "    for of in 'ab':\n"
        "        yield 2.0, 1.0, {'of': of}\n"
        "        yield 1.0, 1.5\n"
    )
    computed = made.compute_numbers(made.get_entry("100"))
    assert [c.what for c in computed] == ["a, first", "second", "b, first", "second"]
    assert [c.word for c in computed] == [NumberLabel.RIGHT, NumberLabel.WRONG] * 2
    odd = made.get_entry("100").model_copy(update={"numbers": made.get_entry("100").numbers * 3})
    with pytest.raises(InputError, match=r"Expected 4 descriptions .* in entry 100"):
        made.compute_numbers(odd)
