"""Item neighbourhoods of symmetrically flipped bits, taken as if nothing had been flipped."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.systems.dplcf.parts.collected_bits import Printed, tables
from fedrec_auditor.targets.systems.dplcf.parts.item_knn import FlippedKnn


@dataclass(frozen=True, kw_only=True)
class LcfSp(FlippedKnn):
    """LCF-SP (section 4.1.2): DPLCF-SP without the estimate of what the flips did.

    What leaves the device is the same, and so is what is claimed and true of it.
    """

    unprotected = "lcf-ub"
    kind = "symmetric"
    reported = tables(
        movielens=Printed(
            hr=(0.3661, 0.4999, 0.5802, 0.6354, 0.6763),
            ndcg=(0.3241, 0.3871, 0.4170, 0.4349, 0.4470),
        ),
        apps=Printed(
            hr=(0.3080, 0.4080, 0.4747, 0.5207, 0.5517),
            ndcg=(0.2792, 0.3263, 0.3509, 0.3658, 0.3749),
        ),
    )
