"""Calibration of attacks over many trainings: false alarms against baselines, and evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Attack, AttackFamily
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.reading import read_calibrated
from fedrec_auditor.attacks.parts.uploads import get_item_log_odds
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.auditor.plan.families import FAMILIES
from tests.contracts.attacks import P_VALUE, AttackCase, alarms
from tests.contracts.test_readers import compare_with_the_prior
from tests.contracts.trainings import TARGETS, data, halves, narrow, training

pytestmark = pytest.mark.calibration


RUNS = 100


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FAMILIES["attacks"].list_names())
@pytest.mark.parametrize("vantage", Vantage)
def test_false_alarms_over_many_runs(name: str, target: str, vantage: Vantage) -> None:
    attack: Attack = FAMILIES["attacks"].load_class(name)()
    trainings = halves(target) if attack.family is AttackFamily.USER_MEMBERSHIP else None
    case = AttackCase(attack, training(target), vantage, trainings, RUNS)
    if not case.is_read:
        pytest.skip("it reads nothing there")
    found = alarms(case)
    print(f"\n{name} on {target}, {vantage}: {dict(found)} of {RUNS} plays beat a baseline")
    assert max(found.values(), default=0) <= stats.binom.isf(P_VALUE, RUNS, 0.025)


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("target", FAMILIES["targets"].list_names())
def test_evidence_of_several_trainings(target: str, seed: int) -> None:
    """The adversary knows popularity and has the clients' code, as in audits."""
    system = narrow(target, rounds=4)
    view = system.run(data(), np.random.default_rng(seed)).transcript.view(Vantage.SERVER)
    if reading.explain_no_reader(view):
        pytest.skip("no reader reads it")
    popularity = (data().ratings.toarray() != 0).mean(axis=0)
    client = SimulatedClient.from_data(system, data())
    view = replace(view, public=replace(view.public, popularity=popularity, device_code=client))
    evidence, odds = read_calibrated(view, np.arange(view.public.n_users)), get_item_log_odds(view)
    if evidence.log_ratio is None or odds is None:
        pytest.skip("no reader tells of interactions")
    compare_with_the_prior(evidence, odds, data())
