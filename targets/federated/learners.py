"""Learners: models of user and item embeddings that devices train, scored by MLP or dot product.

A device has a user vector z_u = E_U x_u, made from the user's features x_u, and the item table,
whose rows are z_v. To z_u the device may add the mean row of its own items (``NeighbourUse``). An
item's score is a two-layer MLP of both embeddings or their dot product. Training is minibatch SGD
or Adam on the summed binary cross-entropy (or squared error).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Component, Floats
from fedrec_auditor.targets.compute import Machine, iter_blocks
from fedrec_auditor.targets.federated.base import Clients, DataSizes, LocalSettings
from fedrec_auditor.targets.federated.local_training import NeighbourUse, train_devices
from fedrec_auditor.targets.settings import Checked, Count, Positive
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast

_BLOCK = 1 << 24  # numbers in memory per block of scores


def _make_tuned_values(
    *, server_rate: float, rounds: int, epochs: int, learning_rate: float, **learner: float
) -> Mapping[str, Any]:
    """Returns settings of a ``ComposedSystem`` and of its learner with which the model recommends
    well.
    """
    return MappingProxyType(
        {
            "private_user": True,
            "server": "adam",
            "server_rate": server_rate,
            "rounds": rounds,
            "epochs": epochs,
            "optimizer": "sgd",
            "learning_rate": learning_rate,
            "learner": learner,
        }
    )


@dataclass(frozen=True, kw_only=True)
class _EmbeddingLearner(Checked):
    """Base class of learners whose users and items have embeddings.

    ``dimension``: length d of an embedding.
    ``init_scale``: standard deviation of the initial parameters.

    The MLP has one hidden layer of width d with ReLU: r = mlp2 ReLU(mlp1 (u (+) z_v)), where (+)
    concatenates the embeddings u of the user and z_v of the item. The loss of a minibatch is the
    sum over its examples (equation 8 of the FedRec paper). The FedRec paper (Zhang, Yuan and Yin,
    section 5.4) has ``init_scale`` 1, with which the GCN does not learn.
    """

    # With ``init_scale`` 1 and the paper's learning rate of 0.001, the logits of the GCN are about
    # 3,000 on MovieLens 100K, and its parameters are not finite after one round. At the learning
    # rate 0.001 / 32, which corresponds to the mean loss of a minibatch instead of the sum, the GCN
    # learns nothing. With the default ``init_scale`` of 0.1 the GCN learns.
    # The last batch of an epoch has the remaining examples. The linear term of
    # ``LocalSettings.linear_term_scales`` is divided equally among all examples, so that an epoch
    # adds it once.

    dimension: Count = 64
    init_scale: Positive = 0.1

    neighbour_use: ClassVar[NeighbourUse]
    has_mlp: ClassVar[bool]
    tuned_values: ClassVar[Mapping[str, Any]] = _make_tuned_values(
        server_rate=0.05, rounds=40, epochs=1, learning_rate=0.05, dimension=16
    )

    @property
    def has_squared_loss(self) -> bool:
        """Whether the loss is the squared error. Otherwise it is the cross-entropy."""
        return False

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups of the model's arrays, such as "user" and "item"."""
        return ("user", "item", "mlp1", "mlp2") if self.has_mlp else ("user", "item")

    def get_param_shapes(self, sizes: DataSizes) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every component (named array of the model), by name."""
        d = self.dimension
        shapes: dict[str, tuple[int, ...]] = {"user.E": (d, sizes.n_user_features)}
        if self.neighbour_use is NeighbourUse.CONVOLVED:
            shapes |= {"user.W1": (d, d), "user.W2": (d, d), "user.b": (d,)}
        shapes["item"] = (sizes.n_items, d)
        if self.has_mlp:
            shapes |= {"mlp1.weight": (d, 2 * d), "mlp1.bias": (d,)}
            shapes |= {"mlp2.weight": (1, d), "mlp2.bias": (1,)}
        return shapes

    def init_model(self, sizes: DataSizes, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Draws the initial model, as arrays by name: float32 entries from N(0, init_scale^2)."""
        scale = np.float32(self.init_scale)
        shapes = self.get_param_shapes(sizes).items()
        return {k: scale * rng.standard_normal(shape, dtype=np.float32) for k, shape in shapes}

    def init_user_vectors(self, streams: Streams) -> NDArray[np.float32]:
        """Draws a user vector for each of n devices from N(0, init_scale^2), shape (n, d, 1).

        Each vector comes from the device's random stream.
        """
        drawn = self.init_scale * streams.draw_normal(self.dimension)
        return drawn.astype(np.float32)[:, :, None]

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalSettings, compute: Machine
    ) -> dict[str, Component]:
        """Trains the broadcast model on every device, and returns the trained arrays by name.

        There is one component per named array of the model, for all devices. The result of a device
        is equal to the last bit in any batch of devices. Raises InputError if the shapes of the
        broadcast do not fit, or if ``local.linear_term_scales`` names an unknown component.
        """
        model = self._read_model(broadcast, clients)
        unknown = sorted(set(local.linear_term_scales) - set(model))
        if unknown:
            raise InputError(
                f"Expected linear_term_scales for arrays among {', '.join(model)}, got "
                f"{', '.join(unknown)}. Name arrays of the model."
            )
        return train_devices(
            model,
            clients,
            local,
            compute,
            neighbour_use=self.neighbour_use,
            has_mlp=self.has_mlp,
            has_squared_loss=self.has_squared_loss,
        )

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes the logits of all items on each of n devices, shape (n, n_items), float32."""
        # Logits rank the items as the sigmoids would, but large sigmoids round to 1 and would tie.
        # Memory: with an MLP, 64 MiB in addition to the result.
        user = self.compute_user_vectors(model, clients)
        model = self._read_model(model, clients)
        items = model["item"]
        if not self.has_mlp:
            return np.asarray(user @ items.T)
        d, weight = self.dimension, model["mlp1.weight"]
        from_user = user @ weight[:, :d].T + model["mlp1.bias"]
        from_item = items @ weight[:, d:].T
        out = np.empty((len(user), len(items)), dtype=np.float32)
        for block in iter_blocks(len(user), from_item.size, _BLOCK):
            hidden = from_user[block, None] + from_item
            np.maximum(hidden, 0, out=hidden)
            out[block] = hidden @ model["mlp2.weight"][0] + model["mlp2.bias"]
        return out

    def compute_user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes the embedding of each of n users, which scores items, float32 (n, d)."""
        model = self._read_model(model, clients)
        features = clients.features.astype(np.float32)
        if clients.user_embeddings is None:
            user = features @ model["user.E"].T
        else:
            user = np.einsum("nf,ndf->nd", features, clients.user_embeddings)
        if self.neighbour_use is NeighbourUse.IGNORED:
            return np.asarray(user)
        mean = compute_mean_rows(clients.interactions.ratings, model["item"])
        if self.neighbour_use is NeighbourUse.ADDED:
            return np.asarray(user + mean)
        user = (user + mean @ model["user.W1"].T) @ model["user.W2"].T + model["user.b"]
        return np.asarray(np.maximum(user, 0))

    def _read_model(self, broadcast: Broadcast, clients: Clients) -> dict[str, NDArray[np.float32]]:
        """Returns the broadcast as float32 arrays, with zeros as "user.E" if devices keep "user.E".

        Raises InputError if the shapes do not fit.
        """
        expected = self.get_param_shapes(clients.data_sizes)
        if clients.user_embeddings is not None:
            broadcast = {**broadcast, "user.E": np.zeros(clients.user_embeddings.shape[1:])}
        got = {name: np.shape(array) for name, array in broadcast.items()}
        if got != expected:
            raise InputError(
                f"Expected a model with the shapes {expected}, got {got}. "
                "Send a model made for these numbers of items and features."
            )
        return {name: np.asarray(broadcast[name], dtype=np.float32) for name in expected}


