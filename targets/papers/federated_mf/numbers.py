"""Numbers that the federated-MF paper states or relies on, each with the value computed here.

Every function yields pairs (claimed, computed). The paper's ``claims.toml`` names the function and
describes its pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.methods.accounting_methods import Pld, Pure, Shuffle
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.declarations.entry import NumberPair
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import NoiseShares
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.federated_mf.gradients import (
    max_distance,
    max_excess,
    max_gradient,
    rating_shift,
    unclipped_norm,
)
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    authors_epsilon,
    batch_size,
    rating_distance,
    theorem_1_epsilon,
)
from fedrec_auditor.targets.systems.base import Population

_R = 5.0
_ONE = 2.0 * _R * math.sqrt(_R)
_ETA, STEPS, DELTA = 0.01, 1000, 1e-5
Z_THOUSAND = 1.4144  # noise multiplier z at which T T' = 1000 Poisson-sampled steps have epsilon 1
Z_TEN = 0.7791  # noise multiplier z at which ten Poisson-sampled steps have epsilon 1
_USER = scope_of(Unit.USER)


def _epsilon(event: dp.DpEvent, delta: float = DELTA) -> float:
    return Pld().bound(event, delta=delta, scope=_USER).epsilon


def _sampled(z: float, steps: int) -> float:
    """Epsilon of ``steps`` Poisson-sampled Gaussians of noise multiplier ``z``."""
    one = dp.PoissonSampledDpEvent(_ETA, dp.GaussianDpEvent(z))
    return _epsilon(dp.SelfComposedDpEvent(one, steps))


_TABLES = (("V", _ONE, False), ("U and V", math.sqrt(2.0) * _ONE, True))


def sensitivities() -> Iterator[NumberPair]:
    """Yields the claimed and the largest norm of one rating's gradient.

    The first pair is for the item embedding alone, the second for user and item embedding together.
    """
    for table, said, joint in _TABLES:
        yield said, max_gradient(_R, ratings=1, joint=joint), {"table": table}


def per_user() -> Iterator[NumberPair]:
    """Yields the claimed and the largest norm of the summed gradients of a user of 5 ratings.

    The first pair is for item embeddings alone, the second for user and item embeddings together.
    """
    theta = 5
    for table, one, joint in _TABLES:
        yield (
            theta * one,
            max_gradient(_R, ratings=theta, joint=joint),
            {"table": table, "theta": theta},
        )


def replaced() -> Iterator[NumberPair]:
    """Yields epsilon as Theorem 5 claims it and as computed from all messages of both rounds.

    There is one pair for each combination of two noise multipliers z and two tolerated shares omega
    of dropouts.
    """
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


def unprojected() -> Iterator[NumberPair]:
    """Yields the claimed gradient norm 2 R^(3/2), and the norm at an item that is not projected."""
    yield _ONE, unclipped_norm(_R, length=10.0)


def rows() -> Iterator[NumberPair]:
    """Yields epsilon of one rating by Poisson sampling, and with visible draws of its row.

    The paper accounts for sampled rows as if the draw were hidden, but the user's other ratings
    reveal it.
    """
    told = dp.RevealedSamplingDpEvent(_ETA, dp.GaussianDpEvent(Z_THOUSAND))
    yield (
        _sampled(Z_THOUSAND, STEPS),
        _epsilon(dp.SelfComposedDpEvent(told, STEPS)),
        {"z": Z_THOUSAND},
    )


def embeddings() -> Iterator[NumberPair]:
    """Yields the claimed and the computed change of a step's sum by one rating.

    The unit is 2 R^(3/2). The rating changes its user's pre-trained embedding, and so the gradients
    of the user's 10 or 100 other ratings.
    """
    system = HflSgdmf()
    for count in (10, 100):
        yield (
            1.0,
            rating_shift(system.bound, ratings=count, fitting=system.fitting) / _ONE,
            {"count": count},
        )


def drawn() -> Iterator[NumberPair]:
    """Yields the claimed and the computed change of a device's message by one rating.

    The unit is 2 R^(3/2). In each round the device draws one of its ratings and sends its gradient.
    """
    system = LflSgdmf()
    yield 1.0, rating_distance(system.bound, system.factors, system.fitting) / _ONE


def root_sum() -> Iterator[NumberPair]:
    """Yields the root of the sum of squared party epsilons (Theorem 4) and the composed epsilon.

    The first pair is for ten parties with sampled Gaussians. The next two are for 18 parties, whose
    epsilons are calculated by the authors' package and by Theorem 1. The last is for ten parties
    with a mechanism of pure epsilon 1.
    """
    parties = 10
    one = _sampled(Z_THOUSAND, STEPS)
    yield math.sqrt(parties) * one, _sampled(Z_THOUSAND, parties * STEPS)
    count = 18
    for by in (authors_epsilon, theorem_1_epsilon):
        eps_k = by(Z_THOUSAND, _ETA, STEPS, DELTA)
        yield math.sqrt(count) * eps_k, _sampled(Z_THOUSAND, count * STEPS)
    yield math.sqrt(parties), _epsilon(dp.SelfComposedDpEvent(dp.PureDpEvent(1.0), parties))


def counted() -> Iterator[NumberPair]:
    """Yields epsilon of T' = 10 steps, as Proposition 3 counts, and of all T T' = 1000 steps."""
    yield _sampled(Z_TEN, 10), _sampled(Z_TEN, STEPS), {"z": Z_TEN}


def constants() -> Iterator[NumberPair]:
    """Yields the claimed ratio 1 of two constants c of Proposition 2, and the computed ratio.

    The constant solves z^2 = c eta^2 T ln(1/delta)/eps^2. The proposition holds only if it is the
    same for all noise multipliers z; the two constants are those at z = 0.7 and z = 2.
    """

    def constant(z: float) -> float:
        epsilon = authors_epsilon(z, _ETA, STEPS, DELTA)
        return (z * epsilon / _ETA) ** 2 / (STEPS * -math.log(DELTA))

    yield 1.0, constant(0.7) / constant(2.0)


def exactness() -> Iterator[NumberPair]:
    """Yields epsilon by the authors' package and by Theorem 1, each with the exact epsilon."""
    for said, claimed in (
        ("TensorFlow Privacy of 2021", authors_epsilon(Z_THOUSAND, _ETA, STEPS, DELTA)),
        ("Theorem 1", theorem_1_epsilon(Z_THOUSAND, _ETA, STEPS, DELTA)),
    ):
        yield claimed, _sampled(Z_THOUSAND, STEPS), {"z": Z_THOUSAND, "said": said}


