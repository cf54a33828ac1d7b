"""What users do with a record: print it, look at it, narrow it, tabulate it, save it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import html, store
from fedrec_auditor.reports.glance import hidden_words, shares
from fedrec_auditor.reports.record import Record
from tests.reports.conftest import finding, scope, upper
from tests.reports.test_html import EVIL, Page, poisoned


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
    for said in (
        "1 false 0 unproved 2 proved 1 no claim",
        "943 users",
        got,
        "Withdraw",
    ):
        assert said in page.said
        assert said in Page(html.render(record)).said


def test_its_style_touches_nothing_else_on_the_page(record: Record) -> None:
    style = record._repr_html_().split("<style>")[1].split("</style>")[0]
    for rule in style.split("{")[:-1]:
        selector = rule.rpartition("}")[2].rpartition("*/")[2].strip()
        if not selector.startswith("@"):
            assert all(".privacy-audit" in part for part in selector.split(",")), selector


def test_every_string_is_escaped(record: Record) -> None:
    evil = Record.model_validate(poisoned(record.model_dump(mode="python")))
    text = evil._repr_html_()
    assert "<script" not in text
    assert "&lt;script" in text
    assert EVIL in evil.findings[0].target


def test_the_cards_add_up_to_all_systems(record: Record) -> None:
    assert counts(record) == [1, 0, 2, 1]
    assert hidden_words(record).startswith("None of 4 systems is proved")
    first = record.findings[0]
    user = scope("user", "training")
    promised = first.claim.__class__(epsilon=1.0, scope=user, statement="s", source="s")
    hidden = finding("kept", promised, user, upper(1.0, user, "a proof"), None)
    vacuous = finding("wide", promised, user, upper(9.0, user, "a proof"), None)
    bare = finding("bare", promised, user, None, None)
    changed = record.model_copy(update={"findings": (hidden, vacuous, bare), "attacks": ()})
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


def test_printing_it_tells_the_systems_the_worst_first(record: Record) -> None:
    lines = str(record).splitlines()
    assert lines[0].startswith("Claims: 1 false")
    assert [line.split(":")[0] for line in lines[1:3]] == ["- dplcf-ap", "- fcf"]
    assert "](" not in str(record)
    assert len(repr(record)) < 150
    broken = record.model_copy(update={"errors": ("no memory",)})
    assert str(broken).endswith("error: no memory")


def test_what_is_saved_is_what_is_read(record: Record, tmp_path: Path) -> None:
    folder = record.save(str(tmp_path / "out"))
    assert sorted(path.name for path in folder.iterdir()) == sorted(store.FILES)
    assert Record.read(str(folder)) == record


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
