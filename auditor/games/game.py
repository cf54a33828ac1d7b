"""One attack on one view, the truth that scores its guesses, and success over users."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Attack, Background, Labels, Links, Reconstruction, Scores
from fedrec_auditor.attacks.parts.inputs import Condensed
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.metrics import Estimate
from fedrec_auditor.auditor.machine.progress import stage
from fedrec_auditor.reports.record.rows import AttackRow, FurtherFigure, SkippedRow, UsersRow
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import View

COUNT, QUICK_COUNT = 8, 4
"""Trainings on halves of the users."""
HALF_SECONDS, QUICK_HALF_SECONDS = 3600.0, 6.0
"""Longest that they may take together, as told by their settings (``Workload``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """``included`` (k, n_users): who was in which; ``views`` of each, (k,), by vantage."""

    included: NDArray[np.bool_]
    views: Mapping[Vantage, tuple[View, ...]]

    @classmethod
    def of(
        cls,
        target: Target,
        interactions: Interactions,
        vantages: Collection[Vantage],
        *,
        count: int,
        compute: Compute,
        rng: np.random.Generator,
    ) -> Halves:
        """Train ``count`` times, on users drawn by independent fair coins, and at least on one.

        (Were each user in half of them, the others would give away the one.) InputError where the
        target refuses such data.
        """
        included = rng.random((count, interactions.n_users)) < 0.5
        included[:, 0] |= ~included.any(axis=1)
        views: dict[Vantage, list[View]] = {vantage: [] for vantage in vantages}
        for number, one in enumerate(included):
            stage("training on halves of the users,", number, count)
            some = interactions.take(np.flatnonzero(one))
            transcript = target.run(some, rng, None, compute).transcript
            for vantage, found in views.items():
                found.append(transcript.view(vantage, rng).by_item())
        return cls(included=included, views={v: tuple(found) for v, found in views.items()})


USERS, QUICK_USERS, FEWEST = 2_000, 500, 100
"""Users of whom interactions are guessed: most, and as many at least however many the items."""
NUMBERS = 2**23
"""Users times items that are guessed at once: of as many numbers an attack holds a few tables."""
SEARCHED = 2**26
"""Messages times items that are held at once where any of all messages may be a user's."""
Readings = dict[str, Condensed]
"""What was read of the uploads of one training, by what it was read from."""
_MANY = 20_000  # users from which a row says how many of them were attacked
_Guess = TypeVar("_Guess", Labels, Scores, Reconstruction, Links)


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """An attack, what it sees, and what its guesses are scored against.

    ``target`` and ``name`` are what the rows call the audited system and the attack;
    ``interactions`` are those trained on, ``user_vectors`` those of the training (``Run``), or
    None. ``halves`` are trainings on halves of the users, for attacks on whole users. ``quick``
    asks for fewer users and repetitions, ``per_user`` for what is got of each user; ``attributes``
    are those asked for, None for all; ``confidence`` is that of the intervals. ``condensed`` keeps
    readings of the uploads, of which the attacks on one training share one.
    """

    target: str
    name: str
    attack: Attack
    view: View
    interactions: Interactions
    user_vectors: Floats | None = None
    halves: Halves | None = None
    quick: bool
    per_user: bool = False
    attributes: tuple[str, ...] | None = None
    confidence: float
    rng: np.random.Generator
    condensed: Readings = field(default_factory=dict)

    @property
    def most(self) -> int:
        """How many users are attacked at most: fewer where tables of all items would be large."""
        users = QUICK_USERS if self.quick else USERS
        return min(users, max(FEWEST, NUMBERS // max(1, self.interactions.n_items)))

    @property
    def crowded(self) -> str:
        """Why all messages without their senders are not searched; empty where they are."""
        entries = self.interactions.n_users * self.interactions.n_items
        if entries <= SEARCHED:
            return ""
        return (
            f"Messages without senders are searched together: their {entries:,} entries (users "
            f"times items) are more than {SEARCHED:,}, which fit memory. Audit fewer users."
        )

    def skipped(self, reason: str) -> SkippedRow:
        """A row that says what was not played, and why."""
        return SkippedRow(target=self.target, attack=self.name, reason=reason)

    def guess(self, kind: type[_Guess], background: Background, view: View) -> _Guess:
        """What the attack infers from ``view``.

        TypeError unless it is of this ``kind``, ArithmeticError if there is NaN in it.
        """
        guess = self.attack.infer(view, background, self.rng)
        if not isinstance(guess, kind):
            raise TypeError(f"Expected {kind.__name__} from {self.name}, got {type(guess)}.")
        for part in fields(guess):
            values = getattr(guess, part.name)
            if isinstance(values, np.ndarray) and np.isnan(values).any():
                raise ArithmeticError(
                    f"Expected numbers from {self.name}, got NaN among its {part.name}. Repair it."
                )
        return guess

    def mean(self, values: NDArray[Any], least: float = 0.0) -> Estimate:
        """The mean of one value in [``least``, 1] per user, with its interval."""
        return metrics.mean(values, confidence=self.confidence, rng=self.rng, least=least)

    def share(self, successes: NDArray[np.bool_]) -> Estimate:
        """The share of users of whom something is true, with its interval."""
        return metrics.share(successes, confidence=self.confidence)

    def roc(
        self,
        scores: NDArray[Any],
        members: NDArray[np.bool_],
        users: NDArray[np.integer[Any]],
        fprs: Sequence[float],
        **more: Any,
    ) -> metrics.Roc:
        """The curve of scores of candidates (m,), with its intervals; see ``metrics.roc``."""
        return metrics.roc(
            scores, members, users, fprs=fprs, confidence=self.confidence, rng=self.rng, **more
        )

    def row(
        self,
        metric: str,
        estimate: Estimate,
        baselines: dict[str, float],
        note: str,
        *,
        pairs: int | None = None,
        gain: Estimate | None = None,
        from_interactions: float | None = None,
        further: Mapping[str, Estimate] = MappingProxyType({}),
    ) -> AttackRow:
        """A row of the record; its subjects are users, or this many candidate ``pairs``.

        ``gain`` is that over the best of ``baselines``.
        """
        every = self.interactions.n_users
        if every > _MANY and estimate.n < every:
            note = f"{note} {estimate.n:,} of {every:,} users were attacked.".lstrip()
        note = " ".join([note, *self.view.how]).lstrip()
        return AttackRow(
            target=self.target,
            attack=self.name,
            family=self.attack.family,
            vantage=self.view.vantage,
            metric=metric,
            value=estimate.value,
            ci_low=estimate.low,
            ci_high=estimate.high,
            confidence=estimate.confidence,
            baseline=max(baselines.values(), default=None),
            baselines=baselines,
            gain=None if gain is None else further_figure(gain),
            from_interactions=from_interactions,
            further={name: further_figure(one) for name, one in further.items()},
            n=estimate.n if pairs is None else pairs,
            subject="users" if pairs is None else "candidate pairs",
            reference=self.attack.reference,
            note=note,
        )


def further_figure(one: Estimate) -> FurtherFigure:
    """An estimate as a row of the record holds it beside its figure."""
    return FurtherFigure(value=one.value, ci_low=one.low, ci_high=one.high)


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SURE = 0.9
"""A success that is counted as read."""
FEWEST_OF_GROUP = 10
"""Users of a group of whom a mean is told."""
_THIRDS = {
    "activity": ("fewest items", "middle third", "most items"),
    "taste": ("rare items", "middle third", "common items"),
}


def who_is_hit(
    game: Game, users: NDArray[np.integer[Any]], success: NDArray[np.floating[Any]], what: str
) -> UsersRow:
    """Quantiles of ``success`` (n,), in [0, 1], over ``users`` (n,), and means of groups of them.

    Intervals of quantiles are exact, from the order of the users (binomial ranks). Groups are
    thirds by activity and by the popularity of a user's items, and the classes of each attribute.
    ``what`` says what success is of one user. Users of whom it is NaN are left out. Each user's is
    kept only where the game asks for it.
    """
    some = np.isfinite(success)
    users, success = users[some], success[some]
    groups: dict[str, dict[str, FurtherFigure]] = {}
    for alike, name, members in _groups(game, users):
        if np.count_nonzero(members) >= FEWEST_OF_GROUP:
            average = game.mean(success[members])
            groups.setdefault(alike, {})[name] = further_figure(average)
    return UsersRow(
        success=what,
        quantiles={f"{level:.0%}": _quantile(success, level, game.confidence) for level in LEVELS},
        sure=further_figure(game.share(success >= SURE)),
        groups=groups,
        each=tuple(zip(users.tolist(), success.tolist(), strict=True)) if game.per_user else (),
    )


def _quantile(success: NDArray[np.floating[Any]], level: float, confidence: float) -> FurtherFigure:
    """The smallest success that so large a share of users does not exceed."""
    ordered, n, tail = np.sort(success), len(success), (1 - confidence) / 2
    low, high = (int(stats.binom.ppf(end, n, level)) for end in (tail, 1 - tail))  # ranks, from 1
    return FurtherFigure(
        value=float(np.quantile(ordered, level, method="inverted_cdf")),
        ci_low=float(ordered[low - 1]) if low >= 1 else 0.0,
        ci_high=float(ordered[high]) if high < n else 1.0,
    )


def _groups(
    game: Game, users: NDArray[np.integer[Any]]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """What users are alike in, the group's name, and who of ``users`` (n,) is in it (n,)."""
    ratings = game.interactions.ratings
    held = np.diff(ratings.indptr)
    popularity = np.bincount(ratings.indices, minlength=game.interactions.n_items)
    whose = np.repeat(np.arange(len(held)), held)
    met = np.bincount(whose, popularity[ratings.indices], len(held)) / np.maximum(held, 1)
    for (alike, names), of_all in zip(_THIRDS.items(), (held, met), strict=True):
        rank = stats.rankdata(of_all[users])
        third = np.minimum((3 * (rank - 0.5) / len(users)).astype(int), 2)  # equal ones together
        for number, name in enumerate(names):
            yield alike, name, third == number
    for key, attribute in sorted(game.interactions.attributes.items()):
        for code, name in enumerate(attribute.classes):
            yield key.replace("_", " "), str(name), attribute.codes[users] == code
