"""HFL-SGDMF: gradients are divided by a count of ratings, so the noise tells how many there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.demonstration import Demonstration, Side
from fedrec_auditor.targets.papers.federated_mf.demonstrations.parts.side_by_side import ONE_PARTY
from fedrec_auditor.targets.papers.federated_mf.systems.hfl_sgdmf import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.systems.base import Population

_PARTIES = 1 << 10  # of one user each, trained at once


@dataclass(frozen=True, slots=True)
class _NoiseAlone:
    """The log of the mean square by which a party's message moves the rows that nobody rated.

    Parties of one user each, with a stream of random bits each (``upload``); V is a first one,
    public. Memory is some 2^10 tables of ``items`` numbers, a few times.
    """

    system: HflSgdmf
    items: int

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        bound = self.system.bound
        ratings = np.zeros((1, self.items), np.float32)
        ratings[0, : 1 if world else 2] = bound
        first = start(np.full((self.items, 1), 0.5), bound)
        profile = Interactions.of(ratings, name="one user")
        model = {"items": first, "first": first}
        out = np.empty(size)
        for begin in range(0, size, _PARTIES):
            runs = min(_PARTIES, size - begin)
            sent = self.system.upload(profile, model, rng, runs).components["items"]
            moved = sent.dense(np.arange(runs))[:, 2:].astype(np.float64) - first[2:]
            out[begin : begin + runs] = np.log(np.square(moved).mean(axis=(1, 2)))
        return out


def hfl_divisor(
    *, samples: int = 10_000, items: int = 64, noise_multiplier: float = 4.0454
) -> Demonstration:
    """Gradients are divided by a count of ratings, so the noise tells how many there are.

    One step, z = 4.0454: epsilon 1 claimed for a rating at delta = 1e-5, and a user with two.

    A step on the sum is divided by the ratings of an average row, n' m' tau in the paper, which the
    party counts: with one rating less the noise is twice as large, on all rows. More ratings make
    it harder to see, as 1/count against the precision of ``items`` entries a step. The control is
    the repaired system, which divides by a public guess. The proof takes the count for public, as
    the paper does, so the violation is held against the claim alone.
    """

    def side(violates: bool) -> Side:
        """Steps divided by a count of the party's ratings; in the control by a public guess."""
        system = replace(
            ONE_PARTY,
            rate=1.0,
            learning_rate=1e-4,
            noise_multiplier=noise_multiplier,
            as_published=violates,
        )
        return Side(
            system=system,
            population=Population(n_users=1, n_items=items),
            worlds=("a user rated items 0 and 1", "the user rated item 0 only"),
            scope=scope_of("rating"),
            draw=_NoiseAlone(system, items),
            statistic="log of the mean square change of the rows that nobody rated",
            samples=samples,
            claim="all steps",
            delta=system.delta,
            proved=not violates,
        )

    return Demonstration.of(("27d",), side)
