"""Cost of a training, from which it follows what an audit refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedrec_auditor.targets.datasets.base import Interactions

RATE = 1e8
"""Numbers of a model that one thread updates in a second, as FedRec does on MovieLens 1M."""
_PASS = 1e3
"""As many as these a pass takes, however little it updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a training takes, as its system declares it: roughly, and none of it is proved.

    In each of ``rounds`` rounds ``senders`` send a message of so many ``numbers``, which is kept in
    so many ``bytes``. Beside messages ``held`` numbers of 4 bytes are in memory: tables of the
    model, examples of the largest device. So many numbers of a model are updated (``updates``).
    """

    rounds: float
    senders: float
    numbers: float
    bytes: float
    held: float
    updates: float

    @classmethod
    def of(
        cls,
        interactions: Interactions,
        *,
        rounds: float,
        senders: float,
        width: float = 1,
        passes: float | None = None,
        negatives: float = 0,
        reports: float = 0,
        dense: float | None = None,
        numbers: float | None = None,
        bytes: float | None = None,
        held: float = 0,
        made: float = 0,
    ) -> Cost:
        """By what a system says of itself; what it does not say is as in most systems.

        Parameters
        ----------
        width : numbers of a user or an item in the model.
        passes : over all interactions, and ``negatives`` for each; by default one a round.
        reports : of one randomized number each, in a message.
        dense : numbers of a message beside rows of the items that its sender trained on; by
            default a message is a table of all items, kept as a number an interaction.
        numbers, bytes : of a message, where they are not as said.
        held : more numbers of 4 bytes in memory.
        made : numbers that are calculated to make a message, beside training.
        """
        import numpy as np

        users, items = interactions.n_users, interactions.n_items
        profiles = np.diff(interactions.ratings.indptr)
        examples = float(profiles.sum()) * (1 + negatives)
        table = width * items
        usual = 12 * profiles.sum() / max(1, users) + 4 * width + 5 * reports
        if dense is not None:
            table += dense
            usual = 4 * dense + (4 * width + 8) * min(items, examples / max(1, users))
        each_pass = max(examples * width, _PASS)
        largest = 3 * float(profiles.max(initial=0)) * (1 + negatives)
        return cls(
            rounds=rounds,
            senders=senders,
            numbers=table if numbers is None else numbers,
            bytes=usual if bytes is None else bytes,
            held=width * users + table + largest + held,
            updates=(rounds if passes is None else passes) * each_pass
            + rounds * senders * (made + 30 * reports),
        )

    @property
    def messages(self) -> float:
        """Messages of the whole training."""
        return self.rounds * self.senders

    @property
    def seconds(self) -> float:
        """Of one thread."""
        return self.updates / RATE
