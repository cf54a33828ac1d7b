"""Cost of drawing a fixed number of rows, by independent methods."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import stats

from fedrec_auditor.accountants.losses.pairs import GaussianPair, PoissonSamplePair, ReversedPair
from fedrec_auditor.accountants.statements import Adjacency
from fedrec_auditor.auditor.judging.accounting import find_upper_bound, list_accountants
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import VflSgdmf
from fedrec_auditor.targets.systems.base import Population, Target

MOVIELENS = Population(n_users=943, n_items=1682)
GOLDEN = (1 + math.sqrt(5)) / 2  # distance of two users, in units of that of one user and none
_GRID = 1e-4


def prove(target: Target, adjacency: Adjacency, delta: float) -> float:
    scope = make_claim_scope("user", adjacency=adjacency)
    return find_upper_bound(target, scope, MOVIELENS, delta, list_accountants()).epsilon


def compose(one: Any, *parts: tuple[float, float, int]) -> Any:
    """Epsilon by dp-accounting for ``count`` uses of ``one`` at z and q."""
    first, *rest = (one(z, q).self_compose(count) for z, q, count in parts)
    for other in rest:
        first = first.compose(other)
    return first


def poisson(z: float, q: float, relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE) -> Any:
    return library.from_gaussian_mechanism(
        z, sampling_prob=q, value_discretization_interval=_GRID, neighboring_relation=relation
    )


def swap(z: float, q: float) -> Any:
    return poisson(z, q, NeighboringRelation.REPLACE_ONE)


VERTICAL = (1.8 * math.sqrt(10 / 6), 1.8 * math.sqrt(5))  # z over the true sensitivities, theta = 5
HORIZONTAL, COMES = 1.7 * math.sqrt(10), Adjacency.ADD_REMOVE
BOTH_TABLES = [
    (VERTICAL[0] / math.sqrt((50 + 5 * GOLDEN**2) / 30), 9 / 943, 10_000),
    (VERTICAL[1] / GOLDEN, 9 / 943, 1000),
]
ONE_RATING = HflSgdmf(unit="user", trim=1, noise_multiplier=2.0)


@pytest.mark.parametrize(
    ("target", "adjacency", "delta", "one", "parts", "figure"),
    [
        (
            HflSgdmf(unit="user"),
            COMES,
            1e-5,
            poisson,
            [(HORIZONTAL / GOLDEN, 1 / 94, 1000)],
            0.3603,
        ),
        (ONE_RATING, COMES, 1e-5, poisson, [(2.0 / GOLDEN, 1 / 94, 1000)], 1.3225),
        (VflSgdmf(unit="user"), COMES, 1e-5, poisson, BOTH_TABLES, 2.8089),
        (
            VflSgdmf(unit="user", as_published=False),
            Adjacency.REPLACE,
            2e-5,
            swap,
            [(VERTICAL[0], 0.01, 10_000), (VERTICAL[1], 0.01, 1000)],
            3.615,
        ),
        (
            HflSgdmf(unit="user", as_published=False),
            Adjacency.REPLACE,
            1e-5,
            swap,
            [(HORIZONTAL, 0.01, 1000)],
            0.4067,
        ),
    ],
)
def test_epsilons_of_a_user_are_those_of_the_library(
    target: Target, adjacency: Adjacency, delta: float, one: Any, parts: Any, figure: float
) -> None:
    found = prove(target, adjacency, delta)
    assert found == pytest.approx(figure, rel=1e-3)
    assert found == pytest.approx(compose(one, *parts).get_epsilon_for_delta(delta), rel=3e-3)


@pytest.mark.parametrize(
    ("noise", "twice", "target"),
    [(HORIZONTAL, 0.4623, HflSgdmf(unit="user")), (2.0, 1.955, ONE_RATING)],
)
def test_users_differ_by_less_than_twice_the_distance_from_none(
    noise: float, twice: float, target: Target
) -> None:
    """The charge is below that at half the noise, and above that of the claim's accountant."""
    half, whole = (
        compose(poisson, (z, 1 / 94, 1000)).get_epsilon_for_delta(1e-5) for z in (noise / 2, noise)
    )
    assert half == pytest.approx(twice, rel=3e-3)
    assert whole < prove(target, COMES, 1e-5) < half


@pytest.mark.parametrize("z", [0.6, 2.0])
def test_half_the_noise_is_necessary_and_sufficient(z: float) -> None:
    """Sums of 2 of 6 users with values from -1 to 1 and noise z: all samples, on a grid."""
    points = np.linspace(-3 - 9 * z, 3 + 9 * z, 4001)
    step = points[1] - points[0]

    def law(users: tuple[float, ...]) -> np.ndarray:
        sums = [sum(chosen) for chosen in itertools.combinations(users, 2)]
        return np.mean([stats.norm.pdf(points, at, z) for at in sums], axis=0) * step

    def get_epsilon(noise: float, x: float) -> float:
        pair = PoissonSamplePair(GaussianPair(1 / noise), 2 / 6)
        edges = np.concatenate([[-np.inf], np.linspace(-30, 30, 60_001), [np.inf]])
        curves = []
        for one in (pair, ReversedPair(pair)):
            p, q = (np.exp(part) for part in one.bin_losses(edges))
            curves.append(np.maximum(p - x * q, 0).sum())
        return max(curves)

    exceeded = False
    for x in (0.7, 1.2, 2.0):
        half, whole = get_epsilon(z / 2, x), get_epsilon(z, x)
        for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), 5):
            with_it, without = law((*others, 1.0)), law(others)
            for p, q in ((with_it, without), (without, with_it)):
                reached = np.maximum(p - x * q, 0).sum()
                assert reached <= half + 1e-5
                exceeded |= reached > whole + 1e-3
    assert exceeded
