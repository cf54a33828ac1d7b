"""The accounting behind Tables 3 and 4 of the PrivRec paper; test_numbers has all 36 figures.

Messages by rows against whole tables.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb

from fedrec_auditor.targets.components import Component, Dense, Kind, Rows
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.papers.privrec.systems.parts.device import DeviceExamples
from fedrec_auditor.targets.papers.privrec.systems.parts.meta_learned import (
    amplified,
    joined,
    messages,
    norms,
    printed_epsilon,
    scaled,
)
from fedrec_auditor.targets.streams import Streams


def test_nothing_is_promised_at_delta_0() -> None:
    assert math.isinf(
        printed_epsilon(clients=5, n_users=4800, rounds=1000, multiplier=1.0, delta=0.0)
    )


@pytest.mark.parametrize("order", [2, 3, 7])
@pytest.mark.parametrize("multiplier", [0.7, 1.0, 4.0])
@pytest.mark.parametrize("rate", [0.001, 0.3, 1.0])
def test_theorem_9_term_by_term(rate: float, order: int, multiplier: float) -> None:
    def curve(a: float) -> float:
        return a / (2 * multiplier**2)

    total = 1 + rate**2 * comb(order, 2) * min(4 * (math.exp(curve(2)) - 1), 2 * math.exp(curve(2)))
    for j in range(3, order + 1):
        total += 2 * rate**j * comb(order, j) * math.exp((j - 1) * curve(j))
    assert amplified(rate, order, multiplier) == pytest.approx(math.log(total) / (order - 1))


def test_tiny_noise_overflows_nowhere() -> None:
    assert np.isfinite(
        printed_epsilon(clients=5, n_users=10, rounds=3, multiplier=0.01, delta=1e-6)
    )


MODEL = {
    "user.age": np.zeros((3, 2)),
    "user.sex": np.zeros((2, 2)),
    "item": np.zeros((7, 2)),
    "mlp1.weight": np.zeros((4, 3)),
    "output.bias": np.zeros(()),
}


def block(seed: int, users: int) -> tuple[dict[str, Component], dict[str, np.ndarray]]:
    """Messages of some devices, and the same as whole tables."""
    rng = np.random.default_rng(seed)
    codes = {"age": rng.integers(0, 3, users), "sex": rng.integers(0, 2, users)}
    data = Interactions.of(
        (rng.random((users, 7)) < 0.3) * 1.0,
        attributes={
            key: Attribute(codes=code, categories=tuple("abc"[: 3 if key == "age" else 2]))
            for key, code in codes.items()
        },
    )
    examples = DeviceExamples.draw(data, Streams.spawn(rng, users), negatives=1)
    width = examples.items.shape[1] + 2
    change = {
        "user": rng.normal(size=(users, 4)).astype(np.float32),
        "item": rng.normal(size=(users, width, 2)).astype(np.float32),
        "mlp1.weight": rng.normal(size=(users, 4, 3)).astype(np.float32),
        "output.bias": rng.normal(size=users).astype(np.float32),
    }
    change["user"][0] = 0.0  # trained, but not moved
    change["item"][0] = 0.0
    whole = {name: np.zeros((users, *part.shape), np.float32) for name, part in MODEL.items()}
    for user in range(users):
        whole["user.age"][user, codes["age"][user]] = change["user"][user, :2]
        whole["user.sex"][user, codes["sex"][user]] = change["user"][user, 2:]
        for place in range(examples.sizes[user]):
            whole["item"][user, examples.items[user, place]] = change["item"][user, place]
    whole |= {name: change[name] for name in ("mlp1.weight", "output.bias")}
    return messages(change, examples, data, MODEL, Kind.CHANGE, 0.5), whole


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), max_size=3))
def test_messages_are_whole_tables_by_their_rows(seed: int, sizes: list[int]) -> None:
    blocks = [block(seed + number, size) for number, size in enumerate(sizes)]
    sent = joined([one for one, _ in blocks], MODEL, Kind.CHANGE, 0.5)
    n = np.arange(sum(sizes))
    assert list(sent) == list(MODEL)
    squares, factor = np.zeros(len(n)), np.linspace(-1.0, 2.0, len(n))
    for name, part in MODEL.items():
        none = np.zeros((0, *part.shape), np.float32)
        expected = np.concatenate([none, *(whole[name] for _, whole in blocks)])
        component = sent[name]
        np.testing.assert_array_equal(component.dense(n), expected, name)
        assert component.shape == part.shape
        squares += (expected.astype(float) ** 2).reshape(len(n), part.size).sum(axis=1)
        shape = (-1, *[1] * part.ndim)
        np.testing.assert_allclose(
            scaled(component, factor).dense(n), expected * factor.reshape(shape), rtol=1e-6
        )
        if isinstance(component, Rows):
            np.testing.assert_array_equal(component.sent(n), (expected != 0).any(axis=2))
        else:
            assert isinstance(component, Dense)
    np.testing.assert_allclose(norms(sent), np.sqrt(squares))
