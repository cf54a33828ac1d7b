"""The clone bound against brute force over every small shuffle, and against the known range."""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
from fedrec_auditor.accountants.losses import composition, pairs
from fedrec_auditor.accountants.losses.pairs import ClonePair
from fedrec_auditor.accountants.methods.accounting_methods import Pld, Shuffle
from tests.contracts.events import SCOPE, response, response_event

Law = dict[tuple, float]
FEW, MANY = ShuffledDpEvent(1.0, 100, True), ShuffledDpEvent(2.0, 2000, True)


def epsilon_of(local: float, users: int, times: int, delta: float, binary: bool = True) -> float:
    event = SelfComposedDpEvent(ShuffledDpEvent(local, users, binary), times)
    return Shuffle().bound(event, delta=delta, scope=SCOPE).epsilon


def report(epsilon: float, vector: tuple[float, ...]) -> Law:
    """Law of (coordinate, bit), written out from Minto et al. 2021, Algorithm 1, line 5."""
    d, e = len(vector), math.exp(epsilon)
    law: Law = {}
    for c, v in enumerate(vector):
        one = (v * (e - 1) + e + 1) / (2 * e + 2)
        law[(c, 1)], law[(c, 0)] = one / d, (1 - one) / d
    return law


def shuffled(laws: list[Law]) -> Law:
    """Law of the multiset of all reports, by enumeration."""
    total: Law = defaultdict(float)
    for outputs in itertools.product(*laws):
        total[tuple(sorted(outputs))] += math.prod(
            law[o] for law, o in zip(laws, outputs, strict=True)
        )
    return total


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    return sum(max(0.0, v - math.exp(epsilon) * q.get(o, 0.0)) for o, v in p.items())


def pair_delta(pair: ClonePair, epsilon: float) -> float:
    listed = pair.listed()
    told = -np.expm1(np.minimum(epsilon - listed.losses, 0.0))
    return float(np.exp(listed.log_p) @ told) + pair.infinite


@pytest.mark.parametrize("local", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(("users", "dimension"), [(1, 1), (2, 1), (4, 1), (6, 1), (2, 2), (3, 2)])
def test_the_pair_dominates_every_shuffle_of_bits(local: float, users: int, dimension: int) -> None:
    """Every pair of corners of one user, every choice of corners and of 0 of the others."""
    corners = list(itertools.product([-1.0, 1.0], repeat=dimension))
    inner = [*corners, (0.0,) * dimension]
    best = dict.fromkeys((0.0, 0.2, 0.7, 1.5, 2.4), 0.0)
    for others in itertools.combinations_with_replacement(inner, users - 1):
        rest = [report(local, v) for v in others]
        worlds = [shuffled([report(local, v), *rest]) for v in corners]
        for p, q in itertools.permutations(worlds, 2):
            for eps in best:
                best[eps] = max(best[eps], hockey_stick(p, q, eps))
    for eps, reached in best.items():
        bound = pair_delta(ClonePair(local, users, binary=True), eps)
        assert bound >= reached - 1e-12
        assert pair_delta(ClonePair(local, users), eps) >= bound - 1e-12
    if users == 1:
        assert pair_delta(ClonePair(local, users, binary=True), 0.2) == pytest.approx(best[0.2])


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=3, max_size=3),
    st.sampled_from([0.5, 1.5]),
)
def test_the_general_pair_dominates_shuffles_of_any_local_randomizer(
    levels: list[list[float]], local: float
) -> None:
    """Random laws over three outputs that are e^eps-close, three users, each input a law."""
    # Rows within [1, e^(eps/2)] before normalising are within e^eps of each other after.
    weights = np.exp(np.array(levels) * local / 2)
    laws = [dict(zip([(0,), (1,), (2,)], row / row.sum(), strict=True)) for row in weights]
    for first, second in itertools.permutations(laws, 2):
        p, q = (shuffled([law, laws[2], laws[0]]) for law in (first, second))
        for eps in (0.0, 0.1, 0.4):
            assert pair_delta(ClonePair(local, 3), eps) >= hockey_stick(p, q, eps) - 1e-12


@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.floats(0.05, 3.0),
    st.data(),
    st.sampled_from([0.3, 1e-2, 1e-4]),
)
def test_never_below_any_small_shuffle_of_responses(
    users: int, times: int, local: float, data: st.DataObject, delta: float
) -> None:
    """Exact divergence of composed shuffles of up to four users, who change their bits at will."""
    p: Law = {(): 1.0}
    q: Law = {(): 1.0}
    for _ in range(times):
        rest = [report(local, (v,)) for v in data.draw(corners(users - 1))]
        one, two = (shuffled([report(local, (v,)), *rest]) for v in (1.0, -1.0))
        p, q = (
            {(*a, b): x * y for a, x in old.items() for b, y in new.items()}
            for old, new in ((p, one), (q, two))
        )
    for binary in (True, False):
        bound = epsilon_of(local, users, times, delta, binary)
        assert max(hockey_stick(p, q, bound), hockey_stick(q, p, bound)) <= delta + 1e-12


def corners(count: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.sampled_from([1.0, -1.0]), min_size=count, max_size=count)


def test_what_is_composed_is_computed_once() -> None:
    composition._cached.cache_clear()
    for _ in range(3):
        for events in ([FEW, MANY], [MANY, FEW]):
            Shuffle().bound(ComposedDpEvent(events), delta=1e-6, scope=SCOPE)
    assert composition._cached.cache_info().misses == 1


