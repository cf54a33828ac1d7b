"""Tests of accounts of given noise: against other libraries, closed forms, and both bounds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Unit, Vantage
from fedrec_auditor.accountants.theorems import neighbours
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.spending.spend import Account, account
from fedrec_auditor.reports.record.rows import Finding
from tests.accountants.published import GAUSSIANS, OPACUS_NOISE, Exact
from tests.points import later

BASE: dict[str, Any] = {"gaussian": 1.1, "rate": 0.01, "rounds": 1000, "delta": 1e-6}
REPLACE, PRESENT = Adjacency.REPLACE, Adjacency.ADD_REMOVE


@pytest.fixture(scope="module")
def base() -> Account:
    return account(**BASE)


def get_bounds(finding: Finding) -> tuple[float, float]:
    """Lower and upper bound, which both have the finding's scope and delta."""
    lower, upper = finding.measured, finding.accounted
    assert lower.scope == upper.scope == finding.scope
    assert lower.delta == upper.delta == finding.delta
    assert lower.epsilon <= upper.epsilon
    return lower.epsilon, upper.epsilon


def list_totals(found: Account) -> list[tuple[Adjacency, float, float]]:
    """Each adjacency with the lower and the upper bound of all rounds."""
    rows = [f for f in found.findings if f.scope.horizon is Horizon.TRAINING]
    return [(f.scope.adjacency, *get_bounds(f)) for f in rows]


# --- Reference values ---------------------------------------------------------------------------


@pytest.mark.parametrize("row", GAUSSIANS, ids=lambda row: f"{row.event}, {row.delta:.3g}")
def test_gaussian_noise_by_its_closed_form(row: Exact) -> None:
    """mu = sqrt(rounds)/z, and twice that for a replacement."""
    noise, rounds = row.event.event.noise_multiplier, row.event.count
    found = account(gaussian=2 * noise, rounds=rounds, delta=row.delta, adjacency="replace")
    (first, *both), (other, _, proved) = list_totals(found)
    assert (first, other) == (REPLACE, PRESENT)
    assert both == pytest.approx([row.epsilon] * 2, rel=1e-7)
    assert proved < row.epsilon


@settings(max_examples=20)
@given(scale=st.floats(0.1, 50.0), rounds=st.integers(1, 1000))
def test_laplace_noise_adds_up_at_delta_0(scale: float, rounds: int) -> None:
    found = account(laplace=scale, rounds=rounds)
    assert get_bounds(found.per_round)[1] == pytest.approx(1 / scale)
    for (_, *both), times in zip(list_totals(found), (1, 2), strict=True):
        assert both == pytest.approx([times * rounds / scale] * 2)


@pytest.mark.parametrize("stated", ["epsilon=2,k=5", "p=0.6487856,k=5"])
def test_responses_by_kairouz_oh_and_viswanath(stated: str) -> None:
    """p = e^2/(e^2 + 4); at delta 0 ten reports have epsilon 20, ten times that of one."""
    found = account(randomized_response=stated, rounds=10)
    assert get_bounds(found.per_round) == pytest.approx((2.0, 2.0), rel=1e-6)
    assert get_bounds(found.total) == pytest.approx((20.0, 20.0), rel=1e-6)
    assert str(found.total.scope) == "user / any pair / server / training"
    assert found.per_round.scope.horizon is Horizon.REPORT


# --- Scopes and orders --------------------------------------------------------------------------


def test_replacement_has_a_larger_epsilon_than_removal(base: Account) -> None:
    (present, _, upper), (replaced, lower, _) = list_totals(base)
    assert (present, replaced) == (PRESENT, REPLACE)
    assert lower > upper
    assert (base.total.scope.unit, base.total.delta) == (Unit.USER, 1e-6)
    assert base.total.accounted.assumptions == ("the adversary does not learn who was sampled",)
    assert "loss distributions" in base.total.accounted.source


def test_a_fixed_sample_has_a_larger_epsilon_than_a_poisson_one(base: Account) -> None:
    fixed = list_totals(account(**BASE, sampling="fixed", users=4800))
    assert [adjacency for adjacency, *_ in fixed] == [REPLACE, PRESENT]
    for (_, lower, _), (_, _, upper) in zip(fixed, list_totals(base)[::-1], strict=True):
        assert lower > upper


