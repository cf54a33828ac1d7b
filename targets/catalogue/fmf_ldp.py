"""FMF-LDP (Minto, Haller, Haddadi, Livshits: RecSys 2021): headings 1 to 5."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.methods.pure import Pure
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.theorems.shuffling import closed_form
from fedrec_auditor.targets.catalogue.entry import Computed, Entry
from fedrec_auditor.targets.components import Floats, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.one_coordinate import OneCoordinate
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.dplcf.dplcf_ap import DplcfAp
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp
from fedrec_auditor.targets.systems.fmf_ldp.fmf_ldp import FmfLdp
from fedrec_auditor.targets.systems.fmf_ldp.parts.implicit_mf import PAPER

_REPORT = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
_ROUND = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
_TRAINING = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
_SHUFFLED = any_pair(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)
_MOVIELENS, _FULL = (Population(n_users=943, n_items=items) for items in (1682, 9781))
_SMALL = Interactions.of(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1.0]]), name="small")


def _mean() -> Iterator[Computed]:
    """The expectation of the server's sum, over every report there can be, one by one."""
    law, k, entry = OneCoordinate(2.5, 6), 100, 0.3
    mean = np.zeros((2, 3))
    for index in range(law.dimension):
        for bit in (0, 1):
            chance = math.exp(law.log_prob([index, bit], np.full(law.dimension, entry)).item())
            sent = Reports(np.array([[index]]), np.array([[bit == 1]]), law.magnitude, (2, 3))
            mean += chance * sent.total()
    yield Computed(
        what="expectation of equation 9 over the mean gradient, with k = 100 reports",
        claimed=1.0,
        right=k * float(mean.mean()) / entry,
        how="every report there can be, weighted by its exact probability, k of them over N",
    )


def _sign() -> Iterator[Computed]:
    """A small step by line 12 with the exact gradients of equation 5, and what the loss does."""
    system = FmfLdp(factors=2, regularization=0.1)
    items = np.array([[0.3, -0.1], [0.2, 0.4], [-0.2, 0.1], [0.1, 0.2]])
    vectors = system.solve(_SMALL.ratings, items)
    held = _SMALL.ratings.toarray() != 0
    confidence = np.where(held, 1.0 + system.alpha, 1.0)

    def loss(at: Floats) -> float:
        fit = (confidence * (held - vectors @ at.T) ** 2).sum()
        return float(fit + system.regularization * ((vectors**2).sum() + (at**2).sum()))

    users, entries = np.arange(3)[:, None], np.arange(8)
    each = system.entries(_SMALL.ratings, vectors, items, users, entries)
    gradient = each.mean(axis=0).reshape(4, 2)
    step = 1e-3 * (gradient + 2 * system.regularization * items)
    yield Computed(
        what="sign of the loss's change after a small step by line 12 (3 users, 4 items)",
        claimed=-1.0,
        right=float(np.sign(loss(items - step) - loss(items))),
        how="equation 1 before and after, with the gradients of equation 5 as they are",
    )


def _returned() -> Iterator[Computed]:
    run = FmfLdp(rounds=1, reports=2).run(_SMALL, np.random.default_rng(0)).transcript
    told = (run.release or {}, run.rounds[0].broadcast or {}, run.rounds[0].uploads.components)
    seen = [name for part in told for name in part]
    yield Computed(
        what="user vectors among what leaves the devices of 3 users in a training",
        claimed=float(_SMALL.n_users),
        right=float(_SMALL.n_users * sum(name not in ("items", "reports") for name in seen)),
        how="a training is run, and all that crossed a boundary is listed",
    )


def _covered() -> Iterator[Computed]:
    """Up to which epsilon of a report the cited closed form answers, to 1e-9, by bisection."""
    low, high = 1e-3, 2.5
    while high - low > 1e-10:
        middle = (low + high) / 2
        try:
            closed_form(middle, 50_000, 1e-6)
        except InputError:
            high = middle
        else:
            low = middle
    yield Computed(
        what="largest epsilon of a report that the cited closed form covers",
        claimed=FmfLdp().epsilon,
        right=high,
        how="the conditions of its theorem, with 50,000 users at delta 1e-6",
    )


def _user_budget(system: DplcfSp | DplcfAp | FmfLdp, population: Population) -> float:
    event = system.event(_TRAINING, population)
    return Pure().bound(event, delta=0.0, scope=_TRAINING).epsilon


