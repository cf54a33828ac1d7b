"""Item neighbourhoods of asymmetrically flipped bits, taken as if nothing had been flipped."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.systems.dplcf.parts.collected_bits import Printed, tables
from fedrec_auditor.targets.systems.dplcf.parts.item_knn import FlippedKnn


@dataclass(frozen=True, kw_only=True)
class LcfAp(FlippedKnn):
    """LCF-AP (section 4.1.2): DPLCF-AP without the estimate of what the flips did.

    What leaves the device is the same: claimed epsilon-private, but an uploaded 0 proves a 0.
    """

    unprotected = "lcf-ub"
    kind = "asymmetric"
    reported = tables(
        movielens=Printed(
            hr=(0.3662, 0.5060, 0.5935, 0.6563, 0.7030),
            ndcg=(0.3234, 0.3891, 0.4217, 0.4421, 0.4559),
        ),
        apps=Printed(
            hr=(0.3345, 0.4368, 0.4977, 0.5471, 0.5839),
            ndcg=(0.3039, 0.3518, 0.3745, 0.3905, 0.4013),
        ),
    )
