"""Rules that make one number of a run, learned from pilot runs: of features, and of coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds import statistics
from fedrec_auditor.auditor.worlds.decision_rules import SampleBudget, candidate_rules
from fedrec_auditor.auditor.worlds.statistics import Number, boosted, rounded

Floats = NDArray[np.float64]

VOTES = 3
"""Numbers of votes: a log-likelihood ratio, values of one world only, and numbers beyond a range.
"""
# Coordinates whose noise is looked at, and residuals that tell its shape.
_MOST, _RESIDUALS = 1024, 1 << 18
# Errors beyond which a difference between two worlds is not by chance.
_SURE = 4.5
# Differences below this share of a number's size are rounding: of doubles, and of single floats.
_ROUNDING, _SINGLE = 1e-9, 2.0**-22
# The share of messages that give a value which is an atom, at least so many; messages that show a
# grid, and how far from it, in steps, numbers may lie.
_ATOM, _FEWEST, _GRIDDED, _NEAR = 1 / 256, 4, 512, 0.05
# How much rarer an atom of one world must be in the other.
_RARER = 8
# The outermost values, by which the density falls beyond them; and a range ends as far beyond the
# last value as the value so many before it lies from the last.
_TAIL, _BEFORE = 8, 4


@dataclass(frozen=True, slots=True)
class NoiseShape:
    """The logarithm of a density: (k,) at increasing ``points``, linear between these.

    Beyond two ends it falls as that of an exponential distribution: ``tails`` (3, 2) are the ends,
    the rates and the logarithms there. The closer the outermost values, the steeper it falls, so
    that bounded noise has an end, known as well as these tell it.
    """

    points: Floats
    logs: Floats
    tails: Floats

    @classmethod
    def of(cls, residuals: Floats) -> NoiseShape:
        """By the counts between quantiles of ``residuals`` (n,), which are dense in both tails."""
        ordered = np.sort(residuals)
        n, tail = len(ordered), min(_TAIL, len(ordered) // 4)
        near, most = n / 16 + tail, n / 2
        lower = np.concatenate(
            [[0.0], np.geomspace(max(1, tail), near, 16)[:-1], np.linspace(near, most, 12)[:-1]]
        ).astype(int)
        ranks = np.unique(np.concatenate([lower, n - 1 - lower]).clip(0, n - 1))
        edges, first = np.unique(ordered[ranks], return_index=True)
        counts = np.maximum(np.diff(ranks[first]), 0.5)
        logs = np.log(counts / (n * np.maximum(np.diff(edges), 1e-300)))
        ends = ordered[[tail, n - 1 - tail]]
        excess = [(ends[0] - ordered[: tail + 1]).mean(), (ordered[-tail - 1 :] - ends[1]).mean()]
        rates = 1 / np.maximum(excess, _ROUNDING * np.ptp(ordered) + 1e-300)
        tops = np.log((tail + 1) / n * rates)
        return cls((edges[1:] + edges[:-1]) / 2, logs, np.stack([ends, rates, tops]))

    def log(self, z: Floats) -> Floats:
        """The logarithm of the density at ``z``."""
        out = np.interp(z, self.points, self.logs)
        for side, (end, rate, top) in enumerate(self.tails.T):
            excess = z - end if side else end - z
            out = np.where(excess > 0, top - rate * excess, out)
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateVotes:
    """Votes of single coordinates of a message for the first of two worlds, against the second.

    Learnt from messages of both, not from those that are judged. ``noisy`` (k,) are the coordinates
    whose noise has one ``shape`` around ``centers`` (2, k) in units of ``scales`` (2, k), and stays
    within ``low`` and ``high`` (2, k). ``atoms`` (2, 2, d) are values that come again and again in
    a world, NaN for none; on a grid of ``steps`` (2, d), 0 for none, numbers lie at ``phases``.
    """

    noisy: NDArray[np.intp]
    centers: Floats
    scales: Floats
    low: Floats
    high: Floats
    shape: NoiseShape | None
    atoms: Floats
    steps: Floats
    phases: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats) -> CoordinateVotes:
        """From messages (n, d) of either world, from the same coins if they can be.

        Coins that do the same in both worlds cancel in the difference of the centers. What differs
        by no more than chance makes differ between two halves is left out.
        """
        worlds = np.stack([first, second])
        halves = worlds[:, 0::2], worlds[:, 1::2]
        size = np.abs(worlds).max(axis=(0, 1)) + 1e-300
        spread = worlds.std(axis=1)
        varies = (spread > _ROUNDING * size).all(axis=0)
        unit = np.where(varies, spread.mean(axis=0), np.inf)
        tried = [[_center(kind, part) for part in halves] for kind in range(3)]
        errors = [_root_mean((one - other) / unit) for one, other in tried]
        kind = int(np.argmin(errors))
        one, other = tried[kind]
        centers = _center(kind, worlds)
        apart = (centers[0] - centers[1]) / unit
        chance = _root_mean(((one[0] - one[1]) - (other[0] - other[1])) / unit) / 2
        logs = [np.log(np.maximum(part.std(axis=1), 1e-300)) for part in (*halves, worlds)]
        ratios = [each[0] - each[1] for each in logs]
        wider = np.abs(ratios[2]) > _SURE * _root_mean(ratios[0][varies] - ratios[1][varies]) / 2
        wider &= varies & (np.abs(ratios[2]) > _ROUNDING)
        differs = varies & (np.abs(apart) > _SURE * chance + _ROUNDING * size / unit)
        strength = np.where(differs | wider, np.abs(apart) + wider * np.abs(ratios[2]), 0.0)
        noisy = np.sort(np.argsort(-strength, kind="stable")[:_MOST])
        noisy = noisy[strength[noisy] > 0]
        pooled = np.sqrt((spread**2).mean(axis=0))
        scales = np.where(wider, spread, pooled)[:, noisy]
        # Centers of one half, residuals of the other: so the shape is blurred as centers err.
        crossed = [
            (part[:, :, noisy] - center[:, None, noisy]) / scales[:, None]
            for part, center in zip(halves, (other, one), strict=True)
        ]
        residuals = np.concatenate([each.ravel() for each in crossed])
        residuals = residuals[:: max(1, len(residuals) // _RESIDUALS)]
        low, high = _ends(worlds[:, :, noisy])
        steps, phases = _grids(worlds, size)
        return cls(
            noisy=noisy,
            centers=centers[:, noisy],
            scales=scales,
            low=low,
            high=high,
            shape=NoiseShape.of(residuals) if len(noisy) else None,
            atoms=_atoms(worlds, size),
            steps=steps,
            phases=phases,
        )

    def __call__(self, messages: Floats) -> Floats:
        """Votes (n, ``VOTES``) of ``messages`` (n, d): see there."""
        out = np.zeros((len(messages), VOTES))
        if self.shape is not None:
            x = messages[:, self.noisy]
            densities = [
                self.shape.log((x - center) / scale) - np.log(scale)
                for center, scale in zip(self.centers, self.scales, strict=True)
            ]
            out[:, 0] = (densities[0] - densities[1]).sum(axis=1)
            beyond = ((x < self.low[:, None]) | (x > self.high[:, None])).sum(axis=2)
            out[:, 2] = beyond[1] - beyond[0]
        for sign, atoms in zip((1.0, -1.0), self.atoms, strict=True):
            for atom in atoms:
                alone = np.flatnonzero(~np.isnan(atom))
                out[:, 1] += sign * _near(messages[:, alone], atom[alone]).sum(axis=1)
        on = [self._on_grid(world, messages) for world in (0, 1)]
        out[:, 1] += on[0] - on[1]
        return out

    def _on_grid(self, world: int, messages: Floats) -> Floats:
        """How many coordinates lie on the world's grid, of those where the other has another."""
        (step, other), (phase, others) = (
            (each[world], each[1 - world]) for each in (self.steps, self.phases)
        )
        finest = np.minimum(step, np.where(other > 0, other, np.inf))
        moved = np.abs(_off(phase - others, np.maximum(finest, 1e-300))) > 4 * _NEAR
        own = np.flatnonzero((step > 0) & ((other == 0) | moved | (step > 1.5 * other)))
        off = _off(messages[:, own] - phase[own], step[own])
        return np.asarray((np.abs(off) < _NEAR).sum(axis=1), float)