def test_a_user_of_ten_interactions_has_over_ten_times_epsilon() -> None:
    """Ten interactions at the same delta; group privacy, ten times epsilon, needs a larger one."""
    found = account(**BASE, unit="interaction", interactions_per_user=10)
    single, user = found.total, found.findings[-2]
    assert str(single.scope) == "interaction / add-remove / aggregate / training"
    assert str(user.scope) == "user / add-remove / aggregate / training"
    assert get_bounds(user)[0] > 10 * get_bounds(single)[1]
    assert get_bounds(user)[1] == pytest.approx(25.152, abs=2e-3)
    assert "no user has more than 10 interactions" in user.accounted.assumptions
    assert single.accounted.assumptions == ("the adversary does not learn who was sampled",)
    noise = {"rounds": 9, "delta": 1e-6, "unit": "interaction"}
    unsampled = account(gaussian=20.0, **noise).total  # type: ignore[arg-type]
    grouped = account(gaussian=40.0, **noise, interactions_per_user=2)  # type: ignore[arg-type]
    assert get_bounds(grouped.findings[-2]) == pytest.approx(get_bounds(unsampled))


def test_users_are_not_accounted_for_a_fixed_sample() -> None:
    found = account(
        **BASE, sampling="fixed", users=4800, unit="interaction", interactions_per_user=2
    )
    assert {f.scope.unit for f in found.findings} == {Unit.INTERACTION}
    assert "spends more" in found.total.note


def test_shuffling_lowers_epsilon_and_states_its_assumption() -> None:
    alone = account(randomized_response=1.0, rounds=20, delta=1e-6)
    found = account(randomized_response=1.0, rounds=20, delta=1e-6, shuffle=10_000)
    assert found.total.scope.vantage is Vantage.SHUFFLED
    lower, upper = get_bounds(found.total)
    assert 0 < lower < upper < get_bounds(alone.total)[0]
    assert "the shuffler is honest" in found.total.accounted.assumptions
    assert found.total.lower_bound is not None


def test_shuffled_laplace_reports_have_a_lower_bound_by_their_sign() -> None:
    """Randomized response of the same epsilon would have a larger bound than Laplace noise has."""
    response = account(randomized_response=2.0, rounds=5, delta=1e-6, shuffle=1000)
    laplace = account(laplace=1.0, rounds=5, delta=1e-6, shuffle=1000)
    (low, high), (lower, upper) = get_bounds(response.total), get_bounds(laplace.total)
    assert lower < low <= high <= upper


def test_epsilon_is_0_at_a_large_delta_and_delta_is_at_most_1() -> None:
    found = account(gaussian=2.0, rounds=3, delta=0.4)
    assert [get_bounds(f) for f in found.findings[1::2]] == [(0.0, 0.0)] * 2
    assert "at delta 1 only" in account(gaussian=1.0, rounds=100, delta=0.1).total.note


def test_a_lower_bound_is_never_above_the_upper_one_by_rounding() -> None:
    for epsilon, rounds in itertools.product((0.1, 0.8, 1.1), (3, 7, 30)):
        for delta in (0.0, 1e-6):
            get_bounds(account(randomized_response=epsilon, rounds=rounds, delta=delta).total)


# --- Events -------------------------------------------------------------------------------------


def test_an_event_gives_the_account_of_the_same_settings(base: Account) -> None:
    one = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1))
    inner = '{"type": "GaussianDpEvent", "noise_multiplier": 1.1}'
    sampled = f'"type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": {inner}'
    text = f'{{"type": "SelfComposedDpEvent", "count": 1000, "event": {{{sampled}}}}}'
    for event, rounds in ((one, 1000), (SelfComposedDpEvent(one, 1000), None), (text, None)):
        assert account(event=event, rounds=rounds, delta=1e-6) == base


@pytest.mark.parametrize(
    ("event", "note"),
    [
        ('{"type": "NonPrivateDpEvent"}', "without protection"),
        ('{"type": "GaussianDpEvent", "noise_multiplier": 0}', "no noise"),
        (
            '{"type": "ComposedDpEvent", "events": [{"type": "GaussianDpEvent", '
            '"noise_multiplier": 1}, {"type": "NonPrivateDpEvent"}]}',
            "without protection",
        ),
    ],
)
def test_events_without_protection_have_a_reason(event: str, note: str) -> None:
    found = account(event=event, delta=1e-5)
    assert get_bounds(found.total) == (math.inf, math.inf)
    assert note in found.total.note
    assert "right every time" in " ".join(str(found).split())


def test_a_lower_bound_under_an_assumption_states_it() -> None:
    """A mechanism may have a smaller epsilon than its event; the sentence states only the proof."""
    found = account(event='{"type": "PureDpEvent", "epsilon": 1.5}')
    assert found.total.lower_bound is None
    text = " ".join(str(found).split())
    assert "can guess a bit correctly up to 81.8% of the time. Proved upper bound:" in text
    assert "if PureDpEvent stands for randomized response" in " ".join(str(found).split())


