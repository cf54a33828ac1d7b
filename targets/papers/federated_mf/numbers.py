"""Numbers that federated matrix factorization states or relies on, beside those found here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedrec_auditor.accountants.methods.pld import Pld
from fedrec_auditor.accountants.methods.pure import Pure
from fedrec_auditor.accountants.methods.shuffle import Shuffle
from fedrec_auditor.accountants.statements.bound import Side
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.noise_replacement import NoiseReplacement
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import NoiseShares
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.papers.federated_mf.gradients import (
    furthest,
    largest,
    nearest,
    turned,
    unclipped,
)
from fedrec_auditor.targets.papers.federated_mf.systems.gd_dr import GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.hfl_sgdmf import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.lfl_sgdmf import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    accounted,
    batch_size,
    by_tail_bound,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.user_fit import rating_distance
from fedrec_auditor.targets.systems.base import Population

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_R = 5.0
_ONE = 2.0 * _R * math.sqrt(_R)
_ETA, STEPS, DELTA = 0.01, 1000, 1e-5
EXACT = 1.4144  # z for which T T' = 1000 Poisson-sampled steps are worth epsilon 1
TEN = 0.7791  # z for which ten of them are
_USER = scope_of(Unit.USER)


def _epsilon(event: DpEvent, delta: float = DELTA) -> float:
    return Pld().bound(event, delta=delta, scope=_USER).epsilon


def _sampled(z: float, steps: int) -> float:
    """Epsilon of Poisson-sampled Gaussians, as the paper's accountant means them."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    one = PoissonSampledDpEvent(_ETA, GaussianDpEvent(z))
    return _epsilon(SelfComposedDpEvent(one, steps))


_TABLES = (("V", _ONE, False), ("U and V", math.sqrt(2.0) * _ONE, True))


def sensitivities() -> Iterator[Computed]:
    """The largest gradient of one rating."""
    for table, said, joint in _TABLES:
        yield Computed(
            what=f"longest gradient of one rating in {table}, R = 5",
            claimed=said,
            right=largest(_R, ratings=1, joint=joint),
            how="all u, v of equation 6 and ratings on a grid, with the systems' gradients",
        )


def per_user() -> Iterator[Computed]:
    """The largest gradient of a user of theta ratings."""
    theta = 5
    for table, one, joint in _TABLES:
        yield Computed(
            what=f"longest gradient of a user of theta = 5 ratings in {table}, R = 5",
            claimed=theta * one,
            right=largest(_R, ratings=theta, joint=joint),
            upper=True,
            how=f"as for one rating, {theta} of them: gradients in V are on rows of their own",
        )


def replaced() -> Iterator[Computed]:
    """Four of the settings in which Theorem 5 fails."""
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
        yield Computed(
            what=f"epsilon of T = 10 rounds at sigma/Delta = {z:g}, omega = {omega}",
            claimed=system.claimed,
            right=_epsilon(Repeated(seen, system.rounds).event()),
            tolerance=1e-6,
            how="both rounds of messages, without dropouts: variance sigma^2/(2 - omega)",
        )


def unprojected() -> Iterator[Computed]:
    """Without the projection of V."""
    yield Computed(
        what="longest gradient of one rating if V is not projected, R = 5",
        claimed=_ONE,
        right=unclipped(_R, length=10.0),
        side=Side.LOWER,
        how="2 |u| |x - u.v|, which grows with v without end, at an item ten times as long as "
        "equation 6 allows; Figure 3d does not project V",
    )


def rows() -> Iterator[Computed]:
    """A rating of a row that is drawn or not."""
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

    from fedrec_auditor.accountants.events.leaves import RevealedSamplingDpEvent

    told = RevealedSamplingDpEvent(_ETA, GaussianDpEvent(EXACT))
    yield Computed(
        what="epsilon of a rating in 1,000 steps on one row in a hundred, delta 1e-5",
        claimed=_sampled(EXACT, STEPS),
        right=_epsilon(SelfComposedDpEvent(told, STEPS)),
        side=Side.UPPER,
        how=(
            f"the mean over K ~ Binomial(1000, 0.01) of sqrt(K)/z at z = {EXACT}, for which "
            "the Poisson accountant says 1: so it is to who sees every noisy gradient, and the "
            "server of this setting sees sums of them"
        ),
    )


def embeddings() -> Iterator[Computed]:
    """What one rating moves through a fitted embedding."""
    system = HflSgdmf()
    for count in (10, 100):
        yield Computed(
            what=f"how far one rating moves a step's sum, in 2 R^(3/2), with {count} other ratings",
            claimed=1.0,
            right=turned(system.bound, ratings=count, fitting=system.fitting) / _ONE,
            side=Side.LOWER,
            how="a first V at which one rating turns the fitted embedding, and with it all rows",
        )


