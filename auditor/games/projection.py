"""White-box scores of a game with a canary (a designed user), whose two worlds are two histories of
the canary.

Observed messages are projected on the expected difference of the canary's messages between the
worlds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts.uploads import compute_change_sum
from fedrec_auditor.auditor.games.canary import N_NEW_ITEMS
from fedrec_auditor.targets.components import Component, Payload, RandomizedMessages, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads, View

Array = NDArray[np.float64]
# Difference of the canary's mean messages between the two worlds, by component.
Directions = Mapping[str, Array]
_MAX_NUMBERS = 1 << 20  # maximum numbers of messages in memory at once
_MAX_ENTRIES = 16  # maximum number of entries of a release that are features by themselves
_TINY = 1e-30
_ROUNDING = 1e-9  # relative difference of squared lengths that counts as equality
# Users of ``get_received``: the canary, which is the last user, and all other users.
CANARY_ROWS, OTHER_ROWS = slice(-1, None), slice(None, -1)
_NO_UPLOADS = Uploads(np.arange(0), {})
_NO_MESSAGES: Mapping[str, Component] = {}


@dataclass(frozen=True, slots=True)
class ExpectedMessages:
    """Expected messages at one broadcast, by component (named array), for an adversary who knows
    all data.

    ``world_gap``: mean message of the canary (designed user) in the first world (neighbouring
        input) minus its mean message in the second world.
    ``canary_mean``: mean message of the canary, averaged over the two worlds.
    ``message_sum``: ``canary_mean`` plus the sum of the messages of all other users.

    If clients send models, ``canary_mean`` and ``message_sum`` are changes of the model. These two
    fields lack components that are reports (randomized coordinates of a gradient) or bits.
    """

    world_gap: Directions
    canary_mean: Directions
    message_sum: Directions


def get_received(broadcast: Broadcast | None, users: slice | NDArray[np.intp]) -> Broadcast | None:
    """Returns the part of ``broadcast`` that some users receive.

    A user receives only the user's own row of a table with one row per user.

    ``users``: indices of the users: ``CANARY_ROWS`` for the last user (the canary, a designed
        user), ``OTHER_ROWS`` for all other users.
    """
    if broadcast is None or np.ndim(broadcast.get("users", 0)) != 2:
        return broadcast
    return {**broadcast, "users": np.asarray(broadcast["users"])[users]}


def estimate_messages(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    n_uploads: int,
    others: Interactions | None = None,
) -> ExpectedMessages:
    """Estimates the expected messages of the canary (designed user) and of all other users at
    ``broadcast``, by simulation.

    ``profiles``: data of the canary with each of its two histories (two rows).
    ``n_uploads``: number of uploads of the canary per history; other users upload once.
    ``others``: data of all other users, or None to leave them out.
    """
    apart, own, total = {}, {}, {}
    drawn, crowding = rng.spawn(2)
    received = get_received(broadcast, CANARY_ROWS)
    pair = draw_upload_pairs(target, profiles, received, drawn, n_uploads)
    crowd, count = _NO_MESSAGES, 0
    if others is not None and others.n_users:
        crowd = target.upload(others, get_received(broadcast, OTHER_ROWS), crowding).components
        count = others.n_users
    for name, part in pair[0].items():
        first, second = (_average_messages(sent[name]) for sent in pair)
        base = get_subtracted_model(part, name, received)
        apart[name] = first - second
        # The values of reports and bits are all random.
        if part.kind in (Payload.REPORTS, Payload.BITS):
            continue
        total[name] = own[name] = 0.5 * (first + second) - base
        if name in crowd:
            total[name] = own[name] + get_noiseless(crowd[name]).sum_all() - count * base
    return ExpectedMessages(apart, own, total)


def get_subtracted_model(sent: Component, name: str, broadcast: Broadcast | None) -> Array:
    """Returns the value that is subtracted from the messages ``sent`` to get changes of the model.

    ``name``: name of the message component.

    If clients send models, the value is the array of this name in ``broadcast``, otherwise 0.
    """
    known = broadcast if sent.kind is Payload.MODEL and broadcast is not None else {}
    return np.asarray(known.get(name, 0.0), float)


def get_noiseless(sent: Component) -> Component:
    """Returns the messages ``sent`` as they were before randomization, if these are stored;
    otherwise ``sent``.
    """
    clean = sent.clean_messages if isinstance(sent, RandomizedMessages | Reports) else None
    return sent if clean is None else clean


def draw_upload_pairs(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    count: int,
) -> tuple[Mapping[str, Component], Mapping[str, Component]]:
    """Draws uploads of two users with the same randomness for both, by name of the message array.

    ``profiles``: data of the two users (two rows).
    ``broadcast``: the broadcast that the users receive, or None.
    ``count``: number of messages per user.
    """
    seed = int(rng.integers(2**63))
    first, second = (
        target.upload(
            profiles.take_users(np.array([world])), broadcast, np.random.default_rng(seed), count
        ).components
        for world in (0, 1)
    )
    return first, second


def _average_messages(sent: Component) -> Array:
    """Mean of the messages ``sent``, before they are randomized if the component stores these
    messages.
    """
    before = get_noiseless(sent)
    return np.asarray(before.to_dense(np.arange(len(before))).mean(axis=0, dtype=np.float64))


def match_direction(name: str, shape: tuple[int, ...], directions: Directions) -> str | None:
    """Returns the name of the entry of ``directions`` on which a message array is projected.

    ``name``, ``shape``: name and shape of the array.
    ``directions``: expected difference of the canary's (designed user's) messages between the two
        worlds (neighbouring inputs), by array name.

    The result is the first of these that exists:

    - ``name``, if its entry has this ``shape`` and is not 0;
    - another entry of this ``shape`` that is not 0;
    - ``name``, if its entry has this ``shape``;
    - None.
    """
    own = name if name in directions and directions[name].shape == shape else None
    if own is not None and directions[own].any():
        return own
    # Examples of a match by shape: a model that is broadcast under another name, and a client's
    # second message, which contains the noise of its first message.
    return next((n for n, each in directions.items() if each.shape == shape and each.any()), own)


def project_messages(sent: Component, direction: Array) -> Array:
    """Inner product of each of the n messages ``sent`` with ``direction``, shape (n,)."""
    flat = direction.ravel()
    if isinstance(sent, Reports):
        signs = np.where(sent.is_positive, flat[sent.coordinates], -flat[sent.coordinates])
        return np.asarray(signs.sum(axis=1) * (sent.magnitude / sent.coordinates.shape[1]))
    out = np.empty(len(sent))
    step = max(1, _MAX_NUMBERS // max(1, flat.size))
    for start in range(0, len(sent), step):
        block = np.arange(start, min(start + step, len(sent)))
        out[block] = sent.to_dense(block).reshape(len(block), -1) @ flat
    return out


def compute_features(
    view: View, expected_by_round: Sequence[ExpectedMessages], canary: int
) -> Array:
    """Computes features of one training (f,), by which a decision rule guesses the canary's
    history.

    A canary is a designed user with two alternative histories, which give two expected messages.
    Most features are inner products of observed messages with the difference between these two.

    ``view``: the messages and public parameters that the adversary sees.
    ``expected_by_round``: expected messages at the broadcast of each round of the view.
    ``canary``: index of the canary among the users.
    """
    # In each round, x is the observed array, m its expectation averaged over the two histories
    # (scaled to fit, if x is a sum), d the difference between the two expected messages, and s the
    # mean square of x - m. Each source of messages, such as the uploads, has six features:
    # <x, d> / s and <m, d> / s, combined over rounds in three ways (``_combine``). For messages
    # linked to users, <x - m, d> / s and 0 take their place. Further features:
    #
    # - Messages linked to users: the slope of the canary's <x, d> / |d| over |d|.
    # - Messages not linked to users: the largest <x, d> / s of a single message, over all rounds.
    # - Released model: the first entries of the row of the first new item.
    #
    # If x - m is Gaussian noise of variance s, then <x, d> / s - <m, d> / s is a log-likelihood
    # ratio.
    if view.vantage is Vantage.RELEASE:
        (last,) = view.rounds
        model = last.broadcast or {}
        # No user but the canary has rated the first new item.
        rows = [
            np.asarray(part, float)[-N_NEW_ITEMS].ravel()[:_MAX_ENTRIES]
            for part in model.values()
            if np.ndim(part) == 2 and len(part) == view.public.n_items
        ]
        ratio = _compute_ratios(model, expected_by_round[0].world_gap, {})
        return np.concatenate([_combine([ratio]), *rows[:1]])
    if view.vantage is Vantage.PEERS:
        models = [each.broadcast for each in view.rounds]
        changes = (diff_broadcasts(before, after) for before, after in pairwise(models))
        ratios = (
            _compute_ratios(change, expected.world_gap, expected.message_sum)
            for change, expected in zip(changes, expected_by_round, strict=False)
        )
        return _combine(list(ratios))
    if view.vantage is Vantage.AGGREGATE:
        sums, clear = [], []
        for seen, expected in zip(view.rounds, expected_by_round, strict=True):
            count = 0 if seen.senders_in_sum is None else len(seen.senders_in_sum)
            moved = to_change_sums(seen.aggregate or {}, seen.broadcast, count)
            sums.append(_compute_ratios(moved, expected.world_gap, expected.message_sum))
            if seen.cleartext is not None:
                total = sum_components(seen.cleartext.components)
                clear.append(_compute_ratios(total, expected.world_gap, {}))
        return np.concatenate([_combine(sums), *([_combine(clear)] if clear else [])])
    if view.vantage is Vantage.SHUFFLED or view.public.n_silos is not None:
        return _read_unlinked(view, expected_by_round)
    return _read_linked(view, expected_by_round, canary)


def _read_linked(view: View, known: Sequence[ExpectedMessages], canary: int) -> Array:
    """Features of the canary's own messages over all rounds (f,). Rounds without a message of the
    canary add nothing.

    ``canary``: index of the canary among the users.
    """
    sources: dict[str, list[tuple[float, float, float]]] = {}
    grown: list[tuple[float, float]] = []
    for seen, expected in zip(view.rounds, known, strict=True):
        for name, uploads in (("uploads", seen.uploads), ("clear", seen.cleartext)):
            if uploads is None:
                continue
            rows = np.flatnonzero(uploads.users == canary)
            parts = {n: part.take(rows) for n, part in uploads.components.items()}
            own = to_change_sums(sum_components(parts), seen.broadcast, 1) if len(rows) else {}
            middle = expected.canary_mean if name == "uploads" else {}
            ratio = _compute_ratios(own, expected.world_gap, middle, known=True)
            sources.setdefault(name, []).append(ratio)
            if own:
                grown.append(_measure_lengths(own, expected.world_gap))
    return np.concatenate([*(_combine(ratios) for ratios in sources.values()), [_fit_slope(grown)]])


def _measure_lengths(message: Mapping[str, NDArray[Any]], along: Directions) -> tuple[float, float]:
    """Length of the difference between the messages of two worlds (neighbouring inputs), and the
    length of ``message`` in the direction of this difference.

    ``message``: message of the canary, by component.
    ``along``: expected difference of the canary's messages between the worlds, by component.
    """
    parts = [(message[name], d) for name, d in along.items() if name in message]
    length = math.sqrt(sum_products((d, d) for _, d in parts))
    return length, sum_products(parts) / max(length, _TINY)


def _fit_slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of the second number of ``points`` over the first; 0 if the first numbers
    are equal.

    ``points``: for each round, the two lengths that ``_measure_lengths`` returns.
    """
    # A summand that is the same in all rounds, such as noise that is drawn once, does not change
    # the slope.
    lengths, extents = np.array(points).reshape(-1, 2).T
    off = lengths - lengths.mean() if len(lengths) else lengths
    square = float(off @ off)
    small = _TINY + _ROUNDING * float(lengths @ lengths)
    return float(off @ extents) / square if square > small else 0.0