def test_two_gaussians_on_one_sample_are_accounted_as_one() -> None:
    """TFF's adaptive clipping has two: the noise of the updates, and that of the quantile."""
    several = ComposedDpEvent([GaussianDpEvent(1.1), GaussianDpEvent(10.0)])
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, several), 20)
    joint = (1.1**-2 + 10.0**-2) ** -0.5
    known = account(gaussian=joint, rate=0.1, rounds=20, delta=1e-5).total.accounted
    found = account(event=event, delta=1e-5).total.accounted
    assert found.epsilon == pytest.approx(known.epsilon, rel=1e-9)
    five = SelfComposedDpEvent(GaussianDpEvent(1.1), 5)
    total = account(event=PoissonSampledDpEvent(0.1, five), delta=1e-5).total
    assert total.accounted.epsilon == pytest.approx(6.7599, abs=1e-4)


def test_a_sampled_composition_of_other_events_is_refused() -> None:
    several = ComposedDpEvent([LaplaceDpEvent(1.0), GaussianDpEvent(1.0)])
    with pytest.raises(InputError, match="got PoissonSampledDpEvent of ComposedDpEvent"):
        account(event=PoissonSampledDpEvent(0.1, several), delta=1e-5)


def test_events_that_no_accountant_reads_together_are_refused() -> None:
    text = (
        '{"type": "ComposedDpEvent", "events": [{"type": "ZCDpEvent", "rho": 1}, '
        '{"type": "ShuffledDpEvent", "epsilon": 1, "n_users": 9}]}'
    )
    with pytest.raises(InputError, match="got ZCDpEvent, ShuffledDpEvent"):
        account(event=text, delta=1e-5)


# --- Targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "by_prv", "by_renyi"), [OPACUS_NOISE[0], *(later(*row) for row in OPACUS_NOISE[1:])]
)
def test_solved_noise_is_at_most_that_of_opacus(steps: int, by_prv: float, by_renyi: float) -> None:
    found = account(gaussian="z", rate=0.04, rounds=steps, delta=1e-5, target_epsilon=8)
    assert by_prv * 0.998 < found.solved["z"] < by_prv < by_renyi
    lower, upper = get_bounds(found.total)
    assert 8 * (1 - 1e-3) < lower <= upper <= 8