def both_ways() -> Iterator[NumberPair]:
    """Yields the claimed and the exact delta of replacing a user at twice the epsilon.

    The example is a bit with three possible distributions, the second of which is a neighbour of
    the first and the third.
    """
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


def pointwise() -> Iterator[NumberPair]:
    """Yields the smallest delta by single outputs and by sets of outputs, at epsilon 1.

    The example is a bit that is sent with one of 1,000 random tags, so that every single output is
    unlikely.
    """
    tags = 1000
    table = np.zeros((2, 2 * tags))
    table[0, :tags] = table[1, tags:] = 1.0 / tags
    least = float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).max())
    yield least, float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).sum())


def divisor() -> Iterator[NumberPair]:
    """Yields two effects on the noise of dividing the gradient sum by a number of ratings.

    The first pair is 1 and the ratio of the noise scales of a party with two ratings and a party
    with one. The second is 1 and the noise multiplier that results if noise for a sum is added
    after the division.
    """
    system, n, m = HflSgdmf(), 94, 1682
    few, more = (float(system.step_scale(n, m, ratings)) for ratings in (1, 2))
    yield 1.0, more / few
    yield 1.0, float(batch_size(943, _ETA)) * 100_000 / 943


def tuning() -> Iterator[NumberPair]:
    """Yields epsilon of one training, and of five trainings with different learning rates."""
    runs = 5
    yield _sampled(Z_THOUSAND, STEPS), _sampled(Z_THOUSAND, runs * STEPS), {"runs": runs}


def projection() -> Iterator[NumberPair]:
    """Yields a tolerance, and the largest error of the projection onto the set of equation 6.

    The error is the distance to the projected point minus that to the nearest point of a grid.
    """
    yield 1e-9, max_excess(_R)


def last_steps() -> Iterator[NumberPair]:
    """Yields the claimed and the largest norm of one rating's gradient in the item embedding."""
    yield _ONE, max_gradient(_R, ratings=1, joint=False)


def replaced_rating() -> Iterator[NumberPair]:
    """Yields the claimed and the largest change of an item-gradient sum by replacing a user.

    The users have one rating each, of the same item or of two items. The unit is 2 R^(3/2).
    """
    for said, same in (("of the same item", True), ("of another item", False)):
        yield 2.0, max_distance(_R, same=same) / _ONE, {"said": said}


def in_the_clear() -> Iterator[NumberPair]:
    """Yields the share of the first noise that stays unknown, given sums and single messages.

    The messages are those of round 2 of LFL-SGDMF, for ten users and omega 0.3.
    """
    n, omega = 10, 0.3
    first, second = 1.0 / ((1.0 - omega) * n), 1.0 / n
    messages = np.vstack(
        [np.concatenate([np.ones(n), np.zeros(n)]), np.hstack([-np.eye(n), np.eye(n)])]
    )
    summed = np.vstack([messages[0], messages[1:].sum(axis=0)])

    def unknown_share(rows: Floats) -> float:
        """Smallest variance of an unbiased estimate of the value added to the first row's noise."""
        covariance = (rows * np.repeat([first, second], n)) @ rows.T
        signal = np.eye(len(rows))[0]
        return 1.0 / float(signal @ np.linalg.solve(covariance, signal))

    yield unknown_share(summed), unknown_share(messages)


def dropped_out() -> Iterator[NumberPair]:
    """Yields the claimed share 1 of unknown noise, and the true share if 20% drop out twice.

    The share is that of sigma^2 which an adversary does not know. In the first pair the adversary
    sees the last sum alone, in the second all messages.
    """
    shares = NoiseShares(n_users=100, omega=0.3, masked=80, replaced=64)
    for said, right in (
        ("the last sum alone", shares.claimed_variance),
        ("all messages", shares.variance),
    ):
        yield 1.0, min(1.0, right), {"said": said}


def amplified() -> Iterator[NumberPair]:
    """Yields the shuffled epsilon at which the paper plots GD-DR, and its local epsilon.

    The protocol has no shuffler, so the local epsilon is the one that holds against the server.
    """
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
