"""Audit of a Flower recommender with local differential privacy: python flower_local_dp.py.

The settings are those of a public deployment: clipping norm 1, sensitivity 0.0001, epsilon 10. With
the argument "right", the sensitivity is twice the clipping norm. Needs fedrec-auditor[flower].
"""

import sys

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod

sensitivity = 2.0 if "right" in sys.argv else 1e-4
app = ClientApp(mods=[LocalDpMod(1.0, sensitivity, epsilon=10.0, delta=1e-5)])


class Factors(torch.nn.Module):
    """Matrix factorisation whose item table is uploaded; the user's vector stays on the device."""

    def __init__(self, n_items: int) -> None:
        super().__init__()
        start = np.random.default_rng(0).normal(scale=0.3, size=(n_items, 4))
        self.items = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))


def load_data(partition_id: int) -> torch.Tensor:
    """The ratings of this device, shape (n_items,). The value 0 marks a missing rating."""
    return torch.load(f"partition_{partition_id}.pt", weights_only=True)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Returns the model after three local steps on the device's ratings."""
    rated = (load_data(context.node_config["partition-id"]) > 0).float()
    model, user = Factors(len(rated)), torch.ones(4, requires_grad=True)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD([user, model.items], lr=0.3)
    for _ in range(3):
        optimizer.zero_grad()
        (model.items @ user - rated).square().sum().backward()
        optimizer.step()
    numbers = MetricRecord({"num-examples": int(rated.sum())})
    arrays = ArrayRecord(model.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": numbers}), reply_to=message)


if __name__ == "__main__":
    from fedrec_auditor import audit_system, flower

    record = audit_system(
        flower.wrap(app, model=Factors, data=load_data, adapt=lambda h: torch.tensor(h.dense())),
        data=(np.random.default_rng(0).random((40, 30)) < 0.2).astype(float),
        games=["local"],
        attacks=["interaction-reconstruction"],
        runs=300,
    )
    for finding in record.findings:
        print(finding.verdict, "|", finding.scope, "|", finding.reason, "\n ", finding.note)
    for row in record.attacks:
        print(f"{row.attack}: {row.metric} {row.value:.3f} (guessing: {row.baseline:.3f})")
