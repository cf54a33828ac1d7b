"""FMF-LDP (Minto, Haller, Haddadi, Livshits: RecSys 2021): headings 1 to 5."""

from __future__ import annotations

from functools import partial

from fedrec_auditor.accountants.statements.kind import StatementKind
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.catalogue.entry import Entry
from fedrec_auditor.targets.catalogue.paper import Paper, ThreatModel
from fedrec_auditor.targets.catalogue.parts import fmf_ldp_numbers as numbers
from fedrec_auditor.targets.systems.dplcf.dplcf_ap import DplcfAp
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp
from fedrec_auditor.targets.systems.fmf_ldp.parts.implicit_mf import PAPER

_PAPER = Paper(
    title=PAPER,
    threat=ThreatModel(
        place="sections 1, 3.1.2 and 6.1",
        adversary="the recommender, which may be malicious: it keeps all that it gets, links what "
        "it can, and sends any item matrix",
        trusted="a user's own device; for shuffling the proxy, too, and that it tells nobody",
    ),
    symbols={
        "eps": "epsilon of one report",
        "k": "reports of a user in a round",
        "T": "rounds (epochs) of a training",
        "N": "users",
        "M": "items",
        "V": "item matrix",
        "X": "user vectors",
        "gamma": "step size",
        "lambda": "regularization",
        "E": "expectation",
    },
)
_entry = partial(Entry, paper=_PAPER)
_REPORT = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
_ROUND = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
_TRAINING = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
_SHUFFLED = any_pair(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)


