"""Numbers that the FMF-LDP paper states or relies on, each with the value computed here.

Every public function yields pairs (claimed, computed). The paper's ``claims.toml`` names the
function and describes its pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy
from scipy.special import expit

from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.components import Floats, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.entry import ClaimedAndComputed
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate
from fedrec_auditor.targets.papers.dplcf.systems import DplcfAp, DplcfSp
from fedrec_auditor.targets.papers.fmf_ldp.systems import FmfLdp
from fedrec_auditor.targets.systems.base import Population

_TRAINING = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
_MOVIELENS, _SMALL_SET, _FULL_SET = (
    Population(n_users=943, n_items=items) for items in (1682, 1000, 9781)
)
_SMALL = Interactions.create(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1.0]]), name="small")


def compare_expected_average() -> Iterator[ClaimedAndComputed]:
    """Yields a pair: 1, and the server's expected average of reports divided by the gradient.

    By the paper the average (equation 9) is unbiased, so that the ratio is 1. A report is one
    randomized entry of a gradient; each user sends 100 reports.
    """
    # The expectation is over all possible reports, weighted by their exact probabilities.
    law, k, entry = OneCoordinate(2.5, 6), 100, 0.3
    total = np.zeros((2, 3))
    for index in range(law.dimension):
        for bit in (0, 1):
            chance = math.exp(law.log_prob([index, bit], np.full(law.dimension, entry)).item())
            sent = Reports(np.array([[index]]), np.array([[bit == 1]]), law.magnitude, (2, 3))
            total += chance * sent.sum_all()
    yield 1.0, k * float(total.mean()) / entry


def compare_loss_change_sign() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of signs of the change of the loss in one small step of the server: claimed
    (-1), and computed.

    The step is line 12 of Algorithm 2, with gradients of equation 5 without noise.
    """
    system = FmfLdp(factors=2, regularization=0.1)
    items = np.array([[0.3, -0.1], [0.2, 0.4], [-0.2, 0.1], [0.1, 0.2]])
    vectors = system.solve_user_vectors(_SMALL.ratings, items)
    held = _SMALL.ratings.toarray() != 0
    confidence = np.where(held, 1.0 + system.alpha, 1.0)

    # The loss of equation 1 with the item matrix ``at`` and fixed user vectors.
    def compute_loss(at: Floats) -> float:
        fit = (confidence * (held - vectors @ at.T) ** 2).sum()
        return float(fit + system.regularization * ((vectors**2).sum() + (at**2).sum()))

    users, entries = np.arange(3)[:, None], np.arange(8)
    each = system.compute_gradient_entries(_SMALL.ratings, vectors, items, users, entries)
    step = 1e-3 * (each.mean(axis=0).reshape(4, 2) + 2 * system.regularization * items)
    yield -1.0, float(np.sign(compute_loss(items - step) - compute_loss(items)))


def compare_sent_user_vector_counts() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of numbers of user vectors that leave the devices: claimed, and counted.

    By line 14 of Algorithm 2 all user vectors are returned.
    """
    # Vectors are counted in the arrays that are sent to a device, sent by a device, or published.
    run = FmfLdp(rounds=1, reports=2).run(_SMALL, np.random.default_rng(0)).transcript
    first = run.rounds[0]
    told = (run.published_model or {}, first.broadcast or {}, first.uploads.components)
    leaked = sum(name not in ("items", "reports") for part in told for name in part)
    yield float(_SMALL.n_users), float(_SMALL.n_users * leaked)


def _bound_user_epsilon(system: DplcfSp | DplcfAp | FmfLdp, population: Population) -> float:
    """Returns the proved epsilon of a user over the training against the server."""
    event = system.get_event(_TRAINING, population)
    return Pure().bound(event, delta=0.0, scope=_TRAINING).epsilon


def compare_symmetric_dplcf_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of a user under DPLCF with symmetric flips: claimed, and proved.

    The FMF-LDP paper makes the claim in section 5.2.
    """
    return _compare_dplcf_epsilons(DplcfSp())


