"""Places of item rows along the directions of their senders, and which item each row is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import betainc, expit

from fedrec_auditor.attacks.parts.uploads import ModelMessages

# Places of the rows of noisy item tables along the directions of their senders.
#
# Of every message, its entries passed through the score function of the noise. Their rows are
# x = a w + noise of deviation s: see ``readers.noisy_rows``, steps 1 and 2.

Floats = NDArray[np.float64]

_PEAKED = 0.752  # mean size over root mean square: .707 of a Laplace, .798 of a normal distribution
_STEPS = 30
LUCK = 3.3  # deviations, of normal and of Tracy and Widom's laws: by chance once in a thousand
_CHANCE = 1e-3  # of a vector that is as near to a direction, at any angle alike
_TURNED = 0.9  # of what two rounds would have in common, turned back, and have at most as they are
_AT_ONCE = 2**23  # numbers of messages that are held
_LEAST, _TINY = 1e-3, 1e-30


@dataclass(frozen=True, slots=True)
class Places:
    """Senders ``whose`` (T,) of messages, ascending, and each row's place in deviations (T, M).

    ``signed`` says that users' directions point the same way, as far as can be told, ``alike`` that
    they share more than they differ by, and ``up`` that this way is known, by vectors of users.
    """

    whose: NDArray[np.int64]
    values: NDArray[np.float32]
    signed: bool
    alike: bool
    up: bool

    def of(self, users: NDArray[np.int64]) -> Places:
        """Those of ``users``."""
        mine = np.isin(self.whose, users)
        return Places(self.whose[mine], self.values[mine], self.signed, self.alike, self.up)


def places(
    rounds: Sequence[ModelMessages],
    common: NDArray[np.int64],
    users: NDArray[np.int64],
    vectors: Floats | None = None,
    popular: Floats | None = None,
) -> Places | None:
    """Of ``common`` and of other ``users`` (ascending), by what ``common`` ones tell together.

    Directions point along ``vectors`` (n, d) of them all, ascending, where these are sent.

    None where they tell nothing: the places by even columns and by odd ones do not go together,
    beyond what a message's rows and an item's rows have in common. Three passes over the messages.
    """
    asked = np.union1d(common, users)
    width, items = rounds[0].component.shape[1], rounds[0].component.shape[0]
    turns = _turns(rounds, common)
    grams = np.zeros((len(asked), 2, width, width), dtype=np.float32)
    counts, sums, pooling = np.zeros(len(asked)), np.zeros((items, width)), np.isin(asked, common)
    for sent, turn in zip(rounds, turns, strict=True):
        for whose, change, _ in sent.changes_of(asked):
            rows = scored(change)
            for half in (0, 1):
                part = rows[:, half::2] @ turn[half]
                grams[whose, half] += part.transpose(0, 2, 1) @ part
                sums[half::2] += part[pooling[whose]].sum(axis=0)
            counts[whose] += change.any(axis=(1, 2))
    told = pooling & (counts > 0)
    sizes = np.array([-(-items // 2), items // 2])
    if not told.any() or items < 2:
        return None
    messages = counts[told].sum()
    pooled = np.einsum("nhde->hde", grams[told], dtype=np.float64) / messages
    shared = _shared(pooled / sizes[:, None, None], sums / messages, messages, popular)
    noise = float(np.median(np.linalg.eigvalsh(pooled.sum(axis=0)))) / items
    if not noise:
        return None
    grams /= np.float32(noise)
    along = np.zeros((len(asked), 2, width))
    signed = alike = True
    for half, other in ((0, 1), (1, 0)):  # of half of the rows, by the others
        mean = pooled[other] / sizes[other] / noise
        beyond_noise, more, along[:, half] = _directions(
            grams[:, other].astype(np.float64), counts * sizes[other], mean, told, shared[other]
        )
        signed, alike = signed and beyond_noise, alike and more
    along[:, 1] *= _sign(np.einsum("nd,nd->n", along[:, 0], along[:, 1]))[:, None]
    if signed:
        both = along.sum(axis=1)
        main = np.linalg.eigh(both.T @ both)[1][:, -1]
        along *= _sign(both @ main)[:, None, None]
    mean = np.einsum("rhde,nhe->nd", turns[:, ::-1], along)
    ends = None if vectors is None else _ends(mean, vectors, signed)
    if ends is not None:
        along *= ends[:, None, None]
    found = _placed(rounds, turns, asked, along / np.sqrt(noise), told)
    return None if found is None else Places(*found, signed, alike, ends is not None)


def _turns(rounds: Sequence[ModelMessages], users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Orthogonal matrices (R, 2, d, d) that take even and odd rows of each round to one frame.

    A model that learns turns directions: as many consecutive rounds as bring a message per user
    have one matrix (orthogonal Procrustes), the identity if they are not surely turned.
    """
    width = rounds[0].component.shape[1]
    first = np.cumsum([0] + [len(sent.users) for sent in rounds[:-1]]) // max(len(users), 1)
    groups = np.unique(first, return_inverse=True)[1]
    turns = np.tile(np.eye(width, dtype=np.float32), (groups[-1] + 1, 2, 1, 1))
    if len(turns) == 1:
        return turns[groups]
    grams = _between(rounds, groups, users)
    surest = np.argmax(np.trace(grams, axis1=-2, axis2=-1).sum(axis=-1).diagonal())
    for group, half in np.ndindex(turns.shape[:2]):
        gram = grams[group, surest, half]
        left, sizes, right = np.linalg.svd(gram + _LEAST * np.eye(width))
        if np.trace(gram) + LUCK * np.sqrt(width) < _TURNED * sizes.sum():
            turns[group, half] = left @ right
    return turns[groups]


