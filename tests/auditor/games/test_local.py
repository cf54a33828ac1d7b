"""The local game: the client's code sampled, scored, bounded, and an accusation made twice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.attacks.likelihood_ratio import LikelihoodRatio
from fedrec_auditor.auditor.games import local
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.estimators.base import Assumption, Estimator
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_sp import DplcfSp
from fedrec_auditor.targets.systems.base import UploadGame

SAMPLES = 20_000
(CHALLENGE,) = DplcfSp(epsilon=1.0).upload_games()


UNCONDITIONAL = [
    name
    for name in FAMILIES["estimators"].names()
    if FAMILIES["estimators"].member(name)().conditional is Assumption.NONE
]


@pytest.fixture(params=UNCONDITIONAL)
def estimator(request: pytest.FixtureRequest) -> Estimator:
    made: Estimator = FAMILIES["estimators"].member(request.param)()
    return made


def play(
    estimator: Estimator, claimed: float, challenge: UploadGame = CHALLENGE
) -> local.LocalGame:
    claim = Claim(epsilon=claimed, scope=challenge.scope, statement="a claim", source="a test")
    return local.play(
        challenge,
        LikelihoodRatio(),
        estimator,
        name="likelihood-ratio",
        claims=(claim,),
        samples=SAMPLES,
        delta=0.0,
        confidence=0.95,
        row_confidence=0.95,
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize(("claimed", "repeated"), [(0.5, True), (1.5, False)])
def test_a_bound_above_a_claim_is_measured_twice(
    estimator: Estimator, claimed: float, repeated: bool
) -> None:
    game = play(estimator, claimed)
    assert game.measured.repeated is repeated
    assert game.measured.bound.samples == 2 * SAMPLES * (1 + repeated)
    assert 0.85 < game.measured.bound.epsilon < 1.0
    witness = game.measured.bound.witness
    assert witness is not None
    assert {witness.input_a, witness.input_b} == set(CHALLENGE.inputs)
    assert "likelihood-ratio" in witness.output


def test_the_success_rate_is_that_of_the_first_measurement(estimator: Estimator) -> None:
    """e/(1 + e) of all uploads are guessed rightly, whether or not they were drawn again."""
    rows = [play(estimator, claimed).row for claimed in (0.5, 1.5)]
    assert rows[0] == rows[1]
    row = rows[0]
    assert row is not None
    assert row.n == 2 * SAMPLES
    assert row.ci_low < math.e / (1 + math.e) < row.ci_high


def test_without_a_public_law_the_estimator_reads_what_was_sent(estimator: Estimator) -> None:
    game = play(estimator, 1.5, replace(CHALLENGE, channel=None))
    assert game.row is None
    assert 0.85 < game.measured.bound.epsilon < 1.0