def drawn() -> Iterator[Computed]:
    """The same for a device that draws a rating."""
    system = LflSgdmf()
    yield Computed(
        what="how far one rating moves what a device sends, in 2 R^(3/2), with another one",
        claimed=1.0,
        right=rating_distance(system.bound, system.factors, system.fitting) / _ONE,
        how="fitted with it and without, at a first V that turns; the nearer of what is drawn",
    )


def root_sum() -> Iterator[Computed]:
    """Ten parties, with the paper's mechanism and with any."""
    from dp_accounting import SelfComposedDpEvent

    from fedrec_auditor.accountants.events.leaves import PureDpEvent

    parties = 10
    one = _sampled(EXACT, STEPS)
    yield Computed(
        what="epsilon of ten parties of 1,000 sampled steps each, eps_k = 1, delta 1e-5",
        claimed=math.sqrt(parties) * one,
        right=_sampled(EXACT, parties * STEPS),
        tolerance=1e-3,
        how="10,000 sampled Gaussians composed",
    )
    count = 18
    for said, eps_k in (
        ("TensorFlow Privacy's 1.105", accounted(EXACT, _ETA, STEPS, DELTA)),
        ("Theorem 1's 1.355", by_tail_bound(EXACT, _ETA, STEPS, DELTA)),
    ):
        yield Computed(
            what=f"epsilon of {count} parties, one rating of the user each, eps_k = {said}",
            claimed=math.sqrt(count) * eps_k,
            right=_sampled(EXACT, count * STEPS),
            upper=True,
            how="18,000 sampled Gaussians composed",
        )
    yield Computed(
        what="epsilon of ten parties of any mechanism of pure epsilon 1, delta 1e-5",
        claimed=math.sqrt(parties),
        right=_epsilon(SelfComposedDpEvent(PureDpEvent(1.0), parties)),
        how="ten randomized responses: the sum of epsilons, all but 1e-5 of the time",
    )


def counted() -> Iterator[Computed]:
    """T' steps, and T T' of them."""
    yield Computed(
        what="epsilon of T T' = 1,000 steps where Proposition 3 accounts T' = 10, delta 1e-5",
        claimed=_sampled(TEN, 10),
        right=_sampled(TEN, STEPS),
        how=f"the same accountant at z = {TEN}, for as many steps as are taken",
    )


def constants() -> Iterator[Computed]:
    """c of z^2 = c eta^2 T ln(1/delta)/eps^2 at two budgets."""

    def constant(z: float) -> float:
        epsilon = accounted(z, _ETA, STEPS, DELTA)
        return (z * epsilon / _ETA) ** 2 / (STEPS * -math.log(DELTA))

    yield Computed(
        what="c1 of Proposition 2 at z = 0.7 over that at z = 2",
        claimed=1.0,
        right=constant(0.7) / constant(2.0),
        how="solved for c1, with the epsilon that the authors' package gives",
    )


def exactness() -> Iterator[Computed]:
    """What the authors' package gives, and what Theorem 1 does, beside the truth."""
    for said, claimed in (
        ("TensorFlow Privacy of 2021", accounted(EXACT, _ETA, STEPS, DELTA)),
        ("Theorem 1", by_tail_bound(EXACT, _ETA, STEPS, DELTA)),
    ):
        yield Computed(
            what=f"epsilon of 1,000 sampled steps at z = {EXACT}, delta 1e-5, by {said}",
            claimed=claimed,
            right=_sampled(EXACT, STEPS),
            upper=True,
            tolerance=1e-3,
            how="privacy loss distributions, which bound the same steps from both sides",
        )


def both_ways() -> Iterator[Computed]:
    """A user, none, another one: three laws of one bit, each next to the one in the middle."""
    epsilon = 1.0
    rates = np.array([(1.0 + math.exp(epsilon)) * DELTA, DELTA, 0.0])

    def delta(one: int, other: int, at: float) -> float:
        law = BitFlip(float(rates[one]), float(rates[other]))
        table = np.exp(law.log_prob([[0, 1], [0, 1]], [[1, 1], [0, 0]]))
        return max(
            float(np.maximum(a - math.exp(at) * b, 0.0).sum()) for a, b in (table, table[::-1])
        )

    worst = max(delta(0, 1, epsilon), delta(1, 2, epsilon))
    yield Computed(
        what="delta of a replacement at 2 eps, where presence has delta 1e-5 at eps = 1",
        claimed=2.0 * worst,
        right=delta(0, 2, 2.0 * epsilon),
        tolerance=1e-9 * DELTA,
        how="a bit shown with probability (1 + e^eps) delta, delta or 0: exact divergences",
    )


def pointwise() -> Iterator[Computed]:
    """An input that is sent with one of 1,000 random tags: no output is likely."""
    tags = 1000
    table = np.zeros((2, 2 * tags))
    table[0, :tags] = table[1, tags:] = 1.0 / tags
    least = float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).max())
    yield Computed(
        what="delta at eps = 1 of a bit sent in the clear, beside one of 1,000 random tags",
        claimed=least,
        right=float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).sum()),
        how="over sets of outputs, where Definition 1 looks at one output after the other",
    )


