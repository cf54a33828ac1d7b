"""PrivRec and its baselines: what a device sends, and what the server makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor import utility
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf
from fedrec_auditor.targets.papers.privrec.systems.parts.device import DeviceExamples
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import (
    DpPrivrec,
    FcfMeta,
    FoflSelf,
    NnSelf,
    Privrec,
    PrivrecCen,
)
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Split

SMALL = Privrec(rounds=2, clients=6, local_epochs=2, embedding=4, width=16, item_ids=True)


def some_data(users: int = 20, items: int = 25, seed: int = 0) -> Interactions:
    return Synthetic(n_users=users, n_items=items, profile=6.0, tastes=3, seed=seed).load()


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


def test_it_learns_what_privrec_learns_and_shows_the_result_only() -> None:
    data = Synthetic(n_users=15, n_items=12, profile=5.0, tastes=2).load()
    settings = {"rounds": 3, "clients": 5, "local_epochs": 2, "embedding": 4, "width": 16}
    steps: list[tuple[int, int]] = []
    central = PrivrecCen(**settings).run(
        data, np.random.default_rng(4), lambda done, of: steps.append((done, of))
    )
    federated = Privrec(**settings).run(data, np.random.default_rng(4))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert central.transcript.rounds == ()
    assert central.transcript.public.route is Vantage.RELEASE
    one, two = central.transcript.release, federated.transcript.release
    assert one.keys() == two.keys()
    for name, part in one.items():
        np.testing.assert_array_equal(part, two[name])


SUMMED = NnSelf(rounds=2, clients=4, embedding=4, width=64)


def test_the_server_adds_the_sum_of_what_is_sent() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    run = replace(SUMMED, server_rate=0.3).run(data, np.random.default_rng(1))
    first, second = run.transcript.rounds
    for name, component in first.uploads.components.items():
        np.testing.assert_allclose(
            (second.broadcast or {})[name],
            (first.broadcast or {})[name] + 0.3 * component.total(),
            rtol=1e-5,
            atol=1e-6,
        )


def test_a_user_with_one_item_has_a_query_and_no_support() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    one = data.keep(
        np.diff(data.ratings.indptr)
        .cumsum()
        .searchsorted(np.arange(data.ratings.nnz), side="right")
        != 3
    )
    broadcast = SUMMED.first(one, np.random.default_rng(0))
    sent = SUMMED.upload(one, broadcast, np.random.default_rng(0))
    assert one.ratings[[3]].nnz == 0
    assert not sent.components["mlp1.weight"].dense(np.array([3])).any()
    assert sent.components["mlp1.weight"].dense(np.array([0])).any()


def test_no_side_feature_is_read() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    system = FoflSelf(rounds=2, clients=4, local_epochs=2, embedding=4, width=16)
    bare = replace(data, attributes={}, genres=None, genre_names=())
    one, two = (system.run(d, np.random.default_rng(1)) for d in (data, bare))
    assert set(one.transcript.release) == {"item", "output.weight", "output.bias"} | {
        f"mlp{layer}.{part}" for layer in range(1, 5) for part in ("weight", "bias")
    }
    for name, part in one.transcript.release.items():
        np.testing.assert_array_equal(part, (two.transcript.release or {})[name])
    assert system.local.proximal == 0.0


def test_it_trains_as_fcf_and_is_measured_as_privrec() -> None:
    data = Synthetic(n_users=20, n_items=15, profile=5.0, tastes=2).load()
    one, two = (kind(rounds=3).run(data, np.random.default_rng(0)) for kind in (FcfMeta, Fcf))
    np.testing.assert_array_equal(one.transcript.release["items"], two.transcript.release["items"])
    assert FcfMeta.evaluation == Privrec.evaluation
    assert Fcf.evaluation.split is Split.LEAVE_LAST_OUT


def test_a_new_device_fits_its_vector_to_half_of_its_items() -> None:
    """Two tastes that share no item: what is held out of a new user is of its own."""
    data = Synthetic(n_users=120, n_items=60, profile=12.0, tastes=2).load()
    system, rng = FcfMeta(), np.random.default_rng(0)
    held = utility.hold_out(system.evaluation, data, rng)
    assert held.train.n_users == 96
    model = system.run(held.train, rng).model
    rows = held.evaluate(system, model, confidence=0.95, rng=rng)
    (hits,) = (row for row in rows if row.metric == "HR@20")
    assert hits.ci_low > hits.random
    printed = Paper.of("fedrec_auditor.targets.papers.privrec").table("Table 1").row("FCF")
    assert (hits.paper_value, hits.protocol) == (printed["HR@20"], "held-out users")
