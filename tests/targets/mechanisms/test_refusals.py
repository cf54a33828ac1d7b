"""Invalid settings and inputs of mechanisms are refused with a reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import find_gaussian_mu
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Product
from fedrec_auditor.targets.mechanisms.discrete_mechanisms import DiscreteGaussian, DiscreteLaplace
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import (
    EmbeddingGaussian,
    Gaussian,
    VectorGaussian,
)
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace, SnappedLaplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate

RNG = np.random.default_rng(1)
LAPLACE, COORDINATE = Laplace(scale=0.5, low=-0.5, high=0.5), OneCoordinate(1.0, 2)
TWICE = (NoisyComponent("a", 1, 1.0), NoisyComponent("a", 2, 1.0))
ROWS = {"sigma": 3.0, "bound": 5.0}
GOAL = {"epsilon": 1.0, "delta": 0.1, "dimension": 2}
NO_LENGTH = (0.0, -1.0, math.nan, math.inf)
CASES = [  # (constructor, arguments, expected words of the message)
    (lambda x: Laplace(scale=1, low=x, high=1), (1, 2), "high - low > 0"),
    (lambda x: Gaussian(sigma=1, low=x, high=1), (1, 2), "high - low > 0"),
    (lambda x: Product(BitFlip(0.8, 0.3), 3).randomize(x, RNG), ([0, 1],), "inputs with last axes"),
    (BitFlip.symmetric, (-1.0, math.nan), "epsilon"),
    (BitFlip.asymmetric, (-1.0, math.nan), "epsilon"),
    (lambda n: BitFlip(0.8, 0.3).randomize(np.zeros(n, bool), RNG, (4,)), (3,), "broadcast to"),
    (Clipped, (BitFlip(0.8, 0.2), Clipped(LAPLACE)), "interval"),
    (lambda x: Clipped(LAPLACE).randomize(x, RNG), (*NO_LENGTH[2:], -math.inf), "inputs in"),
    (lambda x: ComponentLaplace(x, 0.5), ((), TWICE), "unique names"),
    (lambda x: DiscreteLaplace(scale=1, low=0, high=x), (0, 0.2, 2.0**60), "low < high"),
    (lambda x: DiscreteLaplace(scale=x, low=0, high=1), (1e-4,), "scale"),
    (lambda x: DiscreteGaussian(sigma=x, low=0, high=1), (1e-4,), "sigma"),
    (lambda x: SnappedLaplace(scale=1, low=0, high=3, bound=x), (2,), "within the bound"),
    (lambda x: SnappedLaplace(scale=1, low=0, high=1, bound=x), (1e6,), "Lower the bound"),
    (lambda x: EmbeddingGaussian(**ROWS, user=(1.0,) * x, item=(1.0,) * 3), (2,), "same length"),
    (lambda x: EmbeddingGaussian(**ROWS, user=x, item=x), ((),), "above 0"),
    # An embedding projected to 0 makes every gradient 0, which reveals nothing: epsilon is finite.
    (lambda x: EmbeddingGaussian(**ROWS, user=(x,), item=(1.0,)), (-1.0,), "in user"),
    (lambda x: COORDINATE.randomize([x, 0.0], RNG), (1.01,), "Give inputs in this set"),
    (lambda x: COORDINATE.draw_bits(np.array([x]), RNG), (1.01,), "Give inputs in this set"),
    (lambda x: VectorGaussian.calibrate(**GOAL, clip=x), NO_LENGTH, r"clip in \(0, inf\)"),
    (lambda x: find_gaussian_mu(1.0, x), NO_LENGTH, r"delta in \(0, 1\)"),
    (lambda x: find_gaussian_mu(x, 1e-5), (math.inf,), "finite epsilon"),
]


@pytest.mark.parametrize(
    ("make", "value", "word"),
    [(make, value, word) for make, values, word in CASES for value in values],
)
def test_invalid_settings_are_refused(make: Callable[[Any], object], value: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        make(value)
