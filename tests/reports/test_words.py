"""Every word of the vocabulary has its words in a report."""

from __future__ import annotations

from enum import StrEnum

import pytest

from accountants.scope import Adjacency, Horizon, Unit, Vantage
from accountants.verdict import Verdict
from reports import words


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Unit, words.UNITS),
        (Adjacency, words.ADJACENCIES),
        (Vantage, words.VANTAGES),
        (Horizon, words.HORIZONS),
        (Verdict, words.VERDICTS),
        (Verdict, words.SIGNS),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_nothing_is_left_without_words(kind: type[StrEnum], told: dict[StrEnum, str]) -> None:
    assert set(told) == set(kind)
    assert len(set(told.values())) == len(kind)
