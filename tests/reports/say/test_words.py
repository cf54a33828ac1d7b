"""The vocabulary covers every enum value; sentences on probabilities, epsilons and utility."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.statements import (
    Adjacency,
    Basis,
    Bound,
    Claim,
    Horizon,
    Side,
    Unit,
    Vantage,
    Witness,
    make_local_scope,
)
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import Baseline, FurtherFigure, UtilityRow
from fedrec_auditor.reports.record.sections import Section
from fedrec_auditor.reports.say import describe_probability_ratio, format_probability, metrics
from fedrec_auditor.reports.say.exposure import find_exposure
from fedrec_auditor.reports.writers import html, markdown, terminal
from tests.reports.conftest import finding, lower, scope, upper, utility, vary
from tests.reports.printing import capture


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Unit, say.UNIT_TEXTS),
        (Adjacency, say.ADJACENCY_TEXTS),
        (Vantage, say.VANTAGE_TEXTS),
        (Vantage, say.ADVERSARY_LABELS),
        (Vantage, say.ADVERSARY_PHRASES),
        (Basis, say.BASIS_TEXTS),
        (Verdict, say.PHRASES["sentence"]),
        (Horizon, say.HORIZON_TEXTS),
        (Verdict, say.VERDICT_SIGNS),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_every_enum_value_has_its_text(kind: type[StrEnum], texts: dict[StrEnum, str]) -> None:
    assert set(texts) == set(kind)
    assert len(set(texts.values())) == len(kind)


def make_bound(epsilon: float, a: float, b: float, *, copies: int = 1) -> Bound:
    scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    witness = Witness(
        input_a="a", input_b="b", output="o", probability_a=a, probability_b=b, copies=copies
    )
    return Bound(epsilon=epsilon, side=Side.LOWER, scope=scope, source="exact", witness=witness)


def test_underflowing_outputs_are_not_called_impossible() -> None:
    """Laplace noise on 36,737 entries: densities e^(+-500,000) with a finite ratio."""
    measured = make_bound(1_102_110.0, math.inf, 0.0)
    assert "infinite" not in describe_probability_ratio(measured)
    assert "log-ratio is 1,102,110" in describe_probability_ratio(measured)
    assert [format_probability(measured, p) for p in (math.inf, 0.0, 0.5)] == [
        "more than 1e308",
        "less than 1e-323",
        "0.5",
    ]
    vanished = make_bound(1500.0, 0.0, 0.0, copies=2)
    assert "log-ratio of all 2 independent parts is 1,500" in describe_probability_ratio(vanished)


def test_impossible_outputs_have_an_infinite_ratio() -> None:
    measured = make_bound(math.inf, 0.6, 0.0)
    assert describe_probability_ratio(measured).startswith("The ratio is infinite")
    assert format_probability(measured, 0.0) == "0"
    assert describe_probability_ratio(make_bound(0.0, 0.0, 0.0)).startswith("The ratio is 0 to 0")


def test_densities_are_not_called_probabilities() -> None:
    for a, said in ((15.0, "Density"), (0.9, "Probability")):
        assert say.label_event_probability(make_bound(1.0, a, 0.1)) == said


def test_unseen_events_have_no_stated_probability() -> None:
    """609 of 997 draws against 0 of 1003: samples cannot measure a probability below 1/1003."""
    measured = replace(make_bound(4.6, 609 / 997, 0.0), samples=8000, confidence=0.95)
    assert say.label_event_probability(measured) == "Measured share"
    assert format_probability(measured, 0.0) == "0"
    assert describe_probability_ratio(measured) == (
        "The samples do not bound the ratio: one of the two inputs never gave this output."
    )
    seen = replace(make_bound(0.9, 0.5, 0.2), samples=8000, confidence=0.95)
    assert describe_probability_ratio(seen).startswith(
        "The ratio in the samples is 2.5; its natural logarithm is 0.916"
    )


def test_groups_without_a_significant_difference_are_not_named(record: Record) -> None:
    row = next(row for row in record.attacks if row.users and row.users.groups)
    said = metrics.describe_user_spread(row)
    assert "largest in the group “most items” (activity), 0.99 [0.98, 1]," in said
    one = row.users.groups["gender"]
    alike = vary(row.users, groups={"gender": {**one, "F": one["M"]}})
    assert "in the group" not in metrics.describe_user_spread(vary(row, users=alike))


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0%"), (1e-9, "0.0000001%"), (1e-4, "0.01%"), (0.00044, "0.044%"), (0.0123, "1.2%"),
     (0.5, "50%"), (0.7310586, "73.1%"), (0.9999, "99.99%"), (0.99999999, "more than 99.9999%"),
     (1.0, "100%")],
)  # fmt: skip
def test_percentages_round_neither_to_zero_nor_to_certainty(share: float, said: str) -> None:
    assert say.to_percent(share) == said


def test_proofs_of_the_claim_print_as_the_claim() -> None:
    """Regression: 0.981468 was "proved 0.982" beside "claimed 0.981"."""
    user = scope("user", "training")
    claim = Claim(epsilon=0.981468, scope=user, statement="s", source="s")
    kept, broken = (
        finding("it", claim, user, upper(proof, user, "a proof"), None)
        for proof in (0.981468, 0.99)
    )
    assert say.format_proved_epsilon(kept) == say.format_short(claim.epsilon) == "0.981"
    assert say.format_proved_epsilon(broken) == "0.99"


@given(
    st.floats(0.01, 1e7),
    st.sampled_from([1.0, 1.0 - 1e-12, 0.7]),
    st.sampled_from([1.0, 1.0 + 1e-12, 1.3]),
)
def test_equal_epsilons_print_alike_and_bounds_round_outwards(
    claimed: float, less: float, more: float
) -> None:
    """Regression: the report had "shown 1,680" and "proved 1,690" beside "claimed 1,682"."""
    user = scope("user", "training")
    claim = Claim(epsilon=claimed, scope=user, statement="s", source="s")
    bounds = upper(claimed * more, user, "a proof"), lower(claimed * less, user, "a game")
    found = finding("it", claim, user, *bounds)
    (cell,) = find_exposure(Section("it", findings=(found,)), Vantage.SERVER).main_bounds
    for exactly in (False, True):
        proved = say.format_proved_epsilon(found, exactly=exactly)
        shown = say.format_shown_epsilon(found, exactly=exactly)
        stated = (say.format_number if exactly else say.format_short)(claimed)
        assert (proved == stated) is (more < 1.1)
        assert (shown == stated) is (less > 0.9)
        if more > 1.1:
            assert float(proved.replace(",", "")) >= claimed * more * (1 - 1e-9)
        if less < 0.9:
            assert float(shown.replace(",", "")) <= claimed * less * (1 + 1e-9)
        if not exactly:
            assert cell.upper_bound_text == f"proved: epsilon ≤ {proved}"
            assert cell.lower_bound_text == f"shown: epsilon ≥ {shown}"


def test_whole_epsilons_are_printed_in_full() -> None:
    rounded = (say.format_floor, say.format_ceil)
    told = (say.format_short, *rounded, say.format_4_digits, say.format_number)
    assert {each(1682.0) for each in told} == {"1,682"}
    assert {each(85_494_360.0) for each in told} == {"85,494,360"}


def describe(record: Record, *rows: UtilityRow) -> str:
    changed = vary(record, utility=rows)
    return metrics.describe_utility(changed[rows[0].target], changed)


def test_utility_is_compared_with_guessing_paper_and_unprotected(record: Record) -> None:
    plain = utility("fcf", 0.62, 0.66)
    noisy = vary(utility("fmf-ldp", 0.31, 0.45), unprotected="fcf")
    said = describe(record, noisy, plain)
    assert said == (
        f"{HR} is 0.31 [0.28, 0.34] (test: leave one out, 99 sampled negatives; in one "
        "training). For comparison, HR@10 is 0.1 by random ranking, 0.45 in the paper (other "
        "conditions), 0.62 in fcf, a system without protection."
    )


def test_unprotected_systems_need_equal_settings(record: Record) -> None:
    noisy = vary(utility("fmf-ldp", 0.31, None), unprotected="fcf")
    rows = {"utility": (noisy, utility("fcf", 0.62, None))}
    changed = record.model_copy(update={"plan": {"settings": {"fcf": {"rounds": 1}}}} | rows)
    assert "without protection" not in metrics.describe_utility(changed["fmf-ldp"], changed)


def test_utility_states_whether_the_settings_learn(record: Record) -> None:
    row = utility("fcf", 0.62, None)
    for learns in (True, False):
        plan = {"settings": {"fcf": {"learns": learns, "factors": 16}}}
        changed = vary(record, plan=plan, utility=(row,))
        text = metrics.describe_utility(changed["fcf"], changed)
        assert ("under settings that learn" in text) is learns


def test_systems_not_shown_to_beat_guessing_are_called_so(record: Record) -> None:
    open_ = utility("dplcf-sp", 0.12, None)
    assert not metrics.beats_guessing([open_])
    assert f"{NOT} shown to be better than guessing {ONE}." in describe(record, open_)
    weak = utility("dplcf-sp", 0.09, None)
    said = describe(record, weak)
    assert "not better than guessing on this measure: the recommendations are useless at" in said
    assert "useless" not in describe(record, weak, open_)
    better = vary(utility("dplcf-sp", 0.2, None), metric="HR@20")
    assert "useless" not in describe(record, weak, better)
    assert "the recommendations are useless." in describe(record, utility("fcf", 0.09, None))


def test_cut_trainings_are_not_called_useless(record: Record) -> None:
    weak = utility("dplcf-sp", 0.09, None)
    cut = vary(weak, paper_note=f"{metrics.CUT_TRAINING_NOTE_PREFIX}20 of 1000 rounds.")
    assert "after 20 of 1000 rounds" in describe(record, cut)
    assert "useless" not in describe(record, cut)


@pytest.mark.parametrize(("low", "high", "better"), [(1.1, 1.2, True), (1.2, 1.3, False)])
def test_lower_errors_are_better(low: float, high: float, better: bool) -> None:
    row = utility("vfl-sgdmf", 1.15, None)
    ends = {"metric": "MSE", "random": 1.25, "ci_low": low, "ci_high": high}
    assert metrics.beats_guessing([vary(row, **ends)]) is better


def test_the_quoted_row_has_the_largest_cutoff_of_the_paper() -> None:
    rows = [
        vary(utility("fcf", 0.5, paper), metric=metric)
        for metric, paper in (("HR@5", None), ("HR@10", 0.6), ("NDCG@10", 0.4), ("HR@20", 0.7))
    ]
    named = metrics.select_headline_row(rows)
    assert named.metric == "HR@20"


def add_baseline(row: UtilityRow, by: float, half: float, name: str = "popularity") -> UtilityRow:
    """The row with a baseline that is lower by ``by`` +- ``half``."""
    gap = FurtherFigure(value=by, ci_low=by - half, ci_high=by + half)
    found = Baseline(name=name, value=row.value - by, difference=gap)
    return vary(row, baseline=found)


NOTHING = "what it learned about single users does not improve the recommendations."
NOT = "The system is not"
ONE, TWO = "on this measure", "on any of 2 utility measures"
HR = "HR@10 (share of tests with the right item among the first 10)"
MAYBE = "It is not shown that data of single users improve the recommendations."
POPULAR = "recommending popular items"


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ([(0.05, 0.02)], ""),
        ([(0.01, 0.02)], f"{NOT} shown to be better than {POPULAR} {ONE}. {MAYBE}"),
        ([(0.0, 0.0)], f"{NOT} shown to be better than {POPULAR} {ONE}. {MAYBE}"),
        ([(-0.01, 0.02)], f"{NOT} shown to be better than {POPULAR} {ONE}. {MAYBE}"),
        ([(-0.05, 0.02)], f"{NOT} better than {POPULAR} {ONE}: {NOTHING}"),
        ([(-0.05, 0.02), (-0.01, 0.02)], f"{NOT} better than {POPULAR} {TWO}: {NOTHING}"),
        ([(-0.05, 0.02), (0.01, 0.02)], f"{NOT} shown to be better than {POPULAR} {TWO}. {MAYBE}"),
        ([(-0.05, 0.02), (0.05, 0.02)], ""),
        # above by its own interval, but not by one that holds for both jointly
        ([(0.021, 0.02)] * 2, f"{NOT} shown to be better than {POPULAR} {TWO}. {MAYBE}"),
    ],
)  # fmt: skip
def test_systems_not_shown_to_beat_their_baseline_are_named(
    record: Record, gaps: list[tuple[float, float]], said: str
) -> None:
    rows = [add_baseline(utility("fcf", 0.31, None), *gap) for gap in gaps]
    level = f"{0.31 - gaps[-1][0]:.3g}"
    expected = said and f"{HR} is 0.31 for the system, and {level} by {POPULAR}. {said}"
    assert metrics.describe_utility_shortfall(vary(record, utility=tuple(rows))["fcf"]) == expected
    assert describe(record, *rows).endswith(said or "by random ranking.")
    assert f"comparison, HR@10 is {level} by {POPULAR}, 0.1 by random" in describe(record, *rows)


def test_differences_of_errors_have_the_opposite_sign(record: Record) -> None:
    row = vary(utility("fcf", 0.9, None), metric="MSE", random=1.2)
    means = "predicting from user and item means"
    for by, said in ((-0.1, ""), (0.1, f"{NOT} better than {means} {ONE}: {NOTHING}")):
        changed = vary(record, utility=(add_baseline(row, by, 0.05, "two means"),))
        assert metrics.describe_utility_shortfall(changed["fcf"]).endswith(said)
    assert said in describe(record, add_baseline(row, 0.1, 0.05, "two means"))


def test_shortfalls_below_guessing_mention_no_other_baseline(record: Record) -> None:
    """A ranking that learns nothing, such as `random`, or one after part of the training."""
    lost = add_baseline(utility("fcf", 0.09, None), -0.2, 0.01)
    said = metrics.describe_utility_shortfall(vary(record, utility=(lost,))["fcf"])
    useless = f"{NOT} better than guessing {ONE}: the recommendations are useless."
    assert f"{HR} is 0.09 for the system, and 0.1 by guessing. {useless}" in said
    below = add_baseline(utility("fcf", 0.31, None), -0.2, 0.01)
    cut = vary(below, paper_note=f"{metrics.CUT_TRAINING_NOTE_PREFIX}20 of 1000 rounds.")
    told = metrics.describe_utility_shortfall(vary(record, utility=(cut,))["fcf"])
    assert f"{NOT} shown to be better than {POPULAR} {ONE} after 20 of 1000 rounds" in told
    assert "learned" not in told


def test_shortfalls_appear_once_in_every_report(record: Record) -> None:
    rows = (add_baseline(utility("fcf", 0.28, None), -0.05, 0.02), *record.utility[1:])
    changed = vary(record, utility=rows)
    texts = {
        "html": html.render_html(changed),
        "notebook": changed._repr_html_(),
        "markdown": unescape(markdown.render_markdown(changed)),
        "text": str(changed),
        "terminal": " ".join(capture(lambda c: terminal.print_audit(changed, c)).split()),
    }
    said = f"and 0.33 by {POPULAR}. {NOT} better than {POPULAR} {ONE}: {NOTHING}"
    for name, text in texts.items():
        assert text.count(said) == 1, name
    system = texts["html"].partition('id="systems"')[2]
    assert "s value minus this value is between -0.07 and -0.03" in system
    for name in ("html", "markdown"):
        assert say.fill_text("note", "intervals") in texts[name]


def test_utility_states_the_number_of_trainings() -> None:
    one = utility("fcf", 0.62, 0.66)
    three = vary(one, trainings=3)
    assert metrics.describe_trainings([one, one]) == "in one training"
    assert metrics.describe_trainings([three]) == "over 3 trainings"
    assert metrics.describe_trainings([one, three]) == "over 1 to 3 trainings"
