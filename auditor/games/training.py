"""The training game: whole trainings, with a canary in one of two worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.attacks.base import Attack, Background, Scores
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.draws import Features
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast, Transcript, View

MOST_ROUNDS = 20
"""Rounds of a training that is played: longer ones are cut, and judged by what is claimed so."""
STATISTIC = (
    "what is seen in every round, less what all data make expect at its broadcast, projected on "
    "what the canary's message differs by on average, weighed by a logistic regression"
)
_SURE = 1e3  # a score beyond is as sure
_COPIES = 4  # of the canary's message, for its mean, in every round
_TRIED = 32  # the same, when canaries are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainings:
    """Trainings of ``target`` with a ``canary`` in one of two worlds, seen from some vantages.

    It is the last user of both. A call gives the features of ``projection.training_features``, by
    vantage, or the score that an attack, ``by``, gives to what the histories differ by.
    """

    target: Target
    canary: Canaries
    vantages: tuple[Vantage, ...]
    by: Attack | None = None
    compute: Compute = DEFAULT
    votes: ClassVar[int] = 0

    @property
    def messages(self) -> int:
        """Everybody's in each round, and as many again with the canary's copies."""
        return (self.target.sizes.rounds or 1) * 2 * (self.canary.crowd.n_users + _COPIES)

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """Features of ``size`` trainings, by vantage."""
        runs = [self._one(world, np.random.default_rng(each)) for each in seed.spawn(size)]
        return {str(v): np.stack([run[v] for run in runs]) for v in self.vantages}

    def _one(self, world: int, rng: np.random.Generator) -> dict[Vantage, projection.Array]:
        training, seeing, guessing = rng.spawn(3)
        data, crowd = self.canary.population(np.array([world == 0])), self.canary.crowd
        transcript = self.target.run(data, training, None, self.compute).transcript
        others = told_by_others(crowd, self.vantages, transcript)
        known: dict[int, projection.Expected] = {}
        found = {}
        for vantage in self.vantages:
            view = transcript.view(vantage, seeing)
            if self.by is not None:
                found[vantage] = self._scored(self.by, view, guessing)
                continue
            count = len(view.rounds) - (vantage is Vantage.PEERS)
            last = vantage is Vantage.RELEASE
            for t in [-1] if last else range(count):
                if t not in known:
                    known[t] = projection.expected(
                        self.target,
                        self.canary.profiles,
                        others,
                        view.rounds[t].broadcast,
                        guessing,
                        _COPIES,
                    )
            seen = [known[-1]] if last else [known[t] for t in range(count)]
            found[vantage] = projection.training_features(view, seen, data.n_users - 1)
        return found

    def _scored(self, attack: Attack, view: View, rng: np.random.Generator) -> projection.Array:
        """How much likelier the attack finds the first history, (1,)."""
        first, second = self.canary.profiles.ratings.toarray()
        items = np.flatnonzero(first != second)
        users = np.full(len(items), self.canary.crowd.n_users)
        guess = attack.infer(view, Background(candidates=np.stack([users, items], axis=1)), rng)
        assert isinstance(guess, Scores)
        signs = np.sign(first[items] - second[items])
        return np.array([signs @ np.clip(guess.values, -_SURE, _SURE)])


def told_by_others(
    crowd: Interactions, vantages: Sequence[Vantage], transcript: Transcript
) -> Interactions:
    """Whose messages must be expected: nobody's, where the server alone sees linked messages."""
    linked = tuple(vantages) == (Vantage.SERVER,) and transcript.public.parties is None
    return crowd.take(np.arange(0)) if linked else crowd


def shortened(target: Target, quick: bool) -> Target:
    """The target as it is played: ``MOST_ROUNDS`` rounds at most, a quarter if ``quick``."""
    return target.shortened(MOST_ROUNDS // 4 if quick else MOST_ROUNDS)


def opening(
    target: Target, population: Interactions, rng: np.random.Generator, compute: Compute = DEFAULT
) -> Transcript:
    """A training of one round with an honest server."""
    return target.shortened(1).run(population, rng, None, compute).transcript


def opening_with_canary(
    target: Target, population: Interactions, rng: np.random.Generator, compute: Compute = DEFAULT
) -> tuple[Interactions, Transcript]:
    """The population and a canary, and a training of one round of them with an honest server.

    The canary has no items, or where the client fails at that those of the first user.
    """
    nothing = canaries.joined(population, np.zeros(population.n_items, np.float32))
    try:
        return nothing, opening(target, nothing, rng, compute)
    except InputError:
        if not population.n_users:
            raise
    one = population.ratings[[0]].toarray()[0].astype(np.float32)
    somebody = canaries.joined(population, one)
    return somebody, opening(target, somebody, rng, compute)


def broadcast_of(opening: Transcript) -> Broadcast | None:
    """What the server sends first; None where nothing is broadcast."""
    return opening.rounds[0].broadcast if opening.rounds else None


def loudest(
    target: Target,
    population: Interactions,
    scope: Scope,
    broadcasts: Sequence[Broadcast | None],
    rng: np.random.Generator,
) -> tuple[Canaries, int, str] | None:
    """Of the canaries designed for ``scope``, and ``broadcasts``, those that tell most.

    The canary and the number of the broadcast at which its mean messages differ most, and a
    sentence on canaries at which the client fails; None if nothing that a canary does makes a
    difference to its messages, or there are none.
    """
    best, farthest = None, 0.0

    def read(canary: Canaries) -> list[float]:
        found = []
        for broadcast in broadcasts:
            sent = target, canary.profiles, broadcast
            one, other = (projection.directions(*sent, rng, _TRIED) for _ in range(2))
            # The mean of the square of one estimate would grow with its error.
            found.append(sum(float(np.vdot(one[name], other[name])) for name in one))
        return found

    every, refused = canaries.readable(canaries.candidates(scope, population), read)
    left_out = canaries.left_out(refused, every)
    for canary, found in every:
        for number, apart in enumerate(found):
            if apart > farthest * (1 + 1e-9):
                best, farthest = (canary, number, left_out), apart
    return best


def steered_broadcasts(broadcast: Broadcast | None) -> dict[str, Broadcast | None]:
    """What a server might send instead of ``broadcast``, in words: one of its parts set to 0."""
    found: dict[str, Broadcast | None] = {"": broadcast}
    for name, part in (broadcast or {}).items():
        if np.ndim(part) and np.issubdtype(np.asarray(part).dtype, np.floating):
            zeros = np.zeros_like(part)
            found[f" at a malicious broadcast, {name} all 0"] = {**(broadcast or {}), name: zeros}
    return found
