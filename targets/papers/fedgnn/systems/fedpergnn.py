"""FedPerGNN as released: steps of 32 users at once, clipped as one, with noise on every weight."""

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

from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fedgnn.systems.parts.rating_graph import Gradients, RatingGraph
from fedrec_auditor.targets.settings import Budget, Knob, Positive, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Calls, Messages, Trained, Training
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class FedPerGnn(RatingGraph):
    """The code's loop: a batch of users is one party, its message the model after its step.

    The gradient of the batch's mean loss is clipped by one L2 norm and the model steps along it.
    Then the item table gets normal noise, its deviation that of the table's own change times
    sqrt(items / (``pseudo`` ``batch``)), and every weight Laplace noise of ``noise``. Users are
    dealt to batches anew each epoch, and neighbours looked up anew. ``rounds`` are 3 epochs of 29
    batches, MovieLens 100K's. Source: const.py, model.py, run.py and generator.py at 9e77e2e.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> [q.claim.epsilon for q in FedPerGnn().scoped_claims(Population(n_users=943, n_items=1682))]
    [1.0, 1.0, 1.0]
    """

    clip: Annotated[Positive, "the largest norm of a gradient"] = 0.1
    epsilon: Annotated[Budget, "claimed of one upload"] = 1.0
    batch: Annotated[Whole, "users of a round, together one party"] = 32
    pseudo: Annotated[Whole, "items by which the code's noise is divided, a user"] = 1000
    rounds: Annotated[Whole, "rounds of a training"] = 87

    learning = MappingProxyType(
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
    privacy = Knob(budgets=("epsilon",), off=1e6)

    @property
    def noise(self) -> float:
        """Scale of the Laplace noise on a weight: LR 2 CLIP / sqrt(BATCH_SIZE) / EPS."""
        return self.learning_rate * 2.0 * self.clip / math.sqrt(self.batch) / self.epsilon

    @property
    def side(self) -> float:
        """A step is LR CLIP long at most; one user may turn that of the whole batch."""
        return self.learning_rate * self.clip

    @property
    def extra(self) -> float:
        """What the normal noise may add to the epsilon of a number of the item table.

        Its deviation is at most ``widest`` Laplace scales t, and one law of it is the other with
        N(0, <= t^2) added. Laplace noise after it hides a shift w at |w|, and ln E e^|w| =
        ln(2 Phi(t)) + t^2/2, which is at least E |w|, the loss the other way round.
        """
        widest = self.epsilon / (2.0 * math.sqrt(self.dimension * self.pseudo))
        return float(math.log(2.0) + log_ndtr(widest) + widest**2 / 2.0)

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """One batch a round."""
        return super().takes(interactions) | {"senders": 1}

    def parties(self, n_users: int) -> int:
        """Batches of an epoch; the users who are left over wait for the next one."""
        return max(1, n_users // self.batch)

    def times(self, population: Population) -> int:
        """Batches that a user is in, one an epoch; what others send follows from their model."""
        return math.ceil(self.rounds / self.parties(population.n_users))

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: messages are of whole batches."""
        return replace(super().public(interactions), parties=self.parties(interactions.n_users))

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """A batch after the other; which users it has is chosen by ``rng``, anew each epoch."""
        model, everybody = self.initial(interactions.n_items, rng), interactions.ratings
        parties = self.parties(interactions.n_users)
        kept = np.zeros((interactions.n_users, self.dimension))
        for number in range(self.rounds):
            if number % parties == 0:
                dealt = rng.permutation(interactions.n_users)
                near = self.neighbours(everybody, model, kept)
            users = np.sort(dealt[number % parties * self.batch :][: self.batch])
            ratings = sparse.csr_array(everybody[users])
            one = self.gradients(ratings, model, near[users], kept[users])
            sent = self.stepped(one, model, Streams.spawn(rng, 1))
            yield Round(broadcast=model, uploads=Uploads(np.array([number % parties]), sent))
            kept[users] -= self.user_step(one, model)
            model = {name: part.values[0] for name, part in sent.items()}
        return Trained(model, {**model, "near": near, "kept": kept})

    def messages(self, calls: Calls) -> Messages:
        """The messages of batches of which one user has ratings."""
        profiles, streams = calls.profiles, calls.streams
        model = self.received(calls.broadcast, profiles)
        each = [self.gradients(profiles.ratings[[u]], model) for u in range(profiles.n_users)]
        made = [
            self.stepped(each[u], model, streams.take(copies))
            for u, copies in enumerate(np.arange(len(streams)).reshape(-1, calls.size))
        ]
        parts = {name: np.concatenate([one[name].values for one in made]) for name in model}
        return {name: Dense(part, Kind.MODEL) for name, part in parts.items()}

    def stepped(self, one: Gradients, model: Broadcast, streams: Streams) -> dict[str, Dense]:
        """The model after the step of one batch, once a stream, whose coins it has."""
        share = one.own.sum(axis=1) / max(1, one.own.sum())
        items = (one.weight * share[:, None]).T @ one.hidden
        items += (one.own * share[:, None]).T @ one.shared
        layer = np.tensordot(share, one.layer, axes=1)
        length = math.sqrt((items**2).sum() + (layer**2).sum())
        rate = self.learning_rate * self.clip / max(length, self.clip)
        spread = rate * items.std() * math.sqrt(len(items) / (self.pseudo * self.batch))
        sent = {}
        for name, gradient, deviation in (("item", items, spread), ("gnn.A", layer, 0.0)):
            own = streams.fold_in(zlib.crc32(name.encode()))
            noise = self.noise * own.laplace(gradient.size)
            if deviation:
                noise += deviation * own.normal(gradient.size, gradient.size)
            after = model[name] - rate * gradient + noise.reshape(-1, *gradient.shape)
            sent[name] = Dense(after.astype(np.float32), Kind.MODEL)
        return sent
