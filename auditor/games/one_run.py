"""The one-run game: many canary users in one training, a coin for each history, and scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.auditor.games import canary, crowd_game, projection
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.canary_game import (
    CanaryGame,
    Draws,
    Features,
    Ground,
    NotPlayed,
    Setting,
    vantages_of,
)
from fedrec_auditor.auditor.games.crowd_game import told_by_others
from fedrec_auditor.auditor.games.projection import Array
from fedrec_auditor.auditor.games.stated import of_a_crowd, sends_when_absent
from fedrec_auditor.auditor.worlds.one_run import OneRun, with_coins
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.targets.components import Component, Kind
from fedrec_auditor.targets.compute import DEFAULT, Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population, Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads, View

STATISTIC = (
    "what is seen in every round, less what all data make expect at the first broadcast, solved "
    "for what each canary's message differs by there, of items in those of its two histories"
)
_STAGES = 4  # of a training, over each of which scores are averaged: known coins are few
_NUMBERS = 1 << 23  # of messages made at once
_RIDGE = 1e-3  # of the mean square of directions: some may be sums of others
_PRECISE = 1e-4  # of the solution
_TINY = 1e-30


@dataclass(frozen=True, slots=True)
class Direction:
    """By how much the canaries' first messages differ from their second ones, in one component.

    ``values`` (m, q) are the differences; of a table of all items in the rows of each canary's own
    items only, which hold nearly all that a history says there; of one of all users in its own row.
    ``matrix`` (m, p) has them in their places. ``middle`` (m,) are the inner products with the mean
    of both messages, half the difference of their squares. ``total``, of ``shape``, is the sum of
    all messages, of canaries their mean; None where it is not expected.
    """

    values: NDArray[np.float32]
    matrix: NDArray[np.float32] | sparse.csr_array
    middle: Array
    shape: tuple[int, ...]
    total: Array | None

    @classmethod
    def of(
        cls, sent: Component, others: Component | None, start: Array, canaries: Canaries
    ) -> Direction:
        """Of the first histories of all canaries, then of the second ones, a message each."""
        count = len(canaries)
        whose = np.tile(np.arange(count), 2)
        both = np.concatenate([each for _, each in _read(sent, whose, start, canaries)])
        one, other = both[:count], both[count:]
        values, width = one - other, math.prod(sent.shape[1:])
        middle = 0.5 * (np.einsum("ij,ij->i", one, one) - np.einsum("ij,ij->i", other, other))
        if _of_one(sent, start):
            matrix = _placed(values, np.arange(count)[:, None], width, count)
            mean = np.asarray(0.5 * (one + other), float)
            return cls(values, matrix, middle, (count, *sent.shape[1:]), mean)
        shape, matrix = sent.shape, values
        if canaries.of_items(shape):
            shape = canaries.seen(shape)
            matrix = _placed(values, canaries.items - canaries.known, width, shape[0])
        total = None
        if others is not None and sent.kind not in (Kind.REPORTS, Kind.BITS):
            total = 0.5 * canaries.total(sent) + canaries.total(others)
            total = total - (count + len(others)) * canaries.rows(start)
        return cls(values, matrix, middle, shape, total)


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores of canaries along the directions of their messages at one broadcast, by component.

    Of changes of the model where models are sent; of reports the gradients behind them, if they are
    kept, else the reports themselves, whose sums are not expected. ``shapes`` are arrays of the
    shapes of directions, all 0 where these are.
    """

    canaries: Canaries
    directions: Mapping[str, Direction]
    shapes: Mapping[str, Array]

    @classmethod
    def of(
        cls,
        target: Target,
        canaries: Canaries,
        others: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        compute: Compute,
    ) -> Scorer:
        """By one upload of either history of every canary, and of all ``others``."""
        own = np.tile(canaries.crowd.n_users + np.arange(len(canaries)), 2)
        heard, rest = (
            projection.addressed(broadcast, rows) for rows in (own, np.arange(others.n_users))
        )
        sending, crowding = rng.spawn(2)
        sent = target.upload(canaries.profiles, heard, sending, 1, compute).components
        theirs: Mapping[str, Component] = {}
        if others.n_users:
            theirs = target.upload(others, rest, crowding, 1, compute).components
        plain, start = projection.plain, projection.start
        found = {
            name: Direction.of(
                plain(part),
                plain(theirs[name]) if name in theirs else None,
                start(part, name, heard),
                canaries,
            )
            for name, part in sent.items()
        }
        shapes = {n: np.broadcast_to(float(d.values.any()), d.shape) for n, d in found.items()}
        return cls(canaries, found, shapes)

    def features(self, view: View, vantage: Vantage) -> Array:
        """Scores (m, f) by what ``vantage`` sees: a column a stage of the training and a source.

        ``view`` is its view, or that of the server where it sees sums: they are a function of what
        is sent, of which only the rows that are looked at are made. The steps of broadcasts tell
        there what messages in the clear add to those that are summed.
        """
        rounds = view.rounds
        models = [self._rows(each.broadcast) for each in rounds]
        steps = itertools.starmap(projection.step, itertools.pairwise(models))
        if vantage is Vantage.RELEASE:
            found = [self._summed(models, 1)]
        elif vantage is Vantage.PEERS:
            found = [self._summed(steps, len(rounds) - 1)]
        elif vantage is Vantage.SERVER and view.public.parties is None:
            sources = [
                [(sent, each.broadcast) for each in rounds if (sent := each.uploads) is not None],
                [(sent, each.broadcast) for each in rounds if (sent := each.clear) is not None],
            ]
            found = [_by_stage(list(itertools.starmap(self._linked, s))) for s in sources if s]
        else:
            found = [self._summed(self._sums(view, models), len(rounds))]
            if any(each.clear is not None for each in rounds):
                found.append(self._summed(steps, len(rounds) - 1))
        return np.column_stack([np.zeros((len(self.canaries), 0)), *found])

    def _rows(self, model: Broadcast | None) -> dict[str, NDArray[Any]]:
        return {name: self.canaries.rows(part) for name, part in (model or {}).items()}

    def _sums(
        self, view: View, models: list[dict[str, NDArray[Any]]]
    ) -> Iterator[Mapping[str, NDArray[Any]]]:
        """How far the sums of messages are from the broadcast, a round after the other."""
        for seen, model in zip(view.rounds, models, strict=True):
            parts = seen.uploads.components if seen.uploads is not None else {}
            totals = {name: self.canaries.total(part) for name, part in parts.items()}
            yield projection.change(totals, model, max(map(len, parts.values()), default=0))

    def _linked(self, uploads: Uploads, broadcast: Broadcast | None) -> Array:
        """Inner products of canaries' own messages with their directions, (m,), less the middle.

        In units of the directions' lengths; 0 for canaries that send nothing.
        """
        scores, squares = (np.full(len(self.canaries), number) for number in (0.0, _TINY))
        mine = np.flatnonzero(uploads.users >= self.canaries.crowd.n_users)
        whose = np.asarray(uploads.users[mine] - self.canaries.crowd.n_users, np.intp)
        parts = {name: part.take(mine) for name, part in uploads.components.items()}
        pairs = self._matched({name: self.canaries.seen(p.shape) for name, p in parts.items()})
        for name, key in pairs:
            along, start = self.directions[key], projection.start(parts[name], name, broadcast)
            for block, sent in _read(parts[name], whose, start, self.canaries):
                values = along.values[block]
                scores[block] += np.einsum("ij,ij->i", values, sent)
                scores[block] -= along.middle[block] if key == name else 0.0
                squares[block] += np.einsum("ij,ij->i", values, values)
        return np.asarray(scores / np.sqrt(squares))

    def _summed(self, rounds: Iterable[Mapping[str, NDArray[Any]]], count: int) -> Array:
        """How much of each canary's direction is in sums of messages, (m, stages).

        Directions need not be orthogonal: solved by least squares with a small ridge, in units of
        deviations.
        """
        stages, each = [], iter(rounds)
        for size in map(len, _stages(count)):
            stages.append(dict[str, Array]())
            for parts in itertools.islice(each, size):
                for key, rest in self._rests(parts):
                    stages[-1][key] = stages[-1].get(key, 0.0) + rest.ravel() / size
        used = {key: self.directions[key].matrix for stage in stages for key in stage}
        if not used:
            return np.zeros((len(self.canaries), 0))
        gram: Any = sum(matrix @ matrix.T for matrix in used.values())
        squares = np.asarray(gram.diagonal(), float)
        ridge = _RIDGE * squares.mean() + _TINY
        gram = gram + sparse.eye_array(len(squares), dtype=np.float32) * np.float32(ridge)
        scale, solved = sparse.diags_array(1.0 / (squares + ridge)), []
        for stage in stages:
            sums = sum(used[key] @ rest.astype(np.float32) for key, rest in stage.items())
            solved.append(cg(gram, np.asarray(sums, float), rtol=_PRECISE, M=scale)[0])
        return np.asarray(np.sqrt(squares)[:, None] * np.stack(solved, axis=1))

    def _rests(self, parts: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Array]]:
        """Sums of messages less what is expected of them, by component, in units of the rest.

        What is expected is as much as there is of it in what is seen: steps are of a length that is
        not looked up.
        """
        pairs = self._matched({name: np.shape(part) for name, part in parts.items()})
        rest = {name: np.asarray(parts[name], float) for name, _ in pairs}
        expected = {name: self.directions[key].total for name, key in pairs}
        known = {name: total for name, total in expected.items() if total is not None}
        share = projection.dot((rest[name], total) for name, total in known.items())
        share /= projection.dot((total, total) for total in known.values()) + _TINY
        for name, total in known.items():
            rest[name] = rest[name] - share * total
        square = projection.dot((left, left) for left in rest.values())
        scale = math.sqrt(square / max(1, sum(r.size for r in rest.values()))) + _TINY
        yield from ((key, rest[name] / scale) for name, key in pairs)

    def _matched(self, shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[str, str]]:
        """Parts that have a direction, each with its component's name; if none has, by its shape.

        So noise that is replaced, or a model of another name, is looked at along what it hides.
        """
        found = [
            (name, key)
            for name, shape in shapes.items()
            if (key := projection.matched(name, shape, self.shapes)) is not None
        ]
        own = [(name, key) for name, key in found if name == key and self.shapes[key].any()]
        return own or [(name, key) for name, key in found if shapes[name]]


