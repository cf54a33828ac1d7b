"""Uses of a record: print it, look at it, narrow it, tabulate it, save it."""

from __future__ import annotations

import csv
import io
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import html
from fedrec_auditor.reports.files import TABLES, csv_table, write_tables
from fedrec_auditor.reports.glance import glances, hidden_words, shares
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import Finding, MessagesRow, UtilityRow
from fedrec_auditor.reports.section import anchors
from tests.reports.conftest import finding, glance_of, scope, upper, vary
from tests.reports.test_html import Page


def counts(record: Record) -> list[int]:
    return [each.count for each in shares(record)]


def test_a_notebook_shows_the_first_screen_of_the_report(record: Record) -> None:
    text = record._repr_html_()
    page = Page(text)
    assert page.count("script") == page.count("link") == page.count("img") == page.count("a") == 0
    assert len(text) < 20_000
    order = ["dplcf-ap", "fcf", "dplcf-sp", "fmf-ldp"]
    assert sorted(order, key=page.said.index) == order
    got = "is picked 81.6% of the time, 50% without the uploads"
    for said in ("1 false 0 unproved 2 proved 1 no claim", "943 users", got, "Withdraw"):
        assert said in page.said
        assert said in Page(html.render(record)).said


def test_its_style_touches_nothing_else_on_the_page(record: Record) -> None:
    style = record._repr_html_().split("<style>")[1].split("</style>")[0]
    for rule in style.split("{")[:-1]:
        selector = rule.rpartition("}")[2].rpartition("*/")[2].strip()
        if not selector.startswith("@"):
            assert all(".privacy-audit" in part for part in selector.split(",")), selector


def test_the_cards_add_up_to_all_systems(record: Record) -> None:
    assert counts(record) == [1, 0, 2, 1]
    assert hidden_words(record).startswith("None of 4 systems is proved")
    first = record.findings[0]
    user = scope("user", "training")
    promised = first.claim.__class__(epsilon=1.0, scope=user, statement="s", source="s")
    hidden = finding("kept", promised, user, upper(1.0, user, "a proof"), None)
    vacuous = finding("wide", promised, user, upper(9.0, user, "a proof"), None)
    bare = finding("bare", promised, user, None, None)
    changed = vary(record, findings=(hidden, vacuous, bare), attacks=())
    assert counts(changed) == [0, 2, 1, 0, 4]
    # Wide and bare are unproved; an epsilon of 9 hides nobody.
    assert hidden_words(changed).startswith("1 of 7 systems is proved")


def test_one_target_is_all_that_concerns_it(record: Record) -> None:
    one = record["dplcf-ap"]
    assert {row.target for row in (*one.findings, *one.attacks, *one.skipped)} == {"dplcf-ap"}
    assert one.violated == record.violated
    assert [each.verdict for each in record.violated] == [Verdict.VIOLATED]
    assert repr(one).startswith("dplcf-ap: ✗ false. Epsilon is infinite, exactly")
    assert record["fcf"].violated == ()
    with pytest.raises(InputError, match=r"one of fcf, fmf-ldp, dplcf-sp, dplcf-ap, got 'nobody'"):
        _ = record["nobody"]


