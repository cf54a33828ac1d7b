"""The pair that dominates one use of a leaf, and the pairs that two neighbours reach."""

from __future__ import annotations

import math

import attr
import numpy as np
from scipy import stats

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import sampling_rate
from fedrec_auditor.accountants.losses.gaussian_mixture import GaussianMixture
from fedrec_auditor.accountants.losses.pairs import (
    REVEALED,
    AtomicPair,
    GaussianPair,
    LaplacePair,
    ListedPair,
    Pair,
)
from fedrec_auditor.accountants.losses.pure import (
    THREE_POINT_EVENTS,
    ThreePointLoss,
    sampled_epsilon,
)
from fedrec_auditor.accountants.losses.sampled_pairs import (
    FixedSize,
    Poisson,
    ReplacedGaussian,
    Revealed,
)

LARGEST_LOSS = 1e7
"""Above, a loss is taken as it is: doubles have no room for a grid around it."""
_NOTHING = AtomicPair.of((0.0, 1.0))
# Deviations of a number of reports beyond which none is listed: of mass e^-200.
_DEVIATIONS = 20.0
# Local epsilon above which e^eps leaves the doubles.
_MOST_LOCAL = 500.0


def gaussian_pair(mu: float) -> Pair:
    """Normal distributions ``mu`` apart; revealed, or equal, where doubles have no room."""
    if mu > LARGEST_LOSS:
        return REVEALED
    return GaussianPair(mu) if mu > 0 else _NOTHING


def dominating_pair(leaf: dp.DpEvent) -> Pair:
    """The pair that dominates one use of ``leaf``, of a kind that the loss accountant reads."""
    if isinstance(leaf, dp.ReplacedSamplingDpEvent):
        return _replaced(leaf.event, leaf.sampling_probability)
    if hasattr(leaf, "event") and sampling_rate(leaf) == 1:
        return dominating_pair(leaf.event)
    if isinstance(leaf, dp.RevealedSamplingDpEvent):
        return Revealed(dominating_pair(leaf.event), sampling_rate(leaf))
    if isinstance(leaf, dp.SampledWithoutReplacementDpEvent):
        return FixedSize(dominating_pair(leaf.event), sampling_rate(leaf))
    if isinstance(leaf, dp.PoissonSampledDpEvent):
        return Poisson(dominating_pair(leaf.event), sampling_rate(leaf))
    if isinstance(leaf, dp.MixtureOfGaussiansDpEvent):
        return _mixture(leaf)
    if isinstance(leaf, dp.PureDpEvent) and math.isfinite(leaf.epsilon):
        return AtomicPair.pure(leaf.epsilon)
    if isinstance(leaf, THREE_POINT_EVENTS):
        pair = ThreePointLoss.of(leaf)
        if math.isinf(pair.loss):
            return AtomicPair.of((0.0, pair.uninformative), infinite=pair.likely)
        return AtomicPair.of(
            (pair.loss, pair.likely), (0.0, pair.uninformative), (-pair.loss, pair.unlikely)
        )
    noise = leaf.noise_multiplier
    if noise * LARGEST_LOSS < 1.0:
        return REVEALED
    if isinstance(leaf, dp.GaussianDpEvent):
        return gaussian_pair(1.0 / noise)
    return LaplacePair(1.0 / noise)


def attained_pairs(leaf: dp.DpEvent) -> tuple[Pair, Pair] | None:
    """What two neighbours reach in one use of ``leaf``, two pairs; None if none is known.

    The second is for the neighbours in the other order, and equal to the first where that is the
    same or is not tried. Normal and Laplace noise, randomized responses,
    revealed sampling, and the Gaussian of a record that is drawn and replaced reach the pair that
    dominates them; so does a record of a Poisson sample, present against absent, and a group of
    them (``GaussianMixture``). Under Laplace noise one that is replaced reaches what one does that
    was of no weight (``sampled_epsilon`` is reached at delta 0). A sample of fixed
    size reaches Poisson's: all other records lie at one end of what a record may be
    (``theorems.fixed_size``). A pure epsilon, and that of shuffled reports, is reached by one
    mechanism of this epsilon: randomized response on a bit.
    """
    leaf = _with_room(leaf)
    inner = getattr(leaf, "event", leaf)
    if isinstance(leaf, dp.ReplacedSamplingDpEvent) and isinstance(inner, dp.LaplaceDpEvent):
        return attained_pairs(dp.PoissonSampledDpEvent(leaf.sampling_probability, inner))
    if isinstance(inner, dp.BitFlipDpEvent):
        return (_flip(leaf.p, leaf.q), _flip(leaf.q, leaf.p)) if inner is leaf else None
    if isinstance(leaf, dp.ShuffledDpEvent):
        if leaf.epsilon > _MOST_LOCAL:
            return (_NOTHING,) * 2
        flipped = 1.0 / (1.0 + math.exp(leaf.epsilon))
        return shuffled_pairs(flipped, flipped, int(leaf.n_users))
    known = (
        *THREE_POINT_EVENTS,
        dp.GaussianDpEvent,
        dp.LaplaceDpEvent,
        dp.MixtureOfGaussiansDpEvent,
    )
    if not isinstance(inner, known):
        return None
    rate = sampling_rate(leaf)
    if rate == 0:
        return (_NOTHING,) * 2
    if isinstance(leaf, dp.SampledWithoutReplacementDpEvent) and rate < 1:
        return (Poisson(dominating_pair(inner), rate),) * 2
    return (dominating_pair(leaf),) * 2


