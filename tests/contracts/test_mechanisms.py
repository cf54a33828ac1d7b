"""Runs the public ``MechanismContract`` on every mechanism, and on faulty mechanisms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting import DpEvent, RandomizedResponseDpEvent
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing import Case, MechanismContract
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve, WorstCase
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.composed_mechanisms import (
    Clipped,
    Identity,
    PrivateAverage,
    Product,
    Repeated,
    Shuffled,
)
from fedrec_auditor.targets.mechanisms.discrete_mechanisms import DiscreteGaussian, DiscreteLaplace
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import (
    EmbeddingGaussian,
    Gaussian,
    NoiseReplacement,
    RevealedGaussian,
    SampledGaussian,
    VectorGaussian,
)
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace, SnappedLaplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import (
    BitFlip,
    OneCoordinate,
    Piecewise,
    Ternary,
)
from tests.contracts.laws import BROKEN, hold
from tests.points import later


def _tuples(length: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product([0, 1], repeat=length)))


_BITS = np.array([0, 1])
_NUMBERS = np.array([-1.0, -0.3, 0.5, 2.0])
_VECTORS = np.array([[1.0, 1, 1], [-1, -1, -1], [0.25, -0.75, 1], [0, 0, 0]])
_REPORTS = np.array([[c, b] for c in range(3) for b in (0, 1)])

_PLANE = np.array([[3.0, 4.0], [-3.0, -4.0], [0.1, -0.2], [0.0, 0.0]])
_RATINGS = np.array([-1.0, 0.0, 1.3, 2.0])


def _joint_normal(mechanism: NoiseReplacement) -> Callable[[NDArray[Any], Any], NDArray[Any]]:
    """Returns the conditional distribution function of all outputs, from the noises' covariance."""
    m, k = mechanism.masked, mechanism.replaced
    # Rows: S, R_1 ... R_k. Columns: the first noises of all m, then the replacements of k of them.
    rows = np.zeros((1 + k, m + k))
    rows[0, :m] = 1.0
    first = np.r_[np.full(m, mechanism.round_1_variance), np.full(k, mechanism.round_2_variance)]
    if mechanism.repaired:
        first[:k] -= mechanism.round_2_variance
        rows[0, m:] = 1.0
        rows[1:, :k] = -np.eye(k)
    else:
        rows[1:] = np.hstack([-np.eye(k), np.zeros((k, m - k)), np.eye(k)])
    noises = mechanism.sigma * rows * np.sqrt(first)
    root = np.linalg.cholesky(noises @ noises.T)

    def cdf(outputs: NDArray[Any], value: Any) -> NDArray[Any]:
        mean = np.r_[value, np.zeros(k)]
        return stats.norm.cdf(np.linalg.solve(root, (outputs - mean)[..., None])[..., 0])

    return cdf


def _replacements() -> tuple[Case, ...]:
    kinds = (
        NoiseReplacement(
            sigma=0.8,
            sensitivity=1.5,
            n_users=6,
            omega=0.5,
            masked=masked,
            replaced=replaced,
            repaired=repaired,
        )
        for masked, replaced, repaired in (
            (5, 3, False),
            (5, 3, True),
            (6, 6, False),
            (4, 0, False),
        )
    )
    return tuple(Case(kind, np.array([0.0, 0.4, 1.5]), cdf=_joint_normal(kind)) for kind in kinds)


_UNIT = np.array([-1.0, -0.3, 0.0, 0.5, 1.0])


def _piecewise_case(mechanism: Piecewise) -> Case:
    """A case with one output per interval on which the density is constant for all inputs."""
    half = math.exp(mechanism.epsilon / 2.0)
    reach = (half + 1.0) / (half - 1.0)
    ends = np.sort(np.add.outer([1.0 - reach, reach - 1.0], (reach + 1.0) * _UNIT).ravel() / 2.0)
    edges = ends[np.diff(ends, prepend=-np.inf) > 1e-9]
    outputs = (edges[1:] + edges[:-1]) / 2.0
    return Case(mechanism, _UNIT, outputs, edges=edges)


