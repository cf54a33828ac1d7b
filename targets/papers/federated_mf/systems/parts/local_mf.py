"""Matrix factorization by users on their own, with items of the server or pretrained."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.components import Component, Floats, Ints, Kind, Randomized, Rows
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import Masked
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    explicit,
    fit_users,
    item_gradients,
    neutral,
    predicted,
    project,
    start,
)
from fedrec_auditor.targets.settings import (
    NotNegative,
    Positive,
    Probability,
    ProperShare,
    Scale,
    Whole,
)
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population, Split
from fedrec_auditor.targets.systems.system import Calls, Messages, System, Trained, Training
from fedrec_auditor.targets.systems.system import received as table
from fedrec_auditor.targets.transcript import Broadcast, Round


@dataclass(frozen=True, kw_only=True)
class LocalMf(System):
    """Settings, training loop and prediction; members say what is sent and how V follows.

    ``factors`` p and ``rounds`` T are the paper's (T = 10 in section 6.3); ``bound`` is R, the
    largest rating there can be; ``learning_rate`` gamma, which falls as in section 4.3, and
    ``fitting`` are not printed. After the training every device fits its user embedding to the
    last V in ``fitting`` steps (step c3 of Figure 3d) and predicts with it.
    """

    factors: Annotated[Whole, "p, entries of a user's and of an item's vector"] = 20
    rounds: Annotated[Whole, "T, rounds of a training"] = 10
    bound: Scale = 5.0
    learning_rate: Annotated[Positive, "gamma, size of a step"] = 1.0
    spread: Annotated[Probability, "of the first embeddings; 0: all are alike"] = 1.0
    fitting: Annotated[Whole, "steps in which a device fits its embedding to V"] = 20

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Messages of which one row is kept, and steps that fit users."""
        passes = self.rounds + self.fitting
        return {"width": self.factors, "bytes": 4 * self.factors + 24, "passes": passes}

    def begin(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """User embeddings (n, p) before the first round, all alike; they never leave the devices.

        ``first`` (m, p) is the first V, to which a member may fit them.
        """
        one = neutral(self.factors, self.bound).astype(np.float32)
        return np.broadcast_to(one, (ratings.shape[0], self.factors))

    @abstractmethod
    def send(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """All devices' messages, and their user embeddings after it.

        A device's part depends on its own row, embedding and stream, and on the broadcast only.
        """

    @abstractmethod
    def turn(
        self, number: int, model: Broadcast, send: Any, rng: Generator
    ) -> tuple[Round, Floats]:
        """One round: what crossed, and the next V. ``send(model)`` gives all devices' messages."""

    def announced(self, n_items: int, rng: Generator) -> dict[str, Any]:
        """What else every broadcast has in it."""
        return {}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """The broadcasts and messages of all rounds."""
        n, m = interactions.n_users, interactions.n_items
        ratings = explicit(interactions, self.bound)
        first = start(rng.random((m, self.factors)), self.bound, self.spread)
        users, items = self.begin(ratings, first), first
        constant = self.announced(m, rng)

        def send(model: Broadcast) -> dict[str, Component]:
            nonlocal users
            streams = Streams.spawn(rng, n)
            messages, users = self.send(ratings, users, model, streams)
            return messages

        with one_thread():
            for number in range(self.rounds):
                model = {"items": items, "first": first, "users": np.array(n), **constant}
                crossed, items = self.turn(number, model, send, rng)
                yield crossed
        return Trained({"items": items, "first": first}, {"items": items})

    def messages(self, calls: Calls) -> Messages:
        """Messages of devices that meet the broadcast in their first round.

        The broadcast says how many "users" there are; without it, this one.
        """
        model, owners = self.received(calls.broadcast, calls.profiles), calls.owners
        ratings = explicit(calls.profiles, self.bound)
        users = self.begin(ratings, model["first"])[owners]
        return self.send(sparse.csr_array(ratings[owners]), users, model, calls.streams)[0]

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings u.v, (len(users), n_items), each user fitted to the last V."""
        asked, items = interactions.take(users), model.arrays["items"]
        return predicted(asked, items, bound=self.bound, steps=self.fitting)

    def received(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """The broadcast, with V as it was first, to which user embeddings are pre-trained."""
        sent = dict(broadcast or {})
        sent.setdefault("first", sent.get("items"))  # type: ignore[arg-type]
        for part in ("items", "first"):
            table(sent, part, (profiles.n_items, self.factors))
        return sent


_RATING = 2  # purpose of a client's stream: which rating it sends


@dataclass(frozen=True, kw_only=True)
class PretrainedMf(LocalMf):
    """Stage 1 of Figure 3d (step c1), and the noisy gradient of one rating that a device sends.

    ``noise_multiplier`` z and ``delta`` are not printed. The paper forgets the projection of V,
    without which no gradient is bounded: the server projects, and so does each device what it
    receives. A user without ratings sends noise.
    """

    noise_multiplier: Annotated[NotNegative, "z, the noise over the sensitivity"]
    delta: Annotated[ProperShare, "of the claim"] = 1e-5

    # The paper's symbols on the command line; sigma there is in units of the sensitivity.
    aliases = MappingProxyType({"sigma": "noise_multiplier", "T": "rounds"})

    learning = MappingProxyType({"spread": 0.3, "rounds": 20, "learning_rate": 10.0})
    steerable = True  # user embeddings follow from the first V, which every broadcast has in it

    unprotected = "fmf-lfl"

    @property
    def sensitivity(self) -> float:
        """2 R^(3/2), of one rating's gradient."""
        return 2.0 * self.bound * math.sqrt(self.bound)

    @property
    def sigma(self) -> float:
        """z times the sensitivity: the noise on a message, or on their sum."""
        return self.noise_multiplier * self.sensitivity

    @property
    def claimed(self) -> float:
        """Epsilon of T Gaussians of noise multiplier z at ``delta``."""
        return self.claimed_at(None, self.delta)

    def claimed_at(self, population: Population | None, delta: float) -> float:
        """The same at any delta, exactly.

        Theorem 5 has an order with a constant that is none; this is the least epsilon it can mean.
        """
        if self.noise_multiplier == 0:
            return math.inf
        deviation = self.noise_multiplier / math.sqrt(self.rounds)
        return float(dp.get_epsilon_gaussian(deviation, delta)) + 1e-9

    def begin(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """Fitted to the first V (step c1)."""
        first = project(first, self.bound)
        return fit_users(ratings, first, bound=self.bound, steps=self.fitting)

    def masked(
        self,
        ratings: sparse.csr_array,
        users: Floats,
        model: Broadcast,
        streams: Streams,
        scale: float,
    ) -> Randomized:
        """The gradient of one rating a device, drawn uniformly, plus N(0, ``scale``^2) on all rows.

        Messages are (m, p).
        """
        items = project(model["items"], self.bound)
        counts = np.diff(ratings.indptr)
        rated = np.flatnonzero(counts)
        draw = streams.take(rated).fold_in(_RATING).uniform(1)[:, 0]
        place = ratings.indptr[rated] + (draw * counts[rated]).astype(np.int64)
        j = ratings.indices[place]
        gradient = Rows(
            indptr=np.concatenate([[0], np.cumsum(counts > 0)]),
            ids=j,
            values=item_gradients(users[rated], items[j], ratings.data[place]),
            count=len(items),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return Randomized(gradient, Masked(scale), streams)
