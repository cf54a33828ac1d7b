"""Attribute attacks: summaries of messages, side knowledge, scaling, and memory bounds."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.attacks.attribute_attacks import (
    AttributeBayes,
    AttributeKnn,
    AttributeLogistic,
    AttributeMlp,
    AttributeSvc,
    AttributeTree,
)
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.inputs import ITEMS, SUMMARY, InputTable, add_input_tables
from fedrec_auditor.attacks.parts.uploads import iter_message_blocks
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.transcript import View
from tests.attacks.synthetic import SKEWED, flip, make_view, run_fcf, send

ATTACKS = [
    AttributeMlp(),
    AttributeTree(),
    AttributeSvc(),
    AttributeKnn(),
    AttributeLogistic(),
    AttributeBayes(),
]


def summarize_all(view: View) -> np.ndarray:
    """The summary of all users, zero for users who sent nothing."""
    read = add_input_tables(view).inputs[SUMMARY]
    out = np.zeros((view.public.n_users, read.width), dtype=np.float32)
    out[read.users] = read.compute_values()
    return out


@pytest.mark.parametrize("attack", ATTACKS)
def test_side_knowledge_alone_is_used_and_one_class_is_guessed_for_all(attack: Any) -> None:
    """Known users are not guessed."""
    rng = np.random.default_rng(0)
    codes, bits = rng.integers(2, size=200), Dense(rng.integers(2, size=(200, 60)), Payload.BITS)
    view = make_view(send({"bits": bits}), users=200, items=60)
    known = np.arange(0, 200, 3)
    background = Background(
        known_users=known, known_classes=codes[known], n_classes=2, attributes=np.eye(2)[codes]
    )
    guess = attack.infer(view.drop_uploads(), background, np.random.default_rng(1))
    np.testing.assert_array_equal(guess.users, np.setdiff1d(np.arange(200), known))
    np.testing.assert_array_equal(guess.classes, codes[guess.users])
    ones = np.flatnonzero(codes == 1)[:5]
    background = Background(known_users=ones, known_classes=codes[ones], n_classes=2)
    for blind in (view, view.drop_uploads()):
        assert (attack.infer(blind, background, np.random.default_rng(1)).classes == 1).all()


def test_summary_sums_fresh_noise_and_takes_the_last_gradient() -> None:
    bits = flip(SKEWED, np.random.default_rng(0), p=0.7, q=0.3, rounds=3)
    total = sum(
        one.to_dense(np.arange(120)).astype(float) for _, one in bits.find_linked_rounds("bits")
    )
    expected = (total - total.mean(axis=0)) / total.std(axis=0)
    np.testing.assert_allclose(summarize_all(bits), expected.clip(-5, 5), atol=1e-4)
    first, _ = run_fcf(SKEWED, np.random.default_rng(0))
    second, _ = run_fcf(SKEWED, np.random.default_rng(1))
    both = replace(first, rounds=first.rounds + second.rounds)
    np.testing.assert_array_equal(summarize_all(both), summarize_all(second))
    condensed = add_input_tables(both)
    assert add_input_tables(condensed) is condensed
    np.testing.assert_array_equal(summarize_all(condensed), summarize_all(both))


def test_interactions_are_read_by_one_scale() -> None:
    """Columns of unpopular items keep their small variance."""
    bits = flip(SKEWED, np.random.default_rng(0), p=1.0, q=0.0)
    read = add_input_tables(bits).inputs[ITEMS].compute_values()
    centred = SKEWED - SKEWED.mean(axis=0)
    np.testing.assert_allclose(read, centred / centred.std(), atol=1e-3)


def test_absent_users_have_the_mean() -> None:
    rng = np.random.default_rng(0)
    bits = Dense(rng.integers(2, size=(50, 7)), Payload.BITS)
    one = send({"bits": bits}, users=np.arange(0, 100, 2))
    found = summarize_all(make_view(one, users=100, items=7))
    assert not found[1::2].any()
    np.testing.assert_allclose(found[::2].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(found[::2].std(axis=0), 1, atol=1e-5)


def test_blocks_cover_all_clients_and_stay_small() -> None:
    component = Dense(np.arange(5 * 400_000).reshape(5, -1), Payload.MODEL)
    rows, messages = zip(*iter_message_blocks(component), strict=True)
    assert [r.stop - r.start for r in rows] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(messages), component.values)


def test_memory_is_that_of_features_and_their_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedrec_auditor.attacks.parts.uploads.MAX_BLOCK_NUMBERS", 2**18)
    values = np.random.default_rng(0).random((400, 20_000), dtype=np.float32)
    view = make_view(send({"update": Dense(values, Payload.MODEL)}), users=400, items=7)
    tracemalloc.start()
    try:
        summarize_all(view)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * values.nbytes


def test_fewer_messages_of_many_users_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages beyond the limit are never read."""
    moved = np.random.default_rng(0).random((90, 30), dtype=np.float32)
    view = make_view(send({"update": Dense(moved, Payload.CHANGE)}), users=90, items=7)
    whole = add_input_tables(view).inputs[SUMMARY]
    monkeypatch.setattr("fedrec_auditor.attacks.parts.inputs.MAX_USERS_FULL_TABLE", 89)
    monkeypatch.setattr("fedrec_auditor.attacks.parts.inputs.MAX_TABLE_ROWS", 12 * 20)
    some = add_input_tables(view).inputs[SUMMARY]
    assert (len(whole.users), len(some.users)) == (90, 20)
    expected = np.corrcoef(moved[some.users].T)
    np.testing.assert_allclose(np.corrcoef(some.compute_values().T), expected, atol=0.02)


