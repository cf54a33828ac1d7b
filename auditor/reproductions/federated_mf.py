"""Li, Ding, Zhang et al.: federated matrix factorization with privacy guarantee, PVLDB 2022.

The paper draws curves and prints but three errors; what it says in words is what is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedrec_auditor.auditor.reproductions.base import Measurable
from fedrec_auditor.auditor.reproductions.parts.utility import TrainedSystem
from fedrec_auditor.reports.rows import ReproducedRow
from fedrec_auditor.targets.systems.federated_mf.vfl_sgdmf import VflSgdmf

_SYSTEMS = {
    "fmf-vfl": ("Figure 3a", "1,000 steps of a hundredth of the users are 10 epochs only."),
    "fmf-hfl": ("Figure 3a", "100 rounds of 10 steps are 10 epochs only."),
    "fmf-lfl": ("Figure 3a", "10 rounds; 100 give 0.916."),
    "vfl-sgdmf": (
        "Figures 5 to 7",
        "Without noise 0.976: at a claimed epsilon of 1, 943 are few.",
    ),
    "dp-sgd-mf": ("Figure 4", ""),
    "dp-sgld": ("Figure 5", "At epsilon 1 the noise is 55 times the gradient's bound."),
    "obj-pertb": ("Figure 5", ""),
    "local-only": ("Figures 6, 7", ""),
    "hfl-sgdmf": ("Figures 8, 9", ""),
    "hfl-synsgd": ("Figure 9", ""),
    "hfl-local-sgd": ("Figure 9", ""),
    "lfl-sgdmf": ("Figure 10", "At a claimed epsilon of 1 there is little signal in 943 users."),
    "lfl-pretrained": ("Figure 10", ""),
    "gd-dr": ("Figure 10", ""),
    "lfl-ldp": ("Figure 10", ""),
}
_PRINTED = {"fmf-vfl": 0.83012}
_ORDERS = (
    ("vfl-sgdmf", "local-only", "section 4.3"),
    ("vfl-sgdmf", "dp-sgld", "section 4.3"),
    ("vfl-sgdmf", "obj-pertb", "section 4.3"),
    ("vfl-sgdmf", "dp-sgd-mf", "section 4.3"),
    ("hfl-sgdmf", "hfl-synsgd", "section 5.3"),
    ("hfl-sgdmf", "hfl-local-sgd", "section 5.3"),
    ("lfl-pretrained", "gd-dr", "section 6.1"),
    ("lfl-sgdmf", "gd-dr", "section 6.3"),
)


@dataclass(frozen=True, kw_only=True)
class FederatedMfReproduction:
    """Errors of all systems, and whether they rank as the text says."""

    paper: ClassVar[str] = VflSgdmf.paper

    def parts(self) -> Sequence[Measurable]:
        """Every system at its defaults."""
        return [
            TrainedSystem(
                target=name,
                place=place,
                printed={"MSE": _PRINTED[name]} if name in _PRINTED else {},
                said=said,
            ).part()
            for name, (place, said) in _SYSTEMS.items()
        ]

    def remarks(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        """One sentence an order that the text states."""
        found = {row.system: row for row in rows if row.what.startswith("MSE")}
        lines = []
        for better, worse, where in _ORDERS:
            if better in found and worse in found:
                one, other = found[better].value, found[worse].value
                said = "as here" if one < other else "here it is not"
                lines.append(
                    f"{better} has a smaller error than {worse} ({where}): {said} "
                    f"({one:.3f}, {other:.3f})."
                )
        return lines
