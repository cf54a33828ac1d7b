"""Which rows and columns of a matrix of the model each device moved at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.model_messages import ModelMessages, item_name, model_messages
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True)
class Moves:
    """``moved`` (n, R + C): whether ``users`` (n,) moved each row, then each column, of a matrix.

    In any of the rounds that are read. ``shape`` is (R, C).
    """

    users: NDArray[np.integer[Any]]
    moved: NDArray[np.bool_]
    shape: tuple[int, int]

    @property
    def sides(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Rows (n, R) and columns (n, C)."""
        return self.moved[:, : self.shape[0]], self.moved[:, self.shape[0] :]


def moves(view: View) -> dict[str, Moves]:
    """By name, of every matrix but that of items, of which some device left something unmoved.

    Noise leaves nothing unmoved. Memory: R + C bytes a sender.
    """
    apart = item_name(view)
    matrices = {
        name: _union(rounds)
        for name, rounds in model_messages(view).items()
        if name != apart and len(rounds[0].component.shape) == 2
    }
    return {name: moves for name, moves in matrices.items() if not moves.moved.all()}


def _union(rounds: tuple[ModelMessages, ...]) -> Moves:
    users = np.unique(np.concatenate([sent.users for sent in rounds])).astype(np.int64)
    first, second = rounds[0].component.shape
    moved = np.zeros((len(users), first + second), dtype=np.bool_)
    for sent in rounds:
        for whose, _, entries in sent.changes_of(users):
            moved[whose, :first] |= entries.any(axis=2)
            moved[whose, first:] |= entries.any(axis=1)
    return Moves(users, moved, (first, second))
