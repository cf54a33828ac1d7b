"""Messages of unknown form, read by running the devices' code on simulated users."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.shadow_reader import MAX_SHADOW_SECONDS, MIN_SHADOWS, ShadowReader
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads, View
from fedrec_auditor.targets.wrapped.client import History
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem
from tests.attacks.synthetic import get_sets, make_view

USERS, ITEMS, LENGTH = 80, 60, 40
Parts = dict[str, NDArray[np.generic]]


@dataclass(eq=False)
class Device:
    """A device that sends ``message`` of its items and records its messages."""

    message: Callable[[NDArray[np.intp], np.random.Generator], Parts]
    call_seconds: float = 0.1
    kind: Payload = Payload.CHANGE
    is_external: bool = True
    n_items_range: tuple[int, int] = (1, ITEMS)
    sent: list[int] = field(default_factory=list)

    def __call__(
        self, met: NDArray[np.bool_], broadcast: Broadcast | None, rng: np.random.Generator
    ) -> Uploads:
        self.sent.append(len(met))
        made = [self.message(np.flatnonzero(each), rng) for each in met]
        parts = {n: Dense(np.stack([each[n] for each in made]), self.kind) for n in made[0]}
        return Uploads(np.arange(len(met)), parts)


def send_list(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """Identifiers of own items before those of others, without numbers."""
    others = rng.permutation(np.setdiff1d(np.arange(ITEMS), items))
    return {"ids": np.concatenate([items, [-1], others])[:LENGTH]}


def send_scores(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """Identifiers in any order, with scores that are higher for own items."""
    ids = rng.permutation(np.append(items, rng.permutation(np.setdiff1d(np.arange(ITEMS), items))))
    score = np.where(np.isin(ids, items), 0.7, 0.5) + 0.1 * rng.random(ITEMS)
    return {"ids": ids, "scores": score}


def send_codes(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """A code per own item, by a public function, among random codes."""
    codes = rng.integers(2**40, 2**41, size=LENGTH)
    codes[: len(items)] = (items + 7) * 2_654_435_761 % 2**39
    return {"codes": rng.permutation(codes)}


def send_bloom_filter(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """A Bloom filter: three bits per own item, with some bits of other items."""
    bits = np.zeros(400, np.bool_)
    bits[(items[:, None] * [7, 13, 101] + [3, 50, 11]) % 400] = True
    return {"bits": bits}


def send_sketch(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """A count-min sketch: number of own items in each cell of three rows."""
    cells = np.zeros((3, 150), np.int64)
    for row, factor in enumerate((7, 13, 101)):
        np.add.at(cells[row], (items * factor + 3) % 150, 1)
    return {"cells": cells}


ORDERS = np.random.default_rng(5).random((ITEMS, 100)).argsort(axis=0)


def send_minhash(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """MinHash: position of the first own item in each of many orders of all items."""
    return {"signature": ORDERS[items].min(axis=0)}


def send_flipped_bits(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """One bit per item, wrong with probability 1/4."""
    bits = np.isin(np.arange(ITEMS), items) ^ (rng.random(ITEMS) < 0.25)
    return {"bits": bits.astype(np.int8)}


def send_table_and_list(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """A table whose own rows move slightly less than the noise, and a list with own items first."""
    table = rng.normal(size=(ITEMS, 4))
    table[items] += 1.0
    return {"item": table} | send_list(items, rng)


def send_decoys(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """Ratings of own items, and higher ratings of as many other items."""
    sent = np.zeros(ITEMS)
    sent[items] = rng.random(len(items)) + 0.1
    decoys = rng.permutation(np.setdiff1d(np.arange(ITEMS), items))[: len(items)]
    sent[decoys] = rng.random(len(items)) + 1.2
    return {"values": sent}


def send_touched_rows(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """Rows of own items and of twice as many others, redrawn for each message."""
    others = rng.permutation(np.setdiff1d(np.arange(ITEMS), items))[: 2 * len(items)]
    table = np.zeros((ITEMS, 3))
    rows = np.concatenate([items, others])
    table[rows] = rng.normal(size=(len(rows), 3))
    return {"item": table}


def send_noise(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    return {"noise": rng.normal(size=(ITEMS, 3)), "more": rng.normal(size=5)}


def draw_users() -> NDArray[np.bool_]:
    rng = np.random.default_rng(3)
    sizes = rng.integers(5, 20, size=USERS)
    return rng.random((USERS, ITEMS)).argsort(axis=1).argsort(axis=1) < sizes[:, None]


def observe(device: Device, rounds: int = 1) -> View:
    """A view of rounds of the device, for an adversary with the device's code."""
    rng = np.random.default_rng(4)
    seen = (Round(None, device(draw_users(), None, rng)) for _ in range(rounds))
    return make_view(*seen, users=USERS, items=ITEMS, device_code=device)


