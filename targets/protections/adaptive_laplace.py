"""Clipping and Laplace noise with a budget of its own for each group of components (APM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.targets.protections.base import Promise
from fedrec_auditor.targets.protections.parts.noise import LaplaceNoise
from fedrec_auditor.targets.settings import Knob, Positive, numbers


@dataclass(frozen=True, kw_only=True)
class AdaptiveLaplace(LaplaceNoise):
    """Entries clipped to [-clip, clip], noise of scale 2 clip / epsilon of the entry's group.

    An entry spends its group's epsilon, exactly: the range is 2 clip, and so is the sensitivity. A
    whole upload spends the sum over all its entries. The defaults are those of section 5.7, which
    are not those of equation 11: for these see ``by_resistance``. A model without one of the groups
    has no use for its budget. ``every_epoch`` is Algorithm 2: see ``LaplaceNoise``.
    Source: Zhang et al., Algorithm 2, equations 11 and 12, section 5.7.
    """

    user: Positive = 30.0
    item: Positive = 60.0
    mlp1: Positive = 40.0
    mlp2: Positive = 50.0
    clip: Positive = 0.5
    every_epoch: bool = True

    privacy = Knob(budgets=("user", "item", "mlp1", "mlp2"))

    @classmethod
    def by_resistance(cls, *, least: float, most: float, clip: float = 0.5) -> Self:
        """Equation 11: equal steps from ``least`` to ``most`` over user, item, MLP 1, MLP 2."""
        step = (most - least) / 3.0
        return cls(user=least, item=least + step, mlp1=least + 2 * step, mlp2=most, clip=clip)

    def budget(self, group: str) -> float:
        """Epsilon of an entry of ``group``; InputError for a group that has none."""
        budgets = numbers(self)
        del budgets["clip"], budgets["every_epoch"]
        if group not in budgets:
            raise InputError(
                f"Expected a model of groups among {', '.join(budgets)}, got {group!r}. Use "
                "laplace, which has one epsilon for all."
            )
        return budgets[group]

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """Every parameter its own epsilon, at most the largest."""
        budgets = {group: self.budget(group) for group in groups}
        told = ", ".join(f"{epsilon:g} in {group}" for group, epsilon in budgets.items())
        return (
            Promise(
                epsilon=max(budgets.values()),
                unit=Unit.COORDINATE,
                statement=(
                    "Every parameter of an upload is locally differentially private at the "
                    f"privacy parameter of its component ({told})."
                ),
            ),
        )
