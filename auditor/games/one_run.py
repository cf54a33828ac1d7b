"""The one-run game: many canary users in a single training, a coin for each one's history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.games import many_canaries, scorer, training
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.canary_game import (
    CanaryGame,
    Ground,
    NotPlayed,
    Setting,
    vantages_of,
)
from fedrec_auditor.auditor.games.draws import Draws, Features
from fedrec_auditor.auditor.games.scorer import Scorer
from fedrec_auditor.auditor.games.stated import of_a_crowd, sends_when_absent
from fedrec_auditor.auditor.games.training import told_by_others
from fedrec_auditor.auditor.worlds.one_run import OneRun, with_coins
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.targets.compute import DEFAULT, Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population, Target

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
        tossing, training, seeing, guessing = np.random.default_rng(seed).spawn(4)
        first = tossing.random(len(self.canaries)) < 0.5
        data = self.canaries.population(first)
        transcript = self.target.run(data, training, None, self.compute).transcript
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
            made = many_canaries.designed(same[0], interactions, count, rng)
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
                statistic=scorer.STATISTIC,
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
        scope = Scope(
            unit=Unit.INTERACTION,
            adjacency=Adjacency.REPLACE,
            vantage=Vantage.SERVER,
            horizon=Horizon.TRAINING,
        )
        count = _count(ground)
        made = many_canaries.designed(scope, ground.interactions, count, np.random.default_rng(0))
        assert made is not None  # items are swapped, whatever the ratings are
        return _at_length(ground), made.worlds[0]


def _count(ground: Ground) -> int:
    return ground.canaries or many_canaries.default_canaries(ground.interactions, ground.quick)


def _at_length(ground: Ground) -> Target:
    """The target as it is trained in one run: of full length, unless the audit is quick."""
    return training.shortened(ground.target, quick=False) if ground.quick else ground.target


def _nobody_sends(
    target: Target, interactions: Interactions, scope: Scope, rng: np.random.Generator
) -> bool:
    """Whether a history without items moves what is seen in ``scope``, at the first broadcast."""
    opening = training.opening(target, interactions.take(np.arange(1)), rng)
    return sends_when_absent(target, interactions, scope, training.broadcast_of(opening), rng)
