"""The local game: one client's message, of whoever sees it alone, in the worst two worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Unit, Vantage
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import projection, reading, search, training
from fedrec_auditor.auditor.games.canary_game import (
    QUICK,
    SAME,
    UPLOAD_RUNS,
    CanaryGame,
    Ground,
    NotPlayed,
    Setting,
)
from fedrec_auditor.auditor.games.round import Rounds
from fedrec_auditor.auditor.games.stated import drawn_by_lot
from fedrec_auditor.auditor.tracing.answers import flat
from fedrec_auditor.auditor.tracing.prove import Proof, prove
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import DesignedPair, Population, ScopedClaim, Target
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.contained import contained

DESIGNED_RUNS, _TOGETHER = 500_000, 4_096
"""Runs of each world of a designed pair, whose messages are short; so many are made at once."""
_NUMBERS, _FEW_RUNS = 1 << 27, 2_000  # of messages of a game, and of its runs
_UNITS = (*canaries.UNITS, Unit.ATTRIBUTE)


class LocalGame(CanaryGame):
    """One client's first message, for each unit and adjacency the canary that tells most.

    Where clients keep no state, or all claims are those of the local model, in which a client's
    randomizer answers for whatever it is asked, the server chooses the broadcast. Besides, the
    pairs that are designed for the target, at their broadcasts.
    """

    name = "local"
    horizon = Horizon.ROUND
    chunk = 256
    wide = False
    trees = True

    def looks_at(self, scoped: ScopedClaim) -> bool:
        """The server's, of attributes too, and what is asked beyond a paper's model.

        There a bound refutes nothing.
        """
        return scoped.scope.unit in _UNITS and scoped.scope.vantage is Vantage.SERVER

    def count(self, target: Target) -> int:
        """How many bounds it samples of ``target`` at most."""
        return super().count(target) + len(target.designed_pairs())

    def settings(self, ground: Ground, rng: np.random.Generator) -> Iterator[Setting | NotPlayed]:
        """See ``CanaryGame``."""
        yield from self._searched(ground, rng)
        crowd = Population(
            n_users=ground.interactions.n_users,
            n_items=ground.interactions.n_items,
            n_features=count_user_features(ground.interactions),
        )
        for pair in ground.target.designed_pairs():
            yield designed(ground.target, crowd, pair, rng)

    def _searched(self, ground: Ground, rng: np.random.Generator) -> Iterator[Setting | NotPlayed]:
        target = ground.target
        population = canaries.small_population(ground.interactions, *ground.size, target.catalogue)
        alone = target.shortened(1)
        sizes = canaries.sizes(population, count_user_features(population))
        claims = [c for c in alone.scoped_claims(sizes) if c.scope.vantage is Vantage.SERVER]
        asked = self.scopes(claims)
        if not asked:
            yield NotPlayed(
                reason="Expected a claim of a user, a rating, an interaction or an attribute "
                "before whoever sees single messages, got none. Play another game"
            )
            return
        everybody, opening = training.opening_with_canary(alone, population, rng, ground.compute)
        if opening.public.parties is not None:
            yield NotPlayed(
                reason="Expected messages of one client each, got those of parties, which hold "
                'several users or a part of each: none is any one user\'s. Play "training"'
            )
            return
        broadcast = training.broadcast_of(opening)
        heard = projection.addressed(broadcast, projection.CANARY)
        numbers = _numbers(alone, everybody.take(np.array([-1])), heard, rng)
        if not numbers:
            yield NotPlayed(
                reason="Expected messages of a client to look at, got none: nothing leaves the "
                "devices on its own. Play another game"
            )
            return
        local_model = all(each.scope.adjacency is Adjacency.ANY_PAIR for each in claims)
        steered = target.steerable or local_model
        for scope in asked:
            if drawn_by_lot(target) and any(asked[scope]):
                reason = (
                    "users are drawn by lot, on which a delta may count: play round or training"
                )
                yield NotPlayed(scopes=(scope,), reason=reason)
                continue
            found = search.search(alone, population, scope, broadcast, steered=steered, rng=rng)
            if found is None:
                yield NotPlayed(scopes=(scope,), reason=SAME)
                continue
            yield Setting(
                target=alone,
                population=sizes,
                names=found.canary.names,
                scopes={scope: asked[scope]},
                simulation=Rounds.of(alone, found.canary, found.broadcast, (Vantage.SERVER,), rng),
                text=(
                    f"the first message of a client over {sizes.n_items} items{found.text}, the "
                    f"worst of {found.tried} pairs of histories and broadcasts that were tried"
                    f"{found.left_out}"
                ),
                played=f"over {sizes.n_items:,} items",
                statistic=reading.STATISTIC,
                most=int(np.clip(_NUMBERS // numbers, _FEW_RUNS, UPLOAD_RUNS)),
                prove=_prover(alone, found, QUICK if ground.quick else 1),
            )


def _prover(
    target: Target, found: search.WorstPair, one_in: int
) -> Callable[[float], Proof] | None:
    """Traces the messages of both histories at the broadcast, where a target shows its code.

    One in ``one_in`` of the usual real draws is held against what was traced.
    """
    heard = projection.addressed(found.broadcast, projection.CANARY)
    code = target.client_code(found.canary.profiles, heard)
    if code is None or len(code[1]) != 2:
        return None
    message, histories = code

    def traced(delta: float) -> Proof:
        with contained():
            return prove(
                Sampler(str(target), flat(message), sized=False),
                histories,
                delta,
                enough=0.0,
                paced=lambda sampler, most: (sampler, most // one_in),
                seed=np.random.SeedSequence(0),
                names=found.canary.names,
            )

    return traced


def designed(
    target: Target, population: Population, pair: DesignedPair, rng: np.random.Generator
) -> Setting:
    """A pair that tells all that ``target`` allows, whose claims are those for ``population``."""
    items, nobody = pair.profiles.n_items, pair.profiles.take(np.arange(0))
    return Setting(
        target=target,
        population=population,
        names=pair.names,
        scopes={pair.scope: (0.0,)},
        simulation=Rounds.of(
            pair.target,
            canaries.Canaries(names=pair.names, profiles=pair.profiles, crowd=nobody),
            pair.broadcast,
            (Vantage.SERVER,),
            rng,
            read=pair.read,
        ),
        text=f"one message of a client over {items} items, at a broadcast designed to tell most",
        played=f"over {items:,} items",
        statistic=reading.STATISTIC if pair.read is None else "the part of it that is asked about",
        most=DESIGNED_RUNS,
        chunk=_TOGETHER,
    )


def _numbers(
    target: Target, profile: Interactions, heard: Broadcast | None, rng: np.random.Generator
) -> int:
    """How many numbers a message of the one ``profile`` has."""
    parts = target.upload(profile, heard, rng).components.values()
    return sum(math.prod(part.shape) for part in parts)
