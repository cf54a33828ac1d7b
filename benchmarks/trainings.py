"""Time of whole trainings by `run`, compared with code that one would write by hand.

Interactions are synthetic, with the counts and the skew of MovieLens 100K (943 users, 1,682 items).
Everything runs in one thread, with printed settings, and keeps each client's uploads.

- The loop over clients (ratio 1) keeps uploads as arrays; for FCF, only those of one round.
- "numpy, all clients at once" is what a careful user writes: uploads as factors, reports or bits,
  without a loop over clients.
- FCF: both give our item table, up to rounding.
- FMF-LDP and DPLCF draw new noise. The norm of FMF-LDP's item table is compared.
- FedRec: the loop in torch has one `nn.Module` per client, explicit batches and torch's Adam. The
  loop in numpy has explicit backpropagation and Adam on the rows of the client's examples. Both run
  on every 40th client by activity, and are extrapolated by the number of minibatches. They use the
  same draws as our system, and a client's item table is compared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits
from torch import nn

from benchmarks import Row, time_best
from benchmarks._fcf import make_interactions
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.base import Clients, DataSizes, LocalSettings
from fedrec_auditor.targets.federated.learners import GcnLearner
from fedrec_auditor.targets.federated.local_training import draw_examples, draw_visit_orders
from fedrec_auditor.targets.papers.dplcf.systems import DplcfSp
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf, FmfLdp
from fedrec_auditor.targets.streams import Streams

LOOP, BATCH, RUN = "loop over clients", "numpy, all clients at once", "target.run"
FEATURES = 44
Floats = NDArray[np.floating[Any]]


def measure() -> tuple[Row, ...]:
    """Times of the trainings of FCF, FMF-LDP, DPLCF and FedRec."""
    torch.set_num_threads(1)
    data = make_interactions(943, 1682, 100_000)
    with threadpool_limits(1):
        return (*_time_fcf(data), *_time_fmf_ldp(data), *_time_dplcf(data), *_time_fedrec(data))


def _time(job: str, ways: dict[str, Callable[[], Any]], users: int, repeats: int) -> list[Row]:
    """Rows of times for ``users`` user rounds of a job."""
    seconds = time_best(ways, repeats)
    return [
        Row(job=job, way=way, seconds=s, work=users, unit="user rounds")
        for way, s in seconds.items()
    ]


def draw_first_table(system: Fcf | FmfLdp, n_items: int) -> Floats:
    """The first item table (items, factors) of a training with seed 0."""
    rng = np.random.default_rng(0)
    return rng.normal(scale=system.init_scale, size=(n_items, system.factors))


def ascend(system: Fcf | FmfLdp, items: Floats, gradient: Floats) -> Floats:
    """The item table after the server's gradient steps of one round."""
    for _ in range(system.server_steps):
        items = items + system.learning_rate * (gradient - 2 * system.regularization * items)
    return items


def solve_users(system: Fcf | FmfLdp, ratings: sparse.csr_array, items: Floats) -> Floats:
    """User vectors of all clients, (n, F), by least squares in one call."""
    factors = items.shape[1]
    products = (items[:, :, None] * items[:, None, :]).reshape(len(items), -1)
    grams = (ratings @ products).reshape(-1, factors, factors)
    shared = items.T @ items + system.regularization * np.eye(factors)
    sums = (1 + system.alpha) * (ratings @ items)
    return np.linalg.solve(shared + system.alpha * grams, sums[:, :, None])[:, :, 0]


def _time_fcf(ratings: sparse.csr_array) -> list[Row]:
    rows: list[Row] = []
    data = Interactions.create(ratings)
    for factors in (5, 64):
        system = Fcf(factors=factors, rounds=10)

        def run_loop(system: Fcf = system) -> Floats:
            items, messages = draw_first_table(system, ratings.shape[1]), []
            for _ in range(system.rounds):
                shared = items.T @ items + system.regularization * np.eye(items.shape[1])
                total = np.zeros_like(items)
                messages = []  # of one round; ten would not fit into memory at 64 factors
                for user in range(ratings.shape[0]):
                    own = ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]]
                    mine = items[own]
                    gram = shared + system.alpha * (mine.T @ mine)
                    x = np.linalg.solve(gram, (1 + system.alpha) * mine.sum(axis=0))
                    left = -(items @ x)
                    left[own] = (1 + system.alpha) * (1 + left[own])
                    gradient = left[:, None] * x
                    total += gradient
                    messages.append(gradient)
                items = ascend(system, items, 2.0 * total)
            return items

        def run_batch(system: Fcf = system) -> Floats:
            items, messages = draw_first_table(system, ratings.shape[1]), []
            users = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
            for _ in range(system.rounds):
                x = solve_users(system, ratings, items)
                predicted = np.einsum("nf,nf->n", x[users], items[ratings.indices])
                more = (1 + system.alpha) * (1 - predicted) + predicted
                fixes = sparse.csr_array((more, ratings.indices, ratings.indptr), ratings.shape)
                messages.append((x, fixes))
                items = ascend(system, items, 2.0 * (fixes.T @ x - items @ (x.T @ x)))
            return items

        def run_own(system: Fcf = system) -> Floats:
            run = system.run(data, np.random.default_rng(0))
            return run.model.arrays["items"]

        for way in (run_loop, run_batch):
            np.testing.assert_allclose(way(), run_own(), rtol=1e-5, atol=1e-7)
        ways = {LOOP: run_loop, BATCH: run_batch, RUN: run_own}
        job = f"fcf, F = {factors}, 10 rounds"
        rows += _time(job, ways, ratings.shape[0] * 10, 3)
    return rows


