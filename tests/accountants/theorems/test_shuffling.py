"""Tests of attained epsilons of shuffles, and of users who do not hide others."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import SelfComposedDpEvent
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Shuffle
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.accountants.theorems.neighbours import count_anonymity_set
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated, Shuffled
from tests.contracts.events import response

SHUFFLED = make_local_scope(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)


def proved(local: float, users: int, times: int, delta: float, *, binary: bool = True) -> float:
    event = SelfComposedDpEvent(ShuffledDpEvent(local, users, binary), times)
    return Shuffle().bound(event, delta=delta, scope=SHUFFLED).epsilon


def attained(local: float, users: int, times: int, delta: float) -> float:
    """Lower bound by two worlds in which all other users have the opposite bit."""
    return find_exact_bound(Repeated(Shuffled(local, users), times), SHUFFLED, delta).epsilon


def ones(local: float, bits: tuple[int, ...]) -> np.ndarray:
    """Distribution of the number of ones, by enumeration of all reports."""
    right = 1 / (1 + math.exp(-local))
    law = np.zeros(len(bits) + 1)
    for reports in itertools.product((0, 1), repeat=len(bits)):
        chance = math.prod(
            right if r == b else 1 - right for r, b in zip(reports, bits, strict=True)
        )
        law[sum(reports)] += chance
    return law


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@settings(max_examples=20)
@given(
    st.integers(1, 4), st.integers(1, 3), st.floats(0.05, 3.0), st.sampled_from([0.2, 1e-2, 1e-4])
)
def test_the_lower_bound_is_near_that_of_enumerated_worlds(
    users: int, times: int, local: float, delta: float
) -> None:
    """The bound is at most the exact epsilon of the worst order, and within 1% of it."""
    p = q = np.ones(1)
    for _ in range(times):
        p = np.outer(p, ones(local, (1,) + (0,) * (users - 1))).ravel()
        q = np.outer(q, ones(local, (0,) * users)).ravel()
    found = attained(local, users, times, delta)
    if found > 0:
        assert max(hockey_stick(p, q, found), hockey_stick(q, p, found)) >= delta * (1 - 1e-9)
    above = 1.01 * found + 0.01 * local
    assert max(hockey_stick(p, q, above), hockey_stick(q, p, above)) <= delta
    assert found <= proved(local, users, times, delta) + 1e-9


@settings(max_examples=10)
@given(
    st.integers(2, 3000), st.integers(1, 60), st.floats(0.05, 6.0), st.sampled_from([1e-2, 1e-6])
)
def test_the_lower_bound_is_below_the_proved_one(
    users: int, times: int, local: float, delta: float
) -> None:
    """This holds for bits and for arbitrary reports."""
    low = attained(local, users, times, delta)
    assert low <= proved(local, users, times, delta) * (1 + 1e-9)
    assert low <= proved(local, users, times, delta, binary=False) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("users", "catalogue", "least", "most"),
    [(50_000, 2.96, 2.963, 4.18), (1_000, 20.5, 31.43, 47.7)],
)
def test_the_range_of_fmf_ldps_training(
    users: int, catalogue: float, least: float, most: float
) -> None:
    """eps0 = 2.5, k = 100, T = 20, delta = 1e-6: the catalogue's ends, and a larger lower end.

    At n = 1000 the worlds attain more than the catalogue's 20.5; at 50,000 the same to its digits.
    """
    low = attained(2.5, users, 2000, 1e-6)
    assert low >= least
    assert low >= catalogue
    assert proved(2.5, users, 2000, 1e-6) == pytest.approx(most, abs=0.05)
    assert low < proved(2.5, users, 2000, 1e-6)


def test_the_lower_bound_is_within_0_3_percent_of_the_library() -> None:
    """The reference is dp-accounting's upper bound of these worlds at 50,000 users, 500 times:
    1.39.
    """
    law, counts = Shuffled(2.5, 50_000), np.arange(3000, 4600)
    upper, lower = (
        {int(c): float(p) for c, p in zip(counts, law.log_prob(counts, corner), strict=True)}
        for corner in (1.0, -1.0)
    )
    library = max(
        from_two_probability_mass_functions(*pair, value_discretization_interval=5e-6)
        .self_compose(500)
        .get_epsilon_for_delta(1e-6)
        for pair in ((upper, lower), (lower, upper))
    )
    found = attained(2.5, 50_000, 500, 1e-6)
    assert 0.997 * library <= found <= library


def test_shuffling_does_not_help_at_delta_0() -> None:
    assert attained(2.5, 1000, 2000, 0.0) == 5000.0


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
@pytest.mark.parametrize(("local", "times"), [(0.25, 2000), (1.0, 50), (2.5, 2000), (3.0, 3)])
def test_one_user_is_randomized_response(local: float, times: int, delta: float) -> None:
    """The sum is exact, also if a loss of thousands has a probability below the smallest double."""
    truth = response(local)(times, delta)
    assert truth * (1 - 1e-3) <= attained(local, 1, times, delta) <= truth * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [50.0, 600.0])
def test_huge_epsilons_do_not_overflow(epsilon: float) -> None:
    assert attained(epsilon, 1000, 3, 1e-6) <= 3 * epsilon * (1 + 1e-9)


@given(st.integers(1, 3), st.integers(0, 2), st.floats(0.1, 3), st.floats(0, 2))
def test_revealed_reports_leave_a_shuffle_of_the_others(
    silent: int, telling: int, local: float, epsilon: float
) -> None:
    """Revealed reports and the pool of all equal the pool of users who do not collude."""
    right = 1 / (1 + math.exp(-local))
    worlds = []
    for bit in (1, 0):
        known = np.ones(1)
        for _ in range(telling):
            known = np.outer(known, [right, 1 - right]).ravel()
        # Given the revealed reports, the pool of all determines the number of ones of the other
        # users.
        worlds.append(np.outer(known, ones(local, (bit,) + (0,) * (silent - 1))).ravel())
    alone = [ones(local, (bit,) + (0,) * (silent - 1)) for bit in (1, 0)]
    seen, left = (hockey_stick(one, two, epsilon) for one, two in (worlds, alone))
    assert seen == pytest.approx(left)
    n = silent + telling
    assert count_anonymity_set(n, telling / n) == silent


def test_colluding_shares_are_rounded_up_and_one_user_stays() -> None:
    expected = {0.0: 10, 0.01: 9, 0.1: 9, 0.11: 8, 0.999: 1}
    assert {share: count_anonymity_set(10, share) for share in expected} == expected
    for users, share in ((0, 0.0), (10, 1.0), (10, -0.1), (10, math.nan)):
        with pytest.raises(InputError, match="colluding"):
            count_anonymity_set(users, share)
