"""Numbers that federated matrix factorization states or relies on, and the values found here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.methods.accounting_methods import Pld, Pure, Shuffle
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import NoiseShares
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.federated_mf.gradients import (
    furthest,
    largest,
    nearest,
    turned,
    unclipped,
)
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    accounted,
    batch_size,
    by_tail_bound,
    rating_distance,
)
from fedrec_auditor.targets.systems.base import Population

_R = 5.0
_ONE = 2.0 * _R * math.sqrt(_R)
_ETA, STEPS, DELTA = 0.01, 1000, 1e-5
EXACT = 1.4144  # z with which T T' = 1000 Poisson-sampled steps have epsilon 1
TEN = 0.7791  # z with which ten of these steps have epsilon 1
_USER = scope_of(Unit.USER)


def _epsilon(event: dp.DpEvent, delta: float = DELTA) -> float:
    return Pld().bound(event, delta=delta, scope=_USER).epsilon


def _sampled(z: float, steps: int) -> float:
    """Epsilon of Poisson-sampled Gaussians, as the paper's accountant defines it."""
    one = dp.PoissonSampledDpEvent(_ETA, dp.GaussianDpEvent(z))
    return _epsilon(dp.SelfComposedDpEvent(one, steps))


_TABLES = (("V", _ONE, False), ("U and V", math.sqrt(2.0) * _ONE, True))


def sensitivities() -> Iterator[Pair]:
    """Largest gradient of one rating."""
    for table, said, joint in _TABLES:
        yield said, largest(_R, ratings=1, joint=joint), {"table": table}


def per_user() -> Iterator[Pair]:
    """Largest gradient of a user of theta ratings."""
    theta = 5
    for table, one, joint in _TABLES:
        yield theta * one, largest(_R, ratings=theta, joint=joint), {"table": table, "theta": theta}


def replaced() -> Iterator[Pair]:
    """Epsilons in four of the settings in which Theorem 5 fails."""
    for z, omega in itertools.product((1.0, 5.0), (0.3, 0.6)):
        system = LflSgdmf(noise_multiplier=z, omega=omega)
        seen = NoiseReplacement(
            sigma=system.sigma,
            sensitivity=system.sensitivity,
            n_users=100,
            omega=omega,
            masked=100,
            replaced=100,
        )
        yield (
            system.claimed,
            _epsilon(Repeated(seen, system.rounds).event()),
            {"z": z, "omega": omega},
        )


def unprojected() -> Iterator[Pair]:
    """Longest gradient of one rating if V is not projected."""
    yield _ONE, unclipped(_R, length=10.0)


def rows() -> Iterator[Pair]:
    """Epsilon of a rating in a row that is drawn or not."""
    told = dp.RevealedSamplingDpEvent(_ETA, dp.GaussianDpEvent(EXACT))
    yield _sampled(EXACT, STEPS), _epsilon(dp.SelfComposedDpEvent(told, STEPS)), {"z": EXACT}


def embeddings() -> Iterator[Pair]:
    """Change of the sum by one rating through a fitted embedding."""
    system = HflSgdmf()
    for count in (10, 100):
        yield (
            1.0,
            turned(system.bound, ratings=count, fitting=system.fitting) / _ONE,
            {"count": count},
        )


def drawn() -> Iterator[Pair]:
    """Change of the message by one rating, for a device that draws a rating."""
    system = LflSgdmf()
    yield 1.0, rating_distance(system.bound, system.factors, system.fitting) / _ONE


def root_sum() -> Iterator[Pair]:
    """Epsilon of ten parties, with the paper's mechanism and with any mechanism."""
    parties = 10
    one = _sampled(EXACT, STEPS)
    yield math.sqrt(parties) * one, _sampled(EXACT, parties * STEPS)
    count = 18
    for by in (accounted, by_tail_bound):
        eps_k = by(EXACT, _ETA, STEPS, DELTA)
        yield math.sqrt(count) * eps_k, _sampled(EXACT, count * STEPS)
    yield math.sqrt(parties), _epsilon(dp.SelfComposedDpEvent(dp.PureDpEvent(1.0), parties))


def counted() -> Iterator[Pair]:
    """Epsilon of T' steps, and of T T' steps."""
    yield _sampled(TEN, 10), _sampled(TEN, STEPS), {"z": TEN}


def constants() -> Iterator[Pair]:
    """Constant c of z^2 = c eta^2 T ln(1/delta)/eps^2 at two budgets."""

    def constant(z: float) -> float:
        epsilon = accounted(z, _ETA, STEPS, DELTA)
        return (z * epsilon / _ETA) ** 2 / (STEPS * -math.log(DELTA))

    yield 1.0, constant(0.7) / constant(2.0)


