"""The recommender of the PrivRec paper: embedded features into a multi-layer network (equation 1).

Of a user it takes the categorical features that the data have (gender, occupation, age group), of
an item its number and its genres. Each value has an embedding, each genre one where an item is of
it and zeros where it is not. All are concatenated, [U; V], and go through four hidden layers with
ReLU into one sigmoid. The paper gives the embedding's dimension (64) and the number of layers, not
their sizes: here ``width``, then halved from layer to layer. Section 4.1 names the sigmoid as "the"
activation, equation 1 ReLU within and a sigmoid at the end for implicit feedback: equation 1 is
followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import Broadcast

LAYERS = 4
Averaged = Annotated[bool, "the mean of the embeddings of an item's genres is read, not each"]
USER, ITEM, GENRE = "user.", "item", "genre"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Sizes of a network, and which features it reads.

    ``side`` reads features of users and items; ``ids`` gives every item an embedding of its own,
    which it has anyway where no genres are read. ``averaged`` replaces the embeddings of an item's
    genres by their mean, an input of the size of one.
    """

    embedding: int
    width: int
    ids: bool
    side: bool
    averaged: bool = False

    def shapes(self, interactions: Interactions) -> dict[str, tuple[int, ...]]:
        """Shape of every component: "user.<attribute>", "item", "genre", "mlp1.weight", ...

        Rows of "mlp1.weight" belong to the user's attributes in alphabetical order, then to the
        item, then to its genres.
        """
        tables: dict[str, tuple[int, ...]] = {}
        if self.side:
            for key in sorted(interactions.attributes):
                categories = interactions.attributes[key].categories
                tables[f"{USER}{key}"] = (len(categories), self.embedding)
        genres = 0 if interactions.genres is None else interactions.genres.shape[1]
        if self.ids or not (self.side and genres):
            tables[ITEM] = (interactions.n_items, self.embedding)
        if self.side and genres:
            tables[GENRE] = (genres, self.embedding)
        count = len(tables) + (genres - 1 if GENRE in tables and not self.averaged else 0)
        sizes = [self.embedding * count, *(self.width >> layer for layer in range(LAYERS))]
        for layer in range(LAYERS):
            tables[f"mlp{layer + 1}.weight"] = (sizes[layer], sizes[layer + 1])
            tables[f"mlp{layer + 1}.bias"] = (sizes[layer + 1],)
        return tables | {"output.weight": (sizes[-1],), "output.bias": ()}

    def initial(self, interactions: Interactions, rng: Generator) -> dict[str, NDArray[np.float32]]:
        """The first model: embeddings N(0, 1/d), weights N(0, 2/inputs), biases 0."""
        model = {}
        for name, shape in self.shapes(interactions).items():
            if name.endswith("bias"):
                scale = 0.0
            elif name.endswith("weight"):
                scale = np.sqrt(2.0 / shape[0])
            else:
                scale = self.embedding**-0.5
            model[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
        return model

    def check(self, broadcast: Broadcast | None, interactions: Interactions) -> Broadcast:
        """The components that these data need, in order; InputError if the broadcast lacks one."""
        expected = self.shapes(interactions)
        got: dict[str, Any] = {k: np.shape(v) for k, v in (broadcast or {}).items()}
        for name, shape in expected.items():
            if got.get(name) != shape:
                raise InputError(
                    f"Expected a broadcast with {name!r} of shape {shape}, got {got.get(name)}. "
                    "Send a model for these items, attributes and genres."
                )
        return {name: (broadcast or {})[name] for name in expected}


def genre_flags(interactions: Interactions) -> NDArray[np.float32]:
    """1 where an item is of a genre, (n_items, genres)."""
    if interactions.genres is None:
        return np.zeros((interactions.n_items, 0), dtype=np.float32)
    return interactions.genres.astype(np.float32)