def _with_room(leaf: dp.DpEvent) -> dp.DpEvent:
    """With as much noise as doubles have room for, where there is some: more noise tells less."""
    if isinstance(getattr(leaf, "event", None), dp.DpEvent):
        return attr.evolve(leaf, event=_with_room(leaf.event))
    if isinstance(leaf, (dp.GaussianDpEvent, dp.LaplaceDpEvent)) and leaf.noise_multiplier > 0:
        return type(leaf)(max(leaf.noise_multiplier, 2.0 / LARGEST_LOSS))
    if isinstance(leaf, dp.MixtureOfGaussiansDpEvent) and leaf.standard_deviation > 0:
        room = 2.0 * max(leaf.sensitivities) / LARGEST_LOSS
        return attr.evolve(leaf, standard_deviation=max(leaf.standard_deviation, room))
    return leaf


def _replaced(drawn: dp.DpEvent, rate: float) -> Pair:
    """Of Laplace noise all that is used is its pure epsilon."""
    noise = drawn.noise_multiplier
    if noise * LARGEST_LOSS < 1.0:
        return AtomicPair.of((0.0, 1.0 - rate), infinite=rate)
    if isinstance(drawn, dp.LaplaceDpEvent):
        return AtomicPair.pure(sampled_epsilon(1.0 / noise, rate, replaced=True))
    if rate == 1 or math.isinf(noise):
        return gaussian_pair(2.0 / noise)
    return ReplacedGaussian(1.0 / noise, rate)


def _mixture(leaf: dp.MixtureOfGaussiansDpEvent) -> Pair:
    weights: dict[float, float] = {}
    for shift, chance in zip(leaf.sensitivities, leaf.sampling_probs, strict=True):
        centre = math.inf if shift > 0 and leaf.standard_deviation == 0 else 0.0
        if leaf.standard_deviation > 0:
            centre = shift / leaf.standard_deviation
        weights[centre] = weights.get(centre, 0.0) + chance
    revealed = math.fsum(p for centre, p in weights.items() if centre > LARGEST_LOSS)
    kept = sorted((c, math.log(p)) for c, p in weights.items() if c <= LARGEST_LOSS and p > 0)
    if not kept or kept[-1][0] == 0.0:
        # A mass of log_p, which Q has whole.
        still = tuple(log_p for _, log_p in kept)
        return AtomicPair(still, still, revealed)
    centres, log_weights = zip(*kept, strict=True)
    return GaussianMixture(centres, log_weights, revealed)


def _flip(p: float, q: float) -> Pair:
    """A bit with P(1) = p against one with P(1) = q."""
    outputs = ((p, q), (1.0 - p, 1.0 - q))
    atoms = [(math.log(a / b), a) for a, b in outputs if a > 0 and b > 0]
    return AtomicPair.of(*atoms, infinite=math.fsum(a for a, b in outputs if b == 0))


def shuffled_pairs(missed: float, unlikely: float, n_users: int) -> tuple[Pair, Pair]:
    """How many of n shuffled bits are 1, by the one user's bit, and the reverse.

    By its input the one sends 0 with probability ``missed``, or 1 with probability ``unlikely``;
    all others hold the second. The number is then Binomial(n, u), or in the first case
    (1 - missed)/u (c/n) + missed/(1 - u) (1 - c/n) times as likely to be c. What is rare is left
    out.
    """
    if n_users == 1:
        return _flip(1.0 - missed, unlikely), _flip(unlikely, 1.0 - missed)
    seconds = stats.binom(n_users, unlikely)
    reach = _DEVIATIONS * float(seconds.std()) + _DEVIATIONS**2
    low, high = max(0, math.floor(seconds.mean() - reach)), math.ceil(seconds.mean() + reach)
    count = np.arange(low, min(n_users, high) + 1)
    share = count / n_users
    ratios = (1.0 - missed) / unlikely, missed / (1.0 - unlikely)
    loss = np.log(share * ratios[0] + (1.0 - share) * ratios[1])
    mass = seconds.pmf(count)
    seen = mass > 0
    loss, log_mass = loss[seen], np.log(mass[seen])
    return ListedPair.of(loss, log_mass + loss), ListedPair.of(-loss, log_mass)
