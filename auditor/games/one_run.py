"""The one-run game: many canary users in a single training, a coin for each one's history."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.games.canary import together
from fedrec_auditor.auditor.games.draws import Draws, Features
from fedrec_auditor.auditor.measure import Measured, confirmed
from fedrec_auditor.auditor.one_run import FEWEST_CANARIES, OneRunScores
from fedrec_auditor.targets.components import Component, Kind, Randomized, Reports
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads, View

CANARIES, QUICK_CANARIES = 1_000, 200
"""Canaries where a plan says nothing, if there are half as many users."""
COINS = "coins"
"""The features that are no vantage's: 1 for a canary with its first history, 0 with its second."""
STATISTIC = (
    "what is seen in every round, less what all data make expect at the first broadcast, solved "
    "for what each canary's message differs by there"
)
_STAGES = 4  # of a training, over each of which scores are averaged: known coins are few
_NUMBERS = 1 << 23  # of messages made at once
_DENSE = 0.1  # share of entries from which on directions are stored as they are
_RIDGE = 1e-3  # of the mean square of directions: some may be sums of others
_TINY = 1e-30

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """Users of whom each has one of two histories, beside a ``crowd`` over the same catalogue.

    ``profiles`` are the first histories of all, then their second ones; ``names`` say in words
    which is which. Items from ``known`` on are new.
    """

    names: tuple[str, str]
    profiles: Interactions
    crowd: Interactions
    known: int

    def __len__(self) -> int:
        return self.profiles.n_users // 2

    @property
    def catalogue(self) -> _Catalogue:
        """Which items are new."""
        return _Catalogue(self.known, self.crowd.n_items)

    def population(self, first: NDArray[np.bool_]) -> Interactions:
        """The crowd and the canaries, each with its first history where ``first`` (m,) is true."""
        return together(self.crowd, self.profiles.take(np.arange(len(self)) + len(self) * ~first))


def default_canaries(interactions: Interactions, quick: bool) -> int:
    """How many canaries a training on these data has: at most twice as many as users."""
    most = QUICK_CANARIES if quick else CANARIES
    return max(FEWEST_CANARIES, min(most, 2 * interactions.n_users))


