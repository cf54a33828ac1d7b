"""Training of a composition by federated averaging, and what follows for an auditor.

Algorithm 1 of Zhang et al.: every round some users download the model, train it on their own
interactions and features, and upload all of its parameters; the server takes the mean. A named
system states the composition; training, claims, events and games follow from its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Component, Floats, Ints
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Catalogue, Clients, LocalTraining
from fedrec_auditor.targets.settings import numbers
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import designed_pairs
from fedrec_auditor.targets.systems.base import DesignedPair, Model
from fedrec_auditor.targets.systems.composition import Composition
from fedrec_auditor.targets.systems.fed_adam import FedAdam
from fedrec_auditor.targets.systems.system import Calls, Messages, Trained, Training
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Uploads

_PREPARE, _TRAIN, _PROTECT, _KEEP = range(4)
"""Purposes of a client's randomness."""
_OWN = "own"
"""Private user vectors (n_users, d, 1) in a model that scores."""


@dataclass(frozen=True, kw_only=True)
class Federated(Composition):
    """The training of a composition, and what an auditor asks of it."""

    def designed_pairs(self) -> tuple[DesignedPair, ...]:
        """One entry pushed to either end of the clipping, or one row that is touched or not."""
        return designed_pairs.designed_pairs(self)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Algorithm 1; which users take part is drawn from ``rng``."""
        everyone = self._devices(interactions, Streams.spawn(rng, interactions.n_users))
        model: Broadcast = self.learner.initial(_catalogue(everyone), rng)
        model = {name: model[name] for name in self.sent(_catalogue(everyone))}
        senders = self.senders(interactions.n_users)
        moments = FedAdam(self.server_rate)
        behind = np.zeros((interactions.n_users, model["item"].shape[1]), dtype=np.float32)
        for number in range(self.rounds):
            users = np.sort(rng.permutation(interactions.n_users)[:senders])
            clients = replace(everyone.take(users), streams=Streams.spawn(rng, senders))
            behind[users] = self.learner.user_vectors(model, clients)
            sent, own = self._send(clients, model, compute)
            if everyone.own is not None:
                everyone.own[users] = own
            uploads = Uploads(users, sent)
            del sent, own
            yield Round(broadcast=model, uploads=uploads)
            model = _finite(self.step(model, uploads, moments), number + 1)
            del uploads  # before the next round's are made
        scored = model if everyone.own is None else {**model, _OWN: everyone.own}
        return Trained(model, scored, behind)

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: the numbers among all settings, those of the parts included."""
        return replace(
            super().public(interactions),
            settings={**self.protection.settings, **numbers(self.learner), **numbers(self)},
            route=self.route.vantage,
        )

    def messages(self, calls: Calls) -> Messages:
        """All parameters of the model after local training, protected, a component each."""
        if calls.broadcast is None:
            raise InputError(
                "Expected the model's components as a broadcast, got none. Send what the learner "
                "begins with."
            )
        clients = self._devices(calls.profiles, calls.streams, calls.owners)
        return self._send(clients, calls.broadcast, calls.compute)[0]

    def step(self, model: Broadcast, uploads: Uploads, moments: FedAdam) -> Broadcast:
        """The mean of the uploads (Algorithm 1), their sum (equation 9), or a step, float32."""
        if not len(uploads.users):
            return model
        count = 1 if self.server == "sum" else len(uploads.users)
        sent = {n: (c.total() / count).astype(np.float32) for n, c in uploads.components.items()}
        return moments.step(model, sent) if self.server == "adam" else sent

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Scores of all items from the final model and the device's own history and features."""
        mine = interactions.take(users)
        clients = Clients(
            interactions=mine,
            features=self.features(mine),
            streams=Streams(np.zeros(len(users), dtype=np.uint64)),
            own=model.arrays[_OWN][users] if _OWN in model.arrays else None,
        )
        arrays = {name: array for name, array in model.arrays.items() if name != _OWN}
        return self.learner.score(arrays, clients)

    def local(self, shapes: dict[str, tuple[int, ...]]) -> LocalTraining:
        """How a device trains."""
        plain = LocalTraining(
            epochs=self.epochs,
            batch=self.batch,
            negatives=self.negatives,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
        )
        return self.protection.training(plain, shapes)

    def _devices(
        self,
        interactions: Interactions,
        streams: Streams,
        users: Ints | None = None,
    ) -> Clients:
        """Devices of these users (of all), with their features as the protection has them."""
        features = self.features(interactions)
        if users is not None and not np.array_equal(users, np.arange(interactions.n_users)):
            interactions, features = interactions.take(users), features[users]
        clients = Clients(
            interactions=interactions, features=features, streams=streams.fold_in(_PREPARE)
        )
        own = self.learner.own(streams.fold_in(_KEEP)) if self.private_user else None
        return replace(self.protection.prepare(clients), streams=streams, own=own)

    def _send(
        self, clients: Clients, broadcast: Broadcast, compute: Compute
    ) -> tuple[dict[str, Component], Floats | None]:
        """What is sent, and the private vectors (n, d, 1) after training, if there are any."""
        streams = clients.streams
        trained = self.learner.train(
            broadcast,
            replace(clients, streams=streams.fold_in(_TRAIN)),
            self.local(self.sent(_catalogue(clients))),
            compute,
        )
        own = trained.pop("user.E").dense(np.arange(len(clients))) if self.private_user else None
        sent = self.protection.protect(
            trained, broadcast, replace(clients, streams=streams.fold_in(_PROTECT))
        )
        return sent, own


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