def _time_fmf_ldp(ratings: sparse.csr_array) -> list[Row]:
    system = FmfLdp(rounds=10)
    data = Interactions.create(ratings)
    (n, m), k, f = ratings.shape, system.reports, system.factors
    size = m * f
    odds = np.exp(system.epsilon)
    magnitude = size * (odds + 1) / (odds - 1)
    rated = ratings.toarray() != 0

    def run_loop() -> Floats:
        rng = np.random.default_rng(0)
        items, sent = draw_first_table(system, m), []
        for _ in range(system.rounds):
            total = np.zeros(size)
            shared = items.T @ items + system.regularization * np.eye(f)
            for user in range(n):
                own = ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]]
                mine = items[own]
                gram = shared + system.alpha * (mine.T @ mine)
                x = np.linalg.solve(gram, (1 + system.alpha) * mine.sum(axis=0))
                index = rng.integers(size, size=k)
                item, factor = np.divmod(index, f)
                there = rated[user, item]
                entry = np.where(there, 1 + system.alpha, 1) * (there - items[item] @ x) * x[factor]
                up = (np.clip(entry, -1, 1) * (odds - 1) + odds + 1) / (2 * odds + 2)
                sign = np.where(rng.random(k) < up, 1, -1)
                sent.append((index, sign))
                np.add.at(total, index, sign * magnitude)
            items = ascend(system, items, total.reshape(m, f) / (n * k))
        return items

    def run_batch() -> Floats:
        rng = np.random.default_rng(0)
        items, sent, rows = draw_first_table(system, m), [], np.arange(n)[:, None]
        for _ in range(system.rounds):
            x = solve_users(system, ratings, items)
            index = rng.integers(size, size=(n, k))
            item, factor = np.divmod(index, f)
            there = rated[rows, item]
            predicted = np.einsum("nkf,nf->nk", items[item], x)
            entry = np.where(there, 1 + system.alpha, 1) * (there - predicted) * x[rows, factor]
            up = (np.clip(entry, -1, 1) * (odds - 1) + odds + 1) / (2 * odds + 2)
            sign = np.where(rng.random((n, k)) < up, 1, -1).astype(np.int8)
            sent.append((index, sign))
            total = np.bincount(index.ravel(), (sign * magnitude).ravel(), size)
            items = ascend(system, items, total.reshape(m, f) / (n * k))
        return items

    def run_own() -> Floats:
        return system.run(data, np.random.default_rng(0)).model.arrays["items"]

    sizes = [float(np.linalg.norm(way())) for way in (run_loop, run_batch, run_own)]
    np.testing.assert_allclose(sizes, sizes[0], rtol=0.05)
    return _time("fmf-ldp, 10 rounds", {LOOP: run_loop, BATCH: run_batch, RUN: run_own}, n * 10, 3)


