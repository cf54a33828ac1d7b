"""What a device of FedNewsRec sends, against torch's gradients, and what its noise keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.papers.fednewsrec import numbers
from fedrec_auditor.targets.papers.fednewsrec.systems.fednewsrec import FedNewsRec
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Messages
from fedrec_auditor.targets.transcript import Broadcast

_DATA = Synthetic(n_users=20, n_items=40, profile=6).load()
_MANY = Population(n_users=943, n_items=1682)
_SMALL = FedNewsRec(dimension=3, words=5, history=4, clip=0.002)
_NUMBER, _USER = (
    Scope.parse(f"{unit} / any pair / server / round") for unit in ("coordinate", "user")
)


def model(system: FedNewsRec, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"news.W": (system.dimension, system.words), "user.A": (system.dimension,) * 2}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_message_is_the_model_after_one_step_whose_every_number_is_clipped() -> None:
    sent = model(_SMALL)
    uploads = _SMALL.upload(_DATA, sent, np.random.default_rng(1))
    streams = Streams.spawn(np.random.default_rng(1), 20)
    items = torch.tensor(_SMALL._items(_DATA))
    owners, shown = _SMALL._samples(_DATA.ratings, streams.fold_in(0))
    clipped = 0
    for user in range(20):
        now = {
            n: torch.tensor(part, dtype=torch.float64).requires_grad_() for n, part in sent.items()
        }
        vectors = torch.tanh(items @ now["news.W"].T)
        own = slice(*_DATA.ratings.indptr[user : user + 2])
        latest = np.argsort(_DATA.timestamps[own], kind="stable")[-4:]
        clicks = _DATA.ratings.indices[own][latest]
        score = vectors[shown[owners == user]] @ (now["user.A"] @ vectors[clicks].mean(dim=0))
        loss = torch.nn.functional.cross_entropy(score, torch.zeros(len(score), dtype=torch.long))
        loss.backward()
        for name, part in now.items():
            assert part.grad is not None
            clipped += int((part.grad.abs() > 0.002).sum())
            after = part.detach() - 0.3 * part.grad.clamp(-0.002, 0.002)
            found = uploads.components[name].dense(np.array([user]))[0]
            np.testing.assert_allclose(found, after, rtol=1e-5, atol=1e-6)
    assert clipped > 100


def test_beside_a_click_stand_items_that_were_not_met_all_alike() -> None:
    table = np.zeros((2, 9))
    table[0, [0, 3, 8]] = table[1, [1, 2, 4]] = 1.0
    data = Interactions.of(np.repeat(table, 2000, axis=0))
    streams = Streams.spawn(np.random.default_rng(0), 4000)
    owners, shown = FedNewsRec()._samples(data.ratings, streams)
    assert (shown[:, 0] == data.ratings.indices).all()
    assert not data.ratings.toarray()[owners[:, None], shown[:, 1:]].any()
    for kind, others in enumerate(([1, 2, 4, 5, 6, 7], [0, 3, 5, 6, 7, 8])):
        drawn = shown[(owners >= 2000) == bool(kind), 1:]
        assert np.bincount(drawn.ravel(), minlength=9)[others] / drawn.size == pytest.approx(
            1 / 6, abs=0.01
        )


def test_the_server_weighs_messages_by_their_clicks() -> None:
    rounds = FedNewsRec(rounds=2, cohort=5).run(_DATA, np.random.default_rng(0)).transcript.rounds
    first, second = rounds
    every = np.arange(5)
    counts = first.uploads.components["count"].dense(every)
    np.testing.assert_array_equal(counts, np.diff(_DATA.ratings.indptr)[first.uploads.users])
    parts = first.uploads.components["news.W"].dense(every)
    assert second.broadcast is not None
    np.testing.assert_allclose(
        second.broadcast["news.W"], np.average(parts, axis=0, weights=counts), rtol=1e-5
    )


class Counting(FedNewsRec):
    """Tells the square of its clicks."""

    def sent(
        self, clients: Interactions, model: Broadcast, items: np.ndarray, streams: Streams
    ) -> Messages:
        sent = super().sent(clients, model, items, streams)
        squares = sent["count"].dense(np.arange(len(streams))) ** 2
        return {**sent, "count": Dense(squares, Kind.VECTOR)}


def test_counts_are_held_against_histories() -> None:
    """The square of 1 is 1: of 200 items, one user in 200 has clicked one."""
    shares = [told for _, told in numbers.counts()]
    squared = [told for _, told in numbers.counts(Counting(rounds=1, cohort=943))]
    assert shares == [1.0]
    assert squared == pytest.approx([1 / 200], abs=0.01)


def test_a_weight_keeps_what_its_step_and_its_noise_promise() -> None:
    noisy = FedNewsRec(noise=0.015, sends_count=False)
    law = noisy.mechanism(_NUMBER, _MANY)
    assert law is not None
    assert exact_lower_bound(law, _NUMBER).epsilon == pytest.approx(2.0)
    assert noisy.stated == pytest.approx(20 / 3)
    counted = replace(noisy, sends_count=True)
    assert isinstance(counted.mechanism(_USER, _MANY), Identity)
    assert isinstance(counted.mechanism(_NUMBER, _MANY), Identity)
    whole = noisy.mechanism(_USER, _MANY)
    assert whole is not None
    assert exact_lower_bound(whole, _USER).epsilon == pytest.approx(2.0 * 1280)
    assert isinstance(FedNewsRec(sends_count=False).mechanism(_NUMBER, _MANY), Identity)


def test_one_item_in_place_of_another_shows_in_the_weights_alone() -> None:
    one = "{} / {} / server / round"
    replaced = Scope.parse(one.format("interaction", "replace"))
    added = Scope.parse(one.format("interaction", "add-remove"))
    assert FedNewsRec().mechanism(replaced, _MANY) is None
    assert isinstance(FedNewsRec().mechanism(added, _MANY), Identity)


def test_noise_is_on_the_weights_after_the_step() -> None:
    loud = replace(_SMALL, noise=3.0)
    sent = model(_SMALL)
    messages = loud.upload(_DATA.take(np.array([0])), sent, np.random.default_rng(2), size=4000)
    noise = messages.components["user.A"].dense(np.arange(4000)) - sent["user.A"]
    assert np.abs(noise).mean() == pytest.approx(3.0, rel=0.05)
    assert Vantage.SERVER is loud.shown
