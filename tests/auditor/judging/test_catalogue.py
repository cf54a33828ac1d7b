"""Tests of the catalogue of claims.

Verdicts are those of the derivations, the noise of released code follows formulas computed here
again, and a broken entry is named.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Basis, Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.catalogue import (
    ReleasedCode,
    find_entries,
    judge_entries,
    judge_entry,
    list_entries,
)
from fedrec_auditor.auditor.plan.families import load_papers
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.reports.documents.catalogue import CatalogueRow
from fedrec_auditor.targets.declarations.entry import PaperEntry
from fedrec_auditor.targets.systems.base import Population

SCOPE = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
MANY = Population(n_users=943, n_items=1682)
GOLDEN = (1 + math.sqrt(5)) / 2


def entry(**given: object) -> PaperEntry:
    return PaperEntry.model_validate({"number": "99", "system": "theirs", **given})


def normal_sd(epsilon: float, delta: float) -> float:
    """Classical standard deviation of Gaussian noise, in units of the sensitivity."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def noise(share: float, rounds: int, steps: int, epsilon: float, delta: float) -> dict[str, float]:
    """Noise, relative to the change of a mean by one rating, and rate of FederatedScope."""
    batch = share * 6040
    spread = share * math.sqrt(rounds * steps * math.log(1 / delta)) / epsilon
    moved = 2 * math.sqrt(GOLDEN**2 + 2) / batch
    return {"noise_multiplier": spread / moved, "sampling_probability": steps * batch / 100_000}


# Largest change of a number by ten steps of UC-FedRec, in each direction.
MAX_CHANGE = 1e-4 * 5 * sum((1 - 0.9**t) / 0.1 for t in range(1, 11))
SETTINGS = {
    "33": {"sigma": normal_sd(8, 1e-5) * 2 * 1e-4 * 5, "high": MAX_CHANGE, "low": -MAX_CHANGE},
    "35": {"scale": 0.1, "high": 0.1, "low": -0.1},
    "35c": {"entries": 1682 * 16 + 16 * 16 + 2 * 16},
    "36": {"sigma": normal_sd(8, 1e-5)},
    "36c": {"times": 150},
    "37b": {"entries": 10 * (943 * 6 + 2 * 36 + 3)},
    "39c": {"scale": 0.02, "high": 1e-4, "low": -1e-4},
    "39d": {"entries": 1682 * 64},
    "40b": {"scale": 0.015, "high": 0.3 * 0.05, "low": -0.3 * 0.05},
    "40d": {"entries": 16 * (64 + 16)},
    "41": noise(64 / 6040, 100, 10, 2.0, 0.5),
    "41b": noise(8 / 6040, 20, 50, 4.0, 0.75),
}


@pytest.mark.parametrize("number", SETTINGS)
def test_settings_follow_from_the_released_code(number: str) -> None:
    declared = find_entries(number)[0].settings
    for name, value in SETTINGS[number].items():
        assert declared[name] == pytest.approx(value, rel=1e-9), name


def test_a_repair_of_the_noise_covers_all_steps() -> None:
    (of_33, _) = find_entries("33")
    assert of_33.repaired == {"sigma": pytest.approx(normal_sd(8, 1e-5) * 2 * MAX_CHANGE)}


@pytest.mark.parametrize(
    ("draws", "event"), [("nothing", NoOpDpEvent()), ("anything", NonPrivateDpEvent())]
)
def test_code_without_noise_has_an_event_and_no_mechanism(draws: str, event: object) -> None:
    made = ReleasedCode.from_entry(entry(draws=draws), {})
    assert made.get_event(SCOPE, MANY) == event
    assert made.get_mechanism(SCOPE, MANY) is None


@pytest.mark.parametrize(
    ("draws", "settings", "match"),
    [
        ("laplce", {}, "laplace"),
        ("laplace", {"sigma": 1.0}, "Expected settings of laplace"),
        ("laplace", {"scale": -1.0, "low": 0.0, "high": 1.0}, "scale"),
    ],
)
def test_bad_noise_of_an_entry_is_refused(draws: str, settings: dict, match: str) -> None:
    with pytest.raises(InputError, match=match):
        ReleasedCode.from_entry(entry(draws=draws), settings)


def test_an_entry_without_a_target_needs_its_noise() -> None:
    with pytest.raises(InputError, match="Expected the key 'draws' in the entry of theirs"):
        ReleasedCode.from_entry(entry(), {}).get_event(SCOPE, MANY)


V = Verdict.VIOLATED
C, N = Verdict.CONSISTENT, Verdict.INCOMPARABLE

# Verdict, claimed epsilon, smallest proved epsilon and exact lower bound, by the derivations.
EPSILONS = {
    "1": (C, 2.5, 2.5, 2.5),
    "2": (C, 250.0, 250.0, 250.0),
    "2b": (V, 250.0, 5000.0, 5000.0),
    "2c": (V, 625.0, 12500.0, 12500.0),
    "4": (N, 250.0, 4.18, 2.96),
    "4b": (N, 250.0, 47.68, 31.44),
    "6": (V, 1.0, 1.9005, 1.9005),
    "7": (V, 1.0, float("inf"), float("inf")),
    "8": (C, 1.0, 1.0, 1.0),
    "8b": (N, 1.0, 1682.0, 1682.0),
    "12": (V, None, None, None),
    "15": (C, 16.6082, 0.567, 0.4892),
    "16": (N, None, float("inf"), float("inf")),
}
REPORT = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
PAPER = load_papers()["fmf-ldp"]
ONE = PAPER.get_entry("1").model_copy(
    update={"number": "99", "epsilon": None, "scope": REPORT, "computed": ""}
)


