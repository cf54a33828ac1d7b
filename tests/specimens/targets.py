"""Deliberately broken targets: a contract that passes one of them is itself broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.targets.components import Dense, Floats, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.papers.dplcf.systems.lcf_ub import LcfUb
from fedrec_auditor.targets.papers.fmf_ldp.systems.fcf import Fcf
from fedrec_auditor.targets.systems.base import Model, Population, Run, ScopedClaim
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads

Rng = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Short(Fcf):
    """The sound one: FCF of two rounds."""

    rounds: int = 2


class WantsTheClock(Short):
    """Draws from the operating system."""

    def upload(
        self, profiles: Interactions, broadcast: Any, rng: Rng, *more: Any, **settings: Any
    ) -> Uploads:
        shaken = _shaken(broadcast, np.random.default_rng())
        return super().upload(profiles, shaken, rng, *more, **settings)


class NoisyInBulk(Short):
    """Adds noise drawn for the batch as a whole, so that a client's depends on the others."""

    def upload(
        self, profiles: Interactions, broadcast: Any, rng: Rng, *more: Any, **settings: Any
    ) -> Uploads:
        sent = super().upload(profiles, broadcast, rng, *more, **settings)
        values = sent.components["gradient"].dense(np.arange(len(sent.users)))
        return Uploads(
            sent.users, {"gradient": Dense(np.sort(rng.normal(values), axis=0), Kind.GRADIENT)}
        )


class SharesSecrets(Short):
    """Everybody's message carries the mean of all histories."""

    def upload(
        self, profiles: Interactions, broadcast: Any, rng: Rng, *more: Any, **settings: Any
    ) -> Uploads:
        sent = super().upload(profiles, broadcast, rng, *more, **settings)
        mean = np.tile(profiles.ratings.mean(axis=0), (len(sent.users), 1))
        return Uploads(sent.users, {**sent.components, "mean": Dense(mean, Kind.RATINGS)})


class Mislabels(Short):
    """Says of a number that it is a gradient, of which no part of the model is."""

    def upload(
        self, profiles: Interactions, broadcast: Any, rng: Rng, *more: Any, **settings: Any
    ) -> Uploads:
        sent = super().upload(profiles, broadcast, rng, *more, **settings)
        count = np.diff(profiles.ratings.indptr)[sent.users].astype(np.float64)
        return Uploads(sent.users, {**sent.components, "count": Dense(count, Kind.GRADIENT)})


class MarksItsInput(Short):
    """Writes into the ratings that it was given."""

    def run(self, interactions: Interactions, rng: Rng, *more: Any, **settings: Any) -> Run:
        interactions.ratings.data[:] = 1.0
        return super().run(interactions, rng, *more, **settings)


class SendsItsName(Short):
    """The identifiers of users travel with the model."""

    def run(self, interactions: Interactions, rng: Rng, *more: Any, **settings: Any) -> Run:
        run = super().run(interactions, rng, *more, **settings)
        named = {**(run.transcript.release or {}), "who": interactions.users}
        return replace(run, transcript=replace(run.transcript, release=named))


class UnsortedSenders(Short):
    """The order of senders says who was fastest."""

    def run(self, interactions: Interactions, rng: Rng, *more: Any, **settings: Any) -> Run:
        run = super().run(interactions, rng, *more, **settings)
        order = rng.permutation(interactions.n_users)
        rounds = tuple(_reordered(one, order) for one in run.transcript.rounds)
        return replace(run, transcript=replace(run.transcript, rounds=rounds))


class ScoresTheFirst(Short):
    """Scores depend on who else is asked for."""

    def score(self, model: Model, interactions: Interactions, users: Any) -> Floats:
        scores = super().score(model, interactions, users)
        return np.asarray(scores - scores[0])


class ClaimsElsewhere(Short):
    """Asks its claim in another scope only."""

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        (scoped,) = super().scoped_claims(population)
        return (replace(scoped, scope=replace(scoped.scope, unit=Unit.BIT)),)


@dataclass(frozen=True, kw_only=True)
class StatesAnotherDistribution(LcfUb):
    """Uploads raw bits and states the law of flipped ones."""

    def mechanism(self, scope: Scope, population: Population) -> Any:
        return BitFlip.symmetric(1.0)

    def event(self, scope: Scope, population: Population) -> Any:
        return BitFlip.symmetric(0.5).event()


class KnowsOfSecrets(Short):
    """States that all is lost of attributes, too, which it never sends."""

    def mechanism(self, scope: Scope, population: Population) -> Any:
        return Identity()


@dataclass(frozen=True, kw_only=True)
class ForgetsTheUser(LcfUb):
    """Charges a whole user, about whom it asks nothing, less than one of its interactions."""

    def event(self, scope: Scope, population: Population) -> Any:
        if scope.unit is Unit.USER and scope.adjacency is Adjacency.REPLACE:
            return BitFlip.symmetric(0.5).event()
        return super().event(scope, population)


BROKEN_TARGETS = tuple(
    broken() for broken in (*Short.__subclasses__(), StatesAnotherDistribution, ForgetsTheUser)
)


def _shaken(broadcast: Broadcast | None, rng: Rng) -> Broadcast | None:
    if broadcast is None:
        return None
    return {
        name: part + rng.normal(scale=1e-3, size=part.shape) for name, part in broadcast.items()
    }


def _reordered(one: Round, order: np.ndarray) -> Round:
    components = {name: c.take(order) for name, c in one.uploads.components.items()}
    return replace(one, uploads=Uploads(users=one.uploads.users[order], components=components))