ENTRIES = (
    _entry(
        number="1",
        target="fmf-ldp",
        statement="Algorithm 1 is eps-LDP: one report hides any gradient among all others.",
        source="section 5.1, Theorem 3",
        claimed="eps",
        provable="eps",
        reason=(
            "The coordinate says nothing of the gradient, and the rates of its bit at the two "
            "ends of [-1, 1] have the ratio e^eps: right, and attained. Without the elementwise "
            "projection of line 3 the rate leaves [0, 1] beyond (e^eps + 1)/(e^eps - 1)."
        ),
        scope=_REPORT,
    ),
    _entry(
        number="1b",
        target="fmf-ldp",
        kind=StatementKind.TYPO,
        statement="Single reports are eps-LDP at event level.",
        source="section 5.1, before Theorem 3 and after it; section 6.1 says what an event is",
        claimed="eps for one interaction",
        provable="k eps a round, T k eps a training",
        reason=(
            'A label: "event-level" is said of "individual gradient updates", as Theorem 3 is, and '
            "the sentence goes on to k eps for a user. An event, by section 6.1, is one "
            "interaction, and one more of these can turn the user's whole gradient, which all "
            "reports are of."
        ),
        computed=numbers.event_level,
    ),
    _entry(
        number="2",
        target="fmf-ldp",
        statement="A user who sends k reports has k eps-LDP: in one round.",
        source="section 5.1, after Theorem 3 (and section 3.2)",
        claimed="k eps",
        provable="k eps",
        reason="The k reports of one round are fresh, and their epsilons add up exactly.",
        scope=_ROUND,
    ),
    _entry(
        number="2b",
        target="fmf-ldp",
        statement="The system, Algorithm 2 with its T rounds, ensures k eps-LDP for a user.",
        source="section 5.1, after Theorem 3, of Algorithm 2",
        claimed="k eps",
        provable="T k eps",
        reason=(
            "Every round sends k fresh reports on the same history; choosing the coordinates, with "
            "or without replacement, hides nothing of a user, so a training costs T times as much "
            "(4,505 at delta 1e-6). "
            "That k counts all of a user's tuples does not fit: Algorithm 2, lines 2, 6 and 10, "
            "sends k in every round, and section 5.1, last paragraph, has 20 x 100 at k = 100."
        ),
        scope=_TRAINING,
        place="of Algorithm 2",
        repaired={"rounds": 1},
        demonstration="fmf-ldp-rounds",
    ),
    _entry(
        number="2c",
        repeats="2b",
        target="fmf-ldp",
        settings={"reports": 250},
        statement="With k = 250, as in the best results, a user has 250 eps-LDP.",
        source="section 4.4.4, Figure 5, and section 5.1, after Theorem 3",
        claimed="250 eps",
        provable="T 250 eps",
        reason="As for k = 100: 20 rounds of 250 reports.",
        scope=_TRAINING,
        place="of Algorithm 2",
        repaired={"rounds": 1},
        demonstration="fmf-ldp-rounds",
    ),
    _entry(
        number="3",
        target="fmf-ldp",
        kind=StatementKind.ESTIMATOR,
        statement="The server's average over the N users (equation 9) estimates the gradient.",
        source="section 3.2, equation 9, and Algorithm 2, line 11",
        claimed="E = gradient",
        provable="E = k gradient; divide by N k",
        reason="Each of a user's k reports estimates the whole gradient, so their sum is k of it.",
        computed=numbers.mean,
    ),
    _entry(
        number="3b",
        target="fmf-ldp",
        kind=StatementKind.TYPO,
        statement="Line 12, V - gamma (mean + 2 lambda V), descends on the loss.",
        source="Algorithm 2, line 12, with section 2.2, equation 5",
        claimed="loss falls",
        provable="loss rises; V + gamma (mean - 2 lambda V) descends",
        reason="Equation 5 lacks the minus sign of equation 6, and line 12 does not put it in.",
        computed=numbers.sign,
    ),
    _entry(
        number="3c",
        target="fmf-ldp",
        kind=StatementKind.TYPO,
        statement="Algorithm 2 returns the user vectors X.",
        source="Algorithm 2, line 14, against section 3.1.1",
        claimed="X and V are returned",
        provable="V only; X stays on the devices",
        reason="Section 3.1.1 has X never leave its device, and no privacy analysis covers it.",
        computed=numbers.returned,
    ),
    _entry(
        number="4",
        target="fmf-ldp",
        settings={"n_users": 50_000},
        statement="The proxy's shuffle amplifies privacy (no number): N = 50,000, 20 rounds.",
        source="section 5.1, after Theorem 3 (shuffling)",
        claimed="none; k eps without the proxy",
        provable="numeric clone bound of k T shuffles",
        reason=(
            "An honest proxy is worth this much; one that tells the server who sent what is worth "
            "nothing, and T k eps is left."
        ),
        scope=_SHUFFLED,
        delta=1e-6,
    ),
    _entry(
        number="4b",
        repeats="4",
        target="fmf-ldp",
        settings={"n_users": 1_000},
        statement="The proxy's shuffle amplifies privacy (no number): N = 1,000, 20 rounds.",
        source="section 5.1, after Theorem 3 (shuffling)",
        claimed="none; k eps without the proxy",
        provable="numeric clone bound of k T shuffles",
        reason="With few users there is little to hide among, and 2,000 reports each add up.",
        scope=_SHUFFLED,
        delta=1e-6,
    ),
    _entry(
        number="4d",
        target="fmf-ldp",
        statement="Unlinked reports keep the recommender from profiling a user over time.",
        source="sections 3.1.2 and 5.1, last paragraph but one",
        claimed="no profile, within an epoch and across epochs",
        provable="no link; two histories are told apart from the unlinked sums",
        reason=(
            "The reports of one user add up to the same sums whether linked or not, round after "
            "round: entries 4 and 4b have their epsilon. Section 6.2 of the same paper objects to "
            "others that unlinking does not keep the budgets of reports from adding up."
        ),
        computed=numbers.profiles,
    ),
    _entry(
        number="5",
        target="dplcf-sp",
        statement="DPLCF satisfies M e^eps-differential privacy for a user (symmetric flips).",
        source="section 5.2",
        claimed="M e^eps",
        provable="M eps",
        reason=(
            "The epsilons of M bits add up; nothing makes them exponentials. Section 6.1.1 of the "
            "same paper has the sum."
        ),
        computed=partial(numbers.competitor, DplcfSp()),
    ),
    _entry(
        number="5b",
        repeats="5",
        target="dplcf-ap",
        statement="DPLCF satisfies M e^eps-differential privacy for a user (asymmetric flips).",
        source="section 5.2",
        claimed="M e^eps",
        provable="infinite",
        reason="An uploaded 0 proves a 0, which no finite epsilon allows.",
        computed=partial(numbers.competitor, DplcfAp()),
    ),
    _entry(
        number="5c",
        target="fmf-ldp",
        settings={"reports": 250},
        statement="As k is far below M, a user's budget is significantly below DPLCF's.",
        source="section 5.2",
        claimed="k eps << M eps",
        provable="T k eps against M eps: smaller unless M is at most T k, 5,000 at k = 250",
        reason=(
            'Said "since by design k << M", of a shared epsilon. DPLCF sends its M bits once, '
            "FMF-LDP k reports in each of T rounds: 2,000 of them at k = 100, 5,000 at k = 250. On "
            "the full catalogue the sentence holds; on the small one, which the paper recommends "
            "itself for, it does not."
        ),
        computed=numbers.smaller,
    ),
    _entry(
        number="5d",
        target="fmf-ldp",
        statement="At the same eps a guarantee on gradients is stronger than one on interactions.",
        source="section 5.2",
        claimed="stronger",
        provable="the same",
        reason=(
            "Said to be intuitive, after a warning that the two are hard to compare. Epsilon "
            "bounds what any adversary learns whatever the data are; both laws attain it."
        ),
        computed=numbers.stronger,
    ),
    _entry(
        number="5e",
        target="fmf-ldp",
        kind=StatementKind.UTILITY,
        statement="In Figure 5 all private methods are compared at epsilon 2.5.",
        source="section 4.4.4 and Figure 5, caption",
        claimed="eps = 2.5 where applicable",
        provable="DPLCF's row is of eps = 1",
        reason=(
            "Its three numbers are those that DPLCF's own paper prints at epsilon 1, on other data "
            "(74,529 users, 9,953 items); at 2.5 it would do better still."
        ),
        computed=numbers.compared_at,
    ),
)
