"""Scores of canaries that were saved, wherever they come from, and the epsilon that they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.canaries import CANARY_USER, check_sides, checked_scores
from fedrec_auditor.auditor.worlds.estimators.all_thresholds import AllThresholds
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.estimators.parts.threshold_band import ThresholdBand
from fedrec_auditor.auditor.worlds.one_run import OneRunScores
from fedrec_auditor.auditor.worlds.worlds import Worlds, check_seed

_FEW, _UNEVEN = 200, 4
"""Of fewer scores, with more than so many times as many beside, a coin would leave too many over.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryScores:
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
    ) -> Self:
        """Scores from arrays or lists; see above."""
        sides = {"in": (in_scores, in_ids), "out": (out_scores, out_ids)}
        checked = {n: checked_scores(*side, f"the canary {n}") for n, side in sides.items()}
        check_sides(checked["in"], checked["out"], in_ids, out_ids)
        return cls(inside=checked["in"], outside=checked["out"])

    @property
    def size(self) -> int:
        """How many there are of the fewer side."""
        return min(len(self.inside), len(self.outside))

    @property
    def estimator(self) -> str:
        """The default: the one that shows most of so many scores, whatever they are."""
        if self.size < _FEW and len(self.inside) + len(self.outside) > (_UNEVEN + 1) * self.size:
            return "clopper-pearson" if self.inside.ndim == 1 else "likelihood-ratio"
        return "joint-binomial"

    def worlds(self, scope: Scope, rng: np.random.Generator) -> Worlds:
        """The two sides, handed out in a random order, each score once."""
        stored, taken = (self.inside, self.outside), [0, 0]
        sides: list[NDArray[Any] | None] = [None, None]

        def draw(world: int, size: int, _: np.random.Generator) -> NDArray[Any]:
            start = taken[world]
            taken[world] += size
            side = sides[world]
            if side is None:
                side = sides[world] = rng.permutation(stored[world])
            return side[start : start + size]

        return Worlds(
            names=("the canary is in", "the canary is out"),
            scope=scope,
            draw=draw,
            statistic="score" if self.inside.ndim == 1 else "",
            stored=stored,
        )

    def bound(
        self,
        *,
        delta: float = 0.0,
        confidence: float = 0.95,
        estimator: str | None = None,
        scope: Scope = CANARY_USER,
        seed: int = 0,
    ) -> Bound:
        """The lower bound of the estimator of this name, see ``from_scores``."""
        ordering, rest = np.random.default_rng(check_seed(seed)).spawn(2)
        member: Estimator = FAMILIES["estimators"].member(estimator or self.estimator)()
        return member.bound(
            self.worlds(scope, ordering),
            delta=delta,
            confidence=confidence,
            samples=self.size,
            rng=rest,
        )

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
) -> Bound:
    """A lower bound on epsilon from scores with a canary in, (n, *shape), and without, (m, *shape).

    Each score comes from a training of its own. The bound holds at ``confidence`` if the trainings
    are independent, and says nothing of what was not scored. ``estimator`` is a name of ``auditor
    list estimators``, by default "joint-binomial"; of fewer than 200 scores beside more than four
    times as many "clopper-pearson", or "likelihood-ratio" if a score is an array. ``scope`` is what
    the canary stands for, by default a user added to a training of which the model is released.
    ``in_ids`` and ``out_ids`` name the canaries. ``seed`` splits the scores into those that choose
    and those that count.

    With ``one_run`` all scores come from a single training, into which each of the n + m canaries
    was put by a fair coin of its own; then ``estimator`` is a name of ``OneRunMethod``, by default
    "auto".

    InputError for NaN, other than numbers, too few scores, identifiers that come twice, and a delta
    or confidence that is none.

    >>> rng = np.random.default_rng(2)
    >>> bound = from_scores(rng.random(10_000) < 0.73, rng.random(10_000) < 0.27)
    >>> print(f"at least {bound.epsilon:.2f}, and in truth {np.log(0.73 / 0.27):.2f}")
    at least 0.96, and in truth 0.99
    """
    kind = OneRunScores.of_sides if one_run else CanaryScores.of
    return kind(in_scores, out_scores, in_ids, out_ids).bound(
        delta=delta, confidence=confidence, estimator=estimator, scope=scope, seed=seed
    )
