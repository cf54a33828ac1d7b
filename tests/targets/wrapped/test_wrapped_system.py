"""A training of callables: its messages, its models, and its errors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import NoScoresError
from fedrec_auditor.targets.wrapped.wrapped_system import PRESENCE_ARRAY, WrappedSystem
from tests.contracts.laws import check_ranges

DATA = Interactions.create((np.random.default_rng(0).random((12, 8)) < 0.4).astype(float))


def init_model(n_items: int) -> dict[str, np.ndarray]:
    return {"item": np.zeros((n_items, 2), np.float32), "step": np.zeros(1)}


def client(history: Any, model: Any, rng: np.random.Generator) -> Any:
    moved = model["item"].copy()
    moved[history.items] += rng.standard_normal((len(history), 2))
    return {"item": moved}


def server(model: Any, uploads: Any) -> Any:
    assert len(uploads) == len(list(uploads)) == len(uploads[:])
    return {"item": np.mean([u["item"] for u in uploads], axis=0), "step": model["step"] + 1}


SYSTEM = WrappedSystem(client=client, model=init_model, rounds=3, kinds={"": Payload.MODEL})


def train(system: WrappedSystem, seed: int = 0) -> Any:
    return system.run(DATA, np.random.default_rng(seed)).transcript


def test_the_next_model_is_the_mean_of_the_models() -> None:
    transcript = train(SYSTEM)
    rounds = transcript.rounds
    for before, after in itertools.pairwise(rounds):
        sent = before.uploads.components["item"].to_dense(np.arange(12))
        np.testing.assert_allclose(after.broadcast["item"], sent.mean(axis=0), atol=1e-6)
    assert transcript.published_model["step"].tolist() == [0.0]


def test_servers_are_deterministic() -> None:
    own = replace(SYSTEM, server=server)
    assert train(own).published_model["step"].tolist() == [3.0]
    np.testing.assert_allclose(
        train(own).published_model["item"], train(SYSTEM).published_model["item"], atol=1e-6
    )


def test_trainings_are_equal_for_equal_seeds_only() -> None:
    once, again, other = (train(SYSTEM, seed).published_model["item"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


def test_a_share_of_the_users_sends() -> None:
    for one in train(replace(SYSTEM, share=0.25)).rounds:
        assert len(one.uploads.users) == 3
        assert (np.diff(one.uploads.users) > 0).all()


def test_devices_keep_a_private_state() -> None:
    def counting(history: Any, model: Any, rng: Any, state: dict[str, int]) -> Any:
        state["calls"] = state.get("calls", 0) + 1
        return np.array([state["calls"]])

    rounds = train(WrappedSystem(client=counting, rounds=3)).rounds
    for number, one in enumerate(rounds):
        assert (one.uploads.components["values"].to_dense(np.arange(12)) == number + 1).all()


def test_single_messages_are_of_new_devices_per_profile() -> None:
    uploads = SYSTEM.upload(
        DATA.take_users(np.array([3, 5])), init_model(8), np.random.default_rng(0), 4
    )
    assert uploads.users.tolist() == [0] * 4 + [1] * 4
    moved = uploads.components["item"].to_dense(np.arange(8)).any(axis=2)
    for row, user in zip(moved, [3] * 4 + [5] * 4, strict=True):
        assert set(np.flatnonzero(row)) == set(DATA.take_users(np.array([user])).ratings.indices)


def test_digests_distinguish_clients() -> None:
    assert SYSTEM.digest == replace(SYSTEM).digest
    assert SYSTEM.digest != replace(SYSTEM, client=lambda h, m, rng: m).digest
    assert SYSTEM.digest[:16] in repr(SYSTEM)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"client": 3}, "a function as client, got 3"),
        ({"server": "mean"}, "a function as server"),
        ({"title": "a/b"}, "a title of at most 100 letters"),
        ({"title": "a" * 101}, "a title of at most 100 letters"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings: dict[str, Any], expected: str) -> None:
    check_ranges(SYSTEM)
    with pytest.raises(InputError, match=expected):
        replace(SYSTEM, **settings)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda model, uploads: {"item": model["item"]}, "of shape .*, got none"),
        (lambda model, uploads: {**model, "step": np.array([np.nan])}, "finite numbers as 'step'"),
        (lambda model, uploads: uploads[99], "IndexError"),
        (lambda model, uploads: None, "numbers|arrays"),
    ],
)
def test_failing_servers_are_named(made: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        train(replace(SYSTEM, server=made))


def test_models_with_another_number_of_items_are_refused() -> None:
    fixed = replace(SYSTEM, model=init_model(9), n_items=9)
    assert fixed.n_required_items == 9
    with pytest.raises(InputError, match="data with 9 items, for which the model is made, got 8"):
        train(fixed)


def test_no_scores_without_a_score_function() -> None:
    run = SYSTEM.run(DATA, np.random.default_rng(0))
    with pytest.raises(NoScoresError):
        SYSTEM.score(run.model, DATA, np.arange(2))
    scoring = replace(SYSTEM, scores=lambda model, history: model["item"].sum(axis=1))
    assert scoring.score(run.model, DATA, np.arange(2)).shape == (2, 8)


def drop_out(history: Any, model: Any, rng: np.random.Generator) -> Any:
    """Sends a message only from devices with four items or more."""
    return None if len(history) < 4 else {"bits": history.dense() > 0}


def test_dropouts_send_nothing_and_the_server_knows() -> None:
    system = WrappedSystem(client=drop_out, kinds={"": Payload.BITS}, drops_out=True, rounds=2)
    there = np.flatnonzero(np.diff(DATA.ratings.indptr) >= 4)
    assert 0 < len(there) < DATA.n_users
    transcript = train(system)
    for seen in (transcript.view(vantage) for vantage in (Vantage.SERVER, Vantage.AGGREGATE)):
        for one in seen.rounds:
            shown = one.cleartext.components[PRESENCE_ARRAY].to_dense(np.arange(DATA.n_users))[:, 0]
            assert np.flatnonzero(shown).tolist() == there.tolist()
            senders = one.senders_in_sum if one.uploads is None else one.uploads.users
            assert senders.tolist() == there.tolist()
    with pytest.raises(InputError, match="got None"):
        train(replace(system, drops_out=False))


@pytest.mark.parametrize("users", [[0, 1, 2], [0]])
def test_unsent_single_messages_move_nothing(users: list[int]) -> None:
    """A batch in which no device sends has the shapes of another device's message."""
    table = np.zeros((3, 8))
    table[1, :5] = 1.0
    some = Interactions.create(table).take_users(np.array(users))
    for system, model in (
        (WrappedSystem(client=drop_out, kinds={"": Payload.BITS}, drops_out=True), None),
        (
            WrappedSystem(
                client=lambda h, m, rng: None if len(h) < 4 else {"item": m["item"] + 1.0},
                model=lambda n_items: {"item": np.zeros((n_items, 2))},
                kinds={"": Payload.MODEL},
                drops_out=True,
            ),
            {"item": np.full((8, 2), 3.0)},
        ),
    ):
        sent = system.upload(some, model, np.random.default_rng(0), 2).components
        there = sent.pop(PRESENCE_ARRAY).to_dense(np.arange(2 * len(users)))[:, 0]
        assert there.tolist() == [user == 1 for user in users for _ in range(2)]
        (part,) = sent.values()
        still = 0 if model is None else model["item"]
        assert (part.to_dense(np.flatnonzero(~there)) == still).all()
        assert (part.to_dense(np.flatnonzero(there)) != still).any() == any(there)


