"""Histories read from the first layer of an autoencoder, and from a linear model."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.attacks.readers.base import SURE
from fedrec_auditor.attacks.readers.first_layer import FirstLayer
from fedrec_auditor.attacks.readers.small_readers import InputWeights
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import sent, told, view_of

ITEMS, USERS = 40, 12
HISTORIES = np.random.default_rng(0).random((USERS, ITEMS)) < 0.2


def trained(hidden: int, *, noise: float = 0.0, dead: int = 0) -> View:
    """Models after a step of x -> W2 relu(W x + b) on a squared error, from zero at ``dead``."""
    rng = np.random.default_rng(1)
    first, last = rng.normal(size=(hidden, ITEMS)), rng.normal(size=(ITEMS, hidden))
    models: dict[str, list[np.ndarray]] = {"a": [], "b": [], "c": []}
    for user, x in enumerate(HISTORIES.astype(float)):
        active = (first @ x > 0) & (user >= dead)
        error = last @ (active * (first @ x)) - x
        back = active * (last.T @ error)
        step = np.outer(back, x) + noise * rng.normal(size=first.shape)
        models["a"].append(first - 0.1 * step)
        models["b"].append(-0.1 * back)
        models["c"].append(last - 0.1 * np.outer(error, active * (first @ x)))
    messages = {name: Dense(np.stack(parts), Kind.MODEL) for name, parts in models.items()}
    model = {"a": first, "b": np.zeros(hidden), "c": last}
    return view_of(sent(messages, model), users=USERS, items=ITEMS)


@pytest.mark.parametrize("hidden", [10, 60])
def test_what_an_autoencoder_is_trained_on_is_plain(hidden: int) -> None:
    readers, found = told(trained(hidden))
    assert "InputWeights" in readers
    np.testing.assert_array_equal(found, np.where(HISTORIES, SURE, -SURE))


def test_of_a_device_that_moved_nothing_nothing_is_told() -> None:
    found = InputWeights().read(trained(10, dead=2), np.arange(4)).log_ratio
    assert not found[:2].any()
    assert found[2:].all()


def test_noise_on_all_weights_is_not_for_this_reader() -> None:
    assert "an input an item" in InputWeights().refusal(trained(10, noise=1e-3))


def test_a_first_layer_wider_than_its_output_is_no_stumbling_block() -> None:
    """Its bias is of 10 units, and the side that is parallel to it of 30 of the 40 inputs."""
    view = trained(10)
    assert not FirstLayer().refusal(view)
    found = FirstLayer().read(view, np.arange(USERS)).vectors
    assert found.shape == (USERS, ITEMS - 10)
