"""PrivRec: what a device sends, what the server makes of it, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.privrec.systems.parts.device import DeviceExamples
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import (
    DpPrivrec,
    NnSelf,
    Privrec,
    PrivrecCen,
)
from fedrec_auditor.targets.streams import Streams

SMALL = Privrec(rounds=2, clients=6, local_epochs=2, embedding=4, width=16, item_ids=True)


def some_data(users: int = 20, items: int = 25, seed: int = 0) -> Interactions:
    return Synthetic(n_users=users, n_items=items, profile=6.0, tastes=3, seed=seed).load()


def test_components_are_named_by_what_they_are() -> None:
    data = some_data()
    shapes = {k: v.shape for k, v in SMALL.first(data, np.random.default_rng(0)).items()}
    codes = {key: len(a.categories) for key, a in data.attributes.items()}
    inputs = 4 * (len(codes) + 1 + data.genres.shape[1])
    assert shapes == {
        **{f"user.{key}": (count, 4) for key, count in codes.items()},
        "item": (25, 4),
        "genre": (data.genres.shape[1], 4),
        "mlp1.weight": (inputs, 16),
        "mlp1.bias": (16,),
        "mlp2.weight": (16, 8),
        "mlp2.bias": (8,),
        "mlp3.weight": (8, 4),
        "mlp3.bias": (4,),
        "mlp4.weight": (4, 2),
        "mlp4.bias": (2,),
        "output.weight": (2,),
        "output.bias": (),
    }


def test_an_upload_names_the_items_and_the_attributes_of_its_user() -> None:
    data, system = some_data(), replace(SMALL, width=64)
    broadcast = system.first(data, np.random.default_rng(1))
    uploads = system.upload(data, broadcast, np.random.default_rng(2))
    examples = DeviceExamples.draw(
        data, Streams.spawn(np.random.default_rng(2), 20), negatives=system.negatives
    )
    item = uploads.components["item"]
    for user in range(20):
        trained = np.sort(examples.items[user, : examples.sizes[user]])
        np.testing.assert_array_equal(np.flatnonzero(item.sent(np.array([user]))), trained)
        assert (np.diff(item.ids[item.indptr[user] : item.indptr[user + 1]]) > 0).all()
    for key, attribute in data.attributes.items():
        part = uploads.components[f"user.{key}"]
        np.testing.assert_array_equal(part.ids, attribute.codes)


def test_the_server_moves_by_the_mean_change() -> None:
    data, system = some_data(), replace(SMALL, server_rate=0.7, rounds=3)
    run = system.run(data, np.random.default_rng(3))
    models = [r.broadcast for r in run.transcript.rounds] + [run.transcript.release]
    for one, before, after in zip(run.transcript.rounds, models[:-1], models[1:], strict=True):
        assert len(one.uploads.users) == 6
        for name, component in one.uploads.components.items():
            mean = component.dense(np.arange(6)).mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(
                after[name], before[name] + 0.7 * mean, rtol=1e-5, atol=1e-6, err_msg=name
            )


def test_clients_are_drawn_without_replacement_and_all_get_their_turn() -> None:
    data = some_data(users=9)
    run = replace(SMALL, rounds=40, clients=4, local_epochs=1).run(data, np.random.default_rng(0))
    drawn = [r.uploads.users for r in run.transcript.rounds]
    assert all(len(set(users.tolist())) == 4 for users in drawn)
    assert set(np.concatenate(drawn).tolist()) == set(range(9))  # missed: 9 (5/9)^40 = 5e-10


def test_the_proximal_term_holds_devices_back() -> None:
    data = some_data()
    broadcast = SMALL.first(data, np.random.default_rng(0))
    moved = []
    for proximal in (0.0, 1.5):
        system = replace(SMALL, proximal=proximal, local_epochs=20)
        sent = system.upload(data, broadcast, np.random.default_rng(1))
        moved.append(sum((c.dense(np.arange(20)) ** 2).sum() for c in sent.components.values()))
    assert moved[1] < 0.5 * moved[0]


@pytest.mark.parametrize("kind", [Privrec, PrivrecCen, DpPrivrec, NnSelf])
def test_the_default_reads_features_only_as_the_text_has_it(kind: type[Privrec]) -> None:
    """Section 2.1; the embeddings of items' numbers are a switch."""
    data = some_data()
    first = kind().first(data, np.random.default_rng(0))
    assert "genre" in first
    assert "item" not in first
    assert "item" in kind(item_ids=True).first(data, np.random.default_rng(0))


def test_without_embeddings_of_items_those_of_equal_genres_tie() -> None:
    data, system = some_data(), replace(SMALL, item_ids=False)
    run = system.run(data, np.random.default_rng(0))
    assert "item" not in (run.transcript.release or {})
    genres = data.genres.copy()
    genres[1] = genres[0]
    twins = replace(data, genres=genres)
    scores = system.score(run.model, twins, np.arange(20))
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], rtol=1e-5)


def test_a_batch_that_does_not_fit_the_network_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="batch=50"):
        Privrec(batch=50)


def test_no_proximal_term_is_a_setting() -> None:
    assert Privrec(proximal=0.0).local.proximal == 0.0


def test_a_broadcast_for_other_data_is_refused() -> None:
    data = some_data()
    broadcast = SMALL.first(some_data(items=24), np.random.default_rng(0))
    with pytest.raises(InputError, match=r"'item' of shape \(25, 4\), got \(24, 4\)"):
        SMALL.upload(data, broadcast, np.random.default_rng(0))
    with pytest.raises(InputError, match="got None"):
        SMALL.upload(data, None, np.random.default_rng(0))
