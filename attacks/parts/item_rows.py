"""Interactions read from an item table of which a device moves some rows.

Three protocols are told apart by what is public of them:

1. Only own items move (no negatives are drawn): a row is the likelier an own item the farther it
   moved.
2. A device descends on a logistic loss over own items and q negatives for each, in steps that move
   the row of item i by

    dv_i = rate * (r_i - sigma_i) * dz_i/dv_i,

   where sigma is its prediction and z its score: along dz/dv for its own items (r = 1), against it
   for the negatives (r = 0), and not at all for every other item. The direction dz/dv hardly
   differs between the items of one device: it is the user's vector (dot product) or the first layer
   of the MLP as far as it is active. So the negatives' changes lie near a line through the origin,
   and so do the own items', unless they move off it because they are neighbours as well (graph
   convolutions). The line is fitted to all changed rows by least absolute distances. A row's score
   is its place on the line, negatives below zero, plus its distance from it where that is not what
   is typical of the user's rows; rows that did not change have zero.
3. What is sent is a gradient, with negatives: see ``meta_gradient``.

Which end is up: there are more negatives than own items where q > 1. Where q = 1, popularity tells:
negatives are drawn evenly, own items are not, so a row is the likelier an own item the more devices
changed it. Where noise changes every row, neither says much.
Source: derived here; sign tests on gradients of a cross entropy go back to Zhao et al., iDLG, 2020.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.meta_gradient import own_probability
from fedrec_auditor.attacks.parts.model_messages import ModelMessages, item_messages
from fedrec_auditor.targets.transcript import Kind, View

_REWEIGHTINGS = 10
_NARROW = 0.01  # sine
_FAR = 30.0  # typical distances from the line


def carries_item_rows(view: View) -> bool:
    """Whether messages that move an item table are linked to users."""
    return bool(item_messages(view))


def scores(view: View) -> NDArray[np.float32]:
    """A score of every user's every item, (n_users, n_items); 0 for who sent nothing.

    Each message gives scores in [-1, 1], and those of a user's messages are added. Cost: some
    10 d^2 a moved row; memory: n_users x n_items, float32.
    """
    out = np.zeros((view.public.n_users, view.public.n_items), dtype=np.float32)
    negatives = view.public.settings.get("negatives", 0)
    for table in item_messages(view):
        counts = _counts(table) if negatives == 1 else None
        for rows, change, moved in table.changes():
            touched = np.asarray(moved.any(axis=2))
            # the moved rows of each sender first: the others cost nothing and have zero
            width = max(1, int(touched.sum(axis=1).max(initial=0)))
            first = np.argsort(~touched, axis=1, kind="stable")[:, :width]
            change = np.take_along_axis(change, first[:, :, None], axis=1)
            touched = np.take_along_axis(touched, first, axis=1)
            if negatives > 1 and table.component.kind is Kind.GRADIENT:
                found = own_probability(change).astype(np.float32)
            else:
                common = None if counts is None else counts[first]
                found = _places(change, touched, common, drawn=negatives > 0)
                found /= 1 + np.abs(found)
            whole = np.zeros((len(found), out.shape[1]), dtype=np.float32)
            np.put_along_axis(whole, first, found * touched, axis=1)
            out[table.users[rows]] += whole
    return out


def _counts(table: ModelMessages) -> NDArray[np.float64]:
    """How many senders moved each row, (M,)."""
    counts = np.zeros(table.component.shape[0])
    for _, _, moved in table.changes():
        counts += moved.any(axis=2).sum(axis=0)
    return counts


def _places(
    change: NDArray[np.float32],
    touched: NDArray[np.bool_],
    counts: NDArray[np.float64] | None,
    *,
    drawn: bool,
) -> NDArray[np.float32]:
    """How far each row moved the way own items move, in typical steps: (n, M, d) -> (n, M).

    ``drawn`` says that negatives move as well, ``counts`` (n, M) are there where they are as many.
    """
    if not drawn:
        sizes = np.linalg.norm(change, axis=2)
        return np.asarray(sizes / _typical(sizes, touched))
    along, apart = _line(change)
    up = _majority(along, touched) if counts is None else _popular(along, touched, counts)
    place = along * up[:, None] / _typical(np.abs(along), touched)
    if counts is None:  # else the line may be the own items'
        place += np.maximum(apart / _typical(apart, touched) - _FAR, 0)
    return np.asarray(place)


def _typical(sizes: NDArray[np.float32], touched: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Median over the changed rows of each user, (n, 1)."""
    kept = np.where(touched | ~touched.any(axis=1, keepdims=True), sizes, np.nan)
    return np.asarray(np.nanmedian(kept, axis=1, keepdims=True) + 1e-30, dtype=np.float32)


def _line(change: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Place on, and distance from, each user's line: (n, M) each, for changes (n, M, d).

    Iteratively reweighted least squares on the rows' directions: one counts by the inverse of its
    sine, so that the line is that of most rows, not of the longest.
    """
    sizes = np.linalg.norm(change, axis=2)
    unit = np.divide(
        change, sizes[:, :, None], out=np.zeros_like(change), where=sizes[:, :, None] > 0
    )
    weights = np.ones_like(sizes)
    for _ in range(_REWEIGHTINGS):
        gram = unit.transpose(0, 2, 1) @ (unit * weights[:, :, None])
        direction = np.linalg.eigh(gram)[1][:, :, -1]
        cosine = np.einsum("nmd,nd->nm", unit, direction)
        sine = np.sqrt(np.maximum(1 - cosine**2, 0))
        weights = 1 / (sine + _NARROW)
    return sizes * cosine, sizes * sine * (sizes > 0)


def _majority(along: NDArray[np.float32], touched: NDArray[np.bool_]) -> NDArray[np.float32]:
    """+1 where most changed rows have a negative place, -1 where most have a positive one."""
    return np.where((np.sign(along) * touched).sum(axis=1) > 0, -1, 1).astype(np.float32)


def _popular(
    along: NDArray[np.float32], touched: NDArray[np.bool_], counts: NDArray[np.float64]
) -> NDArray[np.float32]:
    """+1 where the places of changed rows grow with the rows' popularity, -1 where they fall."""
    share = touched.sum(axis=1, keepdims=True)
    total = (touched * counts).sum(axis=1, keepdims=True)
    mean = np.divide(total, share, out=np.zeros(share.shape), where=share > 0)
    slope = np.einsum("nm,nm->n", along, touched * (counts - mean))
    return np.where(slope < 0, -1, 1).astype(np.float32)
