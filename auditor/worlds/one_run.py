"""Lower bounds on epsilon from one training that included each canary with probability 1/2.

A canary is a user or interaction that is put into the data to be detected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import bisect_threshold
from fedrec_auditor.accountants.statements import Scope
from fedrec_auditor.auditor.worlds.decision_rules import RuleTestPlan
from fedrec_auditor.auditor.worlds.estimators import base
from fedrec_auditor.auditor.worlds.estimators.base import BoundResult, DrawPlan, EpsilonBound
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.targets.settings import AllowedValues, Checked

Floats = NDArray[np.float64]

# Quantiles of a column to which its entries are clipped.
_REACH = (0.005, 0.995)


def score_by_discriminants(rows: Floats, contrasts: Floats) -> Floats:
    """Returns scores (n, k) of n rows along k linear discriminants, which separate two classes.

    A discriminant is the inverse covariance of the scaled columns times the difference of the class
    means. The covariance is shrunk towards a multiple of the identity (Ledoit and Wolf 2004).

    rows: feature vectors (n, d); d may exceed n.
    contrasts: weights of the rows for each discriminant (n, k), from ``make_contrast_weights``. The
        weighted sum of the rows is the difference of the class means.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    largest = float(np.abs(rows[np.isfinite(rows)]).max(initial=1.0))
    x = np.clip(rows, -largest, largest)
    x = np.clip(x, *np.quantile(x, _REACH, axis=0, method="nearest"))
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    x = x[:, spread > 0] / spread[spread > 0]
    n, d = x.shape
    if d < 2:
        return np.asarray(x @ (x.T @ contrasts))
    shrunk = float(ledoit_wolf_shrinkage(x, assume_centered=True))
    if d <= n:
        covariance = (1.0 - shrunk) * (x.T @ x) / n + shrunk * np.eye(d)
        return np.asarray(x @ np.linalg.solve(covariance, x.T @ contrasts))
    # (s I + k X'X / n)^-1 = (I - X' (s n / k I + X X')^-1 X) / s, with a matrix of n by n
    gram = x @ x.T
    ridge = max(shrunk, 1e-9) * n / max(1.0 - shrunk, 1e-9)
    along = gram @ contrasts
    return np.asarray(along - gram @ np.linalg.solve(gram + ridge * np.eye(n), along))


def make_contrast_weights(n: int, chosen: NDArray[np.intp], labels: NDArray[np.bool_]) -> Floats:
    """Returns weights (n,) such that the weighted sum of n rows is a difference of class means.

    n: number of rows.
    chosen: indices (k,) of the rows with known labels; all other rows have weight 0.
    labels: class of each of these rows, (k,). The difference is the mean of class True minus the
        mean of class False.

    All weights are 0 if all labels are equal.
    """
    weights = np.zeros(n)
    if labels.any() and not labels.all():
        weights[chosen] = np.where(labels, 1 / labels.sum(), -1 / (~labels).sum())
    return weights


