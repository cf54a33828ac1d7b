"""PTF-FedRec: lists of items with predicted scores instead of a model, own items first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator
from scipy import sparse
from scipy.special import expit

from fedrec_auditor.accountants.statements.scope import Scope, Unit
from fedrec_auditor.targets.components import Floats, Ints, Kind, Listed
from fedrec_auditor.targets.compute import Compute, blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.papers.ptf_fedrec.systems.parts.devices import (
    Flags,
    ListingDevices,
    Lists,
    Order,
)
from fedrec_auditor.targets.settings import Positive, Share, ShareOrNone, Whole, WholeOrNone
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population
from fedrec_auditor.targets.systems.fed_adam import FedAdam
from fedrec_auditor.targets.systems.system import Calls, Messages, Trained, Training, Unperturbed
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads

_TIMES = 5  # own items that a list has entries at most
_BLOCK = 1 << 22  # devices times items at once
_LIST = 99  # purpose of a device's randomness, beside those of its beginning


@dataclass(frozen=True, kw_only=True)
class PtfFedRec(Unperturbed):
    """What the released code sends, by models that are simpler than its own.

    A device knows its own items, ``negatives`` others for each, drawn once, and what the server
    told it since. It trains, and lists some own items and 1 to 4 times as many others with their
    predicted scores, of which the best are exchanged (``ListingDevices.lists``). In the code's
    ``order`` own ones come first. The server trains on this round's lists, and tells each device
    of ``told`` items, half of them those listed most, half those that it scores best, at most as
    many as the device has. The device's model is a logit an item, the server's a product of
    vectors. Source: client.py, server.py and parse.py at bb884e9.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=12, profile=4).load()
    >>> run = PtfFedRec(rounds=1).run(data, np.random.default_rng(0))
    >>> sent = run.transcript.rounds[0].uploads.components["items"].dense(np.arange(20))
    >>> bool(data.ratings.toarray()[np.arange(20), sent[:, 0]].all())
    True
    """

    order: Annotated[Order, "in which a list has its items"] = "own-first"
    swapped: Annotated[ShareOrNone, "of the own items listed, whose scores are exchanged"] = 0.1
    least: Annotated[Share, "least share of its own items that a device lists"] = 0.1
    negatives: Annotated[Whole, "others that a device draws once for each own item"] = 4
    told: Annotated[WholeOrNone, "items that the server tells a device of, a round"] = 30
    rounds: Annotated[Whole, "rounds of a training"] = 20
    epochs: Annotated[Whole, "steps of a device, a round"] = 5
    learning_rate: Annotated[Positive, "size of a device's steps"] = 0.1
    dimension: Annotated[Whole, "entries of the server's vectors"] = 16
    server_steps: Annotated[Whole, "steps of the server, a round"] = 20
    server_rate: Annotated[Positive, "size of the server's steps"] = 0.02

    evaluation = Evaluation(cutoffs=(20,))

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Tables of users times items, and lists of about twice the own items."""
        users, items = interactions.n_users, interactions.n_items
        entries = 2 * interactions.ratings.nnz / max(1, users)
        return {
            "width": self.dimension,
            "numbers": 2 * _TIMES * items,
            "bytes": 8 * entries,
            "held": 6 * users * items,
            "passes": 2 * self.rounds * self.server_steps,
            "made": 10 * items,
        }

    def sends(self, scope: Scope) -> bool:
        """Which items are listed depends on which were met, not on their ratings."""
        return scope.unit is not Unit.ATTRIBUTE and not scope.is_value

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Own ones first, the first entry proves itself. Else an item that is not listed.

        Whoever met it alone lists it always, who met one other item at most by a draw of its own.
        """
        found = super().mechanism(scope, population)
        users = scope.unit in (Unit.USER, Unit.REPORT)
        if found is None or users or self.order == "own-first":
            return found
        if scope.unit not in (Unit.INTERACTION, Unit.RATING) or population.n_items < 2:
            return None
        return BitFlip(1.0, min(1.0, self.negatives / (population.n_items - 1)))

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """The rounds of main.py; everybody takes part in each."""
        n, m = interactions.n_users, interactions.n_items
        own = interactions.ratings.toarray() != 0
        devices = ListingDevices.of(own, self.negatives, Streams.spawn(rng, n))
        shapes = {"user": (n, self.dimension), "item": (m, self.dimension)}
        model: Broadcast = {
            name: rng.normal(scale=0.1, size=shape).astype(np.float32)
            for name, shape in shapes.items()
        }
        moments, often, scores = FedAdam(self.server_rate), np.zeros(m, np.int64), np.zeros((n, m))
        for _ in range(self.rounds):
            sent = self.listed(devices, Streams.spawn(rng, n))
            yield Round(broadcast=None, uploads=Uploads(np.arange(n), self.wire(sent, m)))
            often += np.bincount(sent.items, minlength=m)
            for _ in range(self.server_steps):
                model = moments.step(model, self.moved(model, sent))
            scores = expit(model["user"] @ model["item"].T)
            devices.hear(self.answer(sent.among(m), scores, often, own.sum(axis=1)), scores)
        local = np.where(devices.count > 0, expit(devices.logit), scores)
        return Trained(None, {"scores": (scores + local) / 2})

    def messages(self, calls: Calls) -> Messages:
        """The first messages of devices: a list "items", and the "scores" of its entries."""
        profiles, streams, parts = calls.clients, calls.streams, []
        for block in blocks(len(streams), profiles.n_items, _BLOCK):
            some = np.arange(block.start, block.stop)
            mine, own = streams.take(some), profiles.ratings[some].toarray() != 0
            begun = ListingDevices.of(own, self.negatives, mine)
            parts.append(self.listed(begun, mine.fold_in(_LIST)))
        return self.wire(Lists.joined(parts), profiles.n_items)

    def listed(self, devices: ListingDevices, streams: Streams) -> Lists:
        """What devices list after they have trained."""
        devices.learn(self.epochs, self.learning_rate)
        return devices.lists(self.least, self.swapped, self.order, streams)

    def wire(self, lists: Lists, n_items: int) -> Messages:
        """Lists of items, and of their scores in the same order."""
        width = _TIMES * n_items
        return {
            "items": Listed(lists.indptr, lists.items, width, Kind.ITEMS),
            "scores": Listed(lists.indptr, lists.scores, width, Kind.RATINGS, 0.0),
        }

    def moved(self, model: Broadcast, sent: Lists) -> Broadcast:
        """The server's model downhill on the cross-entropy of the scores it got."""
        users, items = model["user"], model["item"]
        at = sent.owners, sent.items
        wrong = expit(np.einsum("ed,ed->e", users[at[0]], items[at[1]])) - sent.scores
        errors = sparse.csr_array((wrong, at), shape=(len(users), len(items)))
        return {"user": users - errors @ items, "item": items - errors.T @ users}

    def answer(self, listed: Flags, scores: Floats, often: Ints, held: Ints) -> Flags:
        """Which items each device is told of, (n, M): none that it has just listed."""
        half = np.minimum(-(-self.told // 2), held)
        common = np.broadcast_to(np.argsort(-often, kind="stable"), listed.shape)
        first = _first(common, ~listed, half)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.told]
        return first | _first(best, ~listed & ~first, np.minimum(half, held - first.sum(axis=1)))

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """The mean of the device's and the server's score, of an item unknown there the latter."""
        return np.asarray(model.arrays["scores"][users])


def _first(order: Ints, allowed: Flags, most: Ints) -> Flags:
    """Of each row the first ``most`` items in ``order`` (n, k) that are ``allowed`` (n, M)."""
    there = np.take_along_axis(allowed, order, axis=1)
    there &= np.cumsum(there, axis=1) <= most[:, None]
    found = np.zeros_like(allowed)
    np.put_along_axis(found, order, there, axis=1)
    return found
