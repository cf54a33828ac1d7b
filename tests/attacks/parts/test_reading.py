"""Calibration weakens only evidence that shadows or popularity refute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.reading import (
    IDENTITY_CALIBRATION,
    calibrate,
    fit_calibration,
    read_calibrated,
)
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads
from tests.attacks.synthetic import Flip, make_view

USERS, ITEMS = 1500, 200
SHARES = 0.6 / (1 + np.arange(ITEMS) / 10)
ODDS = logit(SHARES)
OWN = np.random.default_rng(0).random((USERS, ITEMS)) < SHARES


def get_llr(epsilon: float) -> NDArray[np.float64]:
    """Log-likelihood ratios +-epsilon of randomized response of each entry."""
    truth = np.random.default_rng(1).random(OWN.shape) < np.exp(epsilon) / (1 + np.exp(epsilon))
    return np.where(truth == OWN, epsilon, -epsilon)


def rescale(ratio: NDArray[np.float64], odds: NDArray[np.float64] = ODDS) -> NDArray[np.float64]:
    """The log-likelihood ratio after calibration to the odds of items."""
    found = calibrate(Evidence(users=np.arange(USERS), log_ratio=ratio), odds).log_ratio
    assert found is not None
    return found


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, MAX_LOG_RATIO])
def test_correct_ratios_stay_unchanged(epsilon: float) -> None:
    ratio = get_llr(epsilon)
    assert rescale(ratio) is ratio


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_overconfident_ratios_are_scaled_to_their_value(epsilon: float) -> None:
    said: list[str] = []
    evidence = Evidence(users=np.arange(USERS), log_ratio=np.sign(get_llr(epsilon)) * MAX_LOG_RATIO)
    found = calibrate(evidence, ODDS, said.append).log_ratio
    assert found is not None
    assert np.abs(found) == pytest.approx(epsilon, abs=0.25)
    assert "".join(said).endswith("how well they agree with the popularity of items.")


@pytest.mark.parametrize("scale", [3.0, MAX_LOG_RATIO])
def test_confident_ratios_of_noise_are_scaled_to_nothing(scale: float) -> None:
    assert np.abs(rescale(scale * np.random.default_rng(2).normal(size=OWN.shape))).max() < 0.3


def test_reversed_evidence_is_scaled_to_nothing() -> None:
    assert not rescale(-np.sign(get_llr(1.0)) * MAX_LOG_RATIO).any()


def test_proved_entries_stay_and_items_of_unknown_share_are_scaled_too() -> None:
    ratio, odds = np.sign(get_llr(1.0)) * MAX_LOG_RATIO, ODDS.copy()
    ratio[:, :3], ratio[:, 3] = np.where(OWN[:, :3], np.inf, -np.inf), np.inf
    odds[::2] = np.nan
    found = rescale(ratio, odds)
    np.testing.assert_array_equal(found[:, :4], ratio[:, :4])
    assert np.abs(found[:, 4:]) == pytest.approx(1.0, abs=0.3)
    assert rescale(ratio[:, :4], odds[:4]) is not None


def test_evidence_without_a_known_share_stays_unchanged() -> None:
    ratio = np.full((USERS, ITEMS), MAX_LOG_RATIO)
    assert rescale(ratio, np.full(ITEMS, np.nan)) is ratio
    proved = np.full((USERS, ITEMS), np.inf)
    assert rescale(proved) is proved


def test_items_of_equal_shares_refute_nothing() -> None:
    """Popularity is then uninformative about scores, and rounding must not decide."""
    held = np.random.default_rng(3).permuted(
        np.tile(np.arange(40)[:, None] < 8, (1, ITEMS)), axis=0
    )
    ratio = np.where(held, MAX_LOG_RATIO, -MAX_LOG_RATIO)
    found = calibrate(Evidence(users=np.arange(40), log_ratio=ratio), logit(np.full(ITEMS, 0.2)))
    assert found.log_ratio is ratio


@dataclass(frozen=True)
class FlippingDevice:
    """Code of a device that flips each bit with odds exp(-``epsilon``)."""

    epsilon: float
    call_seconds: float = 0.0
    is_external: bool = False
    n_items_range: tuple[int, int] = (1, ITEMS)
    kind: Payload = Payload.BITS

    def __call__(
        self,
        met: NDArray[np.bool_] | sparse.csr_array,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
    ) -> Uploads:
        assert isinstance(met, np.ndarray)
        flipped = rng.random(met.shape) < expit(-self.epsilon)
        bits = (met ^ flipped).astype(np.int8)
        return Uploads(np.arange(len(met)), {"bits": Dense(bits, self.kind)})


def read_bits(
    stated: float, true: float = 1.0, **code: Any
) -> tuple[Evidence, Evidence, tuple[str, ...]]:
    """Evidence from bits before and after calibration to ``stated``, and the notes about it."""
    device = FlippingDevice(true)
    round_ = Round(None, device(OWN[:300], None, np.random.default_rng(4)))
    channel = Flip(expit(stated), expit(-stated))
    client = replace(device, **code)
    public = {"noise_channel": channel, "popularity": OWN.mean(axis=0), "device_code": client}
    view = make_view(round_, users=300, items=ITEMS, **public)
    users = np.arange(300)
    return (reading.read_evidence(view, users), read_calibrated(view, users), tuple(view.notes))


@pytest.mark.parametrize("true", [0.2, 1.0, 3.0])
def test_evidence_that_shadows_support_stays_bit_by_bit(true: float) -> None:
    before, after, how = read_bits(true, true)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    np.testing.assert_array_equal(after.log_ratio, before.log_ratio)
    assert not how


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_evidence_that_is_too_large_by_a_factor_is_scaled_back(factor: float) -> None:
    """A reader that assumes too little noise is scaled to the noise of the devices' code."""
    before, after, how = read_bits(factor)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    np.testing.assert_array_equal(np.sign(after.log_ratio), np.sign(before.log_ratio))
    assert np.abs(before.log_ratio) == pytest.approx(factor)
    assert np.abs(after.log_ratio) == pytest.approx(1.0, abs=0.1)
    assert how == ("The attack is calibrated by simulations of the devices' code.",)