# Maximum distance by which a bound is below the exact solution.
_TOLERANCE = 1e-9
# Upper end of the search for epsilon.
_MAX_EPSILON = 512.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunGuesses:
    """Counts of guesses of which canaries one training included, and the epsilon they imply.

    A canary is a record that the training included or left out, by a separate fair coin for each
    canary. The number of guesses is fixed in advance.

    n_canaries: number of canaries.
    n_guesses: number of guesses, at most one per canary; the guesser abstains on other canaries.
    n_right: number of right guesses.
    is_two_sided: whether some guesses are "in" and others "out"; if false, all guesses are equal.
    """

    n_canaries: int
    n_guesses: int
    n_right: int
    is_two_sided: bool = True

    def compute_p_value(self, epsilon: float, delta: float) -> float:
        """Returns an upper bound of the probability of at least ``n_right`` right guesses under DP.

        The mechanism is assumed to be (``epsilon``, ``delta``)-DP. Let m be the number of canaries
        and v = ``n_right``. Let W be binomial with ``n_guesses`` trials and success probability q =
        e^eps / (1 + e^eps). The bound is

            P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i.

        Source: Steinke, Nasr and Jagielski 2023, the theorem on approximate DP.
        """
        v, r = self.n_right, self.n_guesses
        q = float(special.expit(epsilon))
        tail = _binomial_tail(v, r, q)
        if delta == 0 or v == 0:
            return tail
        log_odds, log_none = epsilon, r * float(special.log_expit(-epsilon)) + math.lgamma(r + 1)

        def mean_below(i: int) -> float:
            """Returns the mean binomial probability of the ``i`` counts just below ``n_right``."""
            return (_binomial_tail(v - i, r, q) - tail) / i

        def is_falling(i: int) -> bool:
            """Whether ``mean_below(i + 1)`` is at most ``mean_below(i)``."""
            k = v - i - 1
            if k < 0:
                return True
            density = log_none + k * log_odds - math.lgamma(k + 1) - math.lgamma(r - k + 1)
            return math.exp(density) <= mean_below(i)

        # ``mean_below(i)`` is the mean of P[W = k] over the i values k = v - i, ..., v - 1. As P[W
        # = k] has a single peak, this mean rises with i until the next probability is smaller than
        # the mean, and then falls. Bisection finds the maximum.
        low, step = max(0, v - 1 - int((r + 1) * q)), 1 + int(math.sqrt(r * q * (1 - q)))
        high = low + step
        while high < v and not is_falling(high):
            low, high = high, high + step
        high = min(high, v)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_falling(middle) else (middle, high)
        return tail + 2 * self.n_canaries * delta * mean_below(high)

    def bound_epsilon(self, *, delta: float, alpha: float) -> float:
        """Returns the lower bound on epsilon at ``delta`` and confidence 1 - ``alpha``, by the
        number of right guesses.

        The bound is the largest epsilon with a p-value (``compute_p_value``) of at most alpha.
        """
        if self.n_right == 0:
            return 0.0
        # All smaller epsilons are rejected too, because an (eps, delta)-DP mechanism is (eps',
        # delta)-DP for every larger eps'. Only epsilons are searched for which the number of right
        # guesses exceeds the mode of the binomial variable W of ``compute_p_value``, because there
        # the p-value falls with the number of right guesses.
        most = math.log(self.n_right / (self.n_guesses + 1 - self.n_right))
        return _find_zero(lambda eps: self.compute_p_value(eps, delta) - alpha, most)

    def bound_epsilon_by_curve(self, *, delta: float, alpha: float) -> float:
        """Returns a lower bound on epsilon at ``delta`` and confidence 1 - ``alpha``, by a
        trade-off curve.

        The trade-off curve of (eps, delta)-DP limits false negative rates by false positive rates.
        The bound is the largest epsilon whose curve cannot explain the number of right guesses
        (``is_within_trade_off``).
        """
        return self.find_max_refuted_param(lambda epsilon: invert_trade_off(epsilon, delta), alpha)

    def is_within_trade_off(self, inverse: Callable[[float], float], alpha: float) -> bool:
        """Checks whether a mechanism with a given trade-off function f can explain the right
        guesses.

        The check succeeds if ``n_right`` or more right guesses may have a probability of at least
        ``alpha``.

        inverse: inverse on [0, 1] of F = 1 - f.
        alpha: error, 1 minus the confidence.

        Source: Mahloujifar, Melis and Chaudhuri 2024 (Auditing f-DP in one run). For guesses that
        are all "in" or all "out", F(2x) / 2 replaces F(x), which is derived here.
        """
        # Let r be the number of guesses, N the number of right guesses among them, v the counted
        # value of N, m the number of canaries, and M_c = P[N >= c]. The check is whether M_v may be
        # at least ``alpha``.
        #
        # Flip the coin of one canary and keep all other coins: a right guess s becomes wrong, and
        # the event N >= c becomes N >= c - 1. So P[guess s, N >= c | coin s] is at most F(P[guess
        # s, N >= c - 1 | coin -s]). The average over coins and over the m canaries gives, because F
        # is concave,
        #
        #     sum_{j >= c} (j / m) P[N = j] <= F(sum_{j >= c - 1} ((r - j) / m) P[N = j]),
        #
        # if both "in" and "out" are guessed. If all guesses are equal, only one of the two coins
        # counts, and F(x) becomes F(2x) / 2. With T_c = M_c + ... + M_r the left side is (c M_c +
        # T_{c+1}) / m and the right side F(((r - c + 1) M_{c-1} - T_c) / m). Solved for M_{c-1},
        # this is a lower bound that grows with each of M_c, ..., M_r. So with M_v = ``alpha`` and
        # no probability above v, the smallest M_{v-1}, ..., M_0 follow one by one, and the
        # mechanism explains the count if M_0 is at most 1.
        m, r = self.n_canaries, self.n_guesses
        scale = 1 if self.is_two_sided else 2
        right, wrong = alpha * self.n_right / m, alpha * (r - self.n_right) / m
        for j in range(self.n_right - 1, -1, -1):
            if right + wrong > r / m or right * scale > 1:
                return False
            least = inverse(right * scale) / scale
            if least <= wrong:
                return True
            right += j / (r - j) * (least - wrong)
            wrong = least
        return right + wrong <= r / m

    def find_max_refuted_param(
        self, inverse: Callable[[float], Callable[[float], float]], alpha: float
    ) -> float:
        """Returns the largest parameter whose trade-off curve cannot explain the counted guesses.

        inverse: function from a parameter to the inverse of F = 1 - f, for the trade-off function f
            with this parameter. F must rise with the parameter.
        alpha: error, 1 minus the confidence, as in ``is_within_trade_off``.
        """

        def is_explained(parameter: float) -> bool:
            """Whether the trade-off curve with ``parameter`` can explain the counted guesses."""
            return parameter >= _MAX_EPSILON or self.is_within_trade_off(inverse(parameter), alpha)

        return 0.0 if is_explained(0.0) else bisect_threshold(is_explained, precision=_TOLERANCE)


