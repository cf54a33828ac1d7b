"""Interactions read from an item table after local training (FedRec, FedMF, FedNCF, FedLightGCN).

A device that descends on a logistic loss moves the row of item i by

    dv_i = rate * (r_i - sigma_i) * dz_i/dv_i,

where sigma is its prediction and z its score: along dz/dv for its own items (r = 1), against it for
the q negatives that it sampled for each (r = 0), and not at all for every other item. The direction
dz/dv hardly differs between the items of one device: it is the user's vector (dot product) or the
first layer of the MLP as far as it is active. So the negatives' changes lie near a line through the
origin, and so do the own items', unless they move off it because they are neighbours as well (graph
convolutions). The line is fitted to all changed rows by least absolute distances. A row's score is
its place on the line, negatives below zero, plus its distance from it where that is not what is
typical of the user's rows; rows that did not change have zero.

Which end is up: there are more negatives than own items where q > 1. Where q = 1, popularity tells:
negatives are drawn evenly, own items are not, so a row is the likelier an own item the more devices
changed it. Where noise changes every row, neither says much.
Source: derived here; sign tests on gradients of a cross entropy go back to Zhao et al., iDLG, 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import blocks, latest
from fedrec_auditor.targets.transcript import Component, Uploads, View

ITEM = "item"
_REWEIGHTINGS = 10
_NARROW = 0.01  # sine
_FAR = 30.0  # typical distances from the line


def carries_item_rows(view: View) -> bool:
    """Whether item tables, linked to users, and the table they were made from are seen."""
    return _last(view) is not None


def scores(view: View) -> NDArray[np.float32]:
    """A score of every user's every item, (n_users, n_items); 0 for who sent nothing.

    From the last round. Cost: some 10 M d^2 a user; memory: n_users x n_items, float32.
    """
    out = np.zeros((view.public.n_users, view.public.n_items), dtype=np.float32)
    found = _last(view)
    if found is None:
        return out
    uploads, component, base = found
    counts = np.zeros(view.public.n_items)
    for _, tables in blocks(component):
        counts += (tables != base).any(axis=2).sum(axis=0)
    crowded = view.public.settings.get("negatives", 1) > 1
    for rows, tables in blocks(component):
        touched = (tables != base).any(axis=2)
        change = (tables - base).astype(np.float32)
        along, apart = _line(change)
        up = _majority(along, touched) if crowded else _popular(along, touched, counts)
        place = along * up[:, None] / _typical(np.abs(along), touched)
        if crowded:  # else the line may be the own items'
            place += np.maximum(apart / _typical(apart, touched) - _FAR, 0)
        out[uploads.users[rows]] = place
    return out


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
    mean = np.divide(touched @ counts[:, None], share, out=np.zeros(share.shape), where=share > 0)
    slope = np.einsum("nm,nm->n", along, touched * (counts - mean))
    return np.where(slope < 0, -1, 1).astype(np.float32)


def _last(view: View) -> tuple[Uploads, Component, NDArray[Any]] | None:
    found = latest(view, ITEM, ITEM)
    if found is None or found[0].components[ITEM].shape != found[1].shape:
        return None
    uploads, table = found
    return uploads, uploads.components[ITEM], table
