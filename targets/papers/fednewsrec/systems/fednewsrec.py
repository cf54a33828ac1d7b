"""FedNewsRec as released: weights after a clipped step, and the number of clicks in plain."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Dense, Floats, Ints, Kind, Randomized
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.clipped import Clipped
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.mechanisms.laplace import Laplace
from fedrec_auditor.targets.mechanisms.repeated import Repeated
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

_SAMPLES, _NOISE = range(2)
"""Purposes of a client's randomness."""


@dataclass(frozen=True, kw_only=True)
class FedNewsRec(System):
    """FedNewsRec (Qi et al., Findings of EMNLP 2020) as released: 6 users a round, no item table.

    A device takes one step on the mean loss of its clicks: each beside ``negatives`` items that
    were not met, by a softmax. Every number of the gradient is clipped at ``clip``; with ``noise``,
    0 in the released notebook, Laplace noise is on the *weights*, after the step. Beside all
    weights it sends how many clicks it has, by which the server weighs them, unless
    ``sends_count`` is off.

    In the code titles go through frozen word embeddings, a convolution and attention (920,801
    weights), the last ``history`` clicks through attention and a recurrent layer (1,602,002).
    Here an item is ``words`` numbers that everybody knows, the first of them its genres where there
    are any, the others drawn, through one layer, v = tanh(W x), and a user A times the mean v of
    these clicks.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> FedNewsRec().weights(Population(n_users=943, n_items=1682))
    1280
    """

    dimension: Annotated[Whole, "entries of an item's and of a user's vector"] = 16
    words: Annotated[Whole, "numbers by which items are known, genres included"] = 64
    negatives: Annotated[Whole, "items that were not met, beside a click"] = 4
    history: Annotated[Whole, "clicks, the last ones, that make a user's vector"] = 50
    clip: Annotated[Positive, "the largest size of a number of a gradient"] = 0.05
    learning_rate: Annotated[Positive, "size of a step"] = 0.3
    noise: Annotated[NotNegative, "scale of the Laplace noise on a weight, 0: none"] = 0.0
    sends_count: Annotated[bool, "whether the number of clicks is sent"] = True
    cohort: Annotated[Whole, "users a round"] = 6
    rounds: Annotated[Whole, "rounds of a training"] = 500

    aliases = MappingProxyType({"delta": "clip", "lambda": "noise", "lambd": "noise"})
    evaluation = Evaluation()
    privacy = Knob(noise=("noise",), off=0.0)

    @property
    def side(self) -> float:
        """How far a weight moves at most."""
        return self.learning_rate * self.clip

    @property
    def number(self) -> float:
        """Epsilon of one weight."""
        return 2.0 * self.side / self.noise if self.noise else math.inf

    @property
    def stated(self) -> float:
        """2 delta/lambda."""
        return 2.0 * self.clip / self.noise if self.noise else math.inf

    def weights(self, population: Population) -> int:
        """Numbers of the model."""
        return self.dimension * (self.words + self.dimension)

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """A few users a round, who send all weights."""
        numbers = self.dimension * (self.words + self.dimension)
        return {
            "senders": min(self.cohort, interactions.n_users),
            "width": self.words,
            "numbers": numbers,
            "bytes": 4 * numbers + 8,
            "passes": self.rounds * min(1.0, self.cohort / max(1, interactions.n_users)),
            "made": self.dimension * interactions.n_items,
        }

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The noise of a weight, or of all; the identity where there is none, or a count is sent.

        An interaction more is a click more. One in place of another shows in the weights alone.
        """
        if scope.vantage is not Vantage.SERVER or scope.is_presence:
            return None
        found: Mechanism | None = None
        whole = scope.unit in (Unit.USER, Unit.REPORT)
        single = scope.unit in (Unit.INTERACTION, Unit.RATING) and not scope.is_value
        if scope.unit is Unit.COORDINATE and self.noise and not self.sends_count:
            found = Clipped(Laplace(scale=self.noise, low=-self.side, high=self.side))
        elif scope.unit is Unit.COORDINATE or (whole and (self.sends_count or not self.noise)):
            found = Identity()
        elif whole:
            count = self.weights(population)
            found = ComponentLaplace((NoisyComponent("all", count, self.number),), self.side)
        elif single and self.sends_count and scope.adjacency is not Adjacency.REPLACE:
            found = Identity()
        if found is None or scope.horizon is not Horizon.TRAINING:
            return found
        return Repeated(found, self.rounds)

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """The noise of a weight, or of all if no count is sent; a user may be drawn each round."""
        one = scope.unit is Unit.COORDINATE
        if scope.is_presence or not self.noise or self.sends_count:
            return dp.NonPrivateDpEvent()
        spent = self.number * (1 if one else self.weights(population))
        times = self.rounds if scope.horizon is Horizon.TRAINING else 1
        return dp.SelfComposedDpEvent(dp.PureDpEvent(spent), times)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """A cohort a round, drawn by ``rng``."""
        items = self._items(interactions)
        first = rng.standard_normal((self.dimension, self.words)) / math.sqrt(self.words)
        model: Broadcast = {
            "news.W": first.astype(np.float32),
            "user.A": np.eye(self.dimension, dtype=np.float32),
        }
        for _ in range(self.rounds):
            users = np.sort(rng.permutation(interactions.n_users)[: self.cohort])
            streams = Streams.spawn(rng, len(users))
            sent = self.sent(interactions.take(users), model, items, streams)
            yield Round(broadcast=model, uploads=Uploads(users, sent))
            model = self.step(sent, model)
        return Trained(model, {**model, "x": items})

    def step(self, sent: Messages, model: Broadcast) -> Broadcast:
        """The mean of the cohort's weights, by their clicks where these are sent."""
        every = np.arange(len(sent["news.W"]))
        share = np.ones(len(every))
        if self.sends_count:
            share = sent["count"].dense(every).astype(float)
        if not share.any():
            return model
        share /= share.sum()
        return {
            name: np.tensordot(share, sent[name].dense(every), axes=1).astype(np.float32)
            for name in model
        }

    def messages(self, calls: Calls) -> Messages:
        """All weights, "news.W" (d, x) and "user.A" (d, d), and the "count" of clicks."""
        items = self._items(calls.profiles)
        shapes = {
            "news.W": (self.dimension, self.words),
            "user.A": (self.dimension, self.dimension),
        }
        model = {name: received(calls.broadcast, name, shape) for name, shape in shapes.items()}
        return self.sent(calls.clients, model, items, calls.streams)

    def sent(
        self, clients: Interactions, model: Broadcast, items: Floats, streams: Streams
    ) -> Messages:
        """What these clients send."""
        out: Messages = {}
        for name, gradient in self.gradients(clients, model, items, streams).items():
            base = model[name]
            after = base - np.float32(self.learning_rate) * np.clip(gradient, -self.clip, self.clip)
            clean = Dense(after.astype(np.float32), Kind.MODEL, self.learning_rate)
            noise = NoisyChange(base, ClippedNoise(self.side, self.noise))
            own = streams.fold_in(_NOISE).fold_in(zlib.crc32(name.encode()))
            out[name] = Randomized(clean, noise, own) if self.noise else clean
        if self.sends_count:
            counts = np.diff(clients.ratings.indptr).astype(np.int64)
            out["count"] = Dense(counts, Kind.VECTOR)
        return out

    def gradients(
        self, clients: Interactions, model: Broadcast, items: Floats, streams: Streams
    ) -> dict[str, Floats]:
        """Of the mean loss of each client's clicks: (n, d, x) and (n, d, d)."""
        first, layer = (np.asarray(model[name], np.float64) for name in ("news.W", "user.A"))
        ratings, n_items = clients.ratings, clients.n_items
        vectors = np.tanh(items @ first.T)
        last = self._last(clients)
        mean = last @ vectors
        user = mean @ layer.T
        owners, shown = self._samples(ratings, streams.fold_in(_SAMPLES))
        slope = softmax(np.einsum("scd,sd->sc", vectors[shown], user[owners]), axis=1)
        slope[:, 0] -= 1.0
        slope /= np.diff(ratings.indptr)[owners, None]
        entries = (slope.ravel(), (np.repeat(owners, shown.shape[1]), shown.ravel()))
        direct = sparse.coo_array(entries, shape=(len(streams), n_items)).tocsr()
        of_user = direct @ vectors
        of_mean = of_user @ layer
        found = np.empty((len(streams), self.dimension, items.shape[1]))
        for k in range(self.dimension):
            bent = (1.0 - vectors[:, k, None] ** 2) * items
            found[:, k] = user[:, k, None] * (direct @ bent) + of_mean[:, k, None] * (last @ bent)
        return {"news.W": found, "user.A": of_user[:, :, None] * mean[:, None]}

    def _samples(
        self, ratings: sparse.csr_array, streams: Streams
    ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Of each click its client (S,), and what is shown (S, 1 + q): it, and others not met.

        Others are drawn evenly, with repetition; who has met all is shown the last item.
        """
        n_items, sizes = ratings.shape[1], np.diff(ratings.indptr)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        places = np.arange(ratings.nnz) - ratings.indptr[owners]
        count = self.negatives
        drawn = streams.uniform(int(sizes.max(initial=0)) * count).reshape(len(sizes), -1, count)
        rank = (drawn[owners, places] * (n_items - sizes)[owners, None]).astype(np.int64)
        # the r-th item that was not met is r and as many as were met before it
        before = owners * (n_items + 1) + ratings.indices - places
        asked = owners[:, None] * (n_items + 1) + rank
        met = np.searchsorted(before, asked, side="right") - ratings.indptr[owners, None]
        others = np.minimum(rank + met, n_items - 1)
        return owners, np.concatenate([ratings.indices[:, None], others], axis=1)

    def _last(self, clients: Interactions) -> sparse.csr_array:
        """The mean of the last clicks of each client: weights (n, M)."""
        ratings, sizes = clients.ratings, np.diff(clients.ratings.indptr)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        times = np.arange(ratings.nnz) if clients.timestamps is None else clients.timestamps
        order = np.lexsort((times, owners))
        place = np.empty(ratings.nnz, dtype=np.int64)
        place[order] = ratings.indptr[1:][owners] - np.arange(ratings.nnz)
        weight = (place <= self.history) / np.minimum(sizes, self.history)[owners]
        return sparse.csr_array((weight, ratings.indices, ratings.indptr), shape=ratings.shape)

    def _items(self, interactions: Interactions) -> Floats:
        """What everybody knows of items, (M, x)."""
        streams = Streams(np.arange(interactions.n_items, dtype=np.uint64)).fold_in(0)
        known = streams.normal(self.words) / math.sqrt(self.words)
        if interactions.genres is not None:
            genres = interactions.genres[:, : self.words]
            known[:, : genres.shape[1]] = genres
        return known

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Products of the last model's vectors, (len(users), n_items)."""
        arrays = model.arrays
        vectors = np.tanh(arrays["x"] @ arrays["news.W"].T)
        mean = self._last(interactions.take(users)) @ vectors
        return np.asarray(mean @ arrays["user.A"].T @ vectors.T)
