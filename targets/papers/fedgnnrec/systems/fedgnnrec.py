"""FedGNNRec as released: FedGNN with a list of items whose last part is the history."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Scope, Unit, Vantage
from fedrec_auditor.targets.components import NOTHING, Dense, Floats, Ints, Kind, Randomized
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.papers.fedgnn.systems.fedgnn import FedGnn
from fedrec_auditor.targets.papers.fedgnn.systems.parts.rating_graph import Gradients
from fedrec_auditor.targets.protections.parts.noise import ClippedNoise
from fedrec_auditor.targets.settings import Positive, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Calls, Messages, Trained, Training, received
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Uploads

_BIAS, _USER, _SPREAD = range(10, 13)
"""Purposes of a client's randomness, beside those of ``FedGnn``."""
_DIGITS = 7  # bytes of a code: what a whole number of 64 bits holds without its sign


@dataclass(frozen=True, kw_only=True)
class FedGnnRec(FedGnn):
    """FedGNN with a bias and a row a user at the server, and a list of ids with every message.

    The list has the ``pseudo`` items as they were drawn, then the client's own by ascending id;
    ``order`` "sorted" sorts all. Numbers of pseudo rows are normal with the mean and deviation of
    all numbers of the client's own. The user's row gets a noisy gradient, too.

    A run keeps the messages ``to`` the recommender, or to the third party: codes of all own items,
    and the user's row without noise. Codes are "signed" as released, so that everybody with the
    public key knows them; with "keyed" ones the third party does not.
    Source: client.py, server.py, tp_server.py and main.py at 648ef81.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> [q.claim.epsilon for q in FedGnnRec().scoped_claims(Population(n_users=943, n_items=1682))]
    [2.0, 2.0, 2.0]
    """

    dimension: Annotated[Whole, "entries of an embedding"] = 16
    learning_rate: Annotated[Positive, "size of a step"] = 1.0
    noise: Annotated[Positive, "scale of the Laplace noise on every number"] = 0.1
    pseudo: Annotated[Whole, "other items' rows that a client sends"] = 500
    cohort: Annotated[Whole, "clients a round"] = 64
    rounds: Annotated[Whole, "rounds of a training"] = 140
    order: Annotated[Literal["released", "sorted"], "how the list of ids is ordered"] = "released"
    to: Annotated[Literal["recommender", "third-party"], "whose messages a run keeps"] = (
        "recommender"
    )
    codes: Annotated[Literal["signed", "keyed"], "what the third party gets for ids"] = "signed"

    learning = MappingProxyType({})

    def weights(self, population: Population) -> int:
        """Numbers of the item table, the layer, the bias and the user's row."""
        return super().weights(population) + 2 * self.dimension

    @property
    def lists_own(self) -> bool:
        """Whether a list alone shows all own items: by its order, or by codes that are known."""
        if self.to == "third-party":
            return self.codes == "signed"
        return self.order == "released"

    def tells(self, scope: Scope, population: Population) -> bool:
        """Whether the unit of ``scope`` shows in the list: in what it has, or what it lacks."""
        if scope.unit is Unit.COORDINATE or scope.is_value or scope.is_presence:
            return False
        return self.lists_own or super().tells(scope, population)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Where a list shows own items nothing hides them; None of the third party's else."""
        if self.lists_own and self.tells(scope, population):
            sent = scope.vantage is Vantage.SERVER and scope.unit is not Unit.ATTRIBUTE
            return self.over(Identity(), scope, population) if sent else None
        return None if self.to == "third-party" else super().mechanism(scope, population)

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """To the third party codes hide nothing, equal ones least; else see ``FedGnn``."""
        return Identity().event() if self.to == "third-party" else super().event(scope, population)

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: the codes of items, unless they are made with a key."""
        public = super().public(interactions)
        if self.to == "recommender" or self.codes == "keyed":
            return public
        return replace(public, rows=codes(interactions.n_items)[:, None])

    def initial(self, n_items: int, rng: Generator) -> dict[str, Floats]:
        """Random items, a layer that passes them on, and no bias."""
        return super().initial(n_items, rng) | {"gnn.b": np.zeros(self.dimension, np.float32)}

    def pushing(self, n_items: int) -> dict[str, Floats]:
        """See ``FedGnn.pushing``, without a bias."""
        return super().pushing(n_items) | {"gnn.b": np.zeros(self.dimension, np.float32)}

    def received(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """The broadcast; InputError unless it has a bias, too."""
        bias = received(broadcast, "gnn.b", (self.dimension,))
        return {**super().received(broadcast, profiles), "gnn.b": bias}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Which users are drawn in a round is chosen by ``rng``; those without items are not."""
        model: Broadcast = self.initial(interactions.n_items, rng)
        ratings, n = interactions.ratings, interactions.n_users
        rows = np.zeros((n, self.dimension))
        active = np.flatnonzero(np.diff(ratings.indptr))
        for _ in range(self.rounds):
            users = np.sort(rng.permutation(active)[: self.cohort])
            streams = Streams.spawn(rng, len(users))
            some, near = sparse.csr_array(ratings[users]), self.around(ratings, rows)
            one = self.gradients(some, model, near[users], rows[users] + model["gnn.b"])
            sent = self.sent(one, streams)
            if self.to == "recommender":
                yield Round(broadcast=model, uploads=Uploads(users, sent))
            else:
                told = self.matched(some, rows[users])
                yield Round(broadcast=None, uploads=Uploads(users, told))
            rate = self.learning_rate / max(1, len(users))
            rows[users] -= rate * sent["user"].dense(np.arange(len(users)))
            model = {
                name: (part - rate * sent[name].total()).astype(np.float32)
                for name, part in model.items()
            }
        used = {**model, "kept": rows + model["gnn.b"], "near": self.around(ratings, rows)}
        return Trained(model if self.to == "recommender" else None, used)

    def messages(self, calls: Calls) -> Messages:
        """See ``sent`` and ``matched``, of users whose row is 0, as all are at first."""
        if self.to == "third-party":
            return self.matched(
                calls.clients.ratings, np.zeros((len(calls.streams), self.dimension))
            )
        model = self.received(calls.broadcast, calls.profiles)
        one = self.gradients(calls.clients.ratings, model, kept=model["gnn.b"])
        return self.sent(one, calls.streams)

    def values(self, one: Gradients, owners: Ints, ids: Ints, streams: Streams) -> Floats:
        """Own rows as they are, and pseudo rows drawn number by number."""
        found = one.weight[owners, ids, None] * one.hidden[owners] + one.shared[owners]
        own = one.own[owners, ids]
        count = np.maximum(one.own.sum(axis=1) * self.dimension, 2)
        mean, square = (
            np.bincount(owners[own], part[own].sum(axis=1), len(streams)) / count
            for part in (found, found**2)
        )
        spread = np.sqrt(np.maximum(square - mean**2, 0.0) * count / (count - 1))
        others, places = owners[~own, None], ids[~own, None] * self.dimension
        drawn = streams.fold_in(_SPREAD).normal_at(others, places + np.arange(self.dimension))
        found[~own] = mean[others] + spread[others] * drawn
        return np.asarray(found)

    def sent(self, one: Gradients, streams: Streams) -> Messages:
        """Noisy gradients "item", "gnn.A", "gnn.b" (d,) and "user" (d,), and the list "ids"."""
        keys, n_items = self.keys(one.own, streams), one.own.shape[1]
        if self.order == "sorted":
            keys = np.where(np.isfinite(keys), 0.0, np.inf)
        count = np.maximum(one.own.sum(axis=1, keepdims=True), 1)
        vector = Dense((one.of_user / count).astype(np.float32), Kind.GRADIENT, -1.0)
        noise = ClippedNoise(self.clip, self.noise)
        return {
            **super().sent(one, streams),
            "gnn.b": Randomized(vector, noise, streams.fold_in(_BIAS)),
            "user": Randomized(vector, noise, streams.fold_in(_USER)),
            "ids": Dense(listed(keys, np.arange(n_items)), Kind.ITEMS),
        }

    def matched(self, ratings: sparse.csr_array, rows: Floats) -> Messages:
        """To the third party: "codes" of own items by ascending id, and the user's "row" (d,)."""
        keys, n_items = np.where(ratings.toarray() != 0, 0.0, np.inf), ratings.shape[1]
        return {
            "codes": Dense(listed(keys, codes(n_items)), Kind.CODES),
            "row": Dense(rows.astype(np.float32), Kind.MODEL),
        }


def listed(keys: Floats, names: NDArray[np.int64]) -> Ints:
    """``names`` (M,) in the order of the keys (n, M), -1 for those that are infinite, (n, M)."""
    order = np.argsort(keys, axis=1, kind="stable")
    there = np.isfinite(np.take_along_axis(keys, order, axis=1))
    least = np.min_scalar_type(-int(names.max(initial=1)) - 1)
    return np.where(there, names[order], NOTHING).astype(least)


def codes(n_items: int) -> NDArray[np.int64]:
    """What stands for each item, (M,): of a signature the digest that the public key opens it to.

    The first 56 bits of it, which no two items of a catalogue share.
    """
    digests = (hashlib.sha256(str(item).encode()).digest() for item in range(n_items))
    return np.array([int.from_bytes(each[:_DIGITS]) for each in digests], dtype=np.int64)