def test_clients_that_never_send_are_named() -> None:
    silent = WrappedSystem(client=lambda h, m, rng: None, drops_out=True)
    with pytest.raises(InputError, match="Let some devices send"):
        silent.adapt_to_data(DATA)
    with pytest.raises(InputError, match="Let some devices send"):
        silent.upload(DATA, None, np.random.default_rng(0))


def test_tables_are_read_by_the_public_rows_of_items() -> None:
    """Item i is in the rows (3 i) % 8 and (3 i + 1) % 8 of uploads."""

    def places(items: Any) -> Any:
        return (3 * items[:, None] + [0, 1]) % 8

    def marked(history: Any, model: Any, rng: np.random.Generator) -> Any:
        bits = np.zeros((8, 1))
        bits[places(history.items)[:, 0]] = 1.0
        return {"item": bits, "size": len(history), "codes": np.arange(9)}

    kinds = {"": Payload.CHANGE, "codes": Payload.CODES}
    run = train(WrappedSystem(client=marked, kinds=kinds, rows=places, rounds=2))
    has = DATA.ratings.toarray() > 0
    for vantage in (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE):
        raw = run.view(vantage, np.random.default_rng(0))
        views = raw.align_item_rows().rounds
        assert len(views) == 2 * len(raw.rounds)
        if vantage is Vantage.SERVER:
            sent = views[0].uploads.components
            assert sent["size"].shape == (1,)
            assert (sent["codes"].to_dense(np.arange(1)) == np.arange(9)).all()
            assert ["codes" in each.uploads.components for each in views] == [True, False] * 2
            np.testing.assert_array_equal(sent["item"].to_dense(np.arange(12))[:, :, 0] > 0, has)
            np.testing.assert_array_equal(
                sent["item"].take(np.array([3])).flag_sent_rows(np.arange(1)), True
            )
        elif vantage is Vantage.SHUFFLED:
            total = views[0].shuffled["item"].sum_all()
            np.testing.assert_array_equal(total[:, 0], has.sum(axis=0))
        else:
            np.testing.assert_array_equal(views[0].aggregate["item"][:, 0], has.sum(axis=0))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (lambda items: items / 2, "whole numbers >= 0"),
        (lambda items: items - 1, "whole numbers >= 0"),
        (lambda items: items[:3], "of shape"),
        (lambda items: items["no"], "got IndexError"),
        (3, "a function as rows"),
    ],
)
def test_invalid_rows_are_refused(rows: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        train(WrappedSystem(client=drop_out, drops_out=True, rows=rows))


def test_shapes_of_unsent_messages_are_those_of_an_accepted_history() -> None:
    def client(history: Any, model: Any, rng: np.random.Generator) -> Any:
        rng.choice(np.setdiff1d(np.arange(history.n_items), history.items), 1)  # not all items
        return history.dense() if len(history) == 1 else None

    profiles = Interactions.create(np.eye(5)[:2] + np.eye(5)[1:3])
    system = WrappedSystem(client=client, drops_out=True)
    sent = system.upload(profiles, None, np.random.default_rng(0)).components
    assert sent["values"].shape == (5,)
    assert not sent["values"].to_dense(np.arange(2)).any()
