"""Mechanisms of appfl 1.12.0: noise on a client's trained weights."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
PRIVACY = PACKAGE.load("appfl.privacy.dp", "appfl", "appfl.privacy")
DELTA = 1e-5


def _seed_torch(number: int) -> None:
    import torch

    torch.manual_seed(number)


def _make(x: float) -> Any:
    """A model with one weight x."""

    import torch

    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, x)
    return model


@draw_one_by_one(_seed_torch)
def laplace(x: float) -> float:
    """The noisy weight of a model with one weight x, by Laplace noise."""
    return float(PRIVACY.laplace_mechanism_output_perturb(_make(x), 1.0, 1.0)["weight"])


@draw_one_by_one(_seed_torch)
def gaussian(x: float) -> float:
    """The noisy weight of a model with one weight x, by Gaussian noise."""
    return float(PRIVACY.gaussian_mechanism_output_perturb(_make(x), 1.0, 1.0, DELTA)["weight"])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, derived from the noise."""
    return {"gaussian": find_gaussian_epsilon(DELTA, 1.0 / math.sqrt(2.0 * math.log(1.25 / DELTA)))}
