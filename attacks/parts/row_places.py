"""Positions of item rows along each sender's direction, and tests of the order of rows.

Training on a user's items changes rows of a noisy item table along the sender's direction. A row's
position is how far it changed along this direction. The tests check which row of a table belongs to
which item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import betainc, expit

from fedrec_auditor.attacks.parts.uploads import ChangeBlock, ModelMessages, divide_or_zero

# Positions of the rows of noisy item tables along the direction of their sender.
#
# The entries of every message pass through the score function of the noise. Their rows are then
# x = z w + noise of standard deviation s, where w is the sender's direction and z the position of
# the row along it: see ``readers.noisy_rows``, steps 1 and 2.

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]

_PEAKED = 0.752  # mean size over root mean square: .707 for a Laplace, .798 for a normal law
_STEPS = 30
CRITICAL_Z = 3.3  # z-score that noise exceeds with probability 1/1000 (normal, Tracy-Widom)
_CHANCE = 1e-3  # maximum probability that a random vector is as near to a direction
_TURNED = 0.9  # maximum share of the overlap after turning that rounds may have before it
_AT_ONCE = 2**23  # how many numbers of messages are in memory at once
_MIN_LEN, _TINY = 1e-3, 1e-30


@dataclass(frozen=True, slots=True)
class RowPositions:
    """Positions of the item rows of messages along the direction of each message's sender.

    A user's direction is the vector along which the user's interactions change rows of the item
    table. This vector is the sum of a common part, which all users share, and the user's own part.

    senders: index of the user who sent each of T messages, ascending (T,)
    positions: position of each of the M item rows of each message along the sender's direction, in
        standard deviations of the noise (T, M)
    has_common_direction: True if the data show a common part that is not zero, so that the
        directions point the same way
    is_common_part_dominant: True if the common part is longer than a typical own part
    is_sign_known: True if the signs of the directions follow from vectors that users sent; False if
        the directions are fitted to noisy rows alone
    """

    senders: NDArray[np.int64]
    positions: NDArray[np.float32]
    has_common_direction: bool
    is_common_part_dominant: bool
    is_sign_known: bool

    def select(self, users: NDArray[np.int64]) -> RowPositions:
        """Returns a copy that has only the messages that ``users`` (indices) sent."""
        rows = np.isin(self.senders, users)
        return replace(self, senders=self.senders[rows], positions=self.positions[rows])


def fit_row_positions(
    rounds: Sequence[ModelMessages],
    sample: NDArray[np.int64],
    users: NDArray[np.int64],
    vectors: Floats | None = None,
    item_log_odds: Floats | None = None,
) -> RowPositions | None:
    """Computes the position of each item row along the direction of each message's sender.

    The result is None if the messages show nothing but noise.

    rounds: messages about the item table, by rounds
    sample: users from whom the parameters that all users share are estimated, ascending
    users: users whose positions are needed, ascending
    vectors: vectors that the users of ``sample`` and ``users`` sent, one row per user in ascending
        order, which give the sign of directions; None without them
    item_log_odds: log-odds of the items, if their popularity is known (items,); else None
    """
    # Positions are computed twice, from even and from odd columns, whose noise is independent. If
    # these positions do not correlate after the means of each message and of each item are
    # subtracted, there is only noise. Cost: three passes over the messages.
    union = np.union1d(sample, users)
    width, items = rounds[0].component.shape[1], rounds[0].component.shape[0]
    turns = _align_rounds(rounds, sample)
    grams = np.zeros((len(union), 2, width, width), dtype=np.float32)
    counts, sums, pooling = np.zeros(len(union)), np.zeros((items, width)), np.isin(union, sample)
    for sent, turn in zip(rounds, turns, strict=True):
        multiply = partial(_make_grams, turn, pooling)
        for whose, products, totals, moved in sent.map_changes(union, multiply):
            grams[whose] += products
            for half in (0, 1):
                sums[half::2] += totals[half]
            counts[whose] += moved
    usable = pooling & (counts > 0)
    sizes = np.array([-(-items // 2), items // 2])
    if not usable.any() or items < 2:
        return None
    n_sent = counts[usable].sum()
    pooled = np.einsum("nhde->hde", grams[usable], dtype=np.float64) / n_sent
    shared = _fit_shared_axes(pooled / sizes[:, None, None], sums / n_sent, n_sent, item_log_odds)
    noise = float(np.median(np.linalg.eigvalsh(pooled.sum(axis=0)))) / items
    if not noise:
        return None
    grams /= np.float32(noise)
    along = np.zeros((len(union), 2, width))
    signed = alike = True
    for half, rest in ((0, 1), (1, 0)):  # directions for half of the rows, from the other half
        mean = pooled[rest] / sizes[rest] / noise
        beyond_noise, more, along[:, half] = _fit_directions(
            grams[:, rest].astype(np.float64), counts * sizes[rest], mean, usable, shared[rest]
        )
        signed, alike = signed and beyond_noise, alike and more
    along[:, 1] *= _sign(np.einsum("nd,nd->n", along[:, 0], along[:, 1]))[:, None]
    if signed:
        both = along.sum(axis=1)
        main = np.linalg.eigh(both.T @ both)[1][:, -1]
        along *= _sign(both @ main)[:, None, None]
    mean = np.einsum("rhde,nhe->nd", turns[:, ::-1], along)
    ends = None if vectors is None else _find_signs(mean, vectors, signed)
    if ends is not None:
        along *= ends[:, None, None]
    placed = _locate_rows(rounds, turns, union, along / np.sqrt(noise), usable)
    return None if placed is None else RowPositions(*placed, signed, alike, ends is not None)


def _make_grams(turn: Floats32, pooling: NDArray[np.bool_], block: ChangeBlock) -> tuple[Any, ...]:
    """Returns senders, Gram matrices of their even and odd rows, sums of messages, and a mask.

    The Gram matrices are (n, 2, d, d). The sums, for even and for odd rows, are over the
    ``pooling`` users. The mask is True for messages that are not zero.
    """
    whose, rows, moved = _score_noise(block)
    parts = [rows[:, half::2] @ turn[half] for half in (0, 1)]
    grams = np.stack([part.transpose(0, 2, 1) @ part for part in parts], axis=1)
    return whose, grams, [part[pooling[whose]].sum(axis=0) for part in parts], moved


def _align_rounds(rounds: Sequence[ModelMessages], users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns orthogonal matrices that rotate the rows of each round to a common frame.

    The result is (R, 2, d, d) for R rounds, and for even and odd rows. Users' directions in the
    item table rotate while the model learns. A matrix is the identity unless a rotation is
    significant. The method is orthogonal Procrustes.
    """
    # Consecutive rounds with about one message per user share a matrix.
    width = rounds[0].component.shape[1]
    first = np.cumsum([0] + [len(sent.users) for sent in rounds[:-1]]) // max(len(users), 1)
    groups = np.unique(first, return_inverse=True)[1]
    turns = np.tile(np.eye(width, dtype=np.float32), (groups[-1] + 1, 2, 1, 1))
    if len(turns) == 1:
        return turns[groups]
    grams = _cross_grams(rounds, groups, users)
    surest = np.argmax(np.trace(grams, axis1=-2, axis2=-1).sum(axis=-1).diagonal())
    for group, half in np.ndindex(turns.shape[:2]):
        gram = grams[group, surest, half]
        left_vectors, sizes, right_vectors = np.linalg.svd(gram + _MIN_LEN * np.eye(width))
        if np.trace(gram) + CRITICAL_Z * np.sqrt(width) < _TURNED * sizes.sum():
            turns[group, half] = left_vectors @ right_vectors
    return turns[groups]