def _competitor(system: DplcfSp | DplcfAp) -> Iterator[Computed]:
    items = _MOVIELENS.n_items
    yield Computed(
        what=f"{system.name}'s epsilon of a user with M = {items} bits at eps 1",
        claimed=items * math.exp(system.epsilon),
        right=_user_budget(system, _MOVIELENS),
        upper=True,
        how="the sum over the bits, which is attained where all of them differ",
    )


def _smaller() -> Iterator[Computed]:
    """Both budgets at the same epsilon, and on the paper's full catalogue at the papers' own."""
    ours = FmfLdp(reports=250)
    cases = (
        ("eps 2.5 each, M = 1,682", DplcfSp(epsilon=2.5), _MOVIELENS),
        ("eps 2.5 against DPLCF's 1, M = 9,781", DplcfSp(), _FULL),
    )
    for said, theirs, population in cases:
        yield Computed(
            what=f"FMF-LDP's epsilon of a user over DPLCF-SP's, k = 250, 20 rounds, {said}",
            claimed=1.0,
            right=_user_budget(ours, population) / _user_budget(theirs, population),
            below=True,
            how="all reports of a training, over all bits that are sent once",
        )


def _stronger() -> Iterator[Computed]:
    report, bit = OneCoordinate(1.0, 1), BitFlip.symmetric(1.0)
    shown = report.log_prob([0, 1], [1.0]) - report.log_prob([0, 1], [-1.0])
    yield Computed(
        what="exact epsilon of a gradient's report over an interaction's, both at eps 1",
        claimed=1.0,
        right=float(shown.item()) / bit.epsilon,
        below=True,
        tolerance=1e-9,
        how="the largest log-ratio of each law",
    )


