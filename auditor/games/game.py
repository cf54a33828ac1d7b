"""Defines ``Trial``: one attack, the messages that its adversary sees, and the true data that score
its guesses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Attack, AttackResult, Background
from fedrec_auditor.attacks.parts.inputs import ViewWithInputs
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.metrics import Estimate
from fedrec_auditor.auditor.machine.progress import report_step
from fedrec_auditor.reports.record.rows import AttackRow, FurtherFigure, SkippedRow, UsersRow
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import View

# Number of trainings on random halves of the users, in a full audit and in a quick audit.
N_HALVES, QUICK_N_HALVES = 8, 4
# Maximum estimated seconds of all trainings on halves, in a full and in a quick audit.
MAX_HALVES_SECONDS, QUICK_MAX_HALVES_SECONDS = 3600.0, 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfTrainings:
    """Trainings on random halves of the users, for attacks that infer whether a user took part.

    ``is_included``: whether each of k trainings includes each user (k, n_users).
    ``views``: messages and public parameters of each of the k trainings, by vantage (what the
        adversary sees).
    """

    is_included: NDArray[np.bool_]
    views: Mapping[Vantage, tuple[View, ...]]

    @classmethod
    def train(
        cls,
        target: Target,
        interactions: Interactions,
        vantages: Collection[Vantage],
        *,
        count: int,
        compute: Machine,
        rng: np.random.Generator,
    ) -> HalfTrainings:
        """Trains ``target`` ``count`` times, each time on a random half of the users.

        Each training includes each user independently with probability 1/2, and has at least one
        user.

        ``target``: the system to train.
        ``interactions``: data of all users.
        ``vantages``: adversaries (by what they see) for whom the messages of each training are
            stored.
        ``count``: number k of trainings.
        ``compute``: device and memory of the trainings.

        Raises InputError if the system refuses the data of a half.
        """
        # The number of trainings that include a user is not fixed: otherwise an adversary who
        # counts them could infer the user's presence in the remaining training.
        included = rng.random((count, interactions.n_users)) < 0.5
        included[:, 0] |= ~included.any(axis=1)
        views: dict[Vantage, list[View]] = {vantage: [] for vantage in vantages}
        for number, half in enumerate(included):
            report_step("training on halves of the users,", number, count)
            data = interactions.take_users(np.flatnonzero(half))
            transcript = target.run(data, rng, None, compute).transcript
            for vantage in views:
                views[vantage].append(transcript.view(vantage, rng).align_item_rows())
        return cls(is_included=included, views={v: tuple(every) for v, every in views.items()})


# Maximum number of attacked users in a full and in a quick audit, and with very many items.
MAX_USERS, QUICK_MAX_USERS, MIN_USERS = 2_000, 500, 100
# Maximum product of attacked users and items. An attack holds a few tables of this size.
MAX_ATTACKED_PAIRS = 2**23
# Maximum product of users and items for which messages without senders are attacked.
MAX_UNLINKED_PAIRS = 2**26
# Tables of the uploads of one training, with their views, by name of the source.
TableViews = dict[str, ViewWithInputs]
_MANY = 20_000  # users beyond which a row states the number of attacked users
_Guess = TypeVar("_Guess", bound=AttackResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attack, the view that its adversary sees, and the true data that score its guesses.

    ``target_name``, ``attack_name``: names of the system and of the attack in the report.
    ``attack``: the attack.
    ``view``: the messages and public parameters that the attack sees.
    ``interactions``: the data on which the system was trained.
    ``user_vectors``: the user vectors that the training produced, or None.
    ``trainings_on_user_halves``: trainings by which a user's presence is inferred, or None.
    ``is_quick``: whether to attack fewer users and to repeat draws less often.
    ``is_per_user``: whether the report lists the success for each user.
    ``attributes``: names of the attributes to infer; None for all attributes.
    ``confidence``: confidence of the intervals, in (0, 1).
    ``rng``: random generator for the attack and the intervals.
    ``table_views``: tables of the uploads, shared by all attacks on the same training.
    """

    target_name: str
    attack_name: str
    attack: Attack
    view: View
    interactions: Interactions
    user_vectors: Floats | None = None
    trainings_on_user_halves: HalfTrainings | None = None
    is_quick: bool
    is_per_user: bool = False
    attributes: tuple[str, ...] | None = None
    confidence: float
    rng: np.random.Generator
    table_views: TableViews = field(default_factory=dict)

    @property
    def max_attacked_users(self) -> int:
        """Maximum number of attacked users, which is smaller for catalogues with many items."""
        users = QUICK_MAX_USERS if self.is_quick else MAX_USERS
        return min(users, max(MIN_USERS, MAX_ATTACKED_PAIRS // max(1, self.interactions.n_items)))

    @property
    def unlinked_skip_reason(self) -> str:
        """Reason why messages without known senders are not attacked, as text; empty if they are
        attacked.

        These messages are not attacked if the number of users times the number of items exceeds
        ``MAX_UNLINKED_PAIRS``.
        """
        size = self.interactions.n_users * self.interactions.n_items
        if size <= MAX_UNLINKED_PAIRS:
            return ""
        return (
            f"Messages without senders are searched together: their {size:,} entries (users times "
            f"items) exceed the {MAX_UNLINKED_PAIRS:,} that fit in memory. Audit fewer users."
        )

    def make_skipped_row(self, reason: str) -> SkippedRow:
        """Makes a row of the report that states why the attack, or a part of it, was not run."""
        return SkippedRow(target=self.target_name, attack=self.attack_name, reason=reason)

    def run_attack(self, kind: type[_Guess], background: Background, view: View) -> _Guess:
        """Runs the attack on ``view`` and returns its guess.

        ``kind``: expected class of the guess.
        ``background``: knowledge of the adversary besides the view.
        ``view``: messages and public parameters that the adversary sees.

        Raises TypeError if the guess is of another class, and ArithmeticError if the guess contains
        NaN.
        """
        guess = self.attack.infer(view, background, self.rng)
        if not isinstance(guess, kind):
            name, got = f"{self.attack_name}.infer", type(guess).__name__
            raise TypeError(f"Expected {kind.__name__} from {name}, got {got}. Correct {name}.")
        for part in fields(guess):
            values = getattr(guess, part.name)
            if isinstance(values, np.ndarray) and np.isnan(values).any():
                name = f"{part.name} from {self.attack_name}.infer"
                raise ArithmeticError(f"Expected {name} without NaN, got NaN. Correct infer.")
        return guess

    def estimate_mean(self, values: NDArray[Any], min_value: float = 0.0) -> Estimate:
        """Estimates the mean of ``values`` over users, with its confidence interval.

        ``values``: value of each user (n,), in [``min_value``, 1].
        """
        return metrics.estimate_mean(
            values, confidence=self.confidence, rng=self.rng, min_value=min_value
        )

    def estimate_share(self, successes: NDArray[np.bool_]) -> Estimate:
        """Estimates the share of users for whom an attack succeeded, with its confidence interval.

        ``successes``: whether the attack succeeded for each user (n,).
        """
        return metrics.estimate_share(successes, confidence=self.confidence)

    def make_roc(
        self,
        scores: NDArray[Any],
        members: NDArray[np.bool_],
        users: NDArray[np.integer[Any]],
        fprs: Sequence[float],
        **more: Any,
    ) -> metrics.Roc:
        """Computes the ROC curve of an attack's scores of m candidates, with confidence intervals
        over users.

        A candidate is a guess to be scored, such as a pair of user and item. A member is a
        candidate that is true.

        ``scores``: score per candidate (m,).
        ``members``: whether each candidate is a member (m,).
        ``users``: index of the user of each candidate (m,).
        ``fprs``: false positive rates at which the true positive rate is reported.
        ``more``: further arguments of ``metrics.make_roc``.
        """
        return metrics.make_roc(
            scores, members, users, fprs=fprs, confidence=self.confidence, rng=self.rng, **more
        )

    def make_row(
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
        """Makes a row of the report for one metric of the attack.

        ``metric``, ``estimate``: name and value of the row's metric.
        ``baselines``: value of the metric for each baseline, by name of the baseline.
        ``note``: text that explains the row.
        ``pairs``: number of candidate pairs (user, item); None if the metric counts users.
        ``gain``: difference between the metric and the best of ``baselines``, or None.
        ``from_interactions``: value of the metric if the attack sees the true interactions, or
            None.
        ``further``: values of further metrics, by name.
        """
        every = self.interactions.n_users
        if every > _MANY and estimate.n_users < every:
            note = f"{note} The attack was run on {estimate.n_users:,} of {every:,} users.".lstrip()
        note = " ".join([note, *self.view.notes]).lstrip()
        return AttackRow(
            target=self.target_name,
            attack=self.attack_name,
            family=self.attack.family,
            vantage=self.view.vantage,
            metric=metric,
            value=estimate.value,
            ci_low=estimate.low,
            ci_high=estimate.high,
            confidence=estimate.confidence,
            baseline=max(baselines.values(), default=None),
            baselines=baselines,
            gain=None if gain is None else make_further_figure(gain),
            from_interactions=from_interactions,
            further={name: make_further_figure(one) for name, one in further.items()},
            n=estimate.n_users if pairs is None else pairs,
            subject="users" if pairs is None else "candidate pairs",
            reference=self.attack.reference,
            note=note,
        )


def make_further_figure(estimate: Estimate) -> FurtherFigure:
    """Converts an estimate to a further figure of a report's row: value and confidence interval."""
    return FurtherFigure(value=estimate.value, ci_low=estimate.low, ci_high=estimate.high)


# Levels of the quantiles of success over users that the record lists.
QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
# Minimum success of the attack on a user with which the record counts the user as exposed.
MIN_EXPOSED_USER_SUCCESS = 0.9
# Minimum number of users in a group whose mean success the record lists.
MIN_GROUP_USERS = 10
_THIRDS = {
    "activity": ("fewest items", "middle third", "most items"),
    "taste": ("rare items", "middle third", "common items"),
}


def summarize_users(
    trial: Trial, users: NDArray[np.integer[Any]], success: NDArray[np.floating[Any]], name: str
) -> UsersRow:
    """Summarises an attack's success over users: quantiles, the share of exposed users, and means
    of groups.

    ``trial``: the attack, with the data that score its guesses.
    ``users``: indices of the attacked users (n,).
    ``success``: success per user in [0, 1] (n,). Users with NaN are left out.
    ``name``: description of the measure of a user's success.

    - Exposed users: users with a success of at least ``MIN_EXPOSED_USER_SUCCESS``.
    - Groups: thirds of the users by number of items, thirds by popularity of these items, and
      classes of each attribute. Groups of fewer than ``MIN_GROUP_USERS`` users are left out.
    - Success of each user: only if ``trial.is_per_user``.
    """
    is_finite = np.isfinite(success)
    users, success = users[is_finite], success[is_finite]
    groups: dict[str, dict[str, FurtherFigure]] = {}
    for grouping, group, members in _iter_groups(trial, users):
        if np.count_nonzero(members) >= MIN_GROUP_USERS:
            average = trial.estimate_mean(success[members])
            groups.setdefault(grouping, {})[group] = make_further_figure(average)
    return UsersRow(
        success=name,
        quantiles={
            f"{level:.0%}": _quantile(success, level, trial.confidence) for level in QUANTILE_LEVELS
        },
        sure=make_further_figure(trial.estimate_share(success >= MIN_EXPOSED_USER_SUCCESS)),
        groups=groups,
        each=tuple(zip(users.tolist(), success.tolist(), strict=True)) if trial.is_per_user else (),
    )


def _quantile(success: NDArray[np.floating[Any]], level: float, confidence: float) -> FurtherFigure:
    """Quantile of ``success`` (n,) at ``level``, with its exact interval: order statistics, chosen
    by the binomial distribution.
    """
    ordered, n, tail = np.sort(success), len(success), (1 - confidence) / 2
    low, high = (int(stats.binom.ppf(end, n, level)) for end in (tail, 1 - tail))  # ranks, from 1
    return FurtherFigure(
        value=float(np.quantile(ordered, level, method="inverted_cdf")),
        ci_low=float(ordered[low - 1]) if low >= 1 else 0.0,
        ci_high=float(ordered[high]) if high < n else 1.0,
    )


def _iter_groups(
    trial: Trial, users: NDArray[np.integer[Any]]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yields the groups of users whose mean success is reported.

    A group is yielded as its grouping (such as "activity"), its name, and whether each of ``users``
    is in the group (n,).
    """
    ratings = trial.interactions.ratings
    sizes = np.diff(ratings.indptr)
    popularity = np.bincount(ratings.indices, minlength=trial.interactions.n_items)
    whose = np.repeat(np.arange(len(sizes)), sizes)
    taste = np.bincount(whose, popularity[ratings.indices], len(sizes)) / np.maximum(sizes, 1)
    for (grouping, names), values in zip(_THIRDS.items(), (sizes, taste), strict=True):
        rank = stats.rankdata(values[users])
        third = np.minimum((3 * (rank - 0.5) / len(users)).astype(int), 2)  # ties stay together
        for number, name in enumerate(names):
            yield grouping, name, third == number
    for key, attribute in sorted(trial.interactions.attributes.items()):
        for code, name in enumerate(attribute.classes):
            yield key.replace("_", " "), str(name), attribute.codes[users] == code
