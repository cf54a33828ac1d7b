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
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.declarations.entry import ClaimedAndComputed
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import TwoRoundNoise
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.federated_mf.gradients import (
    compute_item_gradient_norm,
    compute_shift_by_rating,
    find_embedding_clip_error,
    find_max_gradient_distance,
    find_max_gradient_norm,
)
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts import sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import get_authors_epsilon
from fedrec_auditor.targets.systems.base import Population

_R = 5.0  # the largest rating
_NORM = 2.0 * _R * math.sqrt(_R)  # largest norm of the item gradient of one rating
# Sampling rate, number of steps, and delta of the examples.
_ETA, STEPS, DELTA = 0.01, 1000, 1e-5
# Noise multipliers z at which 1000, or 10, Poisson-sampled Gaussian steps have epsilon 1.
Z_1000_STEPS, Z_10_STEPS = 1.4144, 0.7791
_USER = make_claim_scope(Unit.USER)


def _compute_epsilon(event: dp.DpEvent, delta: float = DELTA) -> float:
    """Returns the exact epsilon of an accounting event."""
    return Pld().bound(event, delta=delta, scope=_USER).epsilon


def _account(z: float, steps: int) -> float:
    """Returns the epsilon of ``steps`` Poisson-sampled Gaussians with noise multiplier ``z``."""
    one = dp.PoissonSampledDpEvent(_ETA, dp.GaussianDpEvent(z))
    return _compute_epsilon(dp.SelfComposedDpEvent(one, steps))


_TABLES = (("V", _NORM, False), ("U and V", math.sqrt(2.0) * _NORM, True))


def compare_rating_sensitivity() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of sensitivities to one rating: claimed, and the largest gradient norm.

    - First pair: for gradients with respect to item embeddings.
    - Second pair: for gradients with respect to user and item embeddings.
    """
    for table, said, with_users in _TABLES:
        yield said, find_max_gradient_norm(_R, ratings=1, with_users=with_users), {"table": table}


def compare_user_sensitivity() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of sensitivities to a user of 5 ratings: claimed, and largest gradient norm.

    - First pair: for gradients with respect to item embeddings.
    - Second pair: for gradients with respect to user and item embeddings.
    """
    theta = 5
    for table, one, with_users in _TABLES:
        largest = find_max_gradient_norm(_R, ratings=theta, with_users=with_users)
        yield theta * one, largest, {"table": table, "theta": theta}


def compare_theorem_5_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields four pairs of epsilons of LFL-SGDMF: claimed by Theorem 5, and computed.

    A device sends two messages per round; the second replaces the noise of the first. The computed
    epsilon is for both together. The pairs combine two noise multipliers z with two tolerated
    shares omega of dropouts.
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
        proved = _compute_epsilon(Repeated(seen, system.rounds).event())
        yield system.claimed_epsilon, proved, {"z": z, "omega": omega}


def compare_item_gradient_norm() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of norms of the item gradient of one rating: claimed, and without projection.

    The claim is 2 R^(3/2), for the largest rating R. Without projection, the item embedding is ten
    times as long as equation 6 allows.
    """
    yield _NORM, compute_item_gradient_norm(_R, length=10.0)


def compare_epsilons_by_row_sampling() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of one rating: with hidden, and with visible samples of users.

    The paper accounts for hidden samples (Poisson sampling of rows). But the user's other ratings
    reveal when the user was sampled.
    """
    told = dp.RevealedSamplingDpEvent(_ETA, dp.GaussianDpEvent(Z_1000_STEPS))
    proved = _compute_epsilon(dp.SelfComposedDpEvent(told, STEPS))
    yield _account(Z_1000_STEPS, STEPS), proved, {"z": Z_1000_STEPS}


def compare_gradient_shifts() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of changes of a step's gradient sum by one rating: claimed, and computed.

    The gradients are those of HFL-SGDMF with respect to item embeddings. The unit is 2 R^(3/2),
    with R the largest rating. The user has 10 other ratings in the first pair, and 100 in the
    second.
    """
    # The rating changes its user's pre-trained embedding, and so the gradients of the user's other
    # ratings.
    system = HflSgdmf()
    for count in (10, 100):
        shift = compute_shift_by_rating(system.bound, ratings=count, n_fit_steps=system.fitting)
        yield 1.0, shift / _NORM, {"count": count}


def compare_message_shifts() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of changes of a message by one more rating: claimed, and computed.

    A message of LFL-SGDMF is the gradient of one rating. The unit is 2 R^(3/2), with R the largest
    rating. The computed number is a lower bound on the largest change.
    """
    system = LflSgdmf()
    yield 1.0, sgd_mf.find_message_distance(system.bound, system.factors, system.fitting) / _NORM


