"""The map of attacks: a row a figure and a place where one looks, a column a part."""

from __future__ import annotations

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.reports.attack_map import WHOLE, AttackMap
from fedrec_auditor.reports.record import Record


def test_parts_are_columns_and_every_row_has_its_cell(record: Record) -> None:
    whole = record.attacks[0].model_copy(update={"metric": "gender macro F1 (30% known)"})
    item = whole.model_copy(update={"metric": "gender macro F1 (30% known, item only)"})
    curve = record.attacks[1]
    found = AttackMap.of([item, curve, whole])
    assert found.parts == (WHOLE, "item only")
    first, second = found.rows
    assert (first.figure, first.cells) == ("gender macro F1 (30% known)", (whole, item))
    assert (second.attack, second.cells) == ("membership", (curve, None))


def test_vantages_are_rows_of_their_own(record: Record) -> None:
    one = record.attacks[1]
    other = one.model_copy(update={"vantage": Vantage.RELEASE})
    assert len(AttackMap.of([one, other]).rows) == 2


def test_what_is_guessed_is_said_once_where_it_is_the_same_of_all_parts(record: Record) -> None:
    whole = record.attacks[0].model_copy(update={"metric": "gender macro F1 (30% known)"})
    item = whole.model_copy(update={"metric": "gender macro F1 (30% known, item only)"})
    (row,) = AttackMap.of([whole, item]).rows
    assert row.guessed == whole.baseline
    (row,) = AttackMap.of([whole, item.model_copy(update={"baseline": 0.1})]).rows
    assert row.guessed is None