def forget() -> None:
    composition._cached.cache_clear()
    pairs._listed.cache_clear()


def test_a_training_of_2000_reports_is_accounted_in_seconds() -> None:
    """From nothing remembered; the second time for nothing."""
    for users in (1_000, 50_000):
        forget()
        start = time.process_time()
        first = epsilon_of(2.5, users, 2000, 1e-6)
        assert time.process_time() - start < 5.0
        start = time.process_time()
        assert epsilon_of(2.5, users, 2000, 1e-6) == first
        assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    ("local", "users", "binary"),
    [(2.5, 100_000, True), (1.0, 20_000, False), (0.1, 10_000, True), (2.5, 1_000, True)],
)
def test_clones_rounded_down_cost_little(
    local: float, users: int, binary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against every number of clones: never less, and at most 1e-3 of epsilon more."""
    pair = ClonePair(local, users, binary)
    shares = (0.0, 0.1, 0.3, 0.6)
    coarse = epsilon_of(local, users, 5, 1e-6, binary)
    found = [pair_delta(pair, share * coarse) for share in shares]
    monkeypatch.setattr(pairs, "_COARSE", 0.0)
    forget()
    exact = [pair_delta(pair, share * coarse) for share in shares]
    assert all(more >= less - 1e-12 for more, less in zip(found, exact, strict=True))
    fine = epsilon_of(local, users, 5, 1e-6, binary)
    forget()
    assert fine * (1 - 1e-5) <= coarse <= fine * (1 + 1e-3)


@pytest.mark.parametrize(
    "users", [10**6, 10**15, pytest.param(10**9, marks=pytest.mark.calibration)]
)
@pytest.mark.parametrize("times", [1, 5, 2000])
def test_a_shuffle_of_millions_is_accounted_in_a_second(users: int, times: int) -> None:
    """Processor time; more users still hide a user better, up to ten thousand millions."""
    start = time.process_time()
    found = epsilon_of(2.5, users, times, 1e-6)
    assert time.process_time() - start < 1.0
    assert 0.0 < found < epsilon_of(2.5, 100_000, times, 1e-6)


def test_the_pair_is_a_law_and_its_mirror() -> None:
    for local, users, binary in ((2.5, 943, True), (0.1, 50, False), (4.0, 100_000, True)):
        pair = ClonePair(local, users, binary).listed()
        mass, loss = np.exp(pair.log_p), pair.losses
        assert mass.sum() == pytest.approx(1.0, abs=1e-11)
        assert (mass * np.exp(-loss)).sum() == pytest.approx(1.0, abs=1e-11)
        assert np.abs(loss).max() <= local + 1e-12
        assert 0 < ClonePair(local, users, binary).infinite < 1e-15


def test_more_than_a_million_shuffles_are_bounded_by_their_moments() -> None:
    """A few per cent above their mean loss, which exceeds all else by far; and in a second."""
    composed = epsilon_of(1.0, 100, 3000, 1e-6)
    forget()
    start = time.process_time()
    found = epsilon_of(1.0, 100, 10**9, 1e-6)
    assert time.process_time() - start < 1.0
    assert found > 10**5 * composed / 3
    pair = ClonePair(1.0, 100, True).listed()
    mean = 10**9 * float(np.exp(pair.log_p) @ pair.losses)
    assert mean <= found <= 1.1 * mean


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(("local", "times"), [(0.25, 2000), (2.5, 40)])
def test_alone_in_the_shuffle_is_no_shuffle(local: float, times: int, delta: float) -> None:
    """With n = 1 the pair is randomized response, whose composition is an exact sum."""
    truth = response(local)(times, delta)
    bound = epsilon_of(local, 1, times, delta)
    assert truth - 1e-9 <= bound <= min(times * local, 1.002 * truth) + 1e-6
    plain = SelfComposedDpEvent(response_event(local), times)
    assert Pld().bound(plain, delta=delta, scope=SCOPE).epsilon == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("binary", [True, False])
def test_never_worse_than_unshuffled_and_better_with_more_users(binary: bool) -> None:
    bounds = [epsilon_of(2.5, users, 200, 1e-6, binary) for users in (1, 2, 30, 1000, 30_000)]
    assert all(a >= b for a, b in itertools.pairwise(bounds))
    assert bounds[0] <= 500.0
    assert epsilon_of(2.5, 1000, 200, 0.0, binary) == 500.0
    assert epsilon_of(2.5, 1000, 200, 1e-6, True) <= epsilon_of(2.5, 1000, 200, 1e-6, False)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("local", [499.0, 501.0, 800.0])
def test_reports_too_loud_to_hide_are_charged_as_they_are(local: float, binary: bool) -> None:
    assert epsilon_of(local, 1000, 20, 1e-6, binary) == pytest.approx(20 * local)


def test_unlike_shuffles_compose() -> None:
    def bound(*events: ShuffledDpEvent) -> float:
        event = SelfComposedDpEvent(ComposedDpEvent(list(events)), 50)
        return Shuffle().bound(event, delta=1e-6, scope=SCOPE).epsilon

    assert max(bound(FEW), bound(MANY)) < bound(FEW, MANY) < bound(FEW) + bound(MANY)
