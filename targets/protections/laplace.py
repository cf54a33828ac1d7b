"""Clipping and Laplace noise with one budget for every entry (FedNews)."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.targets.protections.base import Promise
from fedrec_auditor.targets.protections.parts.noise import LaplaceNoise
from fedrec_auditor.targets.settings import Budget, Knob, Positive


@dataclass(frozen=True, kw_only=True)
class LaplaceProtection(LaplaceNoise):
    """Entries clipped to [-clip, clip], noise of scale 2 clip / epsilon on every one of them.

    An entry spends ``epsilon``, exactly, and a whole upload so many times that as it has entries.
    The paper prints neither number for FedNews and "+LDP": clip is that of section 5.4, and the
    default epsilon the least of section 5.7's interval [40, 60] (noise factor 0.025).
    ``every_epoch`` adds it after each local epoch, as the paper's Algorithm 2 does and its FixRec;
    an upload's noise is added once where no algorithm says more (FedNews, "+LDP").
    Source: Zhang et al., equation 12 and section 5.3 (FedNews, after Qi et al. 2020).
    """

    epsilon: Budget = 40.0
    clip: Positive = 0.5
    every_epoch: bool = False

    privacy = Knob(budgets=("epsilon",))

    def budget(self, group: str) -> float:
        """The same for every group."""
        return self.epsilon

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """Every parameter the same epsilon."""
        return (
            Promise(
                epsilon=self.epsilon,
                unit=Unit.COORDINATE,
                statement=(
                    f"Every parameter of an upload is {self.epsilon:g}-locally differentially "
                    "private: clipped, then Laplace noise for its range."
                ),
            ),
        )
