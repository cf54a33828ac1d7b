"""Where the rows of noisy item tables lie along the directions of their senders.

Of every message, its entries passed through the score function of the noise. Their rows are
x = a w + noise of deviation s: see ``readers.noisy_rows``, steps 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from fedrec_auditor.attacks.parts.model_messages import ModelMessages

Floats = NDArray[np.float64]

_PEAKED = 0.752  # mean size over root mean square: .707 of a Laplace, .798 of a normal distribution
_STEPS = 30
LUCK = 3.3  # deviations, of normal and of Tracy and Widom's laws: by chance once in a thousand
_CHANCE = 1e-3  # of a vector that is as near to a direction, at any angle alike
_TINY = 1e-30


@dataclass(frozen=True, slots=True)
class Places:
    """Of messages sorted by sender, ``whose`` (T,) of users, each row's place in deviations (T, M).

    ``signed`` says that users' directions point the same way, as far as can be told; ``up`` that
    this way is known, by vectors of users.
    """

    whose: NDArray[np.int64]
    values: NDArray[np.float32]
    signed: bool
    up: bool

    def of(self, users: NDArray[np.int64]) -> Places:
        """Those of ``users``."""
        mine = np.isin(self.whose, users)
        return Places(self.whose[mine], self.values[mine], self.signed, self.up)


def places(
    rounds: Sequence[ModelMessages],
    common: NDArray[np.int64],
    users: NDArray[np.int64],
    vectors: Floats | None = None,
) -> Places | None:
    """Of ``common`` and of other ``users`` (ascending), by what ``common`` ones tell together.

    Directions point along ``vectors`` (n, d) of them all, ascending, where these are sent.

    None where they tell nothing: the places by even columns and by odd ones do not go together,
    beyond what a message's rows and an item's rows have in common. Two passes over the messages.
    """
    asked = np.union1d(common, users)
    width, items = rounds[0].component.shape[1], rounds[0].component.shape[0]
    grams = np.zeros((len(asked), 2, width, width), dtype=np.float32)
    counts = np.zeros(len(asked))
    for sent in rounds:
        for whose, change, _ in sent.changes_of(asked):
            rows = scored(change)
            for half in (0, 1):
                part = rows[:, half::2]
                grams[whose, half] += part.transpose(0, 2, 1) @ part
            counts[whose] += change.any(axis=(1, 2))
    told = np.isin(asked, common) & (counts > 0)
    sizes = np.array([-(-items // 2), items // 2])
    if not told.any() or items < 2:
        return None
    pooled = np.einsum("nhde->hde", grams[told], dtype=np.float64) / counts[told].sum()
    noise = float(np.median(np.linalg.eigvalsh(pooled.sum(axis=0)))) / items
    if not noise:
        return None
    grams /= np.float32(noise)
    along = np.zeros((len(asked), 2, width))
    signed = True
    for half, other in ((0, 1), (1, 0)):  # of half of the rows, by the others
        mean = pooled[other] / sizes[other] / noise
        common_ways, along[:, half] = _directions(
            grams[:, other].astype(np.float64), counts * sizes[other], mean, told
        )
        signed &= common_ways
    along[:, 1] *= _sign(np.einsum("nd,nd->n", along[:, 0], along[:, 1]))[:, None]
    if signed:
        both = along.sum(axis=1)
        main = np.linalg.eigh(both.T @ both)[1][:, -1]
        along *= _sign(both @ main)[:, None, None]
    ends = None if vectors is None else _ends(along.sum(axis=1), vectors, signed)
    if ends is not None:
        along *= ends[:, None, None]
    found = _placed(rounds, asked, along / np.sqrt(noise), told)
    return None if found is None else Places(*found, signed, ends is not None)


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
    asked: NDArray[np.int64],
    along: Floats,
    told: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
    owners, parts = [], []
    for sent in rounds:
        for whose, change, _ in sent.changes_of(asked):
            rows, moved = scored(change), change.any(axis=(1, 2))
            place = np.zeros((2, *rows.shape[:2]), dtype=np.float32)
            ways = along[whose].astype(np.float32)
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
    grams: Floats, rows: Floats, mean: Floats, told: NDArray[np.bool_]
) -> tuple[bool, Floats]:
    """Directions of length 1 or 0, (n, d), by Gram matrices of so many ``rows``, of noise 1.

    And whether users have one in common: an eigenvalue of the ``mean`` beyond those of noise.
    """
    width = len(mean)
    values, basis = np.linalg.eigh(mean)
    kept = values > _edge(np.array(width / rows[told].sum()), rows[told].sum())
    own = grams - (basis * kept) @ basis.T @ grams  # outside of what users have in common
    own = own - own @ ((basis * kept) @ basis.T)
    ratio = np.maximum(width - kept.sum(), 1) / np.maximum(rows[told], 1)
    top = np.linalg.eigvalsh(own[told])[:, -1] / np.maximum(rows[told], 1)
    above = top - 1 - ratio
    strength = (above + np.sqrt(np.maximum(above**2 - 4 * ratio, 0))) / 2
    single = np.where(top > _edge(ratio, rows[told]), strength, 0).mean() / width
    variances = np.where(kept, values - 1, 0) + single
    if not variances.any():
        variances[-1] = _TINY
    turned = basis.T @ grams @ basis
    if kept.any():
        vectors = np.tile(np.sqrt(variances) * kept, (len(grams), 1))
    else:
        vectors = np.linalg.eigh(turned)[1][:, :, -1]
    for _ in range(_STEPS):
        size = 1 + np.einsum("nd,nd->n", vectors, vectors)[:, None]
        seen = np.einsum("nde,ne->nd", turned, vectors) / size
        squares = rows[:, None] / size + np.einsum("nd,nd->n", vectors, seen)[:, None] / size
        vectors = variances * seen / (squares * variances + 1)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return bool(kept.any()), (vectors / np.maximum(lengths, _TINY)) @ basis.T


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
