"""What a white-box adversary looks at: what is seen, along what the canary would send."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.targets.components import Component, Kind, Randomized, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast, RoundView, Uploads, View

Array = NDArray[np.float64]
Directions = Mapping[str, Array]
"""By component of a message, how the canary's differs between the two worlds on average."""
_NUMBERS = 1 << 20  # of messages read at once
_MOST = 16  # rounds, or entries of a release, that are features of their own
_TINY = 1e-30


def directions(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    size: int,
) -> Directions:
    """Mean message of the first profile less that of the second, over ``size`` uploads of each.

    Noise that is added on the way out is left out where the component keeps the message before it.
    Whoever knows the algorithm and the canary computes this from the broadcast.
    """
    uploads = target.upload(profiles, broadcast, rng, size)
    found = {}
    for name, sent in uploads.components.items():
        plain = sent.clean if isinstance(sent, Randomized) else sent
        first, second = (
            plain.dense(np.arange(start, start + size)).mean(axis=0, dtype=np.float64)
            for start in (0, size)
        )
        found[name] = np.asarray(first - second)
    return found


def direction_of(name: str, shape: tuple[int, ...], along: Directions) -> Array | None:
    """The direction of this component, else, as of noise that is replaced, one of its shape."""
    own = along.get(name)
    if own is not None and own.shape == shape and own.any():
        return own
    return next((each for each in along.values() if each.shape == shape and each.any()), None)