def test_a_table_has_a_column_a_number(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pandas(ModuleType):
        DataFrame = staticmethod(lambda rows: rows)

    monkeypatch.setitem(sys.modules, "pandas", Pandas("pandas"))
    rows: Any = record.to_frame()
    assert len(rows) == len(record.findings)
    assert len({tuple(row) for row in rows}) == 1
    for row, source in zip(rows, record.findings, strict=True):
        assert row["claim.epsilon"] == source.claim.epsilon
        assert row["scope.unit"] == source.scope.unit
        assert type(row["verdict"]) is str
        shown = None if source.measured is None else source.measured.epsilon
        assert row["measured.epsilon"] == shown
    assert "accounted" not in rows[0]
    attacks: Any = record.to_frame("attacks")
    assert [row["baselines.random"] for row in attacks] == [0.5] * len(record.attacks)
    with pytest.raises(InputError, match=r"Expected one of findings, .*, got 'plan'"):
        record.to_frame("plan")


def test_without_pandas_the_remedy_is_named(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pip install pandas.*record\.attacks"):
        record.to_frame("attacks")


def with_one(record: Record, finding: Finding) -> Record:
    none = dict.fromkeys(("measurements", "attacks", "skipped", "utility"), ())
    return vary(record, findings=(finding,), **none)


def test_what_is_measured_under_an_assumption_is_not_shown(record: Record) -> None:
    one = record["dplcf-sp"].findings[0]
    doubtful = replace(one.measured, epsilon=77.0, assumptions=("scores are Gaussian",))
    changed = with_one(record, vary(one, measured=doubtful))
    (glance,) = glances(changed)
    said = " ".join((glance.sentence, glance.head, glance.about, glance.line, glance.todo))
    assert "77" not in said
    assert "shown" not in said


def test_a_proof_under_an_assumption_hides_nobody_for_sure(record: Record) -> None:
    every = next(f for f in record["dplcf-sp"].findings if f.scope.unit is Unit.USER)
    proof = replace(every.accounted, epsilon=1.0)
    sure = vary(every, accounted=proof, measured=None)
    assumed = vary(sure, accounted=replace(proof, assumptions=("luck",)))
    said = [hidden_words(with_one(record, each)) for each in (sure, assumed)]
    assert [words.split()[0] for words in said] == ["1", "None"]


def test_a_training_that_broke_down_is_told_with_what_an_attacker_got(record: Record) -> None:
    """Silent messages are told if they are most, and that training broke unless utility is good."""
    rows = [row for row in record.utility if row.target == "fcf"]
    flat = [vary(row, ci_low=0.0, ci_high=1.0) for row in rows]
    assert rows

    def got(silent: int, utility: list[UtilityRow]) -> tuple[str, str]:
        told = MessagesRow(target="fcf", sent=100, empty=silent, oversized=1)
        changed = vary(record, messages=(told,), utility=tuple(utility))
        one = glance_of(changed, "fcf")
        return one.got, one.got_words

    for words in got(70, flat):
        assert words.endswith("; the training broke down: 71 of 100 messages tell nothing")
    for words in (*got(70, rows), *got(70, [])):
        assert words.endswith("; 71 of 100 messages tell nothing")
    for words in got(49, flat):
        assert "messages" not in words


def test_of_a_false_claim_it_is_said_how_many_times_it_is_exceeded(record: Record) -> None:
    finding = record["dplcf-ap"].headline_finding
    for least, said in ((1.6662, "1.66 times as much"), (20.0, "20 times"), (math.inf, "")):
        shown = replace(finding.measured, epsilon=least)
        changed = vary(record, findings=(vary(finding, measured=shown),))
        sentence = glance_of(changed, "dplcf-ap").sentence
        assert ("times" in sentence) is bool(said)
        assert said in sentence


def test_a_system_called_like_a_finding_takes_another_place(record: Record) -> None:
    first, *rest = record.findings
    bold = vary(first, target="dplcf-ap-interaction-server-report")
    found = anchors(vary(record, findings=(bold, *rest)))
    assert found["dplcf-ap"].findings == ("dplcf-ap-interaction-server-report-2",)


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t=", "\r@", " ="])
def test_no_text_is_a_formula_to_a_spreadsheet(record: Record, sign: str) -> None:
    row = vary(record.findings[0], target=f"{sign}cmd|' /C calc'!A0")
    (read,) = csv.DictReader(io.StringIO(csv_table(vary(record, findings=(row,)), "findings")))
    assert read["target"] == f"'{sign.strip()}cmd|' /C calc'!A0"
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in read.values())


def test_all_are_written(record: Record, tmp_path: Path) -> None:
    assert write_tables(record, tmp_path / "new") == TABLES
    files = {path.name for path in (tmp_path / "new").iterdir()}
    assert files == {f"{name}.csv" for name in TABLES}


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_is_a_table(record: Record, name: str) -> None:
    empty = record.model_copy(update=dict.fromkeys(TABLES, ()))
    assert csv_table(empty, name) == "target\n"
