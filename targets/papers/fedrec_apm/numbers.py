"""Numbers that FedRec and APM state or rely on, and the values found here."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.federated.protections import AdaptiveLaplace, LaplaceProtection
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedMf, FedRec, FedRecApm
from fedrec_auditor.targets.systems.base import Population

_UPLOAD = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
_MOVIELENS = Population(n_users=943, n_items=1682)
_WORDS = {
    "user": "the user component",
    "item": "the item component",
    "mlp1": "the first layer of the MLP",
    "mlp2": "the second layer of the MLP",
}


def epochs() -> Iterator[Pair]:
    """Epsilon of two epochs, each ended by clipping and noise, for random and worst trainings.

    The second epoch starts from the result of the first noise, and trains on the user's data again:
    it moves each of the levels of a grid to any level, depending on the data.
    """
    protection, levels, count = AdaptiveLaplace(), 9, 2000
    grid = np.linspace(-protection.clip, protection.clip, levels)
    law = np.exp(protection.coordinate("user").log_prob(grid[:, None], grid))  # outputs by inputs
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(levels), count)  # distribution of the entry after the first noise
    moved = rng.dirichlet(np.full(levels, 0.1), (count, levels))  # its distribution after training
    moved[:2] = np.eye(levels)[[0, -1], None]
    sent = np.einsum("wi,wij,oj->wo", first, moved, law)
    yield protection.budget("user"), float(np.log(sent.max(axis=0) / sent.min(axis=0)).max())


def assignments() -> Iterator[Pair]:
    """Budgets of section 5.7, beside equation 11 at its smallest and largest epsilon."""
    used = AdaptiveLaplace()
    budgets = {group: used.budget(group) for group in _WORDS}
    ruled = AdaptiveLaplace.by_resistance(least=min(budgets.values()), most=max(budgets.values()))
    for group, budget in budgets.items():
        yield budget, ruled.budget(group), {"said": _WORDS[group]}


def interval() -> Iterator[Pair]:
    """Ends of E = [40, 60] as noise factors, and 0.033 as an epsilon."""
    for end, printed in ((60.0, 0.017), (40.0, 0.033)):
        yield printed, AdaptiveLaplace(user=end).noise("user").scale, {"end": end}


def numerator() -> Iterator[Pair]:
    """Numerator of the noise factor lambda: scale times budget."""
    protection = AdaptiveLaplace()
    yield math.inf, protection.noise("user").scale * protection.budget("user")


def aggregated() -> Iterator[Pair]:
    """Aggregation of equation 9, beside Algorithm 1."""
    yield 1.0, float(FedRecApm(share=0.5).senders(_MOVIELENS.n_users))


def features() -> Iterator[Pair]:
    """Age groups of Table I, beside the counts of section 5.1."""
    age = 40
    yield 1.0, float((age < 45) + (age > 35) + (35 <= age <= 45)), {"age": age}
    yield from ((10_000, 100_000), (6039, 6040), (3705, 3706))


def compared_budgets() -> Iterator[Pair]:
    """Epsilon of APM's upload, beside that of FedNews, at both ends of E."""
    counts = FedRecApm().entries(_MOVIELENS)
    ours = AdaptiveLaplace().spent(counts)
    for epsilon in (40.0, 60.0):
        yield 1.0, ours / LaplaceProtection(epsilon=epsilon).spent(counts), {"epsilon": epsilon}


def depth() -> Iterator[Pair]:
    """Whether epsilon is finite, for a deep and a shallow recommender without noise."""
    for said, system, claimed in (
        ("FedRec, of several layers", FedRec(), 1.0),
        ("FedMF, of none", FedMf(), 0.0),
    ):
        spent = Pure().bound(system.event(_UPLOAD, _MOVIELENS), delta=0.0, scope=_UPLOAD).epsilon
        yield claimed, float(math.isfinite(spent)), {"said": said}
