"""HFL-SGDMF: a user's other ratings show whether its row was drawn, so drawing hides no rating."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.targets.declarations.demonstration import Beyond, Demonstration, Side
from fedrec_auditor.targets.papers.federated_mf.demonstrations.parts.side_by_side import (
    ONE_PARTY,
    SideBySide,
)
from fedrec_auditor.targets.papers.federated_mf.systems.hfl_sgdmf import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.systems.base import Population


@dataclass(frozen=True, slots=True)
class _OneStep:
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
        mu = 2.0 * user * (system.bound - user * float(first[0, 0])) / system.sigma

        def statistic(seen: NDArray[np.float64]) -> NDArray[np.float64]:
            pushed = -seen[0, :, :, 0] / system.sigma
            x = pushed[:, 0]
            if not self.informed:
                return x
            a = mu * math.sqrt(self.others)
            mean = pushed[:, 1:].sum(axis=1) / math.sqrt(self.others)
            drawn = special.expit(math.log(rate / (1.0 - rate)) + a * mean - a * a / 2.0)
            return np.asarray(np.log1p(drawn * np.expm1(mu * x - mu * mu / 2.0)))

        return runs.scores(size, rng, statistic)


def hfl_drawn_rows(
    *,
    samples: int = 375_000,
    others: int = 40,
    rate: float = 0.05,
    noise_multiplier: float = 1.2439,
    ratio: float = 1.5,
    entry: float = 2.0,
) -> Demonstration:
    """A user's other ratings show whether its row was drawn, so drawing hides no rating.

    One step on one row in twenty, z = 1.2439: epsilon 1 claimed for a rating at delta = 1e-5.

    The user has ``others`` more ratings; their noisy gradients, together, are large or nothing.
    The exact epsilon is 2.3: a Gaussian of mu 1/z one time in twenty, with the adversary told
    when. The control looks at the rating's own entry, which is all that the accountant knows of.
    Events are a log-ratio of ``ratio``, and an ``entry`` so many standard deviations large.
    """

    def side(violates: bool) -> Side:
        """All entries of the message; the control looks at the rating's own entry."""
        system = replace(
            ONE_PARTY,
            rate=rate,
            learning_rate=1e-3,
            noise_multiplier=noise_multiplier,
        )
        what, threshold = "the entry of item 0 in the party's message", entry
        if violates:
            what, threshold = "the log-ratio of all entries of the party's message", ratio
        return Side(
            system=system,
            population=Population(n_users=100, n_items=1 + others),
            worlds=(
                f"a user rated item 0 and {others} others",
                f"the user rated the {others} others only",
            ),
            scope=scope_of("rating"),
            draw=Beyond(_OneStep(system, others, violates), threshold),
            statistic=f"{what} is at least {threshold:g}",
            samples=samples,
            claim="all steps",
            delta=system.delta,
            blockwise=False,  # copies are drawn a party at a time
            # runs of a block are not independent, but less spread than a binomial: ``SideBySide``
            estimator="clopper-pearson",
        )

    return Demonstration.of(("23",), side)
