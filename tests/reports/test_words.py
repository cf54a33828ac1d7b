"""Every word of the vocabulary has its words in a report."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Claim,
    Horizon,
    Side,
    Unit,
    Vantage,
    Witness,
    any_pair,
)
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.attack_words import risk_words
from fedrec_auditor.reports.exposure import exposure
from fedrec_auditor.reports.figures import trade_offs
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.say import outcome_words, probability_words, ratio_words
from fedrec_auditor.reports.section import Section
from tests.reports.conftest import finding, lower, scope, upper, vary


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Unit, say.UNITS),
        (Adjacency, say.ADJACENCIES),
        (Vantage, say.VANTAGES),
        (Horizon, say.HORIZONS),
        (Verdict, say.SIGNS),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_nothing_is_left_without_words(kind: type[StrEnum], told: dict[StrEnum, str]) -> None:
    assert set(told) == set(kind)
    assert len(set(told.values())) == len(kind)


def _measured(epsilon: float, a: float, b: float, *, copies: int = 1) -> Bound:
    scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    witness = Witness(
        input_a="a", input_b="b", output="o", probability_a=a, probability_b=b, copies=copies
    )
    return Bound(epsilon=epsilon, side=Side.LOWER, scope=scope, source="exact", witness=witness)


def test_an_output_too_rare_for_a_double_is_not_called_impossible() -> None:
    """Laplace noise on 36,737 entries: densities e^(+-500,000), a finite ratio."""
    measured = _measured(1_102_110.0, math.inf, 0.0)
    assert "infinite" not in ratio_words(measured)
    assert "log-ratio 1,102,110" in ratio_words(measured)
    assert [probability_words(measured, p) for p in (math.inf, 0.0, 0.5)] == [
        "more than 1e308",
        "less than 1e-323",
        "0.5",
    ]
    vanished = _measured(1500.0, 0.0, 0.0, copies=2)
    assert "2 independent copies at once: log-ratio 1,500" in ratio_words(vanished)


def test_an_impossible_output_is_called_so() -> None:
    measured = _measured(math.inf, 0.6, 0.0)
    assert ratio_words(measured).startswith("infinite")
    assert probability_words(measured, 0.0) == "0"
    assert ratio_words(_measured(0.0, 0.0, 0.0)).startswith("0 to 0")


def test_a_density_is_not_called_a_probability() -> None:
    for a, said in ((15.0, "Density"), (0.9, "Probability")):
        assert outcome_words(_measured(1.0, a, 0.1)) == said


def test_an_event_that_no_draw_showed_is_given_no_probability() -> None:
    """609 of 997 draws against 0 of 1003: what is below 1/1003 was not measured."""
    measured = replace(_measured(4.6, 609 / 997, 0.0), samples=8000, confidence=0.95)
    assert outcome_words(measured) == "Measured share"
    assert probability_words(measured, 0.0) == "0"
    assert ratio_words(measured) == (
        "not bounded by what was seen: no draw of one of the two inputs gave it"
    )
    seen = replace(_measured(0.9, 0.5, 0.2), samples=8000, confidence=0.95)
    assert ratio_words(seen).startswith("2.5 as measured (log-ratio 0.916")


def test_groups_that_may_be_alike_are_not_told_apart(record: Record) -> None:
    row = next(row for row in record.attacks if row.users and row.users.groups)
    assert "Hit hardest: activity: most items 0.99 [0.98, 1]" in risk_words(row)
    one = row.users.groups["gender"]
    alike = vary(row.users, groups={"gender": {**one, "F": one["M"]}})
    assert "Hit" not in risk_words(vary(row, users=alike))


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0%"), (1e-9, "0.0000001%"), (1e-4, "0.01%"), (0.00044, "0.044%"), (0.0123, "1.2%"),
     (0.5, "50%"), (0.7310586, "73.1%"), (0.9999, "99.99%"), (0.99999999, "more than 99.9999%"),
     (1.0, "100%")],
)  # fmt: skip
def test_a_small_share_is_not_none_and_a_large_one_no_certainty(share: float, said: str) -> None:
    assert say.percent(share) == said


def test_a_proof_of_what_is_claimed_does_not_read_as_more_than_it() -> None:
    """0.981468 of 0.981468 was "proved 0.982" beside "claimed 0.981"."""
    user = scope("user", "training")
    claim = Claim(epsilon=0.981468, scope=user, statement="s", source="s")
    kept, broken = (
        finding("it", claim, user, upper(proof, user, "a proof"), None)
        for proof in (0.981468, 0.99)
    )
    assert say.proved_of(kept) == say.brief(claim.epsilon) == "0.981"
    assert say.proved_of(broken) == "0.99"
    (line,) = [x for x in trade_offs(vary(kept, holds_at=0.00213)) if "does" in x.words]
    assert line.said == "(0.981, 0.00213)"


@given(
    st.floats(0.01, 1e7),
    st.sampled_from([1.0, 1.0 - 1e-12, 0.7]),
    st.sampled_from([1.0, 1.0 + 1e-12, 1.3]),
)
def test_equal_epsilons_print_alike_and_others_on_their_side(
    claimed: float, less: float, more: float
) -> None:
    """The report had "shown 1,680" and "proved 1,690" beside "claimed 1,682"."""
    user = scope("user", "training")
    claim = Claim(epsilon=claimed, scope=user, statement="s", source="s")
    bounds = upper(claimed * more, user, "a proof"), lower(claimed * less, user, "a game")
    found = finding("it", claim, user, *bounds)
    (cell,) = exposure(Section("it", findings=(found,)), Vantage.SERVER).told
    for exactly in (False, True):
        proved = say.proved_of(found, exactly=exactly)
        shown = say.shown_of(found, exactly=exactly)
        stated = (say.number if exactly else say.brief)(claimed)
        assert (proved == stated) is (more < 1.1)
        assert (shown == stated) is (less > 0.9)
        if more > 1.1:
            assert float(proved.replace(",", "")) >= claimed * more * (1 - 1e-9)
        if less < 0.9:
            assert float(shown.replace(",", "")) <= claimed * less * (1 + 1e-9)
        if not exactly:
            assert cell.proved_words == f"proved ≤ {proved}"
            assert cell.shown_words == f"shown ≥ {shown}"


def test_whole_epsilons_are_printed_in_full() -> None:
    told = (say.brief, say.at_least, say.at_most, say.short, say.number)
    assert {each(1682.0) for each in told} == {"1,682"}
    assert {each(85_494_360.0) for each in told} == {"85,494,360"}
