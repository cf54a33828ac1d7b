"""Reader of interactions from an item table of which each device changes only some rows.

Own items are the positives: items with which the device's user interacted. Negatives are other
items that the device draws. The public settings distinguish four protocols:

- Protocol 1: only rows of own items change. A row is more likely an own item if it moved farther.
- Protocol 2: rows of own items and of negatives change, in opposite directions.
- Protocol 3: messages are gradients, with negatives (see ``meta_gradient``).
- Protocol 4: every message has the rows of all own items, and rows of other items, drawn anew for
  each message. The setting ``pseudo`` is the number of other items. An item that is missing from a
  message is not an own item.

If noise changes every row, no protocol reveals much to this reader.

Source: derived here; sign tests on gradients of a cross entropy go back to Zhao et al., iDLG, 2020.
"""

# Protocol 1: a device may draw some of its items for each message. Messages are read until they
# change hardly any new row, and the number of own items whose row never changed is estimated from
# the numbers that changed once and twice (Chao, Biometrics 43, 1987).
# Protocol 2: a device descends on a logistic loss over own items and q negatives per own item, in
# steps that change the row v_i of item i by dv_i = rate * (r_i - sigma_i) * dz_i/dv_i, where r_i is
# the label, z_i the score and sigma_i the predicted probability of item i. Rows move along dz/dv
# for own items (r = 1), against it for negatives (r = 0), and not at all for every other item. The
# direction dz/dv hardly differs between the items of one device: it is the user's vector (dot
# product) or the active part of the MLP's first layer. The changes of all rows therefore lie near
# one line through the origin: own items on one side of zero, negatives on the other side. In a
# graph convolution, own items are also neighbours in the graph, and their changes may lie far from
# the line. The line is fitted to all changed rows by least absolute distances. A row's score is its
# position on the line (negatives below zero), plus its distance from the line if this distance is
# unusually large for the user's rows. Unchanged rows score zero.
# Sign of the line: if q > 1, there are more negatives than own items. If q = 1, the sign follows
# from the user's vector, if it is sent, or else from popularity: negatives are drawn uniformly, but
# own items are not, so that a row is more likely an own item if more devices changed it. Several
# messages of a user are then read, because negatives are drawn anew.
# Protocol 4: an item in all messages of a user is the more likely an own item, the fewer other
# items are drawn.

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.parts.meta_gradient import fit_positive_probs
from fedrec_auditor.attacks.parts.uploads import ModelMessages, divide_or_zero, scatter_item_values
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, MessageReader
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradientsReader
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.transcript import Payload, View

_LOOKED_AT = 16  # number of messages that show whether all rows move
_TRUST = 4.6  # prior log-odds that rows move as the loss requires
_HALVINGS = 30
_KEPT = 8  # number of messages per user that are intersected
_SEVERAL = 4  # number of messages per user if a single message hardly shows the sign
_SAMPLED = 64  # number of messages per user if each may contain only some of the own items
_WHOLE = 0.01  # share of missed rows among moved rows, below which messages have all own items
_MOVED = 0.95  # confidence in a moved row, relative to an unmoved row
_STEPS, _REWEIGHTINGS = 30, 20
_NARROW = 0.01  # sine
_FAR = 30.0  # distance from the line, in typical distances, above which it counts
_ROUNDED = 1e-5  # share of the longest row, below which a distance is a rounding error
_PAIRS = 2**24  # maximum number of senders times items that are processed at once
_OFTEN = 10.0  # mean number of times that a row is sent, with which e^-10 of rows are never sent


