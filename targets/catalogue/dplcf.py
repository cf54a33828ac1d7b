"""DPLCF (Gao, Huang, Lin, Jin, Li: SIGIR 2020): headings 6 to 9."""

from __future__ import annotations

from functools import partial

from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.catalogue.entry import Entry
from fedrec_auditor.targets.catalogue.paper import Paper, ThreatModel
from fedrec_auditor.targets.catalogue.parts import dplcf_numbers as numbers
from fedrec_auditor.targets.systems.dplcf.parts.collected_bits import PAPER

_PAPER = Paper(
    title=PAPER,
    threat=ThreatModel(
        place="sections 1, 2.1, 2.2 and 5.1",
        adversary="the recommendation service, which gets every uploaded bit and may know anything "
        "beforehand",
        trusted="a user's own device, which uploads once",
    ),
    symbols={
        "eps": "epsilon of one interaction",
        "p": "rate at which a true 1 is uploaded as a 1",
        "q": "rate at which a true 0 is uploaded as a 1",
        "N": "items",
        "A": "law of a pair of uploaded bits",
        "B": "law of one uploaded bit",
        "x": "Kronecker product",
        "r": "uploads of the same history",
        "delta": "chance with which the bound eps may fail",
    },
)
_entry = partial(Entry, paper=_PAPER)
_BIT = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)
_USER = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)


ENTRIES = (
    _entry(
        number="6",
        target="dplcf-ap",
        settings={"keep": 0.9},
        statement="Flips with p/q <= e^eps keep one interaction eps-private; any p will do (0.9).",
        source="section 3.2.1, below equation 3, and section 3.2.2",
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
    _entry(
        number="7",
        repeats="6",
        target="dplcf-ap",
        statement="Asymmetric flips (p = 1, q = e^-eps) keep one interaction eps-private.",
        source="section 3.2.2, before equation 11",
        claimed="eps",
        provable="infinite; (eps, delta) with delta = 1 - e^-eps",
        reason=(
            "A 1 is never sent as a 0, so an uploaded 0 proves that there is no interaction. An "
            "uploaded 1 does keep the ratio p/q = e^eps (7c): the promise is kept on one side. By "
            'Rule 1 true interactions "can only be stored at users\' devices locally"; here all '
            "are uploaded, and what hides them are a share q of all other items."
        ),
        scope=_BIT,
        repaired={"keep": 0.731},
        demonstration="dplcf-ap-zeros",
    ),
    _entry(
        number="7b",
        target="dplcf-ap",
        statement="Under asymmetric flips no item is ever disclosed with certainty (delta is 0).",
        source="section 3.2.1, equation 2",
        claimed="delta = 0",
        provable="delta = 1 - e^-eps",
        reason="That share of all items that a user has not met is uploaded as a 0, and so proved.",
        computed=numbers.disclosed,
    ),
    _entry(
        number="7c",
        target="dplcf-ap",
        statement="Whether an uploaded interaction is real or fake is hidden by eps.",
        source="section 3.1.1",
        claimed="ln(p/q) = eps",
        provable="ln(p/q) = eps, of an uploaded 1",
        reason=(
            "Right of what is uploaded as a 1, under asymmetric flips, too. It is one-sided: of "
            "an uploaded 0 nothing is hidden (7)."
        ),
        computed=numbers.real_or_fake,
    ),
    _entry(
        number="7e",
        target="dplcf-ap",
        kind=StatementKind.UTILITY,
        statement="DPLCF-AP recommends best on AppUsage at epsilon 1.",
        source="section 4.2, Tables 2 and 3",
        claimed="eps = 1, as of all other rows",
        provable="infinite",
        reason="Its rows keep every true interaction, and no epsilon; those of SP keep epsilon 1.",
        computed=numbers.compared_at,
    ),
    _entry(
        number="8",
        target="dplcf-sp",
        statement="Symmetric flips keep one interaction eps-private.",
        source="section 3.2.2 (p = 1 - q)",
        claimed="eps",
        provable="eps",
        reason="With p = 1 - q both ratios are e^eps: right, and attained.",
        scope=_BIT,
    ),
    _entry(
        number="8b",
        target="dplcf-sp",
        basis=Basis.DERIVED,
        statement="Symmetric flips, read as a promise for all of a user's interactions.",
        source="section 3.2.1, for one interaction (section 5 claims no user's privacy)",
        claimed="eps, of one interaction",
        provable="N eps for N items",
        reason=(
            "Two users may differ in all N bits, and the flips of all are seen: 945.7 at delta "
            "1e-6. (Section 3.2.4 has one upload; r uploads with fresh flips would spend r N eps.)"
        ),
        scope=_USER,
    ),
    _entry(
        number="8d",
        target="dplcf-sp",
        statement="DPLCF is differentially private, and not locally so.",
        source="section 5.2, last paragraph",
        claimed="DP of an interaction, no LDP",
        provable="LDP of an interaction, at the same eps",
        reason=(
            'A word: local is taken to mean that "a certain user" is hidden, which is not promised '
            "(8b). Devices flip before anybody sees a bit, so what is promised of an interaction "
            "holds against the server itself, and that is the local model: more than is claimed."
        ),
        computed=numbers.local_model,
    ),
    _entry(
        number="8e",
        target="dplcf-sp",
        statement="The server's estimation of similarities adds no privacy risk.",
        source="abstract and section 3.1.2",
        claimed="0",
        provable="0",
        reason="Post-processing of uploads. That it needs no users' data is said, too: it needs "
        "their flipped bits.",
        computed=numbers.after_the_server,
    ),
    _entry(
        number="9",
        target="dplcf-sp",
        kind=StatementKind.ESTIMATOR,
        statement="Equation 6 is the law of two flipped bits.",
        source="section 3.2.2, equation 6",
        claimed="(2,1) = (3,1) = (1-q) p",
        provable="(2,1) = (3,1) = (1-q) q: A = B x B, B = [[1-q, 1-p], [q, p]]",
        reason="Two true zeros become 01 if one of them is flipped, at rate q, not p.",
        computed=numbers.equation_6,
    ),
    _entry(
        number="9b",
        target="dplcf-ap",
        kind=StatementKind.ESTIMATOR,
        statement="Equation 11 is the inverse of that law at p = 1.",
        source="section 3.2.2, equation 11",
        claimed="(2,1) = (3,1) = (4,2) = 0, (4,1) = -q^2/(1-q)^2",
        provable="A^-1 = B^-1 x B^-1, B^-1 = [[p, -(1-p)], [-q, 1-q]]/(p-q)",
        reason=(
            "Four entries are wrong, so that counts of pairs are misjudged: (2,1) = (3,1) = "
            "-q/(1-q)^2, (4,2) = -q/(1-q), and (4,1) is positive."
        ),
        computed=numbers.equation_11,
    ),
)
