"""Matrix factorization with one user per device, with the server's or pretrained items."""

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
from fedrec_auditor.targets.components import (
    Component,
    Floats,
    Ints,
    Kind,
    RandomizedMessages,
    Rows,
)
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import MaskedGradient
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
from fedrec_auditor.targets.systems.system import (
    Messages,
    System,
    Training,
    TrainingResult,
    UploadRequest,
)
from fedrec_auditor.targets.systems.system import received as table
from fedrec_auditor.targets.transcript import Broadcast, Round


@dataclass(frozen=True, kw_only=True)
class LocalMf(System):
    """Settings, training loop and prediction; members define the messages and the next V.

    ``factors`` p and ``rounds`` T are the paper's (T = 10 in section 6.3).
    ``bound`` is R, the largest possible rating.
    ``learning_rate`` gamma, which falls as in section 4.3, and ``fitting`` are not printed. After
    the training every device fits its user embedding to the last V in ``fitting`` steps (step c3 of
    Figure 3d) and predicts with it.
    """

    factors: Annotated[Whole, "p, entries of a user's and of an item's vector"] = 20
    rounds: Annotated[Whole, "T, rounds per training"] = 10
    bound: Scale = 5.0
    learning_rate: Annotated[Positive, "gamma, learning rate"] = 1.0
    spread: Annotated[Probability, "spread of the first embeddings; 0: all equal"] = 1.0
    fitting: Annotated[Whole, "steps in which a device fits its embedding to V"] = 20

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Sizes for the estimate of a training's cost: messages of one row, and fitting steps."""
        passes = self.rounds + self.fitting
        return {"width": self.factors, "bytes": 4 * self.factors + 24, "passes": passes}

    def begin(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """Equal user embeddings (n, p) before the first round; they never leave the devices.

        ``first`` (m, p) is the first V, to which a member may fit them.
        """
        one = neutral(self.factors, self.bound).astype(np.float32)
        return np.broadcast_to(one, (ratings.shape[0], self.factors))

    @abstractmethod
    def send(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """All devices' messages, and their user embeddings after it.

        A device's part depends only on its own row, embedding and stream, and on the broadcast.
        """

    @abstractmethod
    def turn(
        self, number: int, model: Broadcast, send: Any, rng: Generator
    ) -> tuple[Round, Floats]:
        """Runs one round: returns its messages and the next V.

        ``send(model)`` gives all devices' messages.
        """

    def announced(self, n_items: int, rng: Generator) -> dict[str, Any]:
        """Further arrays of every broadcast."""
        return {}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Yields the broadcasts and messages of all rounds."""
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
        return TrainingResult({"items": items, "first": first}, {"items": items})

    def messages(self, calls: UploadRequest) -> Messages:
        """Messages of devices that receive the broadcast in their first round.

        The broadcast states the number of "users"; by default it is the number of profiles.
        """
        model, owners = self.received(calls.broadcast, calls.profiles), calls.owners
        ratings = explicit(calls.profiles, self.bound)
        users = self.begin(ratings, model["first"])[owners]
        return self.send(sparse.csr_array(ratings[owners]), users, model, calls.streams)[0]

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings u.v, (len(users), n_items), with each user fitted to the last V."""
        asked, items = interactions.take(users), model.arrays["items"]
        return predicted(asked, items, bound=self.bound, steps=self.fitting)

    def received(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """The broadcast, with the first V, to which user embeddings are pre-trained."""
        sent = dict(broadcast or {})
        sent.setdefault("first", sent.get("items"))  # type: ignore[arg-type]
        for part in ("items", "first"):
            table(sent, part, (profiles.n_items, self.factors))
        return sent


_RATING = 2  # purpose of a client's stream: the draw of the rating to send


@dataclass(frozen=True, kw_only=True)
class PretrainedMf(LocalMf):
    """Stage 1 of Figure 3d (step c1), and the noisy gradient of one rating that a device sends.

    ``noise_multiplier`` z and ``delta`` are not printed. The paper omits the projection of V,
    without which no gradient is bounded: here the server projects V, and each device projects the
    received V. A user without ratings sends only noise.
    """

    noise_multiplier: Annotated[NotNegative, "z, noise deviation over sensitivity"]
    delta: Annotated[ProperShare, "delta of the claim"] = 1e-5

    # The paper's symbols on the command line; its sigma is in units of the sensitivity.
    aliases = MappingProxyType({"sigma": "noise_multiplier", "T": "rounds"})

    learning = MappingProxyType({"spread": 0.3, "rounds": 20, "learning_rate": 10.0})
    steerable = True  # user embeddings follow from the first V, a part of every broadcast

    unprotected = "fmf-lfl"

    @property
    def sensitivity(self) -> float:
        """Sensitivity of one rating's gradient, 2 R^(3/2)."""
        return 2.0 * self.bound * math.sqrt(self.bound)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on a message, or on the sum: z times the sensitivity."""
        return self.noise_multiplier * self.sensitivity

    @property
    def claimed(self) -> float:
        """Epsilon of T Gaussians of noise multiplier z at ``delta``."""
        return self.claimed_at(None, self.delta)

    def claimed_at(self, population: Population | None, delta: float) -> float:
        """Epsilon of T Gaussians of noise multiplier z at any ``delta``, exactly.

        Theorem 5 gives an order with a constant that does not exist; this is the smallest epsilon
        that it can mean.
        """
        if self.noise_multiplier == 0:
            return math.inf
        deviation = self.noise_multiplier / math.sqrt(self.rounds)
        return float(dp.get_epsilon_gaussian(deviation, delta)) + 1e-9

    def begin(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """User embeddings fitted to the first V (step c1)."""
        first = project(first, self.bound)
        return fit_users(ratings, first, bound=self.bound, steps=self.fitting)

    def masked(
        self,
        ratings: sparse.csr_array,
        users: Floats,
        model: Broadcast,
        streams: Streams,
        scale: float,
    ) -> RandomizedMessages:
        """One rating's gradient per device, drawn uniformly, plus N(0, ``scale``^2) on all rows.

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
        return RandomizedMessages(gradient, MaskedGradient(scale), streams)