@pytest.mark.parametrize(
    ("message", "min_f1"),
    [
        (send_list, 0.99),
        (send_scores, 0.99),
        (send_codes, 0.99),
        (send_bloom_filter, 0.98),
        (send_sketch, 0.95),
        (send_minhash, 0.95),
    ],
)
def test_plain_histories_are_read_in_any_form(
    message: Callable[[NDArray[np.intp], np.random.Generator], Parts], min_f1: float
) -> None:
    seen = observe(Device(message))
    (reader,) = reading.find_readers(seen)
    assert isinstance(reader, ShadowReader)
    guess = get_sets(seen)
    assert metrics.compute_set_f1(guess, draw_users()).mean() >= min_f1


def test_messages_of_several_rounds_are_intersected() -> None:
    seen = observe(Device(send_touched_rows, call_seconds=0.0), rounds=4)
    in_all = np.ones((USERS, ITEMS), np.bool_)
    for _, sent in seen.find_linked_rounds("item"):
        in_all &= (sent.to_dense(np.arange(USERS)) != 0).any(axis=2)
    guess = get_sets(seen)
    reached = metrics.compute_set_f1(in_all, draw_users()).mean()
    assert metrics.compute_set_f1(guess, draw_users()).mean() > reached - 0.04


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_learned_evidence_is_the_likelihood_ratio(rounds: int) -> None:
    """The ratio of flipped bits is known: the sum over the rounds."""
    seen = observe(Device(send_flipped_bits), rounds)
    found = ShadowReader().read(seen, np.arange(USERS)).log_ratio
    assert found is not None
    bits = [sent.to_dense(np.arange(USERS)) for _, sent in seen.find_linked_rounds("bits")]
    exact = np.log(3.0) * sum(2.0 * each - 1.0 for each in bits)
    slope, offset = np.polyfit(exact.ravel(), found.ravel(), 1)
    assert 0.8 < slope < 1.25
    assert abs(offset) < 0.35
    assert np.corrcoef(exact.ravel(), found.ravel())[0, 1] > 0.95


@pytest.mark.parametrize(
    ("message", "kind"), [(send_table_and_list, Payload.GRADIENT), (send_decoys, Payload.RATINGS)]
)
def test_third_party_devices_are_read_better_than_by_their_form(
    message: Callable[[NDArray[np.intp], np.random.Generator], Parts], kind: Payload
) -> None:
    def f1(others: bool) -> float:
        seen = observe(Device(message, kind=kind, is_external=others))
        assert isinstance(reading.find_readers(seen)[0], ShadowReader) == others
        guess = get_sets(seen)
        return float(metrics.compute_set_f1(guess, draw_users()).mean())

    assert f1(others=False) < 0.8
    assert f1(others=True) > 0.95


