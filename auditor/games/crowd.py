"""Games of a small crowd with a canary in it: of one round, and of whole trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Vantage
from fedrec_auditor.attacks.base import Attack
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import round as rounds
from fedrec_auditor.auditor.games import training
from fedrec_auditor.auditor.games.canary_game import (
    SAME,
    UPLOAD_RUNS,
    CanaryGame,
    Ground,
    NotPlayed,
    Setting,
    vantages_of,
)
from fedrec_auditor.auditor.games.draws import Simulation
from fedrec_auditor.auditor.games.stated import (
    crowd_size,
    drawn_by_lot,
    of_a_crowd,
    sends_when_absent,
)
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population, Target
from fedrec_auditor.targets.transcript import Transcript


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
        target, interactions, by = ground.target, ground.interactions, ground.by
        users = crowd_size(target, ground.size[0], interactions.n_users)
        population = canaries.small_population(
            interactions, users, ground.size[1], target.catalogue
        )
        short = self.length(target, ground.quick)
        sizes = canaries.sizes(population, count_user_features(population))
        _, opening = training.opening_with_canary(target, population, rng, ground.compute)
        broadcast, parties = training.broadcast_of(opening), opening.public.parties is not None
        asked = self.scopes(short.scoped_claims(sizes))
        if by is not None:
            every, asked = asked, _read(by, opening, asked, rng)
            if unread := tuple(scope for scope in every if scope not in asked):
                yield NotPlayed(scopes=unread, reason="the attack reads nothing from there")
        else:
            for setting in self.steered(ground, asked, rng):
                asked = {scope: d for scope, d in asked.items() if scope not in setting.scopes}
                yield setting
        crowd_text = (
            f"{population.n_users} users and {population.n_items - canaries.NEW_ITEMS} items of "
            f"the data, {canaries.NEW_ITEMS} new items and a canary"
        )

        def kind(scope: Scope) -> tuple[str, str, bool, bool]:
            # A party of one user is another system: it draws its only row in every step.
            rounds_alone = self.rounds_alone(target) and not parties and by is None
            if drawn_by_lot(target) and (scope.vantage is not Vantage.SERVER or any(asked[scope])):
                rounds_alone = False
            of_uploads = rounds_alone and scope.vantage in rounds.UPLOADED
            return str(scope.unit), str(scope.adjacency), of_uploads, of_a_crowd(target, scope)

        for (_, _, of_uploads, _), group in groupby(sorted(asked, key=kind), key=kind):
            same = tuple(group)
            sent = {"": broadcast}
            if of_uploads and target.steerable:
                sent = training.steered_broadcasts(broadcast)
            scope, sends = same[0], partial(sends_when_absent, target, population, same[0])
            halved = any(sends(each, rng) for each in sent.values())
            if halved:
                scope = replace(scope, adjacency=Adjacency.REPLACE)
            choice = training.loudest(short, population, scope, tuple(sent.values()), rng)
            if choice is None:
                yield NotPlayed(scopes=same, reason=SAME)
                continue
            canary, number, left_out = choice
            steered_by, chosen = tuple(sent.items())[number]
            vantages, length = vantages_of(same), short.sizes.rounds or 1
            if of_uploads:
                statistic = rounds.STATISTIC
                played: Simulation = rounds.Rounds.of(short, canary, chosen, vantages, rng, length)
            else:
                statistic = f"score of the attack: {by.reference}" if by else training.STATISTIC
                played = training.Trainings(
                    target=short,
                    canary=canary,
                    vantages=vantages,
                    by=by,
                    compute=ground.compute,
                )
            what = "one round" if self.horizon is Horizon.ROUND else f"trainings of {length} rounds"
            yield Setting(
                target=short,
                population=sizes,
                names=canary.names,
                scopes={scope: asked[scope] for scope in same},
                simulation=played,
                halved=halved,
                text=f"{what} of {crowd_text}{steered_by}{left_out}",
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
        scopes = {s: deltas for s, deltas in asked.items() if s.vantage in rounds.UPLOADED}
        n_users = ground.interactions.n_users
        found = rounds.steered(ground.target, n_users, vantages_of(scopes), rng)
        if found is None or not scopes:
            return
        simulation, pair = found
        crowd = Population(n_users=n_users, n_items=pair.profiles.n_items)
        yield Setting(
            target=simulation.target,
            population=crowd,
            names=pair.names,
            scopes=scopes,
            simulation=simulation,
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
        return training.shortened(target, quick)

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
