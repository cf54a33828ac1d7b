"""What a white-box adversary looks at: what is seen, along what the canary would send."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.games.canary import NEW_ITEMS
from fedrec_auditor.targets.components import Component, Kind, Randomized, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads, View

Array = NDArray[np.float64]
Directions = Mapping[str, Array]
"""By component of a message, how the canary's differs between the two worlds on average."""
_NUMBERS = 1 << 20  # of messages read at once
_MOST = 16  # entries of a release that are features of their own
_TINY = 1e-30
_ROUNDING = 1e-9  # of squared lengths, in which equal ones differ
CANARY, OTHERS = slice(-1, None), slice(None, -1)
_NOTHING = Uploads(np.arange(0), {})
_NOBODY: Mapping[str, Component] = {}


@dataclass(frozen=True, slots=True)
class Expected:
    """What an adversary who knows all data expects at a broadcast, by component.

    ``apart`` is the canary's mean message in the first world less that in the second, ``own`` the
    mean of both, and ``total`` that and the sum of what all ``others`` send. Of changes of the
    model where models are sent. Reports and bits are random themselves: their sums are not in it.
    """

    apart: Directions
    own: Directions
    total: Directions


def addressed(broadcast: Broadcast | None, rows: slice | NDArray[np.intp]) -> Broadcast | None:
    """A broadcast as some users hear it: of a table with a row a user theirs.

    ``rows`` are numbers of users; ``CANARY`` is the last one, ``OTHERS`` are all before it.
    """
    if broadcast is None or np.ndim(broadcast.get("users", 0)) != 2:
        return broadcast
    return {**broadcast, "users": np.asarray(broadcast["users"])[rows]}


def expected(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    size: int,
    others: Interactions | None = None,
) -> Expected:
    """What is expected at ``broadcast``: of the canary over ``size`` uploads, of others over one.

    Noise that is added on the way out is left out where the component keeps the message before it.
    """
    apart, own, total = {}, {}, {}
    drawn, crowding = rng.spawn(2)
    heard = addressed(broadcast, CANARY)
    pair = twins(target, profiles, heard, drawn, size)
    crowd, count = _NOBODY, 0
    if others is not None and others.n_users:
        crowd = target.upload(others, addressed(broadcast, OTHERS), crowding).components
        count = others.n_users
    for name, part in pair[0].items():
        first, second = (_mean(sent[name]) for sent in pair)
        begun = start(part, name, heard)
        apart[name] = first - second
        if part.kind in (Kind.REPORTS, Kind.BITS):
            continue
        total[name] = own[name] = 0.5 * (first + second) - begun
        if name in crowd:
            total[name] = own[name] + plain(crowd[name]).total() - count * begun
    return Expected(apart, own, total)


def start(sent: Component, name: str, broadcast: Broadcast | None) -> Array:
    """Where messages begin: of a model at what is broadcast under its name, else at 0."""
    known = broadcast if sent.kind is Kind.MODEL and broadcast is not None else {}
    return np.asarray(known.get(name, 0.0), float)


def plain(sent: Component) -> Component:
    """Messages before they are randomized, where these are kept."""
    clean = sent.clean if isinstance(sent, Randomized | Reports) else None
    return sent if clean is None else clean


def twins(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    size: int,
) -> tuple[Mapping[str, Component], Mapping[str, Component]]:
    """Messages of the first of two ``profiles`` and of the second, from the same coins."""
    seed = int(rng.integers(2**63))
    first, second = (
        target.upload(
            profiles.take(np.array([world])), broadcast, np.random.default_rng(seed), size
        ).components
        for world in (0, 1)
    )
    return first, second


def _mean(sent: Component) -> Array:
    """Mean message, before it is randomized where it is kept so."""
    before = plain(sent)
    return np.asarray(before.dense(np.arange(len(before))).mean(axis=0, dtype=np.float64))


def matched(name: str, shape: tuple[int, ...], along: Directions) -> str | None:
    """The component whose direction this part is looked at along.

    Its own, else, as for noise that is replaced or a model of another name, one of its shape; its
    own where all of that shape are 0.
    """
    own = name if name in along and along[name].shape == shape else None
    if own is not None and along[own].any():
        return own
    return next((n for n, each in along.items() if each.shape == shape and each.any()), own)


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


