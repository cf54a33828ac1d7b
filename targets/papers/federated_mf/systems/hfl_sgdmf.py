"""Horizontal federated matrix factorization: user embeddings first, then noisy item embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import ItemsAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Users
from fedrec_auditor.targets.papers.federated_mf.systems.parts.horizontal_lower_bounds import (
    MOST_ROUNDS,
    rating_lower_bound,
    user_lower_bound,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoiseOnItems
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_steps import NoisySteps
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import accounted, by_tail_bound
from fedrec_auditor.targets.settings import Knob, NotNegative, Positive, Whole, WholeOrNone
from fedrec_auditor.targets.systems.base import Population


@dataclass(frozen=True, kw_only=True)
class HflSgdmf(NoisySteps):
    """HFL-SGDMF (Figure 3c): Proposition 3 accounts for T' noisy steps where T T' are taken.

    First a party fits its user embeddings to the first V (``fitting`` steps, no noise, no
    trimming). Then only V^(k) moves, with embedding clipping and noise. Last, each party fine-tunes
    both embeddings on all its ratings, without noise, and keeps them. ``noise_multiplier`` z = 1.7
    makes epsilon about 0.85 over T T' steps by the authors' package; ``fitting`` and ``tuning``
    are assumed.

    ``train_both`` is the vanilla way that Figure 8 compares with: user embeddings begin at random
    and take a step without noise whenever item embeddings do (equation 5). Its claim is the same.
    """

    learning_rate: float = 0.1
    noise_multiplier: Annotated[NotNegative, "z, the noise over the sensitivity"] = 1.7
    tuning: Annotated[WholeOrNone, "steps of a party on its own in the end"] = 1000
    tuning_rate: Positive = 0.1
    fitting: Annotated[Whole, "steps in which a party fits its user embeddings to the first V"] = 20
    train_both: Annotated[bool, "user embeddings take a step whenever item embeddings do"] = False

    unprotected = "fmf-hfl"
    privacy = Knob(noise=("noise_multiplier",), off=0.0)
    learning = MappingProxyType(
        {
            "spread": 0.1,
            "rate": 0.1,
            "rounds": 200,
            "learning_rate": 0.5,
            "tuning": 0,
            "train_both": True,
        }
    )
    holding = Users()

    @property
    def exchange(self) -> ItemsAveraged:
        """V is averaged."""
        return ItemsAveraged(self.noise(1).moves, self.tuning, self.tuning_rate)

    @property
    def pretrained(self) -> int:
        """The first stage, unless repaired per rating."""
        return self.fitting if self.noise(1).follows and not self.train_both else 0

    def noise(self, n_users: int, joint: bool = True) -> NoiseOnItems:
        """z Delta on V, where user embeddings are fitted before or, with ``train_both``, move."""
        return NoiseOnItems.of(self, self.noise_multiplier, moves=self.train_both)

    def epsilon_of_a_round(self, population: Population) -> float:
        """What Proposition 3 accounts for, T' steps of one round."""
        return accounted(*self.spent(population, self.local_steps))

    def round_by_theorem_1(self, population: Population) -> float:
        """The same by Theorem 1."""
        return by_tail_bound(*self.spent(population, self.local_steps))

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Every round's V in the rows of one user, at the server's choice of what it broadcasts.

        From below (``horizontal_lower_bounds``): a rating that turns its user's embedding, or a
        user who comes and goes. None where repaired, for other changes, from other vantages, and
        with ``train_both``, where user embeddings move.
        """
        noise = self.noise(population.n_users)
        plain = self.sampling.unit == "row" and not noise.moves and noise.sigma > 0
        if not plain or scope.vantage is not Vantage.SERVER:
            return None
        if scope.adjacency is not Adjacency.ADD_REMOVE:
            return None
        seen = replace(self, rounds=min(MOST_ROUNDS, self.uses(scope.horizon)))
        n, m = population.n_users, population.n_items
        if self.unit == "user":
            return user_lower_bound(seen, n, m) if scope.unit is Unit.USER else None
        rated = scope.unit in (Unit.RATING, Unit.INTERACTION)
        return rating_lower_bound(seen, n, m) if rated else None
