"""Parties that add Gaussian noise to their gradients: what sampling hides, and what repairs it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.settings import (
    boolean,
    check_choice,
    check_settings,
    proper_share,
    whole,
)
from fedrec_auditor.targets.systems.federated_mf.parts.descent import Clipping, Descent
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import PartyMf, drawn_shares
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import UNITS, batch_size, noisy_steps

if TYPE_CHECKING:
    from dp_accounting import DpEvent

FIXED = (
    "A fixed number of rows is drawn, for which the moments accountant of rows drawn by themselves "
    "proves nothing."
)
"""Why the paper's accountant does not apply to whole users."""


@dataclass(frozen=True, kw_only=True)
class NoisyParties(PartyMf):
    """N(0, (z Delta)^2) on every entry of a step's sum of gradients, of all rows.

    Delta is the sensitivity that the paper claims for the ``unit``; ``delta`` its delta.
    ``as_published`` is the paper: rows are drawn, a fixed number of them, and the divisor counts
    the party's own ratings. Sampling rows does not amplify for one rating, whose user's other
    ratings show whether the row was drawn, and the moments accountant proves nothing of a fixed
    number of rows when a user comes or goes. Repaired, every unit is drawn by itself (each rating,
    or each user), as the moments accountant assumes, and the divisor takes ``density``, a public
    guess, for tau.

    Events take tau for public, as the paper does; strictly, with ``as_published`` the scale of the
    noise tells how many ratings there are.
    """

    unit: str = "rating"
    trim: int = 10
    delta: float = 1e-5
    density: float = 0.01
    as_published: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "unit", UNITS)
        check_settings(self, trim=whole, delta=proper_share, density=proper_share)
        check_settings(self, as_published=boolean)

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    @property
    @abstractmethod
    def clipping(self) -> Clipping:
        """What bounds the gradients."""

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Steps with clipped gradients of sampled rows or units; members add the noise."""
        return replace(
            super().descent(n_users, joint),
            clipping=self.clipping,
            unit=self.unit,
            independent=not self.as_published,
        )

    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row: the party's own count, or repaired the guess."""
        if self.as_published:
            return super().step_scale(n_users, n_items, ratings)  # type: ignore[safe-super]
        guess = max(1.0, self.density * n_items)
        return 1.0 / (guess if self.trimmed is None else min(guess, self.trimmed))

    def charged(
        self, z: float, scope: Scope, steps: int, sizes: Sequence[int], *, amplified: bool
    ) -> DpEvent:
        """``steps`` noisy steps at ``z`` times what the unit of ``scope`` moves the sum.

        Repaired, sampling amplifies where the unit is drawn by itself (``amplified``). Where rows
        are drawn, a fixed number n' of the n in ``sizes``, the rows of the user are in a share n'/n
        of all steps, whatever their data, and it is charged as if it were seen in which. Of a user
        who comes or goes the share is as large, and the sums are twice as far apart: it takes
        another one's place.
        """
        if not self.as_published:
            return noisy_steps(z, self.rate, steps, amplified=amplified)
        share = drawn_shares(sizes, self.rate)[1]
        if not scope.is_presence:
            return noisy_steps(z, share, steps, amplified=False, revealed=True)
        fixed = all(batch_size(n, self.rate) == batch_size(n - 1, self.rate) for n in sizes)
        if not fixed or share >= 0.25:  # a quarter of the steps, twice as far apart, is as much
            return noisy_steps(z, share, steps, amplified=False)
        return noisy_steps(z / 2.0, share, steps, amplified=False, revealed=True)
