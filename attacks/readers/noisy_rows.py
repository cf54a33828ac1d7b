"""Reader of item tables in which noise changes every row; it combines the messages of all senders.

Training moves the rows of a device's items along one direction (see ``item_rows``): own items
(positives) one way, negatives the opposite way. Noise has equal size in all directions. The method
has four steps:

1. The entries of messages pass through a function that weakens the noise.
2. The direction of each user is estimated. The position of a row is how far it moved along this
   direction.
3. A mixture model of the positions of own items, of negatives and of other items is fitted to all
   messages. Its parameters are the same for all messages.
4. The evidence on an item is the likelihood ratio of own items against all other items. The
   evidence of rounds adds up.

If the messages show only noise, every log-likelihood ratio is 0.

The comment after the imports has the details. Source: derived here; the score test is Rao 1948.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import factorial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts import row_places
from fedrec_auditor.attacks.parts.row_places import CRITICAL_Z, RowPositions
from fedrec_auditor.attacks.parts.uploads import get_item_log_odds, read_item_messages
from fedrec_auditor.attacks.readers import base, item_rows
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, MessageReader
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradientsReader
from fedrec_auditor.attacks.readers.small_readers import InputWeightsReader, RankOneChangesReader
from fedrec_auditor.targets.compute import map_in_threads
from fedrec_auditor.targets.transcript import Payload, View

# One message reveals little about its direction and the sizes of steps, but all messages together
# reveal much. Noise is independent between entries. So positions that are computed from even and
# from odd columns correlate only if training moved the rows. If they do not correlate after the
# means of each user and of each item are subtracted, the messages show only noise.
#
# Details of the four steps:
#
# 1. Entries x pass through the score function of the noise, clip(x / b, -1, 1) for Laplace noise of
#    scale b and x for Gaussian noise. The spread of most entries decides which. For a small shift
#    no other function separates better.
# 2. Rows are x = z w + noise of standard deviation s, where w is the user's direction and z the
#    row's position along it. Directions w are drawn from N(0, C), where the mean Gram matrix of all
#    senders is s^2 (C + I): s^2 is its median eigenvalue, and C has the eigenvalues above those of
#    noise alone (the edge of Marchenko and Pastur 1967). Individual directions of users are
#    uniformly distributed, with the strength that single Gram matrices show (Baik, Ben Arous and
#    Peche 2005). If users share a direction, C is the covariance of their deviations from it, in
#    units of each user's own length. Directions rotate while the model learns. The correlation of a
#    user's rows between rounds, to which noise does not contribute, shows the rotation, and rows
#    are rotated back. If popularity is known, regression of items' mean rows on it gives the shared
#    direction. Each w is the most likely direction given its user's messages of all rounds
#    (expectation maximisation of probabilistic principal components). The direction for even rows
#    is fitted to odd rows, and vice versa, so that noise has variance 1 along it.
# 3. Each message has its own step size a, drawn from a normal distribution that is estimated from
#    all messages. Each item has a tilt t, which depends on how well the model has learned the item.
#    The position of a row along w is (1 + t) a for an own item, and -g_k (1 - t) a for an item
#    drawn k times as a negative, with a factor g_k from 1 to k and Poisson-distributed k. All
#    messages together give t, g_k and, if unknown, the popularity of items.
# 4. The evidence on an item is the likelihood ratio of own items against all other items. The sign
#    of the direction is the more likely sign, for all users together or with users of the opposite
#    sign reversed. With one negative per own item, the sign follows from the user's vector, if it
#    is sent. Without negatives, own items may move either way. Evidence of rounds adds up.

# Maximum number of messages that are read, per user on average.
MAX_MESSAGES_PER_USER = 8
_NUMBERS = 2**22  # maximum number of positions to which common parameters are fitted


class NoisyRowsReader(MessageReader):
    """Reader of item tables in which noise changes every row, which infers interactions.

    The start of the file describes the method. Its parameters are estimated from the messages of
    all senders, even if only some users are requested. The first and last rounds are read, with at
    most 8 messages per user on average.
    """

    # Memory: two numbers for every row of the requested users' messages, and 256 MiB.

    reference = (
        "mixture of rows along directions that are estimated from all senders, derived in "
        "attacks/readers/noisy_rows.py"
    )

    required_messages = "an item table whose rows all move"

    def can_read(self, view: View) -> bool:
        """Checks whether messages change every row of an item table.

        The result is False if a reader of messages without noise can read the view.
        """
        others = (InputWeightsReader(), RankOneChangesReader(), RankOneGradientsReader())
        moving = bool(read_item_messages(view)) and not item_rows.has_unchanged_rows(view)
        return moving and not any(reader.can_read(view) for reader in others)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions, added over rounds.

        The result also has prior log-odds of items and users, unless messages show only noise.
        """
        rounds = read_item_messages(view, per_user=MAX_MESSAGES_PER_USER)
        senders = np.unique(np.concatenate([sent.users for sent in rounds])).astype(np.int64)
        count = sum(len(sent.users) for sent in rounds) * view.public.n_items
        sample = senders[:: -(-count // _NUMBERS)]
        present = users[np.isin(users, senders)]
        negatives = view.public.settings.get("negatives", 0)
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        vectors = _sum_vectors(view, np.union1d(sample, present)) if negatives == 1 else None
        odds = get_item_log_odds(view)
        positions = row_places.fit_row_positions(rounds, sample, present, vectors, odds)
        if positions is None:
            return Evidence(users=users, log_ratio=ratio)
        common = fit_mixture(positions.select(sample), negatives, odds)
        for some in np.array_split(present, -(-count // _NUMBERS)):
            of_some = fit_log_ratios(positions.select(some), negatives, common)
            at = np.searchsorted(users, of_some.users)
            ratio[at] = np.clip(of_some.log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)
        evidence = Evidence(users=users, log_ratio=ratio, item_log_odds=common.item_log_odds)
        return replace(evidence, activity_log_odds=base.estimate_shrunk_activity(evidence))


def _sum_vectors(view: View, users: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Returns the sum over rounds of the vectors that each user sent for itself, (n, d), or None.

    The result is None if users send no vectors, or only changes of vectors.
    """
    out = None
    for _, beside in item_rows.pair_item_user_messages(view, MAX_MESSAGES_PER_USER):
        if beside is None or beside.component.kind not in (Payload.VECTOR, Payload.MODEL):
            return None  # a change of a vector does not show its direction
        present = users[np.isin(users, beside.users)]
        rows = item_rows.get_sender_vectors(beside, present)
        out = np.zeros((len(users), rows.shape[1])) if out is None else out
        out[np.searchsorted(users, present)] += rows
    return out


# Mixture model of item-row positions in noisy messages, which yields evidence on interactions.
#
# A position is how far noise and training changed an item's row along the sender's direction
# (``row_places``), in standard deviations of the noise. The model is that of
# ``readers.noisy_rows``, steps 3 and 4, fitted by expectation maximisation.

# Densities (T, M) of row positions, by the number of steps that a row moves.
DensitiesByStepCount = dict[int, NDArray[np.float32]]

_STEPS = 30
_ALIKE = 10  # number of first iterations, with one step size and one share of positives for all
_SHARE, _COUNTS = 0.05, 10.0  # initial share of own items, and its weight in items
_FARTHEST = 12.0  # largest position, in standard deviations
_MAX_DRAWS = 3  # maximum number of times that a negative is drawn
_LEVEL = 3.0  # inverse prior variance of tilts: that of a uniform distribution on [-1, 1]
_STEEPEST = 0.95  # largest tilt
_MIN_SHARE, _TINY = 1e-6, 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionMixture:
    """Parameters, common to all messages, of the mixture model of item-row positions.

    A position is how far an item's row changed along the direction in which training moves the
    sender's rows, in standard deviations of the noise. Rows of positives (items with an
    interaction) move by about one step. Rows of negatives (drawn by the device) move by about one
    step per draw, in the opposite direction.

    step_sign: sign of the positions of positives, +1 or -1
    direction_flip_threshold: a user's direction is reversed if the mean position of the user's rows
        is above this threshold, in standard deviations of this mean; infinite to reverse none
    mean_step: mean of the messages' step sizes, which are normally distributed
    step_variance: variance of the step sizes
    mean_positive_share: mean of the users' shares of positives among items, which are
        beta-distributed
    prior_weight: weight of this beta distribution as a prior, as a number of observed items
    item_log_odds: log-odds that a user of mean share interacted with each item (M,)
    positive_step_excess: (p - n) / (p + n) of each item (M,), where the item's row moves by p as a
        positive, and by n as a negative drawn once
    steps_by_draw_count: number of steps that a negative's row moves if the device draws the
        negative 0, 1, 2, or more times (4,)
    """

    # The mean position of a user's rows should be negative, because a device draws more negatives
    # than the user has positives. ``positive_step_excess`` is low for popular items, because the
    # model has already learned to recommend them.

    step_sign: float
    direction_flip_threshold: float
    mean_step: float
    step_variance: float
    mean_positive_share: float
    prior_weight: float
    item_log_odds: NDArray[np.float64]
    positive_step_excess: NDArray[np.float64]
    steps_by_draw_count: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureFit:
    """Log-likelihood ratios of users' interactions, from a mixture model of item-row positions.

    A position is how far an item's row changed along the sender's direction, in standard deviations
    of the noise.

    mixture: parameters of the model that are the same for all messages
    users: indices of the users, ascending (n,)
    log_ratio: log-likelihood ratios of interactions (n, M)
    positive_shares: share of all items that each user interacted with (n,)
    log_likelihood: log-likelihood of the positions under the model, up to a constant, with the
        prior of ``positive_step_excess``
    """

    mixture: PositionMixture
    users: NDArray[np.int64]
    log_ratio: NDArray[np.float32]
    positive_shares: NDArray[np.float64]
    log_likelihood: float


def fit_mixture(
    positions: RowPositions, negatives: float, log_odds: NDArray[np.float64] | None = None
) -> PositionMixture:
    """Fits the parameters, common to all messages, of the mixture model of item-row positions.

    A position is how far a row changed along the sender's direction: the direction in which
    training on the user's items changes rows of the item table. The components of the mixture are
    rows with and without an interaction of the sender.

    positions: positions of item rows along their sender's direction, in standard deviations of the
        noise
    negatives: number of items without interaction that a device draws per interaction
    log_odds: log-odds that a user interacted with each item, if they are known (items,)
    """
    # The sign of a direction may be unknown. So several simple models, in which all messages have
    # one step size, are fitted first: one for each pair of a sign (``step_sign``) and a threshold
    # (``direction_flip_threshold``). The full model then starts from the most likely of these fits.
    ends = (1.0, -1.0) if negatives and not positions.is_sign_known else (1.0,)
    turned: tuple[float, ...] = (np.inf,)
    if negatives > 1 and not positions.is_common_part_dominant:
        turned = (np.inf, CRITICAL_Z, 0.0) if positions.has_common_direction else (0.0,)
    firsts = [_init_mixture(positions, negatives, *way, log_odds) for way in product(ends, turned)]
    keep = log_odds is not None
    fit = partial(fit_log_ratios, positions, negatives, fit_all=True, keep_odds=keep)
    likeliest = max(firsts, key=lambda first: fit(first, n_iterations=_ALIKE).log_likelihood)
    return fit(likeliest).mixture


def _init_mixture(
    places: RowPositions,
    negatives: float,
    end: float,
    turned: float,
    items: NDArray[np.float64] | None,
) -> PositionMixture:
    """Returns initial parameters of the mixture, from the mean and variance of all positions.

    end, turned: ``step_sign`` and ``direction_flip_threshold`` of the result
    """
    # Positives are items with which the user interacted; negatives are drawn by the device. For a
    # share s of positives among items, q negatives per positive and a step a, the mean is about -(q
    # - 1) s a, and the variance above that of noise is ((q + 1) s + q^2 s^2) a^2 less the squared
    # mean.
    place, share = places.positions, _SHARE
    mean = end * float(place.mean(dtype=np.float64))
    excess = max(float(place.var(dtype=np.float64)) - 1, 0.01)
    if negatives > 1 and mean < 0:
        squares = (excess + mean**2) * (negatives - 1) ** 2 / mean**2 - negatives**2
        share = float(np.clip((negatives + 1) / max(squares, _TINY), 0.1 * _SHARE, 5 * _SHARE))
    if items is None:
        items = np.full(place.shape[1], logit(share))
    else:
        share = float(expit(items).mean())
    step = float(np.sqrt(excess / (share * (1 + negatives))))
    return PositionMixture(
        step_sign=end,
        direction_flip_threshold=turned,
        mean_step=step,
        step_variance=step**2,
        mean_positive_share=share,
        prior_weight=_COUNTS,
        item_log_odds=items,
        positive_step_excess=np.zeros(len(items)),
        steps_by_draw_count=np.arange(_MAX_DRAWS + 1.0),
    )


def fit_log_ratios(
    positions: RowPositions,
    negatives: float,
    mixture: PositionMixture,
    *,
    fit_all: bool = False,
    keep_odds: bool = False,
    n_iterations: int = _STEPS,
) -> MixtureFit:
    """Fits a mixture model of item-row positions, which gives log-ratios of interactions.

    The result has the log-likelihood ratio of every interaction, and the fitted parameters. The
    step size of each message, and each user's share of items with interactions, are always fitted.

    positions: positions of item rows along their sender's direction: the direction in which
        training on the user's items changes rows of the item table
    negatives: number of items without interaction that a device draws per interaction
    mixture: parameters that are the same for all messages, or their initial values
    fit_all: True to fit the parameters ``mixture`` too
    keep_odds: True to keep ``item_log_odds`` and ``mean_positive_share`` as they are
    n_iterations: number of iterations
    """
    # The fit is by expectation maximisation. The variance of shares between users includes the
    # uncertainty of each user's share, computed as in Louis 1982 (information of incomplete data).
    users, first, whose = np.unique(positions.senders, return_index=True, return_inverse=True)
    if not len(users):
        none, empty = np.zeros((0, positions.positions.shape[1]), np.float32), np.zeros(0)
        return MixtureFit(
            mixture=mixture, users=users, log_ratio=none, positive_shares=empty, log_likelihood=0.0
        )
    place = np.clip(mixture.step_sign * positions.positions, -_FARTHEST, _FARTHEST)
    if np.isfinite(mixture.direction_flip_threshold):
        sizes = np.add.reduceat(np.ones(len(place)), first) * place.shape[1]
        mean = np.add.reduceat(place.sum(axis=1, dtype=np.float64), first) / np.sqrt(sizes)
        place[(mean > mixture.direction_flip_threshold)[whose]] *= -1
    steps = np.full(len(place), mixture.mean_step)
    shares = np.full(len(users), mixture.mean_positive_share)
    items = place.shape[1]
    for turn in range(n_iterations + 1):
        rate = negatives * shares / (1 - shares)
        own, others = _compute_densities(place, steps, rate[whose] if negatives else None, mixture)
        of_own, rest = (_sum_densities(parts) for parts in (own, others))
        ratio = np.add.reduceat(np.log(of_own / rest), first, axis=0)
        prior = logit(shares) - logit(mixture.mean_positive_share)
        prior = mixture.item_log_odds + prior[:, None]
        odds = ratio + prior.astype(np.float32)
        if turn == n_iterations:
            break
        p_own = expit(odds)
        weight, moved = np.zeros(len(place)), np.zeros(len(place))
        tilted, level = np.zeros(items), np.full(items, _LEVEL)
        travelled = np.full((_MAX_DRAWS + 1, 2), _MIN_SHARE)
        moving = [
            (times, given, density)
            for parts, given in ((own, p_own[whose] / of_own), (others, (1 - p_own)[whose] / rest))
            for times, density in parts.items()
            if times
        ]
        of_parts = map_in_threads(partial(_sum_moments, place, steps, mixture), moving)
        for (times, _, _), (weights, moves, squares, along) in zip(moving, of_parts, strict=True):
            weight += weights
            moved += moves
            size, way = mixture.steps_by_draw_count[abs(times)], np.sign(times)
            level += size**2 * squares
            tilted += size * (along - way * size * squares)
            if times < 0:
                straight = 1 - mixture.positive_step_excess
                travelled[-times] = [-(straight @ along), straight**2 @ squares]
        expected = p_own.sum(axis=1, dtype=np.float64)
        share = mixture.mean_positive_share
        if fit_all and not keep_odds:
            share = float(np.clip(expected.mean() / items, _MIN_SHARE, 0.5))
        step, variance, counts = mixture.mean_step, mixture.step_variance, mixture.prior_weight
        if fit_all and turn < _ALIKE:
            step = max(float(moved.sum() / (weight.sum() + _TINY)), 0.0)
            variance = step**2
            steps[:], shares[:] = step, share
        else:
            sure = weight + 1 / (variance + _TINY)
            steps = np.maximum((moved + step / (variance + _TINY)) / sure, 0)
            shares = np.clip((expected + counts * share) / (items + counts), _MIN_SHARE, 0.5)
            if fit_all:
                step = float(steps.mean())
                variance = float(np.mean((steps - step) ** 2 + 1 / sure))
                doubt = np.mean(p_own * (1 - p_own), axis=1) / (share * (1 - share))
                worth = counts + items * np.clip(1 - doubt, 0, 1)
                apart = np.mean((shares - share) ** 2 + shares * (1 - shares) / worth)
                counts = max(share * (1 - share) / float(apart) - 1, 3 / share)
        if fit_all and negatives:
            if turn >= _ALIKE:
                reach = travelled[:, 0] / np.maximum(travelled[:, 1], _TINY)
                most = np.arange(_MAX_DRAWS + 1)
                mixture = replace(mixture, steps_by_draw_count=reach.clip(most > 0, most))
            tilts = np.clip(tilted / level, -_STEEPEST, _STEEPEST)
            mixture = replace(mixture, positive_step_excess=tilts)
        if fit_all:
            rate = (p_own.sum(axis=0, dtype=np.float64) + share / 2) / (len(users) + 0.5)
            rate = np.clip(rate, _MIN_SHARE, 1 - _MIN_SHARE)
            item_log_odds = mixture.item_log_odds if keep_odds else logit(rate)
            mixture = replace(
                mixture,
                mean_step=step,
                step_variance=variance,
                mean_positive_share=share,
                prior_weight=counts,
                item_log_odds=item_log_odds,
            )
    given = expit(prior).astype(np.float32)
    fit = np.log1p(given * np.expm1(np.minimum(ratio, 80))).sum(dtype=np.float64)
    penalty = _LEVEL / 2 * np.square(mixture.positive_step_excess).sum()
    fit = float(fit + np.log(rest).sum(dtype=np.float64) - penalty)
    return MixtureFit(
        mixture=mixture, users=users, log_ratio=ratio, positive_shares=shares, log_likelihood=fit
    )


def _compute_densities(
    place: NDArray[np.float32],
    steps: NDArray[np.float64],
    rate: NDArray[np.float64] | None,
    mixture: PositionMixture,
) -> tuple[DensitiesByStepCount, DensitiesByStepCount]:
    """Returns densities (T, M) of row positions for items with an interaction and for others.

    The result is two dicts. Keys are numbers of steps in the direction of interactions (negative:
    against it). Each density is weighted by the probability of its key.

    rate: mean number of draws of an item without an interaction (T,); None if such items never
        move, and items with an interaction move in either direction
    """

    # Density of rows that move ``times`` steps, weighted by the probability ``chance``.
    def normal(times: int, chance: NDArray[np.float64] | float) -> NDArray[np.float32]:
        height = np.asarray(chance, dtype=np.float32)
        away = place - steps.astype(np.float32)[:, None] * _displace_rows(times, mixture)
        return np.exp(-(away**2) / 2) * height.reshape(-1, 1)

    if rate is None:
        return {times: normal(times, 0.5) for times in (1, -1)}, {0: normal(0, 1.0)}
    drawn = [rate**k * np.exp(-rate) / factorial(k) for k in range(_MAX_DRAWS)]
    drawn.append(1 - np.sum(drawn, axis=0))
    chances = {1: 1.0} | {-k: chance for k, chance in enumerate(drawn)}
    densities = map_in_threads(lambda times: normal(times, chances[times]), chances)
    others = dict(zip(chances, densities, strict=True))
    return {1: others.pop(1)}, others


def _sum_moments(
    place: NDArray[np.float32],
    steps: NDArray[np.float64],
    mixture: PositionMixture,
    part: tuple[int, NDArray[np.float32], NDArray[np.float32]],
) -> tuple[NDArray[np.float32], ...]:
    """Returns sums of one part of the mixture, to which steps, (T,), and tilts, (M,), are fitted.

    The first two sums are over the rows of a message, the others over the messages.

    place: row positions (T, M)
    steps: step size of each message (T,)
    part: number of steps in the direction of interactions, and two factors (T, M), whose product is
        the probability that a row moved this number of steps
    """
    times, given, density = part
    chance, far, long = given * density, _displace_rows(times, mixture), steps.astype(np.float32)
    weights, squares = np.einsum("tm,m->t", chance, far**2), np.einsum("t,tm->m", long**2, chance)
    chance *= place
    return (weights, np.einsum("tm,m->t", chance, far), squares, np.einsum("t,tm->m", long, chance))


def _displace_rows(times: int, mixture: PositionMixture) -> NDArray[np.float32]:
    """Returns how far each item's row moves along the sender's direction, in step sizes, (M,).

    ``times`` is the number of steps: above 0 in the direction of items with an interaction, below 0
    against it.
    """
    way = np.sign(times)
    far = way * mixture.steps_by_draw_count[abs(times)] * (1 + way * mixture.positive_step_excess)
    return np.asarray(far, dtype=np.float32)


def _sum_densities(parts: DensitiesByStepCount) -> NDArray[np.float32]:
    return np.asarray(sum(parts.values()) + np.float32(_TINY), np.float32)