def training_features(view: View, known: Sequence[Expected], canary: int) -> Array:
    """What is looked at in a training, (f,): f depends on the vantage, the target, its rounds.

    ``known`` is what is expected at the broadcast of each of the view's rounds. For each source of
    messages, what is seen less what is expected, its inner product with the canary's difference
    over its mean square: a log-likelihood ratio if the rest is noise of that size. Summed over
    rounds, in units of its deviation, and by round; of messages that are not linked to users the
    largest, too. Of a release also the first entries of the last new item's row.
    """
    if view.vantage is Vantage.RELEASE:
        (seen,) = view.rounds
        model = seen.broadcast or {}
        rows = [
            np.asarray(part, float)[-NEW_ITEMS].ravel()[:_MOST]
            for part in model.values()
            if np.ndim(part) == 2 and len(part) == view.public.n_items
        ]
        ratio = _ratio(model, known[0].apart, {})
        return np.concatenate([_summary([ratio]), *rows[:1]])
    if view.vantage is Vantage.PEERS:
        return _summary(
            [
                _ratio(step(before.broadcast, after.broadcast), each.apart, each.total)
                for before, after, each in zip(view.rounds, view.rounds[1:], known, strict=False)
            ]
        )
    if view.vantage is Vantage.AGGREGATE:
        sums, clear = [], []
        for seen, each in zip(view.rounds, known, strict=True):
            count = 0 if seen.senders is None else len(seen.senders)
            moved = change(seen.aggregate or {}, seen.broadcast, count)
            sums.append(_ratio(moved, each.apart, each.total))
            if seen.clear is not None:
                clear.append(_ratio(totals(seen.clear.components), each.apart, {}))
        return np.concatenate([_summary(sums), *([_summary(clear)] if clear else [])])
    if view.vantage is Vantage.SHUFFLED or view.public.parties is not None:
        return _unlinked(view, known)
    return _linked(view, known, canary)


def _linked(view: View, known: Sequence[Expected], canary: int) -> Array:
    """The canary's own messages; a round in which it sends none says nothing."""
    sources: dict[str, list[tuple[float, float, float]]] = {}
    grown: list[tuple[float, float]] = []
    for seen, each in zip(view.rounds, known, strict=True):
        for name, uploads in (("uploads", seen.uploads), ("clear", seen.clear)):
            if uploads is None:
                continue
            mine = np.flatnonzero(uploads.users == canary)
            parts = {n: part.take(mine) for n, part in uploads.components.items()}
            seen_own = change(totals(parts), seen.broadcast, 1) if len(mine) else {}
            middle = each.own if name == "uploads" else {}
            sources.setdefault(name, []).append(_ratio(seen_own, each.apart, middle, known=True))
            if seen_own:
                grown.append(_along(seen_own, each.apart))
    return np.concatenate([*(_summary(found) for found in sources.values()), [_slope(grown)]])


def _along(seen: Mapping[str, NDArray[Any]], along: Directions) -> tuple[float, float]:
    """How long the difference between the worlds is, and how far a message goes along it."""
    parts = [(seen[name], d) for name, d in along.items() if name in seen]
    length = math.sqrt(dot((d, d) for _, d in parts))
    return length, dot(parts) / max(length, _TINY)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """How much farther messages go in rounds in which the worlds differ more.

    What is added to all of them alike, as noise that is drawn once, makes no difference to it.
    """
    lengths, seen = np.array(points).reshape(-1, 2).T
    off = lengths - lengths.mean() if len(lengths) else lengths
    square = float(off @ off)
    small = _TINY + _ROUNDING * float(lengths @ lengths)
    return float(off @ seen) / square if square > small else 0.0


