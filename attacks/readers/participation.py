"""What sums over changing groups tell of single users: who was there when a row moved.

A server behind secure aggregation knows who takes part in each round's sum. With P (T, n) saying
who did, and the sums A (T, M d) of how the item table is to move, A = P G for the mean messages G
(n, M d) of the users.

1. Where rows stay unmoved in some rounds, a user's own items move in each round the user is in. So
   a round with the user in which the row of i stays speaks against i as far as anything does, and
   one in which it moves speaks for it by -ln of the share of rounds in which it moves.
2. Where every row moves, G is estimated by ridge regression, P' (P P' + I)^-1 A with centred P and
   A, and the evidence is by how much the square of a row of it is above what is usual of its user
   and its item, as far as that is more than other participants would show.

Source: Lam et al., Gradient Disaggregation, ICML 2021, who do not know P; the rest derived here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.item_steps import item_steps, popularity
from fedrec_auditor.attacks.parts.uploads import takes_turns
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.targets.transcript import View

_STILL = 1e-9  # of the largest entry: rounding of a sum


class Participation(MessageReader):
    """Sums of a table of items over groups that change from round to round."""

    reference = (
        "who takes part when which row moves: Lam et al., Gradient Disaggregation, ICML 2021, "
        "with known participants"
    )

    wanted = "sums of an item table over changing groups"

    def reads(self, view: View) -> bool:
        """Whether there are some, and not everybody is in all of them."""
        return takes_turns(view) and any(True for _ in item_steps(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Evidence of all rounds. Memory: their sums, and two arrays of users times items."""
        groups, sums = [], []
        for seen in view.rounds:
            for _, sources in item_steps(view, only=seen):
                assert seen.senders is not None
                groups.append(np.isin(users, seen.senders))
                sums.append(sources[0])
        there, moves = np.array(groups, dtype=np.float64), np.array(sums)
        sizes = np.abs(moves).max(axis=2)
        moved = sizes > _STILL * np.abs(moves).max()
        if moved.all():
            ratio = _regressed(there, moves)
        else:
            share = (moved.sum(axis=0) + 0.5) / (len(moved) + 1)
            ratio = np.maximum(there.T @ np.where(moved, -np.log(share), -SURE), -SURE)
        return Evidence(
            users=users, log_ratio=ratio, items=popularity(view), activity=np.zeros(len(users))
        )


def _regressed(there: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far above usual, weighted by the part of it that is not noise: (n, M).

    That is known from the same sums with other participants, each round's moved on by a number of
    places of its own.
    """
    excess = _excess(there, moves)
    others = np.stack([np.roll(row, 1 + 7 * t) for t, row in enumerate(there)])
    noise, spread = float(_excess(others, moves).var()), float(excess.var())
    if spread <= noise:
        return np.zeros_like(excess)
    return np.asarray(excess * np.sqrt((1 - noise / spread) / spread))


def _excess(there: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    among = there - there.mean(axis=0)
    rest = (moves - moves.mean(axis=0)).reshape(len(moves), -1)
    weights = np.linalg.solve(among @ among.T + np.eye(len(among)), rest)
    # |row|^2 = p_u' (W_i W_i') p_u, without the messages of all users at once.
    split = weights.reshape(len(moves), *moves.shape[1:])
    gram = np.einsum("tmd,smd->mts", split, split)
    square = np.einsum("tu,mts,su->um", among, gram, among, optimize=True)
    usual = square.mean(axis=1, keepdims=True) * square.mean(axis=0) / max(square.mean(), 1e-300)
    return np.asarray(square / np.maximum(usual, 1e-300) - 1)
