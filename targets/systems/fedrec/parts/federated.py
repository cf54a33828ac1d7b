"""A base recommender, what protects its uploads and how they reach the server: FedAvg over all.

Algorithm 1 of Zhang et al.: every round some users download the model, train it on their own
interactions and features, and upload all of its parameters; the server takes the mean. A named
system states the composition; training, claims, events and games follow from its parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.components import Component, Floats
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import user_features
from fedrec_auditor.targets.learners.base import Catalogue, Clients, Learner, LocalTraining
from fedrec_auditor.targets.learners.gcn import Gcn
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.unprotected import Unprotected
from fedrec_auditor.targets.routes.base import Route
from fedrec_auditor.targets.routes.direct import Direct
from fedrec_auditor.targets.settings import check_settings, numbers, positive, share, whole
from fedrec_auditor.targets.spill import Spill
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import (
    DEFAULT,
    Challenge,
    Evaluation,
    Model,
    Population,
    Progress,
    Question,
    Reported,
    Run,
)
from fedrec_auditor.targets.systems.fedrec.parts import claims, games
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Transcript, Uploads

if TYPE_CHECKING:
    from dp_accounting import DpEvent

PAPER = "Zhang, Yuan, Yin: Comprehensive Privacy Analysis on Federated Recommender System (APM)"
_PREPARE, _TRAIN, _PROTECT = range(3)
"""Purposes of a client's coins."""


