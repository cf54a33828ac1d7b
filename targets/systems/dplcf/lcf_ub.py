"""Item neighbourhoods of the interactions as they are: what item similarity can reach at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.targets.systems.dplcf.parts.collected_bits import Printed, flip_claim, tables
from fedrec_auditor.targets.systems.dplcf.parts.item_knn import ItemKnn


@dataclass(frozen=True, kw_only=True)
class LcfUb(ItemKnn):
    """LCF-UB (section 4.1.2): item-based filtering of raw bits, the upper bound of utility.

    The server gets every interaction in the clear, and nothing is promised of it.
    """

    randomizer = None
    claim: ClassVar[Claim] = flip_claim("none", 1.0)
    reported = tables(
        movielens=Printed(
            hr=(0.4675, 0.6431, 0.7446, 0.8081, 0.8505),
            ndcg=(0.4122, 0.4950, 0.5329, 0.5536, 0.5661),
        ),
        apps=Printed(
            hr=(0.5885, 0.7609, 0.8195, 0.8586, 0.8713),
            ndcg=(0.5172, 0.5991, 0.6211, 0.6339, 0.6376),
        ),
    )
