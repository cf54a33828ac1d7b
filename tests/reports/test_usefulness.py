"""Utility in a line: beside guessing, the paper and the unprotected version; useless by a rule."""

from __future__ import annotations

import pytest

from fedrec_auditor.reports import html, markdown
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import UtilityRow
from fedrec_auditor.reports.usefulness import CUT, beats_guessing, telling, utility_line
from tests.reports.conftest import utility


def of(record: Record, *rows: UtilityRow) -> str:
    changed = record.model_copy(update={"utility": rows})
    return utility_line(changed[rows[0].target], changed)


def test_the_line_stands_beside_guessing_the_paper_and_the_unprotected_version(
    record: Record,
) -> None:
    plain = utility("fcf", 0.62, 0.66)
    noisy = utility("fmf-ldp", 0.31, 0.45).model_copy(update={"unprotected": "fcf"})
    said = of(record, noisy, plain)
    assert said == (
        "HR@10 0.31 [0.28, 0.34] (leave one out, 99 sampled negatives), against 0.1 at random; "
        "0.45 in the paper, under its own conditions; 0.62 without protection (fcf)."
    )


def test_with_other_settings_it_is_not_the_same_system(record: Record) -> None:
    noisy = utility("fmf-ldp", 0.31, None).model_copy(update={"unprotected": "fcf"})
    rows = {"utility": (noisy, utility("fcf", 0.62, None))}
    changed = record.model_copy(update={"plan": {"settings": {"fcf": {"rounds": 1}}}} | rows)
    assert "without protection" not in utility_line(changed["fmf-ldp"], changed)


def test_useless_is_what_no_interval_shows_to_be_better_than_guessing(record: Record) -> None:
    open_ = utility("dplcf-sp", 0.12, None)
    assert not beats_guessing(open_)
    assert "It is not shown to be better than guessing." in of(record, open_)
    weak = utility("dplcf-sp", 0.09, None)
    said = of(record, weak)
    assert "It is not better than guessing: useless at this epsilon." in said
    assert "useless" not in of(record, weak, open_)
    better = weak.model_copy(update={"metric": "HR@20", "ci_low": 0.11})
    assert "useless" not in of(record, weak, better)
    assert "useless here" in of(record, utility("fcf", 0.09, None))


def test_a_training_cut_short_calls_nothing_useless(record: Record) -> None:
    weak = utility("dplcf-sp", 0.09, None)
    cut = weak.model_copy(update={"paper_note": f"{CUT}20 of 1000 rounds."})
    assert "after 20 of 1000 rounds" in of(record, cut)
    assert "useless" not in of(record, cut)


@pytest.mark.parametrize(("low", "high", "better"), [(1.1, 1.2, True), (1.2, 1.3, False)])
def test_of_an_error_less_is_better(low: float, high: float, better: bool) -> None:
    row = utility("vfl-sgdmf", 1.15, None)
    ends = {"metric": "MSE", "random": 1.25, "ci_low": low, "ci_high": high}
    assert beats_guessing(row.model_copy(update=ends)) is better


def test_a_figure_of_the_paper_at_the_largest_cutoff_is_named() -> None:
    rows = [
        utility("fcf", 0.5, paper).model_copy(update={"metric": metric})
        for metric, paper in (("HR@5", None), ("HR@10", 0.6), ("NDCG@10", 0.4), ("HR@20", 0.7))
    ]
    named = telling(rows)
    assert named is not None
    assert named.metric == "HR@20"


def test_the_line_stands_in_both_reports(record: Record) -> None:
    for text in (html.render(record), markdown.render(record)):
        assert "0.31 &#91;0.28, 0.34&#93;" in text or "0.31 [0.28, 0.34]" in text
        assert "at random; 0.45 in the paper" in text
