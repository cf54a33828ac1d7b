"""Item neighbourhoods of symmetrically flipped bits, taken as if nothing had been flipped."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.dplcf.systems.parts.item_knn import FlippedKnn


@dataclass(frozen=True, kw_only=True)
class LcfSp(FlippedKnn):
    """LCF-SP (section 4.1.2): DPLCF-SP without the estimate of what the flips did.

    What leaves the device is the same, and so is what is claimed and true of it.
    """

    unprotected = "lcf-ub"
    kind = "symmetric"
