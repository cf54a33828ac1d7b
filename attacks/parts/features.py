"""What classifiers are given of a user: everything that was uploaded, condensed to one vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.model_messages import item_name, model_messages
from fedrec_auditor.attacks.parts.moves import Moves, moves
from fedrec_auditor.attacks.parts.prior import posterior
from fedrec_auditor.attacks.parts.uploads import BLOCK, blocks, kept, names, senders
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
from fedrec_auditor.targets.transcript import Kind, RoundView, Uploads, View, Wire

_SUMMARY = "summary"
_CLIP = 5.0
NUMBERS = 1 << 28
"""Most numbers of a summary: 1 GiB."""
_Reader = Callable[[NDArray[np.float32], NDArray[Any]], NDArray[np.intp]]
"""Writes what it reads of the users (n,), in the columns (n, width); which rows it wrote."""


def summary(view: View) -> View:
    """The view with its uploads condensed to one standardised vector a sender.

    Where devices leave rows or columns of a matrix unmoved (``moves``), which ones they move is
    all that is taken. In FedRec those of a user's own features are among 600, and would drown in
    the 127,000 numbers of the whole upload: on MovieLens 100K, with 30% of users known, the MLP
    then has a macro F1 of .91 instead of .65 for gender. Else, item gradients are read as the
    interaction sets they give away (``rank_one``), all other components as they are. Reports and
    bits, randomized afresh every round, and what messages would change in the model, are averaged
    over the rounds that are read (``uploads.kept``). Last, the columns are centred and scaled over
    all senders, labelled or not, which the adversary sees too, and clipped at five standard
    deviations: what everybody was sent drops out, and what a device changed remains. A view without
    uploads, or condensed before, is returned as it is.

    Memory: the number of senders times the size of one message, float32, at most 1 GiB. Where that
    would be more, as many of the senders are read as fit, who sent last: the paper's attacker has
    those of one round (section 3.3), which are 604 of MovieLens 1M.
    """
    found = names(view)
    if not found or found == [_SUMMARY]:
        return view
    parts = _parts(view)
    users = _subjects(view, sum(width for width, _ in parts))
    values = np.zeros((len(users), sum(width for width, _ in parts)), dtype=np.float32)
    start = 0
    for width, read in parts:
        part = values[:, start : start + width]
        _standardise(part, read(part, users))
        start += width
    uploads = Uploads(
        users=users, components=MappingProxyType({_SUMMARY: Wire.of(values, Kind.CHANGE)})
    )
    return replace(view, rounds=(RoundView(broadcast=view.rounds[-1].broadcast, uploads=uploads),))


def _subjects(view: View, width: int) -> NDArray[np.integer[Any]]:
    """The users whose summaries are made, ascending: all, or as many as fit, who sent last."""
    users = senders(view)
    left = max(2, NUMBERS // max(1, width))
    if len(users) <= left:
        return users
    chosen = users[:0]
    for one in reversed(view.rounds):
        if one.uploads is not None and left:
            new = np.setdiff1d(one.uploads.users, chosen)
            count = min(left, len(new))
            chosen = np.concatenate([chosen, new[np.arange(count) * len(new) // max(1, count)]])
            left -= count
    return np.sort(chosen)


def _parts(view: View) -> list[tuple[int, _Reader]]:
    """How many columns each part of the summary has, and what writes it."""
    patterns = moves(view)
    if patterns:
        return [(one.moved.shape[1], partial(_moved, one)) for one in patterns.values()]
    gradients = None if RankOneGradients().refusal(view) else item_name(view, (Kind.GRADIENT,))
    return [
        (view.public.n_items, partial(_interactions, view))
        if name == gradients
        else (int(np.prod(kept(view, name)[-1][2].shape)), partial(_mean, view, name))
        for name in names(view)
    ]


def _moved(one: Moves, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """Which rows and columns each of ``users`` moved."""
    mine = np.isin(one.users, users)
    places = np.searchsorted(users, one.users[mine])
    out[places] = one.moved[mine]
    return places


def _mean(view: View, name: str, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """The mean of each sender's messages, of models less the broadcast."""
    rounds, changes = kept(view, name), model_messages(view).get(name, ())
    count = np.zeros((len(users), 1), dtype=np.float32)
    for number, (_, uploads, component) in enumerate(rounds):
        mine, places = np.isin(uploads.users, users), np.searchsorted(users, uploads.users)
        count[places[mine]] += 1
        read = (
            ((rows, change) for rows, change, _ in changes[number].changes())
            if len(changes) == len(rounds)
            else blocks(component)
        )
        for rows, messages in read:
            some = mine[rows]
            out[places[rows][some]] += messages[some].reshape(np.count_nonzero(some), out.shape[1])
    out /= np.maximum(count, 1)
    return np.flatnonzero(count)


def _interactions(view: View, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """The interaction sets that gradients give away, as far as they do."""
    out[:] = posterior(RankOneGradients().read(view, users.astype(np.int64)))
    return np.arange(len(users))


def _standardise(part: NDArray[np.float32], senders: NDArray[np.integer[Any]]) -> None:
    """Centre, scale and clip the columns over ``senders``, in place; all others become 0.

    By blocks of columns: what is held beside ``part`` does not grow with it.
    """
    step = max(1, BLOCK // max(1, len(part)))
    for start in range(0, part.shape[1], step):
        columns = part[:, start : start + step]
        sent = columns[senders]
        mean, scale = sent.mean(axis=0, dtype=np.float64), sent.std(axis=0, dtype=np.float64)
        scale[scale <= 1e-6 * np.abs(mean)] = 1.0
        sent -= mean.astype(np.float32)
        sent /= scale.astype(np.float32)
        columns[:] = 0
        columns[senders] = np.clip(sent, -_CLIP, _CLIP, out=sent)


def features(
    view: View, side: NDArray[np.float64] | None, users: NDArray[np.integer[Any]]
) -> NDArray[np.float32]:
    """What a classifier is given of ``users`` (m,): their condensed uploads and ``side``, (m, d).

    A user who sent nothing of what is read has the mean, zero.
    Beside thousands of upload columns a few others would drown: ``side`` is scaled to the same
    total variance.
    """
    condensed = summary(view)
    uploads = condensed.rounds[-1].uploads if names(condensed) else None
    component = None if uploads is None else uploads.components[_SUMMARY]
    width = 0 if component is None else component.shape[0]
    spread = 0.0 if side is None else float(side.var(axis=0).sum())
    scaled = np.zeros((len(users), 0)) if side is None else side[users]
    if width and spread > 0:
        scaled = np.sqrt(width / spread) * scaled
    if not width + scaled.shape[1]:  # a classifier needs something to read
        return np.zeros((len(users), 1), dtype=np.float32)
    out = np.zeros((len(users), width + scaled.shape[1]), dtype=np.float32)
    out[:, width:] = scaled
    if uploads is not None and component is not None:
        sent = np.flatnonzero(np.isin(users, uploads.users))
        places = np.searchsorted(uploads.users, users[sent])
        step = max(1, BLOCK // max(1, width))
        for start in range(0, len(sent), step):
            some = slice(start, start + step)
            out[sent[some], :width] = component.dense(places[some])
    return out
