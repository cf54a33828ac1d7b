"""Outputs of every world, kept: to choose by, or to look at all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.worlds import Worlds

LARGEST_SPLIT = 200_000
"""Most outputs of each world that choose what is looked at in the others."""
_SMALLEST_SPLIT, _SHARE = 2_000, 10


def split_size(samples: int) -> int:
    """How many of ``samples`` draws of a world choose what is looked at in the others."""
    return min(samples // 2, max(_SMALLEST_SPLIT, samples // _SHARE), LARGEST_SPLIT)


def drawn(
    worlds: Worlds,
    sizes: Sequence[int],
    rng: np.random.Generator,
    most: int = 1 << 60,
    read: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
) -> list[NDArray[Any]]:
    """So many outputs of each world, fewer of wide ones: ``most`` entries of all, but two outputs.

    Worlds whose runs may be in any order are drawn together, others one after the other.
    """
    streams, numbers = rng.spawn(len(sizes)), range(len(sizes))
    parts: list[list[NDArray[Any]]] = [[] for _ in numbers]
    size = max(sizes)
    for together in [[*numbers]] if worlds.mixed else [[world] for world in numbers]:
        wanted = {world: min(sizes[world], size) for world in together}
        for world, block in worlds.drawn(wanted, [streams[each] for each in together]):
            parts[world].append(read(block))
            size = min(size, max(2, most // (max(1, block[0].size) * len(sizes))))
            if all(sum(map(len, parts[w])) >= min(sizes[w], size) for w in together):
                break
    return [
        np.concatenate(part)[: min(wanted, size)] for part, wanted in zip(parts, sizes, strict=True)
    ]


def drawn_scores(
    worlds: Worlds, sizes: Sequence[int], rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """So many scores of every world, in no order; InputError for text and for arrays."""
    if worlds.stored is not None and [*map(len, worlds.stored)] == [*sizes]:
        return [_as_scores(side) for side in worlds.stored]
    return drawn(worlds, sizes, rng, read=_as_scores)


def _as_scores(outputs: NDArray[Any]) -> NDArray[np.float64]:
    if outputs.ndim > 1 or outputs.dtype.kind in "US":
        raise InputError(
            f"Expected one number an output, got {outputs.dtype} of shape {outputs.shape[1:]}. "
            "Use the estimator joint-binomial, which learns what to look at."
        )
    return outputs.astype(np.float64, copy=False)
