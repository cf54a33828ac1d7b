"""FedPerGNN as released: 32 users together are one party, with noise on every weight."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from scipy import sparse
from scipy.special import log_ndtr

from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fedgnn.rating_graph import RatingGraphSystem, UserGradients
from fedrec_auditor.targets.settings import Count, Epsilon, NoiseSetting, Positive
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Messages, TrainingRounds, UploadRequest
from fedrec_auditor.targets.transcript import Broadcast, PublicInfo, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class FedPerGnn(RatingGraphSystem):
    """FedPerGNN as released: a batch of users is one party, which sends the model after its step.

    A round of one batch has three steps:

    1. The gradient of the batch's mean loss is scaled to an L2 norm of at most ``clip``, and the
       model takes a step along it.
    2. The item table gets normal noise. Its deviation is the standard deviation, over all entries,
       of the step of the item table, times sqrt(items / (``pseudo`` * ``batch``)).
    3. Every weight gets Laplace noise, whose scale (the property ``noise``) follows from
       ``epsilon``.

    Source: const.py, model.py, run.py and generator.py at 9e77e2e.

    ``clip``: largest L2 norm of a batch's gradient.
    ``epsilon``: epsilon that the paper claims for one upload.
    ``batch``: number of users of a batch.
    ``pseudo``: number of pseudo items (random items that the user did not rate) per user; the code
        divides the deviation of its normal noise by the square root of this number.
    ``rounds``: number of batches in a training; 87 are 3 epochs of MovieLens 100K.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> population = Population(n_users=943, n_items=1682)
    >>> [q.claim.epsilon for q in FedPerGnn().get_claims(population)]
    [1.0, 1.0, 1.0]
    """

    # In each epoch users are divided into new batches, and the mean embeddings of neighbouring
    # users (users of a common item) are computed again.

    clip: Annotated[Positive, "largest norm of a gradient"] = 0.1
    epsilon: Annotated[Epsilon, "claimed epsilon of one upload"] = 1.0
    batch: Annotated[Count, "users of a round, together one party"] = 32
    pseudo: Annotated[Count, "items per user by which the code's noise is divided"] = 1000
    rounds: Annotated[Count, "rounds per training"] = 87

    tuned_values = MappingProxyType(
        {
            "dimension": 16,
            "init_scale": 0.01,
            "level": 1.0,
            "best": 1.0,
            "user_rate": 0.001,
            "learning_rate": 3.0,
            "rounds": 3480,
        }
    )
    noise_setting = NoiseSetting(budget_names=("epsilon",), noiseless_value=1e6)

    @property
    def noise(self) -> float:
        """Scale of the Laplace noise on each weight: 2 learning_rate clip / (sqrt(batch) epsilon).

        The released code writes this scale as LR 2 CLIP / sqrt(BATCH_SIZE) / EPS.
        """
        return self.learning_rate * 2.0 * self.clip / math.sqrt(self.batch) / self.epsilon

    @property
    def max_entry(self) -> float:
        """Largest absolute value of an entry of a batch's step: learning rate times ``clip``."""
        # This is the norm of the longest step, which may lie in one entry. The value is not divided
        # by the number of users, because the batch's gradient is clipped as a whole, and one user's
        # data may reverse it.
        return self.learning_rate * self.clip

    @property
    def data_noise_epsilon(self) -> float:
        """Largest amount by which normal noise increases the epsilon of one entry of the item
        table.

        Normal noise is added before the Laplace noise. It costs epsilon because its deviation
        depends on the data.
        """
        # The deviation of the normal noise is at most t = ``widest`` Laplace scales. Its
        # distribution under one input is that under the other input with N(0, <= t^2) added.
        # Laplace noise after it hides a shift w at a privacy loss of |w|. ln E e^|w| = ln(2 Phi(t))
        # + t^2/2, with Phi the normal distribution function, is at least E |w|, the loss in the
        # other direction.
        widest = self.epsilon / (2.0 * math.sqrt(self.dimension * self.pseudo))
        return float(math.log(2.0) + log_ndtr(widest) + widest**2 / 2.0)

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``: one sender (a batch of users) per
        round.
        """
        return super().get_training_cost_args(interactions) | {"senders_per_round": 1}

    def count_batches(self, n_users: int) -> int:
        """Returns the number of full batches per epoch, at least 1.

        Users beyond the last full batch are left out of the epoch.
        """
        return max(1, n_users // self.batch)

    def count_messages_with_user(self, population: Population) -> int:
        """Returns the largest number of messages in a training whose batch contains a given user.

        A user is in at most one batch per epoch. Messages of later batches depend on the user only
        through the models that were sent before.
        """
        return math.ceil(self.rounds / self.count_batches(population.n_users))

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows of a run; the senders are the batches of users."""
        n = self.count_batches(interactions.n_users)
        return replace(super().get_public_info(interactions), n_silos=n)

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Trains on one batch per round, and yields the message of the batch.

        ``rng`` draws the initial model, the batches of each epoch and the noise.
        """
        model, everybody = self.draw_initial_model(interactions.n_items, rng), interactions.ratings
        parties = self.count_batches(interactions.n_users)
        own = np.zeros((interactions.n_users, self.dimension))
        for number in range(self.rounds):
            if number % parties == 0:
                dealt = rng.permutation(interactions.n_users)
                near = self.compute_neighbour_means(everybody, model, own)
            users = np.sort(dealt[number % parties * self.batch :][: self.batch])
            ratings = sparse.csr_array(everybody[users])
            one = self.compute_gradients(ratings, model, near[users], own[users])
            sent = self.take_batch_step(one, model, Streams.spawn(rng, 1))
            yield Round(broadcast=model, uploads=Uploads(np.array([number % parties]), sent))
            own[users] -= self.compute_user_step(one, model)
            model = {name: part.values[0] for name, part in sent.items()}
        return system.TrainingResult(model, {**model, "near": near, "kept": own})

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the requested messages, as arrays by name.

        The senders are batches of users. For each requested user, the message is that of a batch in
        which only this user has ratings.
        """
        profiles, streams = request.profiles, request.streams
        model = self.get_model_arrays(request.broadcast, profiles)
        n, size = profiles.n_users, request.messages_per_client
        each = [self.compute_gradients(profiles.ratings[[u]], model) for u in range(n)]
        made = [
            self.take_batch_step(each[u], model, streams.take(copies))
            for u, copies in enumerate(np.arange(len(streams)).reshape(-1, size))
        ]
        parts = {name: np.concatenate([one[name].values for one in made]) for name in model}
        return {name: Dense(part, Payload.MODEL) for name, part in parts.items()}

    def take_batch_step(
        self, gradients: UserGradients, model: Broadcast, streams: Streams
    ) -> dict[str, Dense]:
        """Returns noisy copies of ``model`` after the step of one batch, as arrays by name.

        ``gradients``: gradients of the users of the batch.
        ``model``: item table "item" and layer "gnn.A" before the step.
        ``streams``: random streams of the noise; there is one copy per stream, as the first axis of
            every array.
        """
        share = gradients.is_rated.sum(axis=1) / max(1, gradients.is_rated.sum())
        items = (gradients.item_weights * share[:, None]).T @ gradients.hidden_vectors
        items += (gradients.is_rated * share[:, None]).T @ gradients.item_row_offsets
        layer = np.tensordot(share, gradients.layer_gradients, axes=1)
        length = math.sqrt((items**2).sum() + (layer**2).sum())
        rate = self.learning_rate * self.clip / max(length, self.clip)
        spread = rate * items.std() * math.sqrt(len(items) / (self.pseudo * self.batch))
        sent = {}
        for name, gradient, deviation in (("item", items, spread), ("gnn.A", layer, 0.0)):
            own = streams.derive(zlib.crc32(name.encode()))
            noise = self.noise * own.draw_laplace(gradient.size)
            if deviation:
                noise += deviation * own.draw_normal(gradient.size, gradient.size)
            after = model[name] - rate * gradient + noise.reshape(-1, *gradient.shape)
            sent[name] = Dense(after.astype(np.float32), Payload.MODEL)
        return sent