def exactness() -> Iterator[Pair]:
    """Epsilon by the authors' package and by Theorem 1, beside the exact one."""
    for said, claimed in (
        ("TensorFlow Privacy of 2021", accounted(EXACT, _ETA, STEPS, DELTA)),
        ("Theorem 1", by_tail_bound(EXACT, _ETA, STEPS, DELTA)),
    ):
        yield claimed, _sampled(EXACT, STEPS), {"z": EXACT, "said": said}


def both_ways() -> Iterator[Pair]:
    """Delta of replacing a user: three distributions of a bit, the middle one next to both."""
    epsilon = 1.0
    rates = np.array([(1.0 + math.exp(epsilon)) * DELTA, DELTA, 0.0])

    def delta(one: int, other: int, at: float) -> float:
        law = BitFlip(float(rates[one]), float(rates[other]))
        table = np.exp(law.log_prob([[0, 1], [0, 1]], [[1, 1], [0, 0]]))
        return max(
            float(np.maximum(a - math.exp(at) * b, 0.0).sum()) for a, b in (table, table[::-1])
        )

    worst = max(delta(0, 1, epsilon), delta(1, 2, epsilon))
    yield 2.0 * worst, delta(0, 2, 2.0 * epsilon)


def pointwise() -> Iterator[Pair]:
    """Delta of an input that is sent with one of 1,000 random tags, so that no output is likely."""
    tags = 1000
    table = np.zeros((2, 2 * tags))
    table[0, :tags] = table[1, tags:] = 1.0 / tags
    least = float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).max())
    yield least, float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).sum())


def divisor() -> Iterator[Pair]:
    """Effect on the noise of the division by a number of ratings."""
    system, n, m = HflSgdmf(), 94, 1682
    few, more = (float(system.step_scale(n, m, ratings)) for ratings in (1, 2))
    yield 1.0, more / few
    yield 1.0, float(batch_size(943, _ETA)) * 100_000 / 943


def tuning() -> Iterator[Pair]:
    """Epsilon of several trainings with different learning rates."""
    runs = 5
    yield _sampled(EXACT, STEPS), _sampled(EXACT, runs * STEPS), {"runs": runs}


def projection() -> Iterator[Pair]:
    """Distance of the projection's result from the closest feasible point."""
    yield 1e-9, nearest(_R)


def last_steps() -> Iterator[Pair]:
    """Largest gradient of one rating in V alone."""
    yield _ONE, largest(_R, ratings=1, joint=False)


def replaced_rating() -> Iterator[Pair]:
    """Longest difference of two gradients if a user of one rating is replaced by another user."""
    for said, same in (("of the same item", True), ("of another item", False)):
        yield 2.0, furthest(_R, same=same) / _ONE, {"said": said}


def in_the_clear() -> Iterator[Pair]:
    """Unknown share of the first noise given round 2's single messages, and given their sum."""
    n, omega = 10, 0.3
    first, second = 1.0 / ((1.0 - omega) * n), 1.0 / n
    messages = np.vstack(
        [np.concatenate([np.ones(n), np.zeros(n)]), np.hstack([-np.eye(n), np.eye(n)])]
    )
    summed = np.vstack([messages[0], messages[1:].sum(axis=0)])

    def unknown_share(rows: Floats) -> float:
        """Least variance of an unbiased estimate of the summand added to the first row's noise."""
        covariance = (rows * np.repeat([first, second], n)) @ rows.T
        signal = np.eye(len(rows))[0]
        return 1.0 / float(signal @ np.linalg.solve(covariance, signal))

    yield unknown_share(summed), unknown_share(messages)


def dropped_out() -> Iterator[Pair]:
    """Unknown share of the noise if a fifth of the devices drop out in each round."""
    shares = NoiseShares(n_users=100, omega=0.3, masked=80, replaced=64)
    for said, right in (
        ("the last sum alone", shares.claimed_variance),
        ("all messages", shares.variance),
    ):
        yield 1.0, min(1.0, right), {"said": said}


def amplified() -> Iterator[Pair]:
    """GD-DR's local epsilon, and the central epsilon at which the paper plots it."""
    system, population = GdDr(), Population(n_users=943, n_items=1682)
    local, shuffled = (
        any_pair(Unit.USER, vantage, Horizon.TRAINING)
        for vantage in (Vantage.SERVER, Vantage.SHUFFLED)
    )
    event = system.event(shuffled, population)
    yield (
        Shuffle().bound(event, delta=1e-6, scope=shuffled).epsilon,
        Pure().bound(system.event(local, population), delta=0.0, scope=local).epsilon,
    )
