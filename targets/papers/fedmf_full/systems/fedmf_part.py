"""FedMF, Part: ciphertexts of the rows of rated items alone, whose places are plain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.targets.components import Bits, Component, Floats
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.papers.fedmf_full.systems.parts.encrypted_mf import EncryptedMf
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads


@dataclass(frozen=True, kw_only=True)
class FedMfPart(EncryptedMf):
    """A device sends a dictionary of items with a row of ciphertexts each.

    Which items were rated is plain to the server, in every round; how they were rated is not.
    Source: FedMF_Part.py at c53898a.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=12, profile=4).load()
    >>> run = FedMfPart(rounds=1, dimension=2).run(data, np.random.default_rng(0))
    >>> shown = run.transcript.rounds[0].clear.components["rated"].dense(np.arange(20))
    >>> np.array_equal(shown, data.ratings.toarray() != 0)
    True
    """

    def hides(self, scope: Scope) -> bool:
        """The values of ratings."""
        return scope.is_value

    def table(self, ratings: sparse.csr_array, gradients: Floats) -> Component:
        """Rows of rated items."""
        return self.rows(ratings, gradients, None)

    def clear(self, ratings: sparse.csr_array) -> Uploads:
        """Which items were rated."""
        return Uploads(np.arange(ratings.shape[0]), {"rated": Bits(ratings)})

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The identity, of which items were rated also where the rest is added up."""
        shown = scope.vantage is Vantage.AGGREGATE and self.sends(scope) and not scope.is_value
        return Identity() if shown else super().mechanism(scope, population)