def compute_mean_rows(ratings: sparse.csr_array, items: NDArray[np.float32]) -> NDArray[np.float32]:
    """Computes the mean item row over each device's own items, shape (n devices, d).

    ``ratings``: matrix of devices and items; its nonzero pattern gives the own items.
    ``items``: item table, shape (n_items, d).

    The mean is zero for a device without items.
    """
    sizes = np.diff(ratings.indptr)
    weights = np.repeat(1.0 / np.maximum(sizes, 1), sizes).astype(np.float32)
    pick = sparse.csr_array((weights, ratings.indices, ratings.indptr), shape=ratings.shape)
    return np.asarray(pick @ items)


@dataclass(frozen=True, kw_only=True)
class GcnLearner(_EmbeddingLearner):
    """Client model of FedRec: a graph convolution over the user's items, scored by an MLP.

    The user's embedding is u = ReLU(W2 (E_U x_u + W1 mean z_v) + b), with the user's features x_u
    and rows z_v of the item table (E_V x_v in the paper). The mean is over all of the user's items
    (equation 5), including the scored item. A two-layer MLP scores the concatenation of u and z_v.

    Source: the FedRec paper (Zhang, Yuan and Yin), section 3.1, equations 4 to 7.

    ``neighbour_use``: use of the user's items in the user's embedding (their mean row, by W1).
    ``has_mlp``: whether an MLP scores items (true).
    """

    # The gradient flows through the mean into the rows of the user's items. The item features x_v
    # are random in the paper, so that E_V x_v is a free vector.

    neighbour_use = NeighbourUse.CONVOLVED
    has_mlp = True
    tuned_values = _make_tuned_values(
        server_rate=0.02, rounds=180, epochs=1, learning_rate=0.02, dimension=16, init_scale=0.2
    )


