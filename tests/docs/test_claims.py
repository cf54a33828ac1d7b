"""docs/claims.csv has every statement's verdict and numbers; docs/claims.md sums them up.

If a test fails, ``python -m tests.docs.test_claims`` writes the table; review the change.
"""

from __future__ import annotations

import csv
import re

import pytest

from fedrec_auditor.accountants.statements import Basis
from fedrec_auditor.accountants.verdict import NumberLabel, Verdict
from fedrec_auditor.auditor.judging.catalogue import (
    find_entries,
    judge_entries,
    list_entries,
    make_epsilon_tables,
)
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.reports.documents import catalogue
from fedrec_auditor.reports.documents.catalogue import CatalogueRow, EpsilonTableRow
from fedrec_auditor.reports.say import format_ceil_4_digits, format_floor_4_digits, format_number
from fedrec_auditor.targets.papers.privrec import numbers
from fedrec_auditor.targets.systems.base import Population
from tests.docs.blocks import ROOT
from tests.points import later

TABLE = ROOT / "docs" / "claims.csv"
PAGE = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
HEAD = ("number", "system", "kind", "basis", "verdict", "claimed", "holds")
# Numbers of the entries that the page summarises, by verdict.
SHORT = {
    Verdict.CONSISTENT: "1 2 8 15 17 26b 28 34 35 36 40b",
    Verdict.VIOLATED: "2b 6 7 12 22 23 24",
    Verdict.INCOMPARABLE: "4 8b 16 17b 20",
    Verdict.NO_CLAIM: "22b 22c 33 38",
    None: "32 34d 35d 39b 40e 41c",  # statements without an epsilon
}
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")


def get_line(row: CatalogueRow) -> tuple[str, ...]:
    """A line of the table for one statement."""
    judgement = ", ".join(word.label for word in (row.verdict, row.arithmetic) if word is not None)
    words = (judgement, catalogue.describe_claim(row), catalogue.format_provable(row))
    return (row.number, row.target, row.kind.value, row.basis.value, *words)


def get_row(row: EpsilonTableRow) -> tuple[str, ...]:
    """A line of the table for an epsilon printed in a paper's table."""
    place = f"15, Table {row.table}: {row.clients}/{row.n_users}, delta {format_number(row.delta)}"
    holds = f"{format_floor_4_digits(row.lower)} to {format_ceil_4_digits(row.upper)}"
    return (place, "dp-privrec", "privacy", "printed", "", f"{row.printed:.4f}", holds)


