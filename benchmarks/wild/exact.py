"""Exact epsilons of small mechanisms: every output is listed with its probability."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from scipy.optimize import brentq
from scipy.stats import norm

Distribution = Mapping[Hashable, float]


def find_epsilon(distributions: Iterable[Distribution]) -> float:
    """The largest log-ratio of an output's probabilities, over all pairs of distributions.

    Infinite if an output is possible under one distribution only.
    """
    worst = 0.0
    for p, q in itertools.permutations(distributions, 2):
        for output, mass in p.items():
            if mass > 0.0:
                other = q.get(output, 0.0)
                worst = max(worst, math.log(mass / other) if other > 0.0 else math.inf)
    return worst


def find_sampled_epsilon(rate: float, sigma: float, delta: float) -> float:
    """Epsilon of (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), from the normal tails."""

    def compute_excess(epsilon: float) -> float:
        edge = sigma**2 * math.log((math.exp(epsilon) - 1.0 + rate) / rate) + 0.5
        own, other = norm.sf(edge / sigma), norm.sf((edge - 1.0) / sigma)
        return float((1.0 - rate) * own + rate * other - math.exp(epsilon) * own - delta)

    return float(brentq(compute_excess, 1e-9, 50.0, xtol=1e-12))


def mix(parts: Iterable[tuple[float, Distribution]]) -> Distribution:
    """The mixture of several distributions with the given weights."""
    mixed: Counter[Hashable] = Counter()
    for weight, part in parts:
        for output, mass in part.items():
            mixed[output] += weight * mass
    return mixed


def join(parts: Iterable[Distribution]) -> Distribution:
    """The joint distribution of independent draws, whose outputs are tuples."""
    joint: dict[Hashable, float] = {}
    for drawn in itertools.product(*(part.items() for part in parts)):
        joint[tuple(output for output, _ in drawn)] = math.prod(mass for _, mass in drawn)
    return joint


def make_uniform(outputs: Iterable[Hashable]) -> Distribution:
    """The uniform distribution on ``outputs``."""
    listed = list(outputs)
    return dict.fromkeys(listed, 1.0 / len(listed))


def make_bit(one: float) -> Distribution:
    """The distribution of a bit, which is 1 with probability ``one``."""
    return {1: one, 0: 1.0 - one}


def make_response(x: Hashable, outputs: Iterable[Hashable], epsilon: float) -> Distribution:
    """k-ary randomized response: the truth is e^epsilon times as likely as any other output."""
    weights = {y: math.exp(epsilon) if y == x else 1.0 for y in outputs}
    return {y: weight / sum(weights.values()) for y, weight in weights.items()}


def make_unary(x: int | None, k: int, p: float, q: float) -> Distribution:
    """Bits of a one-hot vector: 1 with probability p at ``x``, with q elsewhere."""
    return join(make_bit(p if i == x else q) for i in range(k))


def mix_with_fakes(
    x: tuple[Any, ...], report: Callable[[Any], Distribution], fake: Distribution
) -> Distribution:
    """The distribution of a tuple with a report of one random attribute of ``x``, else fakes."""
    d = len(x)
    return mix(
        (1.0 / d, join(report(x[i]) if i == j else fake for i in range(d))) for j in range(d)
    )
