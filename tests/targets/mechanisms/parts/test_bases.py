"""The contract's checks of densities and curves detect broken mechanisms."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.testing import Case, MechanismContract
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE as SCOPE
from fedrec_auditor.targets.mechanisms import gaussian_mechanisms
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Product, Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian, VectorGaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from tests.contracts.laws import hold
from tests.contracts.test_mechanisms import CASES

SOUND = CASES["vector-gaussian"][0]
Size = tuple[int, ...] | None


class SharedNoise(VectorGaussian):
    """Broken: one draw for all entries; each entry is right, but sums and differences are not."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        center = self.compute_noiseless(self.domain.expand_batch(value, size))
        return center + rng.normal(0.0, self.sigma, (*center.shape[:-1], 1))


class WeakEntry(VectorGaussian):
    """Broken: half the noise on the last entry."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        out, center = super().randomize(value, rng, size), self.compute_noiseless(np.asarray(value))
        out[..., -1] = (out[..., -1] + center[..., -1]) / 2
        return out


class OneNormaliser(VectorGaussian):
    """Broken: normalised as if the vector had one entry."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        law = super().log_prob(output, value)
        return law + (self.dimension - 1) * np.log(self.sigma * np.sqrt(2 * np.pi))


class OneSided(VectorGaussian):
    """Broken: a curve for sensitivity C, which adds a vector, instead of 2C, which replaces one."""

    mu = property(lambda self: self.clip / self.sigma)


class TwoSided(VectorGaussian):
    """Broken: a curve for twice the sensitivity, which is valid but not exact."""

    mu = property(lambda self: 4 * self.clip / self.sigma)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (SharedNoise, "test_frequencies"),
        (WeakEntry, "test_frequencies"),
        (OneNormaliser, "test_probabilities"),
        (OneSided, "test_curve"),
        (TwoSided, "test_curve"),
    ],
)
def test_the_contract_catches(broken: type[VectorGaussian], law: str) -> None:
    case = Case(broken(sigma=1.5, clip=2.5, dimension=2), SOUND.inputs, SOUND.outputs, SOUND.cdf)
    with pytest.raises(AssertionError):
        hold(MechanismContract, case, law)


@pytest.mark.parametrize("t", [-0.4, 0.0, 0.7, 4.0, 20.0])
@pytest.mark.parametrize("mu", [1e-12, 1e-3, 0.99, 1.01, 30.0, 1e4, 1e8])
def test_the_curve_is_accurate_at_any_distance(mu: float, t: float) -> None:
    """The curve agrees to 10 digits with the integral of phi(x + t) (1 - e^-(mu x)) over x > 0.

    At x standard deviations beyond the point t where the loss is epsilon, it is epsilon + mu x.
    """
    epsilon = mu * (t + mu / 2)
    if epsilon < 0:
        return
    # Change of t by the rounding of epsilon alone.
    slack = 2.0**-52 * epsilon / mu * (t + 3)

    def more(x: float) -> float:
        return float(stats.norm.pdf(x + t) / stats.norm.pdf(t) * -np.expm1(-mu * x))

    points = np.array([0.0, 1e-9, 1e-7, 1e-5, 1e-3, 0.1, 1.0, 4.0, 12.0])
    pieces = [
        integrate.quad(more, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in itertools.pairwise(points)
    ]
    wanted = sum(pieces) * float(stats.norm.pdf(t))
    assert compute_gaussian_delta(mu, epsilon) == pytest.approx(wanted, rel=1e-10 + slack)


@pytest.mark.parametrize("sigma", [1e-200, 1e200])
def test_extreme_noise_is_refused(sigma: float) -> None:
    for make in (
        lambda: Gaussian(sigma=sigma, low=0, high=1),
        lambda: VectorGaussian(sigma=sigma, clip=1.0, dimension=2),
        lambda: gaussian_mechanisms.EmbeddingGaussian.create_worst_case(sigma=sigma, bound=2.0),
    ):
        with pytest.raises(InputError, match="standard deviations of the noise"):
            make()


def test_ranges_of_overflowing_width_are_refused() -> None:
    with pytest.raises(InputError, match="finite high - low > 0"):
        Laplace(scale=1.0, low=-1e308, high=1e308)


@pytest.mark.parametrize(
    "noise", [Gaussian(sigma=1.5, low=0, high=1), Laplace(scale=1, low=0, high=1)]
)
@pytest.mark.parametrize("wrap", [lambda m: Product(m, 4), lambda m: Repeated(m, 4), Clipped])
def test_mechanisms_of_normal_noise_are_copied_completely(wrap: Any, noise: Any) -> None:
    made = wrap(noise)
    assert copy.deepcopy(made) == made
    other = Laplace(scale=1, low=0, high=1)
    assert repr(dataclasses.replace(made, mechanism=other)) == repr(wrap(other))
    assert isinstance(dataclasses.replace(made, mechanism=other), type(wrap(other)))


def test_normal_noise_adds_up_in_squares() -> None:
    """Compared with the accountant's epsilon and the distribution of the sum."""
    for many in (
        Product(Gaussian(sigma=1.5, low=0, high=1), 4),
        Repeated(Gaussian(sigma=1.5, low=0, high=1), 4),
        Product(Repeated(Gaussian(sigma=1.5, low=0, high=1), 2), 2),
    ):
        assert isinstance(many, PrivacyCurve)
        assert many.worst_case() is None
        for epsilon in (0.0, 0.5, 2.0):
            wanted = Gaussian(sigma=1.5 / 2, low=0, high=1).delta(epsilon)
            assert many.delta(epsilon) == pytest.approx(wanted, rel=1e-12)
        shown = find_exact_bound(many, SCOPE, 1e-6).epsilon
        owed = Pld().bound(many.event(), delta=1e-6, scope=SCOPE).epsilon
        assert owed - 1e-9 <= shown <= owed
