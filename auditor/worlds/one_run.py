"""Canaries of a single training, each included by a coin of its own, and the epsilon they show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fedrec_auditor.accountants.bisection import last_failure
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Scope
from fedrec_auditor.auditor.worlds.decision_rules import SampleBudget
from fedrec_auditor.auditor.worlds.estimators.base import (
    Estimator,
    Limit,
    Observation,
    Rates,
    Request,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.targets.settings import Checked, Choice

Floats = NDArray[np.float64]

# Entries beyond these quantiles of their column are brought back to them.
_REACH = (0.005, 0.995)


def discriminants(rows: Floats, contrasts: Floats) -> Floats:
    """Scores (n, k) of ``rows`` (n, d) along k linear discriminants.

    A column of ``contrasts`` (n, k) weighs the rows whose kind is known so that the weighted sum is
    a difference of means; see ``contrast``. The covariance is that of all rows, in units of each
    column's deviation, shrunk towards a multiple of the identity (Ledoit and Wolf 2004), so that
    there may be more columns than rows.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    most = float(np.abs(rows[np.isfinite(rows)]).max(initial=1.0))
    x = np.clip(rows, -most, most)
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


def contrast(n: int, chosen: NDArray[np.intp], labels: NDArray[np.bool_]) -> Floats:
    """Weights (n,) by which the difference of the means of rows is a sum.

    Rows ``chosen`` (k,) are of the first kind where ``labels`` (k,) is true. All 0 if there is one
    kind only.
    """
    weights = np.zeros(n)
    if labels.any() and not labels.all():
        weights[chosen] = np.where(labels, 1 / labels.sum(), -1 / (~labels).sum())
    return weights


