"""Entries of released code say what it draws, by formulas that are calculated here again."""

from __future__ import annotations

import math

import pytest
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.judging.catalogue import Released, find
from fedrec_auditor.targets.declarations.entry import Entry
from fedrec_auditor.targets.systems.base import Population

SCOPE = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
MANY = Population(n_users=943, n_items=1682)
GOLDEN = (1 + math.sqrt(5)) / 2


def entry(**given: object) -> Entry:
    return Entry.model_validate({"number": "99", "system": "theirs", **given})


def normal(epsilon: float, delta: float) -> float:
    """The classical deviation, in sensitivities."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def scoped(share: float, rounds: int, steps: int, epsilon: float, delta: float) -> dict[str, float]:
    """Noise, in what a rating moves a mean, and chance of FederatedScope's step."""
    batch = share * 6040
    spread = share * math.sqrt(rounds * steps * math.log(1 / delta)) / epsilon
    moved = 2 * math.sqrt(GOLDEN**2 + 2) / batch
    return {"noise_multiplier": spread / moved, "sampling_probability": steps * batch / 100_000}


MOVED = 1e-4 * 5 * sum((1 - 0.9**t) / 0.1 for t in range(1, 11))
"""By how much ten steps of UC-FedRec move a number either way."""
SETTINGS = {
    "33": {"sigma": normal(8, 1e-5) * 2 * 1e-4 * 5, "high": MOVED, "low": -MOVED},
    "35": {"scale": 0.1, "high": 0.1, "low": -0.1},
    "35c": {"entries": 1682 * 16 + 16 * 16 + 2 * 16},
    "36": {"sigma": normal(8, 1e-5)},
    "36c": {"times": 150},
    "37b": {"entries": 10 * (943 * 6 + 2 * 36 + 3)},
    "39c": {"scale": 0.02, "high": 1e-4, "low": -1e-4},
    "39d": {"entries": 1682 * 64},
    "40b": {"scale": 0.015, "high": 0.3 * 0.05, "low": -0.3 * 0.05},
    "40d": {"entries": 16 * (64 + 16)},
    "41": scoped(64 / 6040, 100, 10, 2.0, 0.5),
    "41b": scoped(8 / 6040, 20, 50, 4.0, 0.75),
}


@pytest.mark.parametrize("number", SETTINGS)
def test_settings_follow_from_what_the_code_says(number: str) -> None:
    declared = find(number)[0].settings
    for name, value in SETTINGS[number].items():
        assert declared[name] == pytest.approx(value, rel=1e-9), name


def test_a_repair_of_the_noise_covers_all_steps() -> None:
    (of_33, _) = find("33")
    assert of_33.repaired == {"sigma": pytest.approx(normal(8, 1e-5) * 2 * MOVED)}


@pytest.mark.parametrize(
    ("draws", "event"),
    [("nothing", NoOpDpEvent()), ("anything", NonPrivateDpEvent())],
)
def test_what_is_not_drawn_has_an_event_and_no_distribution(draws: str, event: object) -> None:
    made = Released.of(entry(draws=draws), {})
    assert made.event(SCOPE, MANY) == event
    assert made.mechanism(SCOPE, MANY) is None


@pytest.mark.parametrize(
    ("draws", "settings", "match"),
    [
        ("laplce", {}, "laplace"),
        ("laplace", {"sigma": 1.0}, "Expected settings of laplace"),
        ("laplace", {"scale": -1.0, "low": 0.0, "high": 1.0}, "scale"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draws: str, settings: dict, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Released.of(entry(draws=draws), settings)


def test_an_entry_without_a_system_says_what_is_drawn() -> None:
    with pytest.raises(InputError, match="Expected what theirs draws"):
        Released.of(entry(), {}).event(SCOPE, MANY)
