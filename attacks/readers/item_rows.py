"""Interactions read from an item table of which a device moves some rows.

Four protocols are told apart by what is public of them:

1. Only own items move (no negatives are drawn): a row is the likelier an own item the farther it
   moved. A device may draw some of its items for each message: messages are read until they move
   hardly a row that no earlier one moved, and how many own items never moved is estimated from how
   many moved once and twice (Chao, Biometrics 43, 1987).
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
4. Rows of own items are in every message, and of ``pseudo`` others, drawn anew for each: a user's
   messages are intersected. What one leaves out was not met, and what is in it is the likelier an
   own item the fewer are drawn.

Which end is up: there are more negatives than own items where q > 1. Where q = 1, the user's vector
tells, if it is sent; or popularity:
negatives are drawn evenly, own items are not, so a row is the likelier an own item the more devices
changed it; and several messages of a user are read, for negatives are drawn anew. Where noise
changes every row, neither says much.

Source: derived here; sign tests on gradients of a cross entropy go back to Zhao et al., iDLG, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from fedrec_auditor.attacks.parts.meta_gradient import own_probability
from fedrec_auditor.attacks.parts.uploads import (
    OF_THE_MODEL,
    ModelMessages,
    by_rows,
    item_messages,
    model_messages,
    spread,
)
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.transcript import Kind, View

_LOOKED_AT = 16  # messages by which it is told whether all rows move
_TRUST = 4.6  # log-odds, before they are counted, that rows move as the loss asks
_HALVINGS = 30
_KEPT = 8  # messages a user that are intersected
_SEVERAL = 4  # messages a user where one says little of which end is up
_SAMPLED = 64  # messages a user where each may be about a few of its own items
_WHOLE = 0.01  # of the rows that moved: as few are missed where messages are about all own items
_MOVED = 0.95  # how sure one may be of a moved row, beside one that did not move
_STEPS, _REWEIGHTINGS = 30, 20
_NARROW = 0.01  # sine
_FAR = 30.0  # typical distances from the line
_ROUNDED = 1e-5  # of the longest row: a distance as short is rounding
_PAIRS = 2**24  # senders times items at once
_OFTEN = 10.0  # times that a row is sent on average: by chance e^-10 of them are not


class ItemRows(MessageReader):
    """Messages that move some rows of an item table and leave the others as they are.

    Of the first and last rounds, see ``uploads.kept``, and of who sends in none of these the last
    message. Cost: some 10 d^2 a moved row. Memory: 6 bytes for each of ``users`` and items.
    """

    reference = (
        "which rows moved, and which way: derived in attacks/readers/item_rows.py from the chain "
        "rule; compare Zhao et al., iDLG, 2020"
    )

    wanted = "an item table of which rows move"

    def reads(self, view: View) -> bool:
        """Whether there is one of which devices leave rows unmoved."""
        return moves_some_rows(view)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """How surely each row moved the way own items do, in all rounds that are read."""
        settings = view.public.settings
        if settings.get("pseudo"):
            ratio = _intersected(view, users)
        elif settings.get("negatives"):
            ratio = _ends_told_apart(view, users)
        else:
            ratio = _own_rows_alone(view, users)
        return Evidence(users=users, log_ratio=ratio)


def _own_rows_alone(view: View, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Log-likelihood ratios (n, M) of protocol 1: what moved in any message is an own item."""
    ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
    moves = np.zeros(ratio.shape, dtype=np.uint16)
    heard = np.zeros((len(users), 1), dtype=np.int64)
    for sent, asked, _ in _turns(view, users, _SAMPLED):
        again = heard[:, 0] > 1
        moved_again = np.count_nonzero(moves[again])
        if _missed(moves[again], heard[again]).sum() < _WHOLE * moved_again:
            asked = asked[heard[np.searchsorted(users, asked), 0] == 0]
        places = np.searchsorted(users, asked)
        for mine, change, moved in sent.changes_of(asked):
            whose, touched = places[mine], np.asarray(moved.any(axis=2))
            moves[whose] += touched
            lengths = np.linalg.norm(change, axis=2)
            new = np.full(touched.shape, -SURE, dtype=np.float32)
            for some, first, kept in by_rows(touched):
                sizes = lengths[some[:, None], first] * kept
                place = sizes / _typical(sizes, kept)
                moving = SURE * _MOVED * (0.5 + 0.5 * place / (1 + place))
                new[some] = spread(moving, first, kept, ratio.shape[1], otherwise=-SURE)
            ratio[whose] = np.where(heard[whose] > 0, np.maximum(ratio[whose], new), new)
            heard[whose] += 1
    missed = _missed(moves, heard)
    share = missed / np.maximum(missed + np.count_nonzero(moves, axis=1)[:, None], 1)
    stayed = np.log(np.maximum(share, np.exp(-SURE)))
    return np.where(ratio < 0, np.maximum(ratio, stayed), ratio).astype(np.float32)


