"""FOFL-SELF: first-order federated meta-learning of item embeddings, without side features."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.privrec.systems.parts.meta_learned import MetaLearned
from fedrec_auditor.targets.papers.privrec.systems.parts.network import Network


@dataclass(frozen=True, kw_only=True)
class FoflSelf(MetaLearned):
    """REPTILE (equation 6) as PrivRec, but without user and item features and proximal term.

    So items are told apart by embeddings of their own, and users by nothing until their devices
    train. Source: section 4.1; the original (Jalalirad et al. 2019) is not followed further.
    """

    @property
    def network(self) -> Network:
        """A network that reads items' embeddings alone."""
        return Network(embedding=self.embedding, width=self.width, ids=True, side=False)