class ItemRowsReader(MessageReader):
    """Reader of messages that change some rows of an item table and leave all others unchanged.

    The changed rows, and the direction of the change, show the items with which a user interacted.
    The first and last rounds are read (``uploads.select_rounds``). For users who send nothing in
    these rounds, the last message is read.
    """

    # Cost: about 10 d^2 operations per changed row of d numbers. Memory: 6 bytes per user and item.

    reference = (
        "which rows moved, and which way: derived in attacks/readers/item_rows.py from the chain "
        "rule; compare Zhao et al., iDLG, 2020"
    )

    required_messages = "an item table in which some rows move"

    def can_read(self, view: View) -> bool:
        """Checks whether messages of devices leave some rows of an item table unchanged."""
        return has_unchanged_rows(view)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions, from the changes of item rows.

        The ratios depend on different facts, according to the public settings:

        - setting "pseudo": which rows are in all of a user's messages;
        - setting "negatives": the direction in which each row changed;
        - neither setting: which rows changed, and how far.
        """
        settings = view.public.settings
        if settings.get("pseudo"):
            ratio = _intersect(view, users)
        elif settings.get("negatives"):
            ratio = _read_signs(view, users)
        else:
            ratio = _read_own_rows(view, users)
        return Evidence(users=users, log_ratio=ratio)


def _read_own_rows(view: View, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns log-likelihood ratios (n, M) if devices change rows of the user's items only.

    This is protocol 1 at the start of the file.
    """
    ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
    moves = np.zeros(ratio.shape, dtype=np.uint16)
    n_messages = np.zeros((len(users), 1), dtype=np.int64)
    for sent, to_read, _ in _iter_rounds(view, users, _SAMPLED):
        again = n_messages[:, 0] > 1
        moved_again = np.count_nonzero(moves[again])
        if _count_missed(moves[again], n_messages[again]).sum() < _WHOLE * moved_again:
            to_read = to_read[n_messages[np.searchsorted(users, to_read), 0] == 0]
        places = np.searchsorted(users, to_read)
        for rows, change, moved in sent.iter_user_changes(to_read):
            whose, touched = places[rows], np.asarray(moved.any(axis=2))
            moves[whose] += touched
            lengths = np.linalg.norm(change, axis=2)
            new = np.full(touched.shape, -MAX_LOG_RATIO, dtype=np.float32)
            for some, first, is_moved in uploads.group_by_n_changed_rows(touched):
                sizes = lengths[some[:, None], first] * is_moved
                place = sizes / _median_size(sizes, is_moved)
                moving = MAX_LOG_RATIO * _MOVED * (0.5 + 0.5 * place / (1 + place))
                width = ratio.shape[1]
                new[some] = scatter_item_values(moving, first, is_moved, width, -MAX_LOG_RATIO)
            ratio[whose] = np.where(n_messages[whose] > 0, np.maximum(ratio[whose], new), new)
            n_messages[whose] += 1
    missed = _count_missed(moves, n_messages)
    share = missed / np.maximum(missed + np.count_nonzero(moves, axis=1)[:, None], 1)
    stayed = np.log(np.maximum(share, np.exp(-MAX_LOG_RATIO)))
    return np.where(ratio < 0, np.maximum(ratio, stayed), ratio).astype(np.float32)