def _between(
    rounds: Sequence[ModelMessages], groups: NDArray[np.intp], users: NDArray[np.int64]
) -> Floats:
    """Gram matrices of even and of odd rows between groups of rounds, (G, G, 2, d, d), denoised.

    Noise is independent between rounds, while own items stay. So they are made of the leading
    eigenvectors of the Gram matrix of rows, less their item's mean, between groups: of noise alone
    its entries have variance 1, and Wigner's semicircle its spectrum.
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
            for whose, change, _ in sent.changes_of(some):
                rows[whose, :, group] += scored(change)
                sent_by[start + whose, group] += change.any(axis=(1, 2))
        sums += rows.sum(axis=0)
        for half in (0, 1):
            flat = rows[:, half::2].reshape(-1, kinds * width)
            cross[half] += flat.T @ flat
    senders = np.maximum(np.count_nonzero(sent_by, axis=0), 1)
    means = sums / np.sqrt(senders)[:, None]
    signals = [_denoised(cross[half], means[half::2], sent_by) for half in (0, 1)]
    return np.stack(signals, axis=2)


def _denoised(cross: Floats, means: Floats, sent_by: Floats) -> Floats:
    """Gram matrices (G, G, d, d) from ``cross`` (G d, G d), the ``means`` (m, G, d) taken away.

    ``sent_by`` (n, G) counts the messages of each user in each group of rounds.
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
    blocks[:] = np.divide(blocks, deviation, out=np.zeros_like(blocks), where=deviation > 0)
    values, vectors = np.linalg.eigh(cross)
    values[values <= 2 * np.sqrt(len(cross)) + LUCK * len(cross) ** (-1 / 6)] = 0
    signal: Floats = (vectors * values) @ vectors.T
    return signal.reshape(kinds, width, kinds, width).transpose(0, 2, 1, 3)


def _shared(grams: Floats, means: Floats, messages: float, items: Floats | None) -> Floats:
    """The direction in which own items of all users go, (2, d), as even and odd rows show it.

    By the mean Gram matrices (2, d, d) of a row and the mean rows (M, d) of all ``messages``. It is
    in the span of the eigenvectors that noise does not reach. The mean row of an item grows with
    the share of users who met it, so that regression on the known shares gives the direction;
    without them it is the strongest eigenvector.
    """
    width = means.shape[1]
    ways = np.zeros((2, width))
    for half in (0, 1):
        profile = means[half::2]
        size = messages * len(profile)
        values, basis = np.linalg.eigh(grams[half])
        noise = max(float(np.median(values)), _TINY)
        kept = values > noise * _edge(np.array(width / size), np.array(size))
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
            slope = known if (known * kept).any() else slope
        ways[half] = basis @ (slope * kept)
        ways[half] /= max(np.linalg.norm(ways[half]), _TINY)
    return ways