def invert_trade_off(epsilon: float, delta: float) -> Callable[[float], float]:
    """Returns the inverse of 1 - f for the trade-off function f of (eps, delta)-DP.

    The returned function maps a true positive rate to the smallest false positive rate.
    """
    ratio = math.exp(epsilon)
    return lambda y: max(0.0, (y - delta) / ratio, 1 - delta - ratio * (1 - y))


def _binomial_tail(k: int, trials: int, q: float) -> float:
    """Returns P[W >= k] for a binomial variable W with ``trials`` trials and probability ``q``."""
    return float(special.betainc(k, trials - k + 1, q)) if k > 0 else 1.0


def _find_zero(excess: Callable[[float], float], upper: float) -> float:
    """Returns the zero of the increasing function ``excess`` in [0, ``upper``], or slightly less.

    The result is 0 if ``excess`` is positive at 0, and ``upper`` if it is not positive at
    ``upper``.
    """
    from scipy import optimize

    if upper <= 0 or excess(0.0) > 0:
        return 0.0
    if excess(upper) <= 0:
        return upper
    root = float(optimize.brentq(excess, 0.0, upper, xtol=_TOLERANCE / 4))
    return max(0.0, root - _TOLERANCE)


# Minimum number of canaries from which a bound is computed.
MIN_CANARIES = 20
_SELECTING = 5  # one in this many canaries selects how all other canaries are guessed
_SHARES = 40  # how many numbers of "in" guesses, and of "out" guesses, are tried
_CAUTION = 0.5  # standard errors subtracted from a predicted bound, see RuleTestPlan


_Theorem = tuple[Callable[..., float], str]
# Name that stands for the theorem with the larger expected bound.
AUTO_METHOD = "auto"
# Theorems by name: the function that computes a bound from counts of guesses, and its source.
THEOREMS: dict[str, _Theorem] = {
    "guesses": (OneRunGuesses.bound_epsilon, "Steinke, Nasr and Jagielski 2023"),
    "trade-off": (
        OneRunGuesses.bound_epsilon_by_curve,
        "by the trade-off curve, Mahloujifar, Melis and Chaudhuri 2024",
    ),
}


