"""What noise of one's own spends: against outside answers, closed forms, and its own bounds."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.accountants.methods.rdp import Rdp
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Unit, Vantage
from fedrec_auditor.auditor.spending import spend as module
from fedrec_auditor.auditor.spending.account import Account
from fedrec_auditor.auditor.spending.spend import account
from fedrec_auditor.auditor.testing.parts.events import PRESENCE
from tests.accountants.published import GAUSSIANS, OPACUS_NOISE, PRINTED, Exact, Printed

BASE: dict[str, Any] = {"gaussian": 1.1, "rate": 0.01, "rounds": 1000, "delta": 1e-6}
REPLACE, PRESENT = Adjacency.REPLACE, Adjacency.ADD_REMOVE


@pytest.fixture(scope="module")
def base() -> Account:
    return account(**BASE)


# --- Outside answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.source)
def test_other_libraries_print_no_less_and_not_much_more(row: Printed) -> None:
    found = account(gaussian=row.noise, rate=row.rate, rounds=row.steps, delta=row.delta).total
    assert found.lower.epsilon <= found.upper.epsilon <= row.epsilon + 5e-8
    assert found.upper.epsilon == pytest.approx(found.lower.epsilon, rel=1e-3)
    if row.error is not None:
        assert row.epsilon <= found.lower.epsilon + row.error


@pytest.mark.parametrize("row", [row for row in PRINTED if "Test" in row.source])
def test_our_renyi_accountant_says_what_theirs_does(row: Printed) -> None:
    one = PoissonSampledDpEvent(row.rate, GaussianDpEvent(row.noise))
    event = SelfComposedDpEvent(one, row.steps)
    ours = Rdp().bound(event, delta=row.delta, scope=PRESENCE).epsilon
    assert ours == pytest.approx(row.epsilon, rel=2e-3)


@pytest.mark.parametrize("row", GAUSSIANS, ids=lambda row: f"{row.event}, {row.delta:.3g}")
def test_gaussian_noise_by_its_closed_form(row: Exact) -> None:
    """mu = sqrt(rounds)/z, and twice that for a replacement."""
    noise, rounds = row.event.event.noise_multiplier, row.event.count
    found = account(gaussian=2 * noise, rounds=rounds, delta=row.delta, adjacency="replace")
    assert found.total.adjacency is REPLACE
    for bound in (found.total.lower, found.total.upper):
        assert bound.epsilon == pytest.approx(row.epsilon, rel=1e-7)
    other = found.spendings[1].total
    assert other.adjacency is PRESENT
    assert other.upper.epsilon < row.epsilon


@settings(max_examples=20)
@given(scale=st.floats(0.1, 50.0), rounds=st.integers(1, 1000))
def test_laplace_noise_adds_up_at_delta_0(scale: float, rounds: int) -> None:
    found = account(laplace=scale, rounds=rounds)
    present, replaced = found.spendings
    for spending, times in ((present, 1), (replaced, 2)):
        assert spending.per_round.upper.epsilon == pytest.approx(times / scale)
        for bound in (spending.total.upper, spending.total.lower):
            assert bound.epsilon == pytest.approx(times * rounds / scale)


@pytest.mark.parametrize("stated", ["epsilon=2,k=5", "p=0.6487856,k=5"])
def test_responses_by_kairouz_oh_and_viswanath(stated: str) -> None:
    """p = e^2/(e^2 + 4); ten reports at delta 0 cost ten times as much, and one at delta 0 two."""
    found = account(randomized_response=stated, rounds=10)
    assert found.per_round.upper.epsilon == pytest.approx(2.0, rel=1e-6)
    assert found.total.lower.epsilon == pytest.approx(20.0, rel=1e-6)
    assert found.total.upper.scope.horizon is Horizon.TRAINING
    assert found.per_round.upper.scope.horizon is Horizon.REPORT
    assert found.total.adjacency is Adjacency.ANY_PAIR
    assert found.total.upper.scope.vantage is Vantage.SERVER


def test_per_round_and_total_are_another_library_s(base: Account) -> None:
    for epsilon, rounds in ((base.per_round, 1), (base.total, 1000)):
        theirs = PLDAccountant()
        one = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1))
        theirs.compose(SelfComposedDpEvent(one, rounds))
        assert epsilon.upper.epsilon == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-4)


def test_the_sample_of_privrec_is_between_its_known_bounds() -> None:
    """Tables 3 and 4 at T = 1000, 30 of 4800 (``test_fixed_size``); z = 2 is 1 a replacement."""
    found = account(
        gaussian=2.0, rate=30 / 4800, users=4800, sampling="fixed", rounds=1000, delta=1e-6
    )
    assert found.total.adjacency is REPLACE
    assert found.total.lower.epsilon == pytest.approx(1.298, abs=1e-3)
    assert found.total.upper.epsilon == pytest.approx(1.524, abs=1e-3)


# --- Scopes and orders --------------------------------------------------------------------------


def test_both_adjacencies_are_told_and_a_replacement_costs_more(base: Account) -> None:
    assert [s.total.adjacency for s in base.spendings] == [PRESENT, REPLACE]
    present, replaced = base.spendings
    assert replaced.total.lower.epsilon > present.total.upper.epsilon
    assert base.total is present.total
    assert (base.total.unit, base.total.delta) == (Unit.USER, 1e-6)
    assert base.total.upper.assumptions == ("the adversary does not learn who was drawn",)
    assert "loss distributions" in base.total.method


def test_a_fixed_sample_costs_more_than_poissons(base: Account) -> None:
    fixed = account(**BASE, sampling="fixed", users=4800)
    assert [s.total.adjacency for s in fixed.spendings] == [REPLACE, PRESENT]
    for mine, other in zip(fixed.spendings, base.spendings[::-1], strict=True):
        assert mine.total.lower.epsilon > other.total.upper.epsilon


def test_a_user_of_several_interactions_costs_more_and_less_than_group_privacy() -> None:
    """Ten interactions: above one, and far below ten times epsilon at delta (e^(10 eps) - 1)..."""
    found = account(**BASE, unit="interaction", interactions_per_user=10)
    one, user = found.spendings[0].total, found.spendings[-1].total
    assert (one.unit, user.unit, user.adjacency) == (Unit.INTERACTION, Unit.USER, PRESENT)
    assert user.lower.epsilon > 10 * one.upper.epsilon
    assert user.upper.epsilon == pytest.approx(25.152, abs=2e-3)
    assert "no user has more than 10 interactions" in user.upper.assumptions
    assert one.upper.assumptions == ("the adversary does not learn who was drawn",)
    unsampled = account(gaussian=20.0, rounds=9, delta=1e-6, unit="interaction")
    grouped = account(
        gaussian=40.0, rounds=9, delta=1e-6, unit="interaction", interactions_per_user=2
    )
    assert grouped.spendings[-1].total.upper.epsilon == pytest.approx(unsampled.total.upper.epsilon)


def test_a_group_of_a_fixed_sample_is_not_accounted() -> None:
    found = account(
        **BASE, sampling="fixed", users=4800, unit="interaction", interactions_per_user=2
    )
    assert {s.total.unit for s in found.spendings} == {Unit.INTERACTION}
    assert any("several interactions" in note for note in found.notes)


def test_shuffling_hides_and_says_among_whom() -> None:
    alone = account(randomized_response=1.0, rounds=20, delta=1e-6)
    found = account(randomized_response=1.0, rounds=20, delta=1e-6, shuffle=10_000)
    assert found.total.upper.scope.vantage is Vantage.SHUFFLED
    assert 0 < found.total.lower.epsilon < found.total.upper.epsilon < alone.total.lower.epsilon
    assert "the shuffler is honest" in found.total.upper.assumptions
    assert found.total.lower.assumptions == ()


def test_shuffled_laplace_reports_are_shown_by_their_sign() -> None:
    """What randomized response of the same epsilon would show is not shown of Laplace noise."""
    response = account(randomized_response=2.0, rounds=5, delta=1e-6, shuffle=1000)
    laplace = account(laplace=1.0, rounds=5, delta=1e-6, shuffle=1000)
    assert laplace.total.lower.epsilon < response.total.lower.epsilon
    assert laplace.total.upper.epsilon >= response.total.upper.epsilon


def test_sampled_laplace_noise_has_a_bound_of_a_replacement() -> None:
    found = account(laplace=2.0, rate=0.1, rounds=10)
    present, replaced = found.spendings
    assert (replaced.total.adjacency, found.notes) == (REPLACE, ())
    once = math.log1p(0.1 * math.expm1(0.5)) - math.log1p(0.1 * math.expm1(-0.5))
    assert replaced.total.upper.epsilon == pytest.approx(10 * once)
    assert replaced.total.lower.epsilon == pytest.approx(10 * once)
    assert present.total.upper.epsilon < 10 * once < 2 * present.total.upper.epsilon


def test_what_is_spent_is_nothing_where_delta_is_more_and_no_delta_is_above_1() -> None:
    found = account(gaussian=2.0, rounds=3, delta=0.4)
    assert [s.per_round.upper.epsilon for s in found.spendings] == [0.0, 0.0]
    assert "e-1" not in str(found)
    assert "counts more than they spend, and its delta is 1." in str(
        account(gaussian=1.0, rounds=100, delta=0.1)
    ).replace("\n" + " " * 14, " ")


def test_a_lower_bound_is_never_above_the_upper_one_by_rounding() -> None:
    for epsilon, rounds in itertools.product((0.1, 0.8, 1.1), (3, 7, 30)):
        for delta in (0.0, 1e-6):
            total = account(randomized_response=epsilon, rounds=rounds, delta=delta).total
            assert total.lower.epsilon <= total.upper.epsilon


# --- Events -------------------------------------------------------------------------------------


def test_an_event_says_what_the_same_settings_say(base: Account) -> None:
    one = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1))
    text = json.dumps(
        {
            "type": "SelfComposedDpEvent",
            "count": 1000,
            "event": {
                "type": "PoissonSampledDpEvent",
                "sampling_probability": 0.01,
                "event": {"type": "GaussianDpEvent", "noise_multiplier": 1.1},
            },
        }
    )
    for event, rounds in ((one, 1000), (SelfComposedDpEvent(one, 1000), None), (text, None)):
        assert account(event=event, rounds=rounds, delta=1e-6).spendings == base.spendings


@pytest.mark.parametrize(
    ("event", "note"),
    [
        ('{"type": "NonPrivateDpEvent"}', "in the clear"),
        ('{"type": "GaussianDpEvent", "noise_multiplier": 0}', "no noise"),
        (
            '{"type": "ComposedDpEvent", "events": [{"type": "GaussianDpEvent", '
            '"noise_multiplier": 1}, {"type": "NonPrivateDpEvent"}]}',
            "in the clear",
        ),
    ],
)
def test_what_hides_nothing_is_said_with_the_reason(event: str, note: str) -> None:
    found = account(event=event, delta=1e-5)
    assert math.isinf(found.total.lower.epsilon)
    assert any(note in line for line in found.notes)
    assert "No epsilon holds" in str(found)


def test_events_that_no_accountant_reads_together_are_refused() -> None:
    text = (
        '{"type": "ComposedDpEvent", "events": [{"type": "ZCDpEvent", "rho": 1}, '
        '{"type": "ShuffledDpEvent", "epsilon": 1, "n_users": 9}]}'
    )
    with pytest.raises(InputError, match="got ZCDpEvent, ShuffledDpEvent"):
        account(event=text, delta=1e-5)


# --- Targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "by_prv", "by_renyi"), OPACUS_NOISE)
def test_opacus_finds_no_less_noise(steps: int, by_prv: float, by_renyi: float) -> None:
    found = account(gaussian="z", rate=0.04, rounds=steps, delta=1e-5, target_epsilon=8)
    noise = found.deployment.noise
    assert isinstance(noise, module.Noise)
    assert noise.size is not None
    assert by_prv * 0.998 < noise.size < by_prv < by_renyi
    assert 8 * (1 - 1e-3) < found.total.lower.epsilon <= found.total.upper.epsilon <= 8


@pytest.mark.parametrize(
    ("asked", "solved", "slack"),
    [
        ({"gaussian": "z", "rounds": 100, "delta": 1e-5, "target_epsilon": 1.0}, "z", 1e-3),
        ({"gaussian": 5.0, "rounds": 30, "delta": 1e-5, "target_epsilon": 1.0}, "rate", 1e-3),
        ({"laplace": "b", "rounds": 10, "target_epsilon": 2.0}, "b", 1e-3),
        ({"laplace": 4.0, "target_epsilon": 2.0}, "rounds", 1e-9),
        ({"randomized_response": "epsilon,k=4", "rounds": 7, "target_epsilon": 3.5}, "epsilon", 1),
        ({"randomized_response": 1.0, "target_epsilon": 9.5}, "rounds", 0.06),
        (
            {
                "gaussian": 4.0,
                "rounds": 50,
                "delta": 1e-5,
                "users": 60,
                "sampling": "fixed",
                "target_epsilon": 3.0,
            },
            "rate",
            0.1,
        ),
        ({"gaussian": 1.0, "rounds": 1, "delta": 1e-5, "target_epsilon": 50.0}, "rate", 1.0),
    ],
    ids=str,
)
def test_what_is_left_out_is_found(asked: dict[str, Any], solved: str, slack: float) -> None:
    found = account(**asked)
    target = asked["target_epsilon"]
    assert found.solved == solved
    assert target * (1 - slack) <= found.total.upper.epsilon <= target * (1 + 1e-12)


def test_the_calibrated_gaussian_is_balle_and_wangs() -> None:
    """Their code's noise for (1, 1e-5) is 3.7306 (``published``); a hundred times, ten times it."""
    found = account(gaussian="z", rounds=100, delta=1e-5, target_epsilon=1.0)
    assert isinstance(found.deployment.noise, module.Noise)
    assert found.deployment.noise.size == pytest.approx(37.30631634816464, rel=2e-4)


