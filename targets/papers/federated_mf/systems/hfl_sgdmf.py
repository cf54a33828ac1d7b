"""Horizontal federated matrix factorization: user embeddings first, then noisy item embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts.horizontal_lower_bounds import (
    MOST_ROUNDS,
    rating_lower_bound,
    user_lower_bound,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_horizontal import (
    NoisyHorizontal,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import asked, scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    COUNTED,
    PAPER,
    accounted,
    counting,
)
from fedrec_auditor.targets.settings import boolean, check_settings, whole
from fedrec_auditor.targets.systems.base import Population, ScopedClaim


@dataclass(frozen=True, kw_only=True)
class HflSgdmf(NoisyHorizontal):
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
    fitting: int = 20
    tuning: int = 1000
    tuning_rate: float = 0.1
    train_both: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, fitting=whole, train_both=boolean)

    @property
    def joint(self) -> bool:
        """With ``train_both``, unless repaired per rating."""
        return self.train_both and self.adapted

    @property
    def pretrained(self) -> int:
        """The first stage, unless repaired per rating."""
        return self.fitting if self.adapted and not self.train_both else 0

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Proposition 3 as printed, and with all the steps that are taken."""
        what = "One rating" if self.unit == "rating" else "A user"
        printed, full = (
            Claim(
                epsilon=accounted(self.noise_multiplier, self.rate, steps, self.delta),
                delta=self.delta,
                scope=scope_of(self.unit),
                statement=(
                    f"{what}, present or not, is hidden in all that its party sends, by the "
                    f"accountant's epsilon for {steps} noisy steps at z = "
                    f"{self.noise_multiplier:g} (the paper prints no z): "
                    f"{counting(self.noise_multiplier, self.rate, steps, self.delta)}."
                ),
                source=f"{PAPER}, {place}",
            )
            for steps, place in (
                (self.local_steps, "section 5.2, Proposition 3"),
                (self.steps, "sections 5.2 and 5.3, with the steps counted as in Proposition 2"),
            )
        )
        released = "What the published item embeddings alone give away."
        why = self.sampling_note + (f" {COUNTED}" if self.as_published else "")
        where = [(full.scope, why), (scope_of(self.unit, Vantage.RELEASE), released)]
        if self.unit == "rating":
            note = "All ratings of a user: per rating nothing is trimmed."
            where.append((scope_of("user"), note))
        note = (
            f"As printed: Proposition 3 has T' = {self.local_steps} steps where {self.steps} are "
            "taken. A misprint, for section 5.3 counts them all."
        )
        first = asked(printed, (printed.scope, note)) if self.as_published else ()
        return first + asked(full, *where)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Every round's V in the rows of one user, at the server's choice of what it broadcasts.

        From below (``horizontal_lower_bounds``): a rating that turns its user's embedding, or a
        user who comes and goes. None where repaired, for other changes, from other vantages, and
        with ``train_both``, where user embeddings move.
        """
        plain = self.as_published and not self.joint and self.noise_multiplier > 0
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