# How close to the exact solution a bound is; what is returned is below it.
_TOLERANCE = 1e-9
# No larger epsilon is looked for.
_FAR = 512.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunGuesses:
    """``right`` of ``guesses`` coins guessed right, of ``canaries`` that one training had.

    A fair coin of its own included each canary. The number of guesses was fixed in advance.
    ``both`` says that some may be guessed in and others out; otherwise all are guessed alike.
    """

    canaries: int
    guesses: int
    right: int
    both: bool = True

    def p_value(self, epsilon: float, delta: float) -> float:
        """Probability at most of so many right guesses under (``epsilon``, ``delta``)-DP.

        With W binomial of ``guesses`` trials and success q = e^eps / (1 + e^eps), v right guesses
        and m canaries it is P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i.

        The fraction is the mean of the i probabilities below v. They rise to the mode and fall
        beyond it, so the mean rises until the next of them is below it, and falls from there on:
        i is bisected. Source: Steinke, Nasr and Jagielski 2023, the theorem on approximate DP.
        """
        v, r = self.right, self.guesses
        q = float(special.expit(epsilon))
        tail = _at_least(v, r, q)
        if delta == 0 or v == 0:
            return tail
        log_odds, log_none = epsilon, r * float(special.log_expit(-epsilon)) + math.lgamma(r + 1)

        def mean(i: int) -> float:
            return (_at_least(v - i, r, q) - tail) / i

        def falls(i: int) -> bool:
            k = v - i - 1
            if k < 0:
                return True
            density = log_none + k * log_odds - math.lgamma(k + 1) - math.lgamma(r - k + 1)
            return math.exp(density) <= mean(i)

        low, step = max(0, v - 1 - int((r + 1) * q)), 1 + int(math.sqrt(r * q * (1 - q)))
        high = low + step
        while high < v and not falls(high):
            low, high = high, high + step
        high = min(high, v)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if falls(middle) else (middle, high)
        return tail + 2 * self.canaries * delta * mean(high)

    def epsilon(self, *, delta: float, alpha: float) -> float:
        """Epsilon is at least this at ``delta``, at confidence 1 - ``alpha``: guesses alone.

        The largest epsilon with a p-value of at most alpha: what is (eps, delta)-DP is so at every
        larger epsilon. Searched where v lies above the mode of W: there the p-value falls with v,
        so that whichever epsilon the count leads to, the counts that refute it are the largest.
        """
        if self.right == 0:
            return 0.0
        most = math.log(self.right / (self.guesses + 1 - self.right))
        return _crossing(lambda eps: self.p_value(eps, delta) - alpha, most)

    def trade_off_epsilon(self, *, delta: float, alpha: float) -> float:
        """The same from the whole trade-off of the two errors that (eps, delta)-DP permits."""
        return self.least_explained(lambda epsilon: approximate_inverse(epsilon, delta), alpha)

    def explained(self, inverse: Callable[[float], float], alpha: float) -> bool:
        """Whether a mechanism of this trade-off can have P[right guesses >= v] >= ``alpha``.

        Let f be the trade-off function, F = 1 - f, ``inverse`` the inverse of F on [0, 1], N the
        number of right guesses of r, and M_c = P[N >= c].

        Flip the coin of one canary and keep the others: a guess s that was right becomes wrong, and
        N >= c for it is N >= c - 1 then. So P[guess s, N >= c | coin s] is at most F(P[guess s, N
        >= c - 1 | coin -s]). Averaged over coins and over the m canaries, F being concave,

            sum_{j >= c} (j / m) P[N = j] <= F(sum_{j >= c - 1} ((r - j) / m) P[N = j]),

        which holds if some are guessed in and others out. If all are guessed alike, only one of the
        two coins counts, and F(x) becomes F(2x) / 2, which is no larger. With T_c = M_c + ... + M_r
        the left side is (c M_c + T_{c+1}) / m, the right one F(((r - c + 1) M_{c-1} - T_c) / m).
        Solved for M_{c-1} that is a lower bound which grows with every M_j above. So if M_v =
        ``alpha`` and no mass lies above, the least M_{v-1}, ..., M_0 follow one by one, and the
        count is explained if M_0 is at most 1.

        Source: Mahloujifar, Melis and Chaudhuri 2024 (Auditing f-DP in one run); the halved curve
        is derived here.
        """
        m, r = self.canaries, self.guesses
        scale = 1 if self.both else 2
        right, wrong = alpha * self.right / m, alpha * (r - self.right) / m
        for j in range(self.right - 1, -1, -1):
            if right + wrong > r / m or right * scale > 1:
                return False
            least = inverse(right * scale) / scale
            if least <= wrong:
                return True
            right += j / (r - j) * (least - wrong)
            wrong = least
        return right + wrong <= r / m

    def least_explained(
        self, inverse: Callable[[float], Callable[[float], float]], alpha: float
    ) -> float:
        """The largest parameter, of curves that rise with it, that cannot explain the count."""

        def holds(parameter: float) -> bool:
            return parameter >= _FAR or self.explained(inverse(parameter), alpha)

        return 0.0 if holds(0.0) else last_failure(holds, close=_TOLERANCE)


def approximate_inverse(epsilon: float, delta: float) -> Callable[[float], float]:
    """The inverse of 1 - f of (eps, delta)-DP: the least false positive rate of each power."""
    ratio = math.exp(epsilon)
    return lambda y: max(0.0, (y - delta) / ratio, 1 - delta - ratio * (1 - y))


def _at_least(k: int, trials: int, q: float) -> float:
    """P[W >= k] of a binomial variable."""
    return float(special.betainc(k, trials - k + 1, q)) if k > 0 else 1.0


def _crossing(excess: Callable[[float], float], most: float) -> float:
    """Where ``excess`` changes its sign from below, in [0, ``most``]; 0 if it is positive there."""
    from scipy import optimize

    if most <= 0 or excess(0.0) > 0:
        return 0.0
    if excess(most) <= 0:
        return most
    root = float(optimize.brentq(excess, 0.0, most, xtol=_TOLERANCE / 4))
    return max(0.0, root - _TOLERANCE)


FEWEST_CANARIES = 20
"""Canaries that a bound needs."""
_SELECTING = 5  # one in so many canaries chooses how the others are guessed
_SHARES = 40  # of the others that may be guessed on one side
_CAUTION = 0.5  # deviations by which a few lucky guesses are marked down, see SampleBudget


