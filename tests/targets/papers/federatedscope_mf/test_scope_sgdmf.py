"""What a rating moves in FederatedScope's steps, how often it is drawn, and what that proves."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.judging.accounting import all_accountants, least_of_event
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import GOLDEN
from fedrec_auditor.targets.papers.federatedscope_mf.systems.fs_hfl_sgdmf import FsHflSgdmf
from fedrec_auditor.targets.papers.federatedscope_mf.systems.fs_vfl_sgdmf import FsVflSgdmf
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.made import rated

SYSTEMS = (FsHflSgdmf, FsVflSgdmf)
PRESENCE, VALUE = (f"rating / {change} / server / training" for change in ("add-remove", "replace"))


def epsilon(system: FsHflSgdmf | FsVflSgdmf, scope: Scope, delta: float) -> float:
    event = system.event(scope, Population(n_users=30, n_items=20))
    bound = least_of_event(event, scope, delta, all_accountants())
    return math.inf if bound is None else bound.epsilon


def gradients(user: np.ndarray, item: np.ndarray, rating: float) -> tuple[np.ndarray, np.ndarray]:
    error = 2 * (user @ item - rating)
    return error * item, error * user


def test_no_two_ratings_move_both_tables_farther_apart_than_is_charged() -> None:
    """Of one user, R = 5: rows of any direction and length, and the pair that is farthest."""
    rng, farthest = np.random.default_rng(0), 0.0
    bound, unit = 5.0, 2 * 5.0**1.5
    at = math.atan(2.0) / 2.0  # of the golden ratio
    drawn = [rng.random((3, 4)) ** rng.choice([0.1, 1, 9]) for _ in range(20_000)]
    axes = np.eye(4)[:2]
    worst = np.array([axes[0], axes[1], axes[0] * math.cos(at) + axes[1] * math.sin(at)])
    for rows, ends in [(rows, rng.random(2) * bound) for rows in drawn] + [
        (worst[[2, first, second]], values)
        for first, second in ((0, 1), (1, 0))
        for values in ((0.0, bound), (bound, 0.0))
    ]:
        user, one, other = math.sqrt(bound) * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        (u, v), (w, x) = gradients(user, one, ends[0]), gradients(user, other, ends[1])
        apart = math.sqrt(((u - w) ** 2).sum() + (v**2).sum() + (x**2).sum())
        farthest = max(farthest, apart / unit)
    assert 1.9 < farthest <= math.sqrt(GOLDEN**2 + 2.0)


class Shuffled:
    """A generator whose next order is given."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self._order = np.array(order)

    def permutation(self, count: int) -> np.ndarray:
        assert count == len(self._order)
        return self._order


Batches = tuple[frozenset[tuple[int, int]], ...]


def law(batches: list[Batches]) -> dict[Batches, Fraction]:
    return {each: Fraction(times, len(batches)) for each, times in Counter(batches).items()}


@pytest.mark.parametrize("kind", SYSTEMS)
def test_a_rating_that_comes_takes_the_place_of_one_other_in_a_batch(
    kind: type[FsHflSgdmf | FsVflSgdmf],
) -> None:
    """In all orders: with the chance that is charged it is drawn, and what it displaces is even.

    Where it is not drawn, batches have the law that they have without it. Where it is, so they do
    when one of the ratings that are in no batch, each as likely, stands in its place.
    """
    new = (1, 2)
    table = np.array([[4.0, 0, 2.0, 0], [0, 5.0, 0, 1.0], [3.0, 0, 0, 0]])
    before = sparse.csr_array(table)
    table[new] = 3.0
    after = sparse.csr_array(table)
    system = kind(local_steps=2, users=20, rate=0.1, ratings=before.nnz)

    def drawn(ratings: sparse.csr_array) -> list[Batches]:
        found, steps = [], system.local_steps
        for order in permutations(range(ratings.nnz)):
            one = system.descent(3).draw(ratings, Shuffled(order), steps)  # type: ignore[arg-type]
            rated = list(zip(one.rows.tolist(), ratings.indices[one.places].tolist(), strict=True))
            found.append(tuple(frozenset(rated[a:b]) for a, b in pairwise(one.starts)))
        return found

    with_it = [(each, new in frozenset().union(*each)) for each in drawn(after)]
    came = [each for each, there in with_it if there]
    share = Fraction(len(came), len(with_it))
    assert share == Fraction(system.local_steps * system.batch, after.nnz)
    assert share <= system.chance < 1
    every = set(zip(*(ends.tolist() for ends in after.nonzero()), strict=True))
    swapped = [
        tuple(batch - {new} | {other} if new in batch else batch for batch in each)
        for each in came
        for other in sorted(every - frozenset().union(*each))
    ]
    expected = law(drawn(before))
    assert law([each for each, there in with_it if not there]) == expected
    assert law(swapped) == expected


