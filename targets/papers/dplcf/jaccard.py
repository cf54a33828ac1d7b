"""Jaccard similarities of items from counts of uploaded bits, with or without correction for
flips.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Component, Floats
from fedrec_auditor.targets.compute import iter_blocks

# Jaccard similarity of all pairs of items, estimated from flipped bits, and item neighbourhoods.
#
# Gao et al., SIGIR 2020, section 3.2.2, equations 4 to 11. The paper prints A and its inverse with
# errors (equations 6 and 11). The right matrices follow from the independence of the flips. A 1 is
# uploaded with probability p for a true 1, and with probability q for a true 0. One flipped bit has
# the distribution B = [[1-q, 1-p], [q, p]] (column: true bit, row: uploaded bit). A pair of bits
# has A = B (x) B, and so A^-1 = B^-1 (x) B^-1 with B^-1 = 1/(p-q) [[p, -(1-p)], [-q, 1-q]].

_BLOCK = 1 << 22  # numbers in one block of users or of items


def make_flip_matrix(p: float, q: float) -> NDArray[np.float64]:
    """Returns matrix A (4, 4), which maps true counts of bit pairs to expected uploaded counts.

    ``p``, ``q``: probabilities of uploading a 1 for a true 1 and for a true 0.

    A bit pair is 00, 01, 10 or 11: a user's bits for two items. A is equation 6 of the DPLCF paper
    with two corrections: entries (2,1) and (3,1) are (1-q) q.
    """
    flip: NDArray[np.float64] = np.array([[1 - q, 1 - p], [q, p]])
    return np.asarray(np.kron(flip, flip))


def invert_flip_matrix(p: float, q: float) -> NDArray[np.float64]:
    """Returns the inverse (4, 4) of matrix A (``make_flip_matrix``), for any p != q.

    ``p``, ``q``: probabilities of uploading a 1 for a true 1 and for a true 0.

    The inverse maps counts of uploaded bit pairs to estimated true counts. Equation 11 prints it
    for p = 1 only, with misprints, which are corrected here.
    """
    inverse = np.array([[p, -(1 - p)], [-q, 1 - q]]) / (p - q)
    return np.asarray(np.kron(inverse, inverse))


def make_printed_matrix(p: float, q: float) -> NDArray[np.float64]:
    """Returns matrix A (4, 4) as the paper's equation 6 prints it, with two misprints.

    ``p``, ``q``: probabilities of uploading a 1 for a true 1 and for a true 0.

    Entries (2,1) and (3,1) are printed as (1-q) p; right is (1-q) q.
    """
    # The first column of the printed matrix does not sum to 1.
    a, b = 1 - p, 1 - q
    return np.array(
        (
            (b * b, a * b, a * b, a * a),
            (b * p, b * p, a * q, a * p),
            (b * p, a * q, b * p, a * p),
            (q * q, p * q, q * p, p * p),
        )
    )


def make_printed_inverse(q: float) -> NDArray[np.float64]:
    """Returns the inverse (4, 4) of matrix A as equation 11 prints it, with misprints.

    ``q``: probability of uploading a 1 for a true 0; for a true 1 it is 1.

    Entries (2,1), (3,1) and (4,2) are printed as 0, and entry (4,1) has the wrong sign.
    """
    c = 1 / (1 - q)
    return np.array(
        (
            (c * c, 0.0, 0.0, 0.0),
            (0.0, c, 0.0, 0.0),
            (0.0, 0.0, c, 0.0),
            (-c * c * q * q, 0.0, -c * q, 1.0),
        )
    )


def count_item_pairs(bits: Component) -> NDArray[np.float32]:
    """Counts the users who uploaded a 1 for both items of a pair, shape (n_items, n_items).

    ``bits`` has one row per user. The diagonal counts the users of single items. Counts are exact
    up to 2^24 users.
    """
    # Users are read in blocks: memory is 4 n_items^2 bytes and one block.
    (width,) = bits.shape
    counts = np.zeros((width, width), dtype=np.float32)
    for block in iter_blocks(len(bits), width, _BLOCK):
        sent = bits.to_dense(np.arange(block.start, block.stop)).astype(np.float32)
        counts += sent.T @ sent
    return counts


def estimate_jaccard(
    counts: Floats, n_users: int, p: float, q: float, rows: slice = slice(None)
) -> NDArray[np.float64]:
    """Estimates the Jaccard similarity of some items to all items, corrected for the flips.

    ``counts``: counts of users who uploaded a 1 for both items of a pair (``count_item_pairs``).
    ``n_users``: number of users, n.
    ``p``, ``q``: probabilities of uploading a 1 for a true 1 and for a true 0.
    ``rows``: these items, as a slice of item indices.

    The result, by equation 7, has shape (len(rows), n_items). The similarity of an item to itself
    is set to 0. Estimated numbers of users are clipped (not in the paper):

    - for one item, to [1, n];
    - for both items of a pair, to [0, the smaller number of the two items].
    """
    # Equation 7 for all pairs together: let t = (bit - q)/(p - q) for each user and item. The
    # estimated number n_11 of users of both items i and j is the sum over users of t_i t_j. The
    # estimated number of users of i or j, n - n_00, is sum t_i + sum t_j - n_11. The flips can move
    # the estimates outside the possible numbers of users. For p = 1 and q = 0 (no flips) the result
    # is the similarity of the uploaded bits.
    every = counts.diagonal().astype(np.float64)
    count = np.clip((every - n_users * q) / (p - q), 1, n_users)
    mine = np.arange(len(counts))[rows]
    ones, own = every[mine, None], count[mine, None]
    together = (counts[mine] - q * (ones + every) + n_users * q * q) / (p - q) ** 2
    together = np.clip(together, 0, np.minimum(own, count))
    similarity: NDArray[np.float64] = together / (own + count - together)
    similarity[np.arange(len(mine)), mine] = 0.0
    return similarity


def estimate_jaccard_by_inverse(
    counts: Floats, n_users: int, inverse: NDArray[np.float64], rows: slice = slice(None)
) -> NDArray[np.float64]:
    """Estimates the Jaccard similarity of the items ``rows`` to all items, by an inverse of A.

    ``counts``: counts of users who uploaded a 1 for both items of a pair (``count_item_pairs``).
    ``n_users``: number of users, n.
    ``inverse``: inverse (4, 4) of matrix A (``make_flip_matrix``), right or misprinted; it maps
        counts of uploaded bit pairs to estimated true counts.
    ``rows``: the items whose similarities are estimated, as a slice of item indices.

    The result, by equations 7, 9 and 10, has shape (len(rows), n_items). The similarity of an item
    to itself is set to 0. Estimated numbers of users are clipped:

    - for at least one item of a pair, to [1, n];
    - for both items, to [0, the number for at least one].
    """
    every = counts.diagonal().astype(np.float64)
    mine = np.arange(len(counts))[rows]
    ones, m_11 = every[mine, None], counts[mine].astype(np.float64)
    m = (n_users - ones - every + m_11, every - m_11, ones - m_11, m_11)
    neither, together = (
        sum(a * part for a, part in zip(inverse[k], m, strict=True)) for k in (0, 3)
    )
    union = np.clip(n_users - neither, 1, n_users)
    similarity: NDArray[np.float64] = np.clip(together, 0, union) / union
    similarity[np.arange(len(mine)), mine] = 0.0
    return similarity


@dataclass(frozen=True, slots=True)
class Neighbourhoods:
    """The most similar items of every item, and their similarities.

    item_ids: item indices, most similar first, shape (n_items, size)
    similarities: estimated Jaccard similarities of these items, shape (n_items, size)
    """

    item_ids: NDArray[np.int64]
    similarities: NDArray[np.float64]

    def to_matrix(self) -> sparse.csr_array:
        """Returns the similarities as a sparse matrix (n_items, n_items).

        Row i has the similarities of item i's neighbours.
        """
        count, size = self.item_ids.shape
        rows = np.repeat(np.arange(count), size)
        entries = (self.similarities.ravel(), (rows, self.item_ids.ravel()))
        return sparse.csr_array(entries, shape=(count, count))


def find_neighbourhoods(
    counts: Floats,
    n_users: int,
    p: float,
    q: float,
    size: int,
    inverse: NDArray[np.float64] | None = None,
) -> Neighbourhoods:
    """Finds for every item the ``size`` items of largest estimated similarity.

    ``counts``: counts of users who uploaded a 1 for both items of a pair (``count_item_pairs``).
    ``n_users``: number of users.
    ``p``, ``q``: probabilities of uploading a 1 for a true 1 and for a true 0.
    ``size``: number of neighbours of an item; all other items if the catalogue has too few.
    ``inverse``: matrix for ``estimate_jaccard_by_inverse``; None to use ``estimate_jaccard``.

    Ties are broken by item index.
    """
    # Items are processed in blocks, so that memory beyond ``counts`` does not grow with n_items^2.
    size = min(size, len(counts) - 1)
    items = np.empty((len(counts), size), dtype=np.int64)
    values = np.empty((len(counts), size))
    for rows in iter_blocks(len(counts), len(counts), _BLOCK):
        if inverse is None:
            similarity = estimate_jaccard(counts, n_users, p, q, rows)
        else:
            similarity = estimate_jaccard_by_inverse(counts, n_users, inverse, rows)
        # An item is never its own neighbour.
        similarity[np.arange(len(similarity)), np.arange(len(counts))[rows]] = -1.0
        items[rows] = _find_largest(similarity, size)
        values[rows] = np.take_along_axis(similarity, items[rows], axis=1)
    return Neighbourhoods(items, values)


def _find_largest(values: NDArray[np.float64], size: int) -> NDArray[np.intp]:
    """Returns the columns of the ``size`` largest values per row, (n, size), largest first.

    Ties are broken by column index.
    """
    if size == 0:
        return np.empty((len(values), 0), dtype=np.intp)
    least = np.partition(values, -size, axis=1)[:, -size, None]
    rows, columns = np.nonzero(values >= least)  # ties give more than ``size`` per row
    order = np.lexsort((columns, -values[rows, columns], rows))
    starts = np.searchsorted(rows, np.arange(len(values)))
    return np.asarray(columns[order][starts[:, None] + np.arange(size)])
