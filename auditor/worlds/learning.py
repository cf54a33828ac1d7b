"""Scores learned from outputs of two worlds, rounded so that no tie is broken by a processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedrec_auditor.auditor.worlds.statistics import EntryNames, Number
from fedrec_auditor.targets.compute import one_thread

STEP = 2.0**-32
"""Of numbers of size 1, far above what the order of a sum changes, far below what data tell."""
_LEAST = 1e-250
"""Of sizes: quotients by a step stay finite."""


def rounded(values: ArrayLike, size: ArrayLike = 1.0) -> NDArray[Any]:
    """``values`` in steps of 2^-32 of the power of two at or above ``size``.

    Linear algebra adds in an order that the processor sets, so the last bits of a sum are the
    machine's. Scores are rounded before a rule is chosen by them, and before they are compared with
    its cuts. Infinite numbers and NaN stay as they are. Arrays broadcast.
    """
    step = STEP * np.exp2(np.ceil(np.log2(np.clip(np.asarray(size, float), _LEAST, 1.0 / _LEAST))))
    return np.asarray(np.rint(np.asarray(values) / step) * step + 0.0)


Array = NDArray[np.float64]
_STEPS = 30
_PENALTY = 1e-4
_LONGEST_STEP = 4.0
_SETTLED = 1e-7


def fitted(features: Array, first: Array, second: Array) -> Array:
    """Weights (f,) of ``features`` (n, f), whose rows came ``first`` and ``second`` times (n,).

    Maximum likelihood with a slight ridge, by Newton's method with limited steps, so that worlds
    which a plane separates have an answer as well.
    """
    total = first + second
    share = total / total.sum()
    scale = np.maximum(np.sqrt(share @ (features * features)), 1e-12)
    x = features / scale
    target = first / total.sum()
    weights = np.zeros(x.shape[1])
    ridge = _PENALTY * np.eye(x.shape[1])
    for _ in range(_STEPS):
        probability = special.expit(x @ weights)
        gradient = x.T @ (target - share * probability) - _PENALTY * weights
        curvature = (x.T * (share * probability * (1 - probability))) @ x + ridge
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(x @ step).max())
        weights += step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        if longest < _SETTLED:
            break
    return np.asarray(weights / scale)


Matrix = NDArray[np.float64]
# What learning may cost: outputs of each input, entries of an output.
_ROWS = 10_000
_ENTRIES = 32
_ALONE = 8
# Different values that are counted, and standard errors by which the log-odds of one must differ.
_VALUES, _SURE = 64, 4.0
# Entries beyond this many spreads from the middle are brought back, infinite ones included.
_REACH = 1e6


def learned_scores(first: Matrix, second: Matrix, names: EntryNames) -> Iterator[Number]:
    """Statistics for outputs (n, d) of two worlds, cheap ones before a trained classifier.

    The entries that differ most, alone and summed with the sign of their difference; the projection
    on the difference of means, which is exact for noise of one size in any direction; how often
    values come up in whatever place, as in a list of items, summed with their log-odds; a logistic
    regression on entries, squares, and entries clipped to where the two worlds' outputs centre,
    which is exact for Gaussian and Laplace noise and for bits; gradient boosting for the rest.
    """
    first, second = first[:_ROWS], second[:_ROWS]
    both = np.concatenate([first, second])
    middle = np.median(both, axis=0)
    low, high = np.quantile(both, [0.01, 0.99], axis=0)
    spread = np.clip(both, low, high).std(axis=0)
    spread = np.where(spread > 0, spread, np.maximum(np.ptp(both, axis=0), 1e-300))
    spread = np.exp2(np.rint(np.log2(spread)))  # entries of one spread keep one, and bits stay few
    a, b = _standard(first, middle, spread), _standard(second, middle, spread)

    def score(name: str, entries: NDArray[np.intp], compute: Callable[[Matrix], Matrix]) -> Number:
        """A function of some entries, standardized, larger for the first world."""
        center, scale = middle[entries], spread[entries]
        return Number(
            name, lambda flat: rounded(compute(_standard(flat[:, entries], center, scale)))
        )

    shift = a.mean(axis=0) - b.mean(axis=0)
    squares = (a * a).mean(axis=0) - (b * b).mean(axis=0)
    squares /= np.maximum(np.concatenate([a * a, b * b]).std(axis=0), 1e-9)
    zeros = (first == 0).mean(axis=0) - (second == 0).mean(axis=0)
    apart = rounded(np.maximum(np.abs(shift), np.maximum(np.abs(squares), 2 * np.abs(zeros))))
    order = np.argsort(-apart, kind="stable")
    for entry in order[:_ALONE].tolist():
        yield Number(names.of(entry), itemgetter((slice(None), entry)), plain=True)
    by_shift = np.argsort(-rounded(np.abs(shift)), kind="stable")
    for count in sorted({2**i for i in range(1, 17) if 2**i < len(shift)} | {len(shift)}):
        chosen = np.sort(by_shift[:count])
        sign = np.sign(shift[chosen])
        yield score(f"signed sum of {count} entries", chosen, partial(_weighted, weights=sign))
    if len(shift) > 1:
        every = np.arange(len(shift))
        variance = np.maximum((a.var(axis=0) + b.var(axis=0)) / 2.0, 1e-9)
        weights = shift / variance
        weights = rounded(weights / np.abs(weights).max(initial=1e-300))
        yield score(
            "projection on the difference of means", every, partial(_weighted, weights=weights)
        )
        if (values := np.unique(both)).size <= _VALUES:
            yield _items(first, second, values)
    chosen = np.sort(order[:_ENTRIES])
    a, b = a[:, chosen], b[:, chosen]
    features = _features(np.median(a, axis=0), np.median(b, axis=0))
    counts = np.repeat([1.0, 0.0], [len(a), len(b)])
    weights = rounded(fitted(features(np.concatenate([a, b])), counts, 1.0 - counts))
    yield score(
        f"log-odds learnt on {len(chosen)} entries", chosen, lambda x: features(x) @ weights
    )
    yield score(f"gradient boosting on {len(chosen)} entries", chosen, boosted(a, b))


def _items(first: Matrix, second: Matrix, values: Matrix) -> Number:
    """The sum of log-odds of the values that an output shows, in whatever place."""

    def shown(flat: Matrix) -> Matrix:
        return np.stack([(flat == value).sum(axis=1) for value in values], axis=1)

    one, other = (shown(world).sum(axis=0) + 0.5 for world in (first, second))
    weights = np.log(one / one.sum()) - np.log(other / other.sum())
    error = np.sqrt(1.0 / one + 1.0 / other)
    weights = np.where(np.abs(weights) > _SURE * error, weights, 0.0)
    names = ", ".join(f"{value:g}" for value in values[np.argsort(-np.abs(weights))][:2])
    return Number(
        f"log-odds of the values shown ({names} above all)", lambda x: rounded(shown(x) @ weights)
    )


def _weighted(x: Matrix, weights: Matrix) -> Matrix:
    return x @ weights


def _standard(x: Matrix, middle: Matrix, spread: Matrix) -> Matrix:
    with np.errstate(over="ignore"):
        return rounded(np.clip((x - middle) / spread, -_REACH, _REACH))


def _features(one: Matrix, other: Matrix) -> Callable[[Matrix], Matrix]:
    low, high = np.minimum(one, other), np.maximum(one, other)
    differ = high > low

    def features(x: Matrix) -> Matrix:
        clipped = np.clip(x, low, high)[:, differ]
        return np.concatenate([np.ones((len(x), 1)), x, x * x, clipped], axis=1)

    return features


def boosted(first: Matrix, second: Matrix) -> Callable[[Matrix], Matrix]:
    """Log-odds of the first world by gradient-boosted trees, fitted to (n, f) of each."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=15, min_samples_leaf=40, early_stopping=False, random_state=0
    )
    labels = np.repeat([1, 0], [len(first), len(second)])
    with one_thread(None):  # its threads wait for one another longer than they work
        model.fit(np.concatenate([first, second]), labels)

    def score(x: Matrix) -> Matrix:
        with one_thread(None):
            return np.asarray(model.decision_function(x))

    return score
