"""The contract's checks of vector densities and of curves catch what is broken there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from targets.mechanisms.vector_gaussian import VectorGaussian
from tests.contracts.mechanisms import CASES, Case, check_curve, check_density, check_frequencies

SOUND = CASES["vector-gaussian"][0]
Size = tuple[int, ...] | None


class SharedNoise(VectorGaussian):
    """The same draw in every entry: each looks right, the sum and the difference do not."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        center = self.center(self.domain.spread(value, size))
        return center + rng.normal(0.0, self.sigma, (*center.shape[:-1], 1))


class SpareEntry(VectorGaussian):
    """Half the noise on the last entry."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        out, center = super().randomize(value, rng, size), self.center(np.asarray(value))
        out[..., -1] = (out[..., -1] + center[..., -1]) / 2
        return out


class OneNormaliser(VectorGaussian):
    """Normalised as if the vector had one entry."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        law = super().log_prob(output, value)
        return law + (self.dimension - 1) * np.log(self.sigma * np.sqrt(2 * np.pi))


class OneSided(VectorGaussian):
    """A curve for sensitivity C, which is that of adding a vector, not of replacing one."""

    mu = property(lambda self: self.clip / self.sigma)


class TwoSided(VectorGaussian):
    """A curve for twice the sensitivity: safe, and not exact."""

    mu = property(lambda self: 4 * self.clip / self.sigma)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (SharedNoise, check_frequencies),
        (SpareEntry, check_frequencies),
        (OneNormaliser, check_density),
        (OneSided, check_curve),
        (TwoSided, check_curve),
    ],
)
def test_the_contract_catches(broken: type[VectorGaussian], check: Any) -> None:
    case = Case(broken(sigma=1.5, clip=2.5, dimension=2), SOUND.inputs, SOUND.outputs, SOUND.cdf)
    with pytest.raises(AssertionError):
        check(case)
