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
from fedrec_auditor.targets import components, settings
from fedrec_auditor.targets.components import Component, Floats, Ints, Payload, RandomizedMessages
from fedrec_auditor.targets.compute import Machine, limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts import sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import NoiseAdder
from fedrec_auditor.targets.settings import BestRating, Count, NonNegative, Positive, Probability
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import HoldOut, Model, Population, UtilityTest
from fedrec_auditor.targets.systems.system import Messages, System, TrainingRounds, UploadRequest
from fedrec_auditor.targets.systems.system import get_broadcast_array as table
from fedrec_auditor.targets.transcript import Broadcast, Round


@dataclass(frozen=True, kw_only=True)
class LocalMf(System):
    """Base class of matrix factorization on devices of one user: settings, training and prediction.

    After the training every device fits its user embedding to the last item embeddings (step c3 of
    Figure 3d), and predicts with it.

    ``factors``: number p of entries of an embedding, as in the paper.
    ``rounds``: number T of rounds, 10 in section 6.3.
    ``bound``: R, upper bound of all ratings: the largest possible rating.
    ``learning_rate``: initial learning rate gamma, which falls as in section 4.3; the paper does
        not print it.
    ``spread``: width of the distribution of initial embeddings, from 0 (all equal) to 1.
    ``fitting``: number of gradient steps in which a device fits its user embedding to given item
        embeddings; the paper does not print it.
    ``evaluation``: the paper's protocol for measuring utility.
    """

    # A subclass defines the messages (``run_devices``) and the next item embeddings
    # (``run_round``).

    factors: Annotated[Count, "p, entries of a user's and of an item's vector"] = 20
    rounds: Annotated[Count, "T, rounds per training"] = 10
    bound: BestRating = 5.0
    learning_rate: Annotated[Positive, "gamma, learning rate"] = 1.0
    spread: Annotated[Probability, "spread of the first embeddings; 0: all equal"] = 1.0
    fitting: Annotated[Count, "steps in which a device fits its embedding to V"] = 20

    evaluation = UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=())

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, for the cost of a training.

        A message has one row of the item table and 24 further bytes. Every round and every
        ``fitting`` step is one pass over the ratings.
        """
        passes = self.rounds + self.fitting
        return {"width": self.factors, "message_bytes": 4 * self.factors + 24, "passes": passes}

    def init_user_embeddings(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """Returns the initial user embeddings, one row per user; they never leave the devices.

        ``ratings``: ratings, one row per user.
        ``first``: initial item embeddings, one row per item.

        By default all user embeddings are equal. A subclass may fit them to ``ratings`` at
        ``first``.
        """
        one = sgd_mf.make_initial_user(self.factors, self.bound).astype(np.float32)
        return np.broadcast_to(one, (ratings.shape[0], self.factors))

    @abstractmethod
    def run_devices(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Runs one round on all devices; returns their messages and their new user embeddings.

        ``ratings``, ``users``: ratings and user embeddings, one row per device.
        ``model``: the broadcast, as arrays by name.
        ``streams``: one random stream per device.

        The messages are arrays by name, one message per device. A message depends only on the
        device's own ratings, embedding and stream, and on the broadcast.
        """

    @abstractmethod
    def run_round(
        self, round_index: int, model: Broadcast, collect_messages: Any, rng: Generator
    ) -> tuple[Round, Floats]:
        """Runs one round; returns its messages, and the next item embeddings, one row per item.

        ``round_index``: index of the round.
        ``model``: the broadcast, as arrays by name.
        ``collect_messages``: function that computes all devices' messages for a broadcast.
        ``rng``: source of the server's randomness.
        """

    def draw_broadcast_arrays(self, n_items: int, rng: Generator) -> dict[str, Any]:
        """Draws the constant arrays of every broadcast of a training, by name; by default none.

        Item embeddings are not among these arrays.
        """
        return {}

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs the training; yields each round's broadcast with all devices' messages, and returns
        the result.
        """
        n, m = interactions.n_users, interactions.n_items
        ratings = sgd_mf.check_ratings(interactions, self.bound)
        first = sgd_mf.init_embeddings(rng.random((m, self.factors)), self.bound, self.spread)
        users, items = self.init_user_embeddings(ratings, first), first
        constant = self.draw_broadcast_arrays(m, rng)

        def collect_messages(model: Broadcast) -> dict[str, Component]:
            """Returns the messages of all devices for a broadcast; also updates their user
            embeddings.
            """
            nonlocal users
            messages, users = self.run_devices(ratings, users, model, Streams.spawn(rng, n))
            return messages

        with limit_to_one_thread():
            for number in range(self.rounds):
                model = {"items": items, "first": first, "users": np.array(n), **constant}
                crossed, items = self.run_round(number, model, collect_messages, rng)
                yield crossed
        return system.TrainingResult({"items": items, "first": first}, {"items": items})

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the messages of devices in their first round, for the requested broadcast.

        The user embeddings are the initial ones. A system that needs the number of users reads it
        from the broadcast array "users", by default 1.
        """
        model, rows = self.fill_broadcast(request.broadcast, request.profiles), request.sender_rows
        ratings = sgd_mf.check_ratings(request.profiles, self.bound)
        users = self.init_user_embeddings(ratings, model["first"])[rows]
        return self.run_devices(sparse.csr_array(ratings[rows]), users, model, request.streams)[0]

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns predicted ratings u.v of ``users``, shape (len(users), n_items).

        Each user embedding u is fitted to the last item embeddings v.
        """
        asked, items = interactions.take_users(users), model.arrays["items"]
        return sgd_mf.predict_ratings(asked, items, bound=self.bound, steps=self.fitting)

    def fill_broadcast(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """Checks a broadcast, and returns it with the default value of "first" if this is missing.

        ``broadcast``: arrays by name. "items" (current item embeddings) is required. "first"
            (initial item embeddings) is by default "items".
        ``profiles``: interactions of the users, which give the number of items.

        Raises InputError if "items" is missing, or if a table does not have shape (n_items,
        factors).
        """
        sent = dict(broadcast or {})
        sent.setdefault("first", sent.get("items"))  # type: ignore[arg-type]
        for part in ("items", "first"):
            table(sent, part, (profiles.n_items, self.factors))
        return sent


_RATING_KEY = 2  # key of the random stream that draws the rating to send


@dataclass(frozen=True, kw_only=True)
class PretrainedMf(LocalMf):
    """Base class of systems with pre-trained users, whose message is one rating's noisy gradient.

    Before the rounds, devices fit their user embeddings to the initial item embeddings (stage 1,
    step c1 of Figure 3d), and keep them. The server and every device project item embeddings. A
    user without ratings sends only noise.

    ``noise_multiplier``: z, deviation of the noise divided by the sensitivity; the paper prints
        none.
    ``delta``: delta of the claim; the paper prints none.
    ``aliases``: map from the paper's symbols to names of settings.
    ``has_independent_rounds``: whether rounds are independent if the server chooses all broadcasts.
    ``unprotected_name``: command-line name of the same system without noise.
    """

    # The paper omits the projection on the device, without which no gradient is bounded.

    noise_multiplier: Annotated[NonNegative, "z, noise deviation over sensitivity"]
    delta: Annotated[settings.OpenUnitInterval, "delta of the claim"] = 1e-5

    # The paper's symbols on the command line; its sigma is in units of the sensitivity.
    aliases = MappingProxyType({"sigma": "noise_multiplier", "T": "rounds"})

    tuned_values = MappingProxyType({"spread": 0.3, "rounds": 20, "learning_rate": 10.0})
    noise_setting = settings.NoiseSetting(noise_names=("noise_multiplier",), noiseless_value=0.0)
    has_independent_rounds = True  # user embeddings follow from the broadcast's array "first"

    # Name, on the command line, of the same system without noise.
    unprotected_name = "fmf-lfl"

    @property
    def sensitivity(self) -> float:
        """Largest norm of one rating's gradient with respect to its item embedding: 2 R^(3/2).

        R is the largest rating.
        """
        return 2.0 * self.bound * math.sqrt(self.bound)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise: ``noise_multiplier`` times the sensitivity.

        A system adds the noise to every message, or to the sum of all messages.
        """
        return self.noise_multiplier * self.sensitivity

    @property
    def claimed_epsilon(self) -> float:
        """Claimed epsilon of all rounds at the setting ``delta`` (``compute_claimed_epsilon``)."""
        return self.compute_claimed_epsilon(None, self.delta)

    def compute_claimed_epsilon(self, population: Population | None, delta: float) -> float:
        """Returns the claimed epsilon at ``delta``: the exact epsilon of one Gaussian mechanism per
        round.

        Theorem 5 leaves a factor of the noise open; no true reading has a smaller epsilon. Epsilon
        is infinite without noise. ``population`` is not used.
        """
        # Theorem 5 states the noise only up to a constant factor, which the paper does not specify.
        # No constant is right for all settings.
        if self.noise_multiplier == 0:
            return math.inf
        deviation = self.noise_multiplier / math.sqrt(self.rounds)
        return float(dp.get_epsilon_gaussian(deviation, delta)) + 1e-9

    def init_user_embeddings(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """Returns user embeddings that are fitted to the initial item embeddings, one row per user.

        ``ratings``: ratings, one row per user.
        ``first``: initial item embeddings, one row per item.

        Source: step c1 of Figure 3d.
        """
        first = sgd_mf.project_embeddings(first, self.bound)
        return sgd_mf.fit_user_embeddings(ratings, first, bound=self.bound, steps=self.fitting)

    def make_noisy_messages(
        self,
        ratings: sparse.csr_array,
        users: Floats,
        model: Broadcast,
        streams: Streams,
        noise_sigma: float,
    ) -> RandomizedMessages:
        """Returns the messages of all devices: the noisy gradient of one rating per device.

        ``ratings``, ``users``: ratings and user embeddings, one row per device.
        ``model``: the broadcast, with the item embeddings "items".
        ``streams``: one random stream per device.
        ``noise_sigma``: standard deviation of the noise on every entry.

        Each device draws one of its ratings uniformly; without ratings it sends only noise. A
        message has shape (m, p), for m items and p factors.
        """
        items = sgd_mf.project_embeddings(model["items"], self.bound)
        counts = np.diff(ratings.indptr)
        rated = np.flatnonzero(counts)
        draw = streams.take(rated).derive(_RATING_KEY).draw_uniform(1)[:, 0]
        place = ratings.indptr[rated] + (draw * counts[rated]).astype(np.int64)
        j = ratings.indices[place]
        gradient = components.SparseRows(
            indptr=np.concatenate([[0], np.cumsum(counts > 0)]),
            row_ids=j,
            values=sgd_mf.compute_item_gradients(users[rated], items[j], ratings.data[place]),
            n_rows=len(items),
            kind=Payload.GRADIENT,
            learning_rate=-1.0,
        )
        return RandomizedMessages(gradient, NoiseAdder(noise_sigma), streams)
