"""Federated matrix factorization between parties that hold some users each, without protection."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.federated_mf.systems.parts.horizontal_mf import HorizontalMf
from fedrec_auditor.targets.systems.system import Unperturbed


@dataclass(frozen=True, kw_only=True)
class FmfHfl(Unperturbed, HorizontalMf):
    """FMF in the horizontal setting (Figure 3a, equation 5): V^(k) is sent as it is.

    Both embeddings are descended on in the second stage, user embeddings n_k/n as fast as those of
    items; there is no clipping, no noise and no fine-tuning.
    """

    learning_rate: float = 0.5

    joint = True
