"""Canaries of a single training, each included by a coin of its own, and the epsilon they show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import (
    Bound,
    Side,
    Witness,
    check_confidence,
    check_delta,
)
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.worlds.canaries import (
    CANARY_USER,
    check_ids,
    check_sides,
    checked_scores,
)
from fedrec_auditor.auditor.worlds.estimators.base import check_positive_delta
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import SampleBudget
from fedrec_auditor.auditor.worlds.estimators.parts.discriminant import contrast, discriminants
from fedrec_auditor.auditor.worlds.estimators.parts.one_run_guesses import OneRunGuesses
from fedrec_auditor.auditor.worlds.worlds import check_seed

FEWEST_CANARIES = 20
"""Canaries that a bound needs."""
_SELECTING = 5  # one in so many canaries chooses how the others are guessed
_SHARES = 40  # of the others that may be guessed on one side
_CAUTION = 0.5  # deviations by which a few lucky guesses are marked down, see SampleBudget
_UNFAIR = 1e-9  # fair coins fall so unevenly, or more so, with this probability


class OneRunMethod(StrEnum):
    """Which theorem turns a number of right guesses into a bound."""

    AUTO = "auto"
    GUESSES = "guesses"
    TRADE_OFF = "trade-off"
    GAUSSIAN = "gaussian-trade-off"


_ASSUMPTIONS = {
    OneRunMethod.GAUSSIAN: (
        "the training has the trade-off curve of two Gaussians of one deviation",
    )
}
_SOURCES = {
    OneRunMethod.GUESSES: "Steinke, Nasr and Jagielski 2023",
    OneRunMethod.TRADE_OFF: "by the trade-off curve, Mahloujifar, Melis and Chaudhuri 2024",
    OneRunMethod.GAUSSIAN: "by a Gaussian trade-off curve, Mahloujifar, Melis and Chaudhuri 2024",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunScores:
    """Scores of the canaries of one training, and which of them it included.

    ``scores`` (m,) are numbers, or rows of features (m, d), and ``included`` (m,) the coins. A
    bound is valid if each canary was included by a fair coin of its own (not: half of them, drawn
    without replacement), whatever the scores are and however they depend on one another, as long as
    they are computed from what was seen, not from the coins.

    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(5000) < 0.5
    >>> scores = OneRunScores.of(rng.normal(2.0 * included), included)
    >>> bound = scores.bound(delta=1e-5)
    >>> print(f"at least {bound.epsilon:.1f}, from {bound.samples} canaries of one training")
    at least 3.9, from 5000 canaries of one training
    """

    scores: NDArray[Any]
    included: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        included: ArrayLike,
        ids: ArrayLike | None = None,
        coin_ids: ArrayLike | None = None,
    ) -> Self:
        """Scores, and coins in the same order; or in any order, if both come with identifiers.

        ``ids`` (m,) say whose a score is, ``coin_ids`` (m,) whose a coin. InputError for NaN, other
        than numbers, fewer than ``FEWEST_CANARIES``, identifiers that are missing, come twice, or
        are not those of the coins, and coins that are not fair.
        """
        array = checked_scores(scores, ids, "a coin each", FEWEST_CANARIES)
        coins = np.asarray(included)
        if coins.dtype != np.bool_ or coins.shape != array.shape[:1]:
            raise InputError(
                f"Expected a coin for each of {len(array)} canaries, true if it was included, got "
                f"{coins.dtype} of shape {coins.shape}. Give one boolean a canary."
            )
        if (ids is None) != (coin_ids is None):
            raise InputError(
                "Expected identifiers of scores and of coins or of neither, got those of one. Give "
                "ids and coin_ids."
            )
        if ids is not None and coin_ids is not None:
            coins = _matched(np.asarray(ids), check_ids(coin_ids, len(coins), "a coin each"), coins)
        count = int(coins.sum())
        if stats.binomtest(count, len(coins)).pvalue < _UNFAIR:
            raise InputError(
                f"Expected canaries included by fair coins, got {count} of {len(coins)} included. "
                "Toss a fair coin for each canary."
            )
        return cls(scores=array.reshape(len(array), -1), included=coins)

    @classmethod
    def of_sides(
        cls,
        in_scores: ArrayLike,
        out_scores: ArrayLike,
        in_ids: ArrayLike | None = None,
        out_ids: ArrayLike | None = None,
    ) -> Self:
        """From the scores of included canaries, and of the others; see ``of``.

        InputError also for a canary on both sides.
        """
        inside, outside = np.asarray(in_scores), np.asarray(out_scores)
        check_sides(inside, outside, in_ids, out_ids)
        ids = None
        if in_ids is not None and out_ids is not None:
            ids = np.concatenate([np.asarray(in_ids), np.asarray(out_ids)])
        coins = np.repeat([True, False], [len(inside), len(outside)])
        return cls.of(np.concatenate([inside, outside]), coins, ids, ids)

    def bound(
        self,
        *,
        delta: float = 0.0,
        confidence: float = 0.95,
        estimator: str | None = None,
        scope: Scope = CANARY_USER,
        seed: int = 0,
    ) -> Bound:
        """A lower bound on epsilon at ``delta``.

        One canary in five, drawn by ``seed``, chooses how the others are guessed: along which
        direction of their features, how many are guessed, and by which of the two theorems they
        count (``auto``). Their own coins are then known, and what is (eps, delta)-DP is so given
        some of the coins. Exactly so many of the others are guessed: those with the highest scores
        in, those with the lowest out; ties are broken at random. ``gaussian-trade-off`` is
        conditional, and never chosen. InputError for a method, delta or confidence that is none.
        """
        alpha = 1 - check_confidence(confidence)
        chosen = _method(estimator or OneRunMethod.AUTO)
        if chosen is OneRunMethod.GAUSSIAN:
            check_positive_delta(delta)
        rng = np.random.default_rng(check_seed(seed))
        order = rng.permutation(len(self.included))
        split = len(order) // _SELECTING
        selecting, others = order[:split], order[split:]
        values, judged = self._values(selecting)
        budget = SampleBudget(
            draws=len(others), delta=check_delta(delta), alpha=alpha, caution=_CAUTION
        )
        shares, right = _plan(self.included[selecting][_ranked(judged, rng)], budget)
        guesses = round(sum(shares) / split * len(others))
        both = min(shares) > 0
        if chosen is OneRunMethod.AUTO:
            expected = OneRunGuesses(
                canaries=len(others), guesses=guesses, right=round(right * guesses), both=both
            )
            chosen = max(
                (OneRunMethod.GUESSES, OneRunMethod.TRADE_OFF),
                key=lambda each: _epsilon(expected, each, delta, alpha),
            )
        inside = _guessed_in(guesses, values[others], np.sort(values[selecting]), shares)
        outside = guesses - inside
        ranked = self.included[others][_ranked(values[others], rng)]
        hits, misses = ranked[:inside], ranked[len(ranked) - outside :]
        found = OneRunGuesses(
            canaries=len(others),
            guesses=guesses,
            right=int(hits.sum() + (~misses).sum()),
            both=both,
        )
        most = OneRunGuesses(canaries=len(others), guesses=len(others), right=len(others))
        return Bound(
            epsilon=_epsilon(found, chosen, delta, alpha),
            delta=delta,
            side=Side.LOWER,
            scope=scope,
            source=f"guesses of who was in one training ({_SOURCES[chosen]})",
            confidence=confidence,
            assumptions=_ASSUMPTIONS.get(chosen, ()),
            samples=len(self.included),
            largest=_epsilon(most, chosen, delta, alpha),
            witness=Witness(
                input_a="the canary is in",
                input_b="the canary is out",
                output=f"guessed in: one of the {inside} highest scores of {len(others)}",
                probability_a=int(hits.sum()) / max(int(ranked.sum()), 1),
                probability_b=int((~hits).sum()) / max(int((~ranked).sum()), 1),
                note=f"shares seen: {found.right} of {guesses} guesses were right, {outside} of "
                f"which were out, by the lowest scores; {split} other canaries chose how to guess",
            ),
        )

    def _values(
        self, selecting: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A score of every canary, (m,), larger for those that seem included.

        Then scores of ``selecting`` (k,) by which to foresee how others will be guessed: where a
        direction is learned, each half is scored along that of the other half.
        """
        labels, n = self.included[selecting], len(self.scores)
        if self.scores.shape[1] > 1:
            parts = [slice(None), slice(0, None, 2), slice(1, None, 2)]
            contrasts = [contrast(n, selecting[part], labels[part]) for part in parts]
            values = discriminants(self.scores.astype(np.float64), np.stack(contrasts, axis=1))
            values /= np.maximum(values.std(axis=0), np.finfo(float).tiny)
            halves = values[selecting, 1 + (np.arange(len(selecting)) + 1) % 2]
            return values[:, 0], halves
        values = self.scores[:, 0].astype(np.float64)
        most = 2 * float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
        values = np.clip(values, -most, most)
        if stats.rankdata(values[selecting]) @ (labels - labels.mean()) < 0:
            values = -values
        return values, values[selecting]


