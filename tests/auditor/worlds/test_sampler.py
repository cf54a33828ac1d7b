"""The shapes of outputs, shown as words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.sampler import Sampler


def drawn(call: Any, value: Any, seed: int) -> list[str]:
    shapes = Sampler.of(call).shapes()
    blocks = shapes.worlds([value]).blocks(0, 1000, np.random.default_rng(seed))
    return [word for block in blocks for word in np.unique(block).tolist()]


def test_a_shape_that_chance_sets_is_refused() -> None:
    """All outputs of a call share it, so counting them would take one draw for thousands."""

    def chance(value: int, rng: np.random.Generator, size: int) -> Any:
        return np.zeros((size, 2 + int(rng.random() < 0.5)))

    refused = 0
    for seed in range(20):
        try:
            assert len(set(drawn(chance, 0, seed))) == 1
        except InputError:
            refused += 1
    assert 3 <= refused <= 17  # two blocks each


@pytest.mark.parametrize("value", [0, "a word", np.arange(5000.0)])
def test_a_shape_of_each_input_is_a_word(value: Any) -> None:
    words = drawn(lambda x, rng, size: np.zeros((size, np.size(x))), value, 0)
    assert set(words) == {f"an output of shape ({np.size(value)},)"}


def test_long_inputs_are_told_apart() -> None:
    one, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1.0
    shapes = Sampler.of(lambda x, rng, size: np.zeros((size, 1 + int(x.sum())))).shapes()
    rng = np.random.default_rng(0)
    assert shapes.draw(one, rng, 1).tolist() == ["an output of shape (1,)"]
    assert shapes.draw(other, rng, 1).tolist() == ["an output of shape (2,)"]
