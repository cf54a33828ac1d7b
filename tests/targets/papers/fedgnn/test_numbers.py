"""Headings 29 to 31: verdicts, and the numbers by a second way."""

from __future__ import annotations

import hashlib
import hmac
import math

import numpy as np
import pytest
from dp_accounting import ZCDpEvent

from fedrec_auditor.accountants.methods.accounting_methods import Rdp
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.catalogue import entries, judge
from fedrec_auditor.reports.catalogue import CatalogueRow
from fedrec_auditor.targets.papers.fedgnn import numbers
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn

V, C, N = Verdict.VIOLATED, Verdict.CONSISTENT, Verdict.INCOMPARABLE
WEIGHTS = 64 * (1682 + 64)
EXTRA = 0.0016
EPSILONS = {
    "29": (C, 1.0, 1.0),
    "29b": (V, math.inf, math.inf),
    "29c": (V, WEIGHTS, WEIGHTS),
    "29d": (N, 22 * WEIGHTS, 22 * WEIGHTS),
    "30": (Verdict.NO_CLAIM, 32**0.5 + EXTRA, 32**0.5),
    "30b": (N, (32 * WEIGHTS) ** 0.5 + 64 * 1682 * EXTRA, (32 * WEIGHTS) ** 0.5),
    "30c": (N, 3 * ((32 * WEIGHTS) ** 0.5 + 64 * 1682 * EXTRA), 3 * (32 * WEIGHTS) ** 0.5),
    "30d": (C, 1.0, 1.0),
    "30e": (N, WEIGHTS**0.5, WEIGHTS**0.5),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, CatalogueRow]:
    return {row.number: row for row in judge([e for e in entries() if e.number in EPSILONS])}


@pytest.mark.parametrize("number", EPSILONS)
def test_epsilons_are_judged_as_derived(rows: dict[str, CatalogueRow], number: str) -> None:
    verdict, proved, lower = EPSILONS[number]
    row = rows[number]
    assert (row.verdict, row.claimed_epsilon) == (verdict, 1.0)
    assert row.proved_epsilon == pytest.approx(proved, rel=2e-3)
    assert row.exact_lower_epsilon == pytest.approx(lower, rel=1e-9)


def test_pseudo_items_fall_to_the_intersection_of_three_messages() -> None:
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        kept = np.ones(10677 - 106, dtype=bool)
        for _ in range(3):
            drawn = np.zeros_like(kept)
            drawn[rng.choice(len(kept), 1000, replace=False)] = True
            kept &= drawn
        shares.append(kept.sum())
    expected = 106 / (106 + np.mean(shares))
    assert numbers.left(10677, 106, 1000, 3) == pytest.approx(expected, abs=0.01)
    assert numbers.left(10677, 106, 1000, 1) == 106 / 1106


def test_one_l2_norm_is_worth_much_at_delta_above_0() -> None:
    """Entry 30e says 5.3: an entry of shift t and scale 1 is t-private, so t^2/2-concentrated."""
    scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    found = Rdp().bound(ZCDpEvent(rho=0.5), delta=1e-6, scope=scope).epsilon
    assert 4.5 < found <= 5.3
    shifts = np.random.default_rng(0).dirichlet(np.ones(50)) ** 0.5  # L2 norm 1
    losses = shifts - 1 + np.exp(-shifts)  # Kullback-Leibler divergence of a shifted Laplace
    assert losses.sum() <= 0.5


def test_codes_without_randomness_are_read_and_keyed_hashes_are_not() -> None:
    history = {3, 17, 1200}
    assert numbers.by_encryption({numbers.encrypted_code(i) for i in history}, 1682) == history
    assert numbers.by_signature({numbers.signed_code(i) for i in history}, 1682) == history
    keyed = {int.from_bytes(hmac.digest(b"key", str(i).encode(), hashlib.sha256)) for i in history}
    assert not numbers.by_encryption(keyed, 1682)
    assert not numbers.by_signature(keyed, 1682)


def test_steps_of_one_norm_move_no_prediction_further() -> None:
    """The bound of entry 30f, against steps along the gradient of a prediction itself."""
    system, rng = FedPerGnn(), np.random.default_rng(0)
    _, (four, most) = numbers.moved()
    path = system.rounds * system.learning_rate * system.clip
    size = system.init_scale * math.sqrt(system.dimension)
    ends = []
    for _ in range(20):
        item, mean = rng.normal(size=(2, system.dimension))
        item, mean = size * item / np.linalg.norm(item), mean / np.linalg.norm(mean)
        mean *= size / math.sqrt(106)
        layer, own = np.outer(item, mean), item / math.sqrt(106)
        length = math.sqrt((layer**2).sum() + (own**2).sum() + (mean**2).sum())
        turned = np.eye(system.dimension) + path * layer / length
        hidden = turned @ (mean + path * own / length / math.sqrt(106))
        ends.append(system.best * (hidden @ (item + path * mean / length) - mean @ item))
    assert most / 3 < max(ends) < most < four
