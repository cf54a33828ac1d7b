"""Canaries of a single training, each included by a coin of its own, and the epsilon they show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.worlds.estimators.base import (
    Asked,
    Limit,
    Rates,
    RuleAndLimit,
    Seen,
)
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import SampleBudget
from fedrec_auditor.auditor.worlds.estimators.parts.discriminant import contrast, discriminants
from fedrec_auditor.auditor.worlds.estimators.parts.one_run_guesses import OneRunGuesses
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.targets.settings import Checked, Choice

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
class OneRun(Checked, RuleAndLimit):
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

    def look(self, worlds: Worlds, asked: Asked, rng: np.random.Generator) -> Seen:
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

        return Seen(len(included), limit, f" ({source})")

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``; of so many canaries."""
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
        return max(
            THEOREMS.values(),
            key=lambda each: each[0](expected, delta=delta, alpha=alpha),
        )


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
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def _ranked(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
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


def _guessed_in(
    guesses: int,
    values: NDArray[np.float64],
    known: NDArray[np.float64],
    shares: tuple[int, int],
) -> int:
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
