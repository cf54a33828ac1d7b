"""Sizes, first weights and genres of the PrivRec network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.papers.privrec.systems.parts.device import Network, genre_flags

DATA = Interactions.of(
    np.ones((3, 4)),
    attributes={"sex": Attribute(codes=np.array([0, 1, 0]), categories=("f", "m"))},
    genres=np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=bool),
    genre_names=("a", "b", "c"),
)


def test_genres_may_be_none() -> None:
    np.testing.assert_array_equal(genre_flags(DATA), DATA.genres)
    assert genre_flags(Interactions.of(np.ones((3, 4)))).shape == (4, 0)


@pytest.mark.parametrize(
    ("ids", "side", "tables"),
    [(True, True, 3), (False, True, 2), (True, False, 1)],
)
def test_inputs_are_what_the_tables_embed(ids: bool, side: bool, tables: int) -> None:
    network = Network(embedding=5, width=32, ids=ids, side=side)
    shapes = network.shapes(DATA)
    assert shapes["mlp1.weight"] == (5 * (tables + (2 if side else 0)), 32)  # of 3 genres, one each
    averaged = replace(network, averaged=True).shapes(DATA)
    assert averaged["mlp1.weight"] == (5 * tables, 32)
    assert ("item" in shapes) == ids
    assert ("genre" in shapes) == ("user.sex" in shapes) == side
    assert shapes["mlp4.weight"] == (8, 4)


def test_without_genres_an_items_number_is_its_feature() -> None:
    network = Network(embedding=5, width=32, ids=False, side=True)
    for bare in (replace(DATA, genres=None), replace(DATA, genres=np.zeros((4, 0), dtype=bool))):
        assert (
            {"item", "user.sex"}
            <= set(network.shapes(bare))
            == set(network.shapes(bare)) - {"genre"}
        )


def test_first_weights_have_their_spread() -> None:
    """Spreads of thousands of normal draws are within 10%, but with probability below 1e-9."""
    network = Network(embedding=64, width=64, ids=True, side=True)
    wide = Interactions.of(np.ones((2, 100)))
    model = network.initial(wide, np.random.default_rng(0))
    assert model["item"].std() == pytest.approx(1 / 8, rel=0.1)
    assert model["mlp1.weight"].std() == pytest.approx(np.sqrt(2 / 64), rel=0.1)
    assert not model["mlp1.bias"].any()
    assert all(part.dtype == np.float32 for part in model.values())
