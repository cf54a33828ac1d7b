"""Violated claims of HFL-SGDMF, shown on many equal populations in one party."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.declarations.demonstration import (
    Beyond,
    Demonstration,
    DistinguishingGame,
    ReadUploads,
)
from fedrec_auditor.targets.papers.federated_mf.demonstrations.side_by_side import (
    ONE_PARTY,
    SideBySide,
)
from fedrec_auditor.targets.papers.federated_mf.systems.hfl_sgdmf import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.papers.federated_mf.systems.parts.user_fit import fit_users
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads


@dataclass(frozen=True, slots=True)
class _AllRounds:
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


def hfl_counted_steps(
    *,
    samples: int = 100_000,
    rounds: int = 10,
    noise_multiplier: float = 12.793,
    threshold: float = 3.0,
) -> Demonstration:
    """Proposition 3 accounts for the T' steps of one round where T T' are taken.

    T = 10 rounds of T' = 10 steps on all rows, z = 12.793: epsilon 1 claimed at delta = 1e-5.

    The claim is for ten steps, and a hundred are taken. The control is a training of one round, of
    which the proposition is right.
    """

    def side(violates: bool) -> DistinguishingGame:
        """A training of all ``rounds``; the control has one round."""
        taken = rounds if violates else 1
        system = replace(
            ONE_PARTY,
            rounds=taken,
            local_steps=10,
            unit="user",
            trim=1,
            rate=1.0,
            learning_rate=1e-6,
            noise_multiplier=noise_multiplier,
        )
        return DistinguishingGame(
            system=system,
            population=Population(n_users=100, n_items=1),
            worlds=("a user rated one item", "the user rated nothing"),
            scope=scope_of("user"),
            draw=Beyond(_AllRounds(system), threshold),
            statistic=(
                f"the item's mean gradient over {taken} rounds is {threshold:g} standard "
                "deviations beyond that of the other user"
            ),
            samples=samples,
            claim="Proposition 3",
            delta=system.delta,
            blockwise=False,  # copies are drawn a party at a time
        )

    return Demonstration.of(("26",), side)


def _noise_alone(first: Floats, uploads: Uploads) -> NDArray[np.float64]:
    """The log of the mean square by which a party's message moves the rows that nobody rated."""
    sent = uploads.components["items"].dense(np.arange(len(uploads.users)))
    moved = sent[:, 2:].astype(np.float64) - first[2:]
    return np.asarray(np.log(np.square(moved).mean(axis=(1, 2))))


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

    def side(violates: bool) -> DistinguishingGame:
        """Steps divided by a count of the party's ratings; in the control by a public guess."""
        system = replace(
            ONE_PARTY,
            rate=1.0,
            learning_rate=1e-4,
            noise_multiplier=noise_multiplier,
            as_published=violates,
        )
        two, one = system.bound * np.tri(2, items, dtype=np.float32)[::-1]
        first = start(np.full((items, 1), 0.5), system.bound)
        return DistinguishingGame(
            system=system,
            population=Population(n_users=1, n_items=items),
            worlds=("a user rated items 0 and 1", "the user rated item 0 only"),
            scope=scope_of("rating"),
            draw=ReadUploads(  # parties of one user each
                system=system,
                histories=(two, one),
                read=partial(_noise_alone, first),
                broadcast={"items": first, "first": first},
                block=1 << 10,
            ),
            statistic="log of the mean square change of the rows that nobody rated",
            samples=samples,
            claim="all steps",
            delta=system.delta,
            proved=not violates,
        )

    return Demonstration.of(("27d",), side)


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

    def side(violates: bool) -> DistinguishingGame:
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
        return DistinguishingGame(
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

    def side(violates: bool) -> DistinguishingGame:
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
        return DistinguishingGame(
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


DEMONSTRATIONS = {
    "hfl-counted-steps": hfl_counted_steps,
    "hfl-divisor": hfl_divisor,
    "hfl-drawn-rows": hfl_drawn_rows,
    "hfl-fitted-embeddings": hfl_fitted_embeddings,
}
