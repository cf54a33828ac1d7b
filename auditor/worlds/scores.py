"""Scores of canaries that were saved, wherever they come from, and the epsilon that they show."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Bound, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.estimators.base import FEWEST_SAMPLES, Estimator
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.auditor.worlds.guesses import ThresholdBand
from fedrec_auditor.auditor.worlds.one_run import AUTO, FEWEST_CANARIES, OneRun, with_coins
from fedrec_auditor.auditor.worlds.worlds import Worlds, as_array, check_seed, checked_outputs
from fedrec_auditor.targets.recorded.tensors import NumpyArchive


class ScoreArchive(NumpyArchive):
    """Saved scores of canaries and their names, all read at once, with a limit to their bytes."""

    most = 2**31
    only = ("in_scores", "out_scores", "in_ids", "out_ids")
    texts = ("in_ids", "out_ids")

    def _indexes(self, name: str) -> bool:
        return True


def read_scores(path: Path) -> Mapping[str, NDArray[Any]]:
    """The arrays ``in_scores`` and ``out_scores`` of an npz file, with ``in_ids`` and ``out_ids``.

    Nothing is unpickled. InputError for another file.
    """
    try:
        found = ScoreArchive(Path(os.path.realpath(path))).index
    except InputError as error:
        raise InputError(
            f"{error} Scores are written by numpy.savez(path, in_scores=..., out_scores=...)."
        ) from error
    missing = [name for name in ScoreArchive.only[:2] if name not in found]
    if missing:
        raise InputError(
            f"Expected the arrays in_scores and out_scores in {str(path)!r}, got no "
            f"{' and no '.join(missing)}. Add what is missing."
        )
    return found


# Numbers closer than this share of their size are one: single precision, rounded twice.
_SAME = 2.0**-22
# Numbers of so few significant digits, bits, or denominators are of a discrete distribution.
_DIGITS, _BITS, _DENOMINATORS = 5, 12, 1_000
# Scores that may come again, at least and as a share of a side, beside so many times those that do
# by chance, by the numbers that are up to so many times as far from each other.
_FEW_REPEATS, _SHARE, _TIMES, _FARTHER = 2, 0.01, 2.0, 8
_CHANCE = 1e-9  # of equal counts by chance


def check_repeats(inside: NDArray[Any], outside: NDArray[Any]) -> None:
    """InputError if scores (n, ...) and (m, ...) of two sides come again as no independent ones do.

    Each value equally often, or r, 2r, 3r times: of independent draws of any discrete distribution
    k values are seen in multiples of r with a chance of at most (2r)^(-(k-1)/2), about that of so
    many Poisson counts at their likeliest. Or numbers of many digits that come again on their own
    side and not on the other: of a continuous distribution as many are as near as that to each
    other, and a little farther. Whole numbers, short decimals, short binary numbers and fractions
    of a small denominator may come again. Equal but for rounding to single precision is equal.
    """
    sides = [each.reshape(len(each), -1) for each in (inside, outside)]
    codes = _codes(np.concatenate(sides))
    counts = np.stack(
        [
            np.bincount(part, minlength=int(codes.max()) + 1)
            for part in np.split(codes, [len(inside)])
        ]
    )
    continuous = _continuous(np.concatenate(sides))
    names = ("in", "out")
    for own, other, rows, where in zip(counts, counts[::-1], sides, names, strict=True):
        seen, n = own[own > 0], len(rows)
        again = int((own - 1)[(own > 0) & (other == 0)].sum())
        times = int(np.gcd.reduce(seen))
        chance = -(len(seen) - 1) / 2 * math.log(2 * times) if times > 1 else 0.0
        why = ""
        if chance < math.log(_CHANCE):
            why = f"each {times} times or a multiple of it, as no independent draws come"
        elif continuous and again > max(_FEW_REPEATS, _SHARE * n) + _TIMES * _by_chance(rows):
            why = f"{again:,} of them again, of more digits than come again by chance"
        if why:
            raise InputError(
                f"Expected a score of each training (or canary), once, got {len(seen):,} different "
                f"ones among {n:,} with the canary {where}, {why}. Keep one of each; if all are of "
                "trainings (or canaries) of their own, say so: --repeats, or repeats=True."
            )


def _codes(rows: NDArray[Any]) -> NDArray[np.intp]:
    """A number for each of ``rows`` (n, d), the same for those that are equal but for rounding."""
    columns = []
    for column in rows.T.astype(np.float64):
        values, place = np.unique(column, return_inverse=True)
        with np.errstate(invalid="ignore"):
            new = np.append(True, ~(np.diff(values) <= _SAME * np.abs(values[1:])))
        columns.append((np.cumsum(new) - 1)[place.ravel()])
    codes = np.stack(columns, axis=1)
    return np.asarray(np.unique(codes, axis=0, return_inverse=True)[1].reshape(len(rows)), np.intp)


def _by_chance(rows: NDArray[Any]) -> float:
    """How many of ``rows`` (n, d) come as near another as equal ones, of a continuous density."""
    found = []
    for column in rows.T.astype(np.float64):
        values = np.unique(column[np.isfinite(column)])
        gaps = np.diff(values) / (_SAME * np.maximum(np.abs(values[1:]), 1e-300))
        found.append(np.count_nonzero((gaps > 1) & (gaps <= 1 + _FARTHER)) / _FARTHER)
    return min(found)


def _continuous(rows: NDArray[Any]) -> bool:
    """Whether numbers of some column look as if drawn from a continuous distribution."""
    return rows.dtype.kind == "f" and any(map(_many_digits, rows.T))


def _many_digits(column: NDArray[Any]) -> bool:
    values = np.unique(column[np.isfinite(column)].astype(np.float64))
    values, precision = values[values != 0], 4 * float(np.finfo(column.dtype).eps)
    decimals = values / 10.0 ** (np.floor(np.log10(np.abs(values))) - _DIGITS + 1)
    mantissas = np.frexp(values)[0] * 2.0**_BITS
    fractions = np.arange(1, _DENOMINATORS + 1)[:, None] * values[:: max(1, len(values) // 64)]
    return not any(
        (np.abs(each - np.rint(each)) <= precision * np.maximum(np.abs(each), 1)).all(axis=-1).any()
        for each in (decimals, mantissas, fractions)
    )


CANARY_USER = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.RELEASE,
    horizon=Horizon.TRAINING,
)
"""What scores speak of unless their owner says otherwise: a user in or out of a training."""
_NAMES = ("the canary is in", "the canary is out")
_FEW, _UNEVEN = 200, 4
"""Of fewer scores, with more than so many times as many beside, a coin would leave too many over.
"""
_UNFAIR = 1e-9  # fair coins fall so unevenly, or more so, with this probability


class _Scores(ABC):
    @abstractmethod
    def _asked(
        self, estimator: str | None, scope: Scope, rng: np.random.Generator
    ) -> tuple[Estimator, Worlds, int, np.random.Generator]:
        """The estimator of this name, the worlds, draws of each, and what they are drawn by."""

    def bound(
        self,
        *,
        delta: float = 0.0,
        confidence: float = 0.95,
        estimator: str | None = None,
        scope: Scope = CANARY_USER,
        seed: int = 0,
    ) -> Bound:
        """The lower bound on epsilon by the estimator of this name, see ``from_scores``.

        InputError for an estimator, a delta, a confidence or a seed that is none.
        """
        rng = np.random.default_rng(check_seed(seed))
        member, worlds, samples, rest = self._asked(estimator, scope, rng)
        return member.bound(worlds, delta=delta, confidence=confidence, samples=samples, rng=rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryScores(_Scores):
    """Scores with a canary in and scores without, from trainings that are independent.

    ``inside`` (n, *shape) and ``outside`` (m, *shape) are numbers, one row a training. Identifiers
    say whose score it is, (n,) and (m,), where that is known: a coin belongs to one, so none may
    come twice on a side. InputError for NaN, other than numbers, fewer than
    ``FEWEST_SAMPLES`` scores of a side, and identifiers that are missing or come twice.

    >>> rng = np.random.default_rng(0)
    >>> scores = CanaryScores.of(rng.normal(1.0, size=1000), rng.normal(0.0, size=1000))
    >>> bound = scores.bound(delta=1e-5)
    >>> print(f"at least {bound.epsilon:.1f}, from {bound.samples} scores")
    at least 1.6, from 1881 scores
    """

    inside: NDArray[Any]
    outside: NDArray[Any]

    @classmethod
    def of(
        cls,
        in_scores: ArrayLike,
        out_scores: ArrayLike,
        in_ids: ArrayLike | None = None,
        out_ids: ArrayLike | None = None,
        *,
        repeats: bool = False,
    ) -> Self:
        """Scores from arrays or lists; see above, and ``from_scores`` for ``repeats``."""
        inside = _checked(in_scores, in_ids, "the canary in", FEWEST_SAMPLES)
        outside = _checked(out_scores, out_ids, "the canary out", FEWEST_SAMPLES)
        _check_alike(inside, outside, in_ids, out_ids)
        if not repeats:
            check_repeats(inside, outside)
        return cls(inside=inside, outside=outside)

    @property
    def size(self) -> int:
        """How many there are of the fewer side."""
        return min(len(self.inside), len(self.outside))

    @property
    def estimator(self) -> str:
        """The default: the one that shows most of so many scores, whatever they are."""
        if self.size < _FEW and len(self.inside) + len(self.outside) > (_UNEVEN + 1) * self.size:
            return "all-thresholds"
        return "joint-binomial"

    def worlds(self, scope: Scope, rng: np.random.Generator) -> Worlds:
        """The two sides, handed out in a random order, each score once."""
        stored = self.inside, self.outside
        left: dict[int, NDArray[Any]] = {}

        def draw(world: int, size: int, _: np.random.Generator) -> NDArray[Any]:
            if world not in left:
                left[world] = rng.permutation(stored[world])
            taken, left[world] = np.split(left[world], [size])
            return taken

        return Worlds(
            names=_NAMES,
            scope=scope,
            draw=draw,
            statistic="score" if self.inside.ndim == 1 else "",
            stored=stored,
        )

    def _asked(
        self, estimator: str | None, scope: Scope, rng: np.random.Generator
    ) -> tuple[Estimator, Worlds, int, np.random.Generator]:
        ordering, rest = rng.spawn(2)
        member = FAMILIES["estimators"].member(estimator or self.estimator)()
        return member, self.worlds(scope, ordering), self.size, rest

    def curve(self, *, confidence: float = 0.95, seed: int = 0) -> ThresholdBand:
        """Bounds at every delta, and of Renyi divergences, that hold together at ``confidence``.

        That of ``bound(estimator="all-thresholds")`` is one of them.

        >>> rng = np.random.default_rng(0)
        >>> scores = CanaryScores.of(rng.normal(1.0, size=5000), rng.normal(0.0, size=5000))
        >>> curve = scores.curve()
        >>> [round(curve.epsilon(delta), 1) for delta in (1e-5, 1e-2, 0.1)]
        [1.7, 1.5, 0.8]
        >>> print(f"of order 2: {curve.renyi(2.0):.2f}, and in truth 1")
        of order 2: 0.47, and in truth 1
        """
        ordering, rest = np.random.default_rng(check_seed(seed)).spawn(2)
        return AllThresholds().curve(
            self.worlds(CANARY_USER, ordering), confidence=confidence, samples=self.size, rng=rest
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunScores(_Scores):
    """Scores of the canaries of one training, and which of them it included.

    ``scores`` (m, *shape) are numbers, or features, and ``included`` (m,) the coins. A bound is
    valid if each canary was included by a fair coin of its own (not: half of them, drawn without
    replacement); see ``OneRun``.

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
        *,
        repeats: bool = False,
    ) -> Self:
        """Scores, and coins in the same order; ``ids`` (m,) name their canaries, where known.

        InputError for NaN, other than numbers, fewer than ``FEWEST_CANARIES``, identifiers that are
        missing or come twice, and coins that are not fair.
        """
        array = _checked(scores, ids, "a coin each", FEWEST_CANARIES)
        coins = np.asarray(included)
        if coins.dtype != np.bool_ or coins.shape != array.shape[:1]:
            raise InputError(
                f"Expected a coin for each of {len(array)} canaries, true if it was included, got "
                f"{coins.dtype} of shape {coins.shape}. Give one boolean a canary."
            )
        count = int(coins.sum())
        if stats.binomtest(count, len(coins)).pvalue < _UNFAIR:
            raise InputError(
                f"Expected canaries included by fair coins, got {count} of {len(coins)} included. "
                "Toss a fair coin for each canary."
            )
        if not repeats and coins.any() and not coins.all():
            check_repeats(array[coins], array[~coins])
        return cls(scores=array, included=coins)

    @classmethod
    def of_sides(
        cls,
        in_scores: ArrayLike,
        out_scores: ArrayLike,
        in_ids: ArrayLike | None = None,
        out_ids: ArrayLike | None = None,
        *,
        repeats: bool = False,
    ) -> Self:
        """From the scores of included canaries, and of the others; see ``of``.

        InputError also for a canary on both sides.
        """
        inside, outside = (
            as_array(side, f"the canary {where}")
            for side, where in ((in_scores, "in"), (out_scores, "out"))
        )
        _check_alike(inside, outside, in_ids, out_ids)
        ids = None
        if in_ids is not None and out_ids is not None:
            ids = np.concatenate([np.asarray(in_ids), np.asarray(out_ids)])
        coins = np.repeat([True, False], [len(inside), len(outside)])
        return cls.of(np.concatenate([inside, outside]), coins, ids, repeats=repeats)

    def worlds(self, scope: Scope) -> Worlds:
        """The two histories of a canary, of which the coins chose."""
        return with_coins(_NAMES, scope, lambda rng: (self.scores, self.included))

    def _asked(
        self, estimator: str | None, scope: Scope, rng: np.random.Generator
    ) -> tuple[Estimator, Worlds, int, np.random.Generator]:
        return OneRun(estimator or AUTO), self.worlds(scope), len(self.included), rng