def _read(
    sent: Component, whose: NDArray[np.intp], start: Array, canaries: Canaries
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
    """What canaries sent, less ``start``, of items in the rows of their own: whose, and (b, q).

    ``whose`` (n,) are the canaries of the messages; by blocks that are not too many numbers.
    """
    picks, begun = canaries.of_items(sent.shape), np.asarray(start, np.float32)
    shape = (canaries.items.shape[1], *sent.shape[1:]) if picks else sent.shape
    step = max(1, _NUMBERS // max(1, math.prod(shape)))
    for at in range(0, len(whose), step):
        block = np.arange(at, min(at + step, len(whose)))
        rows = canaries.items[whose[block]]
        each: Any = begun
        if begun.ndim and (picks or _of_one(sent, begun)):
            each = begun[rows if picks else block[:, None]]
        numbers = (sent.picked(block, rows) if picks else sent.dense(block)) - each
        yield whose[block], np.asarray(numbers, np.float32).reshape(len(block), -1)


def _of_one(sent: Component, start: NDArray[Any]) -> bool:
    """Whether each message is a row of a table that has one for every user."""
    return sent.shape[:1] == (1,) and start.shape == (len(sent), *sent.shape[1:])


def _placed(
    values: NDArray[np.float32], rows: NDArray[np.intp], width: int, count: int
) -> sparse.csr_array:
    """Rows (m, k) of tables (count, width) that have ``values`` (m, k width): (m, count width)."""
    places = rows[:, :, None] * width + np.arange(width)
    ends = np.arange(len(rows) + 1) * values.shape[1]
    numbers = values.ravel(), places.ravel(), ends
    return sparse.csr_array(numbers, shape=(len(rows), count * width))


def _stages(count: int) -> list[NDArray[np.intp]]:
    """Rounds in stages of a training."""
    return np.array_split(np.arange(count), min(count, _STAGES)) if count else []


def _by_stage(scores: Sequence[Array]) -> Array:
    """Means over stages of scores (rounds, m): (m, stages)."""
    return np.stack([np.mean(scores[s[0] : s[-1] + 1], axis=0) for s in _stages(len(scores))], 1)


COINS = "coins"
"""The features that are no vantage's: 1 for a canary with its first history, 0 with its second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTraining:
    """A training of ``target`` on a crowd and its ``canaries``, as some vantages see it.

    The adversary knows the crowd, both histories of every canary, and the broadcast at which it
    expects: the first, and for the release that itself.
    """

    target: Target
    canaries: Canaries
    vantages: tuple[Vantage, ...]
    compute: Compute = DEFAULT
    votes: ClassVar[int] = 0

    @property
    def messages(self) -> int:
        """All users' of the training."""
        return self.canaries.crowd.n_users + len(self.canaries)

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """One training, whatever ``size``: features (m, f) by vantage, and ``COINS`` (m, 1)."""
        tossing, crowd_game, seeing, guessing = np.random.default_rng(seed).spawn(4)
        first = tossing.random(len(self.canaries)) < 0.5
        data = self.canaries.population(first)
        transcript = self.target.run(data, crowd_game, None, self.compute).transcript
        found = {COINS: first[:, None].astype(np.float64)}
        scorers: dict[bool, Scorer] = {}
        others = told_by_others(self.canaries.crowd, self.vantages, transcript)
        with one_thread():
            for vantage in self.vantages:
                # Of sums only what is looked at is made, of what is sent: no order changes them.
                summed = vantage in (Vantage.AGGREGATE, Vantage.SHUFFLED)
                view = transcript.view(Vantage.SERVER if summed else vantage, seeing)
                last, features = vantage is Vantage.RELEASE, np.zeros((len(first), 0))
                if view.rounds:
                    if last not in scorers:
                        broadcast = view.rounds[0].broadcast
                        scorers[last] = Scorer.of(
                            self.target, self.canaries, others, broadcast, guessing, self.compute
                        )
                    features = scorers[last].features(view, vantage)
                nothing = np.zeros((len(first), 1))
                found[str(vantage)] = features if features.size else nothing
        return found


class OneRunGame(CanaryGame):
    """A training on all data and canaries, one for all scopes that ask for the same histories."""

    name = "one-run"
    horizon = Horizon.TRAINING
    chunk = 1
    own_estimator = OneRun()

    def settings(self, ground: Ground, rng: np.random.Generator) -> Iterator[Setting | NotPlayed]:
        """See ``CanaryGame``. InputError of a model whose catalogue is fixed: canaries are new."""
        target, interactions = ground.target, ground.interactions
        if target.catalogue is not None:
            raise InputError(
                f"Expected a model for any number of items, as canaries are new ones, got one of "
                f"{target.catalogue} items. Give a function that makes a model."
            )
        played, count = _at_length(ground), _count(ground)
        features = count_user_features(interactions)
        crowd = Population(
            n_users=interactions.n_users, n_items=interactions.n_items, n_features=features
        )
        asked = self.scopes(played.scoped_claims(crowd))

        def kind(scope: Scope) -> tuple[str, str, bool]:
            return str(scope.unit), str(scope.adjacency), of_a_crowd(target, scope)

        for _, group in groupby(sorted(asked, key=kind), key=kind):
            same = tuple(group)
            made = canary.designed(same[0], interactions, count, rng)
            if made is None:
                yield NotPlayed(scopes=same, reason="the data have no two values to tell apart")
                continue
            if of_a_crowd(target, same[0]) and _nobody_sends(played, interactions, same[0], rng):
                reason = (
                    "the message of an empty history moves something, so that a canary who comes "
                    "and goes changes two: play training"
                )
                yield NotPlayed(scopes=same, reason=reason)
                continue
            sizes = Population(
                n_users=made.crowd.n_users + count,
                n_items=made.crowd.n_items,
                n_features=features,
            )
            claimed = self.scopes(played.scoped_claims(sizes))
            yield Setting(
                target=played,
                population=sizes,
                names=made.names,
                scopes={scope: claimed[scope] for scope in same},
                simulation=SharedTraining(
                    target=played,
                    canaries=made,
                    vantages=vantages_of(same),
                    compute=ground.compute,
                ),
                text=(
                    f"one training of {played.sizes.rounds or 1} rounds of "
                    f"{made.crowd.n_users:,} users and {interactions.n_items:,} items of the "
                    f"data, {sizes.n_items - interactions.n_items:,} new items and {count:,} "
                    "canaries"
                ),
                played=f"of {sizes.n_users:,} users",
                statistic=STATISTIC,
            )

    def worlds(
        self, draws: Draws, setting: Setting, scope: Scope, runs: int, rng: np.random.Generator
    ) -> tuple[Worlds, str]:
        """A training anew whenever it is asked for; its canaries count, and ``runs`` do not."""

        def coins(stream: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
            scores, first = (
                draws.features(seen, 0, 1, stream) for seen in (str(scope.vantage), COINS)
            )
            return scores, first[:, 0] > 0.5

        return with_coins(setting.names, scope, coins), "by a coin each"

    def largest(self, ground: Ground) -> tuple[Target, Interactions]:
        """The system, and the largest data that it is trained on, to be weighed."""
        scope, count = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING), _count(ground)
        made = canary.designed(scope, ground.interactions, count, np.random.default_rng(0))
        assert made is not None  # items are swapped, whatever the ratings are
        return _at_length(ground), made.worlds[0]


def _count(ground: Ground) -> int:
    return ground.canaries or canary.default_canaries(ground.interactions, ground.quick)


def _at_length(ground: Ground) -> Target:
    """The target as it is trained in one run: of full length, unless the audit is quick."""
    return crowd_game.shortened(ground.target, quick=False) if ground.quick else ground.target


def _nobody_sends(
    target: Target, interactions: Interactions, scope: Scope, rng: np.random.Generator
) -> bool:
    """Whether a history without items moves what is seen in ``scope``, at the first broadcast."""
    opening = crowd_game.opening(target, interactions.take(np.arange(1)), rng)
    return sends_when_absent(target, interactions, scope, crowd_game.broadcast_of(opening), rng)
