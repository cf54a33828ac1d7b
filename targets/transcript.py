"""All that crossed a boundary during a run, and what each vantage may see of it.

This is the only module of ``targets`` that attacks may import. Uploads are stored compactly (a
rank-one gradient as its factors, reports as indices) but read as the protocol sends them, through
``dense``: storage is not knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from accountants.errors import InputError
from accountants.scope import Vantage

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]


class Component(Protocol):
    """One named part of a round's messages, for all clients at once."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's part, as ``dense`` gives it."""
        ...

    def __len__(self) -> int:
        """Number of clients."""
        ...

    def dense(self, clients: Ints) -> NDArray[Any]:
        """What the clients at these positions sent, shape (len(clients), *shape)."""
        ...

    def total(self) -> NDArray[Any]:
        """Sum over all clients, shape ``shape``: what secure aggregation lets through."""
        ...


@dataclass(frozen=True, slots=True)
class Dense:
    """Messages stored as they are: ``values`` has shape (n, *shape)."""

    values: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's part."""
        return self.values.shape[1:]

    def __len__(self) -> int:
        return len(self.values)

    def dense(self, clients: Ints) -> NDArray[Any]:
        """What the clients at these positions sent."""
        return self.values[clients]

    def total(self) -> NDArray[Any]:
        """Sum over all clients."""
        return np.asarray(self.values.sum(axis=0, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class RankOne:
    """Item gradients G_u = (s_u - V x_u) x_u^T, each M x F, stored as their factors.

    ``vectors`` is (n, F), ``items`` the broadcast V (M, F), ``corrections`` the sparse s (n, M).
    Memory is n F + nnz(s) numbers instead of n M F.
    """

    vectors: Floats
    items: Floats
    corrections: sparse.csr_array

    @property
    def shape(self) -> tuple[int, ...]:
        """(M, F)."""
        return self.items.shape

    def __len__(self) -> int:
        return len(self.vectors)

    def dense(self, clients: Ints) -> NDArray[Any]:
        """The gradients that these clients sent, (len(clients), M, F)."""
        x = self.vectors[clients]
        left = self.corrections[clients].toarray() - x @ self.items.T
        return np.asarray(left[:, :, None] * x[:, None, :])

    def total(self) -> NDArray[Any]:
        """Sum of all gradients, without ever building one: S^T X - V (X^T X)."""
        x = self.vectors
        return np.asarray(self.corrections.T @ x - self.items @ (x.T @ x))


@dataclass(frozen=True, slots=True)
class Reports:
    """k reports a client of one coordinate of a matrix each, as +B or -B.

    ``index`` is (n, k), a flat position in the matrix; ``positive`` is (n, k), whether +B was
    sent. ``magnitude`` is B and public. ``matrix`` is the public shape (M, F).
    """

    index: Ints
    positive: NDArray[np.bool_]
    magnitude: float
    matrix: tuple[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        """(M, F)."""
        return self.matrix

    def __len__(self) -> int:
        return len(self.index)

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Each client's estimate of its matrix: the mean of its k reports, (len(clients), M, F)."""
        index, sign = self.index[clients], np.where(self.positive[clients], 1.0, -1.0)
        n, k = index.shape
        size = self.matrix[0] * self.matrix[1]
        flat = (np.arange(n)[:, None] * size + index).ravel()
        sums = np.bincount(flat, weights=sign.ravel(), minlength=n * size)
        return np.asarray((sums * (self.magnitude / k)).reshape(n, *self.matrix))

    def total(self) -> NDArray[Any]:
        """Sum over clients of their estimates."""
        sign = np.where(self.positive, 1.0, -1.0)
        size = self.matrix[0] * self.matrix[1]
        sums = np.bincount(self.index.ravel(), weights=sign.ravel(), minlength=size)
        return np.asarray((sums * (self.magnitude / self.index.shape[1])).reshape(self.matrix))


@dataclass(frozen=True, slots=True)
class Uploads:
    """One round's messages in one batch: whose they are, and their named components."""

    users: Ints
    components: Mapping[str, Component]

    def __post_init__(self) -> None:
        for name, component in self.components.items():
            if len(component) != len(self.users):
                raise InputError(
                    f"Expected {len(self.users)} messages in component {name!r}, "
                    f"got {len(component)}. Give one a user."
                )


@dataclass(frozen=True, slots=True)
class Round:
    """What one round put on the wire: the model sent down, the messages sent up."""

    broadcast: Floats | None
    uploads: Uploads


class Channel(Protocol):
    """The public law of one randomized entry of a message: exact log-probability of an output."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-probability of ``output`` given the private ``value``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """What everybody knows: the algorithm, its settings, and the law of its randomizer."""

    algorithm: str
    n_users: int
    n_items: int
    settings: Mapping[str, float] = field(default_factory=dict)
    channel: Channel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """What a vantage sees of one round; None where it sees nothing."""

    broadcast: Floats | None
    uploads: Uploads | None = None
    pool: Mapping[str, Component] | None = None
    aggregate: Mapping[str, NDArray[Any]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one vantage may see of a run, with the public knowledge. All that an attack is given."""

    vantage: Vantage
    public: Public
    rounds: tuple[Glimpse, ...]

    def blind(self) -> View:
        """The same view without any upload: what the adversary had before the client spoke."""
        return replace(
            self,
            rounds=tuple(Glimpse(broadcast=glimpse.broadcast) for glimpse in self.rounds),
        )

    def component(self, name: str) -> tuple[tuple[Uploads, Component], ...]:
        """The linked uploads that carry ``name``, round by round; empty if none is seen."""
        return tuple(
            (glimpse.uploads, glimpse.uploads.components[name])
            for glimpse in self.rounds
            if glimpse.uploads is not None and name in glimpse.uploads.components
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """All that crossed a boundary in one run."""

    public: Public
    rounds: tuple[Round, ...]
    release: Floats | None = None

    def view(self, vantage: Vantage, rng: np.random.Generator | None = None) -> View:
        """What ``vantage`` sees. The shuffled view needs ``rng`` for its permutation.

        Peers see every broadcast and last the release: it is sent to them to recommend from, and
        follows from the last uploads, not from the broadcasts before.
        """
        if vantage is Vantage.SERVER:
            glimpses = tuple(Glimpse(broadcast=r.broadcast, uploads=r.uploads) for r in self.rounds)
        elif vantage is Vantage.SHUFFLED:
            if rng is None:
                raise InputError("Expected rng for the shuffled view, got None. Pass a Generator.")
            glimpses = tuple(
                Glimpse(
                    broadcast=r.broadcast,
                    pool=MappingProxyType(
                        {
                            name: _shuffle(component, rng)
                            for name, component in r.uploads.components.items()
                        }
                    ),
                )
                for r in self.rounds
            )
        elif vantage is Vantage.AGGREGATE:
            glimpses = tuple(
                Glimpse(
                    broadcast=r.broadcast,
                    aggregate=MappingProxyType(
                        {name: c.total() for name, c in r.uploads.components.items()}
                    ),
                )
                for r in self.rounds
            )
        elif vantage is Vantage.PEERS:
            models = (*(r.broadcast for r in self.rounds), self.release)
            glimpses = tuple(Glimpse(broadcast=model) for model in models)
        else:
            glimpses = (Glimpse(broadcast=self.release),)
        return View(vantage=vantage, public=self.public, rounds=glimpses)


def _shuffle(component: Component, rng: np.random.Generator) -> Component:
    """The same messages without their senders; reports are split up before they are permuted."""
    if isinstance(component, Reports):
        order = rng.permutation(component.index.size)
        return Reports(
            index=component.index.ravel()[order][:, None],
            positive=component.positive.ravel()[order][:, None],
            magnitude=component.magnitude,
            matrix=component.matrix,
        )
    order = rng.permutation(len(component))
    if isinstance(component, RankOne):
        return RankOne(component.vectors[order], component.items, component.corrections[order])
    return Dense(component.dense(order))
