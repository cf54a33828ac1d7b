"""Many equal populations in one party, each with users and items of its own, trained at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import batch_size, rate_at

ONE_PARTY = HflSgdmf(factors=1, rounds=1, local_steps=1, parties=1, tuning=0)
"""One step of one party on embeddings of one entry: tests set the rest."""
Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From what is seen of a block, (rounds, block, items, p), one number a copy, (block,)."""
_NUMBERS, _ROWS = 1 << 15, 1 << 12  # item embeddings and users of a party, which the cache holds


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Runs of ``system``, a party a block, from a given first V.

    ``ratings`` (users, items) of one population, zeros where there are none; ``first`` (items, p)
    its first item embeddings. A copy of the table stands on the diagonal of the party's. A user's
    embedding follows from its own ratings, and a row of V from the ratings of its item, with noise
    of its own; so what is seen of a copy is a function of its own randomness, and copies are
    independent but for which rows are drawn: a fixed number of all. Where all rows or all ratings
    are drawn that is nothing. Otherwise, in a single step, the number of copies with an event is a
    sum of independent indicators of unequal probability, since how many are drawn is fixed; such a
    sum is less spread than a binomial (Hoeffding 1956), so limits for binomials hold.

    All ratings of a party set the length of its steps, through their number, which the paper takes
    for public; what is seen is in units of that length, so that the number of copies cancels.
    Memory is some ten times 2^15 numbers, and as many a round.
    """

    system: HflSgdmf
    ratings: NDArray[np.float32]
    first: NDArray[np.float32]

    @property
    def block(self) -> int:
        """Copies in a party: a hundred users at least, so that their sampling rate is met."""
        users = len(self.ratings)
        return max(-(-100 // users), min(_NUMBERS // int(self.first.size), _ROWS // users))

    def rows_drawn(self) -> float:
        """The share of rows that a step draws of a block."""
        rows = self.block * len(self.ratings)
        return batch_size(rows, self.system.rate) / rows

    def gradients(self, rng: Generator) -> NDArray[np.float64]:
        """What a block's messages say of the noisy sums of gradients: (rounds, block, items, p).

        (V - V^(k)) over the length of the round's steps, with V the broadcast: what the server
        sees. The training is that of ``HflSgdmf.run`` with one party and this first V.
        """
        system, count = self.system, self.block
        wide = sparse.kron(sparse.eye_array(count), self.ratings, format="csr")
        data = Interactions.of(wide, name="side by side")
        items: Floats = np.tile(self.first, (count, 1))
        seen = np.empty((system.rounds, count, *self.first.shape))
        with one_thread():
            parties = system.parted(data, items, rng)
            for number in range(system.rounds):
                sent = system.exchange.sent(system, parties, items, number)
                message = sent.dense(np.arange(1))[0]
                moved = items.astype(np.float64) - message
                seen[number] = moved.reshape(seen.shape[1:]) / self._length(
                    number, parties[0].step_scale
                )
                items = system.exchange.merge(system, items, sent, parties, number)
        return seen

    def scores(self, size: int, rng: Generator, statistic: Statistic) -> NDArray[np.float64]:
        """``statistic`` of ``size`` runs; the last block's others are dropped."""
        out = np.empty(size)
        for start in range(0, size, self.block):
            found = statistic(self.gradients(rng))
            out[start : start + self.block] = found[: size - start]
        return out

    def _length(self, number: int, step_scale: float) -> float:
        system = self.system
        steps = range(number * system.local_steps, (number + 1) * system.local_steps)
        return step_scale * sum(rate_at(step, system.steps, system.learning_rate) for step in steps)
