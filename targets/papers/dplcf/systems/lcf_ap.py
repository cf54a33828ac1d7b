"""Item neighbourhoods of asymmetrically flipped bits, taken as if nothing had been flipped."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.dplcf.systems.parts.item_knn import FlippedKnn


@dataclass(frozen=True, kw_only=True)
class LcfAp(FlippedKnn):
    """LCF-AP (section 4.1.2): DPLCF-AP without the estimate of what the flips did.

    What leaves the device is the same: claimed epsilon-private, but an uploaded 0 proves a 0.
    """

    unprotected = "lcf-ub"
    kind = "asymmetric"
