"""Federated collaborative filtering for implicit feedback, without protection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Scope, Unit
from fedrec_auditor.targets.components import Floats, RankOne
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.implicit_mf import ImplicitMf
from fedrec_auditor.targets.systems.system import Calls, Messages, Unperturbed, received
from fedrec_auditor.targets.transcript import Uploads


@dataclass(frozen=True, kw_only=True)
class Fcf(Unperturbed, ImplicitMf):
    """FCF (Ammad-ud-din et al. 2019, as told in Minto et al. 2021, section 2.2): no noise at all.

    Each client sends its whole item gradient, M x F (equation 5); the server descends on its sum
    over users (equations 6 and 7, dJ/dv_i = -2 sum f(u, i) + 2 lambda v_i).

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=12, profile=4).load()
    >>> run = Fcf(rounds=2).run(data, np.random.default_rng(0))
    >>> [one.uploads.components["gradient"].shape for one in run.transcript.rounds]
    [(12, 5), (12, 5)]
    """

    def sends(self, scope: Scope) -> bool:
        """Gradients depend on which items are rated, not on a rating's value or an attribute."""
        return scope.unit is not Unit.ATTRIBUTE and not scope.is_value

    def messages(self, calls: Calls) -> Messages:
        """Equation 5 for every item, component "gradient"; ``rng`` is not drawn from."""
        profiles, users = calls.profiles, calls.owners
        items = received(calls.broadcast, "items", (profiles.n_items, self.factors))
        gradient = self.gradients(profiles.ratings, items)
        if calls.size != 1:
            gradient = RankOne(gradient.vectors[users], gradient.items, gradient.corrections[users])
        return {"gradient": gradient}

    def vectors_behind(self, uploads: Uploads) -> Floats | None:
        """The vectors of the stored gradients."""
        gradient = uploads.components["gradient"]
        return gradient.vectors.astype(np.float64) if isinstance(gradient, RankOne) else None

    def step(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """Equations 6 and 7 on the sum over users."""
        return self.ascend(items, uploads.components["gradient"].total(), 2.0)