def _revealed_case(mechanism: RevealedGaussian) -> Case:
    """A case for Gaussian noise whose sampling coin is visible: outputs are (coin, sum)."""
    rate, z = mechanism.sampling_probability, mechanism.noise_multiplier

    def cdf(outputs: NDArray[Any], value: Any) -> NDArray[Any]:
        coins, sums = stats.norm.cdf(outputs[..., 0]), outputs[..., 1]
        return np.stack([coins, stats.norm.cdf(sums, value * (coins < rate), z)], axis=-1)

    return Case(mechanism, np.array([0.0, 0.4, 1.0]), cdf=cdf)


def _hidden_case(mechanism: SampledGaussian) -> Case:
    """A case for Gaussian noise with hidden sampling: a mixture over the number of draws."""
    counts = np.arange(mechanism.local_steps + 1)
    law = stats.binom.pmf(counts, mechanism.local_steps, mechanism.sampling_probability)
    unit = mechanism.noise_multiplier * mechanism.local_steps**0.5

    def cdf(outputs: NDArray[Any], value: Any) -> NDArray[Any]:
        shift = (1.0 if value else -mechanism.opposite) / unit
        return stats.norm.cdf(outputs[..., None] - counts * shift) @ law

    return Case(mechanism, np.array([0.0, 1.0]), cdf=cdf)


# Mechanisms beyond the papers: bounded numbers, noise on grids, combinators.
_FURTHER: dict[str, tuple[Case, ...]] = {
    "piecewise": (_piecewise_case(Piecewise(0.3)), _piecewise_case(Piecewise(4.0))),
    "discrete-laplace": (
        Case(DiscreteLaplace(scale=1.3, low=-1, high=2), _NUMBERS, np.arange(-60.0, 61)),
        Case(
            DiscreteLaplace(scale=0.7, low=-1, high=2, step=0.25),
            _NUMBERS,
            np.arange(-120, 121) / 4,
        ),
    ),
    "discrete-gaussian": (
        Case(DiscreteGaussian(sigma=1.5, low=-1, high=2), _NUMBERS, np.arange(-40.0, 41)),
        Case(
            DiscreteGaussian(sigma=0.9, low=-1, high=2, step=0.25), _NUMBERS, np.arange(-80, 81) / 4
        ),
    ),
    "snapped-laplace": tuple(
        Case(
            SnappedLaplace(scale=scale, low=-1, high=2, bound=bound),
            _NUMBERS,
            np.arange(-64, 65) * grid,
        )
        for scale, bound, grid in ((0.7, 20.0, 1.0), (0.25, 2.0, 0.25), (2.5, 4.0, 4.0))
    ),
}

