"""Mechanism of insurance-fairness-ldp 0.1.1: labels by k-ary randomized response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
MECHANISMS = PACKAGE.load("insurance_fairness_ldp.mechanisms", "insurance_fairness_ldp")
EPSILON = 1.0
UNEQUAL_LABELS, EQUAL_LABELS = ("Male", "Female"), ("a", "b", "c")


def label(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports of persons whose label is the short (x = 0) or the long one."""
    return _report(x, rng, size, UNEQUAL_LABELS)


def label_of_one_width(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports of persons with label x, if all labels have one length."""
    return _report(x, rng, size, EQUAL_LABELS)


def _report(x: int, rng: np.random.Generator, size: int, labels: Sequence[str]) -> NDArray[Any]:
    true = [labels[x]] * size
    return np.asarray(MECHANISMS.privatise(true, EPSILON, list(labels), random_state=rng))


def make_distribution(true: str, labels: Sequence[str]) -> exact.Distribution:
    """The distribution of reports of a label; they are cut to as many letters as it has."""
    cut: Counter[Hashable] = Counter()
    for reported, mass in exact.make_response(true, labels, EPSILON).items():
        cut[str(reported)[: len(true)]] += mass
    return cut


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    return {
        key: exact.find_epsilon(make_distribution(true, labels) for true in labels)
        for key, labels in (("label", UNEQUAL_LABELS), ("label_of_one_width", EQUAL_LABELS))
    }
