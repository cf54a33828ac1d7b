"""Numbers that FedRec and APM state or rely on, beside those found here."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedrec_auditor.accountants.methods.pure import Pure
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedMf, FedRec, FedRecApm
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.systems.base import Population

_UPLOAD = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
_MOVIELENS = Population(n_users=943, n_items=1682)
_WORDS = {
    "user": "the user component",
    "item": "the item component",
    "mlp1": "the first layer of the MLP",
    "mlp2": "the second layer of the MLP",
}


def epochs() -> Iterator[Computed]:
    """Two epochs, each ended by clipping and noise: trainings drawn at random, and the worst two.

    The second epoch starts from what the first noise left, and trains on the user's data again: it
    takes each of the levels of a grid to any of them, as the data have it.
    """
    protection, levels, count = AdaptiveLaplace(), 9, 2000
    grid = np.linspace(-protection.clip, protection.clip, levels)
    law = np.exp(protection.coordinate("user").log_prob(grid[:, None], grid))  # outputs by inputs
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(levels), count)  # where the first noise may leave the entry
    moved = rng.dirichlet(np.full(levels, 0.1), (count, levels))  # whither it is trained from there
    moved[:2] = np.eye(levels)[[0, -1], None]
    sent = np.einsum("wi,wij,oj->wo", first, moved, law)
    yield Computed(
        what="epsilon of an entry of the user component after two epochs with noise in each",
        claimed=protection.budget("user"),
        right=float(np.log(sent.max(axis=0) / sent.min(axis=0)).max()),
        how="the largest ratio of two among 2,000 trainings, drawn at random but for two that end "
        "at opposite ends whatever the first noise, which reach it",
    )


def assignments() -> Iterator[Computed]:
    """Section 5.7 beside equation 11 at its least and largest epsilon."""
    used = AdaptiveLaplace()
    budgets = {group: used.budget(group) for group in _WORDS}
    ruled = AdaptiveLaplace.by_resistance(least=min(budgets.values()), most=max(budgets.values()))
    for group, budget in budgets.items():
        yield Computed(
            what=f"epsilon of {_WORDS[group]}, by section 5.7",
            claimed=budget,
            right=ruled.budget(group),
            how="equation 11: equal steps from the least resistance, which is the user component's",
        )


def interval() -> Iterator[Computed]:
    """The ends of E = [40, 60] as noise factors, and 0.033 as an epsilon."""
    for end, printed in ((60.0, 0.017), (40.0, 0.033)):
        yield Computed(
            what=f"noise factor at epsilon = {end}, an end of E",
            claimed=printed,
            right=AdaptiveLaplace(user=end).noise("user").scale,
            tolerance=5e-4,
            how="2 delta/epsilon at delta = 0.5",
        )


def numerator() -> Iterator[Computed]:
    """What lambda is made of."""
    protection = AdaptiveLaplace()
    yield Computed(
        what="numerator of lambda: the largest difference of two noisy entries, as printed",
        claimed=math.inf,
        right=protection.noise("user").scale * protection.budget("user"),
        how="lambda times epsilon in Algorithm 2: 2 delta, the range of the clipped entries",
    )


def aggregated() -> Iterator[Computed]:
    """Equation 9 beside Algorithm 1."""
    yield Computed(
        what="the global model by equation 9 over that by Algorithm 1, half of 943 users a round",
        claimed=1.0,
        right=float(FedRecApm(share=0.5).senders(_MOVIELENS.n_users)),
        how="a sum over the users of a round in one place, their mean in the other",
    )


def features() -> Iterator[Computed]:
    """The age groups of Table I and the counts of section 5.1."""
    age = 40
    yield Computed(
        what=f"age groups of Table I that a user of {age} is in",
        claimed=1.0,
        right=float((age < 45) + (age > 35) + (35 <= age <= 45)),
        how="under 45, over 35, and between 35 and 45, as printed",
    )
    for what, printed, right in (
        ("ratings of MovieLens-100K", 10_000, 100_000),
        ("users of MovieLens-1M", 6039, 6040),
        ("items of MovieLens-1M", 3705, 3706),
    ):
        yield Computed(
            what=what, claimed=float(printed), right=float(right), how="counted in the data set"
        )


def compared_budgets() -> Iterator[Computed]:
    """APM's upload beside that of FedNews, at both ends of E."""
    counts = FedRecApm().entries(_MOVIELENS)
    ours = AdaptiveLaplace().spent(counts)
    for epsilon in (40.0, 60.0):
        yield Computed(
            what=f"APM's epsilon of an upload over FedNews', had that {epsilon:g} an entry",
            claimed=1.0,
            right=ours / LaplaceProtection(epsilon=epsilon).spent(counts),
            below=True,
            how="the sum over all entries of an upload, ML-100K",
        )


def depth() -> Iterator[Computed]:
    """A deep and a shallow recommender without noise."""
    for said, system, claimed in (
        ("FedRec, of several layers", FedRec(), 1.0),
        ("FedMF, of none", FedMf(), 0.0),
    ):
        spent = Pure().bound(system.event(_UPLOAD, _MOVIELENS), delta=0.0, scope=_UPLOAD).epsilon
        yield Computed(
            what=f"whether an epsilon holds of an upload of {said} (1 if so)",
            claimed=claimed,
            right=float(math.isfinite(spent)),
            how="neither adds noise: no epsilon holds of either",
        )
