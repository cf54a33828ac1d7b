"""One FedRec round: every client's local training of the GCN recommender, and its upload kept.

d = 64, 5 local epochs, batches of 32, four negatives a positive drawn without replacement, one
thread, float32, interactions synthetic with the counts and the skew of MovieLens. The first loop
(ratio 1) is what one would write: a copy of an `nn.Module` a client, a `DataLoader`,
`torch.optim.SGD`, autograd; the second cuts its batches by hand. Both run on every 40th client by
activity (20 to 737 interactions) and are extrapolated to all by the number of minibatches. All ways
consume the same negatives and orders, and a client's result is compared before the timing. Ours
keeps every upload: all of the user's and MLP's parameters, and the touched rows of the item table.
Whole processes start Python, import what they need, make the interactions and train one round;
the cold one compiles, which is kept in a cache beside the source (or `NUMBA_CACHE_DIR`).
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import Row, best_of, own_peak
from benchmarks.fcf_round import interactions
from fedrec_auditor.targets.components import Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Catalogue, Clients, LocalTraining
from fedrec_auditor.targets.learners.gcn import Gcn
from fedrec_auditor.targets.learners.parts.minibatches import draw_examples, draw_order
from fedrec_auditor.targets.streams import Streams

FEATURES, LOCAL, LEARNER = 44, LocalTraining(), Gcn(init_scale=0.1)
LOADER = "client loop, nn.Module, DataLoader"
LOOP = "client loop, nn.Module, batches by hand"


class Module(nn.Module):
    """The GCN client as one would write it in torch."""

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


def setting(users: int, items: int, count: int) -> tuple[dict[str, NDArray[np.float32]], Clients]:
    rng = np.random.default_rng(1)
    clients = Clients(
        interactions=Interactions.of(interactions(users, items, count)),
        features=rng.random((users, FEATURES)).astype(np.float32),
        streams=Streams.spawn(rng, users),
    )
    catalogue = Catalogue(n_items=items, n_user_features=FEATURES)
    return LEARNER.initial(catalogue, rng), clients


def some(clients: Clients, users: NDArray[np.int64]) -> Clients:
    return Clients(
        interactions=clients.interactions.take(users),
        features=clients.features[users],
        streams=clients.streams.take(users),
    )


def loop(
    model: dict[str, NDArray[np.float32]], clients: Clients, loader: bool = False
) -> list[nn.Module]:
    received, kept = Module(model), []
    examples = draw_examples(clients.interactions, clients.streams, LOCAL.negatives)
    loss = nn.BCEWithLogitsLoss(reduction="sum")
    for user in range(len(clients)):
        part = slice(examples.indptr[user], examples.indptr[user + 1])
        ids = torch.from_numpy(examples.ids[part].astype(np.int64))
        label = torch.from_numpy(examples.positive[part]).float()
        own, x = ids[label > 0], torch.from_numpy(clients.features[user])
        module = copy.deepcopy(received)
        optimizer = torch.optim.SGD(module.parameters(), lr=LOCAL.learning_rate)
        for epoch in range(LOCAL.epochs):
            stream = clients.streams.take(np.array([user]))
            order = torch.from_numpy(draw_order(stream, np.array([len(ids)]), epoch)[0]).long()
            batches: Iterable[list[torch.Tensor]] = (
                DataLoader(TensorDataset(ids, label), LOCAL.batch, sampler=order.tolist())
                if loader
                else ([ids[batch], label[batch]] for batch in order.split(LOCAL.batch))
            )
            for items, labels in batches:
                optimizer.zero_grad()
                loss(module(x, own, items), labels).backward()
                optimizer.step()
        kept.append(module)
    return kept


def measure() -> tuple[Row, ...]:
    torch.set_num_threads(1)
    model, clients = setting(943, 1682, 100_000)
    activity = np.argsort(np.diff(clients.interactions.ratings.indptr), kind="stable")
    sample = some(clients, activity[20::40])
    trained = LEARNER.train(model, sample, LOCAL, Compute(kernel="numba"))
    module = loop(model, some(sample, np.array([0])))[0]
    np.testing.assert_allclose(
        trained["item"].dense(np.array([0]))[0],
        module.get_parameter("item.weight").detach().numpy(),
        atol=1e-5,
    )
    job = "943 users, 1682 items, d = 64"
    loops = best_of(
        {LOADER: lambda: loop(model, sample, loader=True), LOOP: lambda: loop(model, sample)}, 3
    )
    rows = [
        Row(
            job=job,
            way=way,
            seconds=seconds * _steps(clients) / _steps(sample),
            work=943,
            unit="users",
            note=f"{len(sample)} clients timed",
        )
        for way, seconds in loops.items()
    ]
    ways = {
        f"gcn, {label}": Compute(kernel=kernel, threads=threads)
        for label, kernel, threads in (
            ("batched torch", "torch", 1),
            ("fused numba", "numba", 1),
            ("fused numba, 2 threads", "numba", 2),
        )
    }
    seconds = best_of(
        {
            way: lambda c=compute: LEARNER.train(model, clients, LOCAL, c)
            for way, compute in ways.items()
        },
        3,
    )
    rows += [
        Row(job=job, way=way, seconds=s, work=943, unit="users", note=_sent(model, clients))
        for way, s in seconds.items()
    ]
    rows += _processes()
    return tuple(rows)


def _steps(clients: Clients) -> int:
    sizes = draw_examples(clients.interactions, clients.streams, LOCAL.negatives).sizes
    return int(np.ceil(sizes / LOCAL.batch).sum())


def _sent(model: dict[str, NDArray[np.float32]], clients: Clients) -> str:
    item = LEARNER.train(model, some(clients, np.arange(0, 943, 10)), LOCAL, Compute())["item"]
    assert isinstance(item, Rows)
    touched = (item.values.nbytes + item.ids.nbytes) * 943 / len(item)
    whole = model["item"].nbytes * 943
    return f"item rows kept {touched / 1e6:.0f} MB of {whole / 1e6:.0f} MB"


def _processes() -> list[Row]:
    """Whole processes, and the ML-1M shape in one, with its peak memory."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for way, users, kernel, threads in (
            ("batched torch", 943, "torch", 1),
            ("fused numba, cold cache", 943, "numba", 1),
            ("fused numba, warm cache", 943, "numba", 1),
            ("fused numba, 2 threads", 6040, "numba", 2),
        ):
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.fedrec_round", str(users), kernel, str(threads)],
                env={**os.environ, "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": str(threads)},
                check=True,
                capture_output=True,
                text=True,
            )
            whole = time.perf_counter() - start
            seconds, peak = (float(word) for word in done.stdout.split())
            large = users == 6040
            rows.append(
                Row(
                    job="a round of 604 of 6040 users, 3706 items, d = 64"
                    if large
                    else "a whole process, 943 users",
                    way=f"gcn, {way}",
                    seconds=seconds if large else whole,
                    work=604 if large else 943,
                    unit="users",
                    note=f"process {whole:.1f} s, peak memory {peak:.0f} MiB",
                )
            )
    return rows


def main(users: int, kernel: str, threads: int) -> None:
    """One round in a process of its own: prints its seconds and its peak memory in MiB."""
    if users == 943:
        model, clients = setting(943, 1682, 100_000)
    else:
        model, clients = setting(6040, 3706, 1_000_000)
        chosen = np.sort(np.random.default_rng(2).choice(6040, 604, replace=False))
        clients = some(clients, chosen)
    start = time.perf_counter()
    LEARNER.train(model, clients, LOCAL, Compute(kernel=kernel, threads=threads))
    seconds = time.perf_counter() - start
    print(seconds, own_peak())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
