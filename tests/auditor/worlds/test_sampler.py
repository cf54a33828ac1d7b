"""Tests of samplers, and of their worlds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import (
    Bound,
    Claim,
    Horizon,
    Side,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.auditor.worlds.measure import RefutationDraws, explain_too_few_trainings
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.worlds import BLOCK_SIZE, MAX_BLOCK_ENTRIES, Worlds

SCOPE = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)


def make_worlds(draw: Any) -> Worlds:
    return Worlds(names=("a one", "a zero"), scope=SCOPE, draw=draw)


def draw_blocks(
    found: Worlds, world: int, size: int, seed: int = 0, shape: tuple[int, ...] | None = None
) -> list[Any]:
    """Blocks of one world, in their order."""
    alone = replace(found, draw_in_order=None)
    drawn = alone.draw_blocks({world: size}, [np.random.default_rng(seed)], shape)
    return [block for _, block in drawn]


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        (np.full(9, np.nan), "without NaN"),
        (np.zeros(10), "9 outputs"),
        (np.float64(3.0), "9 outputs"),
        ([[1], [1, 2]] * 4 + [[1]], "ragged"),
        (np.full(9, None), "numbers or strings .* got NoneType"),
    ],
)
def test_wrong_outputs_are_refused_with_their_world(drawn: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        make_worlds(lambda world, size, rng: drawn).sample(0, 9, np.random.default_rng(0))
    assert "world 0 (a one)" in str(refused.value)


def test_blocks_are_bounded_and_have_separate_generators() -> None:
    samples = 3 * BLOCK_SIZE + 100
    blocks = draw_blocks(make_worlds(lambda world, size, rng: rng.random(size)), 1, samples)
    assert sum(map(len, blocks)) == samples
    assert max(map(len, blocks)) == BLOCK_SIZE
    assert len({float(block[0]) for block in blocks}) == len(blocks)


def test_wide_outputs_come_in_small_blocks() -> None:
    wide = make_worlds(lambda world, size, rng: np.zeros((size, 1 << 16), dtype=np.int8))
    sizes = [len(block) for block in draw_blocks(wide, 0, 500)]
    assert sum(sizes) == 500
    assert max(sizes) == MAX_BLOCK_ENTRIES >> 16


def test_outputs_of_a_world_have_one_shape() -> None:
    uneven = make_worlds(lambda world, size, rng: np.zeros((size, size)))
    with pytest.raises(InputError, match="one shape for world 1"):
        draw_blocks(uneven, 1, 200)
    square = make_worlds(lambda world, size, rng: np.zeros((size, 2)))
    with pytest.raises(InputError, match="one shape"):
        draw_blocks(square, 0, 10, shape=(3,))


def drawn(call: Any, value: Any, seed: int) -> list[str]:
    shapes = Sampler.wrap(call).make_output_shape_sampler()
    blocks = draw_blocks(shapes.make_worlds([value]), 0, 1000, seed)
    return [word for block in blocks for word in np.unique(block).tolist()]


def test_a_random_shape_is_refused() -> None:
    """All outputs of a call share the shape, so one draw would count as thousands."""

    def chance(value: int, rng: np.random.Generator, size: int) -> Any:
        return np.zeros((size, 2 + int(rng.random() < 0.5)))

    refused = 0
    for seed in range(20):
        try:
            assert len(set(drawn(chance, 0, seed))) == 1
        except InputError:
            refused += 1
    assert 3 <= refused <= 17  # two blocks per world


@pytest.mark.parametrize("value", [0, "a word", np.arange(5000.0)])
def test_a_shape_by_input_is_a_string(value: Any) -> None:
    words = drawn(lambda x, rng, size: np.zeros((size, np.size(x))), value, 0)
    assert set(words) == {f"an output of shape ({np.size(value)},)"}


def test_long_inputs_are_distinguished() -> None:
    zeros, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1.0
    sampler = Sampler.wrap(lambda x, rng, size: np.zeros((size, 1 + int(x.sum()))))
    shapes = sampler.make_output_shape_sampler()
    rng = np.random.default_rng(0)
    assert shapes.draw(zeros, rng, 1).tolist() == ["an output of shape (1,)"]
    assert shapes.draw(other, rng, 1).tolist() == ["an output of shape (2,)"]


TRAINING = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)


@pytest.mark.parametrize(("times", "enough"), [(1.0, False), (1.5, False), (2.0, True)])
def test_power_is_in_draws_per_world(times: float, enough: bool) -> None:
    needed = RefutationDraws.count(2.0, delta=0.0, confidence=0.95).n_draws_gaussian
    shown = Bound(
        epsilon=0.5,
        side=Side.LOWER,
        scope=TRAINING,
        source="a game",
        confidence=0.95,
        samples=round(times * needed),
    )
    claim = Claim(epsilon=2.0, scope=TRAINING, statement="ours", source="paper")
    assert (explain_too_few_trainings(claim, [shown]) == "") is enough