def _time_dplcf(ratings: sparse.csr_array) -> list[Row]:
    system, data = DplcfSp(), Interactions.create(ratings)
    n, m = ratings.shape
    keep = np.exp(system.epsilon) / (1 + np.exp(system.epsilon))

    def find_neighbours(bits: NDArray[np.bool_]) -> Floats:
        """The neighbours (items, k) of each item by Jaccard similarity, from flipped bits."""
        ones = bits.astype(np.float32)
        both = (ones.T @ ones).astype(np.float64)
        single = np.diag(both)
        counts = np.stack(
            [both, single[:, None] - both, single - both, n - single[:, None] - single + both]
        )
        flip = np.array([[keep, 1 - keep], [1 - keep, keep]])
        counts = np.tensordot(np.linalg.inv(np.kron(flip, flip)), counts, 1)
        union = np.maximum(counts[:3].sum(axis=0), 1e-9)
        similarity = np.clip(counts[0] / union, 0, 1)
        np.fill_diagonal(similarity, -1)
        return np.argpartition(-similarity, system.neighbours, axis=1)[:, : system.neighbours]

    def run_loop() -> Floats:
        rng, kept = np.random.default_rng(0), []
        for user in range(n):
            bits = np.zeros(m, dtype=bool)
            bits[ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]]] = True
            kept.append(bits ^ (rng.random(m) >= keep))
        return find_neighbours(np.stack(kept))

    def run_batch() -> Floats:
        rng = np.random.default_rng(0)
        return find_neighbours((ratings.toarray() != 0) ^ (rng.random((n, m)) >= keep))

    def run_own() -> Any:
        return system.run(data, np.random.default_rng(0)).model

    return _time("dplcf-sp", {LOOP: run_loop, BATCH: run_batch, RUN: run_own}, n, 3)


