"""Audit of a torch client that clips its upload, but adds the noise to the wrong tensor.

python examples/own_torch.py
"""

import torch
from dp_accounting import GaussianDpEvent

import fedrec_auditor

CLIP, NOISE = 1.0, 4.0


class Factors(torch.nn.Module):
    def __init__(self, n_items):
        super().__init__()
        self.item = torch.nn.Embedding(n_items, 8)
        self.bias = torch.nn.Parameter(torch.zeros(n_items))
        self.user = torch.nn.Parameter(torch.full((8,), 0.1))


def loss(module, history, rng):
    items = torch.from_numpy(history.items)
    scores = module.item.weight[items] @ module.user + module.bias[items]
    return ((scores - 1) ** 2).mean()


def protect(changes, rng):
    length = sum((change**2).sum() for change in changes.values()) ** 0.5
    sent = {name: change * min(1, CLIP / max(length, 1e-12)) for name, change in changes.items()}
    sent["bias"] = sent["bias"] + NOISE * CLIP * rng.standard_normal(sent["bias"].shape)
    return sent  # the bug: the item table is sent without noise


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05)


system = fedrec_auditor.wrap_system(
    fedrec_auditor.wrap_torch(Factors, loss, sgd, local_steps=3, private=["user"], protect=protect),
    rounds=3,
    claim=fedrec_auditor.Claim(epsilon=2, delta=1e-5, horizon="round"),
    proof=GaussianDpEvent(NOISE),  # the noise multiplier, if every tensor had noise
    title="own-torch",
)

if __name__ == "__main__":
    record = fedrec_auditor.audit_system(
        system,
        data="synthetic",
        games=["local"],
        attacks=["interaction-reconstruction"],
        runs=200,
        jobs=1,
    )
    for finding in record.findings:
        print(finding.verdict, finding.reason)
