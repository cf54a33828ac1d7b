"""Verdicts of whole trainings, and of messages, of small systems with known epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Adjacency, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.games.canary_game import CURVE_CLAIM_TEST_DELTA, GameInputs, GameSetup
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL_NAME
from fedrec_auditor.auditor.run.runner import audit
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflLdp

pytestmark = pytest.mark.calibration
PRIVREC = {
    "rounds": 5,
    "multiplier": 30.0,
    "initial_clip": 0.005,
    "clip_rate": 1e-6,
    "embedding": 2,
    "width": 16,
    "local_epochs": 1,
}


def run_training_game(
    target: str, settings: dict[str, Any], vantage: Vantage, **options: Any
) -> Finding:
    """Finding of the training game on a claim with a formula, at the test delta, for one user."""
    record = audit(
        target, data="synthetic", games=("training",), settings={target: settings}, **options
    )
    assert not record.errors
    (found,) = (
        finding
        for finding in record.findings
        if finding.claim.delta == CURVE_CLAIM_TEST_DELTA
        and finding.scope.vantage is vantage
        and finding.scope.unit is Unit.USER
    )
    return found


@pytest.mark.parametrize(
    ("rate", "verdict"), [(100.0, Verdict.VIOLATED), (1.0, Verdict.CONSISTENT)]
)
def test_a_step_size_without_scaled_noise_violates_a_claim(rate: float, verdict: Verdict) -> None:
    settings = PRIVREC | {"server_rate": rate}
    found = run_training_game("dp-privrec", settings, Vantage.PEERS, runs=1000, population=(3, 32))
    print(f"\nalpha3 = {rate:g}: {found.measured} against {found.claim.epsilon:.4g}")
    assert found.verdict is verdict


def test_replaced_noise_violates_a_claim() -> None:
    found = run_training_game("lfl-sgdmf", {"factors": 2}, Vantage.AGGREGATE, population=(8, 8))
    print(f"\n{found.measured} against {found.claim.epsilon:.4g}")
    assert found.scope.adjacency is Adjacency.ADD_REMOVE
    assert found.verdict is Verdict.VIOLATED


def test_noise_that_is_not_replaced_keeps_the_claim() -> None:
    settings = {"factors": 2, "as_published": False}
    found = run_training_game("lfl-sgdmf", settings, Vantage.AGGREGATE, population=(8, 8))
    assert found.verdict is Verdict.CONSISTENT


def test_large_noise_is_rarely_distinguished_in_a_message() -> None:
    """A bound at 95% is above 0 in at most 5% of audits, including the search and trees."""
    data = Synthetic(n_users=60, n_items=20, profile=6).load()
    system = LflLdp(factors=2, noise_multiplier=1e6)
    repeats, above = 200, 0
    for seed in range(repeats):
        rng, game = np.random.default_rng(seed), CANARY_GAMES[LOCAL_NAME]
        ground = GameInputs(
            target=system, interactions=data, population_shape=(8, 10), is_quick=True
        )
        made = next(game.make_setups(ground, rng))
        assert isinstance(made, GameSetup)
        scope = next(iter(made.deltas_by_scope))
        found = game.measure(
            made, scope, 0.0, JointBinomial(), runs=400, confidence=0.95, accountants=(), rng=rng
        )
        above += found.measured_bounds.bound.epsilon > 0.0
    print(f"\nabove 0: {above} of {repeats}")
    assert above <= repeats * 0.05 + 3 * (repeats * 0.05 * 0.95) ** 0.5
