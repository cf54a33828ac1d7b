"""Local collaborative filtering over flipped bits (Gao et al., SIGIR 2020), whatever the flip.

Each device flips every bit of its interaction vector and uploads the result once (section 3.2.1);
the server estimates the Jaccard similarity of all pairs of items from the flipped bits (section
3.2.2, equations 5 to 10); the device scores items by its own true history (equation 12).

The paper prints A and its inverse with errors (equations 6 and 11). The right ones follow from
independence: one flipped bit has law B = [[1-q, 1-p], [q, p]] (column: true bit, row: uploaded
bit), a pair of them A = B (x) B, and so A^-1 = B^-1 (x) B^-1 with
B^-1 = 1/(p-q) [[p, -(1-p)], [-q, 1-q]].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from accountants.claim import Claim
from accountants.errors import InputError
from accountants.scope import Horizon, Scope, Unit, Vantage, any_pair
from targets.components import Dense, Floats
from targets.compute import Compute
from targets.datasets.base import Interactions
from targets.mechanisms.base import Mechanism
from targets.mechanisms.bit_flip import BitFlip
from targets.mechanisms.product import Product
from targets.systems.base import (
    DEFAULT,
    Challenge,
    Evaluation,
    Model,
    Population,
    Progress,
    Question,
    Reported,
    Run,
)
from targets.transcript import Broadcast, Public, Round, Transcript, Uploads

if TYPE_CHECKING:
    from dp_accounting import DpEvent

PAPER = "Gao, Huang, Lin, Jin, Li: DPLCF, SIGIR 2020"
_GAME_ITEMS = 8


def transition(p: float, q: float) -> NDArray[np.float64]:
    """A (4, 4): expected counts of uploaded bit pairs (00, 01, 10, 11) from those of true pairs.

    Equation 6 with its entries (2,1) and (3,1) mended to (1-q) q.
    """
    flip: NDArray[np.float64] = np.array([[1 - q, 1 - p], [q, p]])
    return np.asarray(np.kron(flip, flip))


def inverse_transition(p: float, q: float) -> NDArray[np.float64]:
    """A^-1 (4, 4) in closed form, for any p != q (equation 11 mended, and not for p = 1 only)."""
    inverse = np.array([[p, -(1 - p)], [-q, 1 - q]]) / (p - q)
    return np.asarray(np.kron(inverse, inverse))


def estimate_jaccard(bits: NDArray[np.float32], p: float, q: float) -> NDArray[np.float64]:
    """Estimated Jaccard similarity of all item pairs, (M, M), zero on the diagonal.

    ``bits`` is (n, M), the flipped bits as 0.0 and 1.0. Applies equation 7 to all pairs at once:
    with t = (bit - q)/(p - q), row 11 of A^-1 m is the sum over users of t_i t_j, and n minus row
    00 is sum t_i + sum t_j less that. Noise takes the estimates out of the range of cardinalities,
    of which the paper is silent: they are put back, an item's users into [1, n] and those of two
    items together into [0, the smaller of either].
    """
    users = len(bits)
    both = (bits.T @ bits).astype(np.float64)
    ones = bits.sum(axis=0, dtype=np.float64)
    count = np.clip((ones - users * q) / (p - q), 1, users)
    together = (both - q * (ones[:, None] + ones) + users * q * q) / (p - q) ** 2
    together = np.clip(together, 0, np.minimum(count[:, None], count))
    similarity: NDArray[np.float64] = together / (count[:, None] + count - together)
    np.fill_diagonal(similarity, 0.0)
    return similarity


def neighbourhoods(similarity: NDArray[np.float64], size: int) -> sparse.csr_array:
    """Similarities of each item's ``size`` most similar items, (M, M) sparse; ties by index."""
    items = len(similarity)
    size = min(size, items - 1)
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :size]
    rows = np.repeat(np.arange(items), size)
    values = np.take_along_axis(similarity, nearest, axis=1).ravel()
    return sparse.csr_array((values, (rows, nearest.ravel())), shape=(items, items))


