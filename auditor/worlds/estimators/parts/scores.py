"""Outputs that are one number each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.worlds import Worlds


def as_scores(outputs: NDArray[Any]) -> NDArray[np.float64]:
    """Outputs (n,) as numbers; InputError for text and for arrays (n, *shape)."""
    if outputs.ndim > 1 or outputs.dtype.kind in "US":
        raise InputError(
            f"Expected one number an output, got {outputs.dtype} of shape {outputs.shape[1:]}. "
            "Use the estimator joint-binomial, which learns what to look at."
        )
    return outputs.astype(np.float64, copy=False)


def drawn_scores(
    worlds: Worlds, sizes: Sequence[int], rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """So many scores of every world, in no order."""
    if worlds.stored is not None and [*map(len, worlds.stored)] == [*sizes]:
        return [as_scores(side) for side in worlds.stored]
    scores: list[list[NDArray[np.float64]]] = [[] for _ in worlds.names]
    for world, block in worlds.drawn(dict(enumerate(sizes)), rng.spawn(len(worlds.names))):
        scores[world].append(as_scores(block))
    return [np.concatenate(parts) for parts in scores]