def test_one_more_round_would_break_the_target() -> None:
    found = account(gaussian=10.0, rate=0.1, delta=1e-5, target_epsilon=1.0)
    rounds = found.deployment.rounds
    assert rounds is not None
    more = account(gaussian=10.0, rate=0.1, delta=1e-5, rounds=rounds + 2)
    assert found.total.upper.epsilon <= 1.0 < more.total.upper.epsilon


def test_the_target_is_kept_for_the_adjacency_that_is_asked_for() -> None:
    asked = {"gaussian": "z", "rounds": 4, "delta": 1e-5, "target_epsilon": 1.0}
    sizes = {}
    for adjacency in ("add-remove", "replace"):
        found = account(**asked, adjacency=adjacency)  # type: ignore[arg-type]
        assert isinstance(found.deployment.noise, module.Noise)
        sizes[adjacency] = found.deployment.noise.size
        assert found.total.adjacency == adjacency
    assert sizes["replace"] == pytest.approx(2 * sizes["add-remove"], rel=1e-3)


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "got 0 of them"),
        ({"gaussian": 1.0, "laplace": 1.0}, "got 2 of them"),
        ({"gaussian": 1.0}, "delta=0"),
        ({"gaussian": 1.0, "delta": 1.0}, "delta=1"),
        ({"gaussian": -1.0, "delta": 1e-5}, "z=-1"),
        ({"gaussian": math.nan, "delta": 1e-5}, "z=nan"),
        ({"gaussian": "x=1", "delta": 1e-5}, "z=1.1"),
        ({"gaussian": "z=1,z=2", "delta": 1e-5}, "z=1.1"),
        ({"gaussian": "z", "delta": 1e-5}, "target_epsilon to find it"),
        ({"gaussian": 1.0, "delta": 1e-5, "rate": 1.3}, "rate=1.3"),
        ({"gaussian": 1.0, "delta": 1e-5, "rounds": 0}, "rounds=0"),
        ({"gaussian": 1.0, "delta": 1e-5, "rounds": 2.5}, "rounds=2.5"),
        ({"gaussian": 1.0, "delta": 1e-5, "unit": "users"}, "got 'users'"),
        ({"gaussian": 1.0, "delta": 1e-5, "sampling": "shuffled"}, "poisson, fixed"),
        ({"gaussian": 1.0, "delta": 1e-5, "adjacency": "any pair"}, "add-remove or replace"),
        ({"gaussian": 1.0, "delta": 1e-5, "sampling": "fixed"}, "users=None"),
        ({"gaussian": 1.0, "delta": 1e-5, "users": 10}, "users=10"),
        (
            {"gaussian": 1.0, "delta": 1e-5, "sampling": "fixed", "users": 10, "rate": 0.25},
            "rate=0.2",
        ),
        ({"gaussian": 1.0, "delta": 1e-5, "shuffle": 10}, "pure epsilon"),
        ({"gaussian": 1.0, "delta": 1e-5, "interactions_per_user": 3}, "unit=interaction"),
        ({"randomized_response": 1.0, "rate": 0.5}, "local reports"),
        ({"randomized_response": "p=0.2,k=4"}, "p=0.2"),
        ({"randomized_response": "p=1"}, "p=1"),
        ({"randomized_response": "p=0.7,epsilon=1"}, "one of them"),
        ({"randomized_response": "p"}, "with its value"),
        ({"randomized_response": "epsilon=1,k=1"}, "k=1"),
        ({"randomized_response": "epsilon=1,k=2.5"}, "whole number for k"),
        ({"randomized_response": 1e6}, "up to 700"),
        ({"event": "{}"}, "Name its type"),
        ({"event": "{}", "rate": 0.1}, "without rate"),
        ({"gaussian": 1.0, "rounds": 5, "rate": 0.1, "delta": 0.1, "target_epsilon": 1}, "got all"),
        ({"randomized_response": 1.0, "rounds": 5, "target_epsilon": 1}, "got all"),
        ({"gaussian": "z", "delta": 0.1, "target_epsilon": 0.0}, "above 0"),
        ({"gaussian": "z", "delta": 0.1, "target_epsilon": math.nan}, "epsilon=nan"),
        ({"gaussian": 1.0, "delta": 1e-5, "target_epsilon": 0.5}, "not even rounds = 1"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_line(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        account(**asked)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lower_bound_above_the_proof_is_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "epsilon_attained", lambda event, delta: 100.0)
    with pytest.raises(AuditError, match="trust neither"):
        account(gaussian=1.0, delta=1e-5)


# --- Words --------------------------------------------------------------------------------------


def test_the_words_answer_per_round_or_total_first(base: Account) -> None:
    lines = str(base).splitlines()
    assert " ".join(lines[:2]) == (
        "All 1,000 rounds together spend epsilon 1.753 at delta 1e-06 at most, one round by itself "
        "0.2541. The total, 1.753, is the figure to state."
    )
    assert max(map(len, lines)) <= 80
    table = [line.split() for line in lines if line.startswith("  user, add-remove")]
    assert [row[-2:] for row in table] == [["0.2540", "0.2541"], ["1.752", "1.753"]]
    assert "twice the clipping" in str(base)
    assert "1,000 x 0.2541 = 254.1" in str(base)


def test_shown_is_rounded_down_and_proved_up(base: Account) -> None:
    def numbers(line: str) -> tuple[float, float]:
        low, high = line.split()[-2:]
        return float(low), float(high)

    rows = [numbers(line) for line in str(base).splitlines() if line.startswith("  user, ")]
    every = [e for s in base.spendings for e in (s.per_round, s.total)]
    for (low, high), epsilon in zip(rows, every, strict=True):
        assert low <= epsilon.lower.epsilon <= epsilon.upper.epsilon <= high
        assert high - low <= 0.0021


@pytest.mark.parametrize(
    ("asked", "finding"),
    [
        ({"gaussian": 1.0, "delta": 1e-6}, "One round spends epsilon 4.887 at delta 1e-06 at most"),
        ({"randomized_response": 1.0, "rounds": 3}, "All 3 reports of a user together spend"),
        ({"randomized_response": 1.0, "shuffle": 9}, "One shuffle spends epsilon 1.000 at delta 0"),
        (
            {"laplace": "b", "rounds": 10, "target_epsilon": 2.0},
            "Noise of b = 5 keeps epsilon 2 at delta 0 over all 10 rounds",
        ),
        ({"laplace": 4.0, "target_epsilon": 2.0}, "Stopping after 8 rounds keeps epsilon 2"),
    ],
    ids=str,
)
def test_other_findings(asked: dict[str, Any], finding: str) -> None:
    told = str(account(**asked))
    assert " ".join(told.split()).startswith(finding)
    assert max(map(len, told.splitlines())) <= 80


def test_the_result_is_frozen(base: Account) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        base.notes = ()  # type: ignore[misc]


def test_local_noise_is_pointed_to_the_row_of_replace() -> None:
    """As Flower's LocalDpMod adds it: any two clipped uploads are twice the norm apart."""
    found = account(gaussian=1.0, delta=1e-5, rounds=3)
    assert "read the row of replace" in " ".join(str(found).split())
