"""A torch module as a client: local steps, what is sent and what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.wrapped.client import History
from fedrec_auditor.targets.wrapped.torch_client import wrap_torch

HISTORY = History(items=np.array([1, 3]), ratings=np.ones(2, np.float32), n_items=6)
NOTHING = History(items=np.array([], int), ratings=np.zeros(0, np.float32), n_items=6)


class Factors(nn.Module):
    def __init__(self, n_items: int) -> None:
        super().__init__()
        self.item = nn.Embedding(n_items, 3)
        self.user = nn.Parameter(torch.ones(3))


def loss(module: Any, history: History, rng: np.random.Generator) -> torch.Tensor:
    scores = module.item.weight[torch.from_numpy(history.items)] @ module.user
    return torch.as_tensor(((scores - 1.0) ** 2).sum())


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


@pytest.mark.parametrize("model", [Factors(6), Factors])
def test_local_steps_move_own_rows_and_the_user_stays_on_the_device(model: Any) -> None:
    client = wrap_torch(model, loss, sgd, 2, private=["user"])
    first = client.first(6)
    assert callable(client.initial) == isinstance(model, type)
    assert list(first) == ["item.weight"]
    state: dict[str, Any] = {}
    sent = client(HISTORY, first, np.random.default_rng(0), state)
    moved = (sent["item.weight"] != first["item.weight"]).any(axis=1)
    assert np.flatnonzero(moved).tolist() == [1, 3]
    kept = state["user"].copy()
    assert not np.array_equal(kept, np.ones(3))
    client(HISTORY, sent, np.random.default_rng(0), state)
    assert not np.array_equal(state["user"], kept)


def test_it_is_the_step_that_torch_makes() -> None:
    client = wrap_torch(Factors, loss, sgd)
    first = client.first(6)
    module = Factors(6)
    with torch.no_grad():
        module.item.weight.copy_(torch.from_numpy(first["item.weight"]))
    loss(module, HISTORY, np.random.default_rng(0)).backward()
    sgd(module.parameters()).step()
    sent = client(HISTORY, first, np.random.default_rng(0), {})
    np.testing.assert_allclose(sent["item.weight"], module.item.weight.detach().numpy())
    np.testing.assert_allclose(sent["user"], module.user.detach().numpy())


def test_what_protects_is_given_the_changes() -> None:
    def none(changes: Any, rng: np.random.Generator) -> Any:
        return {name: 0 * change for name, change in changes.items()}

    client = wrap_torch(Factors, loss, sgd, protect=none)
    first = client.first(6)
    for name, array in client(HISTORY, first, np.random.default_rng(0), {}).items():
        np.testing.assert_array_equal(array, first[name])


def test_a_device_without_data_sends_what_it_got() -> None:
    client = wrap_torch(Factors, loss, sgd)
    first = client.first(6)
    for name, array in client(NOTHING, first, np.random.default_rng(0), {}).items():
        np.testing.assert_array_equal(array, first[name])


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(InputError, match="a torch module"):
        wrap_torch(3, loss, sgd)
    with pytest.raises(InputError, match="local_steps >= 1"):
        wrap_torch(Factors, loss, sgd, 0)
