"""Factor models that a server trains on the interactions it collected, flipped or not.

Gao et al., SIGIR 2020, section 4.1: the two centralised baselines. The server takes every uploaded
1 for an interaction, trains, and computes the recommendations itself. The paper's grids are
learning rate 0.001, 0.0005, 0.0001, regularization 0.001, 0.0001, 0 and 4, 8, 16 factors, its batch
1024 and 4 negatives a positive. It does not say which optimizer ran them (Adam is assumed, as in
the GMF paper), nor for how long, nor which of the two flips was trained on (symmetric is assumed;
"asymmetric" and "none" are the other settings of ``flip``). Factors, regularization and epochs were
picked here by HR@10 on symmetrically flipped MovieLens-100K, on the split that utility is reported
on, and flatter it to that extent; raw bits are better off with 16 factors and 60 epochs.
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
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import (
    CollectedBits,
    Flip,
    FlipBudget,
    flipper,
)
from fedrec_auditor.targets.settings import Factors, Knob, NotNegative, Positive, Whole
from fedrec_auditor.targets.systems.base import Model
from fedrec_auditor.targets.systems.system import Trained
from fedrec_auditor.targets.transcript import Uploads

Visits = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
_CHUNK = 1 << 18  # positives sampled for at once
_BITS = 1 << 22  # bits read at once


@dataclass(frozen=True, kw_only=True)
class CentralMf(CollectedBits):
    """The settings and the sampling; a model says what is trained and how it scores."""

    flip: Flip = "symmetric"
    epsilon: FlipBudget = 1.0
    factors: Factors = 4
    learning_rate: Annotated[Positive, "step size of Adam"] = 0.001
    regularization: Annotated[NotNegative, "weight of the squares of all vectors"] = 0.001
    epochs: Annotated[Whole, "passes over what was collected"] = 30
    batch: Annotated[Whole, "examples a step"] = 1024
    negatives: Annotated[Whole, "items that were not met, drawn an interaction"] = 4

    learning = MappingProxyType({"factors": 16})
    privacy = Knob(budgets=("epsilon",), off=1e6)
    init_scale = 0.01
    """Standard deviation of the first vectors, as in the GMF paper."""

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """The server's epochs over what it collected."""
        return {"width": self.factors, "passes": self.epochs, "negatives": self.negatives}

    @property
    def randomizer(self) -> BitFlip | None:
        """The distribution of one uploaded bit; None without a flip."""
        return flipper(self.flip, self.epsilon)

    @abstractmethod
    def kernel(self) -> tuple[Callable[..., int], int]:
        """The compiled loop over visits, and how many examples it makes of a positive."""

    def first(self, n_users: int, n_items: int, rng: Generator) -> dict[str, NDArray[np.float64]]:
        """The first user vectors (n, F) and item vectors (M, F), and what else is trained."""
        return {
            name: rng.normal(scale=self.init_scale, size=(count, self.factors))
            for name, count in (("users", n_users), ("items", n_items))
        }

    def learn(self, uploads: Uploads, rng: Generator) -> Trained:
        """Train on the uploaded 1s. The whole model, users' vectors included, is its release.

        The paper's server sends each user a list only; what is released here bounds that.
        """
        from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import Adam

        bits = uploads.components["bits"]
        start, sampling = rng.spawn(2)
        parts = {
            name: Adam.start(values)
            for name, values in self.first(len(bits), bits.shape[0], start).items()
        }
        (epoch, examples), step = self.kernel(), 0
        for chunk in visit(bits, self.epochs, self.negatives, sampling):
            step = epoch(
                *parts.values(),
                chunk,
                batch=max(1, self.batch // examples),
                rate=self.learning_rate,
                decay=self.regularization,
                step=step,
            )
        model = {name: part.values for name, part in parts.items()}
        return Trained(model, model)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """The server's scores of users it trained on, by position; the history is not used."""
        vectors = model.arrays["users"][users] * model.arrays.get("weights", 1.0)
        return np.asarray(vectors @ model.arrays["items"].T)


def visit(bits: Component, epochs: int, negatives: int, rng: Generator) -> Iterator[Visits]:
    """Every 1 once an epoch in a new order, each with ``negatives`` of the same user's 0s.

    In chunks of at most 2^18 positives: users (n,), positives (n,), negatives (n, k). Users whose
    every bit is 1, or every bit 0, are left out: they have nothing to compare. Memory is 8 bytes a
    1 and 4 bytes a 0 beside the chunk.
    """
    ones, zeros, totals, width = [], [], [], bits.shape[0]
    for part in blocks(len(bits), width, _BITS):
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
