"""FCF in Flower's simulation engine, one client per user: a process that ``flower_round`` starts.

At the start and after each round it prints one line of JSON: wall-clock and processor seconds so
far, and the norm of the summed gradients.
"""

# The module runs under another Python interpreter (``FLOWER_PYTHON``), is imported by name so that
# Ray's workers can import it too, and needs numpy and Flower only. The server keeps V constant, so
# that every round is the same work.

from __future__ import annotations

import functools
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

ALPHA, REGULARIZATION = 1.0, 1e-6
MARK = "FLOWER_ROUND"  # set in the environment of every process of the simulation


@functools.cache
def load(path: str) -> dict[str, Any]:
    """The arrays of a file, which is read once per process."""
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def compute_gradient(items: Any, touched: Any) -> Any:
    """One client's gradient of the item table, by equations 4 and 5 of FCF.

    ``items`` is the table (n_items, factors), ``touched`` the indices of the user's items.
    """
    rows = items[touched]
    system = items.T @ items + REGULARIZATION * np.eye(items.shape[1], dtype=items.dtype)
    x = np.linalg.solve(system + ALPHA * (rows.T @ rows), (1 + ALPHA) * rows.sum(axis=0))
    left = -(items @ x)
    left[touched] = (1 + ALPHA) * (1 + left[touched])
    return left[:, None] * x


def find_processes(mark: str) -> list[Path]:
    """Folders in /proc of a simulation's processes, which have ``mark`` in their environment."""
    entry, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder)
        except OSError:  # gone, or not ours
            continue
    return found


def sum_cpu_seconds() -> float:
    """User and system seconds of all processes of this simulation so far, with ended children."""
    ticks = 0
    for folder in find_processes(os.environ[MARK]):
        try:
            ticks += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def print_round(number: int, norm: float) -> None:
    """Prints the line of JSON of a finished round; ``norm`` is that of the summed gradients."""
    line = {"round": number, "wall": time.time(), "cpu": sum_cpu_seconds(), "norm": norm}
    print("ROUND " + json.dumps(line), flush=True)


def main(path: str, users: str, rounds: str) -> None:
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server = ClientApp(), ServerApp()

    @client.train()
    def train(message: Any, context: Any) -> Any:
        (items,) = message.content["arrays"].to_numpy_ndarrays()
        data, user = load(path), context.node_config["partition-id"]
        touched = data["indices"][data["indptr"][user] : data["indptr"][user + 1]]
        content = RecordDict(
            {
                "arrays": ArrayRecord([compute_gradient(items, touched)]),
                "metrics": MetricRecord({"num-examples": 1}),
            }
        )
        return Message(content=content, reply_to=message)

    class ConstantFedAvg(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            mean, metrics = super().aggregate_train(server_round, replies)
            if mean is None:
                raise RuntimeError("Expected gradients from all clients, got errors; see above.")
            total = int(users) * mean.to_numpy_ndarrays()[0]
            print_round(server_round, float(np.linalg.norm(total)))
            return ArrayRecord([load(path)["items"]]), metrics

    @server.main()
    def serve(grid: Any, context: Any) -> None:
        strategy = ConstantFedAvg(
            fraction_train=1.0,
            fraction_evaluate=0.0,
            min_train_nodes=int(users),
            min_available_nodes=int(users),
        )
        print_round(0, 0.0)
        strategy.start(
            grid=grid, initial_arrays=ArrayRecord([load(path)["items"]]), num_rounds=int(rounds)
        )

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=int(users),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
