"""Tests of outputs with both atoms and densities: clipped, mixed and rounded noise.

Every case states its distribution independently: the atoms, and the density from scipy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.exact.fit import CheckStatus, check_fit
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.worlds.sampler import Sampler
from tests.auditor.tracing.distributions import compute_epsilon, follow

Rng = np.random.Generator
LAPLACE, NORMAL = stats.laplace(), stats.norm(scale=2.0)


@dataclass(frozen=True)
class Case:
    """A randomizer of 0 and 1 with its distribution, stated independently."""

    function: Callable[..., Any]
    atoms: Callable[[int], dict[float, float]]
    density: Callable[[int, float], float]
    epsilon: float
    ends: tuple[float, ...] = (-1.0, 0.0, 0.5, 1.0)
    at: float = 0.01

    def compute_divergence(self, epsilon: float, input_a: int, input_b: int) -> float:
        """Hockey-stick divergence, by quadrature."""
        p, q = self.atoms(input_a), self.atoms(input_b)
        factor = math.exp(epsilon)
        total = sum(max(0.0, mass - factor * q.get(y, 0.0)) for y, mass in p.items())

        def above(y: float) -> float:
            return max(0.0, self.density(input_a, y) - factor * self.density(input_b, y))

        grid = np.unique([*np.linspace(-25.0, 25.0, 51), *self.ends])
        cells = itertools.pairwise(grid)
        parts = (integrate.quad(above, low, high, epsabs=1e-13)[0] for low, high in cells)
        return total + math.fsum(parts)


def clip(noise: Any, low: float, high: float) -> tuple[Any, Any]:
    """Atoms and density of noise around the input, clipped to [low, high]."""

    def atoms(x: int) -> dict[float, float]:
        ends = {low: float(noise.cdf(low - x)), high: float(noise.sf(high - x))}
        return {y: mass for y, mass in ends.items() if mass}

    return atoms, lambda x, y: float(noise.pdf(y - x)) * (low < y < high)


def thresholded(x: int, rng: Rng) -> float:
    y = x + rng.laplace()
    return y if y > 0.5 else 0.0


def mixed(x: int, rng: Rng) -> float:
    return 0.5 if rng.random() < 0.25 else x + rng.laplace()


def two_ways_to_one_atom(x: int, rng: Rng) -> float:
    if rng.random() < 0.25:
        return -0.0
    return max(x + rng.laplace(), 0.0)


def atom_of_one_input(x: int, rng: Rng) -> float:
    return 0.5 if x and rng.random() < 0.25 else x + rng.laplace()


def rounded_or_not(x: int, rng: Rng) -> float:
    y = x + rng.laplace()
    return float(round(y)) if rng.random() < 0.25 else y


def step(y: float, x: int) -> float:
    return float(LAPLACE.cdf(y + 0.5 - x) - LAPLACE.cdf(y - 0.5 - x))


def smooth(x: int, y: float) -> float:
    return float(LAPLACE.pdf(y - x))


CASES = [
    Case(lambda x, rng: float(np.clip(x + rng.laplace(), -1, 1)), *clip(LAPLACE, -1.0, 1.0), 1.0),
    Case(lambda x, rng: min(max(x + rng.laplace(), 0.0), 1.0), *clip(LAPLACE, 0.0, 1.0), 1.0),
    Case(lambda x, rng: max(x + rng.laplace(), 0), *clip(LAPLACE, 0.0, math.inf), 1.0),
    Case(lambda x, rng: np.clip(x + rng.laplace(), -8, 8), *clip(LAPLACE, -8.0, 8.0), 1.0),
    Case(
        lambda x, rng: min(max(x + rng.normal(0, 2), -1), 1),
        *clip(NORMAL, -1.0, 1.0),
        math.log(NORMAL.cdf(-1) / NORMAL.cdf(-2)),
    ),
    Case(lambda x, rng: max(0.0, x + rng.normal(0, 2)), *clip(NORMAL, 0.0, math.inf), math.inf),
    Case(
        thresholded,
        lambda x: {0.0: float(LAPLACE.cdf(0.5 - x))},
        lambda x, y: smooth(x, y) * (y > 0.5),
        1.0,
    ),
    Case(mixed, lambda x: {0.5: 0.25}, lambda x, y: 0.75 * smooth(x, y), 1.0),
    Case(
        two_ways_to_one_atom,
        lambda x: {0.0: 0.25 + 0.75 * float(LAPLACE.cdf(-x))},
        lambda x, y: 0.75 * smooth(x, y) * (y > 0),
        1.0,
    ),
    Case(
        atom_of_one_input,
        lambda x: {0.5: 0.25} if x else {},
        lambda x, y: (0.75 if x else 1.0) * smooth(x, y),
        math.inf,
        at=0.3,
    ),
    Case(
        rounded_or_not,
        lambda x: {float(y): 0.25 * step(y, x) for y in range(-30, 31)},
        lambda x, y: 0.75 * smooth(x, y),
        1.0,
    ),
]
IDS = [f"{k}" for k in range(len(CASES))]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_epsilon_covers_atoms_and_densities(case: Case) -> None:
    assert compute_epsilon(case.function, [0, 1]) == pytest.approx(case.epsilon, rel=1e-12)
    least = compute_epsilon(case.function, [0, 1], case.at)
    spent = max(case.compute_divergence(least, 0, 1), case.compute_divergence(least, 1, 0))
    assert spent == pytest.approx(case.at, abs=1e-8)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_an_atom_of_any_input_is_an_atom_for_all(case: Case) -> None:
    trace = follow(case.function, [0, 1])
    atoms = {*case.atoms(0), *case.atoms(1)}
    assert atoms <= {*trace.atom_values}
    places = sorted(atoms | {-0.7, 0.3, 0.8, 2.2})
    for x in trace.inputs:
        expected = [case.atoms(x).get(y, 0.0) if y in atoms else case.density(x, y) for y in places]
        found = np.exp(trace.log_prob(np.array(places), x))
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("case", [CASES[k] for k in (1, 3, 5, 9, 10)])
def test_real_draws_agree_with_the_trace(case: Case) -> None:
    found = verify_ldp(case.function, epsilon=1.0, inputs=[0, 1], samples=4_000)
    assert found.method.startswith("proved from the code"), found.checks[0].reason
    expected = Verdict.CONSISTENT if case.epsilon <= 1.0 else Verdict.VIOLATED
    assert (found.verdict, found.epsilon_lower) == (expected, pytest.approx(case.epsilon))


def test_draws_with_too_heavy_an_atom_do_not_fit() -> None:
    def far(x: int, rng: Rng) -> float:
        return min(max(x + rng.laplace(), -5.0), 5.0)

    def heavier(x: int, rng: Rng) -> float:
        y = far(x, rng)
        return 5.0 if y > 4.0 else y

    trace = follow(far, [0, 1])
    stated: Any = {"wrapped_object": trace, "log_prob_function": trace.log_prob}
    stated["atom_values"] = trace.atom_values

    def fitted(function: Callable[..., Any]) -> CheckStatus:
        dist = OutputDistribution(sampler=Sampler.wrap(function), **stated)
        seed = np.random.SeedSequence(0)
        return check_fit(dist.sampler, dist, [*trace.inputs], samples=6_000, seed=seed).status

    assert (fitted(far), fitted(heavier)) == (CheckStatus.PASSED, CheckStatus.FAILED)


@pytest.mark.parametrize("share", [0.0, 1e-4])
def test_an_input_with_nearly_only_atoms_is_proved(share: float) -> None:
    def report(x: int, rng: Rng) -> float:
        return 0.5 if rng.random() >= (share if x else 0.5) else float(rng.laplace())

    found = verify_ldp(report, epsilon=1.0, inputs=[0, 1], samples=4_000)
    assert found.method.startswith("proved from the code"), found.checks[0].reason
    assert found.epsilon_lower == pytest.approx(math.log(0.5 / share) if share else math.inf)


def test_an_infinite_epsilon_at_a_delta_is_found() -> None:
    assert compute_epsilon(atom_of_one_input, [0, 1], 0.01) == math.inf


def test_a_large_epsilon_at_a_delta_is_not_called_infinite() -> None:
    def far(x: int, rng: Rng) -> float:
        return 1000 * x + float(rng.normal(0, 0.01))

    bound = follow(far, [0, 1]).compute_bound(0.01)
    assert 1e5 < bound.epsilon < 5e9  # near the exact value, half the square of the shift
    assert not bound.tight
    witness = follow(far, [0, 1]).compute_bound(0.0).witness
    assert witness is not None
    assert "grows without bound" in witness.note


def several_by_hand(x: int, rng: Rng) -> Any:
    return [min(max(x + rng.laplace(), 0.0), 1.0) for _ in range(3)]


def several_at_once(x: int, rng: Rng) -> Any:
    return np.clip(x + rng.laplace(0, 1, 3), 0, 1)


def one_clip_of_two(x: int, rng: Rng) -> Any:
    return {"noisy": x + rng.laplace(), "clipped": max(x + rng.laplace(), 0.0)}


def paths_that_are_not_independent(x: int, rng: Rng) -> Any:
    if rng.random() < 0.75:
        return [x, x]
    return [x if rng.random() < 0.5 else 1 - x, 1 - x]


def each_beside_its_sign(x: int, rng: Rng) -> Any:
    first, second = (min(max(x + rng.laplace(), 0.0), 1.0) for _ in range(2))
    return [first, first > 0.5, second, second > 0.5]


def one_coin_for_all(x: int, rng: Rng) -> Any:
    return np.where(rng.random(5) < (0.75 if rng.random() < 0.5 else 0.6), x, 1 - x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (several_by_hand, 3.0),
        (several_at_once, 3.0),
        (one_clip_of_two, 2.0),
        (paths_that_are_not_independent, math.inf),
        (each_beside_its_sign, 2.0),
        (one_coin_for_all, math.log((0.75**5 + 0.6**5) / (0.25**5 + 0.4**5))),
    ],
)
def test_epsilons_of_independent_outputs_add(function: Callable[..., Any], expected: float) -> None:
    assert compute_epsilon(function, [0, 1]) == pytest.approx(expected, rel=1e-12)


def test_the_density_of_clipped_numbers_is_a_product() -> None:
    trace = follow(several_by_hand, [0, 1])
    found = trace.log_prob([0.0, 1.0, 0.25], trace.inputs[1])
    below, above = LAPLACE.cdf(-1.0), LAPLACE.sf(0.0)
    assert math.exp(found) == pytest.approx(below * above * LAPLACE.pdf(-0.75), rel=1e-12)