def projections(sent: Component, direction: Array) -> Array:
    """Inner product of each message with ``direction``, (n,), by blocks of messages."""
    flat = direction.ravel()
    if isinstance(sent, Reports):
        signs = np.where(sent.positive, flat[sent.index], -flat[sent.index])
        return np.asarray(signs.sum(axis=1) * (sent.magnitude / sent.index.shape[1]))
    out = np.empty(len(sent))
    step = max(1, _NUMBERS // max(1, flat.size))
    for start in range(0, len(sent), step):
        block = np.arange(start, min(start + step, len(sent)))
        out[block] = sent.dense(block).reshape(len(block), -1) @ flat
    return out


def training_features(view: View, along: Sequence[Directions], canary: int) -> Array:
    """What is looked at in a training, (f,): f depends on the vantage, the target, its rounds.

    ``along`` has the directions at the broadcast of each of the view's rounds. For each source of
    messages, the inner product with the direction over the mean square of what is seen: a
    log-likelihood ratio if what is seen is noise of that size. Summed over rounds, in units of its
    deviation, and by round; of messages that are not linked to users the largest, too. Of a
    release also the first entries of the new items' rows.
    """
    if view.vantage is Vantage.RELEASE:
        (seen,) = view.rounds
        model = seen.broadcast or {}
        rows = [
            np.asarray(part, float)[-1].ravel()[:_MOST]
            for part in model.values()
            if np.ndim(part) == 2 and len(part) == view.public.n_items
        ]
        return np.concatenate([_summary([_ratio(_parts(model, along[0]))]), *rows[:1]])
    if view.vantage is Vantage.PEERS:
        moves = [
            _ratio(_parts(_difference(before.broadcast, after.broadcast), each))
            for before, after, each in zip(view.rounds, view.rounds[1:], along, strict=False)
        ]
        return _summary(moves)
    sources: dict[str, list[tuple[Array, float]]] = {}
    for seen, each in zip(view.rounds, along, strict=True):
        for name, found in _of_round(seen, each, canary, view.public.parties is not None).items():
            sources.setdefault(name, []).append(found)
    many = view.vantage is Vantage.SHUFFLED or view.public.parties is not None
    parts = [
        np.concatenate(
            [_summary([(float(v.sum()), d) for v, d in found]), _largest(found) if many else []]
        )
        for found in sources.values()
    ]
    return np.concatenate(parts) if parts else np.zeros(1)


def _of_round(
    seen: RoundView, along: Directions, canary: int, of_parties: bool
) -> dict[str, tuple[Array, float]]:
    """By source of messages: their log-likelihood ratios (n,), and its scale."""
    if seen.aggregate is not None:
        count = 0 if seen.senders is None else len(seen.senders)
        sums: dict[str, Array] = dict(seen.aggregate)
        found = {"sum": _one(_ratio(_parts(_moved(sums, seen.broadcast, count), along)))}
        if seen.clear is not None:
            clear = {name: part.total() for name, part in seen.clear.components.items()}
            found["clear"] = _one(_ratio(_parts(clear, along)))
        return found
    if seen.shuffled is not None:
        return {"shuffled": _each(seen.shuffled, seen.broadcast, along)}
    assert seen.uploads is not None
    linked = {"linked": seen.uploads, "clear": seen.clear}
    return {
        name: _each(_of(uploads, canary, of_parties), seen.broadcast, along)
        for name, uploads in linked.items()
        if uploads is not None
    }


def _of(uploads: Uploads, canary: int, of_parties: bool) -> Mapping[str, Component]:
    """The messages of the canary, or of all parties: which one has the canary is not public."""
    if of_parties:
        return uploads.components
    mine = np.flatnonzero(uploads.users == canary)
    return {name: part.take(mine) for name, part in uploads.components.items()}


def _each(
    messages: Mapping[str, Component], broadcast: Broadcast | None, along: Directions
) -> tuple[Array, float]:
    """Log-likelihood ratios of single messages, or of the sum of reports; and their scale."""
    pooled = {n: part.total() for n, part in messages.items() if part.kind is Kind.REPORTS}
    if pooled:
        return _one(_ratio(_parts(pooled, along)))
    count = max((len(part) for part in messages.values()), default=0)
    if not count:
        return np.zeros(1), _TINY
    ratios = []
    for k in range(count):
        one = {name: part.dense(np.array([k]))[0] for name, part in messages.items()}
        ratios.append(_ratio(_parts(_moved(one, broadcast, 1), along)))
    return np.array([ratio for ratio, _ in ratios]), float(np.mean([d for _, d in ratios]))


def _moved(
    parts: Mapping[str, NDArray[np.generic]], broadcast: Broadcast | None, count: int
) -> dict[str, Array]:
    """How far these are from ``count`` times the broadcast, if that is nearer than zero.

    So it is for models, and not for changes of a model, which have the same names.
    """
    known, found = broadcast or {}, {}
    for name, part in parts.items():
        found[name] = plain = np.asarray(part, float)
        if name in known and np.shape(known[name]) == plain.shape:
            moved = plain - count * np.asarray(known[name], float)
            if np.vdot(moved, moved) < np.vdot(plain, plain):
                found[name] = moved
    return found


def _difference(before: Broadcast | None, after: Broadcast | None) -> dict[str, Array]:
    first, second = before or {}, after or {}
    return {
        name: np.asarray(part, float) - np.asarray(first[name], float)
        for name, part in second.items()
        if name in first and np.shape(part) == np.shape(first[name])
    }


def _parts(seen: Mapping[str, NDArray[np.generic]], along: Directions) -> list[tuple[Array, Array]]:
    """What is seen and the direction of it: by name, else the first part of this shape."""
    pairs = []
    for name, part in seen.items():
        if np.ndim(part):
            own = along.get(name)
            if own is None and any(
                other in along for other in seen if np.shape(seen[other]) == np.shape(part)
            ):
                continue  # such as the first model beside the last one
            direction = direction_of(name, np.shape(part), along)
            if direction is not None:
                pairs.append((np.asarray(part, float), direction))
    return pairs


def _ratio(pairs: Sequence[tuple[Array, Array]]) -> tuple[float, float]:
    """<x, d> and <d, d>, both over the mean square of what is seen, x."""
    count = sum(x.size for x, _ in pairs)
    square = sum(float(np.vdot(x, x)) for x, _ in pairs) / max(1, count) + _TINY
    return (
        sum(float(np.vdot(x, d)) for x, d in pairs) / square,
        sum(float(np.vdot(d, d)) for _, d in pairs) / square,
    )


def _one(found: tuple[float, float]) -> tuple[Array, float]:
    return np.array([found[0]]), found[1]


def _summary(found: Sequence[tuple[float, float]]) -> Array:
    """Sums over rounds, in two units, and each round's where there are few."""
    ratios, scales = (np.array(each, float) for each in zip(*found, strict=True))
    units = ratios / np.sqrt(np.maximum(scales, _TINY))
    summed = np.array([ratios.sum(), ratios.sum() / math.sqrt(max(scales.sum(), _TINY))])
    # With one round these say the same, and so would its own.
    single = units if 1 < len(units) <= _MOST else units[:0]
    return np.concatenate([summed, [units.sum()], single])


def _largest(found: Sequence[tuple[Array, float]]) -> Array:
    """The largest message of every round, summed; and the largest sender, over all rounds."""
    tops = sum(float(values.max(initial=0.0)) for values, _ in found)
    same = len({len(values) for values, _ in found}) == 1
    over = np.sum([values for values, _ in found], axis=0).max() if same else tops
    return np.array([tops, float(over)])