def test_who_steps_alone_draws_every_order_of_batches_alike() -> None:
    """Of 5 ratings 2 and then 2: 30 ways."""
    many = 30_000
    row = sparse.csr_array(np.tile(np.array([[1.0, 0, 2.0, 3.0, 4.0, 5.0]]), (many, 1)))
    system = FsHflSgdmf(local_steps=2, users=20, rate=0.1)
    streams = Streams.spawn(np.random.default_rng(0), many)
    one = system.descent(1).draw_alone(row, streams, 2)
    columns = row.indices[one.places].reshape(many, 4)
    assert (np.diff(one.starts) == 2).all()
    ways = Counter((*sorted(each[:2]), *sorted(each[2:])) for each in columns.tolist())
    assert len(ways) == 30
    assert max(abs(times - many / 30) for times in ways.values()) < 5 * math.sqrt(many / 30)


@pytest.mark.parametrize("kind", SYSTEMS)
def test_a_delta_of_being_drawn_at_all_needs_no_noise(kind: type[FsHflSgdmf | FsVflSgdmf]) -> None:
    system = kind(ratings=160_033, epsilon=1e6)
    for text in (PRESENCE, VALUE):
        scope = Scope.parse(text)
        assert epsilon(system, scope, 1.001 * system.ever) == pytest.approx(0.0, abs=1e-6)
        assert epsilon(system, scope, 0.9 * system.ever) > 1e5


def test_without_the_number_of_ratings_each_may_be_drawn_in_every_round() -> None:
    system = FsHflSgdmf()
    assert (system.chance, system.ever, system.assumes) == (1.0, 1.0, ())
    scope = Scope.parse(VALUE)
    assert epsilon(system, scope, 1e-5) > epsilon(FsHflSgdmf(ratings=160_033), scope, 1e-5)
    assert math.isinf(epsilon(system, Scope.parse(PRESENCE), 1e-5))
    assert math.isinf(epsilon(system, Scope.parse("user / replace / server / training"), 1e-5))


@pytest.mark.parametrize("kind", SYSTEMS)
def test_parties_with_fewer_ratings_than_is_said_are_refused(
    kind: type[FsHflSgdmf | FsVflSgdmf],
) -> None:
    data = rated(30, 20)
    with pytest.raises(InputError, match="at least ratings=1000 ratings, got one of"):
        kind(ratings=1000, rounds=1).run(data, np.random.default_rng(0))
    kind(ratings=5, rounds=1).run(data, np.random.default_rng(0))


@pytest.mark.parametrize("kind", SYSTEMS)
def test_noise_is_that_of_the_code_on_the_mean_and_both_tables_move(
    kind: type[FsHflSgdmf | FsVflSgdmf],
) -> None:
    """Where nothing is rated a step is the noise, of the size that the code gives it."""
    system = kind(rounds=1, local_steps=1, epsilon=1e3, factors=8, users=50, rate=0.2)
    data = rated(40, 300, share=0.02)
    run = system.run(data, np.random.default_rng(0))
    (seen,) = run.transcript.rounds
    name = "items" if kind is FsHflSgdmf else "users"
    sent = seen.uploads.components[name].dense(np.arange(5))
    moved = (sent - seen.broadcast[name]) / system.learning_rate
    assert system.batch == 10
    broadcast = seen.broadcast[name]
    inside = (np.linalg.norm(broadcast, axis=1) < 2.0) & (broadcast.min(axis=1) > 0.1)
    still = np.median(np.abs(moved[:, inside]), axis=2)  # of rows, most of which no rating moves
    assert inside.sum() >= 5
    assert np.median(still) == pytest.approx(0.674 * system.deviation, rel=0.1)
    assert np.abs(moved).max() > 10 * system.deviation
