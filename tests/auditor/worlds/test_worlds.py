"""Worlds: what is drawn is checked, in blocks of bounded size, each from a generator of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.worlds.worlds import BLOCK, BLOCK_ENTRIES, Worlds

SCOPE = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)


def worlds(draw: Any) -> Worlds:
    return Worlds(names=("a one", "a zero"), scope=SCOPE, draw=draw)


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        (np.full(9, np.nan), "without NaN"),
        (np.zeros(10), "9 outputs"),
        (np.float64(3.0), "9 outputs"),
        ([[1], [1, 2]] * 4 + [[1]], "ragged"),
        (np.full(9, None), "numbers or strings .* got NoneType"),
    ],
)
def test_what_is_no_output_is_refused_by_its_world(drawn: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        worlds(lambda world, size, rng: drawn).sample(0, 9, np.random.default_rng(0))
    assert "world 0 (a one)" in str(refused.value)


def test_blocks_are_bounded_and_each_is_drawn_by_a_generator_of_its_own() -> None:
    samples = 3 * BLOCK + 100
    blocks = list(
        worlds(lambda world, size, rng: rng.random(size)).blocks(
            1, samples, np.random.default_rng(0)
        )
    )
    assert sum(map(len, blocks)) == samples
    assert max(map(len, blocks)) == BLOCK
    assert len({float(block[0]) for block in blocks}) == len(blocks)


def test_wide_outputs_come_in_small_blocks() -> None:
    wide = worlds(lambda world, size, rng: np.zeros((size, 1 << 16), dtype=np.int8))
    sizes = [len(block) for block in wide.blocks(0, 500, np.random.default_rng(0))]
    assert sum(sizes) == 500
    assert max(sizes) == BLOCK_ENTRIES >> 16


def test_outputs_of_a_world_have_one_shape() -> None:
    uneven = worlds(lambda world, size, rng: np.zeros((size, size)))
    with pytest.raises(InputError, match="one shape for world 1"):
        list(uneven.blocks(1, 200, np.random.default_rng(0)))
    square = worlds(lambda world, size, rng: np.zeros((size, 2)))
    with pytest.raises(InputError, match="one shape"):
        list(square.blocks(0, 10, np.random.default_rng(0), shape=(3,)))
