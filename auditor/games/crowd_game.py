"""Games of a small crowd with a canary in it: of one round, and of whole trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.attacks.base import Attack, Background, Scores
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.games import round as rounds
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.canary_game import (
    SAME,
    UPLOAD_RUNS,
    CanaryGame,
    Features,
    Ground,
    NotPlayed,
    Setting,
    Simulation,
    vantages_of,
)
from fedrec_auditor.auditor.games.stated import (
    crowd_size,
    drawn_by_lot,
    of_a_crowd,
    sends_when_absent,
)
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population, Target
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
            last = len(view.rounds) - (vantage is Vantage.PEERS)
            times = [-1] if vantage is Vantage.RELEASE else [*range(last)]
            for t in times:
                if t not in known:
                    heard, profiles = view.rounds[t].broadcast, self.canary.profiles
                    known[t] = projection.expected(
                        self.target, profiles, heard, guessing, _COPIES, others
                    )
            seen = [known[t] for t in times]
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
            one, other = (projection.expected(*sent, rng, _TRIED).apart for _ in range(2))
            # The mean of the square of one estimate would grow with its error.
            found.append(projection.dot((one[name], other[name]) for name in one))
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


class CrowdGame(CanaryGame):
    """A canary among a small population of the data, seen from every vantage that claims name."""

    guessable = True

    def length(self, target: Target, quick: bool) -> Target:
        """The target as long as it is played."""
        return target.shortened(1)

    def rounds_alone(self, target: Target) -> bool:
        """Whether uploads at one broadcast are the whole game, for those who see uploads."""
        return True

    def settings(self, ground: Ground, rng: np.random.Generator) -> Iterator[Setting | NotPlayed]:
        """See ``CanaryGame``."""
        target, by = ground.target, ground.by
        users = crowd_size(target, ground.size[0], ground.interactions.n_users)
        population = canaries.small_population(
            ground.interactions, users, ground.size[1], target.catalogue
        )
        sizes = canaries.sizes(population, count_user_features(population))
        _, opening = opening_with_canary(target, population, rng, ground.compute)
        broadcast, parties = broadcast_of(opening), opening.public.parties is not None
        asked = self.scopes(self.length(target, ground.quick).scoped_claims(sizes))
        if by is not None:
            every, asked = asked, _read(by, opening, asked, rng)
            if unread := tuple(scope for scope in every if scope not in asked):
                yield NotPlayed(scopes=unread, reason="the attack reads nothing from there")
        else:
            for setting in self.steered(ground, asked, rng):
                asked = {scope: d for scope, d in asked.items() if scope not in setting.scopes}
                yield setting

        def kind(scope: Scope) -> tuple[str, str, bool, bool]:
            # A party of one user is another system: it draws its only row in every step.
            rounds_alone = self.rounds_alone(target) and not parties and by is None
            if drawn_by_lot(target) and (scope.vantage is not Vantage.SERVER or any(asked[scope])):
                rounds_alone = False
            of_uploads = rounds_alone and scope.vantage in rounds.UPLOADED
            return str(scope.unit), str(scope.adjacency), of_uploads, of_a_crowd(target, scope)

        for (_, _, of_uploads, _), group in groupby(sorted(asked, key=kind), key=kind):
            scopes = {scope: asked[scope] for scope in group}
            yield self._make_setting(ground, population, broadcast, scopes, of_uploads, rng)

    def _make_setting(
        self,
        ground: Ground,
        population: Interactions,
        broadcast: Broadcast | None,
        scopes: Mapping[Scope, tuple[float, ...]],
        of_uploads: bool,
        rng: np.random.Generator,
    ) -> Setting | NotPlayed:
        """The canary that tells most in these scopes, in uploads at a broadcast or in trainings."""
        target, by, short = ground.target, ground.by, self.length(ground.target, ground.quick)
        sizes = canaries.sizes(population, count_user_features(population))
        scope, sent = next(iter(scopes)), {"": broadcast}
        if of_uploads and target.steerable:
            sent = steered_broadcasts(broadcast)
        halved = any(sends_when_absent(target, population, scope, s, rng) for s in sent.values())
        if halved:
            scope = replace(scope, adjacency=Adjacency.REPLACE)
        choice = loudest(short, population, scope, tuple(sent.values()), rng)
        if choice is None:
            return NotPlayed(scopes=tuple(scopes), reason=SAME)
        canary, number, left_out = choice
        steered_by, chosen = tuple(sent.items())[number]
        vantages, length = vantages_of(scopes), short.sizes.rounds or 1
        if of_uploads:
            statistic = rounds.STATISTIC
            played: Simulation = rounds.Rounds.of(short, canary, chosen, vantages, rng, length)
        else:
            statistic = f"score of the attack: {by.reference}" if by else STATISTIC
            played = Trainings(
                target=short, canary=canary, vantages=vantages, by=by, compute=ground.compute
            )
        what = "one round" if self.horizon is Horizon.ROUND else f"trainings of {length} rounds"
        return Setting(
            target=short,
            population=sizes,
            names=canary.names,
            scopes=scopes,
            simulation=played,
            halved=halved,
            text=(
                f"{what} of {population.n_users} users and "
                f"{population.n_items - canaries.NEW_ITEMS} items of the data, "
                f"{canaries.NEW_ITEMS} new items and a canary{steered_by}{left_out}"
            ),
            played=f"of {sizes.n_users:,} users",
            statistic=statistic,
            most=UPLOAD_RUNS if of_uploads else None,
        )

    def steered(
        self, ground: Ground, asked: Mapping[Scope, tuple[float, ...]], rng: np.random.Generator
    ) -> Iterator[Setting]:
        """Worst cases that are designed for the target; none."""
        return iter(())


class RoundGame(CrowdGame):
    """One round of the crowd: uploads at a broadcast, and where it is seen the server's step."""

    name = "round"
    horizon = Horizon.ROUND
    chunk = 256

    def steered(
        self, ground: Ground, asked: Mapping[Scope, tuple[float, ...]], rng: np.random.Generator
    ) -> Iterator[Setting]:
        """All reports of a round at the broadcast at which those of two users are farthest apart.

        Of all users of the data, all but one with the second history.
        """
        target, n_users = ground.target, ground.interactions.n_users
        scopes = {s: deltas for s, deltas in asked.items() if s.vantage in rounds.UPLOADED}
        pairs = [each for each in target.designed_pairs() if each.scope.unit is Unit.REPORT]
        if not scopes or not pairs or target.sizes.reports is None:
            return
        pair, crowd = pairs[0], Population(n_users=n_users, n_items=pairs[0].profiles.n_items)
        system: Target = replace(pair.target, reports=target.sizes.reports)  # type: ignore[type-var]
        yield Setting(
            target=system,
            population=crowd,
            names=pair.names,
            scopes=scopes,
            simulation=rounds.build_rounds(pair, system, vantages_of(scopes), rng, n_users - 1),
            text=(
                f"one round of {crowd.n_users:,} users over {crowd.n_items} items at a malicious "
                "broadcast, all others with the second history"
            ),
            played=f"of {crowd.n_users:,} users",
            statistic=rounds.STATISTIC,
            most=UPLOAD_RUNS,
        )


class TrainingGame(CrowdGame):
    """Whole trainings of the crowd; where clients keep no state, independent rounds of uploads."""

    name = "training"
    horizon = Horizon.TRAINING
    chunk = 8

    def length(self, target: Target, quick: bool) -> Target:
        """Cut, and judged by what is claimed so."""
        return shortened(target, quick)

    def rounds_alone(self, target: Target) -> bool:
        """Where the server may choose the broadcasts, and so the same one in every round."""
        return target.steerable


def _read(
    attack: Attack,
    opening: Transcript,
    asked: Mapping[Scope, tuple[float, ...]],
    rng: np.random.Generator,
) -> dict[Scope, tuple[float, ...]]:
    """The scopes from whose vantages the attack reads something; InputError if there are none."""
    refused = {v: attack.refusal(opening.view(v, rng)) for v in vantages_of(asked)}
    read = {scope: deltas for scope, deltas in asked.items() if not refused[scope.vantage]}
    if asked and not read:
        reasons = "; ".join(f"{vantage}: {why}" for vantage, why in refused.items())
        raise InputError(f"Expected a vantage from which the attack reads, got none. {reasons}")
    return read
