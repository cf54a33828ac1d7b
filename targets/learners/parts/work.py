"""What a round of local training works on, whichever way it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.learners.base import LocalTraining
from fedrec_auditor.targets.learners.parts.minibatches import Examples
from fedrec_auditor.targets.streams import Streams

BETA_1, BETA_2, TINY = 0.9, 0.999, 1e-8
"""Adam's usual constants (Kingma and Ba 2015)."""


class Neighbours(IntEnum):
    """What a user's embedding takes from the items that the device holds."""

    IGNORED = 0  # u = z_u
    ADDED = 1  # u = z_u + mean z_v
    CONVOLVED = 2  # u = ReLU(W2 (z_u + W1 mean z_v) + b)


@dataclass(frozen=True, slots=True)
class Work:
    """All devices of one call: what they train on, and their parameters, trained in place.

    ``neighbours`` and ``deep`` say which model it is, ``squared`` that its loss is not the
    cross-entropy but (label - logit)^2, ``shapes`` which components it has.
    ``theta`` (n, P) has all but the item rows, a component after the other; ``rows`` (nnz, d) the
    touched item rows. ``linear_term`` and ``linear_rows`` have the same shapes, or no rows.
    ``moments`` and ``row_moments`` are Adam's, (2, n, P) and (2, nnz, d), where they must outlast
    a call: for one call that runs all epochs they have no rows.
    """

    neighbours: Neighbours
    deep: bool
    squared: bool
    shapes: dict[str, tuple[int, ...]]
    local: LocalTraining
    streams: Streams
    features: NDArray[np.float32]
    examples: Examples
    theta: NDArray[np.float32]
    rows: NDArray[np.float32]
    linear_term: NDArray[np.float32]
    linear_rows: NDArray[np.float32]
    moments: NDArray[np.float32]
    row_moments: NDArray[np.float32]

    @property
    def dimension(self) -> int:
        """Length of an embedding, d."""
        return int(self.rows.shape[1])

    def blocks(self, bound: int) -> Iterator[NDArray[np.int64]]:
        """Devices with examples, of like size, as many as keep devices x size under ``bound``."""
        sizes = self.examples.sizes
        order = np.argsort(sizes, kind="stable")[::-1]
        order = order[sizes[order] > 0]
        while len(order):
            count = max(1, bound // int(sizes[order[0]]))
            yield np.sort(order[:count])
            order = order[count:]


def named(theta: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Views of ``theta`` (n, P), array or tensor, by component."""
    out, start = {}, 0
    for name, shape in shapes.items():
        if name != "item":
            end = start + int(np.prod(shape))
            out[name] = theta[:, start:end].reshape(len(theta), *shape)
            start = end
    return out
