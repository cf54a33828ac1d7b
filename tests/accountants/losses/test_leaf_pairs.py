"""Pairs that neighbours reach: shuffled bits and flips against their enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, PoissonSampledDpEvent, ZCDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.losses.composition import epsilon_below
from fedrec_auditor.accountants.losses.divergences import least_epsilon
from fedrec_auditor.accountants.losses.pairs import attained_pairs, shuffled_pairs


def enumerated(missed: float, unlikely: float, n_users: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the number of ones, one report after the other."""
    found = []
    for one in (1.0 - missed, unlikely):
        counts = np.array([1.0])
        for chance in [one] + [unlikely] * (n_users - 1):
            counts = np.convolve(counts, [1.0 - chance, chance])
        found.append(counts)
    return found[0], found[1]


@settings(max_examples=60)
@given(
    missed=st.floats(0.01, 0.5),
    unlikely=st.floats(0.01, 0.45),
    n_users=st.integers(1, 40),
    delta=st.sampled_from([1e-6, 1e-3, 0.1]),
)
def test_shuffled_bits_are_those_enumerated(
    missed: float, unlikely: float, n_users: int, delta: float
) -> None:
    p, q = enumerated(missed, unlikely, n_users)
    for pair, (one, other) in zip(
        shuffled_pairs(missed, unlikely, n_users), ((p, q), (q, p)), strict=True
    ):
        order = np.argsort(-(one / other))
        exact = least_epsilon(np.log(one[order]), np.log(other[order]), delta)
        found = epsilon_below(((pair, 1),), delta)
        assert found <= exact + 1e-9
        assert found == pytest.approx(exact, rel=1e-3, abs=1e-5)


def test_a_flip_has_its_own_pair_either_way() -> None:
    """Not the symmetric one that dominates it in both directions at once."""
    pairs = attained_pairs(BitFlipDpEvent(0.9, 0.2))
    for pair, (p, q) in zip(pairs, ((0.9, 0.2), (0.2, 0.9)), strict=True):
        exact = max(math.log((a - 0.05) / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0.05)
        assert epsilon_below(((pair, 1),), 0.05) == pytest.approx(exact, rel=1e-6)
    certain = attained_pairs(BitFlipDpEvent(1.0, 0.2))
    assert [pair.infinite for pair in certain] == [0.0, pytest.approx(0.8)]


def test_a_report_alone_is_not_hidden() -> None:
    pairs = attained_pairs(ShuffledDpEvent(1.0, 1))
    assert epsilon_below(((pairs[0], 1),), 1e-9) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "event", [ZCDpEvent(0.1), PoissonSampledDpEvent(0.1, ComposedDpEvent([]))], ids=str
)
def test_of_others_none_is_known(event: object) -> None:
    assert attained_pairs(event) is None
