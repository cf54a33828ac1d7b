"""VerticalGNN as released: parties that hold items send ternary gradients and neighbour sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Dense, Floats, Ints, Kind
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.clipped import Clipped
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.mechanisms.product import Product
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.mechanisms.ternary import Ternary
from fedrec_auditor.targets.settings import Positive, Probability, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population, Split
from fedrec_auditor.targets.systems.system import Messages, System, Trained, Training
from fedrec_auditor.targets.transcript import Public, Round, Uploads

_FLOOR = 1e-8  # what squares of gradients begin with
Tables = Mapping[str, Floats]


@dataclass(frozen=True, kw_only=True)
class VerticalGnn(System):
    """Graph convolutions of users and items; every party has all users' ratings of some items.

    In a step each party takes its part of a batch of ratings, and sends gradients of what all
    share: the user table, a matrix a layer, and the weights of layers. A number is clipped to
    ``bound`` and sent as ``size`` with either sign, or 0 (``Ternary``). With ``sums`` it sends of
    each layer, for all users, the sum of their items' embeddings, too: a count sketch of
    n_users / ``sketch`` rows, without noise. Others' sums are added to its own. Item tables stay.

    Ratings of ``threshold`` and more are edges. A party of few items has normalised weights less.
    Defaults are those of main.py but for ``threshold`` (its 6 is for ratings up to 10, and no
    rating of MovieLens reaches it) and ``sums``, which it has no switch for; ``rounds`` are 50
    epochs of MovieLens 100K. Source: main.py, model.py, train.py and load_data.py at 70d3d1b.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> system, people = VerticalGnn(sums=False), Population(n_users=943, n_items=1682)
    >>> [(q.claim.epsilon, round(q.claim.delta, 3)) for q in system.scoped_claims(people)][:1]
    [(0.0, 0.167)]
    """

    parties: Annotated[Whole, "parties, with a run of items each"] = 10
    dimension: Annotated[Whole, "entries of an embedding"] = 6
    layers: Annotated[Whole, "convolutions"] = 2
    batch: Annotated[Whole, "ratings of a step"] = 5000
    rounds: Annotated[Whole, "steps of a training"] = 800
    learning_rate: Annotated[Positive, "size of a step, by Adagrad"] = 0.05
    init_scale: Annotated[Positive, "standard deviation of the first embeddings"] = 0.1
    bound: Annotated[Positive, "to what gradients are clipped"] = 0.5
    size: Annotated[Positive, "size of what is sent"] = 3.0
    share: Annotated[Probability, "of numbers that are not 0; 0: as gradients say"] = 0.0
    threshold: Annotated[Positive, "the least rating that is an edge"] = 3.0
    sketch: Annotated[Whole, "users a row of the sketch of sums"] = 5
    sums: Annotated[bool, "whether neighbours' sums are sent"] = True

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    @property
    def ternary(self) -> Ternary:
        """What a number of a gradient goes through."""
        return Ternary(self.bound, self.size, self.share)

    @property
    def delta(self) -> float:
        """The chance of a sign that proves itself: what a number needs at every epsilon."""
        return self.ternary.delta_least

    @property
    def epsilon(self) -> float:
        """Pure epsilon of a number, infinite without a ``share``."""
        return self.ternary.epsilon

    def weights(self, population: Population) -> int:
        """Numbers of a gradient."""
        layers = self.layers * self.dimension**2 + self.layers + 1
        return population.n_users * self.dimension + layers

    def moved(self, unit: Unit, population: Population) -> int:
        """Numbers that one ``unit`` may move: a user's ratings are with all parties."""
        if unit is Unit.COORDINATE:
            return 1
        parties = min(self.parties, population.n_items)
        return self.weights(population) * (parties if unit in (Unit.USER, Unit.ATTRIBUTE) else 1)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Sums show whoever has an edge; of gradients one number, or all with opposite signs.

        A user's edge may turn the error of everybody who rated the item, and with it all signs.
        """
        if scope.vantage is not Vantage.SERVER or scope.is_presence:
            return None
        if scope.unit is Unit.ATTRIBUTE:
            return None
        found: Mechanism = Clipped(self.ternary)
        if self.sums:
            found = Identity()
        elif scope.unit in (Unit.USER, Unit.REPORT):
            found = Clipped(Product(self.ternary, self.moved(scope.unit, population)))
        elif scope.unit is not Unit.COORDINATE:
            return None
        training = scope.horizon is Horizon.TRAINING
        return Repeated(found, self.rounds) if training else found

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """All numbers that the unit moves; who takes part, and sums, are not hidden."""
        if self.sums or scope.is_presence:
            return dp.NonPrivateDpEvent()
        numbers = self.moved(scope.unit, population) * self.uses(scope.horizon)
        return dp.SelfComposedDpEvent(self.ternary.event(), numbers)

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Tables of all users from every party."""
        sizes = Population(n_users=interactions.n_users, n_items=interactions.n_items)
        rows = self.layers * (1 + interactions.n_users // self.sketch)
        numbers = self.weights(sizes) + self.sums * rows * self.dimension
        senders = min(self.parties, interactions.n_items)
        return {"width": self.dimension, "senders": senders, "bytes": 4 * numbers}

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: messages are of parties."""
        parties = min(self.parties, interactions.n_items)
        return replace(super().public(interactions), parties=parties)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Which ratings a batch has is chosen by ``rng``, anew each epoch."""
        n, d, every = interactions.n_users, self.dimension, interactions.ratings.tocoo()
        dealt = np.array_split(np.arange(interactions.n_items), min(self.parties, every.shape[1]))
        graphs = [self.graph(interactions.ratings, own) for own in dealt]
        rows = max(1, n // self.sketch)
        phi = sparse.csr_array(
            (rng.choice([-1.0, 1.0], n), (rng.integers(0, rows, n), np.arange(n))), shape=(rows, n)
        )
        one = rng.normal(scale=math.sqrt(1.0 / d), size=(d, d))  # Glorot's, the same in all layers
        model: dict[str, Floats] = {
            "user": rng.normal(scale=self.init_scale, size=(n, d)),
            "gnn.W": np.stack([one] * self.layers),
            "gnn.a": np.full(self.layers + 1, 1.0 / (self.layers + 1)),
        }
        items: list[Floats] = [
            rng.normal(scale=self.init_scale, size=(len(own), d)) for own in dealt
        ]
        told = np.zeros((len(dealt), self.layers, rows, d))
        steps = _Adagrad(self.learning_rate)
        size, order = min(self.batch, every.nnz), np.arange(0)
        with one_thread():
            for _ in range(self.rounds):
                if len(order) < size:
                    order = rng.permutation(every.nnz)
                some, order = order[:size], order[size:]
                batch = sparse.csr_array(
                    (every.data[some], (every.row[some], every.col[some])), shape=every.shape
                )
                sent: list[Tables] = []
                streams, heard = Streams.spawn(rng, len(dealt)), told.sum(axis=0)
                sums = []
                for k, own in enumerate(dealt):
                    tables = {**model, "item": items[k]}
                    layers = self.forward(tables, graphs[k], phi, heard - told[k])
                    found = self.backward(tables, graphs[k], layers, batch[:, own])
                    sums.append(np.stack([phi @ each for each in layers.sums]))
                    items[k] = steps.step(f"item {k}", items[k], found.pop("item"))
                    sent.append(found)
                messages = self.sent(sent, np.stack(sums), streams)
                yield Round(
                    broadcast={**model, **({"sums": heard} if self.sums else {})},
                    uploads=Uploads(np.arange(len(dealt)), messages),
                )
                told = np.stack(sums) if self.sums else told
                for name, table in model.items():
                    total = messages[name].total()
                    if name == "user":
                        total = total + 2.0 * table / n
                    model[name] = steps.step(name, table, total)
        ends = [
            self.forward({**model, "item": items[k]}, graphs[k], phi, told.sum(axis=0) - told[k])
            for k in range(len(dealt))
        ]
        scores = np.hstack([end.user(model) @ end.item(model).T for end in ends])
        return Trained(model, {**model, "scores": scores})

    def graph(self, ratings: sparse.csr_array, own: Ints) -> sparse.csr_array:
        """The party's edges, users by its items, by the roots of degrees and of its share."""
        edges = sparse.csr_array(ratings[:, own] >= self.threshold).astype(np.float64)
        of_users, of_items = (np.maximum(edges.sum(axis=axis), 1.0) for axis in (1, 0))
        left, right = (sparse.diags_array(1.0 / np.sqrt(each)) for each in (of_users, of_items))
        share = math.sqrt(len(own) / ratings.shape[1])
        return sparse.csr_array(share * (left @ edges @ right))

    def forward(
        self, tables: Tables, graph: sparse.csr_array, phi: sparse.csr_array, others: Floats
    ) -> _Layers:
        """Embeddings layer by layer, with what ``others`` (L, rows, d) sent of theirs."""
        users, items, sums, missing = [tables["user"]], [tables["item"]], [], phi.T
        for w, sketched in zip(tables["gnn.W"], others, strict=True):
            sums.append(graph @ items[-1])
            user = _sigmoid((sums[-1] + missing @ sketched + users[-1]) @ w.T)
            item = _sigmoid((graph.T @ users[-1] + items[-1]) @ w.T)
            users.append(user)
            items.append(item)
        return _Layers(users, items, sums, [missing @ sketched for sketched in others])

    def backward(
        self, tables: Tables, graph: sparse.csr_array, made: _Layers, ratings: sparse.csr_array
    ) -> dict[str, Floats]:
        """Gradients of the sum of squared errors, and of the items' squares over their number."""
        rows, columns = ratings.nonzero()
        users, items = made.user(tables), made.item(tables)
        error = 2.0 * ((users[rows] * items[columns]).sum(axis=1) - ratings.data)
        errors = sparse.csr_array((error, (rows, columns)), shape=ratings.shape)
        of_user, of_item = errors @ items, errors.T @ users
        a, w = tables["gnn.a"], tables["gnn.W"]
        of_a = [
            (of_user * made.users[k]).sum() + (of_item * made.items[k]).sum() for k in range(len(a))
        ]
        user, item, of_w = a[-1] * of_user, a[-1] * of_item, np.zeros_like(w)
        for k in range(self.layers - 1, -1, -1):
            user = user * made.users[k + 1] * (1.0 - made.users[k + 1])
            item = item * made.items[k + 1] * (1.0 - made.items[k + 1])
            of_w[k] = user.T @ (made.sums[k] + made.missing[k] + made.users[k])
            of_w[k] += item.T @ (graph.T @ made.users[k] + made.items[k])
            user, item = user @ w[k], item @ w[k]
            user, item = (
                a[k] * of_user + user + graph @ item,
                a[k] * of_item + item + graph.T @ user,
            )
        item = item + 2.0 * tables["item"] / max(1, len(item))
        return {"user": user, "gnn.W": of_w, "gnn.a": np.array(of_a), "item": item}

    def sent(self, found: list[Tables], sums: Floats, streams: Streams) -> Messages:
        """Ternary gradients, a row a party, and the sums as they are."""
        messages: Messages = {}
        for purpose, name in enumerate(found[0]):
            values = np.stack([each[name] for each in found]).clip(-self.bound, self.bound)
            uniform = streams.fold_in(purpose).uniform(math.prod(values.shape[1:]))
            drawn = self.ternary.drawn(values, uniform.reshape(values.shape))
            messages[name] = Dense(drawn.astype(np.float32), Kind.GRADIENT, -1.0)
        if self.sums:
            messages["sums"] = Dense(sums.astype(np.float32), Kind.MODEL)
        return messages

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings, an item by the party that holds it."""
        return np.asarray(model.arrays["scores"][users])


@dataclass(frozen=True, slots=True)
class _Layers:
    """A party's embeddings by layer, the first its tables; own neighbours' sums, and others'."""

    users: list[Floats]
    items: list[Floats]
    sums: list[Floats]
    missing: list[Floats]

    def user(self, tables: Tables) -> Floats:
        """All layers together, by their weights."""
        return np.tensordot(tables["gnn.a"], np.stack(self.users), axes=1)

    def item(self, tables: Tables) -> Floats:
        """All layers together, by their weights."""
        return np.tensordot(tables["gnn.a"], np.stack(self.items), axes=1)


class _Adagrad:
    """Steps by the root of all squares so far, of each table by its name."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.squares: dict[str, NDArray[np.float64]] = {}

    def step(self, name: str, table: Floats, gradient: Floats) -> Floats:
        """The table after a step down."""
        squares = self.squares.setdefault(name, np.full(table.shape, _FLOOR))
        squares += np.square(gradient)
        return np.asarray(table - self.rate * gradient / np.sqrt(squares))


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-values.clip(-500.0, 500.0))))