def from_scores(
    in_scores: ArrayLike,
    out_scores: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    estimator: str | None = None,
    in_ids: ArrayLike | None = None,
    out_ids: ArrayLike | None = None,
    one_run: bool = False,
    scope: Scope = CANARY_USER,
    seed: int = 0,
    repeats: bool = False,
) -> Bound:
    """A lower bound on epsilon from scores with a canary in, (n, *shape), and without, (m, *shape).

    Each score comes from a training of its own. The bound holds at ``confidence`` if the trainings
    are independent, and says nothing of what was not scored. ``estimator`` is a name of ``auditor
    list estimators``, by default "joint-binomial"; of fewer than 200 scores beside more than four
    times as many "all-thresholds". ``scope`` is what the canary stands for, by default a user added
    to a training of which the model is released.
    ``in_ids`` and ``out_ids`` name the canaries. ``seed`` splits the scores into those that choose
    and those that count.

    With ``one_run`` all scores come from a single training, into which each of the n + m canaries
    was put by a fair coin of its own; then ``estimator`` is "auto", the default, "guesses" or
    "trade-off".

    Scores that come again as those of no independent trainings do are refused, see
    ``check_repeats``: of one that was logged in several epochs. With ``repeats`` they are taken for
    scores of trainings of their own.

    InputError for NaN, other than numbers, too few scores, such repeats, identifiers that come
    twice, and a delta or confidence that is none.

    >>> rng = np.random.default_rng(2)
    >>> bound = from_scores(rng.random(10_000) < 0.73, rng.random(10_000) < 0.27)
    >>> print(f"at least {bound.epsilon:.2f}, and in truth {np.log(0.73 / 0.27):.2f}")
    at least 0.96, and in truth 0.99
    """
    kind = OneRunScores.of_sides if one_run else CanaryScores.of
    return kind(in_scores, out_scores, in_ids, out_ids, repeats=repeats).bound(
        delta=delta, confidence=confidence, estimator=estimator, scope=scope, seed=seed
    )


