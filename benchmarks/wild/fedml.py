"""Mechanisms of fedml 0.9.6: noise on clients' weights and on averages."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
_PARTS = ("fedml", "fedml.core", "fedml.core.dp", "fedml.core.dp.frames", "fedml.core.dp.common")
NBAFL = PACKAGE.load("fedml.core.dp.frames.NbAFL", *_PARTS)
CLIP = PACKAGE.load("fedml.core.dp.frames.dp_clip", *_PARTS)
LAPLACE = PACKAGE.load("fedml.core.dp.mechanisms.laplace", *_PARTS)
GAUSSIAN = PACKAGE.load("fedml.core.dp.mechanisms.gaussian", *_PARTS)
MAX_NORM, EPSILON, DELTA, WEIGHT = 10.0, 0.5, 1e-5, 1000
SIGMA = math.sqrt(2.0 * math.log(1.25 / DELTA)) / EPSILON
"""Noise of ``NbAFL_DP`` if all clients take part in every round."""


def _seed_torch(number: int) -> None:
    import torch

    torch.manual_seed(number)


@draw_one_by_one(_seed_torch)
def clients(x: int) -> float:
    """A client's weight, -1000 or 1000, after clipping at ``MAX_NORM`` and noise."""
    import torch

    settings = SimpleNamespace(
        epsilon=EPSILON,
        delta=DELTA,
        C=MAX_NORM,
        comm_round=1,
        client_num_per_round=2,
        client_num_in_total=2,
    )
    weight = {"w": torch.tensor([1000.0 * (2 * x - 1)])}
    return float(NBAFL.NbAFL_DP(settings).add_local_noise(weight)["w"])


@draw_one_by_one(_seed_torch)
def laplace(x: float) -> float:
    """x with the package's Laplace noise at epsilon 1, sensitivity 1."""
    noise = LAPLACE.Laplace(epsilon=1.0, delta=0.0, sensitivity=1.0).compute_noise([1])
    return float(x + np.asarray(noise)[0])


@draw_one_by_one(_seed_torch)
def gaussian(x: float) -> float:
    """x with the package's Gaussian noise at epsilon 1 and ``DELTA``, sensitivity 1."""
    noise = GAUSSIAN.Gaussian(epsilon=1.0, delta=DELTA, sensitivity=1.0).compute_noise([1])
    return float(x + np.asarray(noise)[0])


@draw_one_by_one(_seed_torch)
def tensors(x: float) -> list[float]:
    """Two noisy average weights; one client changes the second by 5 x / ``WEIGHT``.

    The outputs are multiplied by ``WEIGHT``.
    """
    import torch

    settings = SimpleNamespace(
        clipping_norm=5.0, noise_multiplier=1.0, train_data_num_in_total=WEIGHT
    )
    average = {"a": torch.zeros(1), "b": torch.tensor([5.0 * x / WEIGHT])}
    noisy = CLIP.DP_Clip(settings).add_noise(average, WEIGHT)
    return [WEIGHT * float(noisy[name]) for name in ("a", "b")]


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, derived from the noise."""
    return {
        "clients": find_gaussian_epsilon(DELTA, 2.0 * MAX_NORM / SIGMA),
        "tensors": find_gaussian_epsilon(DELTA, float(WEIGHT)),
        "gaussian": find_gaussian_epsilon(DELTA, 1.0 / math.sqrt(2.0 * math.log(1.25 / DELTA))),
    }
