"""Audits FedGCDR's released devices: noise on vectors for other domains, and lists of items.

Cost: two minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.figures import CLAIM, measure, verify
from benchmarks.wild.fedgcdr import DELTA, EPSILON, SIGMA
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.wrapped.client import History

CODE = Checkout(
    "LafinHana/FedGCDR",
    "98b2af0",
    {
        "model/__init__.py": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "model/fedgcdr/__init__.py": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "model/fedgcdr/model.py": "35cfee5cf3d18fd990abfcd9a748012b287c0f08",
        "model/fedgcdr/party.py": "7bb75dc8a662736c1ea7f8b2a451dfad9e499219",
    },
)
WIDTH, RAW_NORM = 16, 3.0
"""Entries of a vector, and its norm before clipping."""
SAMPLES = 40_000
USERS, ITEMS, ROUNDS, RUNS = 60, 60, 5, 200
NEGATIVES = 4


def make_options(**given: Any) -> SimpleNamespace:
    """The options of main.py that a client reads; no examined result depends on its training."""
    return SimpleNamespace(
        **{
            "device": "cpu",
            "embedding_size": WIDTH,
            "eps": EPSILON,
            "delta": DELTA,
            "dp": True,
            "local_epoch": 0,
            "lr_gat": 0.001,
            **given,
        }
    )


class RecordingTorch:
    """A stand-in for the module torch, which records the last requested standard deviation."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.deviation = torch, math.nan

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def normal(self, **given: Any) -> Any:
        """Returns noise drawn by torch."""
        self.deviation = float(given["std"])
        return self.torch.normal(**given)


def make_transfer(party: ModuleType) -> Callable[..., NDArray[np.float64]]:
    """Returns a function (x, rng, size) -> noisy vectors (size, width) for other domains.

    Without noise, the vector has the sign of x on the first axis. For x = 0, there is no vector.
    """

    def call(x: float, rng: Generator, size: int) -> NDArray[np.float64]:
        seed_globals(rng)
        several = size + 1  # domains with the same vector, and the target
        args = make_options(num_domain=several)
        device = party.Client(0, [[0]] * several, [1] * several, 0, [""] * several, args)
        device.knowledge = [[[RAW_NORM * x, *[0.0] * (WIDTH - 1)]] if x else []] * several
        device.train_gat = lambda *given: given[-1]  # the vectors that it would train with
        heard = device.knowledge_transfer(size, [], {}, None, None, None, None)
        return np.asarray(party.torch.stack(heard[:size]), np.float64)

    return call


def make_send(party: ModuleType) -> Callable[..., dict[str, Any]]:
    """Returns a device as a function of a user's history: the items and the count that it sends."""
    import torch

    def send(history: History, model: Any, rng: Generator) -> dict[str, Any]:
        items = np.full((1 + NEGATIVES) * history.n_items, -1)
        if not len(history):  # the server asks only users with interactions
            return {"items": items, "count": 0.0}
        seed_globals(rng)
        args = make_options(num_domain=1)
        device = party.Client(0, [history.items.tolist()], [history.n_items], 0, ["one"], args)
        gat = party.GAT(args, WIDTH, WIDTH, WIDTH)
        tables = torch.rand(1, WIDTH), torch.rand(history.n_items, WIDTH)
        count, _, of_rows, _ = device.train_gat(0, {0: {"one": 0}}, gat, *tables)
        items[: len(of_rows[3])] = of_rows[3].numpy()
        return {"items": items, "count": float(count)}

    return send


def audit(folder: Path) -> Iterator[str]:
    """Yields one line per result, to be compared with the catalogue's entries 36 and 36b."""
    (party,) = CODE.load(folder, "model.fedgcdr.party", blank=["tqdm"])
    party.torch = recorder = RecordingTorch(party.torch)
    call = make_transfer(party)
    drawn = call(1.0, np.random.default_rng(0), SAMPLES)
    deviation = (drawn - drawn.mean(axis=0)).std()
    yield (
        f"released: a vector of norm {RAW_NORM:g} along one axis is sent with mean "
        f"{drawn[:, 0].mean():.3f} on this axis, at most "
        f"{abs(drawn[:, 1:].mean(axis=0)).max():.3f} on others, and standard deviation "
        f"{deviation:.4f} ({len(drawn):,} draws; the code requests {recorder.deviation:.6f}); "
        f"entry 36 has 1, 0 and {SIGMA:.6f}"
    )
    claim: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
    for words, low in (("a vector against none", 0.0), ("a vector against its opposite", -1.0)):
        law = Gaussian(sigma=recorder.deviation, low=low, high=1.0)
        yield verify("released", f"{words}, by the requested deviation", law, **claim)
        yield verify(
            "released",
            f"{words}, by draws",
            lambda x, rng, size: call(x, rng, size)[:, 0],
            inputs=(low, 1.0),
            samples=SAMPLES,
            **claim,
        )
    data = (np.random.default_rng(0).random((USERS, ITEMS)) < 0.2).astype(float)
    kinds = {"items": "items", "count": "vector"}
    yield from measure(
        "released", make_send(party), data, RUNS, claim=CLAIM, rounds=ROUNDS, kinds=kinds
    )
