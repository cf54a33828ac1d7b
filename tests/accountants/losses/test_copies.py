"""Copies composed: against exact sums."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from fedrec_auditor.accountants.bisection import last_failure
from fedrec_auditor.accountants.losses import responses
from fedrec_auditor.accountants.losses.composition import epsilon_below
from fedrec_auditor.accountants.losses.divergences import least_epsilon
from fedrec_auditor.accountants.losses.responses import loss_pair


def test_losses_beyond_the_doubles_are_composed_from_below() -> None:
    """100 copies of losses +-10 and 0: the truth is a sum over how many of each there are."""
    high, low = 0.85, 0.85 * math.exp(-10.0)
    laws = np.log([[high, low, 1 - high - low], [low, high, 1 - high - low]])
    one = np.array([low, 1 - high - low, high])
    chance = functools.reduce(np.convolve, [one] * 100)
    loss = 10.0 * np.arange(-100, 101)
    assert float(chance @ loss) > 745

    def delta_of(epsilon: float) -> float:
        return float(chance @ -np.expm1(np.minimum(epsilon - loss, 0.0)))

    truth = last_failure(lambda epsilon: delta_of(epsilon) <= 1e-3, close=1e-12)
    found = epsilon_below(((loss_pair(*laws), 100),), 1e-3)
    assert truth - 0.1 <= found <= truth + 1e-9


@pytest.mark.parametrize("count", [200_000, 2_000_000])
def test_millions_of_copies_from_below_against_an_exact_sum(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits of rates 0.5 and 0.55, on a grid, and the bulk of the counts instead of all."""
    pair = np.log([0.45, 0.55]), np.log([0.5, 0.5])
    on_grid = epsilon_below(((loss_pair(*pair), count),), 1e-6)
    monkeypatch.setattr(responses, "_MANY_COPIES", 0)
    bulk = responses.counted(*pair, count)
    assert len(bulk[0]) < count
    monkeypatch.setattr(responses, "_MANY_COPIES", count)
    whole = responses.counted(*pair, count) if count < 10**6 else bulk
    truth, short = (least_epsilon(p[::-1], q[::-1], 1e-6) for p, q in (whole, bulk))
    assert 0.98 * truth <= on_grid <= truth
    assert short == pytest.approx(truth, rel=1e-7)
