"""One attack on one view, and the truth that its guesses are scored against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from fedrec_auditor.attacks.base import (
    Attack,
    Background,
    Labels,
    Links,
    Reconstruction,
    Scores,
)
from fedrec_auditor.attacks.parts.inputs import Condensed
from fedrec_auditor.auditor.games.halves import Halves
from fedrec_auditor.auditor.games.metrics import Estimate
from fedrec_auditor.reports.rows import AttackRow, FurtherFigure, SkippedRow
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import View

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
