"""What classifiers are given of a user: everything that was uploaded, condensed to one vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.model_messages import item_name, model_messages
from fedrec_auditor.attacks.parts.moves import moves
from fedrec_auditor.attacks.parts.rank_one import carries_gradients, decide, fits
from fedrec_auditor.attacks.parts.uploads import BLOCK, blocks, kept, names, senders
from fedrec_auditor.targets.transcript import Kind, RoundView, Uploads, View, Wire

_SUMMARY = "summary"
_CLIP = 5.0
_Part = tuple[NDArray[np.integer[Any]], NDArray[np.float32]]
"""Users, and a row of numbers for each."""


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
    uploads, or condensed before, is returned as it is. Memory: the number of senders times the size
    of one message, float32.
    """
    found = names(view)
    if not found or found == [_SUMMARY]:
        return view
    users = senders(view)
    parts = []
    for theirs, values in _parts(view):
        places, part = np.searchsorted(users, theirs), values
        if not np.array_equal(theirs, users):
            part = np.zeros((len(users), values.shape[1]), dtype=np.float32)
            part[places] = values
        _standardise(part, places)
        parts.append(part)
    values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    uploads = Uploads(
        users=users, components=MappingProxyType({_SUMMARY: Wire.of(values, Kind.CHANGE)})
    )
    return replace(view, rounds=(RoundView(broadcast=view.rounds[-1].broadcast, uploads=uploads),))


def _parts(view: View) -> Iterator[_Part]:
    patterns = moves(view)
    for one in patterns.values():
        yield one.users, one.moved.astype(np.float32)
    if patterns:
        return
    gradients = item_name(view, (Kind.GRADIENT,)) if carries_gradients(view) else None
    for name in names(view):
        yield _interactions(view) if name == gradients else _mean(view, name)


def _mean(view: View, name: str) -> _Part:
    """The mean of each sender's messages, of models less the broadcast: (n, size)."""
    rounds, changes = kept(view, name), model_messages(view).get(name, ())
    users = np.unique(np.concatenate([uploads.users for _, uploads, _ in rounds]))
    total = np.zeros((len(users), int(np.prod(rounds[0][2].shape))), dtype=np.float32)
    count = np.zeros((len(users), 1), dtype=np.float32)
    for number, (_, uploads, component) in enumerate(rounds):
        places = np.searchsorted(users, uploads.users)
        count[places] += 1
        if len(changes) == len(rounds):
            for rows, change, _ in changes[number].changes():
                total[places[rows]] += change.reshape(len(change), -1)
        else:
            for rows, messages in blocks(component):
                total[places[rows]] += messages.reshape(len(messages), -1)
    total /= count
    return users, total


def _interactions(view: View) -> _Part:
    """The interaction sets that the last round's gradients give away: (n, n_items)."""
    alpha = float(view.public.settings.get("alpha", 1.0))
    users, sets = zip(
        *((who, decide(one, items, alpha)) for who, one, items in fits(view)), strict=True
    )
    return np.concatenate(users), np.concatenate(sets).astype(np.float32)


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
    parts = []
    for uploads, component in summary(view).component(_SUMMARY):
        sent = np.isin(users, uploads.users)
        part = component.dense(np.searchsorted(uploads.users, users[sent]))
        if not sent.all():
            whole = np.zeros((len(users), *component.shape), dtype=np.float32)
            whole[sent] = part
            part = whole
        parts.append(part)
    if side is not None:
        width, spread = sum(part.shape[1] for part in parts), float(side.var(axis=0).sum())
        scale = np.sqrt(width / spread) if width and spread > 0 else 1.0
        parts.append((scale * side[users]).astype(np.float32))
    if not parts:  # a classifier needs something to read
        return np.zeros((len(users), 1), dtype=np.float32)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
