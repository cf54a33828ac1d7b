"""Federated collaborative filtering for implicit feedback, without protection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Floats, RankOne
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.systems.base import DEFAULT, Challenge, Population, Question
from fedrec_auditor.targets.systems.fmf_ldp.parts.closed_form import item_gradients
from fedrec_auditor.targets.systems.fmf_ldp.parts.implicit_mf import PAPER, ImplicitMf, printed
from fedrec_auditor.targets.transcript import Broadcast, Uploads

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class Fcf(ImplicitMf):
    """FCF (Ammad-ud-din et al. 2019, as told in Minto et al. 2021, section 2.2): no noise at all.

    Each client sends its whole item gradient, M x F (equation 5); the server descends on its sum
    over users (equations 6 and 7, dJ/dv_i = -2 sum f(u, i) + 2 lambda v_i).
    """

    name = "fcf"
    channel = None
    reported = printed((0.4310, 0.6700, 0.8179), "MF-NP, centralised and without privacy")

    def questions(self, population: Population) -> tuple[Question, ...]:
        """No epsilon is promised: the privacy offered is that raw interactions are not sent."""
        claim = Claim(
            epsilon=math.inf,
            scope=any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING),
            statement=(
                "No epsilon is promised; what is offered is that interactions and user vectors "
                "stay on the device."
            ),
            source=f"{PAPER}, section 2.2 (federated collaborative filtering)",
        )
        return (Question(claim=claim, scope=claim.scope),)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None at all before the server; weaker vantages see sums of it.

        None for what no gradient depends on: a rating's value, an attribute.
        """
        unsent = scope.unit is Unit.ATTRIBUTE or scope.is_value
        return Identity() if scope.vantage is Vantage.SERVER and not unsent else None

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Non-private from every vantage: sums without noise protect nobody in the worst case."""
        return Identity().event()

    def challenges(self) -> tuple[Challenge, ...]:
        """None: the client draws nothing, so there is no probability to measure."""
        return ()

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """Equation 5 for every item, component "gradient"; ``rng`` is not drawn from."""
        gradient = item_gradients(
            self._received(broadcast, profiles),
            profiles.ratings,
            alpha=self.alpha,
            regularization=self.regularization,
            kernel=compute.kernel,
            rounds=self.rounds,
            threads=compute.threads,
            device=compute.device,
        )
        users = np.repeat(np.arange(profiles.n_users), size)
        if size != 1:
            gradient = RankOne(gradient.vectors[users], gradient.items, gradient.corrections[users])
        return Uploads(users, {"gradient": gradient})

    def vectors_behind(self, uploads: Uploads) -> Floats | None:
        """The vectors of the stored gradients."""
        gradient = uploads.components["gradient"]
        return gradient.vectors.astype(np.float64) if isinstance(gradient, RankOne) else None

    def step(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """Equations 6 and 7 on the sum over users."""
        return self.ascend(items, uploads.components["gradient"].total(), 2.0)
