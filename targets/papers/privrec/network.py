"""Features, sizes and initial values of PrivRec's network, and the training examples of devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast

# The recommender of the PrivRec paper: embedded features into a multi-layer network (equation 1).
#
# The features of a user are the categorical attributes in the data (gender, occupation, age group);
# those of an item are its index and its genres. Each value has an embedding; a genre that an item
# does not have gives zeros. The embeddings of user and item are concatenated, [U; V], and go
# through four hidden layers with ReLU into one sigmoid. The paper states the dimension of
# embeddings (64) and the number of layers, but not the layers' sizes. Here the first layer has
# ``width`` outputs, and each next layer has half as many.
# Section 4.1 names the sigmoid as "the" activation. Equation 1, which is followed here, has ReLU in
# the hidden layers and a sigmoid at the end for implicit feedback.

N_HIDDEN_LAYERS = 4  # number of hidden layers
# Type of the setting that averages the embeddings of an item's genres.
GenreAveraging = Annotated[bool, "reads the mean of the embeddings of an item's genres, not each"]
# Names of the model's embedding tables; "user." is followed by the name of a user attribute.
USER, ITEM, GENRE = "user.", "item", "genre"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Configuration of the recommender network: its sizes, and the features that it reads.

    ``embedding_size``: dimension of an embedding.
    ``width``: number of outputs of the first hidden layer.
    ``has_item_ids``: whether every item has its own embedding; always true if the network reads no
        genres.
    ``has_features``: whether the network reads features of users and items.
    ``has_mean_genres``: whether an item's genres give one input, the mean of their embeddings;
        otherwise one input per genre.
    """

    embedding_size: int
    width: int
    has_item_ids: bool
    has_features: bool = False
    has_mean_genres: bool = False

    def get_shapes(self, interactions: Interactions) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every array of the model, by name, for the data ``interactions``.

        Names are "user.<attribute>", "item" and "genre" for tables of embeddings, and
        "mlp1.weight", "mlp1.bias" and so on for layers. Rows of "mlp1.weight" belong to the user's
        attributes in alphabetical order, then to the item, then to its genres.
        """
        tables: dict[str, tuple[int, ...]] = {}
        if self.has_features:
            for key in sorted(interactions.attributes):
                categories = interactions.attributes[key].categories
                tables[f"{USER}{key}"] = (len(categories), self.embedding_size)
        genres = 0 if interactions.genres is None else interactions.genres.shape[1]
        if self.has_item_ids or not (self.has_features and genres):
            tables[ITEM] = (interactions.n_items, self.embedding_size)
        if self.has_features and genres:
            tables[GENRE] = (genres, self.embedding_size)
        count = len(tables) + (genres - 1 if GENRE in tables and not self.has_mean_genres else 0)
        widths = [self.width >> layer for layer in range(N_HIDDEN_LAYERS)]
        sizes = [self.embedding_size * count, *widths]
        for layer in range(N_HIDDEN_LAYERS):
            tables[f"mlp{layer + 1}.weight"] = (sizes[layer], sizes[layer + 1])
            tables[f"mlp{layer + 1}.bias"] = (sizes[layer + 1],)
        return tables | {"output.weight": (sizes[-1],), "output.bias": ()}

    def draw_initial_model(
        self, interactions: Interactions, rng: Generator
    ) -> dict[str, NDArray[np.float32]]:
        """Draws the initial model for the users and items of ``interactions``, as arrays by name.

        Embeddings are from N(0, 1/d) for dimension d, weights from N(0, 2/inputs), and biases are
        0.
        """
        model = {}
        for name, shape in self.get_shapes(interactions).items():
            if name.endswith("bias"):
                scale = 0.0
            elif name.endswith("weight"):
                scale = np.sqrt(2.0 / shape[0])
            else:
                scale = self.embedding_size**-0.5
            model[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
        return model

    def check_broadcast(self, broadcast: Broadcast | None, interactions: Interactions) -> Broadcast:
        """Checks a broadcast, and returns the network's arrays from it, by name, in the network's
        order.

        ``interactions``: data that determine the shapes of the network's arrays.

        Raises InputError if the broadcast lacks an array, or if an array has a wrong shape.
        """
        expected = self.get_shapes(interactions)
        got: dict[str, Any] = {k: np.shape(v) for k, v in (broadcast or {}).items()}
        for name, shape in expected.items():
            if got.get(name) != shape:
                raise InputError(
                    f"Expected a broadcast array {name!r} of shape {shape}, got {got.get(name)}. "
                    "Broadcast a model for the items, attributes and genres of these data."
                )
        return {name: (broadcast or {})[name] for name in expected}


def make_genre_flags(interactions: Interactions) -> NDArray[np.float32]:
    """Returns a table (n_items, genres) with a 1 where an item has a genre, and a 0 elsewhere."""
    if interactions.genres is None:
        return np.zeros((interactions.n_items, 0), dtype=np.float32)
    return interactions.genres.astype(np.float32)


# Number by which the number of examples in a minibatch must be divisible.
BATCH_SIZE_MULTIPLE = 16
"""Number of which every minibatch size must be a multiple.