def compare_asymmetric_dplcf_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of a user under DPLCF with asymmetric flips: claimed, and proved.

    The FMF-LDP paper makes the claim in section 5.2.
    """
    return _compare_dplcf_epsilons(DplcfAp())


def _compare_dplcf_epsilons(system: DplcfSp | DplcfAp) -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of a user under DPLCF: as section 5.2 states it, and as proved."""
    items = _MOVIELENS.n_items
    spent = _bound_user_epsilon(system, _MOVIELENS)
    yield items * math.exp(system.epsilon), spent, {"name": system.name, "items": items}


def compare_user_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields three pairs: 1, and a user's epsilon under FMF-LDP divided by that under DPLCF-SP.

    The paper claims a ratio of at most 1. DPLCF-SP is a competing system, which flips bits. Each
    report of FMF-LDP and each bit of DPLCF-SP has epsilon 2.5. The pairs differ in the numbers of
    reports per round and of items.
    """
    for k, population in ((100, _FULL_SET), (250, _FULL_SET), (250, _SMALL_SET)):
        ours, theirs = FmfLdp(reports=k), DplcfSp(epsilon=2.5)
        ratio = _bound_user_epsilon(ours, population) / _bound_user_epsilon(theirs, population)
        yield 1.0, ratio, {"k": k, "items": population.n_items}


def compare_report_epsilon() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of ratios of a report's epsilon to the epsilon of a bit under randomized
    response: claimed (at most 1), and exact.

    Report and bit each have a stated epsilon of 1.
    """
    report, bit = OneCoordinate(1.0, 1), BitFlip.symmetric(1.0)
    shown = report.log_prob([0, 1], [1.0]) - report.log_prob([0, 1], [-1.0])
    yield 1.0, float(shown.item()) / bit.epsilon


def compare_interaction_epsilon() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons: claimed for one report, and exact for one interaction.

    The exact epsilon is for all reports of a round, because one interaction can change each of
    them. The user's two histories differ in an interaction that reverses the sign of the whole
    gradient.
    """
    # A malicious server sends an item matrix of one factor: six items have the entry 3e-4, and a
    # seventh item has -5e-3. The user has the six items in both histories, and the seventh item in
    # one of them. The seventh item reverses the sign of the user vector. In both histories, every
    # entry of the gradient is so large that it is clipped.
    system, items = FmfLdp(factors=1), np.array([[-5e-3], *[[3e-4]] * 6])
    held = Interactions.create(np.array([[0.0, 1, 1, 1, 1, 1, 1], [1.0] * 7]), name="event").ratings
    vectors = system.solve_user_vectors(held, items)
    users, index = np.array([[0], [1]]), np.arange(7)[None]
    entries = system.compute_gradient_entries(held, vectors, items, users, index)
    report = system.make_randomizer(len(items))
    law = report.log_prob([[1, 0], [1, 1]], report.clip_entries(entries)[:, None])
    yield system.epsilon, system.reports * float(np.abs(law[0] - law[1]).max())


def compare_guess_accuracy() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of accuracies of guessing a user's history from two candidates: claimed
    (0.5), and computed.

    The pairs are for 1,000 and 50,000 users. The guess uses all shuffled reports of a training. The
    two histories are worst cases: their gradients are at opposite corners of their range.
    """
    # The server chooses an item matrix for which the two candidate histories have such gradients,
    # and each other user's gradient is at one of these corners. In each of the k T shuffles, the
    # number of positive reports is a sum over users, which is normal up to the third decimal. One
    # user moves its mean by (e^eps - 1)/(e^eps + 1).
    system = FmfLdp()
    for users in (1_000, 50_000):
        rate = float(expit(-system.epsilon))
        deviation = math.sqrt((users - 1) * rate * (1.0 - rate))
        moved = math.sqrt(system.reports * system.rounds) * (1.0 - 2.0 * rate) / deviation
        yield 0.5, float(scipy.stats.norm.cdf(moved / 2.0)), {"users": users}


def compare_figure_5_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of the row of DPLCF in Figure 5: as the paper states it, and true.

    By the paper, Figure 5 compares all methods at epsilon 2.5. The row of DPLCF has the numbers
    that DPLCF's own paper prints for epsilon 1.
    """
    first, second, third = Paper.load(__package__).find_table("Figure 5").rows["DPLCF"]
    yield FmfLdp().epsilon, DplcfSp().epsilon, {"first": first, "second": second, "third": third}