def _score_noise(block: ChangeBlock) -> ChangeBlock:
    """Returns senders, noise scores of their messages, and which messages are not zero."""
    return block[0], apply_score_function(block[1]), np.asarray(block[1].any(axis=(1, 2)))


def _cross_grams(
    rounds: Sequence[ModelMessages], groups: NDArray[np.intp], users: NDArray[np.int64]
) -> Floats:
    """Returns Gram matrices of item rows between groups of rounds, without noise.

    The result is (G, G, 2, d, d) for G groups of rounds, for even and odd rows. A matrix adds up,
    over users and items, the outer product of the row in one group and the row in another. From
    each item's row the mean over users is subtracted.
    """
    items, width = rounds[0].component.shape
    kinds = int(groups[-1]) + 1
    cross = np.zeros((2, kinds * width, kinds * width))
    sums, sent_by = np.zeros((items, kinds, width)), np.zeros((len(users), kinds))
    block = max(_AT_ONCE // (kinds * items * width), 1)
    for start in range(0, len(users), block):
        some = users[start : start + block]
        rows = np.zeros((len(some), items, kinds, width), dtype=np.float32)
        for group, sent in zip(groups, rounds, strict=True):
            for whose, scores, moved in sent.map_changes(some, _score_noise):
                rows[whose, :, group] += scores
                sent_by[start + whose, group] += moved
        sums += rows.sum(axis=0)
        for half in (0, 1):
            flat = rows[:, half::2].reshape(-1, kinds * width)
            cross[half] += flat.T @ flat
    senders = np.maximum(np.count_nonzero(sent_by, axis=0), 1)
    means = sums / np.sqrt(senders)[:, None]
    # Noise is independent between rounds, while a user's items stay the same. The matrices keep
    # only the leading eigenvectors. Under noise alone the entries have variance 1, and the spectrum
    # follows Wigner's semicircle.
    return np.stack([_denoise(cross[half], means[half::2], sent_by) for half in (0, 1)], axis=2)


def _denoise(cross: Floats, means: Floats, sent_by: Floats) -> Floats:
    """Removes noise from the sums of products of rows between groups of rounds, (G, G, d, d).

    cross: sums of products of rows between groups (G d, G d)
    means: mean rows of items, whose products are subtracted (m, G, d)
    sent_by: number of messages of each user in each group (n, G)
    """
    items, kinds, width = means.shape
    flat = means.reshape(items, -1)
    cross = cross - flat.T @ flat
    blocks = cross.reshape(kinds, width, kinds, width)
    own = np.einsum("gdge->de", blocks)
    noise = max(float(np.median(np.linalg.eigvalsh(own))) / max(sent_by.sum() * items, 1), _TINY)
    pairs = sent_by.T @ sent_by * items
    np.fill_diagonal(pairs, 0)
    deviation = noise * np.sqrt(pairs)[:, None, :, None]
    blocks[:] = divide_or_zero(blocks, deviation)
    values, vectors = np.linalg.eigh(cross)
    values[values <= 2 * np.sqrt(len(cross)) + CRITICAL_Z * len(cross) ** (-1 / 6)] = 0
    signal: Floats = (vectors * values) @ vectors.T
    return signal.reshape(kinds, width, kinds, width).transpose(0, 2, 1, 3)


def _fit_shared_axes(grams: Floats, means: Floats, messages: float, items: Floats | None) -> Floats:
    """Returns the common direction in which positives of all users change rows, (2, d).

    There is one direction for even and one for odd rows.

    grams: mean Gram matrix of a row, for even and odd rows (2, d, d)
    means: mean row of each item (M, d)
    messages: number of messages
    items: log-odds of the items, if popularity is known (M,)
    """
    width = means.shape[1]
    # The direction is in the span of the eigenvectors above the noise. The mean row of an item
    # grows with the share of users who interacted with the item, so that regression on known shares
    # gives the direction. Without known shares the direction is the strongest eigenvector.
    ways = np.zeros((2, width))
    for half in (0, 1):
        profile = means[half::2]
        size = messages * len(profile)
        values, basis = np.linalg.eigh(grams[half])
        noise = max(float(np.median(values)), _TINY)
        signal = values > noise * _noise_edge(np.array(width / size), np.array(size))
        slope = np.eye(width)[-1]
        if items is not None:
            profile = profile @ basis
            profile -= profile.mean(axis=0)
            shares = expit(items[half::2])
            shares -= shares.mean()
            total = max(float(shares @ shares), _TINY)
            known = shares @ profile / total
            error = np.mean((profile - shares[:, None] * known) ** 2, axis=0) / total
            known *= np.maximum(1 - error / np.maximum(known**2, _TINY), 0)
            slope = known if (known * signal).any() else slope
        ways[half] = basis @ (slope * signal)
        ways[half] /= max(np.linalg.norm(ways[half]), _TINY)
    return ways


def _find_signs(along: Floats, vectors: Floats, signed: bool) -> Floats | None:
    """Returns +1 if a user's direction points along the user's vector, else -1, (n,).

    The result is None if no vector is nearer to its direction than by chance.

    along: directions of the users (n, d)
    vectors: vectors that the users sent (n, d)
    signed: True if all directions point the same way
    """
    toward = np.einsum("nd,nd->n", along, vectors)
    squares = (along**2).sum(axis=1) * (vectors**2).sum(axis=1)
    apart = 1 - toward**2 / np.maximum(squares, _TINY)
    sure = betainc(max(vectors.shape[1] - 1, 1) / 2, 0.5, apart.clip(0, 1)) < _CHANCE
    if not sure.any():
        return None
    # Some vectors are as far from the direction as a random vector. If ``signed``, the sign for
    # their users is the joint sign of the nearer vectors.
    return np.where(sure | (not signed), _sign(toward), _sign(toward[sure].sum()))


def _locate_rows(
    rounds: Sequence[ModelMessages],
    turns: NDArray[np.float32],
    union: NDArray[np.int64],
    along: Floats,
    usable: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
    owners, parts = [], []
    for sent, turn in zip(rounds, turns, strict=True):
        for whose, positions in sent.map_changes(union, partial(_locate, turn, along)):
            owners.append(whose)
            parts.append(positions)
    whose = np.concatenate(owners)
    order = np.argsort(whose, kind="stable")
    positions, whose = np.concatenate(parts, axis=1)[:, order], whose[order]
    if not _is_correlated(positions[:, usable[whose]]):
        return None
    return union[whose], positions.sum(axis=0)


def _locate(turn: Floats32, along: Floats, block: ChangeBlock) -> tuple[NDArray[np.intp], Floats32]:
    """Returns senders of messages that are not zero, and positions of their rows from even and from
    odd columns (2, n, M).
    """
    whose, rows, moved = _score_noise(block)
    positions = np.zeros((2, *rows.shape[:2]), dtype=np.float32)
    ways = np.einsum("hde,nhe->nhd", turn[::-1], along[whose]).astype(np.float32)
    for half in (0, 1):
        for column in (0, 1):
            along_ways = rows[:, half::2, column::2] @ ways[:, half, column::2, None]
            positions[column, :, half::2] = along_ways[:, :, 0]
    return whose[moved], positions[:, moved]


def _is_correlated(place: NDArray[np.float32]) -> bool:
    """Checks whether two independent estimates of the rows' positions correlate significantly.

    place: positions of M rows in T messages, along their sender's direction, from even and from odd
        columns (2, T, M)
    """
    rest = place - place.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=2, keepdims=True)
    products = (rest[0] * rest[1]).astype(np.float64)
    return bool(products.sum() > CRITICAL_Z * np.sqrt((products**2).sum()))


def _fit_directions(
    grams: Floats, rows: Floats, mean: Floats, usable: NDArray[np.bool_], shared: Floats
) -> tuple[bool, bool, Floats]:
    """Estimates the directions of users, (n, d), in which their items change rows.

    Returns two flags and the directions, of length 1 or 0. The first flag is True if ``mean`` has
    an eigenvalue above those of noise. The second flag is True if the common part of the directions
    is longer than the users' own parts.

    grams: Gram matrix of each user's rows, of noise variance 1 (n, d, d)
    rows: number of rows in each Gram matrix (n,)
    mean: mean Gram matrix per row (d, d)
    usable: mask of the users from whom common parameters are estimated (n,)
    shared: common direction, or zero (d,)
    """
    width = len(mean)
    values, basis = np.linalg.eigh(mean)
    signal = values > _noise_edge(np.array(width / rows[usable].sum()), rows[usable].sum())
    own = grams - (basis * signal) @ basis.T @ grams  # outside the common directions
    own = own - own @ ((basis * signal) @ basis.T)
    single = _squared_lengths(own[usable], rows[usable], width - int(signal.sum())).mean() / width
    variances = np.where(signal, values - 1, 0) + single
    if not variances.any():
        variances[-1] = _TINY
    turned = basis.T @ grams @ basis
    middle = shared @ basis
    common = bool(shared.any())
    strength = _squared_lengths(grams, rows, width)[:, None] if common else 1.0
    if common:
        far = np.einsum("d,nde,e->n", middle, turned, middle)
        squared = np.maximum(far / np.maximum(rows, 1) - 1, _MIN_LEN)
        lengths = np.sqrt(squared)[:, None]
        vectors = lengths * middle
        variances = variances / squared[usable].mean()
    else:
        lengths = np.ones((len(grams), 1))
        vectors = np.linalg.eigh(turned)[1][:, :, -1]
        if signal.any():
            vectors = np.tile(np.sqrt(variances) * signal, (len(grams), 1))
    for _ in range(_STEPS):
        size = 1 + np.einsum("nd,nd->n", vectors, vectors)[:, None]
        projected = np.einsum("nde,ne->nd", turned, vectors) / size
        squares = rows[:, None] / size + np.einsum("nd,nd->n", vectors, projected)[:, None] / size
        spread = np.maximum(lengths**2, strength) * variances
        vectors = (spread * projected + lengths * middle) / (squares * spread + 1)
        if common:
            doubt = spread / (squares * spread + 1)
            lengths = np.maximum(projected @ middle[:, None] / np.maximum(squares, _TINY), _MIN_LEN)
            weight = np.sum(lengths[usable] ** 2)
            middle = np.sum((lengths * vectors)[usable], axis=0) / weight
            middle /= np.linalg.norm(middle)
            away = (vectors - lengths * middle) ** 2 + doubt
            variances = np.sum(away[usable], axis=0) / weight
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if common and float(variances.sum()) > 1:  # users share less than they differ by
        return _fit_directions(grams, rows, mean, usable, np.zeros(width))
    return bool(signal.any()), common, (vectors / np.maximum(lengths, _TINY)) @ basis.T


def _squared_lengths(grams: Floats, rows: Floats, width: int) -> Floats:
    """Returns squared lengths (n,) of users' directions; 0 if noise explains the Gram matrix.

    grams: Gram matrices of rows, of noise variance 1 (n, d, d)
    rows: number of rows in each (n,)
    width: number of columns with noise
    """
    ratio = np.maximum(width, 1) / np.maximum(rows, 1)
    top = np.linalg.eigvalsh(grams)[:, -1] / np.maximum(rows, 1)
    above = top - 1 - ratio
    strength = (above + np.sqrt(np.maximum(above**2 - 4 * ratio, 0))) / 2
    return np.where(top > _noise_edge(ratio, rows), strength, 0)


def _noise_edge(ratio: Floats, rows: NDArray[np.float64]) -> Floats:
    """Returns a value that the largest eigenvalue of a Gram matrix of noise rarely exceeds.

    The probability of a larger eigenvalue is one in a thousand. Source: Marchenko and Pastur's
    edge, and Tracy and Widom's fluctuations (Johnstone 2001).

    ratio: number of columns per row
    rows: number of rows
    """
    root = np.sqrt(ratio)
    beyond = np.maximum(rows, 1) ** (-2 / 3) * np.maximum(ratio, _TINY) ** (-1 / 6)
    return np.asarray((1 + root) ** 2 + CRITICAL_Z * beyond * (1 + root) ** (4 / 3))


def _sign(values: Floats) -> Floats:
    return np.where(values < 0, -1.0, 1.0)


def apply_score_function(changes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Applies the score function of a message's noise to its changes of an item table.

    The score function is the derivative of the noise's negative log-density, in units of the
    noise's scale:

    - for Laplace noise, the number clipped to [-1, 1];
    - for normal noise, the number itself.

    The noise of a message is assumed to be Laplace if its entries are peaked, else normal.

    changes: changes of the M rows of d numbers by each of n messages (n, M, d)
    """
    size = np.abs(changes)
    mean = size.mean(axis=(1, 2), keepdims=True)
    root = np.sqrt(np.mean(size**2, axis=(1, 2), keepdims=True))
    scale = np.maximum(mean, np.finfo(np.float32).tiny)
    peaked = mean < _PEAKED * root
    return np.asarray(np.where(peaked, np.clip(changes / scale, -1, 1), changes / scale))


# Order of the rows in messages: the row of each item, tested with users whose items are known.
#
# An order is compared with the users' interactions by
#
#     z = (T - mean) / deviation,  T = sum over users u of S(u, items of u),
#
# where S is the evidence of readers in a user's messages, in standard units of that user, and mean
# and deviation are those of T over all permutations of the users (of the rows, if there are few
# users). Popularity alone does not support an order, nor does noise. An order is fitted as the
# assignment of rows to items with the largest T, and counts only if users outside of the fit
# support it.

Ints = NDArray[np.int64]
# Minimum z-score (standard deviations from chance) with which the data support an order of rows,
# that is an assignment of rows to items.
MIN_ROW_ORDER_Z = 6.0
# Maximum number of rows of an item table for padding, masks and unknown items.
MAX_NON_ITEM_ROWS = 8
# Offsets of rows from their items' numbers that are tried, smallest first.
ROW_OFFSETS = sorted(range(-MAX_NON_ITEM_ROWS, MAX_NON_ITEM_ROWS + 1), key=abs)
_BY_USERS = 12  # minimum number of users with which users are permuted, instead of rows
# Number of groups of users, each left out once, and the share of z that they must reach.
_FOLDS, _KEPT = 8, 0.8
_UNEVEN = 0.8  # maximum deviation of items' agreement, as a multiple of its mean
_MATCHED = 2048  # maximum number of rows to which a permutation is fitted


def standardise_scores(scores: Floats, truth: csr_array) -> tuple[Floats, csr_array]:
    """Scales each user's scores of the item table's rows to mean 0 and standard deviation 1.

    scores: score of an interaction of each user with the item of each row (users, rows)
    truth: true interactions (users, items)

    Returns both arrays without the users who have no interactions or equal scores for all rows.
    """
    centred = scores - scores.mean(axis=1, keepdims=True)
    size = centred.std(axis=1, keepdims=True)
    some = np.flatnonzero((size[:, 0] > 0) & (np.diff(truth.indptr) > 0))
    return centred[some] / size[some], csr_array(truth[some])


def score_row_order(scores: Floats, truth: csr_array, order: Ints) -> float:
    """Tests a guess of which row of an item table belongs to which item; returns a z-score.

    The statistic is the sum of the scores in the rows of users' own items.

    scores: score of an interaction of each user with each row's item (n, R)
    truth: true interactions (n, M)
    order: guessed row of each item, or -1 (M,)
    """
    # The sum is compared with its mean over permutations of the users or, if they are fewer than
    # 12, of the rows.
    if len(scores) >= _BY_USERS:
        return _user_support(_sum_scores(scores, truth, order))
    here, placed = np.flatnonzero(order >= 0), np.zeros(scores.shape)
    placed[:, order[here]] = truth[:, here].toarray()
    placed -= placed.mean(axis=1, keepdims=True)
    squares = ((scores @ scores.T) * (placed @ placed.T)).sum() / (scores.shape[1] - 1)
    return abs(float((scores * placed).sum())) / np.sqrt(squares) if squares > 0 else 0.0


def measure_uniform_support(scores: Floats, truth: csr_array, order: Ints) -> tuple[bool, float]:
    """Tests whether all items, not only a few, support a guess of which row belongs to which item.

    The support of an item is the sum of its row's scores over the users with the item. By centring
    and scaling, random histories of equal sizes give it mean 0 and standard deviation 1. Returns
    whether the support varies little between items, and the z-score of its sum over all items.

    scores: for n users and R rows, score of an interaction of the user with the row's item (n, R)
    truth: true interactions of the users with M items (n, M)
    order: guessed row of each item; -1 for an item without a guess (M,)
    """
    here, share = np.flatnonzero(order >= 0), np.diff(truth.indptr)[:, None] / truth.shape[1]
    size = np.sqrt(max((share * (1 - share)).sum(), 1e-12))
    agreement = (scores[:, order[here]] * (truth[:, here].toarray() - share)).sum(axis=0) / size
    # In a wrong guess few items have the right row, so that the support is uneven.
    mean, by_chance = float(agreement.mean()), 1 + 3 * np.sqrt(2 / len(here))
    return agreement.var() <= by_chance + (_UNEVEN * mean) ** 2, mean * np.sqrt(len(here))


def score_dependence(messages: Floats, truth: NDArray[np.bool_]) -> float:
    """Tests whether users with similar histories send similar messages; returns a z-score.

    The order of the numbers within messages and the size of histories do not matter.

    messages: one message per user (n, d)
    truth: True for items with which the user interacted (n, M)
    """
    similarities = []
    for each in (messages - messages.mean(axis=0), truth - truth.mean(axis=1, keepdims=True)):
        each = each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12)
        similarities.append((each @ each.T)[np.triu_indices(len(each), 1)])
    product = similarities[0] * similarities[1]
    return float(product.sum() / np.sqrt((product**2).sum())) if product.any() else 0.0


def use_spare_rows(order: Ints, n_rows: int) -> Ints:
    """Returns a copy of ``order`` in which items without a table row get unused rows.

    order: row of each item; items without a row have a number outside 0 to ``n_rows`` - 1 (M,)
    n_rows: number of rows

    If there are too few unused rows, the remaining items get -1.
    """
    outside = np.flatnonzero((order < 0) | (order >= n_rows))
    unused = np.setdiff1d(np.arange(n_rows), order)[: len(outside)]
    order = order.copy()
    order[outside] = np.pad(unused, (0, len(outside) - len(unused)), constant_values=-1)
    return order


def _user_support(agreement: Floats) -> float:
    """Returns a z-score of how well users' scores of rows agree with the users' own items.

    ``agreement`` (n, n) is the sum of the scores of a user (row) over the items of a user (column).
    The diagonal is compared with all other entries.
    """
    rest = agreement - agreement.mean(axis=0) - agreement.mean(axis=1, keepdims=True)
    rest += agreement.mean()
    spread = np.sqrt((rest**2).sum() / (len(rest) - 1))
    is_informative = spread > 1e-9 * abs(agreement).max(initial=0)
    return abs(float(np.trace(rest))) / spread if is_informative else 0.0


def guess_row_order(scores: Floats, truth: csr_array) -> tuple[Ints, float] | None:
    """Guesses which row of an item table belongs to which item, from users with known interactions.

    Returns the row of each item (M,), and a z-score: by how many standard deviations the rows fit
    held-out users better than chance. Returns None if the guess is not supported (a z-score below
    ``MIN_ROW_ORDER_Z``), or if there are too few users or too many rows.

    scores: for each of n users and R table rows, how strongly the user's messages suggest an
        interaction with the row's item (n, R)
    truth: true interactions of the users with M items (n, M)
    """
    count, rows = scores.shape
    if count < _BY_USERS or max(rows, truth.shape[1]) > _MATCHED:
        return None
    items, left_out = truth.toarray(), np.zeros((count, count))
    for fold in range(_FOLDS):
        out = np.arange(count) % _FOLDS == fold
        left_out[out] = _sum_scores(scores[out], items, _assign(scores[~out], items[~out]))
    order = _assign(scores, items)
    support, in_sample = _user_support(left_out), _user_support(_sum_scores(scores, items, order))
    # The z-score must also be at least 0.8 times the z-score on the users from whom the rows were
    # guessed.
    return (order, support) if support >= max(MIN_ROW_ORDER_Z, _KEPT * in_sample) else None


def _sum_scores(scores: Floats, met: Any, order: Ints) -> Floats:
    """Returns the sum of each of n users' scores over the rows of the items of m users, (n, m).

    ``scores`` (n, R) is the scores of table rows, ``order`` (M,) the row of each item, or -1.
    """
    here = np.flatnonzero(order >= 0)
    return np.asarray((met[:, here] @ scores[:, order[here]].T).T)


def _assign(scores: Floats, items: Floats) -> Ints:
    """Returns the table row of each item, (M,), or -1, that scores best over the users' items.

    ``scores`` (n, R) is each user's score of each row, ``items`` (n, M) the users' items.
    """
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(scores.T @ items, maximize=True)
    order = np.full(items.shape[1], -1)
    order[columns] = rows
    return order
