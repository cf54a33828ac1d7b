"""Many equal populations of HFL-SGDMF in one party, in two worlds: rows 23, 24, 26 and 27d."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import fit_users, start
from fedrec_auditor.targets.transcript import Uploads
from tests.targets.papers.federated_mf.side_by_side import SideBySide


@dataclass(frozen=True, slots=True)
class AllRounds:
    """The mean of an item's row of gradients over all rounds, standardised, its sign turned.

    The item is first near 0, a hundredth of what ``start`` draws at most, and the rating R, so that
    every step's gradient is nearly 2 R^(3/2) or 0. Another user rates the item in both worlds; what
    that moves is known, and taken away.
    """

    system: HflSgdmf

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        system, bound, other = self.system, self.system.bound, 0.6 * self.system.bound
        ratings = np.array([[0.0 if world else bound], [other]], np.float32)
        first = start(np.full((1, 1), 0.01), bound)
        user = math.sqrt(bound)  # fits either rating best
        known = 2.0 * (user * float(first[0, 0]) - other) * user
        spread = system.noise(1).sigma / math.sqrt(system.steps)

        def statistic(seen: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray((known - seen.mean(axis=(0, 2, 3))) / spread)

        return SideBySide(system=system, ratings=ratings, first=first).scores(size, rng, statistic)


def noise_alone(first: Floats, uploads: Uploads) -> NDArray[np.float64]:
    """The log of the mean square by which a party's message moves the rows that nobody rated."""
    sent = uploads.components["items"].dense(np.arange(len(uploads.users)))
    moved = sent[:, 2:].astype(np.float64) - first[2:]
    return np.asarray(np.log(np.square(moved).mean(axis=(1, 2))))


@dataclass(frozen=True, slots=True)
class OneStep:
    """The log-likelihood ratio of the first step's message, or the entry of item 0 alone.

    All items are first near 0, a hundredth of what ``start`` draws at most, and all ratings are
    R, to which embeddings of norm^2 R fit best, one rating more or less: the embedding does not
    tell of it. Then each rating moves its own row of the gradient by 2 R^(3/2), nearly. With A the
    mean over the other items, in units of its noise, and X that of item 0, both pushed only if the
    row was drawn, at a and mu: given A, it was drawn with probability w; the ratio is
    ln(1 - w + w exp(mu X - mu^2/2)).
    """

    system: HflSgdmf
    others: int
    informed: bool

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        system = self.system
        ratings = np.full((1, 1 + self.others), system.bound, np.float32)
        ratings[0, 0] = 0.0 if world else system.bound
        first = start(np.full((1 + self.others, 1), 0.01), system.bound)
        runs = SideBySide(system=system, ratings=ratings, first=first)
        rate = runs.rows_drawn()
        user = math.sqrt(system.bound)
        mu = 2.0 * user * (system.bound - user * float(first[0, 0])) / system.noise(1).sigma

        def statistic(seen: NDArray[np.float64]) -> NDArray[np.float64]:
            pushed = -seen[0, :, :, 0] / system.noise(1).sigma
            x = pushed[:, 0]
            if not self.informed:
                return x
            a = mu * math.sqrt(self.others)
            mean = pushed[:, 1:].sum(axis=1) / math.sqrt(self.others)
            drawn = special.expit(math.log(rate / (1.0 - rate)) + a * mean - a * a / 2.0)
            return np.asarray(np.log1p(drawn * np.expm1(mu * x - mu * mu / 2.0)))

        return runs.scores(size, rng, statistic)


@dataclass(frozen=True, slots=True)
class Turned:
    """Inner product of all gradients seen with the difference that the rating makes, standardised.

    Item 0 is first near (0, 1) sqrt(R), the user's other items near (0.001, 0.0001) sqrt(R), as
    ``start`` draws them at uniforms near 0 and 1; all ratings are R. Without item 0 the embedding
    fits the others, along the first axis; with it, item 0, across. The adversary knows the first V,
    and computes both embeddings as the party does.
    """

    system: HflSgdmf
    others: int

    def worlds(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Ratings (1, items) in either world, and the first V (items, 2)."""
        bound = self.system.bound
        uniform = np.array([(0.001, 0.999), *[(0.001, 0.0001)] * self.others])
        there = np.full((1, 1 + self.others), bound, np.float32)
        missing = there.copy()
        missing[0, 0] = 0.0
        return there, missing, start(uniform, bound)

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        *tables, first = self.worlds()
        expected = [self.expected(table, first) for table in tables]
        turn = expected[0] - expected[1]
        turn /= np.linalg.norm(turn) * self.system.noise(1).sigma * math.sqrt(self.system.rounds)
        without = self.system.rounds * np.vdot(expected[1], turn)

        def statistic(seen: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.einsum("tnjf,jf->n", seen, turn) - without)

        runs = SideBySide(system=self.system, ratings=tables[world], first=first)
        return runs.scores(size, rng, statistic)

    def expected(self, table: NDArray[np.float32], first: NDArray[np.float32]) -> Floats:
        """A noiseless step's sum of gradients, (items, 2); at the mean embedding, if random."""
        system = self.system
        if system.pretrained:
            ratings = sparse.csr_array(table)
            user = fit_users(ratings, first, bound=system.bound, steps=system.pretrained)[0]
        else:
            user = start(np.full((1, system.factors), 0.5), system.bound)[0]
        error = np.where(table[0] > 0, first @ user - table[0], 0.0)
        return np.asarray(2.0 * error[:, None] * user, dtype=np.float64)