def test_activity_without_support_by_evidence_is_scaled_to_nothing() -> None:
    """This holds also for correct ratios; proved entries do not influence either scale."""
    rng = np.random.default_rng(5)
    ratio = get_llr(1.0)
    noise = rng.normal(scale=2.0, size=USERS)
    evidence = Evidence(users=np.arange(USERS), log_ratio=ratio, activity_log_odds=noise)
    of_ratio, of_activity, _ = fit_calibration(evidence, OWN, ODDS)
    assert of_ratio == pytest.approx(1.0, abs=0.05)
    assert of_activity < 0.05
    proved = np.where(OWN, np.inf, -np.inf)
    evidence = Evidence(users=np.arange(USERS), log_ratio=proved, activity_log_odds=noise)
    assert fit_calibration(evidence, OWN, ODDS) == IDENTITY_CALIBRATION


def test_shadows_with_unread_messages_scale_nothing() -> None:
    before, after, _ = read_bits(1.0, kind=Payload.CHANGE)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    np.testing.assert_array_equal(after.log_ratio, before.log_ratio)


def test_popularity_supports_evidence_against_shadows_unlike_users() -> None:
    before, after, how = read_bits(3.0, 3.0, epsilon=0.2)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    bent = before.log_ratio / (1 + np.abs(before.log_ratio) / 16)
    np.testing.assert_allclose(after.log_ratio, bent, rtol=1e-6)
    assert how == ("Item popularity contradicts simulations of the devices' code.",)


def test_large_ratios_that_are_often_wrong_are_bent() -> None:
    """A weak report, and for every tenth pair a confident one that is wrong once in ten times."""
    rng = np.random.default_rng(6)
    wrong = rng.random(OWN.shape) < 0.1
    sure = np.where(OWN ^ wrong, MAX_LOG_RATIO, -MAX_LOG_RATIO)
    ratio = np.where(rng.random(OWN.shape) < 0.1, sure, get_llr(1.0))
    evidence = Evidence(users=np.arange(USERS), log_ratio=ratio, activity_log_odds=np.zeros(USERS))
    by = fit_calibration(evidence, OWN, ODDS)
    weak, strong = by.calibrate_ratios(np.array([1.0, MAX_LOG_RATIO]))
    assert 0.4 < weak <= 1.0
    assert strong < 2 * np.log(9)
