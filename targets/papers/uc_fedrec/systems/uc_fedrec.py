"""UC-FedRec: whole models with the set of items behind them, and filters of attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit
from fedrec_auditor.targets.components import (
    NOTHING,
    Component,
    Dense,
    Floats,
    Ints,
    Kind,
    Listed,
    Randomized,
    Rows,
)
from fedrec_auditor.targets.compute import Compute, blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.clipped import Clipped
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian
from fedrec_auditor.targets.papers.uc_fedrec.systems.parts.devices import (
    SLOWER,
    ConsentingDevices,
    Steps,
    gains,
)
from fedrec_auditor.targets.protections.parts.noise import ClippedNoise
from fedrec_auditor.targets.settings import Budget, Positive, Probability, ProperShare, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population
from fedrec_auditor.targets.systems.system import (
    Calls,
    Messages,
    Trained,
    Training,
    Unperturbed,
    received,
)
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Uploads

_BLOCK = 1 << 22  # numbers of all devices at once
_FILTER = "filter."
_HIDE, _TRAIN, _ITEM, _USER = range(4)
"""Purposes of a device's randomness."""


@dataclass(frozen=True, kw_only=True)
class UcFedRec(Unperturbed):
    """Local steps of a pairwise loss on a product of vectors, and what the code sends of them.

    Each of ``cohort`` devices a round takes ``epochs`` steps, each on ``batch`` own items and as
    many others, drawn with repetition: gradient descent with momentum .9, the gradient clipped by
    one norm at ``clip``. It sends the model, of which its user's row and the rows of these items
    have moved, and says which items these are. Of an attribute that a user consents to show the
    device trains its filter, a softmax of the user's row, on the user's own category; of one that
    is hidden (with a chance of ``hidden``) it moves the row to where the filter tells nothing. The
    server takes the mean of each row over those who trained it.

    The code has a baseline of differential privacy that is commented out: ``noise`` on all numbers
    of the model, of sqrt(2 ln(1.25/delta)) S/``epsilon``, where S is twice a clipped step. By
    ``covers`` it is twice all steps. Source: main_UC_ML.py, models.py, utility/dp_mechanism.py and
    utility/parser.py at 5c5f965.

    >>> round(UcFedRec().side / (UcFedRec().learning_rate * UcFedRec().clip), 2)
    41.38
    """

    clip: Annotated[Positive, "the largest norm of a step's gradient"] = 5.0
    noise: Annotated[Literal["off", "gaussian"], "on every number of the model"] = "off"
    epsilon: Annotated[Budget, "of the noise, where it is on"] = 8.0
    delta: Annotated[ProperShare, "of the noise, where it is on"] = 1e-5
    covers: Annotated[Literal["step", "training"], "what the noise is calibrated to"] = "step"
    hidden: Annotated[Probability, "chance that a user hides an attribute"] = 0.2
    cohort: Annotated[Whole, "clients a round"] = 256
    rounds: Annotated[Whole, "rounds of a training"] = 40
    epochs: Annotated[Whole, "steps of a device, a round"] = 10
    batch: Annotated[Whole, "own items of a step"] = 256
    negatives: Annotated[Whole, "others for each own item of a step"] = 1
    learning_rate: Annotated[Positive, "size of a device's steps"] = 1e-4
    dimension: Annotated[Whole, "entries of a vector"] = 16

    evaluation = Evaluation()
    learning = MappingProxyType({"learning_rate": 0.5, "rounds": 100})

    @property
    def side(self) -> float:
        """How far a local training moves the model at most: its steps, with momentum, add up."""
        return self.learning_rate * self.clip * float(gains(self.epochs).sum())

    @property
    def deviation(self) -> float:
        """That of the noise on a number."""
        side = self.learning_rate * self.clip if self.covers == "step" else self.side
        return math.sqrt(2.0 * math.log(1.25 / self.delta)) * 2.0 * side / self.epsilon

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """A cohort's rows, and a table of items a device while it trains."""
        size = interactions.n_items * self.dimension
        return {
            "senders": min(self.cohort, interactions.n_users),
            "width": self.dimension,
            "numbers": interactions.n_users * self.dimension + size,
            "bytes": 4 * size,
            "held": 4 * _BLOCK,
            "made": 4 * self.epochs * size,
        }

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The noise of one number, where there is any; else, and of the set, the identity.

        None of an attribute, of which a filter tells if its user consents, and of the noise of a
        training, for which a user need not be drawn each round.
        """
        if self.noise == "off" or scope.unit is not Unit.COORDINATE:
            return super().mechanism(scope, population)
        if super().mechanism(scope, population) is None:
            return None
        if scope.horizon is Horizon.TRAINING:
            return None
        return Clipped(Gaussian(sigma=self.deviation, low=-self.side, high=self.side))

    def sends(self, scope: Scope) -> bool:
        """Which items are met, not how they are rated."""
        return scope.unit is not Unit.ATTRIBUTE and not scope.is_value

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """The noise of one number; of all else nothing is hidden."""
        if self.noise == "off" or scope.unit is not Unit.COORDINATE:
            return super().event(scope, population)
        one = dp.GaussianDpEvent(self.deviation / (2.0 * self.side))
        training = scope.horizon is Horizon.TRAINING
        return dp.SelfComposedDpEvent(one, self.rounds) if training else one

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: also how many own items a device draws, with repetition."""
        known = super().public(interactions)
        draws = float(self.epochs * self.batch)
        return replace(known, settings={**known.settings, "own_draws": draws})

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Rounds of a cohort that is drawn by ``rng``; what a user hides is drawn once."""
        n, streams = interactions.n_users, Streams.spawn(rng, interactions.n_users)
        everybody, model = self.devices(interactions, streams), self.initial(interactions, rng)
        for _ in range(self.rounds):
            users = np.sort(rng.permutation(n)[: self.cohort])
            sent = self.sent(everybody.take(users), users, model, Streams.spawn(rng, len(users)))
            yield Round(broadcast=model, uploads=Uploads(users, sent))
            model = self.step(model, Uploads(users, sent), everybody.take(users))
        return Trained(model, {"user": model["user"], "item": model["item"]})

    def messages(self, calls: Calls) -> Messages:
        """Messages of devices whose user is the first of the table."""
        profiles, model = calls.clients, calls.broadcast
        received(model, "item", (profiles.n_items, self.dimension))
        assert model is not None, "refused"
        devices = self.devices(profiles, calls.streams)
        return self.sent(devices, np.zeros(len(calls.owners), np.int64), model, calls.streams)

    def devices(self, interactions: Interactions, streams: Streams) -> ConsentingDevices:
        """What devices hold, and what their users hide; with noise there are no filters."""
        names = sorted(interactions.attributes) if self.noise == "off" else []
        chosen = streams.fold_in(_HIDE).uniform(max(1, len(names)))
        return ConsentingDevices(
            interactions.ratings.toarray() != 0,
            {name: interactions.attributes[name].codes for name in names},
            {name: chosen[:, place] < self.hidden for place, name in enumerate(names)},
        )

    def initial(self, interactions: Interactions, rng: Generator) -> Broadcast:
        """Tables with even entries as by Glorot and Bengio, and filters that tell nothing yet."""
        model = {}
        for name, count in (("user", interactions.n_users), ("item", interactions.n_items)):
            most = math.sqrt(6.0 / (count + self.dimension))
            model[name] = rng.uniform(-most, most, (count, self.dimension)).astype(np.float32)
        attributes = interactions.attributes if self.noise == "off" else {}
        for name, attribute in sorted(attributes.items()):
            shape = len(attribute.categories), self.dimension + 1
            most = 1.0 / math.sqrt(self.dimension)
            model[_FILTER + name] = rng.uniform(-most, most, shape).astype(np.float32)
        return model

    def sent(
        self, devices: ConsentingDevices, users: Ints, model: Broadcast, streams: Streams
    ) -> dict[str, Component]:
        """What devices of these ``users`` send: models, and "items", which they trained on.

        A table is sent whole; of an item or a user that was not trained it has what was sent down.
        """
        m, d = model["item"].shape
        filters = {k.removeprefix(_FILTER): v for k, v in model.items() if k.startswith(_FILTER)}
        how = Steps(self.epochs, self.batch, self.negatives, self.learning_rate, self.clip)
        rows, listed, values = [np.zeros((0, d), np.float32)], [np.zeros((0, m), np.bool_)], []
        told = {name: [np.zeros((0, *part.shape), part.dtype)] for name, part in filters.items()}
        for block in blocks(len(users), m * self.epochs, _BLOCK):
            some = np.arange(block.start, block.stop)
            mine = streams.take(some).fold_in(_TRAIN)
            found = devices.take(some).train(
                model["user"][users[some]], model["item"], filters, how, mine
            )
            rows.append(found.rows)
            listed.append(found.touched)
            values.append(found.values)
            for name, part in found.filters.items():
                told[name].append(part)
        touched = np.concatenate(listed)
        indptr, ids = np.append(0, touched.sum(axis=1).cumsum()), np.nonzero(touched)[1]
        moved = np.concatenate([np.zeros((0, d), np.float32), *values])
        kind = Kind.MODEL, self.learning_rate
        tables: dict[str, Component] = {
            "item": Rows(indptr, ids, moved, m, *kind, rest=model["item"]),
            "user": Rows(
                np.arange(len(users) + 1),
                np.asarray(users),
                np.concatenate(rows),
                len(model["user"]),
                *kind,
                rest=model["user"],
            ),
        }
        if self.noise == "gaussian":
            noise = ClippedNoise(math.inf, self.deviation, normal=True)
            for purpose, name in ((_ITEM, "item"), (_USER, "user")):
                tables[name] = Randomized(tables[name], noise, streams.fold_in(purpose))
        for name, parts in told.items():
            rate = self.learning_rate / SLOWER
            tables[_FILTER + name] = Dense(np.concatenate(parts), Kind.MODEL, rate)
        return {**tables, "items": Listed(indptr, ids, m, Kind.ITEMS)}

    def step(self, model: Broadcast, uploads: Uploads, devices: ConsentingDevices) -> Broadcast:
        """Means of rows over those who trained them, of filters over those who consent."""
        sent, users = uploads.components, uploads.users
        every = np.arange(len(users))
        after = {name: part.copy() for name, part in model.items()}
        listed = sent["items"].dense(every)
        trained = np.zeros((len(users), len(model["item"])), np.bool_)
        owner, place = np.nonzero(listed != NOTHING)
        trained[owner, listed[owner, place]] = True
        total, count = np.zeros(model["item"].shape), trained.sum(axis=0)
        for block in blocks(len(users), total.size, _BLOCK):
            some = every[block]
            total += np.einsum("nm,nmd->md", trained[some], sent["item"].dense(some))
        after["item"][count > 0] = total[count > 0] / count[count > 0, None]
        after["user"][users] = sent["user"].picked(every, users[:, None])[:, 0]
        for name, hidden in devices.hidden.items():
            if not hidden.all() and _FILTER + name in model:
                part = sent[_FILTER + name].dense(every[~hidden])
                after[_FILTER + name] = part.mean(axis=0).astype(np.float32)
        return after

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Products of the users' rows and the items'."""
        return np.asarray(model.arrays["user"][users] @ model.arrays["item"].T)
