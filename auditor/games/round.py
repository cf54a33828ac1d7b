"""Rounds of uploads at a fixed broadcast, with a canary in one of two worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.games import projection, reading
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.canary_game import Features
from fedrec_auditor.auditor.worlds.pilot_rules import VOTES, CoordinateVotes
from fedrec_auditor.targets.components import Component, Kind, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import DesignedPair, Target
from fedrec_auditor.targets.transcript import Broadcast

UPLOADED = (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE)
"""Vantages that see uploads, and so a round without the server's step after it."""
STATISTIC = (
    "messages projected on what the canary's differs by on average, summed, or the largest, by "
    "component, weighed by a logistic regression"
)
_COPIES = 512  # of the canary's message, for its mean
_NUMBERS = 1 << 22  # of messages made at once
_VOTING, _VOTING_MESSAGES, _VOTING_NUMBERS, _VOTING_SECONDS = 4096, 1 << 16, 1 << 20, 10.0
"""Messages, or sums, of each world from which votes of coordinates are learnt; and the most
messages behind them, their numbers and seconds."""
Read = Callable[[Mapping[str, Component]], projection.Array]
"""What is looked at of messages of which a scope asks for a part only, (n, f)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Runs of ``length`` rounds: uploads of a crowd and of its ``canary`` in one of two worlds.

    All send, at the same ``broadcast``: nobody is drawn by lot, and no round depends on those
    before it. Of each feature it is the sum over the rounds of a run. Messages are projected on
    ``along``, what the canary's differs by on average, a component at a time. From the server the
    canary's own messages are seen, and read as ``readings`` say; behind a shuffler all of them,
    whose sum and largest are looked at; behind secure aggregation the sum. Last come the ``votes``
    of single coordinates: of a message by ``voters``, of a sum by ``sum_voters``.
    """

    target: Target
    canary: Canaries
    broadcast: Broadcast | None
    along: projection.Directions
    readings: reading.Readings
    vantages: tuple[Vantage, ...]
    length: int = 1
    read: Read | None = None
    voters: Mapping[str, CoordinateVotes] = field(default_factory=dict)
    sum_voters: Mapping[str, CoordinateVotes] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        target: Target,
        canary: Canaries,
        broadcast: Broadcast | None,
        vantages: tuple[Vantage, ...],
        rng: np.random.Generator,
        length: int = 1,
        read: Read | None = None,
    ) -> Rounds:
        """With what tells most of what is seen from ``vantages``, learnt from copies."""
        along: projection.Directions = {}
        if set(vantages) - {Vantage.SERVER}:
            along = projection.expected(target, canary.profiles, broadcast, rng, _COPIES).apart
        readings: reading.Readings = {}
        heard = projection.addressed(broadcast, projection.CANARY)
        if Vantage.SERVER in vantages and read is None:
            count = reading.copies(target, canary.profiles, heard, rng)
            readings = reading.readings(target, canary.profiles, heard, rng, count)
        made = cls(
            target=target,
            canary=canary,
            broadcast=broadcast,
            along=along,
            readings=readings,
            vantages=vantages,
            length=length,
            read=read,
        )
        # Coins of their own: what else is drawn from ``rng`` does not depend on them.
        return made if read else made._voting(np.random.Generator(_jumped(rng)))

    @property
    def votes(self) -> int:
        """How many of the last features are votes."""
        return 0 if self.read else VOTES

    @property
    def messages(self) -> int:
        """The canary's, and those of all others where these are seen."""
        alone = set(self.vantages) <= {Vantage.SERVER}
        return self.length * (1 if alone else 1 + self.canary.crowd.n_users)

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """Features of ``size`` runs, by vantage."""
        rng, runs, size = np.random.default_rng(seed), size, size * self.length
        mine = self._sent(self.canary.profiles.take(np.array([world])), rng, size)
        found = {}
        if Vantage.SERVER in self.vantages:
            found[Vantage.SERVER] = (
                [self.read(mine)] if self.read else [self._own(mine), self._voted(mine, size)]
            )
        if set(self.vantages) - {Vantage.SERVER}:
            own = self._projected(mine, size)
            sums = {name: values[:, 0].copy() for name, values in own.items()}
            sample = self._sent(self.canary.profiles.take(np.array([0])), rng, 1)
            # Reports are messages of their own: which ones a user sent together is not seen.
            linked = {name for name, part in sample.items() if part.kind is not Kind.REPORTS}
            tops = {name: sums[name].copy() for name in sums if name in linked}
            numbers = sum(
                4 * part.index.shape[1] if isinstance(part, Reports) else math.prod(part.shape)
                for part in sample.values()
            )
            step = max(1, _NUMBERS // max(1, numbers * self.canary.crowd.n_users))
            totals = {name: _summed(mine[name], size) for name in self.sum_voters}
            alone = np.zeros((0, size, VOTES))
            if Vantage.SHUFFLED in self.vantages:
                alone = self._voted(mine, size)[None]
            shuffled = _of_all(alone)
            for start in range(0, size, step):
                part = slice(start, min(start + step, size))
                runs_of = part.stop - part.start
                others = self._sent(self.canary.crowd, rng, runs_of)
                theirs = self._projected(others, runs_of)
                for name, total in totals.items():
                    total[part] += _summed(others[name], runs_of)
                if Vantage.SHUFFLED in self.vantages and self.voters:
                    each = self._voted(others, len(next(iter(others.values()))))
                    each = each.reshape(-1, runs_of, VOTES)
                    shuffled[part] = _of_all(np.concatenate([alone[:, part], each]))
                for name, values in theirs.items():
                    sums[name][part] += values.sum(axis=1)
                    if name in tops:
                        tops[name][part] = np.maximum(tops[name][part], values.max(axis=1))
            voted = np.zeros((size, VOTES))
            for name, voter in self.sum_voters.items():
                voted += voter(totals[name])
            found[Vantage.AGGREGATE] = [*sums.values(), voted]
            found[Vantage.SHUFFLED] = [*sums.values(), *tops.values(), shuffled]
        return {
            str(v): np.column_stack(found[v]).reshape(runs, self.length, -1).sum(axis=1)
            for v in self.vantages
        }

    def _sent(
        self, profiles: Interactions, rng: np.random.Generator, size: int
    ) -> Mapping[str, Component]:
        rows = projection.OTHERS if profiles is self.canary.crowd else projection.CANARY
        sent = projection.addressed(self.broadcast, rows)
        return self.target.upload(profiles, sent, rng, size).components

    def _own(self, sent: Mapping[str, Component]) -> projection.Array:
        """What the canary's own messages show, (size, features)."""
        along = reading.directions(self.readings, {name: part.shape for name, part in sent.items()})
        return np.column_stack(
            [self.readings[name].features(part, along[name]) for name, part in sent.items()]
        )

    def _voted(self, sent: Mapping[str, Component], size: int) -> projection.Array:
        """Votes of the coordinates of ``size`` messages, (size, VOTES)."""
        voted = np.zeros((size, VOTES))
        for name, voter in self.voters.items():
            step = max(1, _VOTING_NUMBERS // max(1, math.prod(sent[name].shape)))
            for start in range(0, size, step):
                block = np.arange(start, min(start + step, size))
                voted[block] += voter(_flat(sent[name], block))
        return voted

    def _voting(self, rng: np.random.Generator) -> Rounds:
        """With votes of coordinates, learnt from messages and sums of both worlds, same coins."""
        heard = projection.addressed(self.broadcast, projection.CANARY)
        one = self.target.upload(self.canary.profiles.take(np.array([0])), heard, rng, 1).components
        names = [n for n, part in one.items() if part.kind not in (Kind.REPORTS, Kind.BITS)]
        numbers = sum(math.prod(one[name].shape) for name in names)
        linked = {Vantage.SERVER, Vantage.SHUFFLED} & set(self.vantages)
        voters: dict[str, CoordinateVotes] = {}
        sum_voters: dict[str, CoordinateVotes] = {}
        if names and linked:
            count = self._count(numbers, 2)
            pair = projection.twins(self.target, self.canary.profiles, heard, rng, count)
            voters = {
                name: CoordinateVotes.of(*(_flat(sent[name], np.arange(count)) for sent in pair))
                for name in names
            }
        if names and Vantage.AGGREGATE in self.vantages:
            users = self.canary.crowd.n_users
            count = self._count(numbers * (users + 1) // 4, users + 2)
            pair = projection.twins(self.target, self.canary.profiles, heard, rng, count)
            crowd = self._sent(self.canary.crowd, rng, count) if users else {}
            for name in names:
                rest = _summed(crowd[name], count) if users else 0.0
                worlds = [_summed(sent[name], count) + rest for sent in pair]
                sum_voters[name] = CoordinateVotes.of(*worlds)
        return replace(self, voters=voters, sum_voters=sum_voters)

    def _count(self, numbers: int, messages: int) -> int:
        """How many messages, or sums of so many ``messages``, of each world to learn from."""
        seconds = self.target.upload_seconds * messages
        most = min(_VOTING_NUMBERS / max(1, numbers), _VOTING_SECONDS / max(seconds, 1e-9))
        most = min(most, _VOTING_MESSAGES / messages)
        return int(np.clip(most, reading.FEWEST_COPIES, _VOTING))

    def _projected(self, sent: Mapping[str, Component], size: int) -> dict[str, projection.Array]:
        """Every message's inner product with the direction, (size, users), by component."""
        found = {}
        for name, part in sent.items():
            key = projection.matched(name, part.shape, self.along)
            if key is not None:
                each = projection.projections(part, self.along[key])
                found[name] = each.reshape(-1, size).T
        return found


def _flat(part: Component, clients: NDArray[np.intp]) -> projection.Array:
    return np.asarray(part.dense(clients).reshape(len(clients), -1), np.float64)


def _summed(part: Component, size: int) -> projection.Array:
    """Sums over the users of messages in ``size`` runs, (size, d)."""
    sent = _flat(part, np.arange(len(part))).reshape(-1, size, math.prod(part.shape))
    return np.asarray(sent.sum(axis=0))


def _of_all(votes: projection.Array) -> projection.Array:
    """Votes of unlinked messages (users, runs, VOTES) together: ratios by both extremes, others by
    their sums.
    """
    found = np.asarray(votes.sum(axis=0))
    if len(votes):
        found[:, 0] = votes[:, :, 0].max(axis=0) + votes[:, :, 0].min(axis=0)
    return found


def _jumped(rng: np.random.Generator) -> np.random.BitGenerator:
    """Bits far beyond those of ``rng``, which stays where it is."""
    bits: Any = rng.bit_generator
    jumped: np.random.BitGenerator = bits.jumped()
    return jumped


def build_rounds(
    pair: DesignedPair,
    system: Target,
    vantages: tuple[Vantage, ...],
    rng: np.random.Generator,
    others: int = 0,
    read: Read | None = None,
) -> Rounds:
    """Rounds at a pair's broadcast, in which ``others`` have the second history of the two."""
    crowd = pair.profiles.take(np.ones(others, dtype=np.int64))
    canary = Canaries(names=pair.names, profiles=pair.profiles, crowd=crowd)
    return Rounds.of(system, canary, pair.broadcast, vantages, rng, read=read)