_Theorem = tuple[Callable[..., float], str]
AUTO = "auto"
THEOREMS: dict[str, _Theorem] = {
    "guesses": (OneRunGuesses.epsilon, "Steinke, Nasr and Jagielski 2023"),
    "trade-off": (
        OneRunGuesses.trade_off_epsilon,
        "by the trade-off curve, Mahloujifar, Melis and Chaudhuri 2024",
    ),
}
"""What turns a number of right guesses into a bound, by name, and its source."""


@dataclass(frozen=True)
class OneRun(Checked, Estimator):
    """Holds at the stated confidence if a fair coin of its own included each canary of one run.

    For worlds with ``coins``, whatever the scores are and however they depend on one another, as
    long as they are computed from what was seen, not from the coins.

    One canary in five, drawn at random, chooses how the others are guessed: along which direction
    of their features, how many are guessed, and by which of the two theorems they count (``auto``).
    Their own coins are then known, and what is (eps, delta)-DP is so given some of the coins.
    Exactly so many of the others are guessed: those with the highest scores in, those with the
    lowest out; ties are broken at random.
    """

    method: Annotated[str, Choice((AUTO, *THEOREMS))] = AUTO
    reference = "Steinke, Nasr and Jagielski 2023; Mahloujifar, Melis and Chaudhuri 2024"
    source = "guesses of who was in one training"

    def look(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """At the canaries' scores, numbers or arrays of them; InputError for worlds without."""
        if worlds.coins is None:
            raise InputError(
                "Expected canaries of one training with a coin each, got worlds to draw from. Use "
                "the estimator joint-binomial."
            )
        scores, included = worlds.coins(rng)
        order = rng.permutation(len(included))
        split = len(order) // _SELECTING
        selecting, others = order[:split], order[split:]
        values, judged = _values(scores.reshape(len(scores), -1), included, selecting)
        m, delta = len(others), asked.delta
        budget = SampleBudget(draws=m, delta=delta, alpha=asked.alpha, caution=_CAUTION)
        shares, right = _plan(included[selecting][_ranked(judged, rng)], budget)
        guesses, both = round(sum(shares) / split * m), min(shares) > 0
        expected = OneRunGuesses(
            canaries=m, guesses=guesses, right=round(right * guesses), both=both
        )
        theorem, source = self._theorem(expected, delta=delta, alpha=asked.alpha)
        inside = _guessed_in(guesses, values[others], np.sort(values[selecting]), shares)
        outside = guesses - inside
        ranked = included[others][_ranked(values[others], rng)]
        hits, misses = ranked[:inside], ranked[m - outside :]
        found = OneRunGuesses(
            canaries=m, guesses=guesses, right=int(hits.sum() + (~misses).sum()), both=both
        )
        most = OneRunGuesses(canaries=m, guesses=m, right=m)
        witness = worlds.witness(
            (0, 1),
            f"guessed in: one of the {inside} highest scores of {m}",
            (
                int(hits.sum()) / max(int(ranked.sum()), 1),
                int((~hits).sum()) / max(int((~ranked).sum()), 1),
            ),
            f"shares seen: {found.right} of {guesses} guesses were right, {outside} of which were "
            f"out, by the lowest scores; {split} other canaries chose how to guess",
        )

        def limit(alpha: float) -> Limit:
            shown, largest = (theorem(each, delta=delta, alpha=alpha) for each in (found, most))
            return Limit(shown, largest, witness)

        return Observation(len(included), limit, f" ({source})")

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``Estimator``; of so many canaries."""
        m = samples - samples // _SELECTING
        right, wrong = (m * rate for rate in rates)
        budget = SampleBudget(draws=m, delta=delta, alpha=alpha, caution=0.0)
        k = int(np.argmax(budget.expected_bound(right, wrong, m, both=True)))
        guesses = round(right[k] + wrong[k])
        found = OneRunGuesses(canaries=m, guesses=guesses, right=min(guesses, round(right[k])))
        return self._theorem(found, delta=delta, alpha=alpha)[0](found, delta=delta, alpha=alpha)

    def _theorem(self, expected: OneRunGuesses, *, delta: float, alpha: float) -> _Theorem:
        """The one that is asked for, or the one that shows more."""
        if self.method != AUTO:
            return THEOREMS[self.method]
        return max(THEOREMS.values(), key=lambda each: each[0](expected, delta=delta, alpha=alpha))


def with_coins(
    names: tuple[str, str],
    scope: Scope,
    coins: Callable[[np.random.Generator], tuple[NDArray[Any], NDArray[np.bool_]]],
) -> Worlds:
    """The two histories of a canary of one run, which ``coins`` makes; see ``Worlds``."""

    def draw(world: int, size: int, rng: np.random.Generator) -> NoReturn:
        raise InputError(
            "Expected an estimator of one training, got one that draws trainings. Leave it out."
        )

    return Worlds(names=names, scope=scope, draw=draw, statistic="score", coins=coins)


def _values(
    scores: NDArray[Any], included: NDArray[np.bool_], selecting: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """A score of every canary, (m,), larger for those that seem included, of rows (m, d).

    Then scores of ``selecting`` (k,) by which to foresee how others will be guessed: where a
    direction is learned, each half is scored along that of the other half.
    """
    labels, n = included[selecting], len(scores)
    if scores.shape[1] > 1:
        parts = [slice(None), slice(0, None, 2), slice(1, None, 2)]
        contrasts = [contrast(n, selecting[part], labels[part]) for part in parts]
        values = discriminants(scores.astype(np.float64), np.stack(contrasts, axis=1))
        values /= np.maximum(values.std(axis=0), np.finfo(float).tiny)
        halves = values[selecting, 1 + (np.arange(len(selecting)) + 1) % 2]
        return values[:, 0], halves
    values = scores[:, 0].astype(np.float64)
    most = 2 * float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    values = np.clip(values, -most, most)
    if stats.rankdata(values[selecting]) @ (labels - labels.mean()) < 0:
        values = -values
    return values, values[selecting]


def _ranked(values: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """The order of values from the highest to the lowest, ties in a random order."""
    shuffled = rng.permutation(len(values))
    return shuffled[np.argsort(-values[shuffled], kind="stable")]


def _plan(ranked: NDArray[np.bool_], budget: SampleBudget) -> tuple[tuple[int, int], float]:
    """How many to guess in and out of as many canaries as are known, and the share of right ones.

    ``ranked`` (n,) are the known coins, in the order of their scores. All are guessed if nothing
    can be foreseen of ``budget.draws`` others.
    """
    n, known = len(ranked), int(ranked.sum())
    sizes = np.unique(np.append(np.geomspace(1, n, _SHARES).round(), [0, known, n - known]))
    inside, outside = (grid.ravel() for grid in np.meshgrid(sizes.astype(int), sizes.astype(int)))
    fits = (inside + outside <= n) & (inside + outside > 0)
    inside, outside = inside[fits], outside[fits]
    hits, misses = (np.append(0, np.cumsum(each)) for each in (ranked, ~ranked[::-1]))
    right, guesses = hits[inside] + misses[outside], inside + outside
    foreseen = budget.expected_bound(
        right.astype(np.float64), (guesses - right).astype(np.float64), n, both=True
    )
    best = int(np.argmax(foreseen))
    if not np.isfinite(foreseen[best]):
        return (n // 2, n - n // 2), 0.5
    return (int(inside[best]), int(outside[best])), float(right[best] / guesses[best])


def _guessed_in(guesses: int, values: Floats, known: Floats, shares: tuple[int, int]) -> int:
    """How many of ``guesses`` among others of these ``values`` are guessed in.

    ``known`` values (n,) increase. As many of the others as are beyond the ``shares`` highest and
    lowest of them, in proportion: how many were included is chance, and their scores tell it. (What
    is guessed may depend on all that is seen; only the number of guesses is fixed.)
    """
    n, (inside, outside) = len(known), shares
    if not inside or not outside:
        return guesses if inside else 0
    least = (known[n - inside] + known[max(n - inside - 1, 0)]) / 2
    most = (known[outside - 1] + known[min(outside, n - 1)]) / 2
    above = int(np.count_nonzero(values >= least))
    below = int(np.count_nonzero(values <= most))
    return round(guesses * above / max(above + below, 1))
