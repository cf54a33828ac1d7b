"""Evidence that shadows or popularity refute is weakened to what it is worth, no other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.calibration import WHOLE, calibrated, calibrated_evidence, scales
from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads
from tests.attacks.made import Flip, view_of

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


@dataclass(frozen=True)
class FlippingDevice:
    """The code of a device that flips each bit with odds of exp(-``epsilon``)."""

    epsilon: float
    seconds: float = 0.0
    others: bool = False
    sizes: tuple[int, int] = (1, ITEMS)
    kind: Kind = Kind.BITS

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


def of_stated(
    stated: float, true: float = 1.0, **code: Any
) -> tuple[Evidence, Evidence, tuple[str, ...]]:
    """Evidence before and after calibration of bits, and what is said of it."""
    device = FlippingDevice(true)
    round_ = Round(None, device(HELD[:300], None, np.random.default_rng(4)))
    channel = Flip(expit(stated), expit(-stated))
    client = replace(device, **code)
    public = {"channel": channel, "popularity": HELD.mean(axis=0), "client": client}
    view = view_of(round_, users=300, items=ITEMS, **public)
    users = np.arange(300)
    return reading.evidence(view, users), calibrated_evidence(view, users), tuple(view.how)


@pytest.mark.parametrize("true", [0.2, 1.0, 3.0])
def test_evidence_that_shadows_bear_out_stays_to_the_last_bit(true: float) -> None:
    before, after, how = of_stated(true, true)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    np.testing.assert_array_equal(after.log_ratio, before.log_ratio)
    assert not how


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_evidence_that_is_too_sure_by_a_factor_is_scaled_back(factor: float) -> None:
    """A reader that is told of less noise than the devices add is as sure as their code allows."""
    before, after, how = of_stated(factor)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    np.testing.assert_array_equal(np.sign(after.log_ratio), np.sign(before.log_ratio))
    assert np.abs(before.log_ratio) == pytest.approx(factor)
    assert np.abs(after.log_ratio) == pytest.approx(1.0, abs=0.1)
    assert how == ("Evidence is weakened to what shadows of the devices' code bear out.",)


def test_activity_that_evidence_does_not_tell_is_scaled_to_nothing() -> None:
    """Also where the ratios are right, and entries that are proved have no part in either scale."""
    rng = np.random.default_rng(5)
    ratio = bits(1.0)
    noise = rng.normal(scale=2.0, size=USERS)
    evidence = Evidence(users=np.arange(USERS), log_ratio=ratio, activity=noise)
    of_ratio, of_activity, _ = scales(evidence, HELD, ODDS)
    assert of_ratio == pytest.approx(1.0, abs=0.05)
    assert of_activity < 0.05
    proved = np.where(HELD, np.inf, -np.inf)
    evidence = Evidence(users=np.arange(USERS), log_ratio=proved, activity=noise)
    assert scales(evidence, HELD, ODDS) == WHOLE


def test_shadows_whose_messages_are_not_read_scale_nothing() -> None:
    before, after, _ = of_stated(1.0, kind=Kind.CHANGE)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    np.testing.assert_array_equal(after.log_ratio, before.log_ratio)


def test_popularity_bears_out_evidence_against_shadows_that_are_unlike_users() -> None:
    before, after, how = of_stated(3.0, 3.0, epsilon=0.2)
    assert before.log_ratio is not None
    assert after.log_ratio is not None
    bent = before.log_ratio / (1 + np.abs(before.log_ratio) / 16)
    np.testing.assert_allclose(after.log_ratio, bent, rtol=1e-6)
    assert how == ("Popularity bears out evidence that shadows of code refute.",)


def test_ratios_that_are_too_sure_for_how_often_they_are_wrong_are_bent() -> None:
    """A weak report and, of every tenth pair, a sure one that is wrong once in ten times."""
    rng = np.random.default_rng(6)
    wrong = rng.random(HELD.shape) < 0.1
    sure = np.where(HELD ^ wrong, SURE, -SURE)
    ratio = np.where(rng.random(HELD.shape) < 0.1, sure, bits(1.0))
    evidence = Evidence(users=np.arange(USERS), log_ratio=ratio, activity=np.zeros(USERS))
    by = scales(evidence, HELD, ODDS)
    weak, strong = by.of(np.array([1.0, SURE]))
    assert 0.4 < weak <= 1.0
    assert strong < 2 * np.log(9)