def _read_unlinked(view: View, known: Sequence[ExpectedMessages]) -> Array:
    """Features of messages that are not linked to users (f,): of their sums, and the largest scores
    of single messages.

    - Every message, except reports (randomized coordinates of a gradient): the largest score of
      each round, summed over rounds.
    - Messages of parties (organisations that take part as one client): also the largest sum over
      rounds of one sender's scores.
    """
    sums, singles = [], []
    for of_round, expected in zip(view.rounds, known, strict=True):
        shuffled, broadcast = of_round.shuffled, of_round.broadcast
        parts = shuffled if shuffled is not None else (of_round.uploads or _NO_UPLOADS).components
        whole = {n: part for n, part in parts.items() if part.kind is not Payload.REPORTS}
        count = max((len(part) for part in parts.values()), default=0)
        total, apart = to_change_sums(sum_components(parts), broadcast, count), expected.world_gap
        sums.append(_compute_ratios(total, apart, expected.message_sum))
        places = range(count if whole else 0)
        messages = (
            {name: part.to_dense(np.array([k]))[0] for name, part in whole.items()} for k in places
        )
        changes = (to_change_sums(message, broadcast, 1) for message in messages)
        singles.append([_compute_ratios(change, apart, {})[0] for change in changes])
    if not all(singles):
        return _combine(sums)
    tops = sum(max(values) for values in singles)
    # Parties send in the same order in all rounds, but it is not public which party has the canary.
    steady = view.vantage is Vantage.SERVER and len({len(values) for values in singles}) == 1
    over = [float(np.sum(singles, axis=0).max())] if steady else []
    return np.concatenate([_combine(sums), [tops, *over]])


