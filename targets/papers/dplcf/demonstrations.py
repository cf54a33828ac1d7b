"""Violated claims of DPLCF, shown by the bit that the server receives for one item."""

from __future__ import annotations

from functools import partial

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.declarations.demonstration import (
    Demonstration,
    DistinguishingGame,
    ReadUploads,
)
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_ap import DplcfAp
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_sp import DplcfSp
from fedrec_auditor.targets.papers.dplcf.systems.lcf_ap import LcfAp
from fedrec_auditor.targets.papers.dplcf.systems.lcf_sp import LcfSp
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import first_bit
from fedrec_auditor.targets.papers.dplcf.systems.parts.item_knn import FlippedKnn
from fedrec_auditor.targets.systems.base import Population


def one_bit(system: FlippedKnn, samples: int) -> DistinguishingGame:
    """The claim for one interaction against the bit that is uploaded for it.

    Both users hold item 1, and one of them item 0.
    """
    return DistinguishingGame(
        system=system,
        population=Population(n_users=2, n_items=2),
        worlds=("item 0 in the history", "item 0 not in the history"),
        scope=any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING),
        draw=ReadUploads(system=system, histories=([1.0, 1.0], [0.0, 1.0]), read=first_bit),
        statistic="the bit received for item 0",
        samples=samples,
    )


def zeros(
    asymmetric: type[FlippedKnn] = DplcfAp,
    symmetric: type[FlippedKnn] = DplcfSp,
    *,
    samples: int = 2_000,
) -> Demonstration:
    """An uploaded 0 proves a 0, so a claimed epsilon of 1 falls to a few uploads.

    A 0 for item 0 has probability 1 - 1/e if it is not held, and 0 if it is (section 3.2.2). The
    control flips symmetrically at the same epsilon, where the claim is right: the same bit, of 500
    times as many users, stays within it.
    """
    return Demonstration(
        entries=("7",),
        violation=one_bit(asymmetric(), samples),
        control=one_bit(symmetric(), 500 * samples),
    )


def sufficient(*, samples: int = 100_000) -> Demonstration:
    """A flip with p/q = e^epsilon, said to suffice, leaks more by its zeros.

    p = 0.9, q = p/e keeps p/q = e^1 (section 3.2.1), yet epsilon is ln((1-q)/(1-p)) = 1.90. The
    condition suffices up to p = e^eps/(1+e^eps) = 0.731 only, which is what the control takes:
    symmetric flipping.
    """
    return Demonstration(
        entries=("6",),
        violation=one_bit(DplcfAp(keep=0.9), samples),
        control=one_bit(DplcfSp(), 10 * samples),
    )


DEMONSTRATIONS = {
    "dplcf-ap-zeros": zeros,
    "dplcf-sufficient": sufficient,
    "lcf-ap-zeros": partial(zeros, LcfAp, LcfSp),
}
