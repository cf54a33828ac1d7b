"""DPLCF (Gao, Huang, Lin, Jin, Li: SIGIR 2020): headings 6 to 9."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.catalogue.entry import Computed, Entry
from fedrec_auditor.targets.systems.dplcf.dplcf_ap import DplcfAp
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp
from fedrec_auditor.targets.systems.dplcf.parts.collected_bits import PAPER
from fedrec_auditor.targets.systems.dplcf.parts.jaccard import inverse_transition, transition

_BIT = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)
_USER = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)


def _printed(
    equation: int,
    rates: tuple[float, float],
    entries: tuple[tuple[float, ...], ...],
    right: NDArray[np.float64],
) -> Iterator[Computed]:
    """Every entry of a 4 x 4 matrix as printed, at one p and q, beside the right one."""
    at = "p = {:.4g}, q = {:.4g}".format(*rates)
    for (i, j), value in np.ndenumerate(right):
        yield Computed(
            what=f"equation {equation}, entry ({i + 1},{j + 1}), at {at}",
            claimed=entries[i][j],
            right=float(value),
            how="the flips of two bits are independent: the Kronecker square of one bit's law",
        )


def _equation_6() -> Iterator[Computed]:
    flip = DplcfSp().randomizer
    assert flip is not None
    p, q = flip.p, flip.q
    a, b = 1 - p, 1 - q
    printed = (
        (b * b, a * b, a * b, a * a),
        (b * p, b * p, a * q, a * p),
        (b * p, a * q, b * p, a * p),
        (q * q, p * q, q * p, p * p),
    )
    return _printed(6, (p, q), printed, transition(p, q))


def _equation_11() -> Iterator[Computed]:
    flip = DplcfAp().randomizer
    p, q = flip.p, flip.q
    c = 1 / (1 - q)
    printed = (
        (c * c, 0.0, 0.0, 0.0),
        (0.0, c, 0.0, 0.0),
        (0.0, 0.0, c, 0.0),
        (-c * c * q * q, 0.0, -c * q, 1.0),
    )
    return _printed(11, (p, q), printed, inverse_transition(p, q))


def _disclosed() -> Iterator[Computed]:
    """The hockey-stick divergence of one bit, over its outputs and both orders of its inputs."""
    flip, epsilon = DplcfAp().randomizer, DplcfAp().epsilon
    laws = np.exp(flip.log_prob([[0, 1], [0, 1]], [[0, 0], [1, 1]]))
    delta = max(
        float(np.maximum(laws[i] - math.exp(epsilon) * laws[1 - i], 0.0).sum()) for i in (0, 1)
    )
    yield Computed(
        what="least delta at which the claimed eps = 1 holds for one bit",
        claimed=0.0,
        right=delta,
        how="the exact divergence of the two laws of an uploaded bit",
    )
    yield Computed(
        what="share of the items a user has not met that the upload proves at eps = 1",
        claimed=0.0,
        right=float(laws[0, 0]) if laws[1, 0] == 0.0 else 0.0,
        how="the rate of an uploaded 0, which a true 1 never gives",
    )


ENTRIES = (
    Entry(
        number="6",
        target="dplcf-ap",
        settings={"keep": 0.9},
        statement="Flips with p/q <= e^eps keep one interaction eps-private; any p will do (0.9).",
        source=f"{PAPER}, section 3.2.1, below equation 3, and section 3.2.2",
        claimed="ln(p/q) = eps",
        provable="max(ln(p/q), ln((1-q)/(1-p)))",
        reason=(
            "The ratio of the zeros counts as well as that of the ones: with q = p e^-eps the "
            "claim needs p <= e^eps/(1 + e^eps), which is 0.731 at eps 1."
        ),
        scope=_BIT,
        repaired={"keep": 0.731},
        demonstration="dplcf-sufficient",
    ),
    Entry(
        number="7",
        target="dplcf-ap",
        statement="Asymmetric flips (p = 1, q = e^-eps) keep one interaction eps-private.",
        source=f"{PAPER}, section 3.2.2, before equation 11",
        claimed="eps",
        provable="infinite; (eps, delta) with delta = 1 - e^-eps",
        reason="A 1 is never sent as a 0, so an uploaded 0 proves that there is no interaction.",
        scope=_BIT,
        repaired={"keep": 0.731},
        demonstration="dplcf-ap-zeros",
    ),
    Entry(
        number="7b",
        target="dplcf-ap",
        statement="Under asymmetric flips no item is ever disclosed with certainty (delta is 0).",
        source=f"{PAPER}, section 3.2.1, equation 2",
        claimed="delta = 0",
        provable="delta = 1 - e^-eps",
        reason="That share of all items that a user has not met is uploaded as a 0, and so proved.",
        computed=_disclosed,
    ),
    Entry(
        number="8",
        target="dplcf-sp",
        statement="Symmetric flips keep one interaction eps-private.",
        source=f"{PAPER}, section 3.2.2 (p = 1 - q)",
        claimed="eps",
        provable="eps",
        reason="With p = 1 - q both ratios are e^eps: right, and attained.",
        scope=_BIT,
    ),
    Entry(
        number="8b",
        target="dplcf-sp",
        statement="The same promise, read as one for all of a user's interactions.",
        source=f"{PAPER}, section 3.2.1, for one interaction (section 5 claims no user's privacy)",
        claimed="eps, of one interaction",
        provable="N eps for N items",
        reason="Two users may differ in all N bits, and the flips of all are seen.",
        scope=_USER,
    ),
    Entry(
        number="9",
        target="dplcf-sp",
        statement="Equation 6 is the law of two flipped bits.",
        source=f"{PAPER}, section 3.2.2, equation 6",
        claimed="(2,1) = (3,1) = (1-q) p",
        provable="(2,1) = (3,1) = (1-q) q: A = B x B, B = [[1-q, 1-p], [q, p]]",
        reason="Two true zeros become 01 if one of them is flipped, at rate q, not p.",
        computed=_equation_6,
    ),
    Entry(
        number="9b",
        target="dplcf-ap",
        statement="Equation 11 is the inverse of that law at p = 1.",
        source=f"{PAPER}, section 3.2.2, equation 11",
        claimed="(2,1) = (3,1) = (4,2) = 0, (4,1) = -q^2/(1-q)^2",
        provable="A^-1 = B^-1 x B^-1, B^-1 = [[p, -(1-p)], [-q, 1-q]]/(p-q)",
        reason=(
            "Four entries are wrong, so that counts of pairs are misjudged: (2,1) = (3,1) = "
            "-q/(1-q)^2, (4,2) = -q/(1-q), and (4,1) is positive."
        ),
        computed=_equation_11,
    ),
)
