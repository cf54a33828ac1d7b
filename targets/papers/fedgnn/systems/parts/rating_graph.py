"""A rating predictor on the graph of a user's own items: what both systems train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import check_settings, usual
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population, Split
from fedrec_auditor.targets.systems.system import System, received
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients of n users: row i of the item table has ``weight[i] * hidden + shared``.

    ``own`` and ``weight`` are (n, M), ``hidden`` and ``shared`` (n, d), ``layer`` (n, d, d). The
    mean and covariance of a user's rows are those of its weights.
    """

    own: NDArray[np.bool_]
    weight: Floats
    hidden: Floats
    shared: Floats
    layer: Floats


@dataclass(frozen=True, kw_only=True)
class RatingGraph(System):
    """One graph convolution, a dot product and the squared error of a user's ratings.

    With m the mean of the user's items' embeddings, averaged with that of the neighbouring users
    once there are any, h = A m is the user's embedding and level + best h.v a predicted rating.
    ``learning_rate`` and ``dimension`` are the released code's; ``best``, ``level`` and
    ``init_scale`` are ours.
    """

    dimension: int = 64
    learning_rate: float = 0.01
    best: float = 5.0
    level: float = 3.5
    init_scale: float = 0.1

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    def __post_init__(self) -> None:
        check_settings(self, **{n: r for n, r in usual(self).items() if n != "norm"})

    def weights(self, population: Population) -> int:
        """Numbers of the model: the item table and the layer."""
        return self.dimension * (population.n_items + self.dimension)

    def initial(self, n_items: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Random items; the layer passes them on as they are."""
        items = rng.normal(scale=self.init_scale, size=(n_items, self.dimension))
        return {"item": items.astype(np.float32), "gnn.A": np.eye(self.dimension, dtype=np.float32)}

    def received(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """The broadcast; InputError unless it has an item table and a layer of this size."""
        shapes = {"item": (profiles.n_items, self.dimension), "gnn.A": (self.dimension,) * 2}
        return {name: received(broadcast, name, shape) for name, shape in shapes.items()}

    def mean(
        self, ratings: sparse.csr_array, model: Broadcast, near: Floats | None
    ) -> tuple[Floats, float]:
        """m of every user (n, d), and the share of it that is of own items."""
        counts = np.maximum(np.diff(ratings.indptr), 1)[:, None]
        mine = (ratings != 0).astype(np.float64) @ np.asarray(model["item"], np.float64) / counts
        return (mine, 1.0) if near is None else ((mine + near) / 2.0, 0.5)

    def neighbours(self, ratings: sparse.csr_array, model: Broadcast) -> Floats:
        """The mean embedding of the users who met the same items, an item at a time, (n, d).

        What the third party sends back: it matches codes that are equal where the items are.
        """
        met = (ratings != 0).astype(np.float64)
        users = self.mean(ratings, model, None)[0] @ np.asarray(model["gnn.A"], np.float64).T
        found = met @ np.asarray(met.sum(axis=0)).ravel()
        return np.asarray(met @ (met.T @ users) / np.maximum(found, 1.0)[:, None])

    def gradients(
        self, ratings: sparse.csr_array, model: Broadcast, near: Floats | None = None
    ) -> Gradients:
        """Of the mean squared error of each user's ratings; neighbours' embeddings are fixed."""
        items, layer = (np.asarray(model[n], np.float64) for n in ("item", "gnn.A"))
        m, share = self.mean(ratings, model, near)
        own, hidden = ratings.toarray() != 0, m @ layer.T
        count = np.maximum(own.sum(axis=1, keepdims=True), 1)
        target = (ratings.toarray() - self.level) / self.best
        weight = np.where(own, 2.0 / count * (hidden @ items.T - target), 0.0)
        user = weight @ items
        return Gradients(
            own=own,
            weight=weight,
            hidden=hidden,
            shared=share / count * (user @ layer),
            layer=user[:, :, None] * m[:, None, :],
        )

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
    ) -> Floats:
        """Predicted ratings from the last model, the history and the neighbours' embeddings."""
        arrays, near = model.arrays, model.arrays.get("near")
        ratings = interactions.ratings[users]
        m, _ = self.mean(ratings, arrays, None if near is None else near[users])
        return np.asarray(self.level + self.best * (m @ arrays["gnn.A"].T @ arrays["item"].T))
