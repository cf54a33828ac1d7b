"""Small Flower apps whose update adds the ratings to the server's model."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fedrec_auditor.targets.wrapped.client import History


def history(*items: int, n_items: int = 6) -> History:
    return History(
        items=np.array(items, np.int64),
        ratings=np.full(len(items), 2.0, np.float32),
        n_items=n_items,
    )


def load_data(partition_id: int, scale: float = 1.0) -> np.ndarray:
    raise FileNotFoundError(partition_id)


imported_elsewhere = load_data


@functools.cache
def load_once(partition_id: int) -> np.ndarray:
    raise FileNotFoundError(partition_id)


def _closing() -> Any:
    folder = "nowhere"

    def load_there(partition_id: int) -> np.ndarray:
        raise FileNotFoundError(folder, partition_id)

    return load_there


load_there = _closing()


def take_step(arrays: list[np.ndarray], ratings: np.ndarray) -> list[np.ndarray]:
    """A local step: half of the ratings is added to the first array."""
    return [(arrays[0] + 0.5 * ratings).astype(np.float32), *arrays[1:]]


def message_app(mods: Any = (), loader: Any = load_data, *more: Any) -> Any:
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Any, context: Any) -> Any:
        """A local step that adds half of the ratings to the first array."""
        ratings = loader(context.node_config["partition-id"], *more)
        sent = message.content["arrays"]
        arrays = take_step(sent.to_numpy_ndarrays(), ratings)
        record = ArrayRecord(dict(zip(sent.keys(), map(Array, arrays), strict=True)))
        numbers = MetricRecord({"num-examples": int((ratings > 0).sum()), "loss": 0.25})
        return Message(RecordDict({"arrays": record, "metrics": numbers}), reply_to=message)

    return app


def numpy_client(ratings: np.ndarray) -> Any:
    from flwr.client import NumPyClient

    class AddingClient(NumPyClient):
        def fit(self, parameters: Any, config: Any) -> Any:
            return take_step(parameters, ratings), int((ratings > 0).sum()), {"loss": 0.25}

    return AddingClient()


def legacy_app(mods: Any = (), loader: Any = load_data) -> Any:
    from flwr.client import ClientApp

    def client_fn(context: Any) -> Any:
        return numpy_client(loader(context.node_config["partition-id"])).to_client()

    return ClientApp(client_fn=client_fn, mods=list(mods))


def model(n_items: int = 6) -> dict[str, np.ndarray]:
    start = np.random.default_rng(0).normal(size=n_items)
    return {"item": start.astype(np.float32), "bias": np.float32([0.5])}
