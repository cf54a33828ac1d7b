"""Utility in a line, beside what is simpler; what it does not beat is on every first screen."""

from __future__ import annotations

from html import unescape

import pytest

from fedrec_auditor.reports import html, markdown, terminal
from fedrec_auditor.reports.attack_words import trainings_words
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import Baseline, FurtherFigure, UtilityRow
from fedrec_auditor.reports.say import OVER
from fedrec_auditor.reports.usefulness import CUT, beats_guessing, shortfall, telling, utility_line
from tests.reports.conftest import utility, vary
from tests.reports.printing import printed


def of(record: Record, *rows: UtilityRow) -> str:
    changed = vary(record, utility=rows)
    return utility_line(changed[rows[0].target], changed)


def test_the_line_stands_beside_guessing_the_paper_and_the_unprotected_version(
    record: Record,
) -> None:
    plain = utility("fcf", 0.62, 0.66)
    noisy = vary(utility("fmf-ldp", 0.31, 0.45), unprotected="fcf")
    said = of(record, noisy, plain)
    assert said == (
        "HR@10 0.31 [0.28, 0.34] (leave one out, 99 sampled negatives; of this training), against "
        "0.1 at random; "
        "0.45 in the paper, under its own conditions; 0.62 without protection (fcf)."
    )


def test_with_other_settings_it_is_not_the_same_system(record: Record) -> None:
    noisy = vary(utility("fmf-ldp", 0.31, None), unprotected="fcf")
    rows = {"utility": (noisy, utility("fcf", 0.62, None))}
    changed = record.model_copy(update={"plan": {"settings": {"fcf": {"rounds": 1}}}} | rows)
    assert "without protection" not in utility_line(changed["fmf-ldp"], changed)


def test_the_line_says_whether_the_settings_learn(record: Record) -> None:
    row = utility("fcf", 0.62, None)
    for learns in (True, False):
        plan = {"settings": {"fcf": {"learns": learns, "factors": 16}}}
        changed = vary(record, plan=plan, utility=(row,))
        assert ("under settings that learn" in utility_line(changed["fcf"], changed)) is learns


def test_useless_is_what_no_interval_shows_to_be_better_than_guessing(record: Record) -> None:
    open_ = utility("dplcf-sp", 0.12, None)
    assert not beats_guessing([open_])
    assert "It is not shown to be better than guessing." in of(record, open_)
    weak = utility("dplcf-sp", 0.09, None)
    said = of(record, weak)
    assert "It is not better than guessing: useless at this epsilon." in said
    assert "useless" not in of(record, weak, open_)
    better = vary(utility("dplcf-sp", 0.2, None), metric="HR@20")
    assert "useless" not in of(record, weak, better)
    assert "useless here" in of(record, utility("fcf", 0.09, None))


def test_a_training_cut_short_calls_nothing_useless(record: Record) -> None:
    weak = utility("dplcf-sp", 0.09, None)
    cut = vary(weak, paper_note=f"{CUT}20 of 1000 rounds.")
    assert "after 20 of 1000 rounds" in of(record, cut)
    assert "useless" not in of(record, cut)


@pytest.mark.parametrize(("low", "high", "better"), [(1.1, 1.2, True), (1.2, 1.3, False)])
def test_of_an_error_less_is_better(low: float, high: float, better: bool) -> None:
    row = utility("vfl-sgdmf", 1.15, None)
    ends = {"metric": "MSE", "random": 1.25, "ci_low": low, "ci_high": high}
    assert beats_guessing([vary(row, **ends)]) is better


def test_a_figure_of_the_paper_at_the_largest_cutoff_is_named() -> None:
    rows = [
        vary(utility("fcf", 0.5, paper), metric=metric)
        for metric, paper in (("HR@5", None), ("HR@10", 0.6), ("NDCG@10", 0.4), ("HR@20", 0.7))
    ]
    named = telling(rows)
    assert named.metric == "HR@20"


def ahead(row: UtilityRow, by: float, half: float, name: str = "popularity") -> UtilityRow:
    """The row beside a baseline that it is ``by`` above, give or take ``half``."""
    gap = FurtherFigure(value=by, ci_low=by - half, ci_high=by + half)
    found = Baseline(name=name, value=row.value - by, difference=gap)
    return vary(row, baseline=found)