def compare_theorem_4_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields four pairs of epsilons of a user over several parties: by Theorem 4, and composed.

    By Theorem 4 the squares of the parties' epsilons add up. The composed epsilon is exact. The
    first three pairs are for sampled Gaussians:

    - ten parties, with exact party epsilons;
    - 18 parties, with party epsilons by the authors' package;
    - 18 parties, with party epsilons by Theorem 1;
    - ten parties with a mechanism of epsilon 1 at delta 0.
    """
    parties = 10
    one = _account(Z_1000_STEPS, STEPS)
    yield math.sqrt(parties) * one, _account(Z_1000_STEPS, parties * STEPS)
    count = 18
    for by in (get_authors_epsilon, sgd_mf.get_theorem_1_epsilon):
        eps_k = by(Z_1000_STEPS, _ETA, STEPS, DELTA)
        yield math.sqrt(count) * eps_k, _account(Z_1000_STEPS, count * STEPS)
    yield math.sqrt(parties), _compute_epsilon(dp.SelfComposedDpEvent(dp.PureDpEvent(1.0), parties))


def compare_epsilons_by_steps() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of HFL-SGDMF: of one round's 10 steps, and of all 1000 steps.

    Proposition 3 counts the T' = 10 steps of one round only; a training has T = 100 rounds.
    """
    yield _account(Z_10_STEPS, 10), _account(Z_10_STEPS, STEPS), {"z": Z_10_STEPS}


def compare_proposition_2_constants() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of ratios of two constants c of Proposition 2: claimed (1), and computed.

    c solves z^2 = c eta^2 T ln(1/delta)/eps^2, for noise multiplier z, sampling rate eta and T
    steps. The two constants are for z = 0.7 and z = 2.
    """

    def compute_constant(z: float) -> float:
        """Returns the constant c of Proposition 2 at noise multiplier ``z``."""
        epsilon = get_authors_epsilon(z, _ETA, STEPS, DELTA)
        return (z * epsilon / _ETA) ** 2 / (STEPS * -math.log(DELTA))

    yield 1.0, compute_constant(0.7) / compute_constant(2.0)


def compare_epsilons_by_accountant() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of epsilons of 1000 sampled Gaussians: by a method of the paper, and exact.

    The method is the authors' package (TensorFlow Privacy of 2021) in the first pair, and Theorem 1
    in the second.
    """
    authors = get_authors_epsilon(Z_1000_STEPS, _ETA, STEPS, DELTA)
    theorem = sgd_mf.get_theorem_1_epsilon(Z_1000_STEPS, _ETA, STEPS, DELTA)
    for said, claimed in (("TensorFlow Privacy of 2021", authors), ("Theorem 1", theorem)):
        yield claimed, _account(Z_1000_STEPS, STEPS), {"z": Z_1000_STEPS, "said": said}


def compare_replacement_delta() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of deltas of replacing a user: claimed, and exact in a counterexample.

    The paper claims twice the epsilon and twice the delta of adding or removing a user. The
    counterexample sends a random bit with one of three distributions: A, B or C. Adding or removing
    a user turns A into B, or B into C. Replacing a user turns A into C.
    """
    epsilon = 1.0
    rates = np.array([(1.0 + math.exp(epsilon)) * DELTA, DELTA, 0.0])

    def delta(one: int, other: int, at: float) -> float:
        """Returns the delta at epsilon ``at`` between two of the three distributions.

        ``one``, ``other``: indices of the two distributions; the larger delta of both orders
            counts.
        """
        law = BitFlip(float(rates[one]), float(rates[other]))
        table = np.exp(law.log_prob([[0, 1], [0, 1]], [[1, 1], [0, 0]]))
        excess = [np.maximum(a - math.exp(at) * b, 0.0).sum() for a, b in (table, table[::-1])]
        return float(max(excess))

    yield 2.0 * max(delta(0, 1, epsilon), delta(1, 2, epsilon)), delta(0, 2, 2.0 * epsilon)


def compare_pointwise_delta() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of deltas at epsilon 1: the largest over single outputs, and over output sets.

    Differential privacy is defined by sets. The mechanism sends a bit with one of 1,000 random
    tags.
    """
    tags = 1000
    table = np.zeros((2, 2 * tags))
    table[0, :tags] = table[1, tags:] = 1.0 / tags
    least = float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).max())
    yield least, float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).sum())


