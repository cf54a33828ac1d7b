"""FedMF, Full: ciphertexts of all numbers of the item table, whatever was rated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.components import Component, Floats
from fedrec_auditor.targets.papers.fedmf_full.systems.parts.encrypted_mf import EncryptedMf


@dataclass(frozen=True, kw_only=True)
class FedMfFull(EncryptedMf):
    """A device sends items x dimension ciphertexts, of zeros where it rated nothing.

    Their number and form are the same of all users: every number is encoded with one exponent, and
    each encryption has coins of its own. Source: FedMF_Full.py at c53898a.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=12, profile=4).load()
    >>> run = FedMfFull(rounds=1, dimension=2).run(data, np.random.default_rng(0))
    >>> sent = run.transcript.rounds[0].uploads.components["item"]
    >>> bool(sent.sent(np.arange(20)).all())
    True
    """

    def hides(self, scope: Scope) -> bool:
        """Everything but who takes part."""
        return True

    def table(self, ratings: sparse.csr_array, gradients: Floats) -> Component:
        """All rows are on the wire, zeros too."""
        rest = np.zeros((ratings.shape[1], self.dimension), np.float32)
        return self.rows(ratings, gradients, rest)