def _ends(along: Floats, vectors: Floats, signed: bool) -> Floats | None:
    """+1 where a user's direction (n, d) points along the user's vector (n, d), else -1.

    A vector may be no nearer to the direction than by chance: where directions are ``signed`` most
    vectors decide for it. None where all are so.
    """
    toward = np.einsum("nd,nd->n", along, vectors)
    squares = (along**2).sum(axis=1) * (vectors**2).sum(axis=1)
    apart = 1 - toward**2 / np.maximum(squares, _TINY)
    width = vectors.shape[1]
    sure = betainc(max(width - 1, 1) / 2, 0.5, apart.clip(0, 1)) < _CHANCE
    if not sure.any():
        return None
    return np.where(sure | (not signed), _sign(toward), _sign(toward[sure].sum()))


def _placed(
    rounds: Sequence[ModelMessages],
    turns: NDArray[np.float32],
    asked: NDArray[np.int64],
    along: Floats,
    told: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
    owners, parts = [], []
    for sent, turn in zip(rounds, turns, strict=True):
        for whose, change, _ in sent.changes_of(asked):
            rows, moved = scored(change), change.any(axis=(1, 2))
            place = np.zeros((2, *rows.shape[:2]), dtype=np.float32)
            ways = np.einsum("hde,nhe->nhd", turn[::-1], along[whose]).astype(np.float32)
            for half in (0, 1):
                for column in (0, 1):
                    place[column, :, half::2] = (
                        rows[:, half::2, column::2] @ ways[:, half, column::2, None]
                    )[:, :, 0]
            owners.append(whose[moved])
            parts.append(place[:, moved])
    whose = np.concatenate(owners)
    order = np.argsort(whose, kind="stable")
    place, whose = np.concatenate(parts, axis=1)[:, order], whose[order]
    if not _together(place[:, told[whose]]):
        return None
    return asked[whose], place.sum(axis=0)


def _together(place: NDArray[np.float32]) -> bool:
    """Whether two independent places (2, T, M) of each row go together, for sure."""
    rest = place - place.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=2, keepdims=True)
    products = (rest[0] * rest[1]).astype(np.float64)
    return bool(products.sum() > LUCK * np.sqrt((products**2).sum()))


def _directions(
    grams: Floats, rows: Floats, mean: Floats, told: NDArray[np.bool_], shared: Floats
) -> tuple[bool, bool, Floats]:
    """Directions of length 1 or 0, (n, d), by Gram matrices of so many ``rows``, of noise 1.

    Before them: whether the ``mean`` has an eigenvalue beyond those of noise, and whether users
    share more of a direction than they differ by.
    """
    width = len(mean)
    values, basis = np.linalg.eigh(mean)
    kept = values > _edge(np.array(width / rows[told].sum()), rows[told].sum())
    own = grams - (basis * kept) @ basis.T @ grams  # outside of what users have in common
    own = own - own @ ((basis * kept) @ basis.T)
    single = _strengths(own[told], rows[told], width - int(kept.sum())).mean() / width
    variances = np.where(kept, values - 1, 0) + single
    if not variances.any():
        variances[-1] = _TINY
    turned = basis.T @ grams @ basis
    middle = shared @ basis
    common = bool(shared.any())
    strength = _strengths(grams, rows, width)[:, None] if common else 1.0
    if common:
        far = np.einsum("d,nde,e->n", middle, turned, middle)
        squared = np.maximum(far / np.maximum(rows, 1) - 1, _LEAST)
        lengths = np.sqrt(squared)[:, None]
        vectors = lengths * middle
        variances = variances / squared[told].mean()
    else:
        lengths = np.ones((len(grams), 1))
        vectors = np.linalg.eigh(turned)[1][:, :, -1]
        if kept.any():
            vectors = np.tile(np.sqrt(variances) * kept, (len(grams), 1))
    for _ in range(_STEPS):
        size = 1 + np.einsum("nd,nd->n", vectors, vectors)[:, None]
        seen = np.einsum("nde,ne->nd", turned, vectors) / size
        squares = rows[:, None] / size + np.einsum("nd,nd->n", vectors, seen)[:, None] / size
        spread = np.maximum(lengths**2, strength) * variances
        vectors = (spread * seen + lengths * middle) / (squares * spread + 1)
        if common:
            doubt = spread / (squares * spread + 1)
            lengths = np.maximum(seen @ middle[:, None] / np.maximum(squares, _TINY), _LEAST)
            weight = np.sum(lengths[told] ** 2)
            middle = np.sum((lengths * vectors)[told], axis=0) / weight
            middle /= np.linalg.norm(middle)
            away = (vectors - lengths * middle) ** 2 + doubt
            variances = np.sum(away[told], axis=0) / weight
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if common and float(variances.sum()) > 1:  # users share less than they differ by
        return _directions(grams, rows, mean, told, np.zeros(width))
    return bool(kept.any()), common, (vectors / np.maximum(lengths, _TINY)) @ basis.T


