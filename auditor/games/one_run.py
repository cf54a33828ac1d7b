"""The one-run game: one training with many canaries (designed users), each with one of two
histories at random.
"""

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
from fedrec_auditor.accountants.statements import Horizon, Scope, Unit, Vantage, make_local_scope
from fedrec_auditor.auditor.games import canary, canary_game, crowd_game, projection
from fedrec_auditor.auditor.games.canary import CanarySet
from fedrec_auditor.auditor.games.canary_game import GameInputs, GameSetup, RunSampler, Skip
from fedrec_auditor.auditor.games.crowd_game import select_users_to_predict
from fedrec_auditor.auditor.games.projection import Array
from fedrec_auditor.auditor.games.stated import can_absent_user_send, has_presence_claim
from fedrec_auditor.auditor.worlds.one_run import OneRun, make_one_run_worlds
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.targets.components import Component, Payload
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, Machine, limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads, View

# Description of the adversary's score in the one-run game, for reports.
ONE_RUN_SCORE_TEXT = (
    "the messages of every round minus their expected value, written by least squares as a sum of "
    "the differences between each canary's two messages (in item tables, of its items' rows only)"
)
_MAX_STAGES = 4  # maximum number of features; few known canaries allow only simple rules
_MAX_NUMBERS = 1 << 23  # maximum numbers of messages in memory at once
_RIDGE = 1e-3  # relative to the mean square of directions, which may be linearly dependent
_TOLERANCE = 1e-4  # relative error of the solution
_TINY = 1e-30


@dataclass(frozen=True, slots=True)
class CanaryDirections:
    """Directions of m canaries (designed users) in one component (named array) of messages.

    The direction of a canary is the message for its first history minus the message for its second
    history. A canary's own rows are the rows of its items in an item table, its row in a user
    table, or all rows of another array.

    ``own_row_directions``: the directions in the canary's own rows (m, q).
    ``flattened_directions``: the directions as vectors over all entries of ``sum_shape`` (m, p),
        which are 0 outside the own rows.
    ``direction_midpoint_products``: inner product of each canary's direction with the mean of its
        two messages (m,).
    ``sum_shape``: shape of a sum of messages in the rows of canaries or of new items, which are
        items added for canaries only (``CanarySet.sum_canary_rows``).
    ``expected_message_sum``: expected sum of messages if each canary sends the mean of its two
        messages; None if the sum has no expectation.
    """

    # The rows of a canary's items contain nearly all information on its history.
    own_row_directions: NDArray[np.float32]
    flattened_directions: NDArray[np.float32] | sparse.csr_array
    direction_midpoint_products: Array
    sum_shape: tuple[int, ...]
    expected_message_sum: Array | None

    @classmethod
    def compute(
        cls, sent: Component, others: Component | None, base: Array, canaries: CanarySet
    ) -> CanaryDirections:
        """Computes the difference between the messages for the two histories of each canary
        (designed user), in one named array of messages.

        ``sent``: one message per history: first histories of all canaries, then all second
            histories.
        ``others``: messages of all other users, or None.
        ``base``: value that is subtracted from messages to get changes of the model.
        """
        count = len(canaries)
        whose = np.tile(np.arange(count), 2)
        both = np.concatenate([block for _, block in _read_changes(sent, whose, base, canaries)])
        first, second = both[:count], both[count:]
        values, width = first - second, math.prod(sent.shape[1:])
        middle = 0.5 * (np.einsum("ij,ij->i", first, first) - np.einsum("ij,ij->i", second, second))
        if _is_user_row(sent, base):
            matrix = _place_values(values, np.arange(count)[:, None], width, count)
            mean = np.asarray(0.5 * (first + second), float)
            return cls(values, matrix, middle, (count, *sent.shape[1:]), mean)
        shape, matrix = sent.shape, values
        if canaries.is_item_table(shape):
            shape = canaries.get_canary_rows_shape(shape)
            places = canaries.canary_items - canaries.n_data_items
            matrix = _place_values(values, places, width, shape[0])
        total = None
        if others is not None and sent.kind not in (Payload.REPORTS, Payload.BITS):
            total = 0.5 * canaries.sum_canary_rows(sent) + canaries.sum_canary_rows(others)
            total = total - (count + len(others)) * canaries.get_canary_rows(base)
        return cls(values, matrix, middle, shape, total)


