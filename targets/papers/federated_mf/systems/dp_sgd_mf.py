"""Central matrix factorization by DP-SGD: gradients are clipped, not embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.federated_mf.systems.local_only import LocalOnly


@dataclass(frozen=True, kw_only=True)
class DpSgdMf(LocalOnly):
    """DP-SGD (Abadi et al. 2016) on both tables, with one trusted party that publishes them.

    The gradient clipping of Figure 4 (section 4.3): s = 1, C = 10, theta = 10 per user.
    """

    parties: int = 1
    trim: int = 10
    learning_rate: float = 0.03

    one_party = True
