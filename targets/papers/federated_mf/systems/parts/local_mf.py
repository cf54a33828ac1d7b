"""Base classes of matrix factorization systems with one user per device."""

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
    check_ratings,
    fit_users,
    initial_user,
    initialize,
    item_gradients,
    predicted,
    project,
)
from fedrec_auditor.targets.settings import (
    NotNegative,
    OpenUnitInterval,
    Positive,
    Probability,
    RatingScale,
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
from fedrec_auditor.targets.systems.system import get_table as table
from fedrec_auditor.targets.transcript import Broadcast, Round


@dataclass(frozen=True, kw_only=True)
class LocalMf(System):
    """Base class with settings, training loop and prediction, for one user per device.

    A subclass defines the messages (``send``) and the next item embeddings V (``run_round``).

    ``factors`` p and ``rounds`` T are the paper's (T = 10 in section 6.3).

    ``bound`` is R, the largest possible rating.

    ``learning_rate`` is gamma, which falls as in section 4.3; the paper prints neither gamma nor
    ``fitting``. After the training every device fits its user embedding to the last V in
    ``fitting`` steps (step c3 of Figure 3d) and predicts with it.
    """

    factors: Annotated[Whole, "p, entries of a user's and of an item's vector"] = 20
    rounds: Annotated[Whole, "T, rounds per training"] = 10
    bound: RatingScale = 5.0
    learning_rate: Annotated[Positive, "gamma, learning rate"] = 1.0
    spread: Annotated[Probability, "spread of the first embeddings; 0: all equal"] = 1.0
    fitting: Annotated[Whole, "steps in which a device fits its embedding to V"] = 20

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    def cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Sizes for estimating the training cost.

        They cover messages of one row, and the passes over the ratings.
        """
        passes = self.rounds + self.fitting
        return {"width": self.factors, "bytes": 4 * self.factors + 24, "passes": passes}

    def first_users(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """User embeddings (n, p) before the first round, which never leave the devices.

        By default they are all equal. ``first`` (m, p) are the first item embeddings, to which a
        subclass may fit them.
        """
        one = initial_user(self.factors, self.bound).astype(np.float32)
        return np.broadcast_to(one, (ratings.shape[0], self.factors))

    @abstractmethod
    def send(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Messages of all devices in one round, and their user embeddings after it.

        A device's part depends only on its own row, embedding and stream, and on the broadcast
        ``model``.
        """

    @abstractmethod
    def run_round(
        self, number: int, model: Broadcast, send: Any, rng: Generator
    ) -> tuple[Round, Floats]:
        """Runs round ``number``: returns the messages, and the next item embeddings.

        ``send(model)`` computes the messages of all devices for a broadcast.
        """

    def extra_tables(self, n_items: int, rng: Generator) -> dict[str, Any]:
        """Further arrays that every broadcast contains; by default none."""
        return {}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Yields the broadcast and the messages of each round."""
        n, m = interactions.n_users, interactions.n_items
        ratings = check_ratings(interactions, self.bound)
        first = initialize(rng.random((m, self.factors)), self.bound, self.spread)
        users, items = self.first_users(ratings, first), first
        constant = self.extra_tables(m, rng)

        def send(model: Broadcast) -> dict[str, Component]:
            nonlocal users
            streams = Streams.spawn(rng, n)
            messages, users = self.send(ratings, users, model, streams)
            return messages

        with one_thread():
            for number in range(self.rounds):
                model = {"items": items, "first": first, "users": np.array(n), **constant}
                crossed, items = self.run_round(number, model, send, rng)
                yield crossed
        return TrainingResult({"items": items, "first": first}, {"items": items})

    def messages(self, calls: UploadRequest) -> Messages:
        """Messages of devices that receive the broadcast in their first round.

        Systems that need the number of users read it from the entry "users" of the broadcast; if
        the entry is missing, they assume 1.
        """
        model, owners = self.get_broadcast(calls.broadcast, calls.profiles), calls.profile_ids
        ratings = check_ratings(calls.profiles, self.bound)
        users = self.first_users(ratings, model["first"])[owners]
        return self.send(sparse.csr_array(ratings[owners]), users, model, calls.streams)[0]

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings u.v of ``users``, (len(users), n_items).

        Each u is fitted to the last item embeddings.
        """
        asked, items = interactions.take_users(users), model.arrays["items"]
        return predicted(asked, items, bound=self.bound, steps=self.fitting)

    def get_broadcast(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """Returns the broadcast with its first item embeddings, named "first".

        If they are missing, they are the current item embeddings. Raises InputError if a table is
        missing or does not have one row per item and p columns.
        """
        sent = dict(broadcast or {})
        sent.setdefault("first", sent.get("items"))  # type: ignore[arg-type]
        for part in ("items", "first"):
            table(sent, part, (profiles.n_items, self.factors))
        return sent


_RATING = 2  # key of the random stream that draws the rating to send


@dataclass(frozen=True, kw_only=True)
class PretrainedMf(LocalMf):
    """Base class for stage 1 of Figure 3d, with the noisy gradient of one rating as the message.

    In stage 1 (step c1) devices fit their user embeddings to the first item embeddings V. The paper
    does not print ``noise_multiplier`` z and ``delta``. It omits the projection of V, without which
    no gradient is bounded. Here the server projects V, and each device projects the received V. A
    user without ratings sends only noise.
    """

    noise_multiplier: Annotated[NotNegative, "z, noise deviation over sensitivity"]
    delta: Annotated[OpenUnitInterval, "delta of the claim"] = 1e-5

    # The paper's symbols on the command line; its sigma is in units of the sensitivity.
    aliases = MappingProxyType({"sigma": "noise_multiplier", "T": "rounds"})

    learning = MappingProxyType({"spread": 0.3, "rounds": 20, "learning_rate": 10.0})
    is_steerable = True  # user embeddings follow from the first V, a part of every broadcast

    unprotected = "fmf-lfl"

    @property
    def sensitivity(self) -> float:
        """Sensitivity of one rating's gradient in item embeddings: its largest norm, 2 R^(3/2)."""
        return 2.0 * self.bound * math.sqrt(self.bound)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, z times the sensitivity.

        A system adds it to every message, or to the sum of all messages.
        """
        return self.noise_multiplier * self.sensitivity

    @property
    def claimed(self) -> float:
        """Claimed epsilon of T Gaussian mechanisms of noise multiplier z, at ``delta``."""
        return self.claimed_at(None, self.delta)

    def claimed_at(self, population: Population | None, delta: float) -> float:
        """Claimed epsilon of T Gaussian mechanisms of noise multiplier z, at any ``delta``.

        Theorem 5 gives only an order, with a constant that does not exist. The exact epsilon of the
        Gaussians is the smallest epsilon that the theorem can mean.
        """
        if self.noise_multiplier == 0:
            return math.inf
        deviation = self.noise_multiplier / math.sqrt(self.rounds)
        return float(dp.get_epsilon_gaussian(deviation, delta)) + 1e-9

    def first_users(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """User embeddings (n, p) fitted to the first item embeddings (step c1)."""
        first = project(first, self.bound)
        return fit_users(ratings, first, bound=self.bound, steps=self.fitting)

    def noisy_upload(
        self,
        ratings: sparse.csr_array,
        users: Floats,
        model: Broadcast,
        streams: Streams,
        scale: float,
    ) -> RandomizedMessages:
        """Messages with one rating's gradient per device, plus N(0, ``scale``^2) noise on all rows.

        Each device draws the rating uniformly from its own. A message has shape (m, p).
        """
        items = project(model["items"], self.bound)
        counts = np.diff(ratings.indptr)
        rated = np.flatnonzero(counts)
        draw = streams.take(rated).fold_in(_RATING).uniform(1)[:, 0]
        place = ratings.indptr[rated] + (draw * counts[rated]).astype(np.int64)
        j = ratings.indices[place]
        gradient = Rows(
            indptr=np.concatenate([[0], np.cumsum(counts > 0)]),
            row_ids=j,
            values=item_gradients(users[rated], items[j], ratings.data[place]),
            n_rows=len(items),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return RandomizedMessages(gradient, MaskedGradient(scale), streams)