@pytest.mark.parametrize(
    ("settings", "solved", "slack"),
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
def test_the_missing_setting_is_solved(settings: dict[str, Any], solved: str, slack: float) -> None:
    """The target is judged as a claim, which the total attains."""
    found = account(**settings)
    target = settings["target_epsilon"]
    assert list(found.solved) == [solved]
    assert target * (1 - slack) <= get_bounds(found.total)[1] <= target * (1 + 1e-12)
    assert found.total.verdict is found.per_round.verdict is Verdict.CONSISTENT


def test_calibrated_gaussian_noise_equals_balle_and_wang() -> None:
    """Their code's noise for (1, 1e-5) is 3.7306 (``published``); 100 rounds need ten times it."""
    found = account(gaussian="z", rounds=100, delta=1e-5, target_epsilon=1.0)
    assert found.solved["z"] == pytest.approx(37.30631634816464, rel=2e-4)


def test_one_more_round_would_exceed_the_target() -> None:
    found = account(gaussian=10.0, rate=0.1, delta=1e-5, target_epsilon=1.0)
    more = account(gaussian=10.0, rate=0.1, delta=1e-5, rounds=int(found.solved["rounds"]) + 2)
    assert get_bounds(found.total)[1] <= 1.0 < get_bounds(more.total)[1]


def test_the_target_is_attained_for_the_requested_adjacency() -> None:
    asked = {"gaussian": "z", "rounds": 4, "delta": 1e-5, "target_epsilon": 1.0}
    sizes = {}
    for adjacency in ("add-remove", "replace"):
        found = account(**asked, adjacency=adjacency)  # type: ignore[arg-type]
        sizes[adjacency] = found.solved["z"]
        assert found.total.scope.adjacency == adjacency
    assert sizes["replace"] == pytest.approx(2 * sizes["add-remove"], rel=1e-3)
    assert found.findings[-1].verdict is Verdict.INCOMPARABLE


# --- Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "got 0 of them"),
        ({"gaussian": 1.0, "laplace": 1.0}, "got 2 of them"),
        ({"gaussian": 1.0}, "delta=0"),
        ({"gaussian": 1.0, "delta": 1.0}, "delta=1"),
        ({"gaussian": -1.0, "delta": 1e-5}, "z=-1"),
        ({"gaussian": math.nan, "delta": 1e-5}, "z=nan"),
        ({"gaussian": "x=1", "delta": 1e-5}, "z=1.1"),
        ({"gaussian": "z=1,z=2", "delta": 1e-5}, "z=1.1"),
        ({"gaussian": "z", "delta": 1e-5}, "target_epsilon to compute z"),
        ({"gaussian": 1.0, "delta": 1e-5, "rate": 1.3}, "rate=1.3"),
        ({"gaussian": 1.0, "delta": 1e-5, "rounds": 0}, "rounds=0"),
        ({"gaussian": 1.0, "delta": 1e-5, "rounds": 2.5}, "rounds=2.5"),
        ({"gaussian": 1.0, "delta": 1e-5, "unit": "users"}, "unit='users'"),
        ({"gaussian": 1.0, "delta": 1e-5, "sampling": "shuffled"}, "poisson, fixed"),
        ({"gaussian": 1.0, "delta": 1e-5, "adjacency": "any pair"}, "add-remove, replace"),
        ({"gaussian": 1.0, "delta": 1e-5, "sampling": "fixed"}, "users=None"),
        ({"gaussian": 1.0, "delta": 1e-5, "users": 10}, "users=10"),
        ({"gaussian": 1, "delta": 0.1, "sampling": "fixed", "users": 10, "rate": 0.25}, "rate=0.2"),
        ({"gaussian": 1.0, "delta": 1e-5, "shuffle": 10}, "pure epsilon"),
        ({"gaussian": 1.0, "delta": 1e-5, "interactions_per_user": 3}, "unit=interaction"),
        ({"randomized_response": 1.0, "rate": 0.5}, "local reports"),
        ({"randomized_response": "p=0.2,k=4"}, "p=0.2"),
        ({"randomized_response": "p=1"}, "p=1"),
        ({"randomized_response": "p=0.7,epsilon=1"}, "without epsilon"),
        ({"randomized_response": "p"}, "p=NUMBER without"),
        ({"randomized_response": "epsilon=1,k=1"}, "from 2"),
        ({"randomized_response": "epsilon=1,k=2.5"}, "integer for k"),
        ({"randomized_response": 1e6}, "(0, 700]"),
        ({"event": "{}"}, "event as type"),
        ({"event": '{"type": "NoOpDpEvent"}', "rate": 0.1}, "without rate"),
        (
            {"gaussian": 1.0, "rounds": 5, "rate": 0.1, "delta": 0.1, "target_epsilon": 1},
            "got values for all",
        ),
        ({"randomized_response": 1.0, "rounds": 5, "target_epsilon": 1}, "got values for all"),
        ({"gaussian": "z", "delta": 0.1, "target_epsilon": 0.0}, "< inf, got 0.0"),
        ({"gaussian": "z", "delta": 0.1, "target_epsilon": math.nan}, "epsilon=nan"),
        ({"gaussian": 1.0, "delta": 1e-5, "target_epsilon": 0.5}, "which even rounds = 1 exceeds"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        account(**settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lower_bound_above_the_proof_is_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "compute_attained_epsilon", lambda event, delta: 100.0)
    with pytest.raises(AuditError, match="trust neither"):
        account(gaussian=1.0, delta=1e-5)


# --- Texts --------------------------------------------------------------------------------------


def test_findings_state_their_meaning_first_and_the_source_once(base: Account) -> None:
    lines = str(base).splitlines()
    assert lines[0] == "Gaussian noise, z = 1.1, rate 0.01, 1,000 rounds"
    text, *_ = " ".join(" ".join(lines).split()).partition("Proved upper bound: epsilon ≤")
    assert text.endswith(
        "an adversary can guess a bit correctly up to 85.2% of the time, if the adversary does not "
        "learn who was sampled. By calculation, an adversary guesses from the most revealing "
        "output which of two inputs produced it, and is right at least 85.2% of the time. "
    )
    assert sum("Source:" in line for line in lines) == 1
    for number in ("≤ 1.75298 ", "≥ 1.75296 ", "≤ 0.254055 ", "up to twice "):
        assert number in str(base)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_text_fits_a_width(base: Account, width: int) -> None:
    lines = base.describe(width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) > 20


def test_local_noise_is_referred_to_the_replace_row() -> None:
    """Noise as added by Flower's LocalDpMod: two clipped uploads differ by up to twice the norm."""
    found = account(gaussian=1.0, delta=1e-5, rounds=3)
    assert "local noise" not in found.total.note
    assert "local noise" in found.findings[2].note


def test_the_repr_of_an_account_is_one_line() -> None:
    line = (
        "<Laplace noise, b = 5, 10 rounds: epsilon at most 2 in total, 0.2 per round, at delta 0>"
    )
    assert repr(account(laplace=5, rounds=10)) == line