def _strengths(grams: Floats, rows: Floats, width: int) -> Floats:
    """Squared lengths (n,) of directions, 0 where noise in ``width`` columns reaches as far."""
    ratio = np.maximum(width, 1) / np.maximum(rows, 1)
    top = np.linalg.eigvalsh(grams)[:, -1] / np.maximum(rows, 1)
    above = top - 1 - ratio
    strength = (above + np.sqrt(np.maximum(above**2 - 4 * ratio, 0))) / 2
    return np.where(top > _edge(ratio, rows), strength, 0)


def _edge(ratio: Floats, rows: NDArray[np.float64]) -> Floats:
    """What the largest eigenvalue of noise reaches once in a thousand times.

    Of Gram matrices of ``rows`` of so many columns a row; Marchenko and Pastur's edge, and Tracy
    and Widom's fluctuations (Johnstone 2001).
    """
    root = np.sqrt(ratio)
    beyond = np.maximum(rows, 1) ** (-2 / 3) * np.maximum(ratio, _TINY) ** (-1 / 6)
    return np.asarray((1 + root) ** 2 + LUCK * beyond * (1 + root) ** (4 / 3))


def _sign(values: Floats) -> Floats:
    return np.where(values < 0, -1.0, 1.0)


def scored(change: NDArray[np.float32]) -> NDArray[np.float32]:
    """Entries (n, M, d) as the score function of their noise has them, in units of its size."""
    size = np.abs(change)
    mean = size.mean(axis=(1, 2), keepdims=True)
    root = np.sqrt(np.mean(size**2, axis=(1, 2), keepdims=True))
    scale = np.maximum(mean, np.finfo(np.float32).tiny)
    peaked = mean < _PEAKED * root
    return np.asarray(np.where(peaked, np.clip(change / scale, -1, 1), change / scale))


# The order of the rows of messages: which item each is, by users whose items are known.
#
# An order is held against what users met by
#
#     z = (T - mean) / deviation,  T = sum over users u of S(u, items of u),
#
# where S is the evidence that readers find in a user's messages, in standard units of that user,
# and mean and deviation are those of T over all permutations of the users (with few of them, of the
# rows): popularity alone supports no order, and noise none. An order is fitted as the assignment of
# rows to items of the largest T, and counts only if users to whom it was not fitted bear it out.

Ints = NDArray[np.int64]
DEVIATIONS = 6.0
"""The z from which an order counts."""
SPECIAL = 8
"""Rows for padding, masks and unknown items, at most."""
SHIFTS = sorted(range(-SPECIAL, SPECIAL + 1), key=abs)
"""How far rows may stand from where they are looked for, the nearest first."""
_BY_USERS = 12  # users from which these are permuted, not rows
_FOLDS, _KEPT = 8, 0.8
"""Groups of users of whom each is left out once, and the share of z that they must keep."""
_UNEVEN = 0.8  # deviations of items' agreement over its mean, at most
_MATCHED = 2048  # rows of which a permutation is fitted, at most


def in_standard_units(evidence: Floats, met: sparse.csr_array) -> tuple[Floats, sparse.csr_array]:
    """Evidence (n, R), and items met (n, M), of users who have both; of mean 0 and deviation 1."""
    centred = evidence - evidence.mean(axis=1, keepdims=True)
    size = centred.std(axis=1, keepdims=True)
    some = np.flatnonzero((size[:, 0] > 0) & (np.diff(met.indptr) > 0))
    return centred[some] / size[some], sparse.csr_array(met[some])