def _center(kind: int, worlds: Floats) -> Floats:
    """Mean, median or middle of the range of messages (worlds, n, d), (worlds, d)."""
    if kind == 2:
        return np.asarray(worlds.max(axis=1) + worlds.min(axis=1)) / 2
    return np.asarray((np.mean, np.median)[kind](worlds, axis=1))


def _root_mean(values: Floats) -> float:
    return float(np.sqrt((values**2).mean())) if values.size else 0.0


def _ends(worlds: Floats) -> tuple[Floats, Floats]:
    """Ends of the ranges of numbers of messages (2, n, k) in either world, (2, k) each."""
    k = min(_BEFORE, worlds.shape[1] // 2)
    rows = np.sort(worlds, axis=1)
    slack = _ROUNDING * np.abs(worlds).max(axis=1)
    return 2 * rows[:, 0] - rows[:, k] - slack, 2 * rows[:, -1] - rows[:, -k - 1] + slack


def _near(x: Floats, value: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.abs(x - value) <= _ROUNDING * np.abs(value) + 1e-300)


def _atoms(worlds: Floats, size: Floats) -> Floats:
    """The least and the largest value that comes again and again, (2, 2, d), NaN where none does.

    And hardly ever in the other world: one that does by chance speaks for neither.
    """
    ordered = np.sort(worlds, axis=1)
    n = worlds.shape[1]
    often = max(_FEWEST, round(_ATOM * n))
    if n < often:
        return np.full((2, 2, worlds.shape[2]), np.nan)
    start = ordered[:, : n - often + 1]
    atom = np.less_equal(ordered[:, often - 1 :] - start, _ROUNDING * size)
    ends = atom.argmax(axis=1), start.shape[1] - 1 - atom[:, ::-1].argmax(axis=1)
    found = [np.take_along_axis(start, end[:, None], axis=1)[:, 0] for end in ends]
    some = np.asarray(atom.any(axis=1))
    both = np.where(some[:, None], np.stack(found, axis=1), np.nan)
    times = np.stack(
        [_near(worlds[::-1], each[:, None]).sum(axis=1) for each in np.moveaxis(both, 1, 0)]
    )
    return np.where(np.moveaxis(times, 0, 1) * _RARER > often, np.nan, both)


def _grids(worlds: Floats, size: Floats) -> tuple[Floats, Floats]:
    """Steps of the grids on which coordinates lie in either world, and a point of each, (2, d)."""
    unit = size * _SINGLE
    base = worlds[:, :1]
    whole = np.rint((worlds[:, :_GRIDDED] - base) / unit)
    gaps = np.diff(np.sort(whole, axis=1), axis=1)
    least = np.where(gaps > 0, gaps, np.inf).min(axis=1)
    reach = whole.max(axis=1) - whole.min(axis=1)
    count = np.rint(reach / least)
    step = np.where(count > 0, reach / np.maximum(count, 1), np.inf) * unit
    off = _off(worlds - base, step[:, None])
    fits = (np.abs(off) < _NEAR).all(axis=1) & (least > 2 / _NEAR) & np.isfinite(step)
    return np.where(fits, step, 0.0), base[:, 0]


def _off(x: Floats, step: Floats) -> Floats:
    """How far ``x`` is from a multiple of ``step``, in steps; 0 of infinite ones."""
    steps = x / step
    return np.asarray(steps - np.rint(steps))


Rule = Callable[[Floats], Floats]
"""Numbers (n,) for features (n, f), larger in the first world."""
_MIDDLE = (0.1, 0.9)  # quantiles beyond which a feature does not set its scale
_FARTHEST = 10.0  # deviations that a feature counts: beyond, it is as far
_FEWEST_RUNS, _TREES_SURE = 100, 2.0  # pilot runs of a world of which trees can learn, and errors
_LEAST = 1e-8  # variance of a weighted sum of features within a world, less counts as this
_CLEARLY = 1.25  # times the bound that is expected of the fitted rule
_CAUTION = 1.0  # deviations held against a vote: a few rules compete, and not hundreds of cuts
_VOTES_IN_WORDS = (
    "by the shape of their noise",
    "by values and grids of one world only",
    "by numbers outside of the range of one world",
)
_FLAT = 1e-3  # deviation of a whitened feature over both worlds, less is nothing but rounding


def best_rule(first: Floats, second: Floats) -> tuple[Rule, str]:
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


def logistic(first: Floats, second: Floats) -> tuple[Rule, str]:
    """The logistic regression of the world on features, which needs no word."""
    return WeightedSum.fitted(first, second), ""


def rule_or_vote(
    fitted: Callable[..., tuple[Rule, str]],
    first: Floats,
    second: Floats,
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
    return _column(
        rest + place
    ), f"of which the votes of coordinates tell most, {_VOTES_IN_WORDS[place]}"


def _column(place: int) -> Rule:
    return lambda features: rounded(features[:, place])


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A weighted sum of standardised features, larger in the first world."""

    center: Floats
    scale: Floats
    weights: Floats

    @classmethod
    def fitted(cls, first: Floats, second: Floats) -> WeightedSum:
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
        features[:, features.std(axis=0) < _FLAT] = 0.0
        features = np.column_stack([features, np.ones(len(both))])
        weights = statistics.fitted(features, ours, 1.0 - ours)
        weights = white @ weights[:-1]
        return cls(center, scale, rounded(weights / max(float(np.abs(weights).max()), 1e-300)))

    @classmethod
    def of_one(cls, first: Floats, second: Floats) -> WeightedSum | None:
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

    def standard(self, features: Floats) -> Floats:
        """Features in deviations from the centre."""
        return rounded(np.clip((features - self.center) / self.scale, -_FARTHEST, _FARTHEST))

    def __call__(self, features: Floats) -> Floats:
        """Numbers (n,) for features (n, f)."""
        return rounded(self.standard(features) @ self.weights)


def _trees_win(first: Floats, second: Floats) -> bool:
    """Whether trees rank worlds better than a weighted sum does, on a half that taught neither.

    By the share of pairs of runs, one of each world, that are told from each other.
    """
    half = min(len(first), len(second)) // 2
    if 2 * half < _FEWEST_RUNS:
        return False
    shares = []
    for fitted in (WeightedSum.fitted, boosted):
        score = fitted(first[:half], second[:half])
        ours, theirs = score(first[half:]), np.sort(score(second[half:]))
        below = np.searchsorted(theirs, ours, "left") + np.searchsorted(theirs, ours, "right")
        shares.append(below / (2 * len(theirs)))
    gain = shares[1] - shares[0]
    return bool(gain.mean() > _TREES_SURE * gain.std() / np.sqrt(len(gain)) + 1e-12)


def _whitening(deviations: Floats) -> Floats:
    """(f, f): features times it are uncorrelated, of variance 1 at most, as ``deviations`` are.

    Otherwise the penalty of the regression would hide what only a difference of features tells.
    """
    variances, axes = np.linalg.eigh(deviations.T @ deviations / len(deviations))
    return np.asarray(axes / np.sqrt(np.maximum(variances, _LEAST)))
