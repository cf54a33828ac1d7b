"""LCF-AP: it uploads what DPLCF-AP does, and an uploaded 0 proves a 0."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.auditor.demonstrations.dplcf_ap_zeros import DplcfApZeros
from fedrec_auditor.targets.systems.dplcf.lcf_ap import LcfAp
from fedrec_auditor.targets.systems.dplcf.lcf_sp import LcfSp


@dataclass(frozen=True, kw_only=True)
class LcfApZeros(DplcfApZeros):
    """The systems differ in what the server makes of the bits, not in them."""

    target = "lcf-ap"
    asymmetric = LcfAp
    symmetric = LcfSp