ENTRIES = (
    Entry(
        number="1",
        target="fmf-ldp",
        statement="Algorithm 1 is eps-LDP: one report hides any gradient among all others.",
        source=f"{PAPER}, section 5.1, Theorem 3",
        claimed="eps",
        provable="eps",
        reason=(
            "The coordinate says nothing of the gradient, and the rates of its bit at the two "
            "ends of [-1, 1] have the ratio e^eps: right, and attained. Without the elementwise "
            "projection of line 3 the rate leaves [0, 1] beyond (e^eps + 1)/(e^eps - 1)."
        ),
        scope=_REPORT,
    ),
    Entry(
        number="2",
        target="fmf-ldp",
        statement="A user who sends k reports has k eps-LDP: in one round.",
        source=f"{PAPER}, section 5.1, after Theorem 3 (and section 3.2)",
        claimed="k eps",
        provable="k eps",
        reason="The k reports of one round are fresh, and their epsilons add up exactly.",
        scope=_ROUND,
    ),
    Entry(
        number="2b",
        target="fmf-ldp",
        statement="The system, Algorithm 2 with its T rounds, ensures k eps-LDP for a user.",
        source=f"{PAPER}, section 5.1, after Theorem 3, of Algorithm 2",
        claimed="k eps",
        provable="T k eps",
        reason=(
            "Every round sends k fresh reports on the same history; choosing the coordinates, with "
            "or without replacement, hides nothing of a user, so a training costs T times as much. "
            "That k counts all of a user's tuples does not fit: Algorithm 2, lines 2, 6 and 10, "
            "sends k in every round, and section 5.1, last paragraph, has 20 x 100 at k = 100."
        ),
        scope=_TRAINING,
        place="of Algorithm 2",
        repaired={"rounds": 1},
        demonstration="fmf-ldp-rounds",
    ),
    Entry(
        number="2c",
        target="fmf-ldp",
        settings={"reports": 250},
        statement="With k = 250, as in the best results, a user has 250 eps-LDP.",
        source=f"{PAPER}, section 4.4.4, Figure 5, and section 5.1, after Theorem 3",
        claimed="250 eps",
        provable="T 250 eps",
        reason="As for k = 100: 20 rounds of 250 reports.",
        scope=_TRAINING,
        place="of Algorithm 2",
        repaired={"rounds": 1},
        demonstration="fmf-ldp-rounds",
    ),
    Entry(
        number="3",
        target="fmf-ldp",
        statement="The server's average over the N users (equation 9) estimates the gradient.",
        source=f"{PAPER}, section 3.2, equation 9, and Algorithm 2, line 11",
        claimed="E = gradient",
        provable="E = k gradient; divide by N k",
        reason="Each of a user's k reports estimates the whole gradient, so their sum is k of it.",
        computed=_mean,
    ),
    Entry(
        number="3b",
        target="fmf-ldp",
        statement="Line 12, V - gamma (mean + 2 lambda V), descends on the loss.",
        source=f"{PAPER}, Algorithm 2, line 12, with section 2.2, equation 5",
        claimed="loss falls",
        provable="loss rises; V + gamma (mean - 2 lambda V) descends",
        reason="Equation 5 lacks the minus sign of equation 6, and line 12 does not put it in.",
        computed=_sign,
    ),
    Entry(
        number="3c",
        target="fmf-ldp",
        statement="Algorithm 2 returns the user vectors X.",
        source=f"{PAPER}, Algorithm 2, line 14, against section 3.1.1",
        claimed="X and V are returned",
        provable="V only; X stays on the devices",
        reason="Section 3.1.1 has X never leave its device, and no privacy analysis covers it.",
        computed=_returned,
    ),
    Entry(
        number="4",
        target="fmf-ldp",
        settings={"n_users": 50_000},
        statement="The proxy's shuffle amplifies privacy (no number): N = 50,000, 20 rounds.",
        source=f"{PAPER}, section 5.1, after Theorem 3 (shuffling)",
        claimed="none; k eps without the proxy",
        provable="numeric clone bound of k T shuffles",
        reason=(
            "An honest proxy is worth this much; one that tells the server who sent what is worth "
            "nothing, and T k eps is left."
        ),
        scope=_SHUFFLED,
        delta=1e-6,
    ),
    Entry(
        number="4b",
        target="fmf-ldp",
        settings={"n_users": 1_000},
        statement="The proxy's shuffle amplifies privacy (no number): N = 1,000, 20 rounds.",
        source=f"{PAPER}, section 5.1, after Theorem 3 (shuffling)",
        claimed="none; k eps without the proxy",
        provable="numeric clone bound of k T shuffles",
        reason="With few users there is little to hide among, and 2,000 reports each add up.",
        scope=_SHUFFLED,
        delta=1e-6,
    ),
    Entry(
        number="4c",
        target="fmf-ldp",
        statement="The theorem cited for what shuffling amplifies speaks of reports of eps = 2.5.",
        source=f"{PAPER}, section 5.1, last paragraph but one (citing Erlingsson et al. 2019)",
        claimed="reports of eps = 2.5",
        provable="its closed form: reports of eps < 1/2",
        reason=(
            "Its closed form is proved for one report of eps below 1/2 a user; the system sends "
            "k of them at 2.5, for which later bounds, by clones, are needed."
        ),
        computed=_covered,
    ),
    Entry(
        number="5",
        target="dplcf-sp",
        statement="DPLCF satisfies M e^eps-differential privacy for a user (symmetric flips).",
        source=f"{PAPER}, section 5.2",
        claimed="M e^eps",
        provable="M eps",
        reason=(
            "The epsilons of M bits add up; nothing makes them exponentials. Section 6.1.1 of the "
            "same paper has the sum."
        ),
        computed=partial(_competitor, DplcfSp()),
    ),
    Entry(
        number="5b",
        target="dplcf-ap",
        statement="DPLCF satisfies M e^eps-differential privacy for a user (asymmetric flips).",
        source=f"{PAPER}, section 5.2",
        claimed="M e^eps",
        provable="infinite",
        reason="An uploaded 0 proves a 0, which no finite epsilon allows.",
        computed=partial(_competitor, DplcfAp()),
    ),
    Entry(
        number="5c",
        target="fmf-ldp",
        settings={"reports": 250},
        statement="As k is far below M, a user's budget is significantly below DPLCF's.",
        source=f"{PAPER}, section 5.2",
        claimed="k eps << M eps",
        provable="T k eps against M eps",
        reason=(
            "DPLCF sends its M bits once, FMF-LDP k reports in each of T rounds: 5,000 of them at "
            "k = 250."
        ),
        computed=_smaller,
    ),
    Entry(
        number="5d",
        target="fmf-ldp",
        statement="At the same eps a guarantee on gradients is stronger than one on interactions.",
        source=f"{PAPER}, section 5.2",
        claimed="stronger",
        provable="the same",
        reason=(
            "Said to be intuitive, after a warning that the two are hard to compare. Epsilon "
            "bounds what any adversary learns whatever the data are; both laws attain it."
        ),
        computed=_stronger,
    ),
)
