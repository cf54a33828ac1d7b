"""Input and output of a user's client: histories, arrays, torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Dense, Payload, SparseRows
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.wrapped.client import History, MessagePacker
from fedrec_auditor.targets.wrapped.structure import flatten
from fedrec_auditor.targets.wrapped.torch_client import wrap_torch

DATA = Interactions.create(
    sparse.csr_array(np.array([[5.0, 0.0, 3.0, 1.0], [0.0, 4.0, 0.0, 0.0]])),
    timestamps=np.array([30, 10, 20, 5]),
    attributes={"gender": Attribute(codes=np.array([1, 0]), categories=("F", "M"))},
)


def test_a_history_is_in_the_order_of_time() -> None:
    history = History.for_user(DATA, 0)
    assert history.items.tolist() == [2, 3, 0]
    assert history.ratings.tolist() == [3.0, 1.0, 5.0]
    assert history.timestamps.tolist() == [10, 20, 30]
    assert history.attributes == {"gender": "M"}
    assert history.dense().tolist() == [5.0, 0.0, 3.0, 1.0]


def test_a_client_cannot_write_into_the_data() -> None:
    before = DATA.digest()
    history = History.for_user(DATA, 0)
    for array in (history.items, history.ratings, history.timestamps):
        array[:] = 7
    assert DATA.digest() == before


def test_a_device_has_one_number_in_every_selection_of_the_data() -> None:
    assert [History.for_user(DATA, user).device for user in (0, 1)] == DATA.users.tolist()
    assert History.for_user(DATA.take_users(np.array([1])), 0).device == DATA.users[1]


RNG = np.random.default_rng(0)


MODEL = RNG.standard_normal((20, 3))


def make_messages(kind: Payload, moved: int) -> list[np.ndarray]:
    start = MODEL if kind is Payload.MODEL else np.zeros_like(MODEL)
    found = []
    for _ in range(4):
        one = start.copy()
        one[RNG.choice(20, moved, replace=False)] += 1.0
        found.append(one)
    return found


@pytest.mark.parametrize("kind", [Payload.MODEL, Payload.CHANGE])
@pytest.mark.parametrize(("moved", "kept"), [(3, SparseRows), (0, SparseRows), (20, Dense)])
def test_added_messages_are_read_back(kind: Payload, moved: int, kept: type) -> None:
    sent, packing = make_messages(kind, moved), MessagePacker(lambda name: kind, {"item": MODEL})
    for one in sent:
        packing.add_message({"item": one})
    component = packing.pack_components()["item"]
    assert isinstance(component, kept)
    np.testing.assert_array_equal(component.to_dense(np.arange(4)), np.stack(sent))
    assert component.flag_sent_rows(np.arange(4)).all()
    np.testing.assert_allclose(component.sum_all(), np.sum(sent, axis=0))


def test_batches_mix_sparse_and_dense_messages() -> None:
    sent = [*make_messages(Payload.CHANGE, 2), *make_messages(Payload.CHANGE, 20)]
    packing = MessagePacker(lambda name: Payload.CHANGE, None)
    for one in sent:
        packing.add_message({"item": one, "bias": one[:, 0]})
    found = packing.pack_components()
    np.testing.assert_array_equal(found["item"].to_dense(np.arange(8)), np.stack(sent))
    assert isinstance(found["bias"], Dense)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (np.zeros((2, 3)), ["values"]),
        ([np.zeros(2), np.ones((2, 2))], ["0", "1"]),
        ((np.zeros(2),), ["0"]),
        ({"a": np.zeros(2), "b": {"c": np.ones(1)}}, ["a", "b.c"]),
        ({"item.weight": torch.ones(2, 2), "n": 3}, ["item.weight", "n"]),
        ([1.0, 2.0], ["values"]),
    ],
)
def test_values_are_restored_unchanged(value: Any, names: list[str]) -> None:
    arrays, structure = flatten(value, "a message")
    assert list(arrays) == names
    again, _ = flatten(structure.rebuild(arrays), "a message")
    assert list(again) == names
    for name in names:
        np.testing.assert_array_equal(again[name], arrays[name])


def test_tensors_are_restored_with_their_type() -> None:
    arrays, structure = flatten({"w": torch.ones(2, dtype=torch.bfloat16)}, "a message")
    built = structure.rebuild(arrays)["w"]
    assert built.dtype is torch.bfloat16
    assert built.tolist() == [1.0, 1.0]


def test_a_sparse_matrix_is_made_dense() -> None:
    arrays, _ = flatten(sparse.eye_array(3), "a message")
    np.testing.assert_array_equal(arrays["values"], np.eye(3))


def test_empty_dictionaries_are_kept() -> None:
    arrays, structure = flatten({"user-37": {}, "values": np.ones(2)}, "a message")
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "user-37.": [0.0],
        "values": [1.0, 1.0],
    }
    assert structure.rebuild(arrays)["user-37"] == {}


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"bytes",
        {"a": "text"},
        {"a": {3, 4}},
        {},
        None,
        [np.zeros(2), ["x"]],
        {1: np.zeros(2), "1": np.ones(2)},
        {"a": {"b": 1.0}, "a.b": 2.0},
        sparse.csr_array((np.zeros(1), np.array([2]), np.array([0, 1])), shape=(1, 4)),
        {"a": np.ma.masked_array(np.zeros(3), [True, False, False])},
    ],
)
def test_values_that_are_not_numbers_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InputError, match=r"(of|in) a message"):
        flatten(value, "a message")


HISTORY = History(items=np.array([1, 3]), ratings=np.ones(2, np.float32), n_items=6)


EMPTY = History(items=np.array([], int), ratings=np.zeros(0, np.float32), n_items=6)


class FactorModule(nn.Module):
    def __init__(self, n_items: int) -> None:
        super().__init__()
        self.item = nn.Embedding(n_items, 3)
        self.user = nn.Parameter(torch.ones(3))


def compute_loss(module: Any, history: History, rng: np.random.Generator) -> torch.Tensor:
    scores = module.item.weight[torch.from_numpy(history.items)] @ module.user
    return torch.as_tensor(((scores - 1.0) ** 2).sum())


def make_sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


@pytest.mark.parametrize("model", [FactorModule(6), FactorModule])
def test_local_steps_move_own_rows_and_the_user_stays_on_the_device(model: Any) -> None:
    client = wrap_torch(model, compute_loss, make_sgd, 2, private=["user"])
    first = client.init_params(6)
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


def test_local_steps_equal_those_of_torch() -> None:
    client = wrap_torch(FactorModule, compute_loss, make_sgd)
    first = client.init_params(6)
    module = FactorModule(6)
    with torch.no_grad():
        module.item.weight.copy_(torch.from_numpy(first["item.weight"]))
    compute_loss(module, HISTORY, np.random.default_rng(0)).backward()
    make_sgd(module.parameters()).step()
    sent = client(HISTORY, first, np.random.default_rng(0), {})
    np.testing.assert_allclose(sent["item.weight"], module.item.weight.detach().numpy())
    np.testing.assert_allclose(sent["user"], module.user.detach().numpy())


def test_protections_receive_the_changes() -> None:
    def none(changes: Any, rng: np.random.Generator) -> Any:
        return {name: 0 * change for name, change in changes.items()}

    client = wrap_torch(FactorModule, compute_loss, make_sgd, protect=none)
    first = client.init_params(6)
    for name, array in client(HISTORY, first, np.random.default_rng(0), {}).items():
        np.testing.assert_array_equal(array, first[name])


def test_devices_without_data_send_the_received_model() -> None:
    client = wrap_torch(FactorModule, compute_loss, make_sgd)
    first = client.init_params(6)
    for name, array in client(EMPTY, first, np.random.default_rng(0), {}).items():
        np.testing.assert_array_equal(array, first[name])


def test_values_that_are_not_modules_are_refused() -> None:
    with pytest.raises(InputError, match="a torch module"):
        wrap_torch(3, compute_loss, make_sgd)
    with pytest.raises(InputError, match="local_steps >= 1"):
        wrap_torch(FactorModule, compute_loss, make_sgd, 0)
