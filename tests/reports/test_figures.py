"""The figures of a record: one list, names fit for files, drawings that stand alone."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.reports.figures import figures, trade_offs
from fedrec_auditor.reports.record import Record


def test_every_judged_system_has_a_ladder(record: Record) -> None:
    found = {figure.name: figure for figure in figures(record)}
    assert {"fcf-ladder", "fmf-ldp-ladder", "dplcf-sp-ladder", "dplcf-ap-ladder"} <= set(found)
    assert "fmf-ldp" in found["fmf-ldp-ladder"].title


def test_a_curve_is_drawn_of_what_beats_guessing_alone(record: Record) -> None:
    found = [figure.name for figure in figures(record) if figure.kind == "roc"]
    assert found == [f"{name}-roc-membership-server" for name in ("dplcf-ap", "fcf", "dplcf-sp")]


def test_who_is_hit_is_drawn_once_a_system(record: Record) -> None:
    """A bar for all users and one a group, with names that are no markup."""
    drawn = [figure for figure in figures(record) if figure.kind == "users"]
    assert [each.name.partition("-users-")[0] for each in drawn] == ["dplcf-ap", "fcf", "dplcf-sp"]
    text = list(ET.fromstring(drawn[1].svg).itertext())
    assert {"all users", "gender", "F", "M", "0.91"} <= set(text)


def test_a_promise_is_drawn_where_it_speaks_and_says_something(record: Record) -> None:
    upheld, of_user = record["dplcf-sp"].findings
    said = [(line.words, line.epsilon) for line in trade_offs(upheld)]
    assert said == [("claimed", 1.0), ("proved", 1.0), ("shown", 1.0)]
    assert trade_offs(of_user) == ()  # 1,682 is proved and shown; the claim is of one bit
    assert all(trade_offs(finding) == () for finding in record["fcf"].findings)


def test_an_infinite_bound_has_no_line_and_the_true_delta_has_one(record: Record) -> None:
    (refuted,) = record["dplcf-ap"].findings
    told = refuted.model_copy(update={"holds_at": 0.632})
    assert [(line.words, line.delta) for line in trade_offs(told)] == [
        ("claimed", 0.0),
        ("what does hold", 0.632),
    ]


def test_the_map_has_a_cell_a_scope_asked_and_no_markup_of_a_name(record: Record) -> None:
    first, *rest = record.findings
    evil = first.model_copy(update={"target": "<b>&"})
    drawn = next(figures(record.model_copy(update={"findings": (evil, *rest)})))
    assert drawn.kind == "who-learns"
    said = "".join(ET.fromstring(drawn.svg).itertext())
    assert "<b>&" in said
    assert "shown ≥ 5,000" in said
    cells = {(f.target, f.scope.vantage) for f in (evil, *rest)}
    named = {target for target, _ in cells}
    assert drawn.svg.count("not examined") == len(named) * len(Vantage) - len(cells)
