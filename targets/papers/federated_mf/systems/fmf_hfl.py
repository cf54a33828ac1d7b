"""Federated matrix factorization between parties that hold some users each, without protection."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.federated_mf.systems.parts.horizontal_mf import HorizontalMf
from fedrec_auditor.targets.systems.base import Reported
from fedrec_auditor.targets.systems.system import Unperturbed


@dataclass(frozen=True, kw_only=True)
class FmfHfl(Unperturbed, HorizontalMf):
    """FMF in the horizontal setting (Figure 3a, equation 5): V^(k) is sent as it is.

    Both embeddings are descended on in the second stage, user embeddings n_k/n as fast as those of
    items; there is no clipping, no noise and no fine-tuning.
    """

    learning_rate: float = 0.5

    reported = (
        Reported(
            metric="MSE",
            protocol="held-out ratings",
            value=0.83012,
            note=(
                "Section 4.3, one party with all data, MovieLens-10M; 0.8631 on MovieLens-25M, "
                "4.23981 on LibimSeTi (ratings to 10)"
            ),
        ),
    )
    joint = True
    place = "section 3.2, Figure 3(a)"
    offer = (
        "; what is offered is that ratings and user embeddings stay with the party, and item "
        "embeddings are shared."
    )
