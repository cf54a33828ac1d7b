"""GPFedRec as released: private networks, and item tables whose noise is on no bounded change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Floats, Ints, Kind, Overlaid, Randomized
from fedrec_auditor.targets.components import Rows as TouchedRows
from fedrec_auditor.targets.compute import Compute, blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.parts.minibatches import draw_examples
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.clipped import Clipped
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.mechanisms.laplace import Laplace
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.papers.gpfedrec.systems.parts.private_network import (
    Private,
    Rates,
    train,
)
from fedrec_auditor.targets.papers.gpfedrec.systems.parts.pulled import Pulled
from fedrec_auditor.targets.protections.parts.noise import ClippedNoise, NoisyChange
from fedrec_auditor.targets.settings import Knob, NotNegative, Positive, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population
from fedrec_auditor.targets.systems.system import (
    Calls,
    Messages,
    System,
    Trained,
    Training,
    received,
)
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads

_TRAIN, _NOISE = range(2)
"""Purposes of a client's randomness."""
_NETWORK = "network."
_SKETCH = 8  # random projections of a table by which users are compared
_BLOCK = 1 << 24  # numbers of tables at once


@dataclass(frozen=True, kw_only=True)
class GpFedRec(System):
    """GPFedRec (Zhang et al., KDD 2024) as released: all users send their item table, every round.

    A device trains the table that all are sent with a vector and a network of its own, and is
    pulled to the mean table of its neighbours, which the server made: at each batch by ``strength``
    2 eta ``rate`` / ``dimension``, half of the way by the code's settings, every row, whatever the
    data. Neighbours are here those of the same of ``groups`` groups, by their tables of the round
    before, and their means are broadcast; in the code each user has a group of its own. Devices
    begin with the vector and network that the server has drawn, and keep what they make of them,
    so those are in each broadcast. ``noise``
    is the code's option dp, whose default of 0 no torch of today takes. ``clip`` is not in the
    code: with it, no number of a table is sent that differs from the broadcast by more, before its
    noise; at 0 nothing is clipped.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> [q.claim.epsilon for q in GpFedRec().scoped_claims(Population(n_users=943, n_items=1682))]
    [inf]
    """

    dimension: Annotated[Whole, "entries of an embedding"] = 32
    width: Annotated[Whole, "entries of the first of three hidden layers"] = 32
    rate: Annotated[Positive, "size of a step on the network"] = 0.1
    eta: Annotated[Positive, "how much larger steps on embeddings are, on items an item"] = 80.0
    strength: Annotated[NotNegative, "weight of the pull to the neighbours' table"] = 1.0
    negatives: Annotated[Whole, "items that were not met, drawn an interaction"] = 4
    batch: Annotated[Whole, "examples a step"] = 256
    groups: Annotated[Whole, "groups of neighbours"] = 4
    noise: Annotated[NotNegative, "scale of the Laplace noise on a number, 0: none"] = 0.1
    clip: Annotated[NotNegative, "the largest change of a number, 0: none"] = 0.0
    rounds: Annotated[Whole, "rounds of a training"] = 30

    aliases = MappingProxyType({"dp": "noise", "reg": "strength"})
    evaluation = Evaluation()
    privacy = Knob(noise=("noise",), off=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pull(1) >= 2.0:
            raise InputError(
                f"Expected 2 strength eta rate / dimension below 2, got {self.pull(1):g}, at which "
                "tables leave their neighbours' faster and faster. Lower strength, eta or rate."
            )

    def pull(self, n_items: int) -> float:
        """Which part of the way to its neighbours' table a batch brings a device's."""
        return self.rates(n_items).pull

    def rates(self, n_items: int) -> Rates:
        """Sizes of steps: those on items are larger by their number."""
        item = self.rate * (n_items * self.eta - 1.0)
        pull = item * 2.0 * self.strength / (n_items * self.dimension)
        user = self.rate * abs(self.eta - 1.0)
        return Rates(network=self.rate, user=user, item=item, pull=pull)

    @property
    def bounded(self) -> bool:
        """Whether noise is on what is bounded."""
        return self.noise > 0.0 and self.clip > 0.0

    @property
    def number(self) -> float:
        """Epsilon of one number; infinite as released."""
        return 2.0 * self.clip / self.noise if self.bounded else math.inf

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """The rows that devices train, through a network, and noise on all tables."""
        return {
            "width": self.dimension,
            "negatives": self.negatives,
            "dense": 0,
            "passes": self.rounds * (1 + self.width / 4),
            "made": interactions.n_items * self.dimension,
        }

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The noise of a number, or of all, where it is on what is bounded.

        Without noise an item's row leaves where it is pulled if the item is held, else if it is a
        negative. None where noise is on what is not bounded: no law covers every pair.
        """
        if scope.vantage is not Vantage.SERVER or scope.is_presence:
            return None
        found: Mechanism | None = None
        whole = scope.unit in (Unit.USER, Unit.REPORT)
        others = population.n_items - 1
        if self.bounded and scope.unit is Unit.COORDINATE:
            found = Clipped(Laplace(scale=self.noise, low=-self.clip, high=self.clip))
        elif self.bounded and whole:
            count = population.n_items * self.dimension
            found = ComponentLaplace((NoisyComponent("item", count, self.number),), self.clip)
        elif not self.noise and (whole or scope.unit is Unit.COORDINATE):
            found = Identity()
        elif not self.noise and scope.unit in (Unit.INTERACTION, Unit.RATING):
            told = not scope.is_value and others > self.negatives
            found = BitFlip(1.0, self.negatives / others) if told else None
        if found is None or scope.horizon is not Horizon.TRAINING:
            return found
        return Repeated(found, self.rounds)

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """A number's epsilon, or that of all, once a round, where it is finite."""
        if not self.bounded or scope.is_presence:
            return dp.NonPrivateDpEvent()
        one = scope.unit is Unit.COORDINATE
        spent = self.number * (1 if one else population.n_items * self.dimension)
        times = self.rounds if scope.horizon is Horizon.TRAINING else 1
        return dp.SelfComposedDpEvent(dp.PureDpEvent(spent), times)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """All users a round; groups are by the tables of the round before."""
        n, items = interactions.n_users, interactions.n_items
        first = rng.standard_normal((items, self.dimension), dtype=np.float32)
        ways = rng.standard_normal((first.size, _SKETCH), dtype=np.float32)
        begin = Private.drawn(rng, self.dimension, self.width)
        private = Private.alike(begin, n)
        group: Ints = np.zeros(n, dtype=np.int64)
        network = {_NETWORK + name: part for name, part in begin.items()}
        model: Broadcast = {
            "item": first,
            "near": np.repeat(first[None], self.groups, axis=0),
            **network,
        }
        for _ in range(self.rounds):
            streams = Streams.spawn(rng, n)
            clean = self.trained(interactions, model, group, private, streams)
            sent = self.sent(clean, model, streams)
            yield Round(broadcast=model, uploads=Uploads(np.arange(n), {"item": sent}))
            tables, group = self.step(sent, group, ways)
            model = {**tables, **network}
        return Trained(model, {"tables": clean, "private": private})

    def trained(
        self,
        interactions: Interactions,
        model: Broadcast,
        group: Ints,
        private: Private,
        streams: Streams,
    ) -> Overlaid:
        """The tables of devices after an epoch; ``private`` is trained in place."""
        base, toward = model["item"], model["near"]
        examples = draw_examples(interactions, streams.fold_in(_TRAIN), self.negatives)
        owners = np.repeat(group, examples.sizes)
        rows, rates = base[examples.ids], self.rates(interactions.n_items)
        train(
            private,
            rows,
            toward[owners, examples.ids],
            examples,
            self.batch,
            rates,
            streams.fold_in(_TRAIN),
        )
        steps = -(-examples.sizes // self.batch)
        share = (1.0 - (1.0 - rates.pull) ** steps).astype(np.float32)
        return Overlaid(
            Pulled(group, share, base, toward),
            TouchedRows(examples.indptr, examples.ids, rows, len(base), Kind.MODEL),
        )

    def sent(self, clean: Component, model: Broadcast, streams: Streams) -> Component:
        """The tables with noise on every number."""
        if not self.noise and not self.clip:
            return clean
        noise = ClippedNoise(self.clip or math.inf, self.noise)
        return Randomized(clean, NoisyChange(model["item"], noise), streams.fold_in(_NOISE))

    def step(
        self, sent: Component, group: Ints, ways: NDArray[np.float32]
    ) -> tuple[Broadcast, Ints]:
        """The mean table of each group, the mean over users of these, and the next groups.

        A group has the users of like place along the principal direction of all tables, as random
        projections have them; one without users has the mean of all.
        """
        n, size = len(sent), math.prod(sent.shape)
        sums, sketch = np.zeros((self.groups, size)), np.zeros((n, _SKETCH), dtype=np.float32)
        belongs = (group[:, None] == np.arange(self.groups)).astype(np.float32)
        for some in blocks(n, size, _BLOCK):
            tables = sent.dense(np.arange(some.start, some.stop)).reshape(-1, size)
            sums += belongs[some].T @ tables
            sketch[some] = tables @ ways
        mean = sums.sum(axis=0) / max(1, n)
        counts = belongs.sum(axis=0)[:, None]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), mean)
        after = {
            "item": mean.reshape(sent.shape),
            "near": means.reshape(self.groups, *sent.shape),
        }
        place = sketch - sketch.mean(axis=0)
        along = place @ np.linalg.svd(place, full_matrices=False)[2][0] if n else np.zeros(0)
        ranked = np.argsort(np.argsort(along)) * self.groups // max(1, n)
        return {name: part.astype(np.float32) for name, part in after.items()}, ranked

    def messages(self, calls: Calls) -> Messages:
        """Tables "item" (M, d) of devices that have not sent before, and have no neighbours."""
        shape = (calls.profiles.n_items, self.dimension)
        base = received(calls.broadcast, "item", shape)
        model = {"item": base, "near": base[None]}
        nobody, streams = np.zeros(len(calls.owners), dtype=np.int64), calls.streams
        begin = {
            name: received(calls.broadcast, _NETWORK + name, shape)
            for name, (shape, _) in Private.layout(self.dimension, self.width).items()
        }
        private = Private.alike(begin, len(calls.owners))
        clean = self.trained(calls.clients, model, nobody, private, streams)
        return {"item": self.sent(clean, model, streams)}

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Logits of all items, (len(users), n_items), by each device's own table and network."""
        tables, private = model.arrays["tables"], model.arrays["private"]
        out = np.empty((len(users), interactions.n_items), dtype=np.float32)
        for some in blocks(len(users), interactions.n_items * self.width, _BLOCK):
            out[some] = private.take(users[some]).logits(tables.dense(users[some]))
        return out