def sum_components(parts: Mapping[str, Component]) -> dict[str, Array]:
    """Sums the messages over all senders, by name of the array."""
    return {name: part.sum_all() for name, part in parts.items()}


def to_change_sums(
    parts: Mapping[str, NDArray[np.generic]], broadcast: Broadcast | None, count: int
) -> dict[str, Array]:
    """Turns sums of models into sums of model changes, and leaves sums of changes as they are.

    ``parts``: sums over ``count`` messages, by name of the array.
    ``broadcast``: the model that clients changed, or None.
    """
    # An array is taken as a sum of models if subtracting ``count`` times the broadcast array of its
    # name brings it nearer to zero (``compute_change_sum``).
    known = broadcast or {}
    return {
        name: compute_change_sum(part, known[name], count)
        if name in known and np.shape(known[name]) == np.shape(part)
        else np.asarray(part, float)
        for name, part in parts.items()
    }


def diff_broadcasts(before: Broadcast | None, after: Broadcast | None) -> dict[str, Array]:
    """Returns the difference ``after`` minus ``before`` of two broadcasts, by name of the array.

    Arrays that one of the broadcasts lacks, or that differ in shape, are left out.
    """
    first, second = before or {}, after or {}
    return {
        name: np.asarray(part, float) - np.asarray(first[name], float)
        for name, part in second.items()
        if name in first and np.shape(part) == np.shape(first[name])
    }