@dataclass(frozen=True, slots=True)
class CanaryScorer:
    """Scores canaries (designed users) by projecting messages on the directions of the canaries at
    one broadcast.

    The direction of a canary is the message for its first history minus the message for its second
    history.

    ``canaries``: the canaries.
    ``directions``: directions in each component (named array) of messages.
    ``nonzero_masks``: array of the shape ``CanaryDirections.sum_shape`` for each component: all 1
        if a direction is not 0, otherwise all 0.
    """

    canaries: CanarySet
    directions: Mapping[str, CanaryDirections]
    # Masks take the place of directions in ``projection.match_direction``.
    nonzero_masks: Mapping[str, Array]

    @classmethod
    def build(
        cls,
        target: Target,
        canaries: CanarySet,
        others: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        compute: Machine,
    ) -> CanaryScorer:
        """Makes a scorer from one upload for each history of each canary (designed user), and one
        upload of each other user.

        ``others``: data of all other users.
        ``broadcast``: the broadcast that the uploads answer, or None.
        ``compute``: device and memory of the simulation.
        """
        own = np.tile(canaries.other_users.n_users + np.arange(len(canaries)), 2)
        received = projection.get_received(broadcast, own)
        rest = projection.get_received(broadcast, np.arange(others.n_users))
        sending, crowding = rng.spawn(2)
        sent = target.upload(canaries.histories, received, sending, 1, compute).components
        crowd: Mapping[str, Component] = {}
        if others.n_users:
            crowd = target.upload(others, rest, crowding, 1, compute).components
        # Models are replaced by changes of the model, and reports (randomized coordinates of a
        # gradient) by the gradients before randomization, if these are stored.
        plain, base_of = projection.get_noiseless, projection.get_subtracted_model
        directions = {
            name: CanaryDirections.compute(
                plain(part),
                plain(crowd[name]) if name in crowd else None,
                base_of(part, name, received),
                canaries,
            )
            for name, part in sent.items()
        }
        masks = {
            name: np.broadcast_to(float(each.own_row_directions.any()), each.sum_shape)
            for name, each in directions.items()
        }
        return cls(canaries, directions, masks)

    def compute_scores(self, view: View, vantage: Vantage) -> Array:
        """Computes scores of m canaries (designed users) in a training, (m, f), from which an
        estimator guesses the history of each canary.

        ``view``: messages that the adversary sees. For ``AGGREGATE`` and ``SHUFFLED``: the messages
            of single users, which are summed here.
        ``vantage``: what the adversary sees, such as ``AGGREGATE`` for sums.

        A column is a pair of a source of messages, such as the uploads, and a stage (group of
        successive rounds).
        """
        rounds = view.rounds
        models = [self._select_rows(each.broadcast) for each in rounds]
        steps = itertools.starmap(projection.diff_broadcasts, itertools.pairwise(models))
        if vantage is Vantage.RELEASE:
            scores = [self._solve_sums(models, 1)]
        elif vantage is Vantage.PEERS:
            scores = [self._solve_sums(steps, len(rounds) - 1)]
        elif vantage is Vantage.SERVER and view.public.n_silos is None:
            sources = [
                [(sent, seen.broadcast) for seen in rounds if (sent := seen.uploads) is not None],
                [(sent, seen.broadcast) for seen in rounds if (sent := seen.cleartext) is not None],
            ]
            scores = [_average(list(itertools.starmap(self._score_own, s))) for s in sources if s]
        else:
            scores = [self._solve_sums(self._yield_sums(view, models), len(rounds))]
            # If some messages are sent in the clear, the differences between successive broadcasts
            # are a further source.
            if any(seen.cleartext is not None for seen in rounds):
                scores.append(self._solve_sums(steps, len(rounds) - 1))
        return np.column_stack([np.zeros((len(self.canaries), 0)), *scores])

    def _select_rows(self, model: Broadcast | None) -> dict[str, NDArray[Any]]:
        return {name: self.canaries.get_canary_rows(part) for name, part in (model or {}).items()}

    def _yield_sums(
        self, view: View, models: list[dict[str, NDArray[Any]]]
    ) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yields, for each round, the sum of all messages minus the broadcast, by component.

        ``models``: broadcast of each round, restricted to the rows of canaries and new items.

        Sums have these rows only. The broadcast is subtracted once per message.
        """
        for seen, model in zip(view.rounds, models, strict=True):
            parts = seen.uploads.components if seen.uploads is not None else {}
            totals = {name: self.canaries.sum_canary_rows(part) for name, part in parts.items()}
            yield projection.to_change_sums(totals, model, max(map(len, parts.values()), default=0))

    def _score_own(self, uploads: Uploads, broadcast: Broadcast | None) -> Array:
        """Projections of the canaries' own messages on their directions, relative to the middle of
        the two expected messages (m,).

        A direction is the difference between the messages for the two histories of a canary.
        Projections are divided by its length. The value is 0 for canaries without a message.
        """
        scores, squares = (np.full(len(self.canaries), number) for number in (0.0, _TINY))
        rows = np.flatnonzero(uploads.users >= self.canaries.other_users.n_users)
        whose = np.asarray(uploads.users[rows] - self.canaries.other_users.n_users, np.intp)
        parts = {name: part.take(rows) for name, part in uploads.components.items()}
        shapes = {name: self.canaries.get_canary_rows_shape(p.shape) for name, p in parts.items()}
        for name, key in self._match_arrays(shapes):
            along = self.directions[key]
            start = projection.get_subtracted_model(parts[name], name, broadcast)
            for block, sent in _read_changes(parts[name], whose, start, self.canaries):
                values = along.own_row_directions[block]
                scores[block] += np.einsum("ij,ij->i", values, sent)
                scores[block] -= along.direction_midpoint_products[block] if key == name else 0.0
                squares[block] += np.einsum("ij,ij->i", values, values)
        return np.asarray(scores / np.sqrt(squares))

    def _solve_sums(self, rounds: Iterable[Mapping[str, NDArray[Any]]], count: int) -> Array:
        """Coefficient of each canary's direction in sums of messages (m, stages), by least squares.

        ``rounds``: sum of the messages of each round, by component.
        ``count``: number of rounds, which are split into stages.

        A direction is the difference between the messages for the two histories of a canary.
        Coefficients are scaled by the lengths of the directions.
        """
        stages, remaining = [], iter(rounds)
        for size in map(len, _to_stages(count)):
            stages.append(dict[str, Array]())
            for parts in itertools.islice(remaining, size):
                for key, rest in self._yield_residuals(parts):
                    stages[-1][key] = stages[-1].get(key, 0.0) + rest.ravel() / size
        used = {key: self.directions[key].flattened_directions for stage in stages for key in stage}
        if not used:
            return np.zeros((len(self.canaries), 0))
        # Directions need not be orthogonal; a small ridge makes the solution unique.
        gram: Any = sum(matrix @ matrix.T for matrix in used.values())
        squares = np.asarray(gram.diagonal(), float)
        ridge = _RIDGE * squares.mean() + _TINY
        gram = gram + sparse.eye_array(len(squares), dtype=np.float32) * np.float32(ridge)
        scale, solved = sparse.diags_array(1.0 / (squares + ridge)), []
        for stage in stages:
            sums = sum(used[key] @ rest.astype(np.float32) for key, rest in stage.items())
            solved.append(cg(gram, np.asarray(sums, float), rtol=_TOLERANCE, M=scale)[0])
        return np.asarray(np.sqrt(squares)[:, None] * np.stack(solved, axis=1))

    def _yield_residuals(self, parts: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Array]]:
        """Yields, for each component, the sum of messages minus its expectation, divided by the
        root mean square of all residuals.

        ``parts``: sum of the messages of one round, by name.
        """
        pairs = self._match_arrays({name: np.shape(part) for name, part in parts.items()})
        rest = {name: np.asarray(parts[name], float) for name, _ in pairs}
        expected = {name: self.directions[key].expected_message_sum for name, key in pairs}
        known = {name: total for name, total in expected.items() if total is not None}
        # The expectation is scaled by least squares, because the length of model steps is unknown.
        share = projection.sum_products((rest[name], total) for name, total in known.items())
        share /= projection.sum_products((total, total) for total in known.values()) + _TINY
        for name, total in known.items():
            rest[name] = rest[name] - share * total
        square = projection.sum_products((part, part) for part in rest.values())
        scale = math.sqrt(square / max(1, sum(r.size for r in rest.values()))) + _TINY
        yield from ((key, rest[name] / scale) for name, key in pairs)

    def _match_arrays(self, shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[str, str]]:
        """Pairs of an array and the component on whose directions the array is projected, both by
        name.

        ``shapes``: shape of each array, by name.

        Arrays are matched by name. If no name has a direction (difference of a canary's messages),
        arrays are matched by shape.
        """
        pairs = [
            (name, key)
            for name, shape in shapes.items()
            if (key := projection.match_direction(name, shape, self.nonzero_masks)) is not None
        ]
        # Examples of a match by shape: a model of another name, and a second message that contains
        # the noise of the first message.
        own = [(name, key) for name, key in pairs if name == key and self.nonzero_masks[key].any()]
        return own or [(name, key) for name, key in pairs if shapes[name]]


def _read_changes(
    sent: Component, whose: NDArray[np.intp], start: Array, canaries: CanarySet
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
    """Yields messages minus ``start`` in blocks of b: the index of each message's canary (b,), and
    the numbers of each message (b, q).

    ``sent``: the n messages of one component.
    ``whose``: index of the canary of each message (n,).
    ``start``: value that is subtracted from messages to get changes of the model.

    In item tables (one row per item), only the rows of a canary's own items are read.
    """
    picks, base = canaries.is_item_table(sent.shape), np.asarray(start, np.float32)
    shape = (canaries.canary_items.shape[1], *sent.shape[1:]) if picks else sent.shape
    step = max(1, _MAX_NUMBERS // max(1, math.prod(shape)))
    for at in range(0, len(whose), step):
        block = np.arange(at, min(at + step, len(whose)))
        rows = canaries.canary_items[whose[block]]
        base_rows: Any = base
        if base.ndim and (picks or _is_user_row(sent, base)):
            base_rows = base[rows if picks else block[:, None]]
        numbers = (sent.select_rows(block, rows) if picks else sent.to_dense(block)) - base_rows
        yield whose[block], np.asarray(numbers, np.float32).reshape(len(block), -1)


def _is_user_row(sent: Component, start: NDArray[Any]) -> bool:
    """Whether a message is the sender's row of a table with one row per user. ``start`` then has
    the rows of all senders.
    """
    return sent.shape[:1] == (1,) and start.shape == (len(sent), *sent.shape[1:])


def _place_values(
    values: NDArray[np.float32], rows: NDArray[np.intp], width: int, count: int
) -> sparse.csr_array:
    """Sparse matrix (m, count * width) with k table rows of each canary at their places.

    ``values``: the table rows, in one dimension per canary (m, k * width).
    ``rows``: index of each table row (m, k).
    ``width``, ``count``: numbers of columns and rows of the table.
    """
    places = rows[:, :, None] * width + np.arange(width)
    ends = np.arange(len(rows) + 1) * values.shape[1]
    numbers = values.ravel(), places.ravel(), ends
    return sparse.csr_array(numbers, shape=(len(rows), count * width))


def _to_stages(count: int) -> list[NDArray[np.intp]]:
    """Splits the indices of ``count`` rounds into at most ``_MAX_STAGES`` stages (runs of
    successive rounds).
    """
    return np.array_split(np.arange(count), min(count, _MAX_STAGES)) if count else []


def _average(scores: Sequence[Array]) -> Array:
    """Means of ``scores`` (rounds, m) over the rounds of each stage of the training: (m,
    stages).
    """
    return np.stack([np.mean(scores[s[0] : s[-1] + 1], axis=0) for s in _to_stages(len(scores))], 1)


# Name of the features that are 1 for canaries with their first history, and otherwise 0.
HAS_FIRST_KEY = "coins"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunSimulator:
    """Simulates one training of users and many canaries (designed users), and scores the canaries.

    ``target``: the system.
    ``canaries``: the canaries, each with one of two histories at random, and all other users.
    ``vantages``: adversaries, by what they see, for whom scores are returned.
    ``machine``: device and memory of the training.
    ``n_standalone_features``: 0, because no feature serves alone as a score.
    """

    # The adversary knows all other users, both histories of every canary, and one broadcast at
    # which it computes expected messages: the first broadcast, or the released model if it sees
    # only this model.
    target: Target
    canaries: CanarySet
    vantages: tuple[Vantage, ...]
    machine: Machine = DEFAULT_MACHINE
    n_standalone_features: ClassVar[int] = 0

    @property
    def n_messages(self) -> int:
        """Number of messages from which the duration of the run is estimated: one per user,
        including canaries (designed users).
        """
        return self.canaries.other_users.n_users + len(self.canaries)

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> canary_game.Features:
        """Runs one training; returns the scores of m canaries, and the histories that they have.

        - ``HAS_FIRST_KEY``: 1 for each canary with its first history, otherwise 0 (m, 1).
        - Name of an adversary (vantage): the scores that it computes for each canary (m, f).

        ``world`` and ``size`` are ignored.
        """
        tossing, training, seeing, guessing = np.random.default_rng(seed).spawn(4)
        first = tossing.random(len(self.canaries)) < 0.5
        data = self.canaries.make_data_set(first)
        transcript = self.target.run(data, training, None, self.machine).transcript
        results = {HAS_FIRST_KEY: first[:, None].astype(np.float64)}
        scorers: dict[bool, CanaryScorer] = {}
        others = select_users_to_predict(self.canaries.other_users, self.vantages, transcript)
        with limit_to_one_thread():
            for vantage in self.vantages:
                # Sums are computed from the messages, and only in scored rows, in any order.
                summed = vantage in (Vantage.AGGREGATE, Vantage.SHUFFLED)
                view = transcript.view(Vantage.SERVER if summed else vantage, seeing)
                last, features = vantage is Vantage.RELEASE, np.zeros((len(first), 0))
                if view.rounds:
                    if last not in scorers:
                        broadcast = view.rounds[0].broadcast
                        scorers[last] = CanaryScorer.build(
                            self.target, self.canaries, others, broadcast, guessing, self.machine
                        )
                    features = scorers[last].compute_scores(view, vantage)
                nothing = np.zeros((len(first), 1))
                results[str(vantage)] = features if features.size else nothing
        return results


class OneRunGame(canary_game.CanaryGame):
    """Game of one training on all data with many canaries (designed users).

    Each canary has one of two histories at random. All scopes (unit, adjacency, adversary) that
    need the same histories share the training.

    ``name``: name of the game on the command line.
    ``horizon``: time that the adversary observes.
    ``chunk_size``: number of runs that are simulated together: the single training.
    ``fixed_estimator``: estimator of this game, for canaries of a single training.
    """

    name = "one-run"
    horizon = Horizon.TRAINING
    chunk_size = 1
    fixed_estimator = OneRun()

    def make_setups(self, case: GameInputs, rng: np.random.Generator) -> Iterator[GameSetup | Skip]:
        """Yields one training with canaries (designed users) per pair of unit and adjacency among
        the claims, or the reason why there is none.

        ``case``: the system under audit, its data, and options.
        ``rng``: random generator of the canaries' items.

        Raises InputError if the system's item catalogue is fixed, because canaries need new items.
        """
        target, interactions = case.target, case.interactions
        if target.n_required_items is not None:
            raise InputError(
                "Expected a model for any number of items, because canaries have new items, got "
                f"exactly {target.n_required_items} items. Give a function that makes a model."
            )
        trained, count = _shorten_target(case), _count_canaries(case)
        crowd = canary.count_population(interactions)
        scopes = self.get_deltas_by_scope(trained.get_claims(crowd))

        def to_key(scope: Scope) -> tuple[str, str, bool]:
            """Key that is equal for scopes which share a training."""
            return str(scope.unit), str(scope.adjacency), has_presence_claim(target, scope)

        for _, group in groupby(sorted(scopes, key=to_key), key=to_key):
            same = tuple(group)
            canaries = canary.design_canaries(same[0], interactions, count, rng)
            if canaries is None:
                yield Skip(scopes=same, reason="all ratings of the data have the same value")
                continue
            hiding = has_presence_claim(target, same[0])
            if hiding and _can_absent_send(trained, interactions, same[0], rng):
                reason = (
                    "the message of an empty history moves something, so that adding or removing a "
                    "canary is two changes: play training"
                )
                yield Skip(scopes=same, reason=reason)
                continue
            sizes = canary.count_population(canaries.other_users, count)
            deltas = self.get_deltas_by_scope(trained.get_claims(sizes))
            yield GameSetup(
                target=trained,
                population=sizes,
                world_names=canaries.history_names,
                deltas_by_scope={scope: deltas[scope] for scope in same},
                simulation=OneRunSimulator(
                    target=trained,
                    canaries=canaries,
                    vantages=canary_game.list_vantages(same),
                    machine=case.machine,
                ),
                run_description=(
                    f"one training of {trained.sizes.rounds or 1} rounds of "
                    f"{canaries.other_users.n_users:,} users and {interactions.n_items:,} items of "
                    f"the data, {sizes.n_items - interactions.n_items:,} new items and {count:,} "
                    "canaries"
                ),
                run_size_text=f"of {sizes.n_users:,} users",
                score_description=ONE_RUN_SCORE_TEXT,
            )

    def make_worlds(
        self, draws: RunSampler, setup: GameSetup, scope: Scope, runs: int, rng: np.random.Generator
    ) -> tuple[Worlds, str]:
        """Makes two worlds (first or second history) from the canaries (designed users) of one
        training, and a text with the probability of each history.

        ``draws``: runs the training and scores the canaries.
        ``scope``: unit, adjacency, adversary and duration of the bound.

        ``runs`` is ignored, because each call runs one training.
        """

        def train(stream: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
            """Scores of the canaries of one training, and whether each has its first history."""
            scores = draws.draw_features(str(scope.vantage), 0, 1, stream)
            first = draws.draw_features(HAS_FIRST_KEY, 0, 1, stream)
            return scores, first[:, 0] > 0.5

        return make_one_run_worlds(setup.world_names, scope, train), "each with probability 1/2"

    def get_largest_inputs(self, case: GameInputs) -> tuple[Target, Interactions]:
        """Returns the system, and the largest data on which this game trains the system.

        Memory and time of the game are estimated from these.
        """
        scope = make_local_scope(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)
        data, count, rng = case.interactions, _count_canaries(case), np.random.default_rng(0)
        canaries = canary.design_canaries(scope, data, count, rng)
        assert canaries is not None  # histories differ in items, for any ratings
        return _shorten_target(case), canaries.both_data_sets[0]


def _count_canaries(case: GameInputs) -> int:
    return case.n_canaries or canary.choose_n_canaries(case.interactions, case.is_quick)


def _shorten_target(case: GameInputs) -> Target:
    """The target with the number of rounds that the game trains: at most ``MAX_GAME_ROUNDS`` in a
    quick audit, otherwise all.
    """
    return crowd_game.limit_rounds(case.target, quick=False) if case.is_quick else case.target


def _can_absent_send(
    target: Target, interactions: Interactions, scope: Scope, rng: np.random.Generator
) -> bool:
    """Whether a user without items sends a message that changes an adversary's view (the messages
    that it sees) in ``scope``.
    """
    opening = crowd_game.run_round(target, interactions.take_users(np.arange(1)), rng)
    broadcast = crowd_game.get_first_broadcast(opening)
    return can_absent_user_send(target, interactions, scope, broadcast, rng)
