"""FedGCDR: noisy vectors of users go from domain to domain; within one, what is met is listed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Dense, Floats, Ints, Kind, Listed, Randomized, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.mechanisms.parts.additive import clip_norm
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.mechanisms.vector_gaussian import VectorGaussian
from fedrec_auditor.targets.protections.parts.noise import ClippedNoise
from fedrec_auditor.targets.settings import Budget, Knob, Positive, ProperShare, Range, Whole
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

_NEGATIVES, _NOISE = range(2)
"""Purposes of a client's randomness."""
_FLOOR = 1e-8  # Adam's


@dataclass(frozen=True, kw_only=True)
class FedGcdr(System):
    """Items fall into ``domains`` by turns; the first is the target, the others are sources.

    All domains train by themselves for ``sources`` rounds. A source's knowledge of a user, the mean
    of the user's row and of the rows of the items that it met there, 0 without any, is clipped to
    ``clip`` and gets normal noise of deviation clip sqrt(2 ln(1.25/delta)) / epsilon (Appendix A).
    In each of ``rounds`` rounds it is sent again to the target, with "fresh" noise as released, or
    with that which was drawn "once".

    To a domain's server a device sends a list: the items that it met there, in order, then
    ``negatives`` times as many of the whole domain, drawn with repetition; the changes of their
    rows; its user's row and embedding; and changes of what is shared, without noise. All users who
    met an item of the domain take part in all rounds.
    Source: section 3.2 and Appendix A; main.py, party.py and model.py at 98b2af0.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> [q.claim.epsilon for q in FedGcdr().scoped_claims(Population(n_users=943, n_items=1682))]
    [8.0, 8.0, 8.0, 8.0]
    """

    domains: Annotated[
        int, Range("[2, inf)", whole=True), "domains, of which one is the target"
    ] = 4
    dimension: Annotated[Whole, "entries of an embedding"] = 8
    epsilon: Annotated[Budget, "claimed of one publication"] = 8.0
    delta: Annotated[ProperShare, "claimed of one publication"] = 1e-5
    clip: Annotated[Positive, "largest length of a vector that is sent"] = 1.0
    noise: Annotated[Literal["fresh", "once"], "when the noise of a vector is drawn"] = "fresh"
    negatives: Annotated[Whole, "other items listed for each own one"] = 4
    rounds: Annotated[Whole, "rounds of the target's training"] = 150
    sources: Annotated[Whole, "rounds of each domain by itself, before"] = 5
    learning_rate: Annotated[Positive, "size of a local step of the target, by Adam"] = 0.005
    first_rate: Annotated[Positive, "the same, of each domain by itself"] = 0.05
    init_scale: Annotated[Positive, "standard deviation of the first embeddings"] = 0.1

    privacy = Knob(budgets=("epsilon",), off=1e6)
    aliases = MappingProxyType({"eps": "epsilon"})
    evaluation = Evaluation(cutoffs=(5, 10))

    @property
    def assumes(self) -> tuple[str, ...]:
        """Whom the noise is for: the server of a source has the vector in plain."""
        return ("The servers of sources do not share what they get with that of the target.",)

    @property
    def sigma(self) -> float:
        """Deviation of the noise: the classical calibration, at sensitivity ``clip``."""
        return self.clip * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """The rows and lists of a domain, and a vector of each source."""
        listed = (1 + self.negatives) * interactions.ratings.nnz / self.domains
        listed /= max(1, interactions.n_users)
        vectors = 4 * self.dimension * (2 * self.domains + 2)
        return {"width": self.dimension, "bytes": listed * (4 * self.dimension + 12) + vectors}

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Of a report, a source's vector, its noise: against none where it comes or goes.

        All else shows in the target's lists, but for values of ratings, which nothing depends on.
        """
        silent = scope.is_value or scope.is_presence or scope.unit is Unit.ATTRIBUTE
        if scope.vantage is not Vantage.SERVER or silent:
            return None
        one: Mechanism = Identity()
        if scope.unit is Unit.REPORT:
            one = VectorGaussian(sigma=self.sigma, clip=self.clip, dimension=self.dimension)
            if scope.adjacency is Adjacency.ADD_REMOVE:
                one = Gaussian(sigma=self.sigma, low=0.0, high=self.clip)
        again = self.noise == "fresh" or scope.unit is not Unit.REPORT
        training = scope.horizon is Horizon.TRAINING
        return Repeated(one, self.rounds) if training and again else one

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Of a report its normal noise, each time that it is drawn; all else is sent in plain."""
        if scope.unit is not Unit.REPORT:
            return dp.NonPrivateDpEvent()
        present = scope.adjacency is Adjacency.ADD_REMOVE
        one = dp.GaussianDpEvent(self.sigma / self.clip / (1.0 if present else 2.0))
        again = self.noise == "fresh" and scope.horizon is Horizon.TRAINING
        return dp.SelfComposedDpEvent(one, self.rounds if again else 1)

    def initial(self, n_items: int, rng: Generator) -> dict[str, Floats]:
        """Random items, no biases, and gates through which vectors of sources pass as they are."""
        items = rng.normal(scale=self.init_scale, size=(n_items, self.dimension))
        gates, bias = (
            np.ones((self.domains - 1, self.dimension)),
            np.zeros((self.domains, self.dimension)),
        )
        return {"item": items, "gnn.b": bias, "kt": gates}

    @property
    def length(self) -> int:
        """Rounds of all domains by themselves, then of the target."""
        return self.sources + self.rounds

    def shortened(self, rounds: int) -> Self:
        """The same system with at most so many rounds of either kind."""
        fewer = min(self.rounds, rounds), min(self.sources, rounds)
        return replace(self, rounds=fewer[0], sources=fewer[1])

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """All domains by themselves, at once; then the target with what the others know."""
        n_items, d = interactions.n_items, self.dimension
        users = np.flatnonzero(np.diff(interactions.ratings.indptr))
        own = self.split(sparse.csr_array(interactions.ratings[users]))
        model, rows = self.initial(n_items, rng), np.zeros((len(users), self.domains, d))
        for _ in range(self.sources):
            streams, nothing = Streams.spawn(rng, len(users)), np.zeros((len(users), 0, d))
            sent, moved = self.local(own, range(self.domains), model, rows, nothing, streams)
            yield Round(broadcast=dict(model), uploads=Uploads(users, sent))
            model, rows = self.stepped(model, sent), rows + moved
        clean = self.knowledge(own, model, rows)
        at = np.flatnonzero(np.diff(own[0].indptr))
        target, some = [sparse.csr_array(own[0][at])], rows[at]
        heard, once = np.zeros((len(at), 0, d)), Streams.spawn(rng, len(at))
        for _ in range(self.rounds):
            streams = Streams.spawn(rng, len(at))
            vectors = self.published(clean[at], once if self.noise == "once" else streams)
            heard = vectors.dense(np.arange(len(at)))
            sent, moved = self.local(target, range(1), model, some, heard, streams)
            yield Round(
                broadcast=dict(model), uploads=Uploads(users[at], {**sent, "vectors": vectors})
            )
            model, some = self.stepped(model, sent), some + moved
        nothing = np.zeros((len(users), 0, d))
        outputs = np.stack(
            [self.embedded(own[k], model, rows, nothing, k) for k in range(self.domains)]
        )
        outputs[0][at] = self.embedded(target[0], model, some, heard * model["kt"], 0)
        scores = np.zeros((interactions.n_users, n_items))
        for k in range(self.domains):
            scores[users, k :: self.domains] = outputs[k] @ model["item"][k :: self.domains].T
        release = {"item": model["item"].astype(np.float32)}
        return Trained(release, {"scores": scores})

    def messages(self, calls: Calls) -> Messages:
        """Of a round of the target, to devices whose users' rows are 0."""
        n_items, d = calls.profiles.n_items, self.dimension
        shapes = {"item": (n_items, d), "gnn.b": (self.domains, d), "kt": (self.domains - 1, d)}
        model = {
            name: np.asarray(received(calls.broadcast, name, shape), np.float64)
            for name, shape in shapes.items()
        }
        own = self.split(calls.clients.ratings)
        rows = np.zeros((len(calls.owners), self.domains, d))
        vectors = self.published(self.knowledge(own, model, rows), calls.streams)
        heard = vectors.dense(np.arange(len(rows)))
        sent, _ = self.local(own, range(1), model, rows, heard, calls.streams)
        return {**sent, "vectors": vectors}

    def split(self, ratings: sparse.csr_array) -> list[sparse.csr_array]:
        """The ratings of each domain's items, each of the whole shape, items ascending."""
        domain = np.arange(ratings.shape[1]) % self.domains
        parts = []
        for k in range(self.domains):
            kept = sparse.csr_array(ratings * (domain == k).astype(np.float64)[None, :])
            kept.eliminate_zeros()
            kept.sort_indices()
            parts.append(kept)
        return parts

    def knowledge(self, own: list[sparse.csr_array], model: Broadcast, rows: Floats) -> Floats:
        """What sources know of users, clipped, (n, S, d); 0 of whom they do not know."""
        nothing = np.zeros((len(rows), 0, self.dimension))
        found = [
            self.embedded(own[k], model, rows, nothing, k) * (np.diff(own[k].indptr) > 0)[:, None]
            for k in range(1, self.domains)
        ]
        return np.asarray(clip_norm(np.stack(found, axis=1), self.clip))

    def published(self, vectors: Floats, streams: Streams) -> Randomized:
        """Vectors (n, S, d), none longer than ``clip``, with the noise of these streams."""
        noise = ClippedNoise(self.clip, self.sigma, normal=True)
        return Randomized(Dense(vectors, Kind.MODEL), noise, streams.fold_in(_NOISE))

    def embedded(
        self, own: sparse.csr_array, model: Broadcast, rows: Floats, given: Floats, domain: int
    ) -> Floats:
        """The mean of a user's row, of the rows of its items and of what is ``given``, (n, d)."""
        count = 1 + np.diff(own.indptr) + given.shape[1]
        met = sparse.csr_array((np.ones(own.nnz), own.indices, own.indptr), shape=own.shape)
        whole = rows[:, domain] + met @ model["item"] + given.sum(axis=1)
        return np.asarray(whole / count[:, None] + model["gnn.b"][domain])

    def local(
        self,
        own: list[sparse.csr_array],
        domains: range,
        model: Broadcast,
        rows: Floats,
        heard: Floats,
        streams: Streams,
    ) -> tuple[Messages, Floats]:
        """A step by Adam of every device on the cross entropy of its list, in each of ``domains``.

        Messages, and how users' rows moved (n, D, d). Moments begin at 0 each time.
        """
        n, n_items = own[0].shape
        rate = self.learning_rate if heard.shape[1] else self.first_rate
        moved = np.zeros_like(rows)
        bias, output = np.zeros_like(rows), np.zeros_like(rows)
        messages: Messages = {}
        tables = []
        for k in domains:
            counts, given = (
                np.diff(own[k].indptr),
                heard * np.asarray(model["kt"])[: heard.shape[1]],
            )
            owners, ids, label = self.listed(own[k], streams.fold_in(k), k)
            output[:, k] = h = self.embedded(own[k], model, rows, given, k)
            score = (h[owners] * model["item"][ids]).sum(axis=1)
            size = np.maximum((1 + self.negatives) * counts, 1)
            error = (1.0 / (1.0 + np.exp(-score)) - label) / size[owners]
            pairs, place = np.unique(owners * n_items + ids, return_inverse=True)
            users, items = pairs // n_items, pairs % n_items
            weight, met = (np.bincount(place, each) for each in (error, label))
            of_h = sparse.csr_array((weight, (users, items)), shape=(n, n_items)) @ model["item"]
            inner = of_h / (1 + counts + given.shape[1])[:, None]
            change = weight[:, None] * h[users] + (met > 0)[:, None] * inner[users]
            tables.append((pairs, -rate * _unit(change)))
            bias[:, k], moved[:, k] = -rate * _unit(of_h), -rate * _unit(inner)
            width = (1 + self.negatives) * len(range(k, n_items, self.domains))
            ends = np.append(0, np.cumsum((1 + self.negatives) * counts))
            messages[f"list.{k}"] = Listed(ends, ids, width, Kind.ITEMS)
            if heard.shape[1]:
                gate = -rate * _unit(inner[:, None] * heard)
                messages["kt"] = Dense(gate.astype(np.float32), Kind.CHANGE, 1.0)
        pairs, change = (np.concatenate(parts) for parts in zip(*tables, strict=True))
        order = np.argsort(pairs)
        messages["item"] = _rows(pairs[order], change[order], n, n_items, Kind.CHANGE)
        there = np.stack([np.diff(own[k].indptr) > 0 for k in domains], axis=1)
        who, where = np.nonzero(there)
        for name, table in (("gnn.b", bias), ("user", rows + moved), ("output", output)):
            kind = Kind.CHANGE if name == "gnn.b" else Kind.MODEL
            key = who * self.domains + where
            messages[name] = _rows(key, table[who, where], n, self.domains, kind)
        return messages, moved

    def listed(
        self, own: sparse.csr_array, streams: Streams, domain: int
    ) -> tuple[Ints, Ints, NDArray[np.float64]]:
        """Whose, which and how labelled: own items in order, then others of the domain at random.

        Each is (k,), users ascending. Own ones may be drawn again.
        """
        n, n_items = own.shape
        counts = np.diff(own.indptr)
        held = np.repeat(np.arange(n), counts)
        drawn = np.repeat(np.arange(n), self.negatives * counts)
        most = int(self.negatives * counts.max(initial=0))
        inside = np.arange(most) < self.negatives * counts[:, None]
        size = len(range(domain, n_items, self.domains))
        uniform = streams.fold_in(_NEGATIVES).uniform(most)[inside]
        others = domain + self.domains * (uniform * size).astype(np.int64)
        owners = np.concatenate([held, drawn])
        order = np.argsort(owners, kind="stable")
        label = np.repeat([1.0, 0.0], [len(held), len(drawn)])
        return owners[order], np.concatenate([own.indices, others])[order], label[order]

    def stepped(self, model: Broadcast, sent: Messages) -> dict[str, Floats]:
        """The next model: rows by the mean of those who sent them, all else by that of all."""
        after: dict[str, Floats] = {}
        for name, part in model.items():
            after[name] = np.asarray(part, np.float64)
            table = sent.get(name)
            if isinstance(table, Rows):
                count = np.maximum(np.bincount(table.ids, minlength=table.count), 1)
                after[name] = after[name] + table.total() / count[:, None]
            elif table is not None:
                after[name] = after[name] + table.total() / max(1, len(table))
        return after

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """By each domain's own model, (len(users), n_items)."""
        return np.asarray(model.arrays["scores"][users])


def _unit(gradient: Floats) -> Floats:
    """Adam's first step of size 1."""
    return np.asarray(gradient / (abs(gradient) + _FLOOR))


def _rows(pairs: Ints, values: Floats, n: int, count: int, kind: Kind) -> Rows:
    """Rows of tables of ``count`` rows, of ascending ``pairs``: user times ``count``, plus row."""
    indptr = np.searchsorted(pairs, np.arange(n + 1) * count)
    rate = 1.0 if kind is Kind.CHANGE else None
    return Rows(indptr, pairs % count, values.astype(np.float32), count, kind, rate)
