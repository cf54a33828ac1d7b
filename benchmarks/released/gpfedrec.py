"""Audits GPFedRec's released engine: information in a device's message, with the optional noise.

The engine's calls of ``cuda`` have no effect here. We draw its negatives, because its own code for
them needs a Python before 3.11. Cost: two minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.figures import CLAIM, measure
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.wrapped.client import History

CODE = Checkout(
    "Zhangcx19/GPFedRec",
    "edb66e1",
    {
        "engine.py": "27a2c256eb76ceace8c3d8778a742dff1a2bb610",
        "mlp.py": "a409bbd1171a708ffc752b6241ac883adb745059",
        "utils.py": "e808239b91eceddc44a1407e076c11538a6ec3e7",
        "data.py": "69a85678ad3f8ce77a91fd3ecf93af2a61a03c9e",
        "metrics.py": "2ffecec7573f16d661ac467fa8c2c2e289f9c713",
    },
)
NOISE, WIDTH, NEGATIVES = 0.1, 32, 4
DATA = Synthetic(n_users=100, n_items=1682, profile=60)
"""Users whose training steps are measured."""
NETWORKS = 10
USERS, ITEMS, RUNS = 40, 200, 200
N_DEVICES = 20  # users of ``DATA`` that are measured
_NO_NOISE = 1e-9  # noise scale that counts as zero
OPTIONS: dict[str, Any] = {
    "alias": "",
    "num_users": 1,
    "clients_sample_ratio": 1.0,
    "local_epoch": 1,
    "reg": 1.0,
    "lr_eta": 80.0,
    "batch_size": 256,
    "lr": 0.1,
    "latent_dim": WIDTH,
    "layers": [64, 32, 16, 8],
    "use_cuda": False,
}
"""Defaults of train.py, except ``dp``: torch refuses its default 0."""


@contextmanager
def _ignore_cuda() -> Iterator[None]:
    """Makes ``Tensor.cuda`` return the tensor itself."""
    import torch

    moved = torch.Tensor.cuda
    torch.Tensor.cuda = lambda self, *given, **settings: self  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.Tensor.cuda = moved  # type: ignore[method-assign]


def make_send(mlp: ModuleType, noise: float, network: int = 0) -> Callable[..., dict[str, Any]]:
    """Returns a device as a function from a history to its first message.

    noise: noise scale.
    network: seed of the initial network, which all devices share.
    """
    import torch

    def send(history: History, model: Any, rng: Generator) -> dict[str, Any]:
        held, table = history.items, np.asarray(model["item"])
        others = np.setdiff1d(np.arange(history.n_items), held)
        if not len(held) or not len(others):  # the released code divides by zero
            return {"item": table}
        negatives = rng.choice(others, NEGATIVES * len(held))
        items = np.concatenate([held, negatives]).tolist()
        met = [1.0] * len(held) + [0.0] * len(negatives)
        with redirect_stdout(StringIO()), _ignore_cuda():
            torch.manual_seed(network)
            engine = mlp.MLPEngine({**OPTIONS, "dp": noise, "num_items": history.n_items})
            seed_globals(rng)
            engine.model.embedding_item.weight.data = torch.from_numpy(table.astype(np.float32))
            heard: dict[int, Any] = {}
            engine.aggregate_clients_params = heard.update
            engine.fed_train_a_round([[[0] * len(items)], [items], [met]], 0)
        return {"item": heard[0]["embedding_item.weight"].numpy()}

    return send


def make_table(n_items: int) -> dict[str, Any]:
    """The first item table, under the name "item"."""
    return {"item": np.random.default_rng(0).normal(size=(n_items, WIDTH))}


def find_step(mlp: ModuleType) -> float:
    """The median L1 change of an own item's row, in units of the noise scale."""
    data, rng, table, medians = DATA.load(), np.random.default_rng(0), make_table(DATA.n_items), []
    histories = [History.for_user(data, user) for user in range(N_DEVICES)]
    for network in range(NETWORKS):
        send = make_send(mlp, _NO_NOISE, network)
        steps = [(send(h, table, rng)["item"] - table["item"])[h.items] for h in histories]
        medians.append(np.median(np.abs(np.concatenate(steps)).sum(axis=1)))
    return float(np.median(medians)) / NOISE


def audit(folder: Path) -> Iterator[str]:
    """Yields one line per result, to be compared with the catalogue's entries 38 and 38b."""
    (mlp,) = CODE.load(folder, "mlp", blank=["pandas", "tensorboardX"])
    yield (
        f"released: in the first message, the row of an own item moves by {find_step(mlp):.1f} "
        f"noise scales of {NOISE:g} (L1 norm; median over {NETWORKS} networks, {N_DEVICES} users)"
    )
    data = (np.random.default_rng(0).random((USERS, ITEMS)) < 0.1).astype(float)
    more, send = "interaction-membership", make_send(mlp, NOISE)
    yield from measure(
        "released", send, data, RUNS, more, claim=CLAIM, model=make_table, kinds={"item": "model"}
    )
