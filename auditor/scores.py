"""Scores of canaries that were saved, wherever they come from, and the epsilon that they show."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.estimators.base import FEWEST_SAMPLES, Estimator
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.worlds import Worlds, checked_outputs

CANARY_USER = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.RELEASE,
    horizon=Horizon.TRAINING,
)
"""What scores speak of unless their owner says otherwise: a user in or out of a training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryScores:
    """Scores with a canary in and scores without, from trainings that are independent.

    ``inside`` (n, *shape) and ``outside`` (m, *shape) are numbers, one row a training. ``canaries``
    name whose score it is, (n,) and (m,), where that is known: a coin belongs to an identifier, so
    none may come twice on a side. InputError for NaN, other than numbers, fewer than
    ``FEWEST_SAMPLES`` scores of a side, and identifiers that are missing or come twice.

    >>> rng = np.random.default_rng(0)
    >>> scores = CanaryScores.of(rng.normal(1.0, size=1000), rng.normal(0.0, size=1000))
    >>> bound = scores.bound(delta=1e-5)
    >>> print(f"at least {bound.epsilon:.1f}, from {bound.samples} scores")
    at least 1.4, from 1910 scores
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
        checked = {name: _checked(name, *side) for name, side in sides.items()}
        if (in_ids is None) != (out_ids is None):
            raise InputError(
                "Expected identifiers of both sides or of neither, got those of one. Give in_ids "
                "and out_ids."
            )
        one, other = checked["in"].shape[1:], checked["out"].shape[1:]
        if one != other:
            raise InputError(
                f"Expected scores of one shape, got {one} in and {other} out. Score both sides "
                "alike."
            )
        return cls(inside=checked["in"], outside=checked["out"])

    @classmethod
    def read(cls, path: Path) -> Self:
        """From an npz file with ``in_scores`` and ``out_scores``, and ``in_ids`` and ``out_ids``.

        Nothing is unpickled. InputError for another file.
        """
        known = ("in_scores", "out_scores", "in_ids", "out_ids")
        try:
            archive = np.load(path, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            with archive:
                found: Mapping[str, Any] = {n: archive[n] for n in archive.files if n in known}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(
                f"Expected an npz file of numbers, got {str(path)!r} ({error}). Write it with "
                "numpy.savez(path, in_scores=..., out_scores=...)."
            ) from error
        missing = [name for name in known[:2] if name not in found]
        if missing:
            raise InputError(
                f"Expected the arrays in_scores and out_scores in {str(path)!r}, got no "
                f"{' and no '.join(missing)}. Add what is missing."
            )
        return cls.of(**found)

    @property
    def size(self) -> int:
        """How many of each side an estimator uses: as many as there are of the fewer."""
        return min(len(self.inside), len(self.outside))

    def worlds(self, scope: Scope, rng: np.random.Generator) -> Worlds:
        """The two sides, handed out in a random order, each score once."""
        sides = [rng.permutation(side) for side in (self.inside, self.outside)]
        taken = [0, 0]

        def draw(world: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
            start = taken[world]
            taken[world] += size
            return sides[world][start : start + size]

        return Worlds(
            names=("the canary is in", "the canary is out"),
            scope=scope,
            draw=draw,
            statistic="score" if self.inside.ndim == 1 else "",
            available=self.size,
        )

    def bound(
        self,
        *,
        delta: float = 0.0,
        confidence: float = 0.95,
        estimator: str = "joint-binomial",
        scope: Scope = CANARY_USER,
        seed: int = 0,
    ) -> Bound:
        """The lower bound of the estimator of this name, see ``from_scores``."""
        ordering, rest = np.random.default_rng(seed).spawn(2)
        member: Estimator = FAMILIES["estimators"].member(estimator)()
        return member.bound(
            self.worlds(scope, ordering),
            delta=delta,
            confidence=confidence,
            samples=self.size,
            rng=rest,
        )


def from_scores(
    in_scores: ArrayLike,
    out_scores: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    estimator: str = "joint-binomial",
    in_ids: ArrayLike | None = None,
    out_ids: ArrayLike | None = None,
    scope: Scope = CANARY_USER,
    seed: int = 0,
) -> Bound:
    """A lower bound on epsilon from scores with a canary in, (n, *shape), and without, (m, *shape).

    Each score comes from a training of its own. The bound holds at ``confidence`` if the trainings
    are independent, and says nothing of what was not scored. ``estimator`` is a name of ``auditor
    list estimators``; ``scope`` is what the canary stands for, by default a user added to a
    training of which the model is released. ``in_ids`` and ``out_ids`` name the canaries. ``seed``
    splits the scores into those that choose and those that count. InputError for NaN, other than
    numbers, too few scores, identifiers that come twice, and a delta or confidence that is none.

    >>> rng = np.random.default_rng(2)
    >>> bound = from_scores(rng.random(10_000) < 0.73, rng.random(10_000) < 0.27)
    >>> print(f"at least {bound.epsilon:.2f}, and in truth {np.log(0.73 / 0.27):.2f}")
    at least 0.93, and in truth 0.99
    """
    return CanaryScores.of(in_scores, out_scores, in_ids, out_ids).bound(
        delta=delta, confidence=confidence, estimator=estimator, scope=scope, seed=seed
    )


def _checked(name: str, scores: ArrayLike, ids: ArrayLike | None) -> NDArray[Any]:
    """The scores of one side as numbers; see ``CanaryScores``."""
    array = np.asarray(scores)
    count = len(array) if array.ndim else 0
    if count < FEWEST_SAMPLES:
        raise InputError(
            f"Expected at least {FEWEST_SAMPLES} scores with the canary {name}, got {count}. "
            "Train more often."
        )
    array = checked_outputs(array, count, f"the canary {name}")
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"Expected numbers with the canary {name}, got {array.dtype}. Score by a number."
        )
    if ids is not None:
        named = np.asarray(ids)
        if named.shape != (count,):
            raise InputError(
                f"Expected an identifier for each of {count} scores with the canary {name}, got "
                f"{named.shape}. Name every canary."
            )
        values, times = np.unique(named, return_counts=True)
        if len(values) < count:
            twice = values[int(np.argmax(times > 1))]
            raise InputError(
                f"Expected each canary once, got {twice!r} twice with the canary {name}. A coin "
                "belongs to a canary: keep one score of it."
            )
    return array