def canaries(
    scope: Scope, interactions: Interactions, count: int, rng: np.random.Generator
) -> Canaries | None:
    """``count`` users whose histories differ by what ``scope`` asks about, in new items.

    Items of its own for each canary, where they do not more than double the catalogue; else as many
    as there are items, of which each canary has two or more, few others the same ones. New items
    are of random genres, and canaries have random attributes of the users, so that what knows no
    items tells canaries apart, too. A user who comes and goes has an empty history in the second
    world. None where all ratings have one value and the scope asks for it.
    """
    data = interactions.ratings.data
    high, low = (float(data.max()), float(data.min())) if len(data) else (1.0, 1.0)
    if scope.is_value and high == low:
        return None
    swapped = scope.adjacency is not Adjacency.ADD_REMOVE and not scope.is_value
    wide = 1 if count * (1 + swapped) <= interactions.n_items else 2
    alone = scope.unit is not Unit.USER  # in one rating, beside others that stay
    first, common = (1, wide - 1) if alone else (wide, 0)
    each = first * (1 + swapped) + common
    pool = count * each if wide == 1 else max(interactions.n_items, each)
    fitting = pool // each
    words = np.concatenate(
        [
            rng.permutation(pool)[: fitting * each].reshape(fitting, each)
            for _ in range(-(-count // fitting))
        ]
    )[:count]
    ours, theirs = words[:, :first], words[:, first : each - common]
    stays = words[:, each - common :]
    text = f"{first} new items" if first > 1 else "a new item"
    if scope.is_value:
        second, names = ours, (f"a new item {high:g}", f"it {low:g}")
    elif swapped:
        second, names = theirs, (text, "others" if first > 1 else "another one")
    else:
        second, names = theirs, (text, "nothing")
    if common:
        names = (f"{names[0]} beside another", f"{names[1]} beside it")
    grown = _with_items(interactions, pool, rng)
    history = [
        _ratings(interactions.n_items, pool, chosen, value, stays, high)
        for chosen, value in ((ours, high), (second, low if scope.is_value else high))
    ]
    profiles = replace(
        grown,
        users=np.arange(2 * count),
        ratings=sparse.csr_array(sparse.vstack(history, format="csr")),
        timestamps=None,
        attributes={
            name: Attribute(codes=np.tile(rng.choice(a.codes, count), 2), categories=a.categories)
            for name, a in grown.attributes.items()
        },
    )
    if grown.timestamps is not None:
        last = grown.timestamps.max(initial=0)
        profiles = replace(profiles, timestamps=np.full(profiles.ratings.nnz, last))
    told = f"a canary rated {names[0]}", f"it rated {names[1]}"
    return Canaries(names=told, profiles=profiles, crowd=grown, known=interactions.n_items)


def _ratings(
    old: int,
    pool: int,
    chosen: NDArray[np.intp],
    value: float,
    stays: NDArray[np.intp],
    high: float,
) -> sparse.csr_array:
    """Histories (m, old + pool): ``chosen`` (m, k) new items have ``value``, ``stays`` ``high``."""
    count = len(chosen)
    places = np.concatenate([chosen, stays], axis=1)
    values = np.repeat([value, high], [chosen.shape[1], stays.shape[1]]).astype(np.float32)
    made: Any = sparse.csr_array(
        (
            np.tile(values, count),
            old + places.ravel(),
            np.arange(count + 1) * places.shape[1],
        ),
        shape=(count, old + pool),
    )
    made.sort_indices()
    return sparse.csr_array(made)


def _with_items(interactions: Interactions, more: int, rng: np.random.Generator) -> Interactions:
    """The interactions with new items at the end, each of a random half of the genres."""
    table, genres, titles = interactions.ratings, interactions.genres, interactions.titles
    width = interactions.n_items + more
    numbers = table.data, table.indices, table.indptr
    if genres is not None:
        genres = np.concatenate([genres, rng.random((more, genres.shape[1])) < 0.5])
    last = interactions.items.max(initial=-1)
    return replace(
        interactions,
        items=np.append(interactions.items, last + 1 + np.arange(more)),
        ratings=sparse.csr_array(numbers, shape=(interactions.n_users, width)),
        genres=genres,
        titles=(*titles, *(f"new item {k + 1}" for k in range(more))) if titles else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """A training of ``target`` on a crowd and its ``canaries``, as some vantages see it.

    The adversary knows the crowd, both histories of every canary, and the broadcast at which it
    expects: the first, and for the release that itself.
    """

    target: Target
    canaries: Canaries
    vantages: tuple[Vantage, ...]
    compute: Compute = DEFAULT

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """One training, whatever ``size``: features (m, f) by vantage, and ``COINS`` (m, 1)."""
        tossing, training, seeing, guessing = np.random.default_rng(seed).spawn(4)
        first = tossing.random(len(self.canaries)) < 0.5
        data = self.canaries.population(first)
        transcript = self.target.run(data, training, None, self.compute).transcript
        found = {COINS: first[:, None].astype(np.float64)}
        known: dict[bool, _Directions] = {}
        # Of messages that are linked nothing is said by others.
        single = self.vantages == (Vantage.SERVER,) and transcript.public.parties is None
        others = self.canaries.crowd.take(np.arange(0)) if single else self.canaries.crowd
        for vantage in self.vantages:
            # Sums are made of the new items' rows only, which are a function of what is seen.
            summed = vantage is Vantage.AGGREGATE
            view = transcript.view(Vantage.SERVER if summed else vantage, seeing)
            last = vantage is Vantage.RELEASE
            if last not in known and view.rounds:
                known[last] = _Directions.of(
                    self.target,
                    self.canaries,
                    others,
                    view.rounds[0].broadcast,
                    guessing,
                    self.compute,
                )
            if last in known and len(known[last]):
                sources = _sources(view, vantage, known[last], self.canaries)
                features = [known[last].by_stage(each) for each in sources if len(each.scores)]
            else:
                features = []
            nothing = np.zeros((len(self.canaries), 1))
            found[str(vantage)] = np.column_stack(features) if features else nothing
        return found


def measured(
    draws: Draws,
    names: tuple[str, str],
    scope: Scope,
    claims: Sequence[Claim],
    *,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
) -> Measured:
    """Bound epsilon from below by one training, and by a second one if it refutes a claim."""

    def bounds(confidences: Sequence[float], stream: np.random.Generator) -> tuple[Bound, ...]:
        scores, coins = (draws.features(seen, 0, 1, stream) for seen in (str(scope.vantage), COINS))
        run = OneRunScores.of(scores, coins[:, 0] > 0.5)
        seed = int(stream.integers(2**32))
        return tuple(
            _named(run.bound(delta=delta, confidence=each, scope=scope, seed=seed), names)
            for each in confidences
        )

    return confirmed(bounds, claims, confidence=confidence, rng=rng)


def _named(bound: Bound, names: tuple[str, str]) -> Bound:
    """The bound with the two histories in its witness."""
    if bound.witness is None:
        return bound
    witness = replace(bound.witness, input_a=names[0], input_b=names[1])
    return replace(bound, witness=witness)


_Matrix = NDArray[np.float32] | sparse.csr_array


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """How much of a message is looked at: of a table of all items the new ones' rows."""

    first: int
    count: int

    def of(self, part: Component) -> Component:
        """These rows of all messages."""
        whole = len(part.shape) > 0 and part.shape[0] == self.count
        return part.tail(self.first) if whole else part

    def arrays(self, model: Broadcast | None) -> dict[str, NDArray[Any]]:
        """These rows of a model, or of sums of messages."""
        return {
            name: part[self.first :] if np.ndim(part) and len(part) == self.count else part
            for name, part in (model or {}).items()
        }


@dataclass(frozen=True, slots=True)
class _Directions:
    """What an adversary expects of the messages of all, by component, at one broadcast.

    ``apart`` (m, p) are the canaries' first messages less their second ones, ``middle`` (m,) the
    inner products of the means of both with that, ``shapes`` arrays that are not zero where it is
    not, and ``total`` the sum of all messages, of canaries their mean. Of changes of the model
    where models are sent; of reports the gradients behind them, if they are kept, else the reports
    themselves, whose sums are not expected.
    """

    apart: Mapping[str, _Matrix]
    middle: Mapping[str, Array]
    shapes: Mapping[str, Array]
    total: Mapping[str, Array]

    @classmethod
    def of(
        cls,
        target: Target,
        canaries: Canaries,
        others: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        compute: Compute,
    ) -> _Directions:
        """By one upload of either history of every canary, and of all ``others``."""
        count, sending, rows = len(canaries), rng.spawn(2), canaries.catalogue
        places = (
            np.tile(canaries.crowd.n_users + np.arange(count), 2),
            np.arange(others.n_users),
        )
        sent, theirs = (
            target.upload(each, projection.addressed(broadcast, own), stream, 1, compute).components
            if each.n_users
            else {}
            for each, own, stream in zip((canaries.profiles, others), places, sending, strict=True)
        )
        begun = rows.arrays(broadcast)
        apart: dict[str, _Matrix] = {}
        middle, shapes, total = dict[str, Array](), dict[str, Array](), dict[str, Array]()
        for name, part in sent.items():
            plain = rows.of(_plain(part))
            models = plain.kind is Kind.MODEL and name in begun
            start = np.asarray(begun[name], np.float32) if models else np.float32(0.0)
            if models and start.shape != plain.shape:
                raise InputError(
                    f"Expected messages of the shape of what is broadcast, got {plain.shape} for "
                    f"{start.shape}: {target.name} sends of each user apart. Play the training "
                    "game."
                )
            blocks, inner, summed = [], np.zeros(count), np.zeros(plain.shape)
            for block in _blocks(plain, np.arange(count)):
                first, second = (
                    np.asarray(plain.dense(each) - start, np.float32)
                    for each in (block, count + block)
                )
                mean = 0.5 * (first + second)
                summed += mean.sum(axis=0, dtype=np.float64)
                flat = (first - second).reshape(len(block), -1)
                inner[block] = np.einsum("ij,ij->i", flat, mean.reshape(flat.shape))
                blocks.append(sparse.csr_array(flat) if _is_sparse(flat) else flat)
            apart[name], middle[name] = _stacked(blocks), inner
            sizes: Any = abs(apart[name])
            shapes[name] = np.asarray(sizes.sum(axis=0), np.float64).reshape(plain.shape)
            if plain.kind not in (Kind.REPORTS, Kind.BITS) and name in theirs:
                crowd = rows.of(_plain(theirs[name]))
                total[name] = summed + crowd.total() - len(crowd) * start
        return cls(apart, middle, shapes, total)

    def __len__(self) -> int:
        return len(next(iter(self.middle.values()), ()))

    def by_stage(self, source: _Source) -> Array:
        """Means of scores over stages of the training, (m, stages).

        Of sums, solved for how much of each canary's direction is in them, in units of its
        deviation: by least squares, with a small ridge, as directions need not be orthogonal.
        """
        blocks = np.array_split(source.scores, min(len(source.scores), _STAGES))
        means = np.stack([np.mean(block, axis=0) for block in blocks], axis=1)
        if source.keys is None:
            return means
        gram: Any = np.zeros((len(self), len(self)), np.float32)
        for key in source.keys:
            product = self.apart[key] @ self.apart[key].T
            gram += product.toarray() if sparse.issparse(product) else product
        squares = np.diag(gram).astype(float)
        gram[np.diag_indices_from(gram)] += np.float32(_RIDGE * squares.mean() + _TINY)
        solved = linalg.cho_solve(linalg.cho_factor(gram), means)
        return np.asarray(np.sqrt(squares)[:, None] * solved, float)

    def linked(self, uploads: Uploads, broadcast: Broadcast | None, canaries: Canaries) -> Array:
        """Inner products of canaries' own messages with their directions, (m,), less the middle.

        In units of the directions' lengths; 0 for canaries that send nothing.
        """
        scores, squares = np.zeros(len(self)), np.full(len(self), _TINY)
        begun, crowd = canaries.catalogue.arrays(broadcast), canaries.crowd.n_users
        mine = np.flatnonzero(uploads.users >= crowd)
        for name, whole in uploads.components.items():
            part = canaries.catalogue.of(whole)
            key = projection.matched(name, part.shape, self.shapes)
            if key is None or (name in self.apart and key != name):
                continue
            along = self.apart[key]
            models = part.kind is Kind.MODEL and name in begun
            start = np.asarray(begun[name], np.float32) if models else np.float32(0.0)
            for block in _blocks(part, mine):
                whose = uploads.users[block] - crowd
                sent = (part.dense(block) - start).reshape(len(block), -1)
                rows: Any = along[whose]
                if isinstance(along, sparse.csr_array):
                    inner, length = (rows.multiply(each).sum(axis=1) for each in (sent, rows))
                else:
                    inner, length = (np.einsum("ij,ij->i", rows, each) for each in (sent, rows))
                scores[whose] += inner - (self.middle[key][whose] if key == name else 0.0)
                squares[whose] += length
        return np.asarray(scores / np.sqrt(squares))

    def along(self, rounds: Iterable[Mapping[str, NDArray[Any]]]) -> _Source:
        """Inner products of sums of messages with all directions, less what is expected of them.

        What is expected is as much as there is of it in what is seen: steps are of a length that is
        not looked up. In units of what is left.
        """
        scores, keys = [], dict[str, None]()
        for parts in rounds:
            pairs = self._pairs(parts)
            keys |= dict.fromkeys(key for _, key in pairs)
            left = {name: np.asarray(parts[name], float) for name, _ in pairs}
            # Of what is sent to replace noise nothing is expected.
            known = {
                name: self.total[key]
                for name, key in pairs
                if key in self.total and (key == name or not self._own(parts))
            }
            share = sum(float(np.vdot(left[n], m)) for n, m in known.items())
            share /= sum(float(np.vdot(m, m)) for m in known.values()) + _TINY
            for name, expected in known.items():
                left[name] = left[name] - share * expected
            square = sum(float(np.vdot(r, r)) for r in left.values())
            scale = math.sqrt(square / max(1, sum(r.size for r in left.values()))) + _TINY
            total = np.zeros(len(self))
            for name, key in pairs:
                total += self.apart[key] @ left[name].ravel().astype(np.float32)
            scores.append(total / scale)
        return _Source(np.array(scores).reshape(len(scores), len(self)), tuple(keys))

    def _own(self, parts: Mapping[str, NDArray[Any]]) -> bool:
        return any(name in self.apart for name in parts)

    def _pairs(self, parts: Mapping[str, NDArray[Any]]) -> list[tuple[str, str]]:
        """The parts that have a direction, each with the component whose direction it has."""
        own = self._own(parts)
        found = [
            (name, projection.matched(name, np.shape(part), self.shapes))
            for name, part in parts.items()
            if name in self.apart or (np.ndim(part) and not own)
        ]
        return [(name, key) for name, key in found if key is not None]


@dataclass(frozen=True, slots=True)
class _Source:
    """Scores (rounds, m) of one source of messages; of sums, along the directions of ``keys``."""

    scores: Array
    keys: tuple[str, ...] | None = None


def _plain(sent: Component) -> Component:
    """The messages before they are randomized, where these are kept."""
    clean = sent.clean if isinstance(sent, Randomized | Reports) else None
    return sent if clean is None else clean


def _blocks(part: Component, places: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """``places`` in blocks whose messages are not too many numbers."""
    step = max(1, _NUMBERS // max(1, int(np.prod(part.shape))))
    return [places[at : at + step] for at in range(0, len(places), step)]


def _is_sparse(rows: NDArray[Any]) -> bool:
    return bool(np.count_nonzero(rows) < _DENSE * rows.size)


def _stacked(blocks: Sequence[Any]) -> _Matrix:
    if any(not sparse.issparse(block) for block in blocks):
        plain = [b.toarray() if isinstance(b, sparse.csr_array) else b for b in blocks]
        return np.concatenate(plain)
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def _sources(
    view: View, vantage: Vantage, known: _Directions, canaries: Canaries
) -> Iterator[_Source]:
    """What ``vantage`` sees, a source of messages after the other, as scores of canaries.

    ``view`` is its view, or of an aggregate that of the server: sums are made here, of the rows
    that are looked at.
    """
    rounds, rows = view.rounds, canaries.catalogue
    if vantage is Vantage.RELEASE:
        yield known.along([rows.arrays(rounds[0].broadcast)])
    elif vantage is Vantage.PEERS:
        models = [rows.arrays(each.broadcast) for each in rounds]
        yield known.along(itertools.starmap(projection.step, itertools.pairwise(models)))
    elif vantage is Vantage.SERVER and view.public.parties is None:
        for source in (
            [(each.uploads, each.broadcast) for each in rounds],
            [(each.clear, each.broadcast) for each in rounds],
        ):
            scores = [known.linked(u, model, canaries) for u, model in source if u is not None]
            if scores:
                yield _Source(np.array(scores))
    else:
        seen = [
            (each.shuffled or (each.uploads.components if each.uploads else {}), each.broadcast)
            for each in rounds
        ]
        yield known.along(
            projection.change(
                projection.totals({name: rows.of(part) for name, part in parts.items()}),
                rows.arrays(model),
                max(map(len, parts.values()), default=0),
            )
            for parts, model in seen
        )
        clear = [each.clear.components for each in rounds if each.clear is not None]
        if clear:
            yield known.along(
                projection.totals({name: rows.of(part) for name, part in parts.items()})
                for parts in clear
            )
