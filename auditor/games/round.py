"""Simulates rounds of uploads at a fixed broadcast, in two worlds that differ in the history of a
canary (a designed user).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.games import projection, reading
from fedrec_auditor.auditor.games.canary import CanarySet
from fedrec_auditor.auditor.games.canary_game import Features
from fedrec_auditor.auditor.worlds.pilot_rules import N_MESSAGE_SCORES, CoordinateScorer
from fedrec_auditor.targets.components import Component, Payload, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import DesignedPair, Target
from fedrec_auditor.targets.transcript import Broadcast

# Vantages that see uploads, so that no step of the server has to be simulated.
UPLOAD_VANTAGES = (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE)
# Description of the adversary's score in the round game, for reports.
ROUND_SCORE_TEXT = (
    "projections of messages on the mean difference between the canary's messages with the two "
    "inputs, and the sum and maximum of these per array, weighted by logistic regression"
)
_COPIES = 512  # messages of the canary per world from which their mean is estimated
_MAX_NUMBERS = 1 << 22  # maximum numbers of messages in memory at once
# Limits for learning votes of coordinates: messages (or sums) per world, summed messages, numbers
# in all messages, and seconds.
_VOTING, _VOTING_MESSAGES, _VOTING_NUMBERS, _VOTING_SECONDS = 4096, 1 << 16, 1 << 20, 10.0
# Reduces n messages to features (n, f), for scopes about a part of a message.
MessagesToFeatures = Callable[[Mapping[str, Component]], projection.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSimulator:
    """Simulates uploads at a fixed broadcast in two worlds: neighbouring inputs that differ in the
    history of a canary (designed user).

    A run has ``n_rounds`` independent rounds, in which everybody sends. A feature is a number that
    the adversary computes from messages, summed over the rounds of a run.

    ``target``: the system.
    ``canary``: the canary and all other users.
    ``broadcast``: the server's broadcast of every round, or None.
    ``world_gap_by_array``: difference of the canary's mean messages between the worlds, by array
        name.
    ``message_stats``: statistics from which features are computed for the vantage "server".
    ``vantages``: adversaries (by what they see) for whom features are returned.
    ``n_rounds``: number of rounds of a run.
    ``reducer``: function that computes the features for the vantage "server" from a part of the
        canary's message; None to use ``message_stats``.
    ``coordinate_scorer_by_array``: scorers of one message, by array name.
    ``sum_scorer_by_array``: scorers of the sum of all messages, by array name.
    """

    # The features depend on what the adversary sees:
    #
    # - Server: statistics of the canary's own messages, or those of ``reducer``.
    # - Shuffled messages: sum and maximum of all messages' projections on ``world_gap_by_array``.
    # - Sums of messages (secure aggregation): only the sum of the projections.
    #
    # The scores of the scorers follow as the last features. If the server is the only adversary,
    # only the canary's messages are simulated.
    target: Target
    canary: CanarySet
    broadcast: Broadcast | None
    world_gap_by_array: projection.Directions
    message_stats: reading.StatsByArray
    vantages: tuple[Vantage, ...]
    n_rounds: int = 1
    reducer: MessagesToFeatures | None = None
    coordinate_scorer_by_array: Mapping[str, CoordinateScorer] = field(default_factory=dict)
    sum_scorer_by_array: Mapping[str, CoordinateScorer] = field(default_factory=dict)

    @classmethod
    def learn(
        cls,
        target: Target,
        canary: CanarySet,
        broadcast: Broadcast | None,
        vantages: tuple[Vantage, ...],
        rng: np.random.Generator,
        n_rounds: int = 1,
        reducer: MessagesToFeatures | None = None,
    ) -> RoundSimulator:
        """Makes a simulator: fits the adversary's features to repeated messages of the canary
        (designed user).

        ``broadcast``: the server's broadcast of every round, or None.
        ``vantages``: adversaries (by what they see) for whom features are computed.
        ``n_rounds``: number of rounds of a run.
        ``reducer``: function that computes features from a part of the canary's message; None for
            the whole message.
        """
        along: projection.Directions = {}
        if set(vantages) - {Vantage.SERVER}:
            along = projection.estimate_messages(
                target, canary.histories, broadcast, rng, _COPIES
            ).world_gap
        readings: reading.StatsByArray = {}
        received = projection.get_received(broadcast, projection.CANARY_ROWS)
        if Vantage.SERVER in vantages and reducer is None:
            count = reading.choose_n_messages(target, canary.histories, received, rng)
            readings = reading.learn_message_stats(target, canary.histories, received, rng, count)
        without_votes = cls(
            target=target,
            canary=canary,
            broadcast=broadcast,
            world_gap_by_array=along,
            message_stats=readings,
            vantages=vantages,
            n_rounds=n_rounds,
            reducer=reducer,
        )
        # A separate generator, so that other draws from ``rng`` do not depend on the votes.
        bits = _jump_bits(rng)
        return without_votes if reducer else without_votes._learn_votes(np.random.Generator(bits))

    @property
    def n_standalone_features(self) -> int:
        """Number of a run's last features that may each serve alone as the adversary's score: three
        of ``CoordinateScorer``; 0 with a ``reducer``.
        """
        return 0 if self.reducer else N_MESSAGE_SCORES

    @property
    def n_messages(self) -> int:
        """Number of messages per run: one per round for each user, including the canary (designed
        user).

        If the server is the only adversary, only the canary sends, because the server sees single
        messages.
        """
        is_single = set(self.vantages) <= {Vantage.SERVER}
        return self.n_rounds * (1 if is_single else 1 + self.canary.other_users.n_users)

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """Simulates ``size`` runs of a world (neighbouring input 0 or 1).

        Returns features (``size``, f), which are numbers that the adversary computes from the
        messages of a run, by vantage (name of the adversary who sees these messages).
        """
        rng, runs, size = np.random.default_rng(seed), size, size * self.n_rounds
        sent = self._upload(self.canary.histories.take_users(np.array([world])), rng, size)
        features = {}
        if Vantage.SERVER in self.vantages:
            features[Vantage.SERVER] = (
                [self.reducer(sent)]
                if self.reducer
                else [self._read_own(sent), self._vote(sent, size)]
            )
        if set(self.vantages) - {Vantage.SERVER}:
            own = self._project(sent, size)
            sums = {name: values[:, 0].copy() for name, values in own.items()}
            sample = self._upload(self.canary.histories.take_users(np.array([0])), rng, 1)
            # Each report is a message: the adversary does not see which reports have one sender.
            linked = {name for name, part in sample.items() if part.kind is not Payload.REPORTS}
            tops = {name: sums[name].copy() for name in sums if name in linked}
            numbers = sum(
                4 * part.coordinates.shape[1]
                if isinstance(part, Reports)
                else math.prod(part.shape)
                for part in sample.values()
            )
            step = max(1, _MAX_NUMBERS // max(1, numbers * self.canary.other_users.n_users))
            totals = {name: _sum_users(sent[name], size) for name in self.sum_scorer_by_array}
            own_votes = np.zeros((0, size, N_MESSAGE_SCORES))
            if Vantage.SHUFFLED in self.vantages:
                own_votes = self._vote(sent, size)[None]
            shuffled = _combine_votes(own_votes)
            for start in range(0, size, step):
                part = slice(start, min(start + step, size))
                runs_of = part.stop - part.start
                others = self._upload(self.canary.other_users, rng, runs_of)
                projections = self._project(others, runs_of)
                for name, total in totals.items():
                    total[part] += _sum_users(others[name], runs_of)
                if Vantage.SHUFFLED in self.vantages and self.coordinate_scorer_by_array:
                    votes = self._vote(others, len(next(iter(others.values()))))
                    votes = votes.reshape(-1, runs_of, N_MESSAGE_SCORES)
                    shuffled[part] = _combine_votes(np.concatenate([own_votes[:, part], votes]))
                for name, values in projections.items():
                    sums[name][part] += values.sum(axis=1)
                    if name in tops:
                        tops[name][part] = np.maximum(tops[name][part], values.max(axis=1))
            sum_votes = np.zeros((size, N_MESSAGE_SCORES))
            for name, voter in self.sum_scorer_by_array.items():
                sum_votes += voter(totals[name])
            features[Vantage.AGGREGATE] = [*sums.values(), sum_votes]
            features[Vantage.SHUFFLED] = [*sums.values(), *tops.values(), shuffled]
        return {
            str(v): np.column_stack(features[v]).reshape(runs, self.n_rounds, -1).sum(axis=1)
            for v in self.vantages
        }

    def _upload(
        self, profiles: Interactions, rng: np.random.Generator, size: int
    ) -> Mapping[str, Component]:
        is_crowd = profiles is self.canary.other_users
        rows = projection.OTHER_ROWS if is_crowd else projection.CANARY_ROWS
        received = projection.get_received(self.broadcast, rows)
        return self.target.upload(profiles, received, rng, size).components

    def _read_own(self, sent: Mapping[str, Component]) -> projection.Array:
        """Features (n, f) of the canary's own n messages ``sent``, which are given by component."""
        stats, shapes = self.message_stats, {name: part.shape for name, part in sent.items()}
        along = reading.get_directions(stats, shapes)
        return np.column_stack(
            [stats[name].compute_features(part, along[name]) for name, part in sent.items()]
        )

    def _vote(self, sent: Mapping[str, Component], size: int) -> projection.Array:
        """Votes of ``size`` messages for one of the two worlds (neighbouring inputs): scores that
        are added over arrays, shape (``size``, ``N_MESSAGE_SCORES``).

        ``sent``: the messages, by component.
        """
        votes = np.zeros((size, N_MESSAGE_SCORES))
        for name, voter in self.coordinate_scorer_by_array.items():
            step = max(1, _VOTING_NUMBERS // max(1, math.prod(sent[name].shape)))
            for start in range(0, size, step):
                block = np.arange(start, min(start + step, size))
                votes[block] += voter(_stack(sent[name], block))
        return votes

    def _learn_votes(self, rng: np.random.Generator) -> RoundSimulator:
        """A copy with voting rules that are learnt from messages of the two worlds (neighbouring
        inputs), drawn with the same randomness.
        """
        received = projection.get_received(self.broadcast, projection.CANARY_ROWS)
        histories = self.canary.histories
        profile = histories.take_users(np.array([0]))
        sample = self.target.upload(profile, received, rng, 1).components
        names = [n for n, p in sample.items() if p.kind not in (Payload.REPORTS, Payload.BITS)]
        numbers = sum(math.prod(sample[name].shape) for name in names)
        linked = {Vantage.SERVER, Vantage.SHUFFLED} & set(self.vantages)
        voters: dict[str, CoordinateScorer] = {}
        sum_voters: dict[str, CoordinateScorer] = {}
        if names and linked:
            count = self._choose_n_draws(numbers, 2)
            pair = projection.draw_upload_pairs(self.target, histories, received, rng, count)
            voters = {
                name: CoordinateScorer.fit(*(_stack(sent[name], np.arange(count)) for sent in pair))
                for name in names
            }
        if names and Vantage.AGGREGATE in self.vantages:
            users = self.canary.other_users.n_users
            count = self._choose_n_draws(numbers * (users + 1) // 4, users + 2)
            pair = projection.draw_upload_pairs(self.target, histories, received, rng, count)
            crowd = self._upload(self.canary.other_users, rng, count) if users else {}
            for name in names:
                rest = _sum_users(crowd[name], count) if users else 0.0
                worlds = [_sum_users(sent[name], count) + rest for sent in pair]
                sum_voters[name] = CoordinateScorer.fit(*worlds)
        return replace(self, coordinate_scorer_by_array=voters, sum_scorer_by_array=sum_voters)

    def _choose_n_draws(self, numbers: int, messages: int) -> int:
        """Number of draws per world (neighbouring input) from which the voting rules are learnt.

        ``numbers``: count of numbers in a draw.
        ``messages``: number of messages that are computed per draw.
        """
        seconds = self.target.upload_seconds * messages
        limit = min(_VOTING_NUMBERS / max(1, numbers), _VOTING_SECONDS / max(seconds, 1e-9))
        limit = min(limit, _VOTING_MESSAGES / messages)
        return int(np.clip(limit, reading.MIN_MESSAGES, _VOTING))

    def _project(self, sent: Mapping[str, Component], size: int) -> dict[str, projection.Array]:
        """Projections of the messages of all users on the expected difference of the canary's
        messages.

        ``sent``: messages of all users in ``size`` runs, by component.

        Each component has an array (``size``, users). Components without a direction are left out.
        """
        projections = {}
        for name, part in sent.items():
            key = projection.match_direction(name, part.shape, self.world_gap_by_array)
            if key is not None:
                values = projection.project_messages(part, self.world_gap_by_array[key])
                projections[name] = values.reshape(-1, size).T
        return projections


def _stack(part: Component, clients: NDArray[np.intp]) -> projection.Array:
    return np.asarray(part.to_dense(clients).reshape(len(clients), -1), np.float64)


def _sum_users(part: Component, size: int) -> projection.Array:
    """Sums of the messages ``part`` of all users in each of ``size`` runs, shape (``size``, d)."""
    sent = _stack(part, np.arange(len(part))).reshape(-1, size, math.prod(part.shape))
    return np.asarray(sent.sum(axis=0))


def _combine_votes(votes: projection.Array) -> projection.Array:
    """Combines the votes of unlinked messages (users, runs, v) into votes of runs (runs, v).

    A message has v = ``N_MESSAGE_SCORES`` votes (scores). The first vote is a ratio: the sum of its
    maximum and minimum over users is used. All other votes are added over users.
    """
    combined = np.asarray(votes.sum(axis=0))
    if len(votes):
        combined[:, 0] = votes[:, :, 0].max(axis=0) + votes[:, :, 0].min(axis=0)
    return combined


def _jump_bits(rng: np.random.Generator) -> np.random.BitGenerator:
    """A copy of the bit generator of ``rng`` that is jumped ahead. The state of ``rng`` does not
    change.
    """
    bits: Any = rng.bit_generator
    jumped: np.random.BitGenerator = bits.jumped()
    return jumped


def make_simulator(
    pair: DesignedPair,
    system: Target,
    vantages: tuple[Vantage, ...],
    rng: np.random.Generator,
    n_others: int = 0,
    reducer: MessagesToFeatures | None = None,
) -> RoundSimulator:
    """Makes the simulation of rounds for a worst-case pair of user histories (interactions of a
    user).

    ``pair``: the two histories and the broadcast. The canary (designed user) has the first history
        in one world, and the second in the other world.
    ``system``: the system whose clients send.
    ``vantages``: adversaries, by what they see of the messages.
    ``n_others``: number of other users, who all have the second history.
    ``reducer``: function by which the adversary reads a part of the canary's message; None for the
        whole message.
    """
    crowd = pair.profiles.take_users(np.ones(n_others, dtype=np.int64))
    canary = CanarySet(history_names=pair.world_names, histories=pair.profiles, other_users=crowd)
    return RoundSimulator.learn(system, canary, pair.broadcast, vantages, rng, reducer=reducer)