@dataclass(frozen=True, kw_only=True)
class FlippedBits(ABC):
    """What ``dplcf-sp`` and ``dplcf-ap`` share: everything but the flip and the words.

    ``epsilon`` is the budget the paper assigns to one interaction (1.0 in its experiments);
    ``neighbours`` the neighbourhood size (20 on MovieLens, 10 on AppUsage).
    """

    epsilon: float = 1.0
    neighbours: int = 20

    paper = PAPER
    evaluation = Evaluation(cutoffs=(2, 4, 6, 8, 10))

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise InputError(
                f"Expected epsilon in (0, inf), got epsilon={self.epsilon!r}. "
                "The paper uses 0.5 to 1.0."
            )
        if self.neighbours < 1:
            raise InputError(
                f"Expected neighbours of at least 1, got neighbours={self.neighbours!r}. "
                "The paper uses 10 and 20."
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on the command line."""

    @property
    @abstractmethod
    def reported(self) -> tuple[Reported, ...]:
        """Tables 2 to 5 at K = 10, epsilon 1."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where in the paper this flip stands."""

    @property
    @abstractmethod
    def flip(self) -> BitFlip:
        """The law of one uploaded bit."""

    @property
    def claim(self) -> Claim:
        """Section 3.2.1: epsilon for the existence of one interaction."""
        return Claim(
            epsilon=self.epsilon,
            scope=any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING),
            statement=(
                f"Whether a user has one given interaction stays {self.epsilon:g}-differentially "
                "private against the server, since p/q = e^epsilon; the bits are sent once."
            ),
            source=f"{PAPER}, section 3.2.1 (flip), equation 2 (criterion), {self.place}",
        )

    def questions(self, population: Population) -> tuple[Question, ...]:
        """The claim for one interaction, and what a whole user has of it."""
        user = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
        return (
            Question(claim=self.claim, scope=self.claim.scope),
            Question(
                claim=self.claim,
                scope=user,
                note=(
                    f"A user uploads all {population.n_items} bits, so for the user as a whole "
                    "the epsilons of the bits add up. A fresh upload of the same history adds "
                    "the same again."
                ),
            ),
        )

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """One flip for a bit or an interaction; all of a user's flips for the wider units."""
        if scope.vantage is not Vantage.SERVER or scope.unit is Unit.ATTRIBUTE:
            return None
        if scope.unit in (Unit.BIT, Unit.INTERACTION, Unit.RATING):
            return self.flip
        return Product(self.flip, population.n_items)

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """The server's event in the unit of ``scope``; weaker vantages are post-processing."""
        if scope.unit in (Unit.BIT, Unit.INTERACTION, Unit.RATING):
            return self.flip.event()
        return Product(self.flip, population.n_items).event()

    def challenges(self) -> tuple[Challenge, ...]:
        """Two users of a small catalogue who differ in the first item only."""
        profiles = np.zeros((2, _GAME_ITEMS))
        profiles[:, 1] = 1.0
        profiles[0, 0] = 1.0
        return (
            Challenge(
                target=self,
                profiles=Interactions.of(profiles, name="game"),
                broadcast=None,
                read=_first_bit,
                values=(1.0, 0.0),
                channel=self.flip,
                scope=any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING),
                inputs=("item 0 in the history", "item 0 not in the history"),
            ),
        )

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: Progress | None = None,
        compute: Compute = DEFAULT,
    ) -> Run:
        """One upload by every user, one estimate by the server, one broadcast of neighbourhoods."""
        uploads = self.upload(interactions, None, rng)
        bits = uploads.components["bits"].dense(np.arange(interactions.n_users))
        flip = self.flip
        similarity = estimate_jaccard(bits.astype(np.float32), flip.p, flip.q)
        nearest = neighbourhoods(similarity, self.neighbours)
        transcript = Transcript(
            public=Public(
                algorithm=self.name,
                n_users=interactions.n_users,
                n_items=interactions.n_items,
                settings={"epsilon": self.epsilon, "p": flip.p, "q": flip.q},
                channel=flip,
            ),
            rounds=(Round(broadcast=None, uploads=uploads),),
            release={"similarity": nearest.toarray()},
        )
        if progress is not None:
            progress(1, 1)
        return Run(transcript=transcript, model=Model(arrays={"nearest": nearest}))

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """Equation 3 on every bit of every profile, ``size`` times over. Nothing is broadcast."""
        bits = profiles.ratings.toarray() != 0
        users = np.repeat(np.arange(len(bits)), size)
        return Uploads(users, {"bits": Dense(self.flip.randomize(bits[users], rng))})

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
    ) -> Floats:
        """Equation 12: the similarities of an item's neighbours that are in the user's history."""
        held = interactions.ratings[users].astype(np.float64)
        held.data[:] = 1.0
        return np.asarray((held @ model.arrays["nearest"].T).toarray())


def tables(movielens: tuple[float, float], apps: tuple[float, float]) -> tuple[Reported, ...]:
    """HR@10 and NDCG@10 printed for MovieLens (Tables 4, 5) beside AppUsage (Tables 2, 3)."""
    return tuple(
        Reported(
            metric=metric,
            protocol="99 sampled negatives",
            value=value,
            note=(
                f"MovieLens-20M filtered to 74,529 users; {other:.4f} on AppUsage, "
                "which has 871 users and 1,682 items"
            ),
        )
        for metric, value, other in zip(("HR@10", "NDCG@10"), movielens, apps, strict=True)
    )


def _first_bit(uploads: Uploads) -> NDArray[np.int64]:
    return uploads.components["bits"].dense(np.arange(len(uploads.users)))[:, 0].astype(np.int64)