@dataclass(frozen=True, kw_only=True)
class LightGcnLearner(_EmbeddingLearner):
    """Client model of FedLightGCN: the user's vector plus the mean row of the user's items.

    The embedding is u = E_U x_u + mean z_v over the user's items, with the user's features x_u and
    rows z_v of the item table. The logit of an item is u . z_v (section 5.10 of the FedRec paper).

    LightGCN (He et al., SIGIR 2020) divides each row by the square roots of the degrees of user and
    item in their graph. This class divides the sum of rows by the user's degree alone.

    ``neighbour_use``: use of the user's items in the user's embedding (the mean of their rows).
    ``has_mlp``: whether an MLP scores items (false: a dot product does).
    """

    # A device does not know the degree of an item. LightGCN also takes the mean of the user's
    # vector and all layers. This class adds its only layer to the user's vector: the sum differs
    # from their mean only by a constant factor.

    neighbour_use = NeighbourUse.ADDED
    has_mlp = False


@dataclass(frozen=True, kw_only=True)
class MfLearner(_EmbeddingLearner):
    """Client model of FedMF and F-DPMF: matrix factorization, with user vectors from features.

    The user vector is z_u = E_U x_u, with the user's features x_u. The logit of an item is the dot
    product z_u . z_v, where z_v is the item's row in the item table.

    ``loss``: "logistic" for the loss of equation 8, or "squared" for sum (r - z_u . z_v)^2 with r =
        1 for the user's items and r = 0 for negatives. F-DPMF has the squared loss, because DPMF
        (Hua et al. 2015) perturbs a squared error.
    ``neighbour_use``: use of the user's items in the user's embedding (none).
    ``has_mlp``: whether an MLP scores items (false: a dot product does).
    """

    # As in FedRec (Figure 2 of the FedRec paper), the client shares E_U and the item table, so that
    # averaging models is meaningful for the user's part as well.

    loss: Literal["logistic", "squared"] = "logistic"

    neighbour_use = NeighbourUse.IGNORED
    has_mlp = False

    @property
    def has_squared_loss(self) -> bool:
        """Whether ``loss`` is the squared error."""
        return self.loss == "squared"


@dataclass(frozen=True, kw_only=True)
class NcfLearner(_EmbeddingLearner):
    """Client model of FedNCF: user and item embeddings, scored by an MLP.

    The user vector is z_u = E_U x_u, with the user's features x_u. A two-layer MLP scores the
    concatenation of z_u and z_v, the item's row in the item table (section 5.10 of the FedRec
    paper). This is the MLP branch of NCF (He et al., WWW 2017).

    ``neighbour_use``: use of the user's items in the user's embedding (none).
    ``has_mlp``: whether an MLP scores items (true).
    """

    # The FedRec paper names only NCF. The MLP branch is used because the FedRec protocol has a user
    # component, an item component and an MLP.

    neighbour_use = NeighbourUse.IGNORED
    has_mlp = True
    tuned_values = _make_tuned_values(
        server_rate=0.1, rounds=60, epochs=2, learning_rate=0.03, dimension=16, init_scale=0.3
    )
