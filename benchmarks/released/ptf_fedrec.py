"""Audits PTF-FedRec's released client: a test on one message, and attacks.

A device receives nothing from the server between rounds. Cost: five minutes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.figures import CLAIM, measure
from fedrec_auditor.targets.wrapped.client import History

CODE = Checkout(
    "hi-weiyuan/PTF-FedRec",
    "bb884e9",
    {
        "client.py": "41bb69bdf298eb813c2d95c71f6bf3920d764eb9",
        "evaluate.py": "0958a9c2a6bbc6487664729e1988d3f19b95ea1a",
        "models.py": "b2614f601630304727229e44908c44bb16be5471",
        "parse.py": "b5e887af15dcdb6a69c3400c7e7ca97c6fe5e6f2",
    },
)
USERS, ITEMS, ROUNDS, RUNS = 40, 200, 20, 200
_LENGTH_FACTOR = 5  # maximum entries of a list per own item


def make_send(folder: Path) -> Callable[..., dict[str, Any]]:
    """Returns the client as a function of a history: its item and score lists, of fixed length."""
    client, parse = CODE.load(folder, "client", "parse", options=["--device", "cpu"])
    args = parse.args

    def send(
        history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]
    ) -> dict[str, Any]:
        items = np.full(_LENGTH_FACTOR * history.n_items, -1)
        scores = np.zeros(items.shape)
        own = history.items.tolist()
        if not own or len(own) == history.n_items:  # the released client would draw forever
            return {"items": items, "scores": scores}
        seed_globals(rng)
        if "device" not in state:
            config = SimpleNamespace(
                user_id=0,
                num_users=1,
                num_items=history.n_items,
                latent_dim=args.client_dim,
                layers=ast.literal_eval(args.user_layers),
                device_id=args.device,
                local_epoch=args.local_epoch,
                lr=args.local_lr,
                local_bs=args.local_bs,
                model_type=args.local_model_type,
                use_privacy=args.use_privacy,
            )
            state["device"] = client.FedRecClient(config, own, [])
        confidence, listed, *_ = state["device"].train_(None)
        items[: len(listed)], scores[: len(listed)] = listed, confidence
        return {"items": items, "scores": scores}

    return send


def make_data() -> np.ndarray:
    """Random histories (users, items), with a few popular items."""
    rng = np.random.default_rng(0)
    odds = rng.normal(-2.5, 1.0, ITEMS) + rng.normal(0, 0.5, (USERS, 1))
    return (rng.random((USERS, ITEMS)) < 1 / (1 + np.exp(-odds))).astype(float)


def audit(folder: Path) -> Iterator[str]:
    """Runs PTF-FedRec's code in ``folder``, and yields one line per result."""
    given, more = make_data(), "interaction-membership"
    kinds = {"items": "items", "scores": "ratings"}
    played: dict[str, Any] = {
        "claim": CLAIM,
        "rounds": ROUNDS,
        "kinds": kinds,
        "upload_seconds": 0.05,
    }
    yield from measure("released", make_send(folder), given, RUNS, more, **played)