def divisor() -> Iterator[Computed]:
    """What division by a count of ratings does to noise."""
    system, n, m = HflSgdmf(), 94, 1682
    few, more = (float(system.step_scale(n, m, ratings)) for ratings in (1, 2))
    yield Computed(
        what="scale of the noise of a party with two ratings, beside one with one",
        claimed=1.0,
        right=more / few,
        how="gradient and noise are divided by the number of ratings, which is in the data",
    )
    yield Computed(
        what="noise multiplier if noise for a sum is added after the division, ML-100K",
        claimed=1.0,
        right=float(batch_size(943, _ETA)) * 100_000 / 943,
        how="the sum is divided by n' m' tau, and noise of z Delta added to what is left",
    )


def tuning() -> Iterator[Computed]:
    """Trainings with several learning rates."""
    runs = 5
    yield Computed(
        what=f"epsilon if {runs} learning rates are tried on the training data, eps = 1 each",
        claimed=_sampled(EXACT, STEPS),
        right=_sampled(EXACT, runs * STEPS),
        tolerance=1e-3,
        how="all trainings composed, of which the best is chosen by its training loss",
    )


def projection() -> Iterator[Computed]:
    """How near to the closest feasible point the projection ends."""
    yield Computed(
        what="how much farther than the nearest feasible point the projection ends",
        claimed=1e-9,
        right=nearest(_R),
        below=True,
        how="sixty points beside a grid of the set: negative entries to 0, then the norm",
    )


def last_steps() -> Iterator[Computed]:
    """The largest gradient of one rating in V alone."""
    yield Computed(
        what="longest gradient of one rating in the last kappa steps, on items alone, R = 5",
        claimed=_ONE,
        right=largest(_R, ratings=1, joint=False),
        how="all u, v of equation 6 and ratings on a grid, with the systems' gradients",
    )


def replaced_rating() -> Iterator[Computed]:
    """A user of one rating is replaced by another one: the longest difference of two gradients."""
    for said, same in (("of the same item", True), ("of another item", False)):
        yield Computed(
            what=f"how far a user's rating moves a sum in V, in 2 R^(3/2), replaced by one {said}",
            claimed=2.0,
            right=furthest(_R, same=same) / _ONE,
            upper=True,
            tolerance=1e-3,
            how="two users' embeddings and ratings, an item or two, on a grid, with the systems' "
            "gradients",
        )


def in_the_clear() -> Iterator[Computed]:
    """Round 2's messages one by one, and their sum: what they leave unknown of the first noise."""
    n, omega = 10, 0.3
    first, second = 1.0 / ((1.0 - omega) * n), 1.0 / n
    each = np.vstack(
        [
            np.concatenate([np.ones(n), np.zeros(n)]),
            np.hstack([-np.eye(n), np.eye(n)]),
        ]
    )
    summed = np.vstack([each[0], each[1:].sum(axis=0)])

    def left(seen: Floats) -> float:
        """Least variance of an unbiased estimate of what is added to the first row's noise."""
        covariance = (seen * np.repeat([first, second], n)) @ seen.T
        signal = np.eye(len(seen))[0]
        return 1.0 / float(signal @ np.linalg.solve(covariance, signal))

    yield Computed(
        what="share of sigma^2 left unknown by single messages of round 2, beside by their sum",
        claimed=left(summed),
        right=left(each),
        how="the best linear estimate from all that is seen, which is normal: ten users, omega 0.3",
    )


def dropped_out() -> Iterator[Computed]:
    """A fifth drop out in either round."""
    shares = NoiseShares(n_users=100, omega=0.3, masked=80, replaced=64)
    for said, right in (
        ("the last sum alone", shares.claimed_variance),
        ("all messages", shares.variance),
    ):
        yield Computed(
            what=f"share of sigma^2 unknown to who sees {said}, omega 0.3, 20% drop out twice",
            claimed=1.0,
            right=min(1.0, right),
            how="the variance of the best estimate of one gradient, 1 or more being enough",
        )


def amplified() -> Iterator[Computed]:
    """GD-DR's local epsilon, and the central one that it is plotted at."""
    system, population = GdDr(), Population(n_users=943, n_items=1682)
    local, shuffled = (
        any_pair(Unit.USER, vantage, Horizon.TRAINING)
        for vantage in (Vantage.SERVER, Vantage.SHUFFLED)
    )
    event = system.event(shuffled, population)
    yield Computed(
        what="epsilon of GD-DR against its server, plotted at what a shuffle of 943 users buys",
        claimed=Shuffle().bound(event, delta=1e-6, scope=shuffled).epsilon,
        right=Pure().bound(system.event(local, population), delta=0.0, scope=local).epsilon,
        how="nothing stands between devices and server: all reports of a device, ten of epsilon 1",
    )
