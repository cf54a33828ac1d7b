"""A rule that turns the features of a run into one number, fitted to pilot runs of two worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.estimators.parts import logistic_regression
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import SampleBudget
from fedrec_auditor.auditor.worlds.estimators.parts.learned_scores import boosted
from fedrec_auditor.auditor.worlds.estimators.parts.rule_selection import candidate_rules
from fedrec_auditor.auditor.worlds.estimators.parts.statistics import Number
from fedrec_auditor.auditor.worlds.rounding import rounded

Rule = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Numbers (n,) for features (n, f), larger in the first world."""
_MIDDLE = (0.1, 0.9)  # quantiles beyond which a feature does not set its scale
_FARTHEST = 10.0  # deviations that a feature counts: beyond, it is as far
_FEWEST, _SURE = 100, 2.0  # pilot runs of a world of which trees can learn, and errors
_LEAST = 1e-8  # variance of a weighted sum of features within a world, less counts as this
_CLEARLY = 1.25  # times the bound that is expected of the fitted rule
_CAUTION = 1.0  # deviations held against a vote: a few rules compete, and not hundreds of cuts
_VOTES = (
    "by the shape of their noise",
    "by values and grids of one world only",
    "by numbers outside of the range of one world",
)
_ROUNDING = 1e-3  # deviation of a whitened feature over both worlds, less is nothing but rounding


def best_rule(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[Rule, str]:
    """The rule for features (n, f) of either world, and which one it is.

    One feature alone, if that keeps the worlds farther apart than it varies within them; or
    gradient-boosted trees, if one half of the runs teaches these to tell the worlds of the other
    half apart better than a logistic regression does, by more than chance; else that.
    """
    alone = WeightedSum.of_one(first, second)
    if alone is not None:
        return alone, "of which one number keeps the worlds apart"
    if _trees_win(first, second):
        return boosted(first, second), "weighed by gradient-boosted trees"
    return WeightedSum.fitted(first, second), "weighed by a logistic regression"


def logistic(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[Rule, str]:
    """The logistic regression of the world on features, which needs no word."""
    return WeightedSum.fitted(first, second), ""


def rule_or_vote(
    fitted: Callable[..., tuple[Rule, str]],
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    votes: int,
    budget: SampleBudget,
) -> tuple[Rule, str]:
    """The rule that is ``fitted`` to features (n, f), or one of the last ``votes`` of them.

    A vote is a rule as it is, of which nothing is fitted here. It is taken where all runs promise a
    clearly larger bound of it than the second half does of the rule that the first half gives.
    """
    rest = first.shape[1] - votes

    def weighed(rows: slice) -> tuple[Rule, str]:
        rule, how = fitted(first[rows, :rest], second[rows, :rest])
        return (lambda features: rule(features[:, :rest])), how

    half = min(len(first), len(second)) // 2
    bold = replace(budget, caution=_CAUTION)

    def expected(rule: Rule, start: int = 0) -> float:
        number = Number("vote", lambda x: x)
        found = candidate_rules(number, rule(first[start:]), rule(second[start:]), bold)
        return max((bound for bound, _ in found), default=0.0)

    tried = [(expected(_column(rest + place)), place) for place in range(votes)]
    most, place = max(tried, default=(0.0, 0))
    if most <= 0 or most <= _CLEARLY * expected(weighed(slice(half))[0], half):
        return weighed(slice(None))
    return _column(rest + place), f"of which the votes of coordinates tell most, {_VOTES[place]}"


def _column(place: int) -> Rule:
    return lambda features: rounded(features[:, place])


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A weighted sum of standardised features, larger in the first world."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def fitted(cls, first: NDArray[np.float64], second: NDArray[np.float64]) -> WeightedSum:
        """The logistic regression of the world on features, whitened, without their tails."""
        both = np.concatenate([first, second])
        low, high = np.quantile(both, _MIDDLE, axis=0)
        middle = np.clip(both, low, high)
        center = middle.mean(axis=0)
        scale = np.where(high > low, middle.std(axis=0), both.std(axis=0))
        scale = np.where(scale > 1e-12 * (1.0 + np.abs(center)), scale, np.inf)
        rule = cls(center, scale, np.ones(both.shape[1]))
        worlds = [rule.standard(each) for each in (first, second)]
        white = _whitening(np.concatenate([each - each.mean(axis=0) for each in worlds]))
        ours = np.repeat([1.0, 0.0], [len(first), len(second)])
        features = np.concatenate(worlds) @ white
        features[:, features.std(axis=0) < _ROUNDING] = 0.0
        features = np.column_stack([features, np.ones(len(both))])
        weights = logistic_regression.fitted(features, ours, 1.0 - ours)
        weights = white @ weights[:-1]
        return cls(center, scale, rounded(weights / max(float(np.abs(weights).max()), 1e-300)))

    @classmethod
    def of_one(cls, first: NDArray[np.float64], second: NDArray[np.float64]) -> WeightedSum | None:
        """The feature whose worlds are farthest apart, if that is more than it varies in either."""
        (low, top), (least, most) = (
            (each.min(axis=0), each.max(axis=0)) for each in (first, second)
        )
        gap, spread = np.maximum(low - most, least - top), np.maximum(top - low, most - least)
        scale = 1e-9 * np.maximum(np.abs(low + top), np.abs(least + most))  # less is rounding
        margins = gap / np.maximum(np.maximum(spread, scale), np.finfo(float).tiny)
        best = int(np.argmax(margins))
        if margins[best] <= 1.0:
            return None
        weights = np.zeros(first.shape[1])
        weights[best] = 1.0 if low[best] > most[best] else -1.0
        width = np.where(weights, gap + spread, np.inf)
        return cls((low + most) / 2, width, weights)

    def standard(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features in deviations from the centre."""
        return rounded(np.clip((features - self.center) / self.scale, -_FARTHEST, _FARTHEST))

    def __call__(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers (n,) for features (n, f)."""
        return rounded(self.standard(features) @ self.weights)


def _trees_win(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Whether trees rank worlds better than a weighted sum does, on a half that taught neither.

    By the share of pairs of runs, one of each world, that are told from each other.
    """
    half = min(len(first), len(second)) // 2
    if 2 * half < _FEWEST:
        return False
    shares = []
    for fitted in (WeightedSum.fitted, boosted):
        score = fitted(first[:half], second[:half])
        ours, theirs = score(first[half:]), np.sort(score(second[half:]))
        below = np.searchsorted(theirs, ours, "left") + np.searchsorted(theirs, ours, "right")
        shares.append(below / (2 * len(theirs)))
    gain = shares[1] - shares[0]
    return bool(gain.mean() > _SURE * gain.std() / np.sqrt(len(gain)) + 1e-12)


def _whitening(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """(f, f): features times it are uncorrelated, of variance 1 at most, as ``deviations`` are.

    Otherwise the penalty of the regression would hide what only a difference of features tells.
    """
    variances, axes = np.linalg.eigh(deviations.T @ deviations / len(deviations))
    return np.asarray(axes / np.sqrt(np.maximum(variances, _LEAST)))
