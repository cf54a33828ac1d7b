"""Wang et al.: PrivRec and DP-PrivRec: Table 1, and the epsilons of Tables 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.auditor import catalogue
from fedrec_auditor.auditor.reproductions.base import Measurable
from fedrec_auditor.auditor.reproductions.parts.utility import TrainedSystem
from fedrec_auditor.reports.rows import ReproducedRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.privrec.privrec import PrivRec

_CUTOFFS = (5, 10, 20, 30)
_LARGER = {"item_ids": True, "local_epochs": 20, "rounds": 40}
_RATES = "Few rounds, and rates of ours: the paper prints none."
_TABLE_1 = {
    "FOFL-SELF": (
        "fofl-self",
        {},
        (0.118, 0.152, 0.195, 0.241),
        (0.101, 0.130, 0.169, 0.207),
        _RATES,
    ),
    "NN-SELF": (
        "nn-self",
        {},
        (0.109, 0.148, 0.190, 0.235),
        (0.098, 0.124, 0.162, 0.201),
        "Features only, as the text has it. MAML learns once a round; rates of ours.",
    ),
    "FCF": (
        "fcf-meta",
        {},
        (0.092, 0.140, 0.186, 0.228),
        (0.088, 0.118, 0.155, 0.195),
        "The column of nDCG is no average of equation 11: from 10 to 30 it grows faster than the "
        "hits allow.",
    ),
    "PrivRec, features only": (
        "privrec",
        {},
        (0.123, 0.160, 0.205, 0.249),
        (0.106, 0.137, 0.174, 0.210),
        "As in the text, without embeddings of items. Rates and layer sizes are not printed.",
    ),
    "PrivRec, embeddings of items": (
        "privrec",
        _LARGER,
        (0.123, 0.160, 0.205, 0.249),
        (0.106, 0.137, 0.174, 0.210),
        "item_ids, 20 local epochs, 40 rounds: what Table 1 seems to need.",
    ),
    "PrivRec-CEN": (
        "privrec-cen",
        {},
        (0.127, 0.163, 0.207, 0.252),
        (0.109, 0.138, 0.178, 0.212),
        "Algorithm 1 run in one place ends in the same model.",
    ),
}


@dataclass(frozen=True, kw_only=True)
class PrivRecReproduction:
    """Utility on MovieLens, ratings above 3 as positives, and the privacy loss of all settings."""

    paper: ClassVar[str] = PrivRec.paper

    def parts(self) -> Sequence[Measurable]:
        """Table 1 a system at a time; Tables 3 and 4 at once, for they train nothing."""
        trained = [
            TrainedSystem(
                target=target,
                place="Table 1",
                method=method,
                settings=settings,
                min_rating=4.0,
                printed={
                    f"{metric}@{k}": value
                    for metric, values in (("HR", hits), ("NDCG", gains))
                    for k, value in zip(_CUTOFFS, values, strict=True)
                },
                said=said,
            ).part()
            for method, (target, settings, hits, gains, said) in _TABLE_1.items()
        ]
        return [*trained, Measurable(name="Tables 3 and 4", data="", measure=_epsilons)]

    def remarks(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        """How the printed epsilons compare with what is proved and with what leaks."""
        cells = [row for row in rows if row.printed is not None and "leaks at least" in row.beside]
        if not cells:
            return ()
        above = sum(row.value < (row.printed or 0.0) for row in cells)
        return (
            f"Of {len(cells)} finite epsilons of Tables 3 and 4, {above} are above what is proved "
            "for the same rounds when one of a fixed number of clients is replaced; all are what "
            "the authors' counting gives.",
        )


def _epsilons(
    interactions: Interactions | None, rng: np.random.Generator, quick: bool
) -> tuple[ReproducedRow, ...]:
    """Each printed epsilon beside what is proved, and what leaks, for the same rounds."""
    return tuple(
        ReproducedRow(
            place=f"Table {cell.table}",
            system="DP-PrivRec",
            what=f"epsilon at delta {cell.delta:g}, {cell.clients} of {cell.n_users} clients",
            printed=cell.printed,
            value=cell.upper,
            beside={"by the authors' counting": cell.counted, "leaks at least": cell.lower},
        )
        for cell in catalogue.tables()
    )
