"""Evidence that popularity refutes is weakened to what it is worth; other evidence is left."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit

from fedrec_auditor.attacks.parts.calibration import calibrated
from fedrec_auditor.attacks.readers.base import SURE, Evidence

USERS, ITEMS = 1500, 200
SHARES = 0.6 / (1 + np.arange(ITEMS) / 10)
ODDS = logit(SHARES)
HELD = np.random.default_rng(0).random((USERS, ITEMS)) < SHARES


def bits(epsilon: float) -> NDArray[np.float64]:
    """What randomized response of each entry says: log-likelihood ratios, +-epsilon."""
    truth = np.random.default_rng(1).random(HELD.shape) < np.exp(epsilon) / (1 + np.exp(epsilon))
    return np.where(truth == HELD, epsilon, -epsilon)


def told(ratio: NDArray[np.float64], odds: NDArray[np.float64] = ODDS) -> NDArray[np.float64]:
    found = calibrated(Evidence(users=np.arange(USERS), log_ratio=ratio), odds).log_ratio
    assert found is not None
    return found


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, SURE])
def test_ratios_that_are_true_stay_as_they_are(epsilon: float) -> None:
    ratio = bits(epsilon)
    assert told(ratio) is ratio


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_what_is_too_sure_is_told_for_what_it_is(epsilon: float) -> None:
    said: list[str] = []
    evidence = Evidence(users=np.arange(USERS), log_ratio=np.sign(bits(epsilon)) * SURE)
    found = calibrated(evidence, ODDS, said.append).log_ratio
    assert found is not None
    assert np.abs(found) == pytest.approx(epsilon, abs=0.25)
    assert said == ["Evidence is weakened to what popularity allows, which refutes more."]


@pytest.mark.parametrize("scale", [3.0, SURE])
def test_what_is_sure_of_noise_says_nothing(scale: float) -> None:
    assert np.abs(told(scale * np.random.default_rng(2).normal(size=HELD.shape))).max() < 0.3


def test_the_other_way_round_is_no_evidence() -> None:
    assert not told(-np.sign(bits(1.0)) * SURE).any()


def test_what_is_proved_stays_and_items_of_no_known_share_are_told_like_others() -> None:
    ratio, odds = np.sign(bits(1.0)) * SURE, ODDS.copy()
    ratio[:, :3], ratio[:, 3] = np.where(HELD[:, :3], np.inf, -np.inf), np.inf
    odds[::2] = np.nan
    found = told(ratio, odds)
    np.testing.assert_array_equal(found[:, :4], ratio[:, :4])
    assert np.abs(found[:, 4:]) == pytest.approx(1.0, abs=0.3)
    assert told(ratio[:, :4], odds[:4]) is not None


def test_evidence_without_a_known_share_is_left() -> None:
    ratio = np.full((USERS, ITEMS), SURE)
    assert told(ratio, np.full(ITEMS, np.nan)) is ratio
    proved = np.full((USERS, ITEMS), np.inf)
    assert told(proved) is proved


def test_items_of_equal_shares_refute_nothing() -> None:
    """Then popularity says nothing of a score, and last bits must not decide."""
    held = np.random.default_rng(3).permuted(
        np.tile(np.arange(40)[:, None] < 8, (1, ITEMS)), axis=0
    )
    ratio = np.where(held, SURE, -SURE)
    found = calibrated(Evidence(users=np.arange(40), log_ratio=ratio), logit(np.full(ITEMS, 0.2)))
    assert found.log_ratio is ratio