def stored() -> list[tuple[str, ...]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [tuple(line) for line in csv.reader(file)]


def test_every_statement_has_its_line(judged: tuple[CatalogueRow, ...]) -> None:
    lines = stored()
    assert lines[: len(judged) + 1] == [HEAD, *map(get_line, judged)]
    assert len(lines) == 1 + len(judged) + len(list(numbers.printed_epsilons()))


@pytest.mark.parametrize("step", [9, later(1)])
def test_epsilons_of_tables_have_their_lines(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line in stored() if " Table " in line[0]]
    every = tuple(numbers.printed_epsilons())
    places = range(0, len(every), step)
    monkeypatch.setattr(numbers, "printed_epsilons", lambda: [every[place] for place in places])
    (made,) = make_epsilon_tables()
    assert [lines[place] for place in places] == [get_row(row) for row in made.rows]


def test_counts_of_labels_on_the_page_are_current(judged: tuple[CatalogueRow, ...]) -> None:
    assert catalogue.describe_label_counts(judged) in PAGE.replace("\n", " ")


def test_distinct_statements_of_json_are_counted_as_on_the_page(
    judged: tuple[CatalogueRow, ...],
) -> None:
    """Distinct by ``repeats``, or by ``number`` if that is empty."""
    data = [row.model_dump(mode="json") for row in judged]
    assert any(row["repeats"] for row in data)
    for basis in (Basis.PRINTED, Basis.COMPUTED, Basis.DERIVED):
        (told,) = re.findall(rf"\d+ {basis} statements[^.]*", PAGE.replace("\n", " "))
        for field, word in (("verdict", Verdict.VIOLATED), ("arithmetic", NumberLabel.WRONG)):
            mine = (row for row in data if (row["basis"], row[field]) == (basis, word))
            count = len({row["repeats"] or row["number"] for row in mine})
            assert (f" {count} {word.label}" in told) is (count > 0)


def test_the_summary_gives_the_verdicts_of_its_entries(judged: tuple[CatalogueRow, ...]) -> None:
    stated = {number: verdict for verdict, named in SHORT.items() for number in named.split()}
    found = {row.number: row.verdict for row in judged}
    named = {
        each
        for group in re.findall(r"\(entr(?:y|ies) ((?:\d+\w?(?:, )?)+)\)", " ".join(PAGE.split()))
        for each in group.split(", ")
    }
    assert named == set(stated)
    assert {number: found[number] for number in named} == stated


def test_violated_claims_have_an_exact_bound_and_no_proof_is_unsound(
    judged: tuple[CatalogueRow, ...],
) -> None:
    assert Verdict.UNSOUND not in {row.verdict for row in judged}
    for row in judged:
        if row.verdict is Verdict.VIOLATED:
            assert row.claimed_epsilon is not None
            assert (row.exact_lower_epsilon or 0.0) > row.claimed_epsilon, row.number


def test_derived_claims_are_not_labelled_false(judged: tuple[CatalogueRow, ...]) -> None:
    derived = [row for row in judged if row.basis is Basis.DERIVED]
    accusing = {Verdict.VIOLATED, NumberLabel.WRONG}
    assert not {row.number for row in derived if {row.verdict, row.arithmetic} & accusing}
    exceeded = {row.number for row in derived if row.verdict is Verdict.NO_CLAIM}
    assert {"24b", "30", "33"} <= exceeded  # each was once labelled false
    assert all(
        row.finding.claim.basis is Basis.DERIVED for row in derived if row.number in exceeded
    )


def test_notes_name_claims_false_only_at_other_settings(judged: tuple[CatalogueRow, ...]) -> None:
    """A system's report at default settings names the entry, so as not to contradict the catalogue.

    Entries 6, 22 and 24 need no note: they are false at the default settings, too.
    """
    for row in judged:
        entry = find_entries(row.number)[0]
        if row.verdict is Verdict.VIOLATED and row.settings and entry.epsilon is not None:
            system = make_target(row.target, Plan())
            notes = [c.note for c in system.get_claims(Population(n_users=943, n_items=1682))]
            told = any(f"`auditor claims {row.number}`" in note for note in notes)
            assert told is (row.number not in {"6", "22", "24"}), row.number


def test_the_summary_has_the_numbers_of_its_entries(judged: tuple[CatalogueRow, ...]) -> None:
    """Numbers with a decimal point or thousands separator stand in an entry of their paragraph."""
    rows = {row.number: row for row in judged}
    checked = 0
    for line in re.split(r"\n(?=- |\n)", PAGE[PAGE.index("## What is false") :]):
        named = re.findall(r"\b(\d+[a-z]?)\b(?=[^()]*\))", line)
        about = [rows[each] for each in named if each in rows]
        known = [
            float(text.replace(",", "")) for row in about for text in NUMBER.findall(get_text(row))
        ]
        for text in NUMBER.findall(line) if about else ():
            if "." in text or "," in text:
                digits = len(text.partition(".")[2])
                value = float(text.replace(",", ""))
                assert any(round(each, digits) == value for each in known), (text, line)
                checked += 1
    assert checked > 10


def get_text(row: CatalogueRow) -> str:
    """All words and numbers of an entry."""
    words = (row.statement, row.claimed, row.provable, row.reason, *map(str, row.settings.values()))
    sizes = f"{row.n_users} {row.n_items}"
    more = (sizes, catalogue.format_claimed_formula(row), catalogue.format_provable(row))
    return " ".join((*words, *more, *(f"{each.claimed} {each.right}" for each in row.figures)))


def test_entries_outside_the_threat_model_are_these_three(judged: tuple[CatalogueRow, ...]) -> None:
    """Claims are judged against the paper's own adversaries; its trusted parties follow the
    protocol.
    """
    beyond = {row.number for row in judged if row.finding and row.finding.outside_model}
    assert beyond == {"20c", "20d", "20e"}  # unprinted distributions and budgets


if __name__ == "__main__":
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        (declared,) = make_epsilon_tables()
        writer.writerows(
            [HEAD, *map(get_line, judge_entries(list_entries())), *map(get_row, declared.rows)]
        )