# At least one case per member of the family.
CASES: dict[str, tuple[Case, ...]] = _FURTHER | {
    "bit-flip": tuple(
        Case(flip, _BITS, _BITS)
        for flip in (
            BitFlip.symmetric(1.0),
            BitFlip.asymmetric(1.0),
            BitFlip(0.7, 0.2),
            BitFlip(0.1, 0.4),
            BitFlip(1.0, 0.0),
            BitFlip(0.003, 0.001),
        )
    ),
    "one-coordinate": (
        Case(OneCoordinate(2.5, 3), _VECTORS, _REPORTS),
        Case(OneCoordinate(0.1, 3), _VECTORS, _REPORTS),
    ),
    "ternary": tuple(
        Case(Ternary(0.5, 3.0, share), np.array([-0.5, 0.0, 0.2, 0.5]), np.array([-3.0, 0.0, 3.0]))
        for share in (0.0, 0.5, 1.0)
    ),
    "laplace": (
        Case(
            Laplace(scale=0.7, low=-1, high=2),
            _NUMBERS,
            cdf=lambda x, v: stats.laplace.cdf(x, v, 0.7),
        ),
    ),
    "gaussian": (
        Case(
            Gaussian(sigma=1.5, low=-1, high=2),
            _NUMBERS,
            cdf=lambda x, v: stats.norm.cdf(x, v, 1.5),
        ),
    ),
    "vector-gaussian": (
        Case(
            VectorGaussian(sigma=1.5, clip=2.5, dimension=2),
            _PLANE,
            cdf=lambda y, x: stats.norm.cdf(y, x * min(1.0, 2.5 / max(math.hypot(*x), 0.1)), 1.5),
        ),
    ),
    "clipped": (
        Case(
            Clipped(Laplace(scale=0.7, low=-1, high=2)),
            np.array([-4.0, -0.3, 2.0, 3.0]),
            cdf=lambda x, v: stats.laplace.cdf(x, min(max(v, -1.0), 2.0), 0.7),
        ),
        Case(
            Clipped(Product(Laplace(scale=0.7, low=-1, high=2), 3)),
            np.array([[-3.0, 5.0, 0.0], [1.0, -1.0, -2.0], [0.3, 0.2, 9.0]]),
            cdf=lambda y, x: stats.laplace.cdf(y, np.clip(x, -1, 2), 0.7),
        ),
    ),
    "component-laplace": (
        Case(
            ComponentLaplace(
                (NoisyComponent("user", 1, 0.5), NoisyComponent("item", 2, 2.0)), clip=0.5
            ),
            np.array([[-3.0, 0.5, 0.0], [1.0, -0.7, -2.0], [0.3, 0.2, 0.1]]),
            cdf=lambda y, x: stats.laplace.cdf(y, np.clip(x, -0.5, 0.5), [2.0, 0.5, 0.5]),
        ),
    ),
    "private-average": tuple(
        Case(
            PrivateAverage(
                multiplier=0.9,
                clip=2.0,
                batch=3,
                dimension=2,
                balance=0.4,
                step=step,
                counts_clipped=clipped,
            ),
            np.array([[0.0, 2.0], [0.0, -2.5], [3.0, -4.0], [0.1, 0.0]]),
            cdf=lambda y, x, step=step, clipped=clipped: stats.norm.cdf(
                y,
                np.r_[
                    step * x * min(1.0, 2.0 / math.hypot(*x)) / 3.0,
                    1.0 if clipped or math.hypot(*x) <= 2.0 else 2.0 / 3.0,
                ],
                np.r_[[1.2 / math.sqrt(0.6)] * 2, 0.6 / math.sqrt(0.4)],
            ),
        )
        for step, clipped in ((1.7, False), (1.0, True), (1.0, False))
    ),
    "embedding-gaussian": (
        Case(
            EmbeddingGaussian.create_worst_case(sigma=4.0, bound=2.0),
            _RATINGS,
            cdf=lambda y, x: stats.norm.cdf(y, [-2.0 * max(x, 0.0) * math.sqrt(2.0), 0.0], 4.0),
        ),
        Case(
            EmbeddingGaussian(sigma=3.0, bound=2.0, user=(3.0, -1.0), item=(0.6, 0.8), joint=True),
            _RATINGS,
            cdf=lambda y, x: stats.norm.cdf(
                y,
                -2.0
                * (0.0 if x < 0 else x - 0.6 * math.sqrt(2.0))
                * np.array([0.6, 0.8, math.sqrt(2.0), 0.0]),
                3.0,
            ),
        ),
    ),
    "noise-replacement": _replacements(),
    "identity": (Case(Identity(), _BITS, _BITS),),
    "product": (
        Case(Product(BitFlip(0.8, 0.3), 3), _tuples(3), _tuples(3)),
        Case(
            Product(OneCoordinate(1.0, 2), 2),
            np.array([[[1.0, -1], [0.5, 0]], [[-1, 1], [-0.5, 0.25]]]),
            np.array(list(itertools.product([[0, 0], [0, 1], [1, 0], [1, 1]], repeat=2))),
        ),
    ),
    "shuffled": (
        Case(Shuffled(1.0, 4), np.array([-1.0, 0.25, 1.0]), np.arange(5)),
        Case(Shuffled(2.5, 1), np.array([-1.0, 0.25, 1.0]), np.arange(2)),
    ),
    "revealed-gaussian": tuple(
        _revealed_case(RevealedGaussian(noise_multiplier=z, sampling_probability=rate, count=3))
        for z, rate in ((0.2, 0.7), (0.9, 0.3))
    ),
    "sampled-gaussian": tuple(
        _hidden_case(
            SampledGaussian(
                noise_multiplier=z,
                sampling_probability=rate,
                rounds=2,
                local_steps=steps,
                opposite=opposite,
            )
        )
        for z, rate, steps, opposite in ((0.9, 0.4, 3, 0.0), (1.1, 0.5, 2, 0.6), (0.7, 0.3, 1, 0.0))
    ),
    "repeated": (
        Case(Repeated(BitFlip.symmetric(1.0), 3), _BITS, _tuples(3)),
        Case(Repeated(Product(BitFlip(0.8, 0.3), 2), 2), _tuples(2), _tuples(4).reshape(-1, 2, 2)),
    ),
}
# Further cases of mechanisms with a density, from the third on; their samples take seconds.
SLOW_CASES = [case for cases in CASES.values() for case in cases[2:] if case.outputs is None]
SLOW_TESTS = ("test_frequencies", "test_curve", "test_event")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes each contract test by the cases to which it applies."""
    if metafunc.cls is not TestMechanisms:
        return
    law, cases = metafunc.function.__name__, [case for some in CASES.values() for case in some]
    if law == "test_curve":
        cases = [case for case in cases if isinstance(case.mechanism, PrivacyCurve)]
    metafunc.parametrize(
        "case",
        [later(c) if law in SLOW_TESTS and any(c is f for f in SLOW_CASES) else c for c in cases],
        ids=[repr(case.mechanism) for case in cases],
    )


class TestMechanisms(MechanismContract):
    @pytest.fixture(autouse=True)
    def _given(self, case: Case) -> None:
        self.subject = case


@pytest.mark.parametrize("name", FAMILIES["mechanisms"].list_names())
def test_every_member_has_a_case_of_its_class(name: str) -> None:
    assert CASES.get(name), f"Add a case for {name}."
    member = FAMILIES["mechanisms"].load_class(name)
    assert all(isinstance(case.mechanism, member) for case in CASES[name])


Size = tuple[int, ...] | None


class _Flip(BitFlip):
    """A correct mechanism; each subclass makes one fault."""


class BiasedSampling(_Flip):
    """Faulty mechanism: draws with another probability than it states."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return BitFlip(self.p - 0.02, self.q).randomize(value, rng, size)


