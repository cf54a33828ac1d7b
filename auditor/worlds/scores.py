"""Lower bounds on epsilon from saved scores of canaries (users or records put into the data).

Any attack may have computed the scores. The main function is ``from_scores``.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Bound, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.estimators.base import MIN_SAMPLES, Estimator
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.auditor.worlds.guesses import ThresholdLimits
from fedrec_auditor.auditor.worlds.one_run import (
    AUTO_METHOD,
    MIN_CANARIES,
    OneRun,
    make_one_run_worlds,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds, as_array, check_outputs, check_seed
from fedrec_auditor.targets.recorded.tensors import NpzFile


class ScoreArchive(NpzFile):
    """An npz file of canary scores and identifiers, whose arrays (at most 2 GiB each) are read.

    A canary is a user or record that was put into the training data of some trainings.

    max_per_message_array_bytes: maximum size of each array in bytes.
    allowed_names: names of the arrays that are read.
    text_names: names of the arrays that may hold texts instead of numbers.
    """

    max_per_message_array_bytes = 2**31
    allowed_names = ("in_scores", "out_scores", "in_ids", "out_ids")
    text_names = ("in_ids", "out_ids")

    def _is_index(self, name: str) -> bool:
        return True


def read_scores(path: Path) -> Mapping[str, NDArray[Any]]:
    """Reads the arrays of an npz file with canary scores, and returns them by name.

    The names are in_scores and out_scores (scores with and without the canary in the training), and
    in_ids and out_ids (identifiers of the canaries) if present. No pickled objects are loaded.
    Raises InputError if the file is not an archive of these arrays.
    """
    try:
        arrays = ScoreArchive(Path(os.path.realpath(path))).per_message_arrays
    except InputError as error:
        raise InputError(
            f"{error} Write scores by numpy.savez(path, in_scores=..., out_scores=...)."
        ) from error
    missing = [name for name in ScoreArchive.allowed_names[:2] if name not in arrays]
    if missing:
        raise InputError(
            f"Expected the arrays in_scores and out_scores in {str(path)!r}, got no "
            f"{' and no '.join(missing)}. Add the missing arrays to the file."
        )
    return arrays


# Numbers whose relative difference is smaller count as equal: single precision, rounded twice.
_SAME = 2.0**-22
# A column counts as discrete if all its numbers have at most this many significant decimal digits
# or bits, or are fractions with one denominator, at most this one.
_DIGITS, _BITS, _DENOMINATORS = 5, 12, 1_000
# Accepted number of repeated scores: this number, or this share of the scores if that is more, plus
# `_TIMES` times the number expected by chance, which is estimated from pairs with relative gaps
# between `_SAME` and (1 + `_FARTHER`) `_SAME`.
_FEW_REPEATS, _SHARE, _TIMES, _FARTHER = 2, 0.01, 2.0, 8
_CHANCE = 1e-9  # probability below which equal counts are not attributed to chance


def check_score_repeats(inside: NDArray[Any], outside: NDArray[Any]) -> None:
    """Raises InputError if equal values among canary scores contradict independent trainings.

    ``inside``, ``outside``: scores with the canary in the training, (n, ...), and without it, (m,
        ...).

    There are two contradictions:

    - all values occur r, 2 r, 3 r, ... times, as if each score were logged r > 1 times;
    - numbers with many digits repeat within one array, but do not occur in the other array, more
      often than by chance. Whole numbers, short decimals, short binary numbers and fractions with a
      small denominator may repeat.
    """
    sides = [each.reshape(len(each), -1) for each in (inside, outside)]
    every = np.concatenate(sides)
    codes = _group_rows(every)
    parts, n_codes = np.split(codes, [len(inside)]), int(codes.max()) + 1
    counts = np.stack([np.bincount(part, minlength=n_codes) for part in parts])
    continuous = every.dtype.kind == "f" and any(map(_has_many_digits, every.T))
    names = ("in", "out")
    for here, there, rows, where in zip(counts, counts[::-1], sides, names, strict=True):
        sizes, n = here[here > 0], len(rows)
        repeated = int((here - 1)[(here > 0) & (there == 0)].sum())
        # For independent draws with k distinct values, all counts are multiples of r with a
        # probability of at most about (2r)^(-(k-1)/2), which is derived for Poisson counts.
        times = int(np.gcd.reduce(sizes))
        chance = -(len(sizes) - 1) / 2 * math.log(2 * times) if times > 1 else 0.0
        why = ""
        if chance < math.log(_CHANCE):
            why = f"each occurs {times} times or a multiple of that, unlike independent draws"
        elif continuous and repeated > max(_FEW_REPEATS, _SHARE * n) + _TIMES * _expect_ties(rows):
            why = f"{repeated:,} scores repeat others, although scores of many digits rarely do"
        if why:
            raise InputError(
                f"Expected one score per training (or canary), got {len(sizes):,} distinct scores "
                f"among {n:,} with the canary {where}: {why}. Remove repeated scores. If each is "
                "from a training (or canary) of its own, give --repeats or repeats=True."
            )


def _group_rows(rows: NDArray[Any]) -> NDArray[np.intp]:
    """Returns an index (n,) of each of ``rows`` (n, d), shared by rows that differ by rounding."""
    columns = []
    for column in rows.T.astype(np.float64):
        values, place = np.unique(column, return_inverse=True)
        with np.errstate(invalid="ignore"):
            new = np.append(True, ~(np.diff(values) <= _SAME * np.abs(values[1:])))
        columns.append((np.cumsum(new) - 1)[place.ravel()])
    codes = np.stack(columns, axis=1)
    return np.asarray(np.unique(codes, axis=0, return_inverse=True)[1].reshape(len(rows)), np.intp)


def _expect_ties(rows: NDArray[Any]) -> float:
    """Estimates how many of ``rows`` (n, d) are equal by chance if the numbers have a density.

    The estimate is the number of pairs whose gap is 1 to 9 times the largest gap by rounding,
    divided by 8.
    """
    found = []
    for column in rows.T.astype(np.float64):
        values = np.unique(column[np.isfinite(column)])
        gaps = np.diff(values) / (_SAME * np.maximum(np.abs(values[1:]), 1e-300))
        found.append(np.count_nonzero((gaps > 1) & (gaps <= 1 + _FARTHER)) / _FARTHER)
    return min(found)


def _has_many_digits(column: NDArray[Any]) -> bool:
    values = np.unique(column[np.isfinite(column)].astype(np.float64))
    values, precision = values[values != 0], 4 * float(np.finfo(column.dtype).eps)
    decimals = values / 10.0 ** (np.floor(np.log10(np.abs(values))) - _DIGITS + 1)
    mantissas = np.frexp(values)[0] * 2.0**_BITS
    fractions = np.arange(1, _DENOMINATORS + 1)[:, None] * values[:: max(1, len(values) // 64)]
    return not any(
        (np.abs(each - np.rint(each)) <= precision * np.maximum(np.abs(each), 1)).all(axis=-1).any()
        for each in (decimals, mantissas, fractions)
    )


# Default scope of a bound from scores: a user added to, or removed from, a training.
CANARY_USER_SCOPE = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.RELEASE,
    horizon=Horizon.TRAINING,
)
_NAMES = ("the canary is in", "the canary is out")
# If one world has fewer than ``_FEW`` scores and the other world more than ``_UNEVEN`` times as
# many, a random choice of the world of each draw would leave too many scores unused.
_FEW, _UNEVEN = 200, 4
_UNFAIR = 1e-9  # probability below which inclusions are not attributed to fair coins


class _Scores(ABC):
    @abstractmethod
    def _prepare(
        self, estimator: str | None, scope: Scope, rng: np.random.Generator
    ) -> tuple[Estimator, Worlds, int, np.random.Generator]:
        """Returns the estimator, the worlds (inputs), the number of draws per world, and a random
        generator, which a bound needs.
        """

    def bound(
        self,
        *,
        delta: float = 0.0,
        confidence: float = 0.95,
        estimator: str | None = None,
        scope: Scope = CANARY_USER_SCOPE,
        seed: int = 0,
    ) -> Bound:
        """Returns a lower bound on epsilon at ``delta`` and ``confidence`` from the scores.

        ``estimator``: name of the estimator; None for the default.
        ``scope``: scope of the bound.
        ``seed``: random seed that splits the scores into selection and test.

        Raises InputError for an unknown estimator and for an invalid delta, confidence or seed.
        """
        rng = np.random.default_rng(check_seed(seed))
        member, worlds, n, rest = self._prepare(estimator, scope, rng)
        return member.measure_bound(worlds, delta=delta, confidence=confidence, samples=n, rng=rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryScores(_Scores):
    """Scores of independent trainings, with the canary in the training data and without it.

    A canary is a user or record whose presence is to be detected; each training gives one score.

    in_scores: scores of trainings with the canary, numbers (n, *shape), one row per training.
    out_scores: scores of trainings without the canary, numbers (m, *shape).

    >>> rng = np.random.default_rng(0)
    >>> scores = CanaryScores.build(rng.normal(1.0, size=1000), rng.normal(0.0, size=1000))
    >>> bound = scores.bound(delta=1e-5)
    >>> print(f"at least {bound.epsilon:.1f}, from {bound.samples} scores")
    at least 1.6, from 1881 scores
    """

    in_scores: NDArray[Any]
    out_scores: NDArray[Any]

    @classmethod
    def build(
        cls,
        in_scores: ArrayLike,
        out_scores: ArrayLike,
        in_ids: ArrayLike | None = None,
        out_ids: ArrayLike | None = None,
        *,
        repeats: bool = False,
    ) -> Self:
        """Checks scores in arrays or lists, and returns them as ``CanaryScores``.

        in_scores, out_scores: scores with the canary in the training, (n, *shape), and without it,
            (m, *shape).
        in_ids, out_ids: identifier of the canary of each score, (n,) and (m,); omit both if
            unknown.
        repeats: whether to accept equal scores that contradict independent trainings
            (``check_score_repeats``).

        Raises InputError in these cases:

        - scores are NaN or not numbers, or fewer than ``MIN_SAMPLES`` of either kind;
        - scores of the two arrays have different shapes;
        - identifiers are missing for some scores, or repeated within an array;
        - equal scores are not accepted.
        """
        inside = _check(in_scores, in_ids, "in_scores", MIN_SAMPLES)
        outside = _check(out_scores, out_ids, "out_scores", MIN_SAMPLES)
        _check_pair(inside, outside, in_ids, out_ids)
        if not repeats:
            check_score_repeats(inside, outside)
        return cls(in_scores=inside, out_scores=outside)

    @property
    def n_scores_of_smaller_world(self) -> int:
        """Number of scores of the world that has fewer: "canary in" or "canary out"."""
        return min(len(self.in_scores), len(self.out_scores))

    @property
    def default_estimator(self) -> str:
        """Name of the default estimator of epsilon, by the numbers of scores in the two worlds."""
        fewer, total = self.n_scores_of_smaller_world, len(self.in_scores) + len(self.out_scores)
        uneven = total > (_UNEVEN + 1) * fewer
        return "all-thresholds" if fewer < _FEW and uneven else "joint-binomial"

    def make_worlds(self, scope: Scope, rng: np.random.Generator) -> Worlds:
        """Returns the inputs "canary in" and "canary out", whose outputs are the given scores.

        scope: scope of a bound that is measured on them.
        rng: random generator that determines the order in which the scores are drawn.
        """
        stored = self.in_scores, self.out_scores
        remaining: dict[int, NDArray[Any]] = {}

        def draw(world: int, size: int, _: np.random.Generator) -> NDArray[Any]:
            """Returns the next ``size`` scores of a world, each score once, in random order."""
            if world not in remaining:
                remaining[world] = rng.permutation(stored[world])
            taken, remaining[world] = np.split(remaining[world], [size])
            return taken

        return Worlds(
            names=_NAMES,
            scope=scope,
            draw=draw,
            statistic_name="score" if self.in_scores.ndim == 1 else "",
            stored_outputs=stored,
        )

    def _prepare(
        self, estimator: str | None, scope: Scope, rng: np.random.Generator
    ) -> tuple[Estimator, Worlds, int, np.random.Generator]:
        ordering, rest = rng.spawn(2)
        member = FAMILIES["estimators"].load_class(estimator or self.default_estimator)()
        return member, self.make_worlds(scope, ordering), self.n_scores_of_smaller_world, rest

    def compute_limits(self, *, confidence: float = 0.95, seed: int = 0) -> ThresholdLimits:
        """Returns simultaneous confidence limits of the probabilities that scores exceed
        thresholds.

        The limits give a lower bound on epsilon at every delta, and on Renyi divergences.

        ``confidence``: probability with which all limits hold together.
        ``seed``: seed of the order of the scores.

        >>> rng = np.random.default_rng(0)
        >>> scores = CanaryScores.build(rng.normal(1.0, size=5000), rng.normal(0.0, size=5000))
        >>> curve = scores.compute_limits()
        >>> [round(curve.bound_epsilon(delta), 1) for delta in (1e-5, 1e-2, 0.1)]
        [1.7, 1.5, 0.8]
        >>> print(f"of order 2: {curve.bound_renyi(2.0):.2f}, and in truth 1")
        of order 2: 0.47, and in truth 1
        """
        ordering, rest = np.random.default_rng(check_seed(seed)).spawn(2)
        return AllThresholds().compute_limits(
            self.make_worlds(CANARY_USER_SCOPE, ordering),
            confidence=confidence,
            samples=self.n_scores_of_smaller_world,
            rng=rest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunScores(_Scores):
    """Scores of the canaries of one training, and whether the training included each canary.

    A canary is a user or record whose presence is to be detected.

    scores: numbers or features, one row per canary, (m, *shape).
    is_included: whether the training included each canary, (m,).

    A bound is valid if a separate fair coin decided on each canary, as ``OneRun`` requires. It is
    not valid if half of the canaries were drawn without replacement.

    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(5000) < 0.5
    >>> scores = OneRunScores.build(rng.normal(2.0 * included), included)
    >>> bound = scores.bound(delta=1e-5)
    >>> print(f"at least {bound.epsilon:.1f}, from {bound.samples} canaries of one training")
    at least 3.9, from 5000 canaries of one training
    """

    scores: NDArray[Any]
    is_included: NDArray[np.bool_]

    @classmethod
    def build(
        cls,
        scores: ArrayLike,
        included: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        repeats: bool = False,
    ) -> Self:
        """Checks the scores and inclusions of the canaries of one training; returns them as an
        object.

        scores: numbers or features, one row per canary, (m, *shape).
        included: whether the training included each canary, (m,).
        ids: identifiers of the canaries, (m,), if known.
        repeats: whether to accept equal scores that are too frequent for separate canaries
            (``check_score_repeats``).

        Raises InputError in these cases:

        - scores are NaN or not numbers, or fewer than ``MIN_CANARIES``;
        - identifiers are missing for some canaries, or repeated;
        - ``included`` has another shape or type, or its number of included canaries is implausible
          for fair coins;
        - equal scores are not accepted.
        """
        array = _check(scores, ids, "the scores of one training", MIN_CANARIES)
        coins = np.asarray(included)
        if coins.dtype != np.bool_ or coins.shape != array.shape[:1]:
            raise InputError(
                f"Expected included to be one boolean for each of {len(array)} canaries, got "
                f"type {coins.dtype} and shape {coins.shape}. Give True for each included canary."
            )
        count = int(coins.sum())
        if scipy.stats.binomtest(count, len(coins)).pvalue < _UNFAIR:
            raise InputError(
                f"Expected canaries included by fair coins, got {count} of {len(coins)} included. "
                "Include each canary with probability 1/2, independently."
            )
        if not repeats and coins.any() and not coins.all():
            check_score_repeats(array[coins], array[~coins])
        return cls(scores=array, is_included=coins)

    @classmethod
    def from_in_and_out(
        cls,
        in_scores: ArrayLike,
        out_scores: ArrayLike,
        in_ids: ArrayLike | None = None,
        out_ids: ArrayLike | None = None,
        *,
        repeats: bool = False,
    ) -> Self:
        """Checks the scores of included and of excluded canaries of one training, given as two
        arrays.

        in_scores, out_scores: scores of the included and of the excluded canaries.
        in_ids, out_ids: identifiers of the canaries, if known.
        repeats: whether to accept equal scores that are too frequent for separate canaries
            (``check_score_repeats``).

        Raises InputError in the cases of ``build``. Further cases are one array of identifiers
        without the other, and scores of different shapes.
        """
        inside = as_array(in_scores, "in_scores")
        outside = as_array(out_scores, "out_scores")
        _check_pair(inside, outside, in_ids, out_ids)
        ids = None
        if in_ids is not None and out_ids is not None:
            ids = np.concatenate([np.asarray(in_ids), np.asarray(out_ids)])
        coins = np.repeat([True, False], [len(inside), len(outside)])
        return cls.build(np.concatenate([inside, outside]), coins, ids, repeats=repeats)

    def make_worlds(self, scope: Scope) -> Worlds:
        """Returns the inputs "canary in" and "canary out" of the training with these canaries.

        ``scope``: scope of a bound that is measured on them.
        """
        return make_one_run_worlds(_NAMES, scope, lambda rng: (self.scores, self.is_included))

    def _prepare(
        self, estimator: str | None, scope: Scope, rng: np.random.Generator
    ) -> tuple[Estimator, Worlds, int, np.random.Generator]:
        return OneRun(estimator or AUTO_METHOD), self.make_worlds(scope), len(self.is_included), rng


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
    scope: Scope = CANARY_USER_SCOPE,
    seed: int = 0,
    repeats: bool = False,
) -> Bound:
    """A lower bound on epsilon from scores with a canary in the training data, and without it.

    A canary is a user or record whose presence is to be detected. Each score comes from a separate
    training, unless ``one_run`` is true. The bound holds at ``confidence`` if these trainings are
    independent. It does not cover outputs that were not scored.

    in_scores, out_scores: scores with the canary in, (n, *shape), and out, (m, *shape).
    estimator: a name of ``auditor list estimators``. The default is "joint-binomial", or
        "all-thresholds" if one array has fewer than 200 scores and the other more than four times
        as many. With ``one_run`` it is "auto" (the default), "guesses" or "trade-off".
    in_ids, out_ids: identifiers of the canaries.
    one_run: whether all scores come from a single training, in which a separate fair coin decided
        on each of the n + m canaries.
    scope: scope of the bound; by default a user added to a training whose model is released.
    seed: random seed that splits the scores into selection and test.
    repeats: whether to accept scores that repeat more than independent trainings explain, such as
        scores logged in several epochs of one training (``check_score_repeats``).

    Raises InputError for NaN, for types other than numbers, for too few scores, for refused
    repeats, for repeated identifiers, and for an invalid delta or confidence.

    >>> rng = np.random.default_rng(2)
    >>> bound = from_scores(rng.random(10_000) < 0.73, rng.random(10_000) < 0.27)
    >>> print(f"at least {bound.epsilon:.2f}, and in truth {np.log(0.73 / 0.27):.2f}")
    at least 0.96, and in truth 0.99
    """
    kind = OneRunScores.from_in_and_out if one_run else CanaryScores.build
    return kind(in_scores, out_scores, in_ids, out_ids, repeats=repeats).bound(
        delta=delta, confidence=confidence, estimator=estimator, scope=scope, seed=seed
    )


def _check(scores: ArrayLike, ids: ArrayLike | None, which: str, fewest: int) -> NDArray[Any]:
    """Returns ``scores`` as an array of numbers, (n, *shape).

    ids: identifiers of the canaries, (n,); None if not given.
    which: text that names the scores in messages.
    fewest: minimum number of scores.

    Raises InputError for NaN, for types other than numbers, for fewer than ``fewest`` scores, and
    for missing or repeated ``ids``.
    """
    array = as_array(scores, which)
    count = len(array) if array.ndim else 0
    if count < fewest:
        raise InputError(
            f"Expected at least {fewest} entries in {which}, got {count}. Give more scores."
        )
    array = check_outputs(array, count, which)
    if array.dtype.kind not in "biuf" or not array.size:
        got = f"type {array.dtype}" if array.size else f"an empty array of shape {array.shape}"
        raise InputError(f"Expected numbers in {which}, got {got}. Give numbers.")
    if ids is not None:
        _check_ids(ids, count, which)
    return array


def _check_ids(ids: ArrayLike, count: int, which: str) -> None:
    """Raises InputError if an identifier of a canary is missing or occurs twice."""
    named = np.asarray(ids)
    if named.shape != (count,):
        raise InputError(
            f"Expected an identifier for each of {count} entries of {which}, got an array of "
            f"shape {named.shape}. Give an identifier for every score."
        )
    values, times = np.unique(named, return_counts=True)
    if len(values) < count:
        twice = values.tolist()[int(np.argmax(times > 1))]
        raise InputError(
            f"Expected each canary identifier once, got {twice!r} twice for {which}. Keep one "
            "score per canary."
        )


def _check_pair(
    inside: NDArray[Any], outside: NDArray[Any], in_ids: ArrayLike | None, out_ids: ArrayLike | None
) -> None:
    """Raises InputError unless both arrays of scores have equal shapes per score.

    Identifiers must be given for both arrays or for neither.
    """
    if (in_ids is None) != (out_ids is None):
        raise InputError(
            "Expected both in_ids and out_ids or neither, got one of them. Give both arrays of "
            "identifiers, or omit both."
        )
    if not inside.ndim == outside.ndim > 0 or inside.shape[1:] != outside.shape[1:]:
        raise InputError(
            f"Expected in_scores and out_scores of one shape per score, got the shapes "
            f"{inside.shape} and {outside.shape}. Compute both by the same function."
        )
