"""Fingerprints: numeric summaries of messages by which messages of one sender are recognised.

A message is read as if its round were the only round. Its fingerprints are what readers
(``attacks/readers``) infer from the message (interactions, vectors, ratings) and, for each
component of the message, three summaries: its entries if they are few (for a list, the count of
each code), the lengths of the rows, and which rows changed. The mean of a round is subtracted,
because common features of all users do not identify anybody. The similarity of two messages is the
cosine of their fingerprints.

The weight of each kind of fingerprint is learned from earlier rounds with known senders. Without
known senders, a fingerprint identifies users if it makes one candidate much more similar to a
message than all other candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts import prior, reading
from fedrec_auditor.attacks.parts.uploads import ModelMessages, model_messages
from fedrec_auditor.attacks.readers.base import CERTAIN, Evidence
from fedrec_auditor.targets.transcript import (
    LIST_KINDS,
    LIST_PADDING,
    Component,
    Kind,
    RoundView,
    Uploads,
    View,
)

# Fingerprints by name: arrays with one row per message.
Fingerprints = dict[str, NDArray[np.float32]]
# Messages of one round: the number of each sender among the candidates, and the fingerprints.
Batch = tuple[NDArray[np.intp], Fingerprints]

_LEAST = 1e-6  # minimum variance of cosines, and minimum value of 1 less a cosine
_WIDE = 2**14  # maximum size of a part that is compared entry by entry
_PRIME = 2_147_483_647
_ROOM = 64  # number of columns per code of a list


def user_messages(seen: RoundView) -> Mapping[str, Component]:
    """Returns the messages of users in a round, by component name, each with one row per user.

    Shuffled reports are omitted: each of them is a separate message of a single coordinate.
    """
    if seen.uploads is not None:
        return seen.uploads.components
    return {
        name: part for name, part in (seen.shuffled or {}).items() if part.kind is not Kind.REPORTS
    }


def fingerprints(view: View, round_view: RoundView) -> Fingerprints:
    """Returns numeric summaries (fingerprints) of the n messages of one round, as arrays by name.

    Each array is (n, p), with mean 0 over messages, and with rows of length 1 or 0. Only this
    round's messages are read; ``view`` gives the public parameters.
    """
    sent = user_messages(round_view)
    count = len(next(iter(sent.values())))
    everyone = np.arange(count)
    alone = replace(
        view,
        vantage=Vantage.SERVER,
        public=replace(view.public, n_users=count),
        rounds=(RoundView(broadcast=round_view.broadcast, uploads=Uploads(everyone, sent)),),
    )
    prints: dict[str, NDArray[np.float32]] = {}
    if not reading.refusal(alone):
        evidence = reading.read_evidence(alone, everyone)
        if evidence.log_ratio is not None:
            prints["interactions"] = _interactions(evidence)
        for name in ("vectors", "ratings"):
            part = getattr(evidence, name)
            if part is not None:
                prints[name] = part
    moving = model_messages(alone)
    for name, component in sent.items():
        if name in moving:
            prints |= _print_model(name, moving[name][0])
        elif component.kind in LIST_KINDS:
            prints[name] = _bag(component.dense(everyone).reshape(count, -1))
        elif np.prod(component.shape) <= _WIDE:
            prints[name] = component.dense(everyone).reshape(count, -1)
    return {name: _centre(part) for name, part in prints.items()}


def similarities(
    sent: Fingerprints, before: Sequence[Batch], candidates: int
) -> dict[str, NDArray[np.float32]]:
    """Returns the similarity (n, candidates) of each message to each candidate sender, by name.

    sent: fingerprints (numeric summaries) of n messages, by name
    before: index of each sender among the candidates, and fingerprints, for each earlier round
    candidates: number of candidate senders

    The similarity is the cosine of the message's fingerprint and the candidate's mean fingerprint
    in the earlier rounds.
    """
    cosines = {}
    for name, part in sent.items():
        profile = np.zeros((candidates, part.shape[1]), dtype=np.float32)
        for whose, prints in before:
            if name in prints:  # rounds may differ in their messages
                np.add.at(profile, whose, prints[name])
        cosines[name] = part @ _normalise(profile).T
    return cosines


def mean_margin(likeness: NDArray[np.floating[Any]]) -> float:
    """Returns how much the best candidate sender exceeds the second best, as a mean over messages.

    likeness: cosine of each message and each candidate (n, candidates)

    A candidate is judged by the log-probability that unrelated directions have so large a cosine by
    chance: P(cosine > c) is about (1 - c^2)^((p - 1) / 2) in p dimensions. The margin is the
    difference of the log-probabilities of the two candidates. Cosines of unrelated directions have
    variance 1 / p, so that p follows from the variance of ``likeness``. An identifier that is
    repeated exactly has a large margin in few dimensions as well as in many. The result is 0
    without a second candidate.
    """
    if likeness.shape[1] < 2:
        return 0.0
    first = np.partition(likeness, -2, axis=1)[:, -2:].astype(np.float64)
    spread = max(float(likeness.var()), _LEAST)
    chance = -0.5 * (1 / spread - 1) * np.log1p(-(np.clip(first, 0.0, 1 - _LEAST) ** 2))
    return float(np.minimum(chance[:, 1] - chance[:, 0], CERTAIN).mean())


def _interactions(evidence: Evidence) -> NDArray[np.float32]:
    """Returns the posterior less the prior of each interaction, (n, M), in scaled units.

    The difference is divided by the standard deviation sqrt(p (1 - p)) of an item with the share p
    of users. Each item contributes the odds q q' / p + (1 - q)(1 - q') / (1 - p) = 1 + (q - p)(q' -
    p) / (p (1 - p)) that two messages are from one user rather than two, where q and q' are the
    posteriors and p is the prior. To first order, the logarithm of all items' odds is an inner
    product.
    """
    items, activity = prior.prior(evidence)
    share = expit(items)
    beyond = prior.posterior(evidence) - expit(items + activity[:, None])
    return np.asarray(beyond / np.sqrt(share * (1 - share)), dtype=np.float32)


def _print_model(name: str, messages: ModelMessages) -> Fingerprints:
    """Returns fingerprints of the changes of one model part: entries, row lengths, changed rows.

    ``name`` is the name of the part, with which the names of the fingerprints begin.
    """
    parts: dict[str, list[NDArray[np.float32]]] = {}
    for _, change, moved in messages.changes():
        n = len(change)
        if np.prod(change.shape[1:]) <= _WIDE:
            parts.setdefault(name, []).append(change.reshape(n, -1))
        if change.ndim != 3:
            continue
        sizes = np.asarray(np.linalg.norm(change, axis=2), dtype=np.float32)
        parts.setdefault(f"{name} sizes", []).append(sizes)
        parts.setdefault(f"{name} moved", []).append(
            np.asarray(moved.any(axis=2)).astype(np.float32)
        )
    return {key: np.concatenate(blocks) for key, blocks in parts.items()}


def _bag(codes: NDArray[Any]) -> NDArray[np.float32]:
    """Counts how often each code occurs in each list, (n, p); some codes share a column."""
    wide = min(_WIDE, _ROOM * codes.shape[1])
    bags = np.zeros((len(codes), wide), dtype=np.float32)
    places = (codes.astype(np.int64) % _PRIME * 48_271 % _PRIME) % wide
    np.add.at(
        bags, (np.arange(len(codes))[:, None], places), (codes != LIST_PADDING).astype(np.float32)
    )
    return bags


def _centre(part: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Returns ``part`` with rows of length 1, after subtraction of the mean over messages."""
    finite = np.nan_to_num(part.astype(np.float32), posinf=0.0, neginf=0.0)
    return _normalise(_normalise(finite) - _normalise(finite).mean(axis=0))


def _normalise(part: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(part, axis=1, keepdims=True)
    out = np.zeros_like(part)
    return np.asarray(np.divide(part, length, out=out, where=length > 0))