@dataclass(frozen=True)
class OneRun(Checked, base.Estimator):
    """Estimator of a lower bound on epsilon from one training with many canaries.

    A canary is a record that is put into the data or left out. The bound holds at the stated
    confidence under two conditions:

    - a separate fair coin decided on each canary;
    - the scores of canaries were computed from the adversary's view (everything that the adversary
      sees), and not from the coins.

    Scores may depend on one another in any way. A random fifth of the canaries selects how all
    other canaries are guessed. The worlds must have ``run_canaries``.

    method: name of the theorem, "guesses" or "trade-off"; "auto" selects one.
    """

    method: Annotated[str, AllowedValues((AUTO_METHOD, *THEOREMS))] = AUTO_METHOD
    reference = "Steinke, Nasr and Jagielski 2023; Mahloujifar, Melis and Chaudhuri 2024"
    source = "guesses of which canaries one training included"

    def estimate(self, worlds: Worlds, request: DrawPlan, rng: np.random.Generator) -> BoundResult:
        """Guesses which canaries the training included, by their scores, and counts right guesses.

        Raises InputError if ``worlds`` have no ``run_canaries``, which runs the training.
        """
        if worlds.run_canaries is None:
            raise InputError(
                "Expected worlds with run_canaries, which trains once with many canaries, got "
                "run_canaries=None. Use the estimator joint-binomial."
            )
        scores, included = worlds.run_canaries(rng)
        order = rng.permutation(len(included))
        # A fifth of the canaries selects the direction in the space of features, the number of
        # guesses and, with ``auto``, the theorem. The coins of this fifth may be known, because
        # (eps, delta)-DP holds even if some coins are known. All other canaries are ordered by
        # score, with random ties; a number of them is guessed "in" at the top and "out" at the
        # bottom.
        split = len(order) // _SELECTING
        selecting, testing = order[:split], order[split:]
        values, judged = _score_canaries(scores.reshape(len(scores), -1), included, selecting)
        m, delta = len(testing), request.delta
        plan = RuleTestPlan(n_draws=m, delta=delta, alpha=request.alpha, margin=_CAUTION)
        shares, right = _plan_guesses(included[selecting][_rank(judged, rng)], plan)
        guesses, both = round(sum(shares) / split * m), min(shares) > 0
        expected = OneRunGuesses(
            n_canaries=m, n_guesses=guesses, n_right=round(right * guesses), is_two_sided=both
        )
        theorem, source = self._choose(expected, delta=delta, alpha=request.alpha)
        inside = _count_in_guesses(guesses, values[testing], np.sort(values[selecting]), shares)
        outside = guesses - inside
        ranked = included[testing][_rank(values[testing], rng)]
        hits, misses = ranked[:inside], ranked[m - outside :]
        n_right = int(hits.sum() + (~misses).sum())
        counts = OneRunGuesses(n_canaries=m, n_guesses=guesses, n_right=n_right, is_two_sided=both)
        best = OneRunGuesses(n_canaries=m, n_guesses=m, n_right=m)
        witness = worlds.make_witness(
            (0, 1),
            f"the score of a canary is one of the {inside} highest of {m} (guessed in)",
            (
                int(hits.sum()) / max(int(ranked.sum()), 1),
                int((~hits).sum()) / max(int((~ranked).sum()), 1),
            ),
            f"{counts.n_right} of {guesses} guesses are right. {outside} guesses are that the "
            f"training did not include the canary. {split} other canaries selected how to guess.",
        )

        def compute_bound(alpha: float) -> EpsilonBound:
            """Computes the bound by the chosen theorem, at confidence 1 - ``alpha``."""
            shown, largest = (theorem(each, delta=delta, alpha=alpha) for each in (counts, best))
            return EpsilonBound(shown, largest, witness)

        return BoundResult(len(included), compute_bound, f" ({source})")

    def predict_bound(
        self, samples: int, rates: base.EventRates, *, delta: float, alpha: float
    ) -> float:
        """Predicts the lower bound on epsilon at ``delta`` if the numbers of right and of wrong
        guesses equal their expectation.

        ``samples``: number of canaries.
        ``rates``: shares of right and of wrong guesses.
        ``alpha``: error of the bound, 1 minus its confidence.
        """
        m = samples - samples // _SELECTING
        right, wrong = (m * rate for rate in rates)
        plan = RuleTestPlan(n_draws=m, delta=delta, alpha=alpha, margin=0.0)
        k = int(np.argmax(plan.predict_bound(right, wrong, m, both=True)))
        guesses = round(right[k] + wrong[k])
        n_right = min(guesses, round(right[k]))
        found = OneRunGuesses(n_canaries=m, n_guesses=guesses, n_right=n_right)
        return self._choose(found, delta=delta, alpha=alpha)[0](found, delta=delta, alpha=alpha)

    def _choose(self, expected: OneRunGuesses, *, delta: float, alpha: float) -> _Theorem:
        """Returns the chosen theorem, a pair (function that computes the bound, source).

        For ``auto`` it is the theorem with the larger bound for the counts ``expected``.
        """
        if self.method != AUTO_METHOD:
            return THEOREMS[self.method]
        return max(THEOREMS.values(), key=lambda each: each[0](expected, delta=delta, alpha=alpha))


