"""Numbers that the FedRec paper states or relies on, each with the value computed here.

Every function yields pairs (claimed, computed). The paper's ``claims.toml`` names the function and
describes its pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.declarations.entry import ClaimedAndComputed
from fedrec_auditor.targets.federated.protections import AdaptiveLaplace, LaplaceProtection
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedMf, FedRec, FedRecApm
from fedrec_auditor.targets.systems.base import Population

_UPLOAD = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
_MOVIELENS = Population(n_users=943, n_items=1682)
# Names of the components (groups of arrays of the model), as the comparisons print them.
_WORDS = {
    "user": "the user component",
    "item": "the item component",
    "mlp1": "the first layer of the MLP",
    "mlp2": "the second layer of the MLP",
}


def compare_epoch_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of an entry that gets noise in two local epochs: claimed, and
    computed.

    The noise of the first epoch makes the entry a random number on a grid. The second epoch trains,
    which moves the number on the grid, and adds noise to it. The data of the user determine both
    random distributions: of the first number, and of its move. 2,000 pairs of distributions stand
    for 2,000 possible data. The computed epsilon is the largest log-ratio of the probabilities of
    an output under two of them.
    """
    # The grid has 9 values. The distributions of the noisy value and of its move are drawn at
    # random. In two trainings the move is fixed: to the lower end of the grid in one, and to the
    # upper end in the other.
    protection, levels, count = AdaptiveLaplace(), 9, 2000
    grid = np.linspace(-protection.clip, protection.clip, levels)
    randomizer = protection.get_entry_randomizer("user")
    law = np.exp(randomizer.log_prob(grid[:, None], grid))  # outputs x inputs
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(levels), count)  # distribution of the entry after the first noise
    moved = rng.dirichlet(np.full(levels, 0.1), (count, levels))  # its distribution after training
    moved[:2] = np.eye(levels)[[0, -1], None]
    sent = np.einsum("wi,wij,oj->wo", first, moved, law)
    yield protection.get_epsilon("user"), float(np.log(sent.max(axis=0) / sent.min(axis=0)).max())


def compare_component_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields four pairs of epsilons, one per component of the model: printed in section 5.7, and
    computed by equation 11.

    The components are the user embedding, the item embeddings, and the two layers of the MLP.
    Equation 11 spaces their epsilons equally between the ends 30 and 60 of section 5.7.
    """
    used = AdaptiveLaplace()
    budgets = {group: used.get_epsilon(group) for group in _WORDS}
    lowest, highest = min(budgets.values()), max(budgets.values())
    ruled = AdaptiveLaplace.from_epsilon_range(lowest=lowest, highest=highest)
    for group, budget in budgets.items():
        yield budget, ruled.get_epsilon(group), {"said": _WORDS[group]}


def compare_noise_factors() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of noise factors, at epsilon 60 and at epsilon 40: printed, and computed.

    A noise factor is the scale of the Laplace noise. 40 and 60 are the ends of the paper's range of
    epsilon.
    """
    for end, printed in ((60.0, 0.017), (40.0, 0.033)):
        yield printed, AdaptiveLaplace(user=end).get_group_noise("user").scale, {"end": end}


def compare_noise_numerators() -> Iterator[ClaimedAndComputed]:
    """Yields a pair: the printed and the right numerator in lambda = numerator / epsilon.

    lambda is the scale of the Laplace noise. The printed numerator is the largest difference of two
    noisy entries, which is infinite. The right one is the sensitivity: the largest difference of
    two clipped entries.
    """
    protection = AdaptiveLaplace()
    yield math.inf, protection.get_group_noise("user").scale * protection.get_epsilon("user")


def compare_sum_to_average() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of ratios of equation 9's model to Algorithm 1's model: claimed (1), and true.

    The paper uses both formulas for one model. Equation 9 sums the users' models, and Algorithm 1
    averages them. The true ratio is therefore the number of users in a round.
    """
    yield 1.0, float(FedRecApm(share=0.5).count_senders(_MOVIELENS.n_users))


def compare_data_sizes() -> Iterator[ClaimedAndComputed]:
    """Yields four pairs of numbers on the paper's data: stated, and right.

    - First pair: the number of age groups that contain a user of age 40. One group is right, but
      the groups of Table I overlap.
    - Other pairs: the numbers of ratings, users and items in section 5.1.
    """
    age = 40
    yield 1.0, float((age < 45) + (age > 35) + (35 <= age <= 45)), {"age": age}
    yield from ((10_000, 100_000), (6039, 6040), (3705, 3706))


def compare_upload_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs: 1, and an upload's epsilon with APM divided by an upload's epsilon in
    FedNews.

    The paper claims a ratio of at most 1. In the pairs, FedNews has epsilon 40 and 60 per entry,
    the ends of the paper's range.
    """
    counts = FedRecApm().count_entries(_MOVIELENS)
    ours = AdaptiveLaplace().get_upload_epsilon(counts)
    for epsilon in (40.0, 60.0):
        theirs = LaplaceProtection(epsilon=epsilon).get_upload_epsilon(counts)
        yield 1.0, ours / theirs, {"epsilon": epsilon}


def compare_epsilon_finiteness() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of flags, as claimed and as computed: 1 if a system's epsilon is finite, 0
    if it is infinite.

    Both systems upload without noise. The paper claims that epsilon is finite for the first, a deep
    recommender (FedRec), and infinite for the second, a shallow one (FedMF).
    """
    systems = (("FedRec, of several layers", FedRec(), 1.0), ("FedMF, of none", FedMf(), 0.0))
    for said, system, claimed in systems:
        event = system.get_event(_UPLOAD, _MOVIELENS)
        spent = Pure().bound(event, delta=0.0, scope=_UPLOAD).epsilon
        yield claimed, float(math.isfinite(spent)), {"said": said}
