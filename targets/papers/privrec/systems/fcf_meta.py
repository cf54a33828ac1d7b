"""FCF as PrivRec's baseline: federated collaborative filtering, measured on new users' devices."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.fmf_ldp.systems.fcf import Fcf
from fedrec_auditor.targets.papers.privrec.systems.parts.meta_learned import CUTOFFS
from fedrec_auditor.targets.systems.base import Evaluation, Split


@dataclass(frozen=True, kw_only=True)
class FcfMeta(Fcf):
    """FCF (section 4.1) under PrivRec's protocol: it differs from ``fcf`` in what is measured.

    A new device fits its user vector to half of what it holds (equation 4 of the FMF-LDP paper, by
    whose settings this trains; PrivRec's paper prints none of FCF's). Table 1 has it below all
    others.
    """

    evaluation = Evaluation(split=Split.HELD_OUT_USERS, cutoffs=CUTOFFS)