def make_one_run_worlds(
    names: tuple[str, str],
    scope: Scope,
    coins: Callable[[np.random.Generator], tuple[NDArray[Any], NDArray[np.bool_]]],
) -> Worlds:
    """Builds the pair of inputs "canary in" and "canary out" of one training with many canaries.

    names: descriptions of the two inputs.
    scope: scope of a bound that is measured on them.
    coins: function that runs the training and returns the canaries' scores (m, *shape), and
        whether the training included each canary (m,); see ``Worlds.run_canaries``.
    """

    def draw(world: int, size: int, rng: np.random.Generator) -> NoReturn:
        """Raises InputError, because one training gives no separate outputs to draw."""
        raise InputError(
            "Expected the estimator auto, guesses or trade-off for one run, got another. Use auto."
        )

    return Worlds(names=names, scope=scope, draw=draw, statistic_name="score", run_canaries=coins)


def _score_canaries(
    scores: NDArray[Any], included: NDArray[np.bool_], selecting: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Returns one score per canary (m,), larger if it seems included, and held-out scores (k,).

    The held-out scores belong to the canaries ``selecting``, and predict how well all other
    canaries will be guessed.

    scores: scores or features of the canaries, (m, d).
    included: whether the training included each canary, (m,).
    selecting: indices (k,) of the canaries with known coins.
    """
    labels, n = included[selecting], len(scores)
    if scores.shape[1] > 1:
        # A direction in the space of features is learned. Each half of ``selecting`` is scored
        # along the direction that the other half gave.
        parts = [slice(None), slice(0, None, 2), slice(1, None, 2)]
        contrasts = [make_contrast_weights(n, selecting[part], labels[part]) for part in parts]
        values = score_by_discriminants(scores.astype(np.float64), np.stack(contrasts, axis=1))
        values /= np.maximum(values.std(axis=0), np.finfo(float).tiny)
        halves = values[selecting, 1 + (np.arange(len(selecting)) + 1) % 2]
        return values[:, 0], halves
    values = scores[:, 0].astype(np.float64)
    limit = 2 * float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    values = np.clip(values, -limit, limit)
    if scipy.stats.rankdata(values[selecting]) @ (labels - labels.mean()) < 0:
        values = -values
    return values, values[selecting]


def _rank(values: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """Returns the indices of ``values`` from highest to lowest value, with ties in random order."""
    shuffled = rng.permutation(len(values))
    return shuffled[np.argsort(-values[shuffled], kind="stable")]


def _plan_guesses(ranked: NDArray[np.bool_], plan: RuleTestPlan) -> tuple[tuple[int, int], float]:
    """Returns how many of n canaries to guess "in" and "out", and the share of right guesses.

    ``ranked``: whether each canary was included, in the order of falling scores, (n,).
    ``plan``: settings of the later test on other canaries, for which a bound is predicted. If
        this fails, all canaries are guessed.
    """
    n, known = len(ranked), int(ranked.sum())
    sizes = np.unique(np.append(np.geomspace(1, n, _SHARES).round(), [0, known, n - known]))
    inside, outside = (grid.ravel() for grid in np.meshgrid(sizes.astype(int), sizes.astype(int)))
    fits = (inside + outside <= n) & (inside + outside > 0)
    inside, outside = inside[fits], outside[fits]
    hits, misses = (np.append(0, np.cumsum(each)) for each in (ranked, ~ranked[::-1]))
    right, guesses = hits[inside] + misses[outside], inside + outside
    foreseen = plan.predict_bound(
        right.astype(np.float64), (guesses - right).astype(np.float64), n, both=True
    )
    best = int(np.argmax(foreseen))
    if not np.isfinite(foreseen[best]):
        return (n // 2, n - n // 2), 0.5
    return (int(inside[best]), int(outside[best])), float(right[best] / guesses[best])


def _count_in_guesses(guesses: int, values: Floats, known: Floats, shares: tuple[int, int]) -> int:
    """Returns how many of ``guesses`` are "in", among canaries with the scores ``values``.

    known: increasing scores (n,) of the canaries that selected the shares.
    shares: numbers of canaries guessed "in" and "out" among these n.
    """
    n, (inside, outside) = len(known), shares
    if not inside or not outside:
        return guesses if inside else 0
    # The highest and the lowest known scores define two thresholds. The guesses are divided in
    # proportion to the numbers of scores beyond them, which indicate how many canaries were
    # included. Guesses may depend on everything that the adversary sees; only their total number is
    # fixed.
    in_threshold = (known[n - inside] + known[max(n - inside - 1, 0)]) / 2
    out_threshold = (known[outside - 1] + known[min(outside, n - 1)]) / 2
    above = int(np.count_nonzero(values >= in_threshold))
    below = int(np.count_nonzero(values <= out_threshold))
    return round(guesses * above / max(above + below, 1))