def test_a_summary_that_would_not_fit_covers_the_last_senders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The summary uses all messages read; users of a round that does not fit are evenly spaced."""
    rng = np.random.default_rng(0)
    senders = (np.arange(0, 60), np.arange(20, 60), np.arange(50, 90))
    moved = [rng.random((len(users), 30), dtype=np.float32) for users in senders]
    rounds = [
        send({"update": Dense(part, Payload.CHANGE)}, users=users)
        for users, part in zip(senders, moved, strict=True)
    ]
    view = make_view(*rounds, users=200, items=7)

    one_user = 30  # number of entries of one message
    monkeypatch.setattr("fedrec_auditor.attacks.parts.uploads.MAX_BLOCK_NUMBERS", one_user)

    def read(numbers: int) -> InputTable:
        monkeypatch.setattr("fedrec_auditor.attacks.parts.inputs.MAX_TABLE_ENTRIES", numbers)
        return add_input_tables(view).inputs[SUMMARY]

    np.testing.assert_array_equal(read(90 * 30).users, np.arange(90))
    some = read(60 * 30)
    assert set(some.users) > set(range(50, 90))
    assert len(some.users) == 60
    assert set(some.users) <= set(range(20, 90))
    place = int(np.flatnonzero(some.users == 55)[0])
    means, messages = {}, list(zip(senders, moved, strict=True))
    for user in some.users.tolist():
        own = [part[users == user][0] for users, part in messages if user in users]
        means[user] = np.mean(own, axis=0)
    table = np.array(list(means.values()))
    expected = (means[55] - table.mean(axis=0)) / table.std(axis=0)
    found = some.compute_values()[place]
    np.testing.assert_allclose(found, expected.clip(-5, 5), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(read(4 * 30).users, [50, 60, 70, 80])


@pytest.mark.parametrize("scaled", [True, False])
def test_products_are_those_of_the_columns(monkeypatch: pytest.MonkeyPatch, scaled: bool) -> None:
    """A large reading is processed some columns at a time, compared with float64 of all at once.

    Columns of any size, constant ones, and rows that nothing was written to.
    """
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.integers(*((-25, 20) if scaled else (-3, 3)), size=300)
    table = (size * (rng.normal(size=(50, 300)) + 3)).astype(np.float32)
    table[:, ::9] = np.float32(0.1)
    table[:, ::11] = 0

    def write(out: np.ndarray, users: np.ndarray) -> np.ndarray:
        out[:40] = table[users[:40], : out.shape[1]]
        return np.arange(40)

    expected = np.zeros((50, 500))
    whole = np.concatenate([table[:40], table[:40, :200]], axis=1).astype(np.float64)
    expected[:40] = whole - whole.mean(axis=0)
    if scaled:
        deviations = expected[:40].std(axis=0)
        kept = deviations > 1e-6 * np.abs(whole.mean(axis=0))
        expected[:40, kept] /= deviations[kept]
        expected = expected.clip(-5, 5)
    else:
        expected /= np.sqrt(np.mean(expected**2))
    for at_once in (1 << 23, 100):
        monkeypatch.setattr("fedrec_auditor.attacks.parts.inputs._KEPT", at_once)
        monkeypatch.setattr("fedrec_auditor.attacks.parts.inputs._BLOCK", 1000)
        read = InputTable(np.arange(50), [(300, write), (200, write)], scaled=scaled)
        bound = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(read.compute_values(), expected, rtol=1e-3, atol=bound)
        np.testing.assert_allclose(
            read.inner_products.gram_matrix,
            expected @ expected.T,
            atol=1e-4 * np.trace(expected @ expected.T),
        )
        assert read.inner_products.width == 500
