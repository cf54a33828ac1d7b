"""What devices draw: whose, how many, uniformly, and the same alone as in company."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import LocalTraining
from fedrec_auditor.targets.learners.parts import work as _minibatches
from fedrec_auditor.targets.learners.parts.work import (
    Examples,
    draw_examples,
    draw_linear_rows,
    draw_linear_term,
    draw_order,
)
from fedrec_auditor.targets.streams import Streams

RARE = 1e-9


def streams(count: int, seed: int = 0) -> Streams:
    return Streams.spawn(np.random.default_rng(seed), count)


def of(examples: Examples, device: int) -> tuple[list[int], list[int]]:
    """Items of its own, and negatives."""
    part = slice(examples.indptr[device], examples.indptr[device + 1])
    ids, own = examples.ids[part], examples.positive[part]
    assert (np.diff(ids) > 0).all()
    return ids[own].tolist(), ids[~own].tolist()


@settings(max_examples=60)
@given(
    users=st.integers(1, 6),
    items=st.integers(1, 25),
    negatives=st.integers(0, 5),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_own_items_and_others_alone_as_in_company(
    users: int, items: int, negatives: int, share: float, seed: int
) -> None:
    held = np.random.default_rng(seed).random((users, items)) < share
    interactions, flips = Interactions.of(held.astype(float)), streams(users, seed)
    drawn = draw_examples(interactions, flips, negatives)
    assert len(drawn.sizes) == users
    for user in range(users):
        own, others = of(drawn, user)
        assert own == np.flatnonzero(held[user]).tolist()
        assert len(others) == min(negatives * len(own), items - len(own))
        alone = draw_examples(
            interactions.take(np.array([user])), flips.take(np.array([user])), negatives
        )
        assert of(alone, 0) == (own, others)


def test_blocks_of_devices_change_nothing(monkeypatch) -> None:
    held = np.random.default_rng(0).random((20, 30)) < 0.2
    interactions, flips = Interactions.of(held.astype(float)), streams(20)
    whole = draw_examples(interactions, flips, 2)
    monkeypatch.setattr(_minibatches, "_BLOCK", 70)
    parts = draw_examples(interactions, flips, 2)
    np.testing.assert_array_equal(whole.ids, parts.ids)
    np.testing.assert_array_equal(whole.indptr, parts.indptr)
    np.testing.assert_array_equal(whole.positive, parts.positive)


def test_negatives_are_uniform_over_pairs_of_others() -> None:
    """Two of five others: each of the ten pairs in a tenth of 20,000 devices."""
    n = 20_000
    held = np.zeros((n, 7))
    held[:, [2, 5]] = 1
    drawn = draw_examples(Interactions.of(held), streams(n), 1)
    ids = drawn.ids[~drawn.positive].reshape(n, 2)
    counts = np.unique(ids[:, 0] * 7 + ids[:, 1], return_counts=True)[1]
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > RARE


def test_no_devices_draw_nothing() -> None:
    drawn = draw_examples(Interactions.of(np.zeros((0, 3))), streams(0), 4)
    assert len(drawn.ids) == len(drawn.sizes) == 0
    assert draw_order(streams(0), drawn.sizes, 0).shape == (0, 0)


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    epoch=st.integers(0, 9),
    seed=st.integers(0, 99),
)
def test_orders_are_permutations_alone_as_in_company(
    sizes: list[int], epoch: int, seed: int
) -> None:
    flips = streams(len(sizes), seed)
    order = draw_order(flips, np.array(sizes), epoch)
    for user, size in enumerate(sizes):
        assert sorted(order[user, :size]) == list(range(size))
        assert order[user, size:].tolist() == list(range(size, max(sizes)))
        alone = draw_order(flips.take(np.array([user])), np.array([size]), epoch)
        np.testing.assert_array_equal(alone[0], order[user, :size])


def test_orders_are_uniform_and_differ_between_epochs() -> None:
    n = 12_000
    flips, sizes = streams(n), np.full(n, 4)
    first, second = (draw_order(flips, sizes, epoch) for epoch in (0, 1))
    code = first @ 4 ** np.arange(4)
    assert stats.chisquare(np.unique(code, return_counts=True)[1]).pvalue > RARE
    both = np.zeros((4, 4))
    np.add.at(both, (first[:, 0], second[:, 0]), 1)
    assert stats.chisquare(both.ravel()).pvalue > RARE


def test_linear_terms_are_laplace_and_those_of_rows_stand_at_their_item() -> None:
    shapes = {"user.E": (3, 200), "item": (50, 4), "mlp1.bias": (600,)}
    local = LocalTraining(linear_term={"user.E": 2.0, "item": 3.0, "mlp1.bias": 2.0})
    flips = streams(30)
    dense, bias = (draw_linear_term(flips, local, shapes, name) for name in ("user.E", "mlp1.bias"))
    assert dense.shape == (30, 3, 200)
    assert stats.kstest(dense.ravel() / 2, "laplace").pvalue > RARE
    assert abs(np.corrcoef(dense.ravel(), bias.ravel())[0, 1]) < 0.05
    held = (np.random.default_rng(0).random((30, 50)) < 0.3).astype(float)
    interactions = Interactions.of(held)
    few, all_items = (draw_examples(interactions, flips, q) for q in (0, 50))
    table = draw_linear_rows(flips, local, shapes, all_items).reshape(30, 50, 4)
    assert stats.kstest(table.ravel() / 3, "laplace").pvalue > RARE
    np.testing.assert_array_equal(
        draw_linear_rows(flips, local, shapes, few), table[held.astype(bool)]
    )