def compare_noise_factors() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of factors on the noise of HFL-SGDMF: 1, as the paper implies, and computed.

    HFL-SGDMF adds noise to gradient sums, and divides the result by a number of ratings.

    - First factor: the noise scale with two ratings, divided by that with one rating.
    - Second factor: noise added after the division, relative to equal noise before it.
    """
    system, n, m = HflSgdmf(), 94, 1682
    few, more = (float(system.get_step_scale(n, m, ratings)) for ratings in (1, 2))
    yield 1.0, more / few
    yield 1.0, float(sgd_mf.get_batch_size(943, _ETA)) * 100_000 / 943


def compare_tuning_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons: of one training, and of five that tune the learning rate."""
    runs = 5
    yield _account(Z_1000_STEPS, STEPS), _account(Z_1000_STEPS, runs * STEPS), {"runs": runs}


def compare_projection_error() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of errors of the projection of equation 6: claimed (0, with a tolerance of
    1e-9), and largest.

    The error is the distance to the projected point, minus that to the nearest allowed point.
    """
    yield 1e-9, find_embedding_clip_error(_R)


def compare_item_sensitivity() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of norms of one rating's gradient with respect to its item embedding: claimed,
    and largest.

    The paper uses this norm for the last steps of a training, which move item embeddings alone.
    """
    yield _NORM, find_max_gradient_norm(_R, ratings=1, with_users=False)


def compare_replacement_shifts() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of changes of a gradient sum by replacing a user: claimed, and largest.

    The gradients are with respect to item embeddings. The unit is 2 R^(3/2), with R the largest
    rating. Each user has one rating: of the same item in the first pair, of different items in the
    second.
    """
    for said, same in (("of the same item", True), ("of another item", False)):
        yield 2.0, find_max_gradient_distance(_R, is_same_item=same) / _NORM, {"said": said}


def compare_unknown_variance_share() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of shares of LFL-SGDMF's noise variance sigma^2 that the server does not know.

    Ten devices send two messages each; the second replaces the noise of the first. The tolerated
    share of dropouts is 0.3. The server sees the sum of the first messages, and also

    - for the claimed share: the sum of the second messages;
    - for the computed share: each second message.
    """
    n, omega = 10, 0.3
    first, second = 1.0 / ((1.0 - omega) * n), 1.0 / n
    sum_of_firsts = np.concatenate([np.ones(n), np.zeros(n)])
    messages = np.vstack([sum_of_firsts, np.hstack([-np.eye(n), np.eye(n)])])
    summed = np.vstack([messages[0], messages[1:].sum(axis=0)])

    def compute_unknown_share(rows: Floats) -> float:
        """Returns the noise variance that hides a gradient from a server that sees ``rows``, in
        units of sigma^2.

        ``rows``: each sum or message that the server sees, as coefficients of the 2n independent
            noises. The first row contains the gradient.
        """
        covariance = (rows * np.repeat([first, second], n)) @ rows.T
        signal = np.eye(len(rows))[0]
        return 1.0 / float(signal @ np.linalg.solve(covariance, signal))

    yield compute_unknown_share(summed), compute_unknown_share(messages)


def compare_dropout_variance_share() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of shares of noise variance that the adversary does not know.

    A pair is 1, by the paper's claim, and the computed share. In LFL-SGDMF, 20% of the devices drop
    out before each of the two messages of a round. The adversary sees

    - in the first pair: only the sum of all messages;
    - in the second pair: the sum of the first messages, and each second message.
    """
    shares = TwoRoundNoise(n_users=100, omega=0.3, masked=80, replaced=64)
    variances = {"the last sum alone": shares.claimed_variance, "all messages": shares.variance}
    for said, right in variances.items():
        yield 1.0, min(1.0, right), {"said": said}


def compare_epsilons_by_shuffling() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of the system GD-DR: with a shuffler, and without.

    The paper plots the epsilon with a shuffler. But the protocol has no shuffler, so that the
    server faces the second epsilon.
    """
    system, population = GdDr(), Population(n_users=943, n_items=1682)
    local = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    shuffled = make_local_scope(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)
    mixed = Shuffle().bound(system.get_event(shuffled, population), delta=1e-6, scope=shuffled)
    alone = Pure().bound(system.get_event(local, population), delta=0.0, scope=local)
    yield mixed.epsilon, alone.epsilon
