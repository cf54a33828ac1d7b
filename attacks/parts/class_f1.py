"""F1 of guessed classes, averaged over classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def tally_of(
    truth: NDArray[np.int64], guessed: NDArray[np.int64], classes: int
) -> NDArray[np.float64]:
    """Of each class how often it was guessed right, is true, was guessed: (..., 3, C).

    ``truth`` (n,) and ``guessed`` (..., n) are codes.
    """
    eye = np.eye(classes)
    true, said = np.broadcast_arrays(eye[truth], eye[guessed])
    return np.stack([(true * said).sum(axis=-2), true.sum(axis=-2), said.sum(axis=-2)], axis=-2)


def f1_of_classes(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 of each class, of tallies (..., 3, C) as ``tally_of`` has them: (..., C)."""
    hits, truth, guessed = np.moveaxis(tally, -2, 0)
    sizes = truth + guessed
    return np.asarray(np.divide(2.0 * hits, sizes, out=np.zeros(np.shape(hits)), where=sizes > 0))


def macro_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the classes' F1, of tallies (..., 3, C); a class that does not occur counts as 0."""
    return np.asarray(f1_of_classes(tally).mean(axis=-1))