def _method(name: OneRunMethod | str) -> OneRunMethod:
    try:
        return OneRunMethod(name)
    except ValueError:
        raise InputError(
            f"Expected a method among {', '.join(OneRunMethod)}, got {name!r}. Name one of these."
        ) from None


def _matched(
    ids: NDArray[Any], coin_ids: NDArray[Any], coins: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The coins in the order of the scores; InputError unless each score has one."""
    order = np.argsort(coin_ids)
    places = np.searchsorted(coin_ids, ids, sorter=order).clip(max=len(order) - 1)
    lost = ids != coin_ids[order[places]]
    if lost.any():
        raise InputError(
            f"Expected a coin of every canary, got none of {ids[lost][0]!r}. A coin belongs to a "
            "canary: give both of each."
        )
    return np.asarray(coins[order[places]])


def _ranked(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
    """The order of values from the highest to the lowest, ties in a random order."""
    shuffled = rng.permutation(len(values))
    return shuffled[np.argsort(-values[shuffled], kind="stable")]


def _epsilon(guesses: OneRunGuesses, method: OneRunMethod, delta: float, alpha: float) -> float:
    if method is OneRunMethod.GUESSES:
        return guesses.epsilon(delta=delta, alpha=alpha)
    if method is OneRunMethod.GAUSSIAN:
        return guesses.gaussian_epsilon(delta=delta, alpha=alpha)
    return guesses.trade_off_epsilon(delta=delta, alpha=alpha)


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
