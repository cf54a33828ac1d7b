"""Canaries: what their scores speak of, and the checks that scores of any origin must pass."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.worlds.estimators.base import FEWEST_SAMPLES
from fedrec_auditor.auditor.worlds.worlds import checked_outputs
from fedrec_auditor.targets.recorded.tensors import NumpyArchive

CANARY_USER = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.RELEASE,
    horizon=Horizon.TRAINING,
)
"""What scores speak of unless their owner says otherwise: a user in or out of a training."""


class ScoreArchive(NumpyArchive):
    """Saved scores of canaries and their names, all read at once, with a limit to their bytes."""

    most = 2**31
    only = ("in_scores", "out_scores", "in_ids", "out_ids")
    texts = ("in_ids", "out_ids")

    def _indexes(self, name: str) -> bool:
        return True


def read_scores(path: Path) -> Mapping[str, NDArray[Any]]:
    """The arrays ``in_scores`` and ``out_scores`` of an npz file, with ``in_ids`` and ``out_ids``.

    Nothing is unpickled. InputError for another file.
    """
    try:
        found = ScoreArchive(Path(os.path.realpath(path))).index
    except InputError as error:
        raise InputError(
            f"{error} Scores are written by numpy.savez(path, in_scores=..., out_scores=...)."
        ) from error
    missing = [name for name in ScoreArchive.only[:2] if name not in found]
    if missing:
        raise InputError(
            f"Expected the arrays in_scores and out_scores in {str(path)!r}, got no "
            f"{' and no '.join(missing)}. Add what is missing."
        )
    return found


def checked_scores(
    scores: ArrayLike, ids: ArrayLike | None, which: str, fewest: int = FEWEST_SAMPLES
) -> NDArray[Any]:
    """``scores`` (n, *shape) as numbers, ``which`` says of which canaries.

    InputError for NaN, other than numbers, fewer than ``fewest``, and ``ids`` (n,) that are missing
    or come twice.
    """
    array = np.asarray(scores)
    count = len(array) if array.ndim else 0
    if count < fewest:
        raise InputError(
            f"Expected at least {fewest} scores with {which}, got {count}. Train more often."
        )
    array = checked_outputs(array, count, which)
    if array.dtype.kind not in "biuf" or not array.size:
        got = array.dtype if array.size else f"none in the shape {array.shape}"
        raise InputError(f"Expected numbers with {which}, got {got}. Score by a number.")
    if ids is not None:
        check_ids(ids, count, which)
    return array


def check_sides(
    inside: NDArray[Any], outside: NDArray[Any], in_ids: ArrayLike | None, out_ids: ArrayLike | None
) -> None:
    """InputError unless scores in and out have one shape, and identifiers both or neither."""
    if (in_ids is None) != (out_ids is None):
        raise InputError(
            "Expected identifiers of both sides or of neither, got those of one. Give in_ids and "
            "out_ids."
        )
    if not inside.ndim == outside.ndim > 0 or inside.shape[1:] != outside.shape[1:]:
        raise InputError(
            f"Expected scores of one shape, got {inside.shape[1:]} in and {outside.shape[1:]} out. "
            "Score both sides alike."
        )


def check_ids(ids: ArrayLike, count: int, which: str) -> NDArray[Any]:
    """Return ``ids`` as an array (count,); InputError if one is missing or comes twice."""
    named = np.asarray(ids)
    if named.shape != (count,):
        raise InputError(
            f"Expected an identifier for each of {count} scores with {which}, got "
            f"{named.shape}. Name every canary."
        )
    values, times = np.unique(named, return_counts=True)
    if len(values) < count:
        twice = values[int(np.argmax(times > 1))]
        raise InputError(
            f"Expected each canary once, got {twice!r} twice with {which}. A coin belongs to a "
            "canary: keep one score of it."
        )
    return named
