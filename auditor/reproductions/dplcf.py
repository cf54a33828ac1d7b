"""Gao et al.: DPLCF, SIGIR 2020: Tables 4, 5 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedrec_auditor.auditor.reproductions.base import Measurable
from fedrec_auditor.auditor.reproductions.parts.utility import TrainedSystem
from fedrec_auditor.reports.rows import ReproducedRow
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp

_CUTOFFS = (2, 4, 6, 8, 10)
_HITS = {
    "LCF-UB": (0.4675, 0.6431, 0.7446, 0.8081, 0.8505),
    "LCF-AP": (0.3662, 0.5060, 0.5935, 0.6563, 0.7030),
    "LCF-SP": (0.3661, 0.4999, 0.5802, 0.6354, 0.6763),
    "DPLCF-AP": (0.3513, 0.4880, 0.5757, 0.6424, 0.6962),
    "DPLCF-SP": (0.4203, 0.5559, 0.6271, 0.6716, 0.7000),
}
_GAINS = {
    "LCF-UB": (0.4122, 0.4950, 0.5329, 0.5536, 0.5661),
    "LCF-AP": (0.3234, 0.3891, 0.4217, 0.4421, 0.4559),
    "LCF-SP": (0.3241, 0.3871, 0.4170, 0.4349, 0.4470),
    "DPLCF-AP": (0.3110, 0.3752, 0.4079, 0.4296, 0.4454),
    "DPLCF-SP": (0.3735, 0.4374, 0.4641, 0.4786, 0.4870),
}
_NEIGHBOURS = {  # NDCG@10, Table 6b
    "LCF-AP": {20: 0.4559, 30: 0.4666, 40: 0.4717, 50: 0.4755},
    "LCF-SP": {20: 0.4470, 30: 0.4612, 40: 0.4666, 50: 0.4751},
    "DPLCF-SP": {20: 0.4870, 30: 0.4872, 40: 0.4861, 50: 0.4859},
}
_CENTRAL = {  # Tables 2 and 3, AppUsage
    "BPR-MF": ((0.2241, 0.2966, 0.3552, 0.4138, 0.4770), "Raw bits reach HR@10 .600."),
    "GMF": ((0.2218, 0.3092, 0.3644, 0.4230, 0.4678), "Raw bits reach HR@10 .604."),
}
_DATA = "MovieLens 20M, 74,529 users, in the paper: noise falls with the root of the users."


@dataclass(frozen=True, kw_only=True)
class DplcfReproduction:
    """Ranking at epsilon 1 by all methods, on two data sets of another size than the paper's."""

    paper: ClassVar[str] = DplcfSp.paper

    def parts(self) -> Sequence[Measurable]:
        """Tables 4 and 5 on both data sets, 6 on the larger; of Table 2 what no other has."""
        both = [
            TrainedSystem(
                target=_target(method),
                place="Tables 4, 5",
                method=method,
                data=data,
                printed=_printed({"HR": _HITS[method], "NDCG": _GAINS[method]}),
                said="" if method == "LCF-UB" else _DATA,
            )
            for data in ("ml-100k", "ml-1m")
            for method in _HITS
        ]
        central = [
            TrainedSystem(
                target=_target(method),
                place="Table 2",
                method=method,
                printed=_printed({"HR": hits}),
                said=f"AppUsage in the paper, which says neither flip nor epochs. {said}",
            )
            for method, (hits, said) in _CENTRAL.items()
        ]
        wide = [
            TrainedSystem(
                target=_target(method),
                place="Table 6b",
                method=f"{method}, {count} neighbours",
                data="ml-1m",
                settings={"neighbours": count},
                printed={"NDCG@10": value},
            )
            for method, values in _NEIGHBOURS.items()
            for count, value in values.items()
            if count > min(values)  # Table 5 has the first
        ]
        return [one.part() for one in (*both, *central, *wide)]

    def remarks(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        """Whether the methods rank as printed, by HR@10 on the larger data set."""
        found = {
            row.system: row.value
            for row in rows
            if row.place == "Tables 4, 5" and row.what.startswith("HR@10") and "1m" in row.what
        }
        if len(found) < len(_HITS):
            return ()
        ours = sorted(found, key=lambda method: -found[method])
        theirs = sorted(_HITS, key=lambda method: -_HITS[method][-1])
        return (f"By HR@10 on ML-1M: {', '.join(ours)}; as printed: {', '.join(theirs)}.",)


def _target(method: str) -> str:
    return method.lower()


def _printed(columns: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {
        f"{metric}@{k}": value
        for metric, values in columns.items()
        for k, value in zip(_CUTOFFS, values, strict=True)
    }