@pytest.fixture(scope="module")
def rows() -> dict[str, CatalogueRow]:
    entries = [entry for entry in list_entries() if entry.number in EPSILONS]
    return {row.number: row for row in judge_entries(entries)}


def test_headings_are_complete_and_in_order() -> None:
    found = [(entry.heading_number, entry.number_suffix) for entry in list_entries()]
    assert found == sorted(set(found))
    assert {heading for heading, _ in found} == set(range(1, 42))
    assert all(entry.number_suffix != "a" for entry in list_entries())


@pytest.mark.parametrize("number", EPSILONS)
def test_epsilons_are_judged_as_derived(rows: dict[str, CatalogueRow], number: str) -> None:
    verdict, claimed, proved, lower = EPSILONS[number]
    row = rows[number]
    assert row.verdict is verdict
    for expected, found in (
        (claimed, row.claimed_epsilon),
        (proved, row.proved_epsilon),
        (lower, row.exact_lower_epsilon),
    ):
        if expected is not None:
            assert found == pytest.approx(expected, rel=2e-3)
    if verdict is V:
        assert row.finding.measured.confidence == 1.0


@pytest.mark.parametrize("name", load_papers())
def test_a_paper_has_a_threat_model_and_uses_its_symbols(name: str) -> None:
    """The text of the numbered entries uses every symbol that the heading explains."""
    paper = load_papers()[name]
    assert "section" in paper.heading.threat.place
    numbered = [entry for entry in paper.entries if entry.number]
    text = " ".join(f"{e.statement} {e.claimed} {e.provable} {e.reason}" for e in numbered)
    for symbol in paper.heading.symbols:
        assert re.search(rf"(?<![\w'.]){re.escape(symbol)}(?![\w'])", text), symbol


def test_figures_that_no_paper_prints_are_marked() -> None:
    """A step size of 4 and other readings of Theorem 5 are derived; z is computed."""
    bases = {entry.number: entry.basis for entry in list_entries()}
    formulas = {number for number, basis in bases.items() if basis is Basis.COMPUTED}
    assert {"12", "16", "22"} <= formulas
    judged = {e.number for e in load_papers()["federated-mf"].entries if e.number and e.scope}
    assert {bases[number] for number in judged - {"22b", "22c", "24b"}} == {Basis.COMPUTED}
    assert {bases[number] for number in ("22b", "22c", "24b", "30", "33")} == {Basis.DERIVED}
    of = {
        name: {bases[e.number] for e in load_papers()[name].entries if e.number}
        for name in load_papers()
    }
    assert Basis.COMPUTED not in of["fmf-ldp"] | of["dplcf"]


def test_a_formula_at_another_delta_is_computed() -> None:
    """Theorem 5 for a local game at delta 0.1 is not a number of the authors."""
    system, population = make_target("lfl-sgdmf", Plan()), Population(n_users=943, n_items=1682)
    (scoped, *_) = system.get_claims(population)
    assert scoped.epsilon_by_delta is not None
    assert scoped.convert_to_delta(0.1).claim.basis is Basis.COMPUTED


def test_entries_on_one_statement_count_once() -> None:
    again = {entry.number: entry.repeats for entry in list_entries() if entry.repeats}
    assert {"2c": "2b", "7": "6", "22f": "22"}.items() <= again.items()
    assert not set(again) & set(again.values())  # a statement has one number


def test_a_heading_finds_all_its_parts() -> None:
    assert [entry.number for entry in find_entries("2")] == ["2", "2b", "2c"]
    assert [entry.number for entry in find_entries("2C")] == ["2c"]
    with pytest.raises(InputError, match="got '400'"):
        find_entries("400")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"system": ("fmf-lpd",)}, "got 'fmf-lpd'"),
        ({"settings": {"report": 3}}, "got 'report'"),
        ({"settings": {"reports": 0}}, "reports=0"),
        ({"scope": replace(REPORT, unit=Unit.BIT)}, "got 0"),
        ({"delta": 0.5}, "got 0"),
        ({"scope": make_local_scope(Unit.BIT, Vantage.SERVER, Horizon.TRAINING)}, "got 0"),
        ({"scope": None}, "got neither"),
    ],
    ids=str,
)
def test_a_broken_entry_is_named(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=r"Catalogue entry 99 \(") as caught:
        judge_entry(PAPER, ONE.model_copy(update=broken))
    assert message in str(caught.value)


def test_a_repair_that_stays_refuted_is_an_error() -> None:
    (violated,) = find_entries("6")
    repaired = violated.model_copy(update={"repaired": {"keep": 0.95}})
    with pytest.raises(InputError, match=r"Catalogue entry 6 .*repaired settings.*got VIOLATED"):
        judge_entry(load_papers()["dplcf"], repaired)