def test_nothing_is_learned_if_a_reader_makes_no_mistake() -> None:
    def bits(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
        return {"bits": np.isin(np.arange(ITEMS), items).astype(np.int8)}

    device = Device(bits, kind=Payload.BITS)
    ratio = reading.read_evidence(observe(device), np.arange(USERS)).log_ratio
    assert ratio is not None
    assert ((ratio > 0) == draw_users()).all()
    assert device.sent[1:] == [MIN_SHADOWS]


def test_noise_gives_no_evidence() -> None:
    found = ShadowReader().read(observe(Device(send_noise), 2), np.arange(USERS)).log_ratio
    assert found is not None
    assert found.std() < 0.3
    assert abs(roc_auc_score(draw_users().ravel(), found.ravel()) - 0.5) < 0.05


def test_evidence_does_not_depend_on_the_request_and_is_learned_once() -> None:
    device = Device(send_scores)
    seen = observe(device, 2)
    among = ShadowReader().read(seen, np.arange(USERS)).log_ratio
    calls = len(device.sent)
    alone = ShadowReader().read(seen, np.array([4, 9])).log_ratio
    assert among is not None
    np.testing.assert_array_equal(alone, among[[4, 9]])
    assert len(device.sent) == calls
    again = observe(Device(send_scores), 2)
    np.testing.assert_array_equal(ShadowReader().read(again, np.arange(USERS)).log_ratio, among)


def test_slow_devices_are_simulated_less_often() -> None:
    device = Device(send_noise, call_seconds=MAX_SHADOW_SECONDS)
    ShadowReader().read(observe(device), np.arange(USERS))
    assert device.sent[1:] == [MIN_SHADOWS, MIN_SHADOWS]


def read_client(client: Callable[..., object]) -> tuple[float, list[str]]:
    """AUC of the evidence on a wrapped client's messages, and the notes about it."""
    held = Interactions.create(draw_users().astype(np.float32))
    system = WrappedSystem(client=client)
    sent = system.upload(held, None, np.random.default_rng(4))
    simulated = SimulatedClient.from_data(system, held)
    seen = make_view(Round(None, sent), users=USERS, items=ITEMS, device_code=simulated)
    ratio = ShadowReader().read(seen, np.arange(USERS)).log_ratio
    assert ratio is not None
    return float(roc_auc_score(draw_users().ravel(), ratio.ravel())), seen.notes


def fail_at(fails: Callable[[History], bool]) -> Callable[..., object]:
    """A client that sends scores of all items, but raises for histories that ``fails`` selects."""

    def client(history: History, model: object, rng: np.random.Generator) -> Parts:
        rng.choice(np.zeros(0 if fails(history) else 1), 1)
        return send_scores(history.items, rng)

    return client


def test_simulated_histories_are_as_long_as_users() -> None:
    usual, _ = read_client(fail_at(lambda history: False))
    sizes = draw_users().sum(axis=1)
    found, how = read_client(fail_at(lambda h: not sizes.min() <= len(h) <= sizes.max()))
    assert min(usual, found) > 0.95
    assert how == ["The attack learns from users simulated by the devices' code."]


def test_histories_at_which_the_code_fails_are_left_out_and_counted() -> None:
    both = draw_users().T.astype(int) @ draw_users()
    first, second = np.argwhere(both == 0)[0]
    found, (how,) = read_client(fail_at(lambda h: bool({first, second} <= set(h.items.tolist()))))
    assert found > 0.95
    assert re.search(r"\d+ of 1,000 simulated histories are left out because .*empty", how)


def test_code_that_fails_at_all_simulated_histories_is_refused_with_its_error() -> None:
    known = {tuple(np.flatnonzero(each)) for each in draw_users()}
    with pytest.raises(InputError, match=r"client code that .* histories, got.*cannot be empty"):
        read_client(fail_at(lambda history: tuple(history.items) not in known))


def test_the_refusal_without_code_lists_the_messages() -> None:
    sent = Device(send_list)(draw_users(), None, np.random.default_rng(0))
    seen = make_view(Round(None, sent), users=USERS, items=ITEMS)
    refusal = ShadowReader().refusal(seen)
    assert "messages whose senders' code can be run. The messages consist of “ids" in refusal
    assert not reading.find_readers(seen)
