"""HFL-SGDMF: one rating turns the fitted user embedding, and with it every row of the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.declarations.demonstration import Beyond, Demonstration, Side
from fedrec_auditor.targets.papers.federated_mf.demonstrations.parts.side_by_side import (
    ONE_PARTY,
    SideBySide,
)
from fedrec_auditor.targets.papers.federated_mf.systems.hfl_sgdmf import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.papers.federated_mf.systems.parts.user_fit import fit_users
from fedrec_auditor.targets.systems.base import Population


@dataclass(frozen=True, slots=True)
class _Turned:
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
        turn /= np.linalg.norm(turn) * self.system.sigma * math.sqrt(self.system.rounds)
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


def hfl_fitted_embeddings(
    *,
    samples: int = 125_000,
    others: int = 100,
    noise_multiplier: float = 12.793,
    threshold: float = 3.3,
    repaired_threshold: float = 2.0,
) -> Demonstration:
    """One rating turns the fitted user embedding, and with it every row of the gradient.

    Ten steps on all rows, z = 12.793: epsilon 1 claimed for a rating at delta = 1e-5.

    With p = 2 and a user of ``others`` = 100 more ratings, one rating moves the gradient by 8.8
    times the 2 R^(3/2) that the noise is made for. The control is the repaired system, whose
    embeddings stay at their random start; the adversary takes their mean for them.
    """

    def side(violates: bool) -> Side:
        """User embeddings fitted to the ratings, as in the paper; in the control random ones."""
        system = replace(
            ONE_PARTY,
            factors=2,
            rounds=10,
            rate=1.0,
            learning_rate=3e-6,
            noise_multiplier=noise_multiplier,
            as_published=violates,
        )
        least = threshold if violates else repaired_threshold
        return Side(
            system=system,
            population=Population(n_users=100, n_items=1 + others),
            worlds=(
                f"a user rated item 0 and {others} others",
                f"the user rated the {others} others only",
            ),
            scope=scope_of("rating"),
            draw=Beyond(_Turned(system, others), least),
            statistic=(
                "all entries of the party's messages, along the difference of the worlds, are "
                f"{least:g} standard deviations from their mean without the rating"
            ),
            samples=samples,
            claim="all steps",
            delta=system.delta,
            blockwise=False,  # copies are drawn a party at a time
        )

    return Demonstration.of(("24",), side)
