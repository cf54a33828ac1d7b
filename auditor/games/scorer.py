"""What an adversary expects of many canaries' messages, and how it scores them by what is seen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.projection import Array
from fedrec_auditor.targets.components import Component, Kind
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
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
        uploads = projection.uploaded(
            target,
            (canaries.profiles, others),
            broadcast,
            (own, np.arange(others.n_users)),
            rng,
            compute=compute,
        )
        found = {
            name: Direction.of(sent, theirs, start, canaries)
            for name, sent, theirs, start in uploads
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
        share = sum(float(np.vdot(rest[n], m)) for n, m in known.items())
        share /= sum(float(np.vdot(m, m)) for m in known.values()) + _TINY
        for name, total in known.items():
            rest[name] = rest[name] - share * total
        square = sum(float(np.vdot(r, r)) for r in rest.values())
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
