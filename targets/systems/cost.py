"""What a training takes: what an audit refuses, and how long is left of it, follow from this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedrec_auditor.targets.datasets.base import Interactions

if TYPE_CHECKING:
    from fedrec_auditor.targets.systems.base import Target

_RATE, _STEP = 1e8, 1e-5
"""Numbers of a model that one thread updates in a second, as FedRec does on MovieLens 1M; and
seconds of a step, however little it updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a training takes, as its system declares it: roughly, and none of it is proved.

    In each of ``rounds`` rounds ``senders`` send a message of so many ``numbers``, which is kept in
    so many ``bytes``. Beside messages ``held`` numbers of 4 bytes are in memory: tables of the
    model, examples of the largest device. The training takes ``steps`` one after another, in which
    so many numbers of a model are updated in all (``updates``). ``sending`` are seconds of making
    one message, where they were measured.
    """

    rounds: int
    senders: float
    numbers: float
    bytes: float
    held: float
    updates: float
    steps: float
    sending: float = 0.0

    @property
    def messages(self) -> float:
        """Messages of the whole training."""
        return self.rounds * self.senders

    @property
    def seconds(self) -> float:
        """Of one thread."""
        return self.sending * self.messages + _STEP * self.steps + self.updates / _RATE


def profile(interactions: Interactions) -> float:
    """How many interactions a user has on average."""
    return interactions.ratings.nnz / max(1, interactions.n_users)


def least_cost(interactions: Interactions, rounds: int, senders: float) -> Cost:
    """Of a system that says no more: a number an interaction is sent, and one is updated."""
    users, items = interactions.n_users, interactions.n_items
    return Cost(
        rounds=rounds,
        senders=senders,
        numbers=items,
        bytes=12.0 * profile(interactions),
        held=users + items,
        updates=rounds * senders * profile(interactions),
        steps=rounds,
    )


def cost_of(target: Target, interactions: Interactions) -> Cost:
    """What a training of ``target`` takes, who need not say."""
    said = getattr(target, "cost", None)
    if said is None:
        return least_cost(interactions, target.sizes.rounds or 1, interactions.n_users)
    cost: Cost = said(interactions)
    return cost


def examples(interactions: Interactions, negatives: int) -> float:
    """Numbers of 4 bytes that hold the training examples of the user who has most."""
    longest = int(np.diff(interactions.ratings.indptr).max(initial=0))
    return 3.0 * longest * (1 + negatives)