def _intersected(view: View, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Log-likelihood ratios (n, M) of protocol 4: own rows are in every message."""
    pseudo = view.public.settings["pseudo"]
    ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
    for sent, asked, _ in _turns(view, users, _KEPT):
        places = np.searchsorted(users, asked)
        for mine, _, moved in sent.changes_of(asked):
            touched = np.asarray(moved.any(axis=2))
            sizes = np.count_nonzero(touched, axis=1)
            others = ratio.shape[1] - np.maximum(sizes - pseudo, 0)
            chance = np.log(np.maximum(others / pseudo, 1.0))
            ratio[places[mine]] += np.where(touched, chance[:, None], -np.inf)
    return ratio


def _ends_told_apart(view: View, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Log-likelihood ratios (n, M) of protocols 2 and 3, added over rounds."""
    negatives = view.public.settings["negatives"]
    ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
    for sent, asked, beside in _turns(view, users, _SEVERAL if negatives == 1 else 1):
        counts = _counts(sent) if negatives == 1 else None
        silent = _silent(sent)
        gradients = sent.component.kind is Kind.GRADIENT
        places = np.searchsorted(users, asked)
        for mine, change, moved in sent.changes_of(asked):
            whose, touched = places[mine], np.asarray(moved.any(axis=2))
            for some, first, kept in by_rows(touched):
                rows = change[some[:, None], first] * kept[:, :, None]
                own = None if beside is None else own_rows(beside, asked[mine[some]])
                if negatives > 1 and gradients:
                    place = (2 * own_probability(rows) - 1).astype(np.float32)
                else:
                    place = _places(rows, kept, None if counts is None else counts[first], own)
                    place = place / (1 + np.abs(place))
                moving = SURE * _MOVED * place
                if negatives > 1:
                    moving = _doubted(moving, kept, negatives, ratio.shape[1])
                new = spread(moving, first, kept, ratio.shape[1], otherwise=-SURE)
                new[:, silent] = 0.0
                ratio[whose[some]] += new
    return ratio


def _turns(
    view: View, users: NDArray[np.int64], per_user: int
) -> Iterator[tuple[ModelMessages, NDArray[np.int64], ModelMessages | None]]:
    """The rounds that are kept, with all ``users``; then others, with those not heard so far.

    And what is sent beside it that has a vector of the sender, if anything is.
    """
    left = users
    for sent, beside in with_vectors(view, per_user):
        yield sent, users, beside
        left = left[~np.isin(left, sent.users)]
    every = with_vectors(view, len(view.rounds)) if len(left) else []
    for sent, beside in reversed(every):
        heard = np.isin(left, sent.users)
        if heard.any():
            yield sent, left[heard], beside
            left = left[~heard]


def with_vectors(view: View, per_user: int) -> list[tuple[ModelMessages, ModelMessages | None]]:
    """Messages of the item table, each with those that have the sender's own vector."""
    tables = item_messages(view, per_user=per_user)
    width = tables[0].component.shape[-1:] if tables else ()
    for rounds in model_messages(view, {*OF_THE_MODEL, Kind.VECTOR}, per_user).values():
        shape, kind = rounds[0].component.shape, rounds[0].component.kind
        wanted = width if kind is Kind.VECTOR else (view.public.n_users, *width)
        if shape == wanted != tables[0].component.shape and len(rounds) == len(tables):
            pairs = list(zip(tables, rounds, strict=True))
            if all(np.array_equal(table.users, one.users) for table, one in pairs):
                return list(pairs)
    return [(table, None) for table in tables]


def own_rows(beside: ModelMessages, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors (k, d) that these users have, as they sent them."""
    order = np.argsort(beside.users)
    places = order[np.searchsorted(beside.users, users, sorter=order)]
    if len(beside.component.shape) == 1:
        return np.asarray(beside.component.dense(places), dtype=np.float32)
    return np.asarray(beside.component.picked(places, users[:, None])[:, 0], dtype=np.float32)


def moves_some_rows(view: View) -> bool:
    """Whether messages move an item table, and most of a few leave some row of it as it was.

    Messages that move nothing do not count. Noise moves all rows. A gradient of a loss over all
    items is for ``rank_one_gradients``.
    """
    rounds = item_messages(view)
    if not rounds or not len(rounds[-1].component) or RankOneGradients().reads(view):
        return False
    _, _, moved = next(rounds[-1].few(_LOOKED_AT).changes())
    rows: NDArray[np.bool_] = np.asarray(moved.any(axis=2))
    active = rows[rows.any(axis=1)]
    return bool(len(active)) and float((~active.all(axis=1)).mean()) > 0.5


def _doubted(
    ratio: NDArray[np.float32], kept: NDArray[np.bool_], negatives: float, items: int
) -> NDArray[np.float32]:
    """Log-likelihood ratios (n, m) of moved rows, as far as their ends can be told apart.

    Of n own items, and q n negatives drawn among the others with repetition, the share of own ones
    among the moved rows is known. Where as many rows move one way as the other (noise in the loss
    moves them at random), all that is told is that the row moved; how sure that is follows from the
    number of rows on the own items' end, binomial with that share or with 1/2.
    """
    moved = np.maximum(kept.sum(axis=1), 1).astype(np.float64)
    low, high = np.zeros(len(moved)), moved.copy()
    for _ in range(_HALVINGS):
        own = (low + high) / 2
        others = np.maximum(items - own, 1.0)
        more = own - others * np.expm1(-negatives * own / others) > moved
        low, high = np.where(more, low, own), np.where(more, own, high)
    share = np.clip(own / moved, 0.01, 0.49)
    ours = np.count_nonzero((ratio > 0) & kept, axis=1)
    gain = ours * np.log(2 * share) + (moved - ours) * np.log(2 * (1 - share)) + _TRUST
    chance = np.log(np.maximum(items - own, 1.0) / np.maximum(moved - own, 1.0))
    sure, unsure = log_expit(gain)[:, None], log_expit(-gain)[:, None]
    return np.asarray(np.logaddexp(sure + ratio, unsure + chance[:, None]), dtype=np.float32)


def _missed(moves: NDArray[np.uint16], heard: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many own items no message moved, (n, 1), of rows moved ``moves`` times (n, M).

    Chao's lower bound for ``heard`` (n, 1) messages: 0 of one, and of those that agree.
    """
    once, twice = (np.count_nonzero(moves == k, axis=1)[:, None] for k in (1, 2))
    missed = (1 - 1 / np.maximum(heard, 1)) * once * (once - 1) / (2.0 * (twice + 1))
    still = np.count_nonzero(moves == 0, axis=1)[:, None]
    return np.asarray(np.minimum(missed, still), dtype=np.float64)


def _counts(table: ModelMessages) -> NDArray[np.float64]:
    """How many senders moved each row, (M,)."""
    counts = np.zeros(table.component.shape[0])
    for _, _, moved in table.changes():
        counts += moved.any(axis=2).sum(axis=0)
    return counts


def _silent(table: ModelMessages) -> NDArray[np.bool_]:
    """Rows (M,) that nobody sends where all would be sent by chance: the round is not about them.

    Negatives are drawn evenly among the items that a round is about. Of models all rows are sent.
    """
    counts = np.zeros(table.component.shape[0])
    for some in blocks(len(table.component), len(counts), _PAIRS):
        clients = np.arange(some.start, some.stop)
        counts += np.count_nonzero(table.component.sent(clients), axis=0)
    return np.asarray((counts == 0) & (counts.mean() > _OFTEN))


def _places(
    change: NDArray[np.float32],
    touched: NDArray[np.bool_],
    counts: NDArray[np.float64] | None,
    vectors: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """How far each row moved the way own items move, in typical steps: (n, M, d) -> (n, M).

    ``counts`` (n, M) are there where negatives are as many as own items. Then these move along
    ``vectors`` (n, d), those of users, where these are sent.
    """
    direction = line(change)
    along, apart = _line(change, direction)
    if counts is None:
        up = _majority(along, touched)
    elif vectors is not None:
        up = np.where(np.einsum("nd,nd->n", direction, vectors) < 0, -1, 1).astype(np.float32)
    else:
        up = _popular(along, touched, counts)
    place = along * up[:, None] / _typical(np.abs(along), touched)
    if counts is None:  # else the line may be the own items'
        typical = np.maximum(
            _typical(apart, touched), _ROUNDED * np.abs(along).max(axis=1)[:, None]
        )
        place += np.maximum(apart / typical - _FAR, 0)
    return np.asarray(place)


def _typical(sizes: NDArray[np.float32], touched: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Median over the changed rows of each user, (n, 1)."""
    kept = np.where(touched | ~touched.any(axis=1, keepdims=True), sizes, np.nan)
    return np.asarray(np.nanmedian(kept, axis=1, keepdims=True) + 1e-30, dtype=np.float32)


def _line(
    change: NDArray[np.float32], direction: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Place on, and distance from, each user's line: (n, M) each, for changes (n, M, d)."""
    along = (change @ direction[:, :, None])[:, :, 0]
    return along, np.linalg.norm(change - along[:, :, None] * direction[:, None], axis=2)


def line(change: NDArray[np.float32]) -> NDArray[np.float32]:
    """Direction of each user's line, without sign: (n, M, d) -> (n, d).

    Iteratively reweighted least squares on the rows' directions: one counts by the inverse of its
    sine, so that the line is that of most rows, not of the longest. A step of the power method a
    reweighting.
    """
    _, unit = _split(change)
    gram = unit.transpose(0, 2, 1) @ unit
    column = np.argmax(np.einsum("ndd->nd", gram), axis=1)
    direction = np.take_along_axis(gram, column[:, None, None], axis=2)
    for _ in range(_STEPS):
        direction = gram @ _unit(direction)
    for _ in range(_REWEIGHTINGS):
        cosine = unit @ _unit(direction)
        sine = np.sqrt(np.maximum(1 - cosine**2, 0))
        direction = unit.transpose(0, 2, 1) @ (cosine / (sine + _NARROW))
    return _unit(direction)[:, :, 0]


def _split(change: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Lengths of rows, (n, M), and directions, (n, M, d), zeros as they are."""
    sizes = np.linalg.norm(change, axis=2)
    out, some = np.zeros_like(change), sizes[:, :, None] > 0
    return sizes, np.divide(change, sizes[:, :, None], out=out, where=some)


def _unit(direction: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns (n, d, 1) of length 1, zeros as they are."""
    length = np.linalg.norm(direction, axis=1, keepdims=True)
    out = np.zeros_like(direction)
    return np.asarray(np.divide(direction, length, out=out, where=length > 0))


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