def sum_products(pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> float:
    """Returns the sum of the inner products of pairs of arrays."""
    return sum(float(np.vdot(x, y)) for x, y in pairs)


def _match_parts(
    seen: Mapping[str, NDArray[Any]], along: Directions, middle: Directions
) -> Iterator[tuple[Array, Array, Array | None]]:
    """Yields triples: an observed array, its direction, and its expectation averaged over the two
    worlds (neighbouring inputs), or None.

    ``seen``: observed arrays, by name.
    ``along``: expected difference of the canary's messages between the worlds, by component.
    ``middle``: expectation averaged over the two worlds, by component.
    """
    own = any(name in along for name in seen)
    for name, part in seen.items():
        if name not in along and (own or not np.ndim(part)):
            continue  # for example the initial model, or the number of users
        key = match_direction(name, np.shape(part), along)
        if key is not None:
            # Messages that replace noise have no expectation.
            expected = middle.get(key) if key == name or name not in along else None
            yield np.asarray(part, float), along[key], expected


def _compute_ratios(
    seen: Mapping[str, NDArray[Any]], along: Directions, middle: Directions, *, known: bool = False
) -> tuple[float, float, float]:
    """Three inner products of a round's messages, each divided by the variance of their noise.

    x is the observation ``seen``, d the difference ``along`` between the messages of two worlds
    (neighbouring inputs), and m the expectation ``middle`` of x, averaged over the two worlds. The
    products are <x, d>, <m, d> and <d, d>; if ``known``, <x - m, d>, 0 and <d, d>. The variance is
    the mean square of x - c m, where c is 1 if ``known``. All are 0 if no component has a
    direction.
    """
    parts, c = list(_match_parts(seen, along, middle)), 1.0
    pairs = [(x, m) for x, _, m in parts if m is not None]
    # The factor c is estimated by least squares, because the length of model steps is unknown.
    if not known and pairs:
        c = sum_products(pairs) / (sum_products((m, m) for _, m in pairs) + _TINY)
    rests = [x if m is None else x - c * m for x, _, m in parts]
    square = sum_products((r, r) for r in rests) / max(1, sum(r.size for r in rests)) + _TINY
    total = sum_products((x, d) for x, d, _ in parts)
    apart = sum_products((d, d) for _, d, _ in parts)
    expected = sum_products((m, d) for _, d, m in parts if m is not None)
    if known:
        total, expected = total - expected, 0.0
    return total / square, expected / square, apart / square


def _combine(rounds: Sequence[tuple[float, float, float]]) -> Array:
    """Features of all rounds together (6,): three for <x, d>, and the same three for <m, d>.

    ``rounds``: the three inner products of ``_compute_ratios`` for each round.

    The three features are:

    - the sum over rounds;
    - this sum divided by its standard deviation;
    - the sum over rounds of each value divided by its own standard deviation.
    """
    ratios, scales = np.array(rounds)[:, :2], np.array(rounds)[:, 2]
    units = ratios / np.sqrt(np.maximum(scales, _TINY))[:, None]
    total = ratios.sum(axis=0)
    return np.concatenate([total, total / math.sqrt(max(scales.sum(), _TINY)), units.sum(axis=0)])