torch computes sigmoids in vectors of several numbers. If an array does not fill whole vectors,
torch rounds its last entries differently, and they would depend on the number of devices."""
_DRAW, _ORDER = 0, 1  # keys of a device's random streams


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceExamples:
    """Training examples of n devices, each item at most once per device, padded to one width.

    ``item_ids``: item indices of each device, shape (n, width): positives, ascending, then
        negatives, then padding.
    ``n_positives``: number of each device's positives, shape (n,).
    ``n_examples``: number of each device's examples, positives and negatives, shape (n,).
    """

    item_ids: NDArray[np.int64]
    n_positives: NDArray[np.int64]
    n_examples: NDArray[np.int64]

    @classmethod
    def draw_examples(cls, interactions: Interactions, streams: Streams, *, negatives: int) -> Self:
        """Draws the training examples of all users of ``interactions``.

        Every stored interaction is a positive. A negative is a random item without an interaction.
        A device gets ``negatives`` different negatives per positive, or fewer if the catalogue has
        no more. Each device draws from its own stream in ``streams``.
        """
        # Memory: 8 bytes per device and item of the catalogue.
        n_items = interactions.n_items
        counts = np.diff(interactions.ratings.indptr).astype(np.int64)
        sizes = counts + np.minimum(negatives * counts, n_items - counts)
        keys = streams.derive(_DRAW).draw_uniform(n_items)
        keys[np.repeat(np.arange(len(counts)), counts), interactions.ratings.indices] = -1.0
        items = np.argsort(keys, axis=1, kind="stable")[:, : int(sizes.max(initial=0))]
        return cls(item_ids=items, n_positives=counts, n_examples=sizes)

    def __len__(self) -> int:
        return len(self.n_examples)

    @property
    def labels(self) -> NDArray[np.float32]:
        """Labels of the examples of n devices, shape (n, width): 1 for positives, 0 for negatives
        and padding.
        """
        return (np.arange(self.item_ids.shape[1]) < self.n_positives[:, None]).astype(np.float32)

    def draw_epoch_orders(self, streams: Streams, epoch: int, width: int) -> NDArray[np.int64]:
        """Draws the random order of each device's examples in ``epoch``, shape (n, width).

        ``width``: number of columns with padding, at least the number of columns of ``item_ids``.

        Entries of the result are column indices of ``item_ids``; padding is last. An order depends
        only on the device's own stream and number of examples.
        """
        keys = streams.derive(_ORDER + epoch).draw_uniform(width)
        keys[np.arange(width) >= self.n_examples[:, None]] = 2.0
        return np.argsort(keys, axis=1, kind="stable")

    def select_devices(self, devices: Ints) -> DeviceExamples:
        """Returns a copy with only the devices at the row indices ``devices``."""
        return DeviceExamples(
            item_ids=self.item_ids[devices],
            n_positives=self.n_positives[devices],
            n_examples=self.n_examples[devices],
        )