def _checked(scores: ArrayLike, ids: ArrayLike | None, which: str, fewest: int) -> NDArray[Any]:
    """``scores`` (n, *shape) as numbers, ``which`` says of which canaries.

    InputError for NaN, other than numbers, fewer than ``fewest``, and ``ids`` (n,) that are missing
    or come twice.
    """
    array = as_array(scores, which)
    count = len(array) if array.ndim else 0
    if count < fewest:
        raise InputError(
            f"Expected at least {fewest} scores with {which}, got {count}. Train more often."
        )
    array = checked_outputs(array, count, which)
    if array.dtype.kind not in "biuf" or not array.size:
        got = array.dtype if array.size else f"none in the shape {array.shape}"
        raise InputError(f"Expected numbers with {which}, got {got}. Score by a number.")
    if ids is not None:
        _check_ids(ids, count, which)
    return array


def _check_ids(ids: ArrayLike, count: int, which: str) -> None:
    """InputError if an identifier is missing or comes twice."""
    named = np.asarray(ids)
    if named.shape != (count,):
        raise InputError(
            f"Expected an identifier for each of {count} scores with {which}, got "
            f"{named.shape}. Name every canary."
        )
    values, times = np.unique(named, return_counts=True)
    if len(values) < count:
        twice = values[int(np.argmax(times > 1))]
        raise InputError(
            f"Expected each canary once, got {twice!r} twice with {which}. A coin belongs to a "
            "canary: keep one score of it."
        )


def _check_alike(
    inside: NDArray[Any], outside: NDArray[Any], in_ids: ArrayLike | None, out_ids: ArrayLike | None
) -> None:
    """InputError unless scores in and out have one shape, and identifiers both or neither."""
    if (in_ids is None) != (out_ids is None):
        raise InputError(
            "Expected identifiers of both sides or of neither, got those of one. Give in_ids and "
            "out_ids."
        )
    if not inside.ndim == outside.ndim > 0 or inside.shape[1:] != outside.shape[1:]:
        raise InputError(
            f"Expected scores of one shape, got {inside.shape[1:]} in and {outside.shape[1:]} out. "
            "Score both sides alike."
        )
