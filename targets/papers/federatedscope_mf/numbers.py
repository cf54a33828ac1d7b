"""What FederatedScope's configured deltas are worth."""

from __future__ import annotations

from collections.abc import Iterator

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.federatedscope_mf.systems.fs_hfl_sgdmf import FsHflSgdmf
from fedrec_auditor.targets.papers.federatedscope_mf.systems.fs_vfl_sgdmf import FsVflSgdmf

_RATINGS = 160_033  # of a party: four fifths of MovieLens 1M, dealt to five


def drawn() -> Iterator[Pair]:
    """The chance that a rating is drawn in a training, and delta."""
    for system in (FsHflSgdmf(ratings=_RATINGS), FsVflSgdmf(ratings=_RATINGS)):
        yield system.ever, system.delta, {"name": system.name}
