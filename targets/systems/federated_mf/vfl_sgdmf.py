"""Vertical federated matrix factorization with embedding clipping and Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.settings import check_settings, not_negative
from fedrec_auditor.targets.systems.base import Population, Question
from fedrec_auditor.targets.systems.federated_mf.parts.descent import Clipping, EmbeddingClipping
from fedrec_auditor.targets.systems.federated_mf.parts.noisy_parties import NoisyParties
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import scope_of
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import COUNTED, PAPER, accounted
from fedrec_auditor.targets.systems.federated_mf.parts.vertical_laws import rating_law
from fedrec_auditor.targets.systems.federated_mf.parts.vertical_mf import VerticalMf


@dataclass(frozen=True, kw_only=True)
class VflSgdmf(NoisyParties, VerticalMf):
    """VFL-SGDMF (Figure 3b): per rating, max over parties of epsilon_k; per user, their root sum.

    Embeddings are clipped (equation 6), every step's gradients are noisy in all entries at z times
    2 sqrt(2) R^(3/2) per rating, theta times that per user of theta ratings a party, and in the
    last kappa steps, on items alone, 2 R^(3/2) (section 4.2). ``tuning`` = 100 is assumed: the
    paper names no kappa. So is ``delta``. ``noise_multiplier`` z = 1.8 makes epsilon_k about 1.
    """

    learning_rate: float = 0.02
    tuning: int = 100
    noise_multiplier: float = 1.8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, noise_multiplier=not_negative)

    @property
    def clipping(self) -> Clipping:
        """Embeddings are clipped as in equation 6."""
        return EmbeddingClipping(self.bound)

    @property
    def lengths(self) -> tuple[int, int]:
        """Steps on both tables, T T', and on items alone, kappa."""
        return self.steps, self.tuning

    def multiplier(self, n_users: int) -> float:
        """The noise multiplier z, in units of the claimed sensitivity."""
        return self.noise_multiplier

    def claimed(self, joint: bool) -> float:
        """Delta_rating or Delta_user of section 4.2."""
        one = 2.0 * self.bound * math.sqrt(self.bound) * (math.sqrt(2.0) if joint else 1.0)
        return one * self.trim if self.unit == "user" else one

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Every U that a party sends, of one rating among others of its user: ``_vertical_laws``.

        From below, and where every step is sent (T' = 1) and item embeddings hardly move from where
        they begin. None else, where repaired, for other changes, and from other vantages.
        """
        plain = self.as_published and self.noise_multiplier > 0 and scope.vantage is Vantage.SERVER
        plain = plain and self.unit == "rating" and self.local_steps == 1
        plain = plain and self.split == "random" and scope.horizon is Horizon.TRAINING
        one = scope.unit in (Unit.RATING, Unit.INTERACTION)
        if not (plain and one and scope.adjacency is Adjacency.ADD_REMOVE):
            return None
        m = population.n_items
        parties = min(self.parties, m)
        return rating_law(
            factors=self.factors,
            bound=self.bound,
            rate=self.rate,
            learning_rate=self.learning_rate,
            sigma=self.descent(population.n_users).sigma,
            steps=self.steps,
            tuning=self.tuning,
            n_users=population.n_users,
            held=m // parties,
            weight=-(-m // parties) / m,
        )

    def questions(self, population: Population) -> tuple[Question, ...]:
        """Theorem 3 for a rating, or Theorem 4 and its replacement for a user."""
        one = accounted(self.noise_multiplier, self.rate, sum(self.lengths), self.delta)
        if self.unit == "rating":
            claim = Claim(
                epsilon=one,
                delta=self.delta,
                scope=scope_of("rating"),
                statement=(
                    f"One rating, present or not, is hidden with epsilon {one:.4g} in all that "
                    "parties send and publish, since it is with one party only; at z = "
                    f"{self.noise_multiplier:g} (the paper prints no z)."
                ),
                source=f"{PAPER}, section 4.2, Proposition 2 and Theorem 3",
            )
            note = (
                "Whole rows are sampled: the user's other ratings show whether the row of this one "
                "was drawn, so that sampling does not amplify for a single rating. "
                f"{COUNTED}"
                if self.as_published
                else "Repaired: every rating is sampled by itself."
            )
            published = "What the published embeddings alone give away."
            return (
                Question(claim=claim, scope=claim.scope, delta=self.delta, note=note),
                Question(
                    claim=claim,
                    scope=scope_of("rating", Vantage.RELEASE),
                    delta=self.delta,
                    note=published,
                ),
            )
        whole = math.sqrt(self.parties) * one
        user = Claim(
            epsilon=whole,
            delta=self.delta,
            scope=scope_of("user"),
            statement=(
                f"A user's ratings with {self.parties} parties of epsilon {one:.4g} each are "
                f"hidden with the root of the sum of squares, {whole:.4g}, at one party's delta; "
                f"at z = {self.noise_multiplier:g} (the paper prints no z)."
            ),
            source=f"{PAPER}, section 4.2, Theorem 4",
        )
        other = Claim(
            epsilon=2.0 * whole,
            delta=2.0 * self.delta,
            scope=scope_of("user", adjacency=Adjacency.REPLACE),
            statement="A user replaced by another is hidden at twice the epsilon and delta.",
            source=f"{PAPER}, section 2.2.1",
        )
        return (
            Question(
                claim=user,
                scope=user.scope,
                delta=user.delta,
                note=(
                    "Not a theorem: the sum of squares is only the leading order. "
                    + (
                        "And a fixed number of rows is drawn, for which the moments accountant of "
                        f"rows drawn by themselves proves nothing. {COUNTED}"
                        if self.as_published
                        else ""
                    )
                ).strip(),
            ),
            Question(
                claim=other,
                scope=other.scope,
                delta=other.delta,
                note="The delta of a replacement is (1 + e^epsilon) delta, not 2 delta.",
            ),
        )
