"""Mechanisms of secretflow 1.5.0b0: noisy labels, and its accountant of embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch, exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
_ROOT = "secretflow.security.privacy"
_PARENTS = (
    "secretflow",
    "secretflow.security",
    _ROOT,
    f"{_ROOT}.accounting",
    f"{_ROOT}.mechanism",
    f"{_ROOT}.mechanism.torch",
)
LABELS = PACKAGE.load(f"{_ROOT}.mechanism.label_dp", *_PARENTS)
LAYERS = PACKAGE.load(f"{_ROOT}.mechanism.torch.layers", *_PARENTS)
EPSILON, CLASSES, RECORDS = 1.0, 4, 10_000


@draw_in_batch()
def binary(x: int, size: int) -> NDArray[Any]:
    """Noisy labels of records with the label x, 0 or 1."""
    return np.asarray(LABELS.LabelDP(EPSILON)(np.full(size, x)))


@draw_in_batch()
def classes(x: int, size: int) -> NDArray[Any]:
    """Noisy labels of records of class x out of four, as rows of bits."""
    return np.asarray(LABELS.LabelDP(EPSILON)(np.tile(np.eye(CLASSES)[x], (size, 1))))


def _make_layer(gaussian: float, rate: float, delta: float) -> Any:
    return LAYERS.GaussianEmbeddingDP(gaussian, round(rate * RECORDS), RECORDS, delta=delta)


def limits(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's ``privacy_spent_gdp`` for Poisson samples."""
    return float(_make_layer(gaussian, rate, delta).privacy_spent_gdp(rounds, "poisson")[0])


def renyi(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's ``privacy_spent_rdp``."""
    return float(_make_layer(gaussian, rate, delta).privacy_spent_rdp(rounds)[0])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    kept = np.exp(EPSILON) / (np.exp(EPSILON) + CLASSES - 1)
    other = (1.0 - kept) / (CLASSES - 1)
    laws = [{y: float(kept if y == x else other) for y in range(CLASSES)} for x in range(CLASSES)]
    share = float(np.exp(EPSILON) / (1.0 + np.exp(EPSILON)))
    return {
        "binary": exact.find_epsilon([exact.make_bit(share), exact.make_bit(1.0 - share)]),
        "classes": exact.find_epsilon(laws),
    }
