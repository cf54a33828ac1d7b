"""Audits FedGNNRec's released client: noise on its numbers, and the order of its item list.

Its graph convolution needs a package that is not here; a product of vectors replaces it without
effect on the audited parts. Cost: two minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.figures import CLAIM, measure, verify
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.wrapped.client import History

CODE = Checkout(
    "Aeolian2001/FedGNNRec", "648ef81", {"client.py": "5e8f5d523f43a9af9d4f457af6c61dbe362b1c07"}
)
WIDTH, CLIP, SCALE = 16, 0.1, 0.1
"""Defaults of main.py."""
USERS, ITEMS, PSEUDO, ROUNDS, RUNS = 60, 200, 60, 5, 200
"""Size of data and game; PSEUDO / ITEMS is the share of 500 pseudo items in MovieLens 100K."""
SAMPLES, LARGE_VALUE = 40_000, 2.0


def build(module: ModuleType, history: History) -> Any:
    """The released client for a history, without its graph convolution."""
    import torch

    device = object.__new__(module.client)
    held = history.items.tolist()
    device.clip, device.laplace_lambda, device.embed_size = CLIP, SCALE, WIDTH
    device.pseudo_sample = min(PSEUDO, history.n_items - len(held))
    device.id_self, device.items, device.ratings = 0, held, history.ratings.tolist()
    device.model = torch.nn.Linear(WIDTH, WIDTH)
    device.GNN = lambda user, items: items[held] @ device.model(user)
    return device


def make_send(module: ModuleType) -> Callable[..., dict[str, Any]]:
    """Returns a client as a function of a history: the list of items in its message."""
    import torch

    def send(history: History, model: Any, rng: Generator) -> dict[str, Any]:
        listed = np.full(history.n_items, -1)
        if not len(history):  # the released client fails without ratings
            return {"items": listed}
        seed_globals(rng)
        tables = torch.randn(WIDTH), torch.randn(history.n_items, WIDTH)
        _, _, _, items, _ = build(module, history).train(*tables)
        listed[: len(items)] = items
        return {"items": listed}

    return send


def audit(folder: Path) -> Iterator[str]:
    """Yields one line per result; a number is compared with entry 35 of the catalogue."""
    import torch

    (module,) = CODE.load(folder, "client", blank=["dgl", "model"])
    device = build(module, History(items=np.arange(1), ratings=np.ones(1, np.float32), n_items=2))

    def draw_number(x: float, rng: Generator, size: int) -> NDArray[np.float64]:
        seed_globals(rng)
        return np.asarray(device.LDP(torch.full((size,), x)), np.float64)

    ends, bound = (-LARGE_VALUE, LARGE_VALUE), 2.0 * CLIP / SCALE
    for epsilon in (bound, 0.9 * bound):
        words = "a number of a gradient"
        yield verify("released", words, draw_number, epsilon=epsilon, inputs=ends, samples=SAMPLES)
        yield verify("here", words, Laplace(scale=SCALE, low=-CLIP, high=CLIP), epsilon=epsilon)
    rng = np.random.default_rng(0)
    data = (rng.random((USERS, ITEMS)) < 0.1) * rng.integers(1, 6, (USERS, ITEMS))
    kinds = {"items": "items"}
    yield from measure(
        "released", make_send(module), data, RUNS, claim=CLAIM, rounds=ROUNDS, kinds=kinds
    )