NOTHING = "it learned nothing personal that helps."
PERHAPS = "it may have learned nothing personal that helps."


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ([(0.05, 0.02)], ""),
        ([(0.01, 0.02)], f"It is not shown to be better than popularity: {PERHAPS}"),
        ([(0.0, 0.0)], f"It is not shown to be better than popularity: {PERHAPS}"),
        ([(-0.01, 0.02)], f"It is not shown to be better than popularity: {PERHAPS}"),
        ([(-0.05, 0.02)], f"It is not better than popularity: {NOTHING}"),
        (
            [(-0.05, 0.02), (-0.01, 0.02)],
            f"None of its 2 figures is better than popularity: {NOTHING}",
        ),
        (
            [(-0.05, 0.02), (0.01, 0.02)],
            f"None of its 2 figures is shown to be better than popularity: {PERHAPS}",
        ),
        ([(-0.05, 0.02), (0.05, 0.02)], ""),
        # above by an interval of its own, but not by one that holds for all of ten at once
        (
            [(0.021, 0.02)] * 10,
            f"None of its 10 figures is shown to be better than popularity: {PERHAPS}",
        ),
    ],
)  # fmt: skip
def test_what_is_not_shown_to_beat_its_baseline_is_told(
    record: Record, gaps: list[tuple[float, float]], said: str
) -> None:
    rows = [ahead(utility("fcf", 0.31, None), *gap) for gap in gaps]
    changed = vary(record, utility=tuple(rows))
    begin = f"utility: HR@10 0.31, by popularity {0.31 - gaps[-1][0]:.3g}. "
    assert shortfall(changed["fcf"]) == (said and begin + said)
    assert of(record, *rows).endswith(said or "at random.")
    assert f"against {0.31 - gaps[-1][0]:.3g} by popularity; 0.1 at random" in of(record, *rows)


def test_of_an_error_the_difference_counts_the_other_way(record: Record) -> None:
    row = vary(utility("fcf", 0.9, None), metric="MSE", random=1.2)
    for by, said in ((-0.1, ""), (0.1, f"It is not better than two means: {NOTHING}")):
        assert shortfall(
            vary(record, utility=(ahead(row, by, 0.05, "two means"),))["fcf"]
        ).endswith(said)
    assert said in of(record, ahead(row, 0.1, 0.05, "two means"))


def test_what_does_not_beat_guessing_is_told_that_alone(record: Record) -> None:
    """A ranking that learns nothing, such as `random`, or one after a part of the training."""
    lost = ahead(utility("fcf", 0.09, None), -0.2, 0.01)
    said = "utility: HR@10 0.09, by guessing 0.1. It is not better than guessing: useless here."
    assert shortfall(vary(record, utility=(lost,))["fcf"]) == said
    below = ahead(utility("fcf", 0.31, None), -0.2, 0.01)
    cut = vary(below, paper_note=f"{CUT}20 of 1000 rounds.")
    told = shortfall(vary(record, utility=(cut,))["fcf"])
    assert "It is not shown to be better than popularity after 20 of 1000 rounds" in told
    assert "learned" not in told


def test_what_is_not_beaten_stands_on_every_first_screen(record: Record) -> None:
    rows = (ahead(utility("fcf", 0.28, None), -0.05, 0.02), *record.utility[1:])
    changed = vary(record, utility=rows)
    texts = {
        "html": html.render(changed),
        "notebook": changed._repr_html_(),
        "markdown": unescape(markdown.render(changed)),
        "text": str(changed),
        "terminal": " ".join(printed(lambda c: terminal.render(changed, c)).split()),
    }
    said = f"Utility: HR@10 0.28, by popularity 0.33. It is not better than popularity: {NOTHING}"
    for name, text in texts.items():
        assert text.count(said) == 1, name
    system = texts["html"].partition('id="systems"')[2]
    assert "popularity 0.33, difference [-0.07, -0.03]" in system
    for name in ("html", "markdown"):
        assert OVER in texts[name]


def test_figures_say_of_how_many_trainings_they_are() -> None:
    one = utility("fcf", 0.62, 0.66)
    three = vary(one, trainings=3)
    assert trainings_words([one, one]) == "of this training"
    assert trainings_words([three]) == "over 3 trainings"
    assert trainings_words([one, three]) == "over 1 to 3 trainings"