@dataclass(frozen=True, kw_only=True)
class Federated(ABC):
    """The settings of Algorithm 1, the training loop, and what follows for an auditor.

    ``epochs``, ``batch``, ``learning_rate`` and ``share`` of the users a round are the paper's
    (section 5.4; the share is 0.1 on ML-1M). ``negatives`` is its q, which it does not print; 4 is
    usual. The paper trains until convergence, which plain SGD at its rate does not reach in an
    audit's time: ``rounds`` = 30 is a stop of ours. On ML-100K (leave last out, all items; random
    is 0.013) Hit@20 is then 0.016 for FedRec, 0.026 for FedNCF and 0.059 for FedLightGCN, and
    still rises: 0.045 for FedRec after 100 rounds, where the paper's variants have 0.1.
    ``best`` is the best rating of the scale, for the users' features; higher ratings count as it.
    """

    learner: Learner = field(default_factory=Gcn)
    protection: Protection = field(default_factory=Unprotected)
    route: Route = field(default_factory=Direct)
    rounds: int = 30
    share: float = 0.5
    epochs: int = 5
    batch: int = 32
    negatives: int = 4
    learning_rate: float = 0.001
    best: float = 5.0

    paper = PAPER
    evaluation = Evaluation(cutoffs=(20,))
    reported: ClassVar[tuple[Reported, ...]] = ()

    def __post_init__(self) -> None:
        check_settings(self, rounds=whole, epochs=whole, batch=whole, negatives=whole)
        check_settings(self, share=share, learning_rate=positive, best=positive)
        for group in self.learner.groups:
            self.protection.coordinate(group)  # refuses a group that it has no budget for

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on the command line."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where in the paper this composition and its promise stand."""

    def questions(self, population: Population) -> tuple[Question, ...]:
        """What the protection promises, and what a whole upload and a whole training have of it."""
        return claims.questions(self, population)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The law of an entry, or of a whole upload, before the server; without one, of a row."""
        return claims.mechanism(self, scope, population)

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """What an entry, or else a whole upload, is charged, once a round."""
        return claims.event(self, scope, population)

    def challenges(self) -> tuple[Challenge, ...]:
        """One entry pushed to either end of the clipping, or one row that is touched or not."""
        return games.challenges(self)

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: Progress | None = None,
        compute: Compute = DEFAULT,
    ) -> Run:
        """Train for ``rounds`` rounds; which users take part is drawn from ``rng``.

        Memory: the uploads of all rounds up to ``compute.memory``, beyond that on disk, and the
        models of one round's senders.
        """
        everyone = self._devices(interactions, Streams.spawn(rng, interactions.n_users))
        model: Broadcast = self.learner.initial(_catalogue(everyone), rng)
        senders = max(1, round(self.share * interactions.n_users)) if interactions.n_users else 0
        spill, rounds = Spill(compute), []
        for number in range(self.rounds):
            users = np.sort(rng.permutation(interactions.n_users)[:senders])
            clients = Clients(
                interactions=interactions.take(users),
                features=everyone.features[users],
                streams=Streams.spawn(rng, senders),
            )
            uploads = Uploads(users, self._send(clients, model, compute))
            rounds.append(spill.keep(Round(broadcast=model, uploads=uploads)))
            model = _finite(self.step(model, uploads), number + 1)
            if progress is not None:
                progress(number + 1, self.rounds)
        transcript = Transcript(
            public=Public(
                algorithm=self.name,
                n_users=interactions.n_users,
                n_items=interactions.n_items,
                settings=self._settings,
                route=self.route.vantage,
            ),
            rounds=tuple(rounds),
            release=model,
        )
        return Run(transcript=transcript, model=Model(arrays=model))

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """All parameters of the model after local training, protected, a component each."""
        if broadcast is None:
            raise InputError(
                "Expected the model's components as a broadcast, got none. Send what the learner "
                "begins with."
            )
        users = np.repeat(np.arange(profiles.n_users), size)
        clients = self._devices(profiles, Streams.spawn(rng, len(users)), users)
        return Uploads(users, self._send(clients, broadcast, compute))

    def step(self, model: Broadcast, uploads: Uploads) -> Broadcast:
        """The mean of the uploads (Algorithm 1; equation 9 prints a sum), float32."""
        count = len(uploads.users)
        if not count:
            return model
        return {n: (c.total() / count).astype(np.float32) for n, c in uploads.components.items()}

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
    ) -> Floats:
        """Scores of all items from the final model and the device's own history and features."""
        mine = interactions.take(users)
        clients = Clients(
            interactions=mine,
            features=self.features(mine),
            streams=Streams(np.zeros(len(users), dtype=np.uint64)),
        )
        return self.learner.score(model.arrays, clients)

    def local(self, shapes: dict[str, tuple[int, ...]]) -> LocalTraining:
        """How a device trains."""
        plain = LocalTraining(
            epochs=self.epochs,
            batch=self.batch,
            negatives=self.negatives,
            learning_rate=self.learning_rate,
        )
        return self.protection.training(plain, shapes)

    def _devices(
        self,
        interactions: Interactions,
        streams: Streams,
        users: NDArray[np.integer[Any]] | None = None,
    ) -> Clients:
        """Devices of these users (of all), with their features as the protection has them."""
        features = self.features(interactions)
        if users is not None and not np.array_equal(users, np.arange(interactions.n_users)):
            interactions, features = interactions.take(users), features[users]
        clients = Clients(
            interactions=interactions, features=features, streams=streams.child(_PREPARE)
        )
        return replace(self.protection.prepare(clients), streams=streams)

    def _send(
        self, clients: Clients, broadcast: Broadcast, compute: Compute
    ) -> dict[str, Component]:
        streams = clients.streams
        trained = self.learner.train(
            broadcast,
            replace(clients, streams=streams.child(_TRAIN)),
            self.local(self.learner.shapes(_catalogue(clients))),
            compute,
        )
        return self.protection.protect(
            trained, broadcast, replace(clients, streams=streams.child(_PROTECT))
        )

    def features(self, interactions: Interactions) -> NDArray[np.float32]:
        """What devices know of their users, (n_users, d1): Table I of the paper."""
        ratings = interactions.ratings
        if ratings.nnz and ratings.data.max() > self.best:
            capped = ratings.copy()
            np.minimum(capped.data, np.float32(self.best), out=capped.data)
            interactions = replace(interactions, ratings=capped)
        return user_features(interactions, best=self.best).values

    @property
    def _settings(self) -> dict[str, float]:
        """All numbers among the settings, those of the parts by their own names."""
        return {**self.protection.settings, **numbers(self.learner), **numbers(self)}


def _finite(model: Broadcast, number: int) -> Broadcast:
    if not all(np.isfinite(part).all() for part in model.values()):
        raise InputError(
            f"Expected a training that stays finite, got a model with nan or inf after round "
            f"{number}. Lower the learning_rate or the learner's init_scale."
        )
    return model


def _catalogue(clients: Clients) -> Catalogue:
    return Catalogue(
        n_items=clients.interactions.n_items, n_user_features=clients.features.shape[1]
    )


def hits(ml_100k: float, ml_1m: float, table: str) -> tuple[Reported, ...]:
    """Hit@20 over all items, as printed."""
    note = f"{table}, ML-100K; {ml_1m:.3f} on ML-1M"
    return (Reported(metric="HR@20", protocol="all items", value=ml_100k, note=note),)