def _intersect(view: View, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns log-likelihood ratios (n, M) if every message has the rows of all own items.

    Own items are those with which the user interacted. This is protocol 4 at the start of the file:
    other rows are drawn anew for each message.
    """
    pseudo = view.public.settings["pseudo"]
    ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
    for sent, to_read, _ in _iter_rounds(view, users, _KEPT):
        places = np.searchsorted(users, to_read)
        for rows, _, moved in sent.iter_user_changes(to_read):
            touched = np.asarray(moved.any(axis=2))
            sizes = np.count_nonzero(touched, axis=1)
            others = ratio.shape[1] - np.maximum(sizes - pseudo, 0)
            chance = np.log(np.maximum(others / pseudo, 1.0))
            ratio[places[rows]] += np.where(touched, chance[:, None], -np.inf)
    return ratio


def _read_signs(view: View, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns log-likelihood ratios (n, M), added over rounds, if devices also draw negatives.

    Negatives are items without an interaction. These are protocols 2 and 3 at the start of the
    file.
    """
    negatives = view.public.settings["negatives"]
    ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
    for sent, to_read, beside in _iter_rounds(view, users, _SEVERAL if negatives == 1 else 1):
        counts = _count_senders(sent) if negatives == 1 else None
        silent = _find_unsent_rows(sent)
        gradients = sent.component.kind is Payload.GRADIENT
        places = np.searchsorted(users, to_read)
        for at, change, moved in sent.iter_user_changes(to_read):
            whose, touched = places[at], np.asarray(moved.any(axis=2))
            for some, first, is_moved in uploads.group_by_n_changed_rows(touched):
                rows = change[some[:, None], first] * is_moved[:, :, None]
                own = None if beside is None else get_sender_vectors(beside, to_read[at[some]])
                if negatives > 1 and gradients:
                    place = (2 * fit_positive_probs(rows) - 1).astype(np.float32)
                else:
                    place = _locate(rows, is_moved, None if counts is None else counts[first], own)
                    place = place / (1 + np.abs(place))
                moving = MAX_LOG_RATIO * _MOVED * place
                if negatives > 1:
                    moving = _weaken(moving, is_moved, negatives, ratio.shape[1])
                width = ratio.shape[1]
                new = scatter_item_values(moving, first, is_moved, width, -MAX_LOG_RATIO)
                new[:, silent] = 0.0
                ratio[whose[some]] += new
    return ratio


def _iter_rounds(
    view: View, users: NDArray[np.int64], per_user: int
) -> Iterator[tuple[ModelMessages, NDArray[np.int64], ModelMessages | None]]:
    """Yields messages of a round, the users to read in it, and messages with the senders' vectors.

    The rounds of ``uploads.select_rounds`` come first, with all ``users``. The last round of each
    user who sent in none of them follows. The third value is None if no vectors are sent.
    """
    missing = users
    for sent, beside in pair_item_user_messages(view, per_user):
        yield sent, users, beside
        missing = missing[~np.isin(missing, sent.users)]
    every = pair_item_user_messages(view, len(view.rounds)) if len(missing) else []
    for sent, beside in reversed(every):
        is_sender = np.isin(missing, sent.users)
        if is_sender.any():
            yield sent, missing[is_sender], beside
            missing = missing[~is_sender]


def pair_item_user_messages(
    view: View, per_user: int
) -> list[tuple[ModelMessages, ModelMessages | None]]:
    """Pairs the messages about the item table with those about user vectors, one pair per round.

    The second value of a pair is None if the senders send no vectors of their own. The rounds are
    those of ``uploads.select_rounds``.

    view: messages and public parameters that the adversary sees
    per_user: limit on the number of messages, as a multiple of the number of users
    """
    tables = uploads.read_item_messages(view, per_user=per_user)
    width = tables[0].component.shape[-1:] if tables else ()
    kinds = {*uploads.MODEL_KINDS, Payload.VECTOR}
    for rounds in uploads.read_model_messages(view, kinds, per_user).values():
        shape, kind = rounds[0].component.shape, rounds[0].component.kind
        wanted = width if kind is Payload.VECTOR else (view.public.n_users, *width)
        if shape == wanted != tables[0].component.shape and len(rounds) == len(tables):
            pairs = list(zip(tables, rounds, strict=True))
            if all(np.array_equal(table.users, vectors.users) for table, vectors in pairs):
                return list(pairs)
    return [(table, None) for table in tables]


def get_sender_vectors(sent: ModelMessages, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns the vector (k, d) that each of ``users`` (k,) sent for itself.

    ``sent`` is a round's messages: one vector per sender, or a table with one row per user. The
    result has only the sender's own row of a table.
    """
    order = np.argsort(sent.users)
    places = order[np.searchsorted(sent.users, users, sorter=order)]
    if len(sent.component.shape) == 1:
        return np.asarray(sent.component.to_dense(places), dtype=np.float32)
    return np.asarray(sent.component.select_rows(places, users[:, None])[:, 0], dtype=np.float32)


def has_unchanged_rows(view: View) -> bool:
    """Checks whether messages change an item table, and most messages leave some row unchanged.

    Messages that change nothing do not count. The result is False for gradients of a loss over all
    items, which ``rank_one_gradients`` reads.
    """
    # A few messages of the last round are examined. Noise changes all rows.
    rounds = uploads.read_item_messages(view)
    if not rounds or not len(rounds[-1].component) or RankOneGradientsReader().can_read(view):
        return False
    _, _, moved = next(rounds[-1].select_first_senders(_LOOKED_AT).iter_changes())
    rows: NDArray[np.bool_] = np.asarray(moved.any(axis=2))
    active = rows[rows.any(axis=1)]
    return bool(len(active)) and float((~active.all(axis=1)).mean()) > 0.5


def _weaken(
    ratio: NDArray[np.float32], is_moved: NDArray[np.bool_], negatives: float, items: int
) -> NDArray[np.float32]:
    """Returns log-likelihood ratios (n, m) of changed rows, weakened if their signs look random.

    ratio: log-likelihood ratios by sign (n, m)
    is_moved: True for changed rows (n, m)
    negatives: number q of negatives (drawn items) per own item, with which the user interacted
    items: number of all items
    """
    # With n own items, and q n negatives drawn among all other items with replacement, the share of
    # own items among the changed rows is known. If noise in the loss moves rows in random
    # directions, about half of them have either sign, and only the fact that a row changed is
    # informative. The probability of that case follows from the number of rows on the own items'
    # side, which is binomial with the known share or with 1/2.
    moved = np.maximum(is_moved.sum(axis=1), 1).astype(np.float64)
    low, high = np.zeros(len(moved)), moved.copy()
    for _ in range(_HALVINGS):
        own = (low + high) / 2
        others = np.maximum(items - own, 1.0)
        more = own - others * np.expm1(-negatives * own / others) > moved
        low, high = np.where(more, low, own), np.where(more, own, high)
    share = np.clip(own / moved, 0.01, 0.49)
    own_side = np.count_nonzero((ratio > 0) & is_moved, axis=1)
    gain = own_side * np.log(2 * share) + (moved - own_side) * np.log(2 * (1 - share)) + _TRUST
    chance = np.log(np.maximum(items - own, 1.0) / np.maximum(moved - own, 1.0))
    sure, unsure = log_expit(gain)[:, None], log_expit(-gain)[:, None]
    return np.asarray(np.logaddexp(sure + ratio, unsure + chance[:, None]), dtype=np.float32)


def _count_missed(moves: NDArray[np.uint16], n_messages: NDArray[np.int64]) -> NDArray[np.float64]:
    """Estimates the number of a user's own items whose row no message changed, (n, 1).

    The estimate is Chao's lower bound. It is 0 for a single message, and for messages that all
    change the same rows.

    moves: number of messages that changed each row (n, M)
    n_messages: number of messages of each user (n, 1)
    """
    once, twice = (np.count_nonzero(moves == k, axis=1)[:, None] for k in (1, 2))
    missed = (1 - 1 / np.maximum(n_messages, 1)) * once * (once - 1) / (2.0 * (twice + 1))
    still = np.count_nonzero(moves == 0, axis=1)[:, None]
    return np.asarray(np.minimum(missed, still), dtype=np.float64)


def _count_senders(table: ModelMessages) -> NDArray[np.float64]:
    """Counts for each row of the table the senders who changed it, (M,)."""
    counts = np.zeros(table.component.shape[0])
    for _, _, moved in table.iter_changes():
        counts += moved.any(axis=2).sum(axis=0)
    return counts


def _find_unsent_rows(table: ModelMessages) -> NDArray[np.bool_]:
    """Returns a mask (M,) of items that are not used in the round: nobody sends their row.

    Models always have all rows, so that the mask is then empty.
    """
    # By chance alone, every row would be sent, because devices draw other items uniformly among the
    # items of a round.
    counts = np.zeros(table.component.shape[0])
    for some in iter_blocks(len(table.component), len(counts), _PAIRS):
        clients = np.arange(some.start, some.stop)
        counts += np.count_nonzero(table.component.flag_sent_rows(clients), axis=0)
    return np.asarray((counts == 0) & (counts.mean() > _OFTEN))


def _locate(
    change: NDArray[np.float32],
    touched: NDArray[np.bool_],
    counts: NDArray[np.float64] | None,
    vectors: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Returns how far each row moved in the direction of interactions, in typical steps, (n, M).

    change: changes of the rows (n, M, d)
    touched: True for changed rows (n, M)
    counts: number of senders who changed each row, if devices draw one other item per interaction
        (n, M); else None
    vectors: users' vectors, if sent, along which rows of interactions then move (n, d)
    """
    direction = fit_main_direction(change)
    along, apart = _project_changes(change, direction)
    if counts is None:
        # Most changed rows belong to drawn items without an interaction.
        up = np.where((np.sign(along) * touched).sum(axis=1) > 0, -1, 1).astype(np.float32)
    elif vectors is not None:
        up = np.where(np.einsum("nd,nd->n", direction, vectors) < 0, -1, 1).astype(np.float32)
    else:
        up = _popularity_sign(along, touched, counts)
    place = along * up[:, None] / _median_size(np.abs(along), touched)
    if counts is None:  # with one negative per own item, the line may be that of own items
        rounding = _ROUNDED * np.abs(along).max(axis=1)[:, None]
        typical = np.maximum(_median_size(apart, touched), rounding)
        place += np.maximum(apart / typical - _FAR, 0)
    return np.asarray(place)


def _median_size(sizes: NDArray[np.float32], touched: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Returns the median of ``sizes`` over the changed rows of each user, (n, 1)."""
    kept = np.where(touched | ~touched.any(axis=1, keepdims=True), sizes, np.nan)
    return np.asarray(np.nanmedian(kept, axis=1, keepdims=True) + 1e-30, dtype=np.float32)


def _project_changes(
    change: NDArray[np.float32], direction: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns positions of rows' changes along each user's line, and distances from the line.

    Both are (n, M); the line goes through the origin in ``direction`` (n, d).
    """
    along = (change @ direction[:, :, None])[:, :, 0]
    return along, np.linalg.norm(change - along[:, :, None] * direction[:, None], axis=2)


def fit_main_direction(changes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fits the main direction (n, d), without sign, of each sender's changes of item rows.

    The direction follows most rows, not the longest change. The method is iteratively reweighted
    least squares on the directions of the changes.

    changes: changes of the rows of n senders (n, M, d)
    """
    # The weight of a row is the inverse of the sine of its angle to the main direction. There is
    # one step of the power method per reweighting.
    unit = divide_or_zero(changes, np.linalg.norm(changes, axis=2)[:, :, None])
    gram = unit.transpose(0, 2, 1) @ unit
    column = np.argmax(np.einsum("ndd->nd", gram), axis=1)
    direction = np.take_along_axis(gram, column[:, None, None], axis=2)
    for _ in range(_STEPS):
        direction = gram @ _normalise(direction)
    for _ in range(_REWEIGHTINGS):
        cosine = unit @ _normalise(direction)
        sine = np.sqrt(np.maximum(1 - cosine**2, 0))
        direction = unit.transpose(0, 2, 1) @ (cosine / (sine + _NARROW))
    return _normalise(direction)[:, :, 0]


def _normalise(direction: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns columns (n, d, 1) scaled to length 1; zero columns stay zero."""
    return divide_or_zero(direction, np.linalg.norm(direction, axis=1, keepdims=True))


def _popularity_sign(
    along: NDArray[np.float32], touched: NDArray[np.bool_], counts: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Returns +1 if positions of changed rows rise with popularity, -1 if they fall, (n,).

    ``counts`` are the numbers of senders who changed each row.
    """
    share = touched.sum(axis=1, keepdims=True)
    total = (touched * counts).sum(axis=1, keepdims=True)
    slope = np.einsum("nm,nm->n", along, touched * (counts - divide_or_zero(total, share)))
    return np.where(slope < 0, -1, 1).astype(np.float32)