class GcnClient(nn.Module):
    """The client with a graph convolution, as one would write it in torch."""

    def __init__(self, model: dict[str, NDArray[np.float32]]) -> None:
        super().__init__()
        d = model["item"].shape[1]
        self.item = nn.Embedding(*model["item"].shape)
        self.user = nn.Linear(FEATURES, d, bias=False)
        self.neighbours = nn.Linear(d, d, bias=False)
        self.convolution = nn.Linear(d, d)
        self.first, self.last = nn.Linear(2 * d, d), nn.Linear(d, 1)
        with torch.no_grad():
            for parameter, name in (
                (self.item.weight, "item"),
                (self.user.weight, "user.E"),
                (self.neighbours.weight, "user.W1"),
                (self.convolution.weight, "user.W2"),
                (self.convolution.bias, "user.b"),
                (self.first.weight, "mlp1.weight"),
                (self.first.bias, "mlp1.bias"),
                (self.last.weight, "mlp2.weight"),
                (self.last.bias, "mlp2.bias"),
            ):
                parameter.copy_(torch.from_numpy(model[name]))

    def forward(self, x: torch.Tensor, own: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Logits of ``items`` for a user with features x who holds ``own``."""
        mean = self.neighbours(self.item(own)).mean(0)
        user = torch.relu(self.convolution(self.user(x) + mean))
        both = torch.cat([user.expand(len(items), -1), self.item(items)], dim=1)
        return self.last(torch.relu(self.first(both)))[:, 0]


def run_torch(model: dict[str, NDArray[np.float32]], clients: Clients, local: LocalSettings) -> Any:
    """Trains every client in torch, and returns the trained modules."""
    received, modules = GcnClient(model), []
    examples = draw_examples(clients.interactions, clients.streams, local.negatives)
    loss = nn.BCEWithLogitsLoss(reduction="sum")
    for user in range(len(clients)):
        part = slice(examples.indptr[user], examples.indptr[user + 1])
        ids = torch.from_numpy(examples.item_ids[part].astype(np.int64))
        label = torch.from_numpy(examples.is_positive[part]).float()
        own, x = ids[label > 0], torch.from_numpy(clients.features[user])
        module = copy.deepcopy(received)
        optimizer = torch.optim.Adam(module.parameters(), lr=local.learning_rate)
        for epoch in range(local.epochs):
            stream = clients.streams.take(np.array([user]))
            order = torch.from_numpy(
                draw_visit_orders(stream, np.array([len(ids)]), epoch)[0]
            ).long()
            for batch in order.split(local.batch):
                optimizer.zero_grad()
                loss(module(x, own, ids[batch]), label[batch]).backward()
                optimizer.step()
        modules.append(module)
    return modules


def run_numpy(
    model: dict[str, NDArray[np.float32]], clients: Clients, local: LocalSettings
) -> list[dict[str, Any]]:
    """Trains every client in numpy, and returns the trained parameters of each by name.

    The item table has only the rows of the client's examples.
    """
    trained = []
    examples = draw_examples(clients.interactions, clients.streams, local.negatives)
    for user in range(len(clients)):
        part = slice(examples.indptr[user], examples.indptr[user + 1])
        ids, label = examples.item_ids[part], examples.is_positive[part].astype(np.float32)
        touched, place = np.unique(ids, return_inverse=True)
        own = place[label > 0]
        theta = {name: array.copy() for name, array in model.items() if name != "item"}
        theta["item"] = model["item"][touched]
        first = {name: np.zeros_like(array) for name, array in theta.items()}
        second = {name: np.zeros_like(array) for name, array in theta.items()}
        step, d, x = 0, theta["item"].shape[1], clients.features[user]
        for epoch in range(local.epochs):
            stream = clients.streams.take(np.array([user]))
            order = draw_visit_orders(stream, np.array([len(ids)]), epoch)[0]
            for start in range(0, len(order), local.batch):
                batch = order[start : start + local.batch]
                mean = theta["item"][own].mean(axis=0)
                before = theta["user.E"] @ x + theta["user.W1"] @ mean
                hidden = theta["user.W2"] @ before + theta["user.b"]
                vector = np.maximum(hidden, 0)
                rows = theta["item"][place[batch]]
                weight = theta["mlp1.weight"]
                inner = rows @ weight[:, d:].T + (weight[:, :d] @ vector + theta["mlp1.bias"])
                active = np.maximum(inner, 0)
                logit = active @ theta["mlp2.weight"][0] + theta["mlp2.bias"]
                error = 1 / (1 + np.exp(-logit)) - label[batch]
                back = error[:, None] * theta["mlp2.weight"] * (inner > 0)
                both = np.concatenate([np.broadcast_to(vector, rows.shape), rows], axis=1)
                pushed = (back @ weight[:, :d]).sum(axis=0) * (hidden > 0)
                drawn = theta["user.W2"].T @ pushed
                items = np.zeros_like(theta["item"])
                np.add.at(items, place[batch], back @ weight[:, d:])
                items[own] += theta["user.W1"].T @ drawn / len(own)
                slopes = {
                    "item": items,
                    "user.E": np.outer(drawn, x),
                    "user.W1": np.outer(drawn, mean),
                    "user.W2": np.outer(pushed, before),
                    "user.b": pushed,
                    "mlp1.weight": back.T @ both,
                    "mlp1.bias": back.sum(axis=0),
                    "mlp2.weight": (error @ active)[None],
                    "mlp2.bias": error.sum(keepdims=True),
                }
                step += 1
                for name, slope in slopes.items():
                    first[name] += 0.1 * (slope - first[name])
                    second[name] += 0.001 * (slope * slope - second[name])
                    rate = local.learning_rate / (1 - 0.9**step)
                    root = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
                    theta[name] -= (rate * first[name] / root).astype(np.float32)
        trained.append({**theta, "ids": touched})
    return trained


def _time_fedrec(ratings: sparse.csr_array) -> list[Row]:
    rng, learner = np.random.default_rng(1), GcnLearner()
    local = LocalSettings(optimizer="adam")
    clients = Clients(
        interactions=Interactions.create(ratings),
        features=rng.random((ratings.shape[0], FEATURES)).astype(np.float32),
        streams=Streams.spawn(rng, ratings.shape[0]),
    )
    catalogue = DataSizes(n_items=ratings.shape[1], n_user_features=FEATURES)
    model = learner.init_model(catalogue, rng)
    sample = clients.take_devices(np.argsort(np.diff(ratings.indptr), kind="stable")[20::40])
    few = sample.take_devices(np.arange(2))
    trained = learner.train(model, few, local, Machine())["item"].to_dense(np.arange(2))
    for table, module, own in zip(
        trained, run_torch(model, few, local), run_numpy(model, few, local), strict=True
    ):
        np.testing.assert_allclose(table, module.item.weight.detach().numpy(), atol=1e-3)
        np.testing.assert_allclose(table[own["ids"]], own["item"], atol=1e-3)
    ways: dict[str, Callable[[], Any]] = {
        "loop over clients, torch": lambda: run_torch(model, sample, local),
        "loop over clients, numpy": lambda: run_numpy(model, sample, local),
    }
    whole, part = (_count_steps(each, local) for each in (clients, sample))
    job = f"fedrec, a round of all {len(clients)} users"
    rows = [
        replace(each, seconds=each.seconds * whole / part, note=f"{len(sample)} clients timed")
        for each in _time(job, ways, len(clients), 2)
    ]
    for threads in (1, 2):
        compute = Machine(threads=threads)
        way = f"ours, {threads} thread{'s' * (threads > 1)}"
        run: dict[str, Callable[[], Any]] = {
            way: lambda c=compute: learner.train(model, clients, local, c)
        }
        rows += _time(job, run, len(clients), 2)
    return rows


def _count_steps(clients: Clients, local: LocalSettings) -> int:
    sizes = draw_examples(clients.interactions, clients.streams, local.negatives).n_examples
    return int(np.ceil(sizes / local.batch).sum())
