"""docs/accountants.md: its table of figures is true, its tables of events are complete."""

from __future__ import annotations

import re

import pytest

from fedrec_auditor.accountants.events.documents import READ, read_event
from fedrec_auditor.auditor.spending.spend import account
from tests.accountants.published import PRINTED
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "accountants.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| ([\d./, e-]+) \| ([\d.]+) \| [^|]+ \| ([\d.]+) to ([\d.]+) \|$", re.MULTILINE
)


def test_the_event_of_the_page_is_accounted() -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert read_event(text)
    found = account(event=text, delta=1e-6).total.accounted
    assert found.epsilon > 1.7


def test_the_table_of_events_has_all_that_are_read() -> None:
    named = set(re.findall(r"`(\w+DpEvent)`", TEXT))
    assert named == set(READ)


def number(text: str) -> float:
    over, _, under = text.replace(",", "").partition("/")
    return float(over) / float(under or 1)


@pytest.mark.parametrize("row", ROW.findall(TEXT), ids=lambda row: row[0])
def test_the_figures_of_the_page(row: tuple[str, str, str, str]) -> None:
    """And other libraries print no less than ours, and not much more."""
    rate, noise, rounds, delta = settings = tuple(number(part) for part in row[0].split(", "))
    printed = [p for p in PRINTED if (p.rate, p.noise, p.steps, p.delta) == settings]
    found = account(gaussian=noise, rate=rate, rounds=int(rounds), delta=delta).total
    low, high = float(row[2]), float(row[3])
    shown, proved = found.measured.epsilon, found.accounted.epsilon
    assert low <= shown <= proved <= high < low + 6e-4
    assert any(p.epsilon == pytest.approx(float(row[1]), abs=5e-4) for p in printed)
    for other in printed:
        assert proved <= other.epsilon + 5e-8
        assert other.error is None or other.epsilon <= shown + other.error


def test_there_are_figures() -> None:
    assert len(ROW.findall(TEXT)) == len({(p.rate, p.noise, p.steps) for p in PRINTED})
