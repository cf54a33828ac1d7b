"""Accounting of PrivRec, numbers of its entries, and messages by rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb

from fedrec_auditor.accountants.verdict import NumberLabel
from fedrec_auditor.auditor.reproductions.reproduction import get_reproduction
from fedrec_auditor.targets.components import Component, Dense, Payload, SparseRows
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.entry import ComputedNumber
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.papers.privrec import numbers
from fedrec_auditor.targets.papers.privrec.meta_learned import (
    bound_sampled_renyi,
    compute_l2_norms,
    compute_printed_epsilon,
    join_message_blocks,
    make_device_messages,
    rescale_messages,
)
from fedrec_auditor.targets.papers.privrec.network import DeviceExamples
from fedrec_auditor.targets.papers.privrec.numbers import compute_upper_epsilon, printed_epsilons
from fedrec_auditor.targets.papers.privrec.systems import DpPrivrec, Privrec
from fedrec_auditor.targets.streams import Streams

PAPER = Paper.load("fedrec_auditor.targets.papers.privrec")


def get_statement(number: str) -> tuple[ComputedNumber, ...]:
    return PAPER.compute_numbers(PAPER.get_entry(number))


def test_all_36_entries_are_reproduced_to_the_printed_digit() -> None:
    entries = tuple(printed_epsilons())
    assert len(entries) == 36
    assert [f"{e.counted:.4f}" for e in entries] == [f"{e.printed:.4f}" for e in entries]
    assert all(number.word is NumberLabel.RIGHT for number in get_statement("15b"))


def test_a_reproduced_row_has_the_printed_figure_beside_both_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numbers, "printed_epsilons", lambda: [*printed_epsilons()][16:17])
    (part,) = [part for part in get_reproduction("privrec").list_parts() if not part.data_set]
    (row,) = part.compute_rows(None, np.random.default_rng(0), False)
    assert (row.place, row.what) == ("Table 3", "epsilon at delta 1e-06, 30 of 4800 clients")
    assert (
        row.printed
        == row.beside["by the authors' counting"]
        == PAPER.find_table("Table 3").get_row("30 / 4800")["1e-6"]
    )
    assert row.beside["leaks at least"] < row.value < row.printed


def test_messages_do_not_depend_on_the_devices_random_draws() -> None:
    """A user with all items draws no negatives, so that only noise could make messages differ."""
    system = DpPrivrec(embedding=4, width=32, local_epochs=1)
    held = Interactions.create(np.ones((1, 4)), name="all")
    model = system.init_model(held, np.random.default_rng(1))
    sent = system.upload(held, model, np.random.default_rng(1), messages_per_client=20)
    for name, part in sent.components.items():
        messages = part.to_dense(np.arange(20)).reshape(20, -1)
        np.testing.assert_allclose(messages - messages[0], 0.0, atol=1e-6, err_msg=name)
    assert np.abs(sent.components["item"].to_dense(np.arange(1))).max() > 0.01


def test_counts_of_rounds_and_users() -> None:
    for clients, printed, right in ((30, 4800, 4832), (15, 760, 766)):
        less = compute_upper_epsilon(clients=clients, n_users=right, delta=1e-6)
        more = compute_upper_epsilon(clients=clients, n_users=printed, delta=1e-6)
        assert 0.985 < less / more < 1.0


def test_moved_rows_are_the_users_features() -> None:
    """A device's message moves only the row of its own value in each attribute table."""
    data = Synthetic(n_users=12, n_items=20, profile=6.0, tastes=3, seed=0).load()
    system = Privrec(embedding=16, width=64, local_epochs=1)
    model = system.init_model(data, np.random.default_rng(0))
    sent = system.upload(data, model, np.random.default_rng(1))
    for name, attribute in data.attributes.items():
        change = sent.components[f"user.{name}"].to_dense(np.arange(12))
        moved = [np.flatnonzero(rows.any(axis=1)).tolist() for rows in change]
        assert moved == [[code] for code in attribute.codes]


def test_no_claim_at_delta_0() -> None:
    assert math.isinf(
        compute_printed_epsilon(clients=5, n_users=4800, rounds=1000, multiplier=1.0, delta=0.0)
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
    bound = bound_sampled_renyi(rate, order, multiplier)
    assert bound == pytest.approx(math.log(total) / (order - 1))


def test_tiny_noise_does_not_overflow() -> None:
    assert np.isfinite(
        compute_printed_epsilon(clients=5, n_users=10, rounds=3, multiplier=0.01, delta=1e-6)
    )


MODEL = {
    "user.age": np.zeros((3, 2)),
    "user.sex": np.zeros((2, 2)),
    "item": np.zeros((7, 2)),
    "mlp1.weight": np.zeros((4, 3)),
    "output.bias": np.zeros(()),
}


def make_block(seed: int, users: int) -> tuple[dict[str, Component], dict[str, np.ndarray]]:
    """Messages of some devices, and the same messages as whole tables."""
    rng = np.random.default_rng(seed)
    codes = {"age": rng.integers(0, 3, users), "sex": rng.integers(0, 2, users)}
    data = Interactions.create(
        (rng.random((users, 7)) < 0.3) * 1.0,
        attributes={
            key: Attribute(codes=code, categories=tuple("abc"[: 3 if key == "age" else 2]))
            for key, code in codes.items()
        },
    )
    examples = DeviceExamples.draw_examples(data, Streams.spawn(rng, users), negatives=1)
    width = examples.item_ids.shape[1] + 2
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
        for place in range(examples.n_examples[user]):
            whole["item"][user, examples.item_ids[user, place]] = change["item"][user, place]
    whole |= {name: change[name] for name in ("mlp1.weight", "output.bias")}
    return make_device_messages(change, examples, data, MODEL, Payload.CHANGE, 0.5), whole


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_messages_by_rows_equal_whole_tables(seed: int, sizes: list[int]) -> None:
    blocks = [make_block(seed + number, size) for number, size in enumerate(sizes)]
    sent = join_message_blocks([one for one, _ in blocks])
    n = np.arange(sum(sizes))
    assert list(sent) == list(MODEL)
    squares, factor = np.zeros(len(n)), np.linspace(-1.0, 2.0, len(n))
    for name, part in MODEL.items():
        expected = np.concatenate([whole[name] for _, whole in blocks])
        component = sent[name]
        np.testing.assert_array_equal(component.to_dense(n), expected, name)
        assert component.shape == part.shape
        squares += (expected.astype(float) ** 2).reshape(len(n), part.size).sum(axis=1)
        shape = (-1, *[1] * part.ndim)
        scaled = rescale_messages(component, factor).to_dense(n)
        np.testing.assert_allclose(scaled, expected * factor.reshape(shape), rtol=1e-6)
        if isinstance(component, SparseRows):
            np.testing.assert_array_equal(component.flag_sent_rows(n), (expected != 0).any(axis=2))
        else:
            assert isinstance(component, Dense)
    np.testing.assert_allclose(compute_l2_norms(sent), np.sqrt(squares))
