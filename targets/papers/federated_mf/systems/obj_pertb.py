"""Central matrix factorization whose objective is perturbed: item embeddings are published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit
from fedrec_auditor.targets.components import Dense, Floats, Ints, Kind
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.parts.additive import clip_norm
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import blocks, explicit, trim
from fedrec_auditor.targets.settings import Budget, Factors, Knob, Positive, Scale, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population, Split
from fedrec_auditor.targets.systems.system import Calls, Messages, System, Trained, Training
from fedrec_auditor.targets.transcript import Public, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class ObjPertb(System):
    """ObjPertb (Hua, Xia, Zhong, IJCAI 2015): one rating's value is hidden with epsilon, in V.

    The curator factorises the ratings by alternating least squares, keeps U, clipped to |u| <= 1,
    to itself, and publishes for every item the minimiser of the perturbed objective

        sum over its ratings of (x - u.v)^2 + lambda |v|^2 + b.v,

    with b of density proportional to exp(-epsilon |b| / (2R)): a rating's value moves the gradient
    by 2R|u| at most. Per user of ``trim`` ratings at most, epsilon is shared by them. The paper
    compares with this method (section 4.3, Figure 5) and prints no line of it; the trusted
    curator's variant and what is named here are assumed.

    The proof takes U for given, but U is made of the same ratings without noise, and moves with
    them: nothing is proved of the method as it is (``as_published``). Repaired, U is random and
    public; then b is a linear function of V, whose slope does not depend on values, and epsilon
    holds exactly for the value of a rating that is there in any case. For whether it is there
    nothing holds: the change 2u(x - u.v) grows with v.
    """

    factors: Factors = 20
    bound: Scale = 5.0
    epsilon: Annotated[Budget, "of a rating's value, or of all values of a user's ratings"] = 1.0
    regularization: Annotated[Positive, "lambda"] = 10.0
    sweeps: Annotated[Whole, "how often both tables are solved for in turn"] = 10
    unit: Annotated[Literal["rating", "user"], "whose values epsilon hides"] = "rating"
    trim: Annotated[Whole, "most ratings of a user, where the unit is the user"] = 10
    as_published: Annotated[bool, "U of the same ratings; else random and public"] = True

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())
    privacy = Knob(budgets=("epsilon",), off=1e6)

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Repaired, epsilon for a rating's value, in any view; else nothing is bounded."""
        value = scope.unit is Unit.RATING and scope.adjacency is Adjacency.REPLACE
        if self.embeddings.public and value and scope.horizon is not Horizon.REPORT:
            return dp.PureDpEvent(self._share)
        return dp.NonPrivateDpEvent()

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """A table that the curator publishes, and sweeps over all ratings."""
        size = 4 * self.factors * interactions.n_items
        return {"senders": 1, "width": self.factors, "bytes": size, "passes": self.sweeps}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Factorise, perturb, publish: one round, in which the curator sends V.

        Memory is (n + m) p^2 numbers, for the normal equations.
        """
        streams = Streams.spawn(rng, 1)
        ratings = explicit(interactions, self.bound)
        if self.unit == "user":
            ratings = trim(ratings, self.trim, Streams.spawn(rng, interactions.n_users))
        users, items = self._publish(ratings, streams)
        yield Round(
            broadcast=None, uploads=Uploads(np.arange(1), {"items": Dense(items[None], Kind.MODEL)})
        )
        return Trained({"items": items}, {"users": users, "items": items})

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: the message is the curator's."""
        return replace(super().public(interactions), parties=1)

    def messages(self, calls: Calls) -> Messages:
        """What a curator publishes who has one user only, over all items: (m, p)."""
        owners, streams, m = calls.owners, calls.streams, calls.profiles.n_items
        ratings = explicit(calls.clients, self.bound)
        if self.unit == "user":
            ratings = trim(ratings, self.trim, streams.fold_in(3))
        sent = np.empty((len(owners), m, self.factors), dtype=np.float32)
        for block in blocks(len(owners), m * self.factors**2):
            own = sparse.csr_array(ratings[block])
            shift = m * np.repeat(np.arange(len(block)), np.diff(own.indptr))
            wide = sparse.csr_array(
                (own.data, own.indices + shift, own.indptr), shape=(len(block), m * len(block))
            )
            _, items = self._publish(wide, streams.take(block))
            sent[block] = items.reshape(len(block), m, self.factors)
        return {"items": Dense(sent, Kind.MODEL)}

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings u.v, (len(users), n_items), with the curator's own U."""
        with one_thread():
            return np.asarray(model.arrays["users"][users] @ model.arrays["items"].T)

    @property
    def embeddings(self) -> _Fitted | _Drawn:
        """Which U the curator keeps to itself."""
        return _Fitted(self.sweeps) if self.as_published else _Drawn()

    @property
    def _share(self) -> float:
        """Epsilon of one rating."""
        return self.epsilon / self.trim if self.unit == "user" else self.epsilon

    def _publish(
        self, ratings: sparse.csr_array, streams: Streams
    ) -> tuple[Floats, NDArray[np.float32]]:
        """U and the perturbed V of curators with a block of ``ratings`` each, a stream each."""
        m, p = ratings.shape[1], self.factors
        ridge = self.regularization * np.eye(p)
        users = self.embeddings(ratings, ridge, streams.fold_in(0))
        direction = _directions(streams.fold_in(1), m, p)
        # A norm of density r^(p-1) exp(-epsilon r/2R): a sum of p exponentials.
        steps = -np.log(streams.fold_in(2).uniform(m // len(streams) * p)).reshape(m, p)
        noise = direction * (2.0 * self.bound / self._share * steps.sum(axis=1))[:, None]
        items = _least_squares(ratings.T.tocsr(), users, ridge, noise)
        return users.astype(np.float32), items.astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Of the same ratings, by alternating least squares."""

    sweeps: int

    public: ClassVar[bool] = False

    def __call__(
        self, ratings: sparse.csr_array, ridge: NDArray[np.float64], streams: Streams
    ) -> NDArray[np.float64]:
        (_, m), p = ratings.shape, len(ridge)
        items = streams.normal(m // len(streams) * p).reshape(m, p)
        for _ in range(self.sweeps):
            users = clip_norm(_least_squares(ratings, items, ridge), 1.0)
            items = _least_squares(ratings.T.tocsr(), users, ridge)
        return users


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Random, of length 1."""

    public: ClassVar[bool] = True

    def __call__(
        self, ratings: sparse.csr_array, ridge: NDArray[np.float64], streams: Streams
    ) -> NDArray[np.float64]:
        return _directions(streams, ratings.shape[0], len(ridge))


def _directions(streams: Streams, count: int, dimension: int) -> NDArray[np.float64]:
    """So many random directions, (count, dimension)."""
    drawn = streams.normal(count // len(streams) * dimension).reshape(count, dimension)
    return np.asarray(drawn / np.sqrt(np.square(drawn).sum(axis=1, keepdims=True)))


def _least_squares(
    ratings: sparse.csr_array,
    other: NDArray[np.float64],
    ridge: NDArray[np.float64],
    linear: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Rows w that minimise sum (x - w.o)^2 + w ridge w + linear.w over each row's ratings."""
    p = other.shape[1]
    seen = sparse.csr_array(
        (np.ones(ratings.nnz), ratings.indices, ratings.indptr), shape=ratings.shape
    )
    outer = (other[:, :, None] * other[:, None, :]).reshape(-1, p * p)
    squares = np.asarray(seen @ outer).reshape(-1, p, p)
    right = ratings.astype(np.float64) @ other
    if linear is not None:
        right = right - linear / 2.0
    return np.asarray(np.linalg.solve(squares + ridge, right[:, :, None])[:, :, 0])
