"""Rules that reduce the messages of a federated run to one number, larger under one of two inputs.

The rules are learned from separate pilot runs under both inputs (worlds). Some rules weigh features
of a run (numbers computed from its messages). Others add log-likelihood ratios over coordinates of
the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds import statistics
from fedrec_auditor.auditor.worlds.decision_rules import RuleTestPlan, propose_rules
from fedrec_auditor.auditor.worlds.statistics import ScalarScore, fit_boosted_trees, round_scaled

Floats = NDArray[np.float64]

# Number of scores of a message: log-likelihood ratio, values of one world only, and numbers outside
# a range.
N_MESSAGE_SCORES = 3
# Maximum number of coordinates whose noise is modelled, and of noise values to which a density is
# fitted.
_MAX_COORDINATES, _MAX_RESIDUALS = 1024, 1 << 18
# Number of standard errors above which a difference between two worlds is not by chance.
_SURE = 4.5
# Relative differences that rounding explains, in double and in single precision.
_ROUNDING, _SINGLE = 1e-9, 2.0**-22
# Minimum share and minimum number of messages in which a repeated value (atom) must occur; number
# of messages in which a grid is searched; maximum distance of a value from the grid, in steps.
_ATOM, _MIN_MESSAGES, _GRIDDED, _NEAR = 1 / 256, 4, 512, 0.05
# Factor by which a repeated value of one world must be rarer in the other world.
_RARITY = 8
# Number of outermost values from which the tail of a density is estimated. A range extends beyond
# the last value by the distance between the last and the value `_BEFORE` positions before it.
_TAIL, _BEFORE = 8, 4


@dataclass(frozen=True, slots=True)
class NoiseDensity:
    """The logarithm of a noise density: linear between points, with exponential tails of the
    density.

    points, log_densities: increasing points (k,), and the log-density at each point (k,).
    tail_parameters: three rows for the lower and the upper tail (3, 2): where the tail begins, its
        decay rate, and the log-density where it begins.
    """

    points: Floats
    log_densities: Floats
    tail_parameters: Floats

    @classmethod
    def fit(cls, residuals: Floats) -> NoiseDensity:
        """Estimates the density of noise from a sample ``residuals`` (n,), by counts between
        quantiles.

        The quantiles are dense in both tails.
        """
        ordered = np.sort(residuals)
        n, tail = len(ordered), min(_TAIL, len(ordered) // 4)
        near, middle = n / 16 + tail, n / 2
        lower = np.concatenate(
            [[0.0], np.geomspace(max(1, tail), near, 16)[:-1], np.linspace(near, middle, 12)[:-1]]
        ).astype(int)
        ranks = np.unique(np.concatenate([lower, n - 1 - lower]).clip(0, n - 1))
        edges, first = np.unique(ordered[ranks], return_index=True)
        counts = np.maximum(np.diff(ranks[first]), 0.5)
        logs = np.log(counts / (n * np.maximum(np.diff(edges), 1e-300)))
        ends = ordered[[tail, n - 1 - tail]]
        excess = [(ends[0] - ordered[: tail + 1]).mean(), (ordered[-tail - 1 :] - ends[1]).mean()]
        # A tail falls more steeply, the closer together the outermost values are. So the density of
        # bounded noise is negligible beyond the bounds of the noise.
        rates = 1 / np.maximum(excess, _ROUNDING * np.ptp(ordered) + 1e-300)
        tops = np.log((tail + 1) / n * rates)
        return cls((edges[1:] + edges[:-1]) / 2, logs, np.stack([ends, rates, tops]))

    def evaluate_log(self, z: Floats) -> Floats:
        """Returns the logarithm of the density at each of the points ``z``."""
        out = np.interp(z, self.points, self.log_densities)
        for side, (end, rate, top) in enumerate(self.tail_parameters.T):
            excess = z - end if side else end - z
            out = np.where(excess > 0, top - rate * excess, out)
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateScorer:
    """Scorer of messages that adds up, over coordinates, the evidence for one of two inputs
    (worlds).

    A message is a vector of d coordinates. ``fit`` learns the fields from other messages under both
    inputs.

    coordinate_indices: indices of the k coordinates whose noise is modelled, (k,).
    noise_centers, noise_scales: centre and standard deviation of the noise in each world, (2, k)
        each.
    value_lower_ends, value_upper_ends: smallest and largest value of each noisy coordinate in each
        world, moved slightly outwards, (2, k) each.
    density: density of the noise of all k coordinates; None if k is 0.
    repeated_values: for each world, the smallest and the largest value that many of its messages
        share and few of the other world, (2, 2, d); NaN if there is no such value.
    grid_steps: step of the grid of equally spaced numbers that contains all values of a coordinate
        in a world, (2, d); 0 if there is no grid.
    grid_offsets: a point on the grid, per world and coordinate, (2, d).
    """

    coordinate_indices: NDArray[np.intp]
    noise_centers: Floats
    noise_scales: Floats
    value_lower_ends: Floats
    value_upper_ends: Floats
    density: NoiseDensity | None
    repeated_values: Floats
    grid_steps: Floats
    grid_offsets: Floats

    @classmethod
    def fit(cls, first: Floats, second: Floats) -> CoordinateScorer:
        """Learns how coordinates of messages distinguish two inputs (worlds).

        ``first``, ``second``: messages under each input, (n, d), if possible drawn with common
            random numbers.

        The noise of a coordinate is modelled only if the worlds differ in it by more than chance,
        as measured between two halves of the messages.
        """
        worlds = np.stack([first, second])
        halves = worlds[:, 0::2], worlds[:, 1::2]
        size = np.abs(worlds).max(axis=(0, 1)) + 1e-300
        spread = worlds.std(axis=1)
        varies = (spread > _ROUNDING * size).all(axis=0)
        unit = np.where(varies, spread.mean(axis=0), np.inf)
        # Randomness that has an equal effect in both worlds (common random numbers) cancels in the
        # difference of their centres, which are means, medians or mid-ranges.
        tried = [[_find_centers(kind, part) for part in halves] for kind in range(3)]
        errors = [_rms((even - odd) / unit) for even, odd in tried]
        kind = int(np.argmin(errors))
        even, odd = tried[kind]
        centers = _find_centers(kind, worlds)
        apart = (centers[0] - centers[1]) / unit
        chance = _rms(((even[0] - even[1]) - (odd[0] - odd[1])) / unit) / 2
        logs = [np.log(np.maximum(part.std(axis=1), 1e-300)) for part in (*halves, worlds)]
        ratios = [pair[0] - pair[1] for pair in logs]
        wider = np.abs(ratios[2]) > _SURE * _rms(ratios[0][varies] - ratios[1][varies]) / 2
        wider &= varies & (np.abs(ratios[2]) > _ROUNDING)
        differs = varies & (np.abs(apart) > _SURE * chance + _ROUNDING * size / unit)
        strength = np.where(differs | wider, np.abs(apart) + wider * np.abs(ratios[2]), 0.0)
        noisy = np.sort(np.argsort(-strength, kind="stable")[:_MAX_COORDINATES])
        noisy = noisy[strength[noisy] > 0]
        pooled = np.sqrt((spread**2).mean(axis=0))
        scales = np.where(wider, spread, pooled)[:, noisy]
        # Deviations of one half from the centres of the other half include the error of the
        # centres.
        crossed = [
            (part[:, :, noisy] - center[:, None, noisy]) / scales[:, None]
            for part, center in zip(halves, (odd, even), strict=True)
        ]
        residuals = np.concatenate([each.ravel() for each in crossed])
        residuals = residuals[:: max(1, len(residuals) // _MAX_RESIDUALS)]
        low, high = _find_ends(worlds[:, :, noisy])
        grid_steps, grid_offsets = _find_grids(worlds, size)
        return cls(
            coordinate_indices=noisy,
            noise_centers=centers[:, noisy],
            noise_scales=scales,
            value_lower_ends=low,
            value_upper_ends=high,
            density=NoiseDensity.fit(residuals) if len(noisy) else None,
            repeated_values=_find_atoms(worlds, size),
            grid_steps=grid_steps,
            grid_offsets=grid_offsets,
        )

    def __call__(self, messages: Floats) -> Floats:
        """Returns three scores of each of ``messages`` (n, d), shape (n, 3); positive scores favour
        the first input.

        The scores are a log-likelihood ratio, a count of values that occur under one input only,
        and a count of coordinates outside the range of one input. Counts that favour the second
        input are negative.
        """
        out = np.zeros((len(messages), N_MESSAGE_SCORES))
        if self.density is not None:
            x = messages[:, self.coordinate_indices]
            densities = [
                self.density.evaluate_log((x - center) / scale) - np.log(scale)
                for center, scale in zip(self.noise_centers, self.noise_scales, strict=True)
            ]
            out[:, 0] = (densities[0] - densities[1]).sum(axis=1)
            above = x > self.value_upper_ends[:, None]
            beyond = (above | (x < self.value_lower_ends[:, None])).sum(axis=2)
            out[:, 2] = beyond[1] - beyond[0]
        for sign, repeated_values in zip((1.0, -1.0), self.repeated_values, strict=True):
            for atom in repeated_values:
                alone = np.flatnonzero(~np.isnan(atom))
                out[:, 1] += sign * _ties(messages[:, alone], atom[alone]).sum(axis=1)
        on = [self._count_on_grid(world, messages) for world in (0, 1)]
        out[:, 1] += on[0] - on[1]
        return out

    def _count_on_grid(self, world: int, messages: Floats) -> Floats:
        """Counts the coordinates of each message whose value lies on the grid of ``world``, (n,).

        A world is one of the two inputs. A coordinate is not counted if this grid contains the grid
        of the other world.
        """
        (step, other), (phase, others) = (
            (each[world], each[1 - world]) for each in (self.grid_steps, self.grid_offsets)
        )
        finest = np.minimum(step, np.where(other > 0, other, np.inf))
        moved = np.abs(_grid_distance(phase - others, np.maximum(finest, 1e-300))) > 4 * _NEAR
        own = np.flatnonzero((step > 0) & ((other == 0) | moved | (step > 1.5 * other)))
        off = _grid_distance(messages[:, own] - phase[own], step[own])
        return np.asarray((np.abs(off) < _NEAR).sum(axis=1), float)


def _find_centers(kind: int, worlds: Floats) -> Floats:
    """Returns the centre of each coordinate of messages under two inputs, shape (2, d).

    ``worlds``: messages, (2, n, d).
    ``kind``: 0 for the mean, 1 for the median, 2 for the mid-range.
    """
    if kind == 2:
        return np.asarray(worlds.max(axis=1) + worlds.min(axis=1)) / 2
    return np.asarray((np.mean, np.median)[kind](worlds, axis=1))


def _rms(values: Floats) -> float:
    return float(np.sqrt((values**2).mean())) if values.size else 0.0


def _find_ends(worlds: Floats) -> tuple[Floats, Floats]:
    """Returns lower and upper ends of the range of values in each world (input), (2, k) each.

    ``worlds``: messages under both inputs, (2, n, k). The ends lie a little beyond the smallest and
    the largest value.
    """
    k = min(_BEFORE, worlds.shape[1] // 2)
    rows = np.sort(worlds, axis=1)
    slack = _ROUNDING * np.abs(worlds).max(axis=1)
    return 2 * rows[:, 0] - rows[:, k] - slack, 2 * rows[:, -1] - rows[:, -k - 1] + slack


def _ties(x: Floats, value: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.abs(x - value) <= _ROUNDING * np.abs(value) + 1e-300)


def _find_atoms(worlds: Floats, size: Floats) -> Floats:
    """Returns the smallest and the largest repeated value of each coordinate in each world (input).

    ``worlds``: messages under both inputs, (2, n, d).
    ``size``: largest absolute value of each coordinate, (d,).

    The result has the shape (world, smallest or largest, d). An entry is NaN if no value repeats,
    or if the repeated value is not much rarer in the other world.
    """
    ordered = np.sort(worlds, axis=1)
    n = worlds.shape[1]
    often = max(_MIN_MESSAGES, round(_ATOM * n))
    if n < often:
        return np.full((2, 2, worlds.shape[2]), np.nan)
    start = ordered[:, : n - often + 1]
    atom = np.less_equal(ordered[:, often - 1 :] - start, _ROUNDING * size)
    ends = atom.argmax(axis=1), start.shape[1] - 1 - atom[:, ::-1].argmax(axis=1)
    values = [np.take_along_axis(start, end[:, None], axis=1)[:, 0] for end in ends]
    some = np.asarray(atom.any(axis=1))
    both = np.where(some[:, None], np.stack(values, axis=1), np.nan)
    times = np.stack([_ties(worlds[::-1], x[:, None]).sum(axis=1) for x in np.moveaxis(both, 1, 0)])
    return np.where(np.moveaxis(times, 0, 1) * _RARITY > often, np.nan, both)


def _find_grids(worlds: Floats, size: Floats) -> tuple[Floats, Floats]:
    """Returns the step of each coordinate's grid in each world, and a point on it, (2, d) each.

    A grid is a set of equally spaced numbers that contains all values of a coordinate. The step is
    0 if there is no grid.

    ``worlds``: messages under both inputs, (2, n, d).
    ``size``: largest absolute value of each coordinate, (d,).
    """
    unit = size * _SINGLE
    base = worlds[:, :1]
    whole = np.rint((worlds[:, :_GRIDDED] - base) / unit)
    gaps = np.diff(np.sort(whole, axis=1), axis=1)
    smallest = np.where(gaps > 0, gaps, np.inf).min(axis=1)
    reach = whole.max(axis=1) - whole.min(axis=1)
    count = np.rint(reach / smallest)
    step = np.where(count > 0, reach / np.maximum(count, 1), np.inf) * unit
    off = _grid_distance(worlds - base, step[:, None])
    fits = (np.abs(off) < _NEAR).all(axis=1) & (smallest > 2 / _NEAR) & np.isfinite(step)
    return np.where(fits, step, 0.0), base[:, 0]


def _grid_distance(x: Floats, step: Floats) -> Floats:
    """Returns the signed distance of ``x`` from the nearest multiple of ``step``, in steps."""
    grid_steps = x / step
    return np.asarray(grid_steps - np.rint(grid_steps))


# Function that maps features (n, f) to numbers (n,), which are larger in the first world.
RunScorer = Callable[[Floats], Floats]
_MIDDLE = (0.1, 0.9)  # quantiles to which a feature is clipped to compute its mean and deviation
_FARTHEST = 10.0  # standardised features are clipped at this many standard deviations
# Minimum number of pilot runs per world for trees, and the standard errors of a sufficient gain.
_MIN_RUNS, _TREES_SURE = 100, 2.0
_MIN_VARIANCE = 1e-8  # smaller variances of weighted sums of features are raised to this one
_CLEAR_RATIO = 1.25  # the bound of a single feature must be this many times that of the fitted rule
_CAUTION = 1.0  # standard errors subtracted from predicted bounds; small, because few rules compete
_VOTES_IN_WORDS = (
    "by the shape of their noise",
    "by values and grids of one input only",
    "by numbers outside of the range of one input",
)
_FLAT = 1e-3  # standard deviation of a whitened feature, below which it is due to rounding


def learn_run_scorer(first: Floats, second: Floats) -> tuple[RunScorer, str]:
    """Learns a function that maps the features of a run to one number, larger under the first
    input.

    Returns the function and its description. ``first``, ``second``: features (n, f), computed from
    messages, of runs under each of two inputs (worlds).

    The function is the first of these that qualifies:

    - a single feature, if its gap between the worlds exceeds its range within each world;
    - gradient-boosted trees, if they separate held-out runs better than a logistic regression;
    - a logistic regression.
    """
    alone = LinearRule.fit_single_feature(first, second)
    if alone is not None:
        return alone, "one number of the message"
    if _trees_win(first, second):
        return fit_boosted_trees(first, second), "gradient-boosted trees"
    return LinearRule.fit_logistic(first, second), "logistic regression"


def fit_logistic_rule(first: Floats, second: Floats) -> tuple[RunScorer, str]:
    """Fits a logistic regression that predicts the input (world) from features of a run.

    ``first``, ``second``: features (n, f) of runs under each input.

    Returns a function from features to one number per run, and "" in place of a description.
    """
    return LinearRule.fit_logistic(first, second), ""


def choose_run_scorer(
    fit_rule: Callable[..., tuple[RunScorer, str]],
    first: Floats,
    second: Floats,
    n_single: int,
    plan: RuleTestPlan,
) -> tuple[RunScorer, str]:
    """Chooses between a rule that is fitted to all features and a single feature used alone.

    A rule maps features of runs to one number per run, larger under the first of two inputs
    (worlds). Returns the chosen rule and its description.

    fit_rule: function that learns a rule from the features of two worlds, such as
        ``learn_run_scorer``.
    first, second: features (n, f) of runs in each world.
    n_single: number of last columns whose features may be used alone; the fitted rule ignores these
        columns.
    plan: settings of the later test, from which the lower bound on epsilon by a rule is
        predicted.

    A single feature is chosen if its predicted bound is more than 1.25 times the bound of the
    fitted rule.
    """
    rest = first.shape[1] - n_single

    def fit_on(rows: slice) -> tuple[RunScorer, str]:
        """Fits the rule to the runs ``rows``, without the last ``n_single`` features."""
        rule, how = fit_rule(first[rows, :rest], second[rows, :rest])
        return (lambda features: rule(features[:, :rest])), how

    half = min(len(first), len(second)) // 2
    bold = replace(plan, margin=_CAUTION)

    def predict_bound(rule: RunScorer, start: int = 0) -> float:
        """Predicts the lower bound on epsilon that ``rule`` gives, from the runs from ``start``."""
        number = ScalarScore("vote", lambda x: x)
        rules = propose_rules(number, rule(first[start:]), rule(second[start:]), bold)
        return max((bound for bound, _ in rules), default=0.0)

    tried = [(predict_bound(_take_column(rest + place)), place) for place in range(n_single)]
    best_bound, place = max(tried, default=(0.0, 0))
    # For this comparison, the rule is fitted to one half of the runs and evaluated on the other
    # half.
    if best_bound <= 0 or best_bound <= _CLEAR_RATIO * predict_bound(fit_on(slice(half))[0], half):
        return fit_on(slice(None))
    return _take_column(rest + place), f"votes of all coordinates, {_VOTES_IN_WORDS[place]}"


def _take_column(place: int) -> RunScorer:
    return lambda features: round_scaled(features[:, place])


@dataclass(frozen=True, slots=True)
class LinearRule:
    """A rule that computes a weighted sum of standardised features of a run, larger under the first
    input.

    center, scale: offset and divisor that standardise each feature (f,); an infinite divisor omits
        the feature.
    weights: weight of each standardised feature (f,).
    """

    center: Floats
    scale: Floats
    weights: Floats

    @classmethod
    def fit_logistic(cls, first: Floats, second: Floats) -> LinearRule:
        """Fits a logistic regression that predicts the input (world) from features, as a weighted
        sum.

        ``first``, ``second``: features (n, f) of runs in each world.
        """
        both = np.concatenate([first, second])
        # For the fit, features are standardised (with mean and deviation of the values clipped to
        # the quantiles 0.1 and 0.9), clipped to 10 standard deviations, and whitened (made
        # uncorrelated).
        low, high = np.quantile(both, _MIDDLE, axis=0)
        middle = np.clip(both, low, high)
        center = middle.mean(axis=0)
        scale = np.where(high > low, middle.std(axis=0), both.std(axis=0))
        scale = np.where(scale > 1e-12 * (1.0 + np.abs(center)), scale, np.inf)
        rule = cls(center, scale, np.ones(both.shape[1]))
        worlds = [rule.standardize(each) for each in (first, second)]
        white = _fit_whitening(np.concatenate([each - each.mean(axis=0) for each in worlds]))
        is_first = np.repeat([1.0, 0.0], [len(first), len(second)])
        features = np.concatenate(worlds) @ white
        features[:, features.std(axis=0) < _FLAT] = 0.0
        features = np.column_stack([features, np.ones(len(both))])
        weights = statistics.fit_logistic(features, is_first, 1.0 - is_first)
        weights = white @ weights[:-1]
        return cls(center, scale, round_scaled(weights / max(float(np.abs(weights).max()), 1e-300)))

    @classmethod
    def fit_single_feature(cls, first: Floats, second: Floats) -> LinearRule | None:
        """Returns a rule on the single feature with the largest gap between two inputs (worlds).

        The gap is the distance between the feature's ranges in the two worlds, divided by the width
        of the wider range. The result is None if no gap exceeds 1.

        ``first``, ``second``: features (n, f) of runs in each world.
        """
        (low, top), (floor, ceiling) = ((x.min(axis=0), x.max(axis=0)) for x in (first, second))
        gap, spread = np.maximum(low - ceiling, floor - top), np.maximum(top - low, ceiling - floor)
        scale = 1e-9 * np.maximum(np.abs(low + top), np.abs(floor + ceiling))  # less is rounding
        margins = gap / np.maximum(np.maximum(spread, scale), np.finfo(float).tiny)
        best = int(np.argmax(margins))
        if margins[best] <= 1.0:
            return None
        weights = np.zeros(first.shape[1])
        weights[best] = 1.0 if low[best] > ceiling[best] else -1.0
        width = np.where(weights, gap + spread, np.inf)
        return cls((low + ceiling) / 2, width, weights)

    def standardize(self, features: Floats) -> Floats:
        """Returns (features - center) / scale, clipped to [-10, 10], (n, f)."""
        return round_scaled(np.clip((features - self.center) / self.scale, -_FARTHEST, _FARTHEST))

    def __call__(self, features: Floats) -> Floats:
        """Returns the weighted sum of the ``features`` (n, f) of each run, (n,)."""
        return round_scaled(self.standardize(features) @ self.weights)


def _trees_win(first: Floats, second: Floats) -> bool:
    """Checks whether boosted trees separate two worlds (inputs) better than a logistic regression.

    The criterion is the share of correctly ordered pairs of held-out runs, one run of each world.

    ``first``, ``second``: features (n, f) of runs in each world. Half of the runs are held out.
    """
    half = min(len(first), len(second)) // 2
    if 2 * half < _MIN_RUNS:
        return False
    shares = []
    for fit_rule in (LinearRule.fit_logistic, fit_boosted_trees):
        score = fit_rule(first[:half], second[:half])
        a, b = score(first[half:]), np.sort(score(second[half:]))
        below = np.searchsorted(b, a, "left") + np.searchsorted(b, a, "right")
        shares.append(below / (2 * len(b)))
    gain = shares[1] - shares[0]
    return bool(gain.mean() > _TREES_SURE * gain.std() / np.sqrt(len(gain)) + 1e-12)


def _fit_whitening(deviations: Floats) -> Floats:
    """Returns a matrix (f, f) that makes features uncorrelated, with variances of at most 1.

    ``deviations``: features (n, f) minus their mean in each world.
    """
    # Without this whitening, the penalty of the regression would suppress a signal in a difference
    # of features.
    variances, axes = np.linalg.eigh(deviations.T @ deviations / len(deviations))
    return np.asarray(axes / np.sqrt(np.maximum(variances, _MIN_VARIANCE)))
