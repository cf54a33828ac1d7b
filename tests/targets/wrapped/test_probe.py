"""Errors of a client are reported in one line, with their place."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem

DATA = Interactions.create((np.random.default_rng(0).random((12, 8)) < 0.4).astype(float))
SHARED: list[int] = []


def model(n_items: int) -> dict[str, np.ndarray]:
    return {"item": np.random.default_rng(0).standard_normal((n_items, 2))}


def raise_error(history: Any, model: Any, rng: Any) -> Any:
    raise KeyError("weights")


def send_nan(history: Any, model: Any, rng: Any) -> Any:
    return np.where(history.dense() > 0, np.nan, 0.0)


def ragged(history: Any, model: Any, rng: Any) -> Any:
    return history.ratings


def send_text(history: Any, model: Any, rng: Any) -> Any:
    return {"name": "a client"}


def send_nothing(history: Any, model: Any, rng: Any) -> Any:
    return None


def send_list(own: Any, history: Any, rng: Any) -> Any:
    """The own items among others, in random order, in a list of constant length."""
    others = rng.permutation(np.setdiff1d(np.arange(history.n_items), history.items))
    return rng.permutation(np.concatenate([own, others, np.full(9, -1)])[:7].astype(int))


class CountingClient:
    """A client that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, history: Any, model: Any, rng: Any) -> Any:
        self.calls += 1
        return history.dense() + self.calls


def use_shared_state(history: Any, model: Any, rng: Any) -> Any:
    if len(history) not in SHARED:
        SHARED.append(len(history))
    return history.dense() + len(SHARED)


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (raise_error, r"KeyError: 'weights' \(test_probe\.py:\d+\)"),
        (send_nan, r"finite numbers as 'values' of .*test_probe\.py:\d+\), got nan"),
        (ragged, r"of shape \(\d+,\) in .*, got \(\d+,\) for a history of \d+ items\. The length"),
        (send_text, r"Expected a numeric array 'name'"),
        (send_nothing, "None"),
        (CountingClient(), r"keeps something between calls\. Take a fourth parameter"),
        (use_shared_state, "keeps something between calls"),
    ],
)
def test_faults_are_reported_in_one_line(client: Callable[..., Any], expected: str) -> None:
    SHARED.clear()
    with pytest.raises(InputError, match=expected) as caught:
        WrappedSystem(client=client, model=model).adapt_to_data(DATA)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (lambda history, model, rng: np.random.standard_normal(3), None),  # noqa: NPY002
        (lambda history, model, rng: [random.random(), torch.rand(1)], None),
        (lambda history, model, rng: np.frombuffer(os.urandom(8), np.uint8), "operating system"),
    ],
)
def test_unseeded_randomness_is_noted(client: Callable[..., Any], expected: str | None) -> None:
    state = np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002
    _, notes = WrappedSystem(client=client).adapt_to_data(DATA)
    assert expected in notes[0] if expected else notes == ()
    after = np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002
    assert after == state


@pytest.mark.parametrize(
    ("client", "server", "kind"),
    [
        (lambda h, m, rng: {"item": m["item"] + 0.1}, None, Payload.MODEL),
        (
            lambda h, m, rng: {"item": m["item"] + rng.standard_normal(m["item"].shape)},
            lambda m, u: m,
            Payload.MODEL,
        ),
        (
            lambda h, m, rng: {"item": 0.1 * m["item"] + rng.standard_normal(m["item"].shape)},
            lambda m, u: m,
            Payload.CHANGE,
        ),
        (lambda h, m, rng: {"item": h.dense() > 0}, lambda m, u: m, Payload.BITS),
        (lambda h, m, rng: {"item": send_list(h.items, h, rng)}, lambda m, u: m, Payload.ITEMS),
        (lambda h, m, rng: {"item": send_list([], h, rng)}, lambda m, u: m, Payload.CHANGE),
        (lambda h, m, rng: {"item": np.array([len(h)])}, lambda m, u: m, Payload.CHANGE),
        (lambda h, m, rng: {"item": np.arange(h.n_items - 1)}, lambda m, u: m, Payload.CHANGE),
        (lambda h, m, rng: {"item": rng.permutation(h.n_items)}, lambda m, u: m, Payload.CHANGE),
    ],
)
def test_the_kind_of_messages_is_detected(client: Any, server: Any, kind: Payload) -> None:
    system, notes = WrappedSystem(client=client, server=server, model=model).adapt_to_data(DATA)
    assert system.kinds == {"item": kind}
    assert notes == ()
    expected, _ = replace(system, kinds={"": Payload.GRADIENT}).adapt_to_data(DATA)
    assert expected.kinds == {"item": Payload.GRADIENT}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (lambda h: h.n_items + np.arange(3), "item indices from 0 to 7, or -1 as"),
        (lambda h: np.ones(3), r"integers in the component 'values' of the kind 'items'"),
    ],
)
def test_declared_lists_of_items_are_checked(message: Any, expected: str) -> None:
    system = WrappedSystem(client=lambda h, m, rng: message(h), kinds={"": Payload.ITEMS})
    with pytest.raises(InputError, match=expected):
        system.adapt_to_data(DATA)


def test_clients_that_cannot_be_pickled_are_named() -> None:
    lock = threading.Lock()

    def client(history: Any, model: Any, rng: Any) -> Any:
        with lock:
            return np.frombuffer(os.urandom(8), np.uint8)

    error = r"sent to another process, got TypeError: cannot pickle .*lock.* \(test_probe\.py:\d+\)"
    with pytest.raises(InputError, match=error):
        WrappedSystem(client=client).adapt_to_data(DATA)


def test_message_costs_are_declared_or_counted_and_never_timed() -> None:
    """Waiting clients have as many game runs as others with equal messages."""

    def waits(history: Any, model: Any, rng: Any) -> Any:
        time.sleep(0.02)
        return {"item": model["item"] + 1.0}

    def quick(history: Any, model: Any, rng: Any) -> Any:
        return {"item": model["item"] + 1.0}

    made = (WrappedSystem(client=each, model=model) for each in (waits, quick))
    one, other = (each.adapt_to_data(DATA)[0] for each in made)
    assert one.upload_seconds == other.upload_seconds > 0
    large = WrappedSystem(client=quick, model=lambda n: {"item": np.zeros((n, 10**4))})
    wide, _ = large.adapt_to_data(DATA)
    assert wide.upload_seconds > 2 * one.upload_seconds
    assert replace(wide, upload_seconds=0.5).adapt_to_data(DATA)[0].upload_seconds == 0.5