class LeakyDistribution(_Flip):
    """Faulty mechanism: its stated probabilities do not sum to 1."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        return super().log_prob(output, value) + np.log(0.99)


class OpenDomain(_Flip):
    """Faulty mechanism: accepts any number as input, and rounds it to 0 or 1."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(np.asarray(value) > 0.5, rng, size)


class HiddenGenerator(_Flip):
    """Faulty mechanism: draws from the operating system's generator instead of ``rng``."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, np.random.default_rng(), size)


class SharedNoise(_Flip):
    """Faulty mechanism: all outputs have the same noise."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        value = np.asarray(value)
        u = rng.random()
        out = np.where(value == 1, u < self.p, u < self.q)
        self.domain.check(value)
        return np.broadcast_to(out, value.shape if size is None else size)


class NoSize(_Flip):
    """Faulty mechanism: ignores the requested size of the output."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, rng)


class BlindCritical(_Flip):
    """Faulty mechanism: its worst case has output 1 only, although output 0 may reveal more."""

    def worst_case(self) -> WorstCase:
        return WorstCase(inputs=np.array([0, 1]), outputs=np.array([1]))


class CheapEvent(_Flip):
    """Faulty mechanism: its event has epsilon ln(p/q), although ln((1 - q)/(1 - p)) is larger."""

    def event(self) -> DpEvent:
        return RandomizedResponseDpEvent(2 / (1 + self.p / self.q), 2)


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        ("frequencies", BiasedSampling),
        ("probabilities", LeakyDistribution),
        ("domain", OpenDomain),
        ("determinism", HiddenGenerator),
        ("frequencies", SharedNoise),
        ("shapes", NoSize),
        ("worst_case", BlindCritical),
        ("event", CheapEvent),
    ],
)
def test_the_law_catches(law: str, broken: type[BitFlip]) -> None:
    with pytest.raises(BROKEN):
        hold(MechanismContract, Case(broken(0.9, 0.3), _BITS, _BITS), f"test_{law}")
