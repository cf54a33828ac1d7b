"""Base class of factor models that a server trains on uploaded interaction bits.

The two central baselines are described in section 4.1 of Gao et al. (SIGIR 2020). The server treats
every uploaded 1 as an interaction, trains, and computes the recommendations itself. The paper
searches learning rates 0.001, 0.0005 and 0.0001, regularization 0.001, 0.0001 and 0, and 4, 8 or 16
factors, with batches of 1024 and 4 negatives per positive.

The paper does not state the optimizer (Adam is assumed, as in the GMF paper), the number of epochs,
or the flip of the training data (symmetric is assumed; "asymmetric" and "none" are the other values
of ``flip``). Factors, regularization and epochs were chosen here by HR@10 on symmetrically flipped
MovieLens-100K. They were chosen on the split on which utility is reported, so the reported utility
is somewhat optimistic. Unflipped bits do better with 16 factors and 60 epochs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Floats, Ints
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import (
    CollectedBits,
    Flip,
    FlipBudget,
    bit_flip,
)
from fedrec_auditor.targets.settings import (
    EmbeddingSize,
    NoiseSetting,
    NotNegative,
    Positive,
    Whole,
)
from fedrec_auditor.targets.systems.base import Model
from fedrec_auditor.targets.systems.system import TrainingResult
from fedrec_auditor.targets.transcript import Uploads

Visits = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
_CHUNK = 1 << 18  # positives per chunk of samples
_BITS = 1 << 22  # bits per block


@dataclass(frozen=True, kw_only=True)
class CentralMf(CollectedBits):
    """Base class of the central factor models, with their settings and their sampling of training
    examples.

    A subclass defines the compiled training loop (``train_kernel``) and, if needed, further trained
    parameters.
    """

    flip: Flip = "symmetric"
    epsilon: FlipBudget = 1.0
    factors: EmbeddingSize = 4
    learning_rate: Annotated[Positive, "learning rate of Adam"] = 0.001
    regularization: Annotated[NotNegative, "weight of the squares of all vectors"] = 0.001
    epochs: Annotated[Whole, "passes over the collected bits"] = 30
    batch: Annotated[Whole, "examples per step"] = 1024
    negatives: Annotated[Whole, "negatives drawn per interaction"] = 4

    learning = MappingProxyType({"factors": 16})
    noise_setting = NoiseSetting(budgets=("epsilon",), off=1e6)
    init_scale = 0.01
    """Standard deviation of the initial user and item vectors, as in the GMF paper."""

    def cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns the arguments of ``Cost.estimate`` for a training, by name: vector width, epochs
        and negatives per positive.
        """
        return {"width": self.factors, "passes": self.epochs, "negatives": self.negatives}

    @property
    def randomizer(self) -> BitFlip | None:
        """Distribution of one uploaded bit given the true bit; None if bits are sent without a
        flip.
        """
        return bit_flip(self.flip, self.epsilon)

    @abstractmethod
    def train_kernel(self) -> tuple[Callable[..., int], int]:
        """Returns the compiled training loop for one chunk of examples, and the number of examples
        that it makes of each positive.
        """

    def first_model(
        self, n_users: int, n_items: int, rng: Generator
    ) -> dict[str, NDArray[np.float64]]:
        """Draws the initial user vectors "users" (n_users, F) and item vectors "items" (n_items,
        F), for F factors.

        A subclass adds further parameters.
        """
        return {
            name: rng.normal(scale=self.init_scale, size=(count, self.factors))
            for name, count in (("users", n_users), ("items", n_items))
        }

    def learn(self, uploads: Uploads, rng: Generator) -> TrainingResult:
        """Trains on the uploaded 1s by Adam, and publishes the whole model, with the users'
        vectors.

        The paper's server sends each user only a list of recommendations. The published model
        reveals at least as much. ``rng`` draws first model and negatives.
        """
        from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import Adam

        bits = uploads.components["bits"]
        start, sampling = rng.spawn(2)
        parts = {
            name: Adam.start(values)
            for name, values in self.first_model(len(bits), bits.shape[0], start).items()
        }
        (epoch, examples), step = self.train_kernel(), 0
        for chunk in iter_visits(bits, self.epochs, self.negatives, sampling):
            step = epoch(
                *parts.values(),
                chunk,
                batch=max(1, self.batch // examples),
                rate=self.learning_rate,
                decay=self.regularization,
                step=step,
            )
        model = {name: part.values for name, part in parts.items()}
        return TrainingResult(model, model)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns the scores of all items for ``users``, shape (len(users), n_items), by the users'
        trained vectors.

        ``interactions`` are not used.
        """
        vectors = model.arrays["users"][users] * model.arrays.get("weights", 1.0)
        return np.asarray(vectors @ model.arrays["items"].T)


def iter_visits(bits: Component, epochs: int, negatives: int, rng: Generator) -> Iterator[Visits]:
    """Yields training examples in chunks: the uploaded 1s, once per epoch, with random negatives.

    The positives are in a new random order in each epoch. Each positive gets ``negatives`` items
    that are drawn from the 0s of its user. ``bits`` has one row of bits per user.

    A chunk is a tuple of users (n,), positive items (n,) and negative items (n, ``negatives``),
    with n at most 2^18. Users whose bits are all 1 or all 0 are left out, because they give no pair
    of a positive and a negative. Memory is 8 bytes per 1, 4 bytes per 0, and one chunk.
    """
    ones, zeros, totals, width = [], [], [], bits.shape[0]
    for part in iter_blocks(len(bits), width, _BITS):
        block = bits.dense(np.arange(part.start, part.stop))
        absent = width - block.sum(axis=1)
        places = np.flatnonzero(block & (absent > 0)[:, None])
        ones.append(places + part.start * width)
        zeros.append(np.nonzero(~block)[1].astype(np.int32))
        totals.append(absent)
    if not ones:
        return
    liked, others = np.concatenate(ones), np.concatenate(zeros)
    absent = np.concatenate(totals)
    first = np.cumsum(absent) - absent
    for _ in range(epochs):
        order = rng.permutation(len(liked))
        for start in range(0, len(order), _CHUNK):
            users, items = np.divmod(liked[order[start : start + _CHUNK]], width)
            drawn = rng.random((len(users), negatives))
            places = first[users, None] + (drawn * absent[users, None]).astype(np.int64)
            yield users.astype(np.int32), items.astype(np.int32), others[places]