def _unlinked(view: View, known: Sequence[Expected]) -> Array:
    """All messages: their sum; and, of whole messages, the largest of a round and of a sender.

    Parties send in one order in all rounds; which one has the canary is not public.
    """
    sums, singles = [], []
    for seen, each in zip(view.rounds, known, strict=True):
        shuffled = seen.shuffled
        parts = shuffled if shuffled is not None else (seen.uploads or _NOTHING).components
        whole = {n: part for n, part in parts.items() if part.kind is not Kind.REPORTS}
        count = max((len(part) for part in parts.values()), default=0)
        sums.append(_ratio(change(totals(parts), seen.broadcast, count), each.apart, each.total))
        places = range(count if whole else 0)
        messages = (
            {name: part.dense(np.array([k]))[0] for name, part in whole.items()} for k in places
        )
        singles.append(
            [_ratio(change(one, seen.broadcast, 1), each.apart, {})[0] for one in messages]
        )
    if not all(singles):
        return _summary(sums)
    tops = sum(max(values) for values in singles)
    steady = view.vantage is Vantage.SERVER and len({len(values) for values in singles}) == 1
    over = [float(np.sum(singles, axis=0).max())] if steady else []
    return np.concatenate([_summary(sums), [tops, *over]])


def totals(parts: Mapping[str, Component]) -> dict[str, Array]:
    """The sum of each component over all who send."""
    return {name: part.total() for name, part in parts.items()}


def change(
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


def step(before: Broadcast | None, after: Broadcast | None) -> dict[str, Array]:
    """How far the model moved, by component."""
    first, second = before or {}, after or {}
    return {
        name: np.asarray(part, float) - np.asarray(first[name], float)
        for name, part in second.items()
        if name in first and np.shape(part) == np.shape(first[name])
    }


def dot(pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> float:
    """The sum of the inner products of pairs of arrays."""
    return sum(float(np.vdot(x, y)) for x, y in pairs)


def _match_parts(
    seen: Mapping[str, NDArray[Any]], along: Directions, middle: Directions
) -> Iterator[tuple[Array, Array, Array | None]]:
    """Parts that are seen, the direction of each, and what is expected of it in the middle."""
    own = any(name in along for name in seen)
    for name, part in seen.items():
        if name not in along and (own or not np.ndim(part)):
            continue  # such as the first model beside the last one, or the number of users
        key = matched(name, np.shape(part), along)
        if key is not None:
            # Of what is sent to replace noise nothing is expected.
            there = middle.get(key) if key == name or name not in along else None
            yield np.asarray(part, float), along[key], there


def _ratio(
    seen: Mapping[str, NDArray[Any]], along: Directions, middle: Directions, *, known: bool = False
) -> tuple[float, float, float]:
    """<x, d>, <m, d> and <d, d>, over the mean square of what is left of x without m.

    x is what is seen, d the direction, m what is expected of x in the ``middle`` between the
    worlds; zeros if no part is matched. Steps of a length that is not looked up are a multiple of
    m: a rule finds it. Where x has its ``known`` length, <x, d> is that of x - m, and <m, d> is 0.
    """
    parts, c = list(_match_parts(seen, along, middle)), 1.0
    pairs = [(x, m) for x, _, m in parts if m is not None]
    if not known and pairs:
        c = dot(pairs) / (dot((m, m) for _, m in pairs) + _TINY)
    left = [x if m is None else x - c * m for x, _, m in parts]
    square = dot((r, r) for r in left) / max(1, sum(r.size for r in left)) + _TINY
    total, apart = dot((x, d) for x, d, _ in parts), dot((d, d) for _, d, _ in parts)
    expected = dot((m, d) for _, d, m in parts if m is not None)
    if known:
        total, expected = total - expected, 0.0
    return total / square, expected / square, apart / square


def _summary(found: Sequence[tuple[float, float, float]]) -> Array:
    """<x, d> and <m, d> summed over rounds: as log-likelihood ratios, and in deviations."""
    ratios, scales = np.array(found)[:, :2], np.array(found)[:, 2]
    units = ratios / np.sqrt(np.maximum(scales, _TINY))[:, None]
    total = ratios.sum(axis=0)
    return np.concatenate([total, total / math.sqrt(max(scales.sum(), _TINY)), units.sum(axis=0)])