def support(evidence: Floats, met: sparse.csr_array, order: Ints) -> float:
    """Deviations from its mean over permutations of what messages say of their senders' items."""
    if len(evidence) >= _BY_USERS:
        return _of_users(_agreement(evidence, met, order))
    here, placed = np.flatnonzero(order >= 0), np.zeros(evidence.shape)
    placed[:, order[here]] = met[:, here].toarray()
    placed -= placed.mean(axis=1, keepdims=True)
    squares = ((evidence @ evidence.T) * (placed @ placed.T)).sum() / (evidence.shape[1] - 1)
    return abs(float((evidence * placed).sum())) / np.sqrt(squares) if squares > 0 else 0.0


def uniform_support(evidence: Floats, met: sparse.csr_array, order: Ints) -> tuple[bool, float]:
    """Deviations of agreement from its mean over histories of the same sizes, of any items.

    And whether items share it: in many a wrong order some stand where they should.
    """
    here, share = np.flatnonzero(order >= 0), np.diff(met.indptr)[:, None] / met.shape[1]
    size = np.sqrt(max((share * (1 - share)).sum(), 1e-12))
    agreement = (evidence[:, order[here]] * (met[:, here].toarray() - share)).sum(axis=0) / size
    mean, by_luck = float(agreement.mean()), 1 + 3 * np.sqrt(2 / len(here))
    return agreement.var() <= by_luck + (_UNEVEN * mean) ** 2, mean * np.sqrt(len(here))


def dependence(messages: Floats, met: NDArray[np.bool_]) -> float:
    """Deviations by which messages (n, d) are alike if histories (n, M) of any items are.

    In whatever order their numbers stand, and whatever they say of the sizes of histories.
    """
    alike = []
    for each in (messages - messages.mean(axis=0), met - met.mean(axis=1, keepdims=True)):
        each = each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12)
        alike.append((each @ each.T)[np.triu_indices(len(each), 1)])
    product = alike[0] * alike[1]
    return float(product.sum() / np.sqrt((product**2).sum())) if product.any() else 0.0


def complete(order: Ints, rows: int) -> Ints:
    """An order of which items outside of the rows have those that are left, as far as there are."""
    outside = np.flatnonzero((order < 0) | (order >= rows))
    left = np.setdiff1d(np.arange(rows), order)[: len(outside)]
    order = order.copy()
    order[outside] = np.pad(left, (0, len(outside) - len(left)), constant_values=-1)
    return order


def _of_users(agreement: Floats) -> float:
    """Agreement of each user's evidence (n,) with the items of each user (n,), added: (n, n)."""
    rest = agreement - agreement.mean(axis=0) - agreement.mean(axis=1, keepdims=True)
    rest += agreement.mean()
    spread = np.sqrt((rest**2).sum() / (len(rest) - 1))
    told = spread > 1e-9 * abs(agreement).max(initial=0)
    return abs(float(np.trace(rest))) / spread if told else 0.0


def fitted(evidence: Floats, met: sparse.csr_array) -> tuple[Ints, float] | None:
    """The order that fits best, and its support by users who are left out of the fit.

    None where these do not bear it out: they support it by less than ``_KEPT`` of what those do by
    whom it is fitted, which a permutation of so many rows overdoes.
    """
    count, rows = evidence.shape
    if count < _BY_USERS or max(rows, met.shape[1]) > _MATCHED:
        return None
    items, left_out = met.toarray(), np.zeros((count, count))
    for fold in range(_FOLDS):
        out = np.arange(count) % _FOLDS == fold
        order = _assigned(evidence[~out], items[~out])
        left_out[out] = _agreement(evidence[out], items, order)
    order = _assigned(evidence, items)
    support, most = _of_users(left_out), _of_users(_agreement(evidence, items, order))
    return (order, support) if support >= max(DEVIATIONS, _KEPT * most) else None


def _agreement(evidence: Floats, met: Any, order: Ints) -> Floats:
    """Evidence of each user (n,) on the items that each of others (m,) met, added: (n, m)."""
    here = np.flatnonzero(order >= 0)
    return np.asarray((met[:, here] @ evidence[:, order[here]].T).T)


def _assigned(evidence: Floats, items: Floats) -> Ints:
    """The row of each item (M,), -1 of none, such that most is said of what users met."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(evidence.T @ items, maximize=True)
    order = np.full(items.shape[1], -1)
    order[columns] = rows
    return order
