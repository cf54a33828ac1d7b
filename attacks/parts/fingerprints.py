"""What tells one user's messages from another's, and how like two rounds' messages are by it.

A message is read as if its round were all there is. Its fingerprints are what the readers tell of
it (interactions, vectors, ratings) and, of each of its parts, the entries where they are few (of a
list, how often each code is there), the sizes of the rows, and which rows moved. A round's mean is
subtracted: what all users share tells none of them apart. Two messages are as like as the cosine of
their fingerprints.

How much each fingerprint tells is learned on earlier rounds whose senders are known. Where none is,
it shows all the same: by one that identifies users, a message stands out from all others.
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
from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.targets.transcript import (
    LISTS,
    NOTHING,
    Component,
    Kind,
    RoundView,
    Uploads,
    View,
)

Fingerprints = dict[str, NDArray[np.float32]]
"""By name, a row of numbers a message."""
Batch = tuple[NDArray[np.intp], Fingerprints]
"""Whose of the candidates each message of a round is, and its fingerprints."""

_LEAST = 1e-6  # of a variance of cosines, and of 1 less a cosine
_WIDE = 2**14  # numbers of a part that is compared entry by entry
_PRIME = 2_147_483_647
_ROOM = 64  # places for each code of a list


def whole(seen: RoundView) -> Mapping[str, Component]:
    """The messages of a round that are each one user's, in the order that is seen.

    Reports that were shuffled are a message each, of a single coordinate.
    """
    if seen.uploads is not None:
        return seen.uploads.components
    return {
        name: part for name, part in (seen.shuffled or {}).items() if part.kind is not Kind.REPORTS
    }


def fingerprints(view: View, seen: RoundView) -> Fingerprints:
    """Of every message of the round ``one``: (n, p) each, of mean 0 and rows of length 1 or 0."""
    sent = whole(seen)
    count = len(next(iter(sent.values())))
    everyone = np.arange(count)
    alone = replace(
        view,
        vantage=Vantage.SERVER,
        public=replace(view.public, n_users=count),
        rounds=(RoundView(broadcast=seen.broadcast, uploads=Uploads(everyone, sent)),),
    )
    prints: dict[str, NDArray[np.float32]] = {}
    if not reading.refusal(alone):
        evidence = reading.evidence(alone, everyone)
        if evidence.log_ratio is not None:
            prints["interactions"] = _interactions(evidence)
        for name in ("vectors", "ratings"):
            part = getattr(evidence, name)
            if part is not None:
                prints[name] = part
    moving = model_messages(alone)
    for name, component in sent.items():
        if name in moving:
            prints |= _of_model(name, moving[name][0])
        elif component.kind in LISTS:
            prints[name] = _bag(component.dense(everyone).reshape(count, -1))
        elif np.prod(component.shape) <= _WIDE:
            prints[name] = component.dense(everyone).reshape(count, -1)
    return {name: _unit(part) for name, part in prints.items()}


def likeness(
    sent: Fingerprints, before: Sequence[Batch], candidates: int
) -> dict[str, NDArray[np.float32]]:
    """By fingerprint, how like each message is to what each candidate sent before: (n, candidates).

    A candidate's fingerprint is the mean over those of these rounds that have it.
    """
    cosines = {}
    for name, part in sent.items():
        profile = np.zeros((candidates, part.shape[1]), dtype=np.float32)
        for whose, prints in before:
            if name in prints:  # a round may have a message that others have not
                np.add.at(profile, whose, prints[name])
        cosines[name] = part @ _lengthened(profile).T
    return cosines


def margin(likeness: NDArray[np.floating[Any]]) -> float:
    """How much less the nearest of a row may be chance than the next: log-probabilities, mean.

    Of cosines of directions that have nothing to do with each other, in as many dimensions as these
    vary like: P(cosine > c) is about (1 - c^2)^((p - 1) / 2), and their variance is 1 / p. An
    identifier that is repeated to the digit stands out in few dimensions as well as in many. 0
    where there is no second.
    """
    if likeness.shape[1] < 2:
        return 0.0
    first = np.partition(likeness, -2, axis=1)[:, -2:].astype(np.float64)
    spread = max(float(likeness.var()), _LEAST)
    chance = -0.5 * (1 / spread - 1) * np.log1p(-(np.clip(first, 0.0, 1 - _LEAST) ** 2))
    return float(np.minimum(chance[:, 1] - chance[:, 0], SURE).mean())


def _interactions(evidence: Evidence) -> NDArray[np.float32]:
    """Posteriors less priors, in deviations of an item: (n, M).

    Two messages are one user's rather than two users' with odds, an item, of
    q q' / p + (1 - q)(1 - q') / (1 - p) = 1 + (q - p)(q' - p) / (p (1 - p)), where q and q' are the
    posteriors and p is the prior: to first order the log of all items' odds is an inner product.
    """
    items, activity = prior.prior(evidence)
    share = expit(items)
    beyond = prior.posterior(evidence) - expit(items + activity[:, None])
    return np.asarray(beyond / np.sqrt(share * (1 - share)), dtype=np.float32)


def _of_model(name: str, messages: ModelMessages) -> Fingerprints:
    """Entries, row sizes and moved rows of what a part changes by."""
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
    """How often each code is listed, (n, p); some share a place."""
    wide = min(_WIDE, _ROOM * codes.shape[1])
    held = np.zeros((len(codes), wide), dtype=np.float32)
    places = (codes.astype(np.int64) % _PRIME * 48_271 % _PRIME) % wide
    np.add.at(held, (np.arange(len(codes))[:, None], places), (codes != NOTHING).astype(np.float32))
    return held


def _unit(part: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Less the mean over messages, of length 1."""
    finite = np.nan_to_num(part.astype(np.float32), posinf=0.0, neginf=0.0)
    return _lengthened(_lengthened(finite) - _lengthened(finite).mean(axis=0))


def _lengthened(part: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(part, axis=1, keepdims=True)
    out = np.zeros_like(part)
    return np.asarray(np.divide(part, length, out=out, where=length > 0))
