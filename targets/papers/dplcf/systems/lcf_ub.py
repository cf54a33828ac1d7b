"""Item neighbourhoods of the interactions as they are: what item similarity can reach at most."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.dplcf.systems.parts.item_knn import ItemKnn


@dataclass(frozen=True, kw_only=True)
class LcfUb(ItemKnn):
    """LCF-UB (section 4.1.2): item-based filtering of raw bits, the upper bound of utility.

    The server gets every interaction in the clear, and nothing is promised of it.
    """

    randomizer = None
