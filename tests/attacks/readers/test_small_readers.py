"""Small readers, and common properties of readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts.uploads import read_item_messages
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence
from fedrec_auditor.attacks.readers.first_layer import FirstLayerReader
from fedrec_auditor.attacks.readers.rank_one_gradients import compute_directions, find_gradient_sign
from fedrec_auditor.attacks.readers.small_readers import (
    InputWeightsReader,
    ParticipationReader,
    RankOneChangesReader,
    UserRowsReader,
)
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.metrics import compute_set_f1
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.transcript import ComponentView, PublicInfo, RoundView, View
from tests.attacks.synthetic import (
    SKEWED,
    closed_form,
    make_view,
    read_all,
    reconstruct,
    run_fcf,
    send,
)

ITEMS, USERS = 40, 12


HISTORIES = np.random.default_rng(0).random((USERS, ITEMS)) < 0.2


def train_autoencoder(hidden: int, *, noise: float = 0.0, dead: int = 0) -> View:
    """Models after a step of x -> W2 relu(W x + b) on a squared error, from zero at ``dead``."""
    rng = np.random.default_rng(1)
    first, last = rng.normal(size=(hidden, ITEMS)), rng.normal(size=(ITEMS, hidden))
    models: dict[str, list[np.ndarray]] = {"a": [], "b": [], "c": []}
    for user, x in enumerate(HISTORIES.astype(float)):
        active = (first @ x > 0) & (user >= dead)
        error = last @ (active * (first @ x)) - x
        back = active * (last.T @ error)
        step = np.outer(back, x) + noise * rng.normal(size=first.shape)
        models["a"].append(first - 0.1 * step)
        models["b"].append(-0.1 * back)
        models["c"].append(last - 0.1 * np.outer(error, active * (first @ x)))
    messages = {name: Dense(np.stack(parts), Payload.MODEL) for name, parts in models.items()}
    model = {"a": first, "b": np.zeros(hidden), "c": last}
    return make_view(send(messages, model), users=USERS, items=ITEMS)


@pytest.mark.parametrize("hidden", [10, 60])
def test_the_training_items_of_an_autoencoder_are_read(hidden: int) -> None:
    readers, found = read_all(train_autoencoder(hidden))
    assert "InputWeightsReader" in readers
    np.testing.assert_array_equal(found, np.where(HISTORIES, MAX_LOG_RATIO, -MAX_LOG_RATIO))


def test_a_device_that_moved_nothing_gives_no_evidence() -> None:
    found = InputWeightsReader().read(train_autoencoder(10, dead=2), np.arange(4)).log_ratio
    assert not found[:2].any()
    assert found[2:].all()


def test_noise_on_all_weights_is_not_for_this_reader() -> None:
    assert "one input per item" in InputWeightsReader().refusal(train_autoencoder(10, noise=1e-3))


def test_a_first_layer_wider_than_its_output_is_read() -> None:
    """The bias has 10 units, and the side parallel to it has 30 of the 40 inputs."""
    view = train_autoencoder(10)
    assert not FirstLayerReader().refusal(view)
    found = FirstLayerReader().read(view, np.arange(USERS)).user_vectors
    assert found.shape == (USERS, ITEMS - 10)


CROWD, CATALOGUE, WIDTH = 40, 60, 4


def make_sums(
    truth: np.ndarray, rng: np.random.Generator, *, rounds: int, share: float, noise: float = 0.0
) -> View:
    """A view of sums: a user's own rows move by the user's vector in the user's rounds."""
    items = rng.normal(size=(CATALOGUE, WIDTH))
    vectors = 1 + rng.normal(size=(CROWD, WIDTH))
    own = truth[:, :, None] * vectors[:, None, :]
    seen = []
    for _ in range(rounds):
        users = np.sort(rng.permutation(CROWD)[: int(share * CROWD)])
        moved = items + own[users] + noise * rng.normal(size=(len(users), CATALOGUE, WIDTH))
        models = ComponentView.create(moved, Payload.MODEL)
        seen.append(send({"items": models}, {"items": items}, users))
    where = Vantage.AGGREGATE
    return make_view(*seen, users=CROWD, items=CATALOGUE, vantage=where, protocol_vantage=where)


def auc(view: View, truth: np.ndarray) -> float:
    """AUC of the evidence on a view's pairs of users and items."""
    ratio = ParticipationReader().read(view, np.arange(CROWD)).log_ratio
    assert np.isfinite(ratio).all()
    return metrics.get_auc(ratio.ravel(), truth.ravel())


@pytest.fixture
def truth() -> np.ndarray:
    return np.random.default_rng(0).random((CROWD, CATALOGUE)) < 0.05


def test_rows_that_stay_while_a_user_takes_part_are_not_own(truth: np.ndarray) -> None:
    """Evidence of own items is above 0, and an item that stayed once is surely not an own item."""
    view = make_sums(truth, np.random.default_rng(1), rounds=40, share=0.2)
    ratio = ParticipationReader().read(view, np.arange(CROWD)).log_ratio
    assert (ratio[truth] >= 0).all()
    assert not truth[ratio < 0].any()
    assert auc(view, truth) > 0.98


def test_noise_hides_more_and_more(truth: np.ndarray) -> None:
    found = [
        auc(make_sums(truth, np.random.default_rng(2), rounds=60, share=0.2, noise=noise), truth)
        for noise in (0.3, 1.0, 30.0)
    ]
    assert found[0] > 0.8
    assert found[0] > found[1] > found[2]
    assert abs(found[2] - 0.5) < 0.06


def test_false_participants_give_no_evidence(truth: np.ndarray) -> None:
    view = make_sums(truth, np.random.default_rng(3), rounds=40, share=0.2)
    order = np.roll(np.arange(CROWD), 7)
    assert abs(auc(view, truth[order]) - 0.5) < 0.08


def test_sums_of_all_users_are_refused(truth: np.ndarray) -> None:
    view = make_sums(truth, np.random.default_rng(4), rounds=5, share=1.0)
    assert ParticipationReader().refusal(view)
    assert read_all(view)[0] == ["PopularityReader"]


PLACES, DEVICES, D = 50, 20, 6


SETS = np.random.default_rng(0).random((DEVICES, PLACES)) < 0.2


LOSSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "squared error": lambda score: score,
    "cross entropy": expit,
}


def make_descents(
    predicted: Callable[[np.ndarray], np.ndarray],
    steps: int = 3,
    *,
    kind: Payload = Payload.MODEL,
    noise: float = 0.0,
    negatives: float = 0.0,
) -> View:
    """Models, or changes, after steps on a loss of (r, V u), by the device's vector and items."""
    rng = np.random.default_rng(1)
    table = 0.3 * rng.normal(size=(PLACES, D))
    moved = []
    for own in SETS.astype(float):
        items, user = table.copy(), 0.3 * rng.normal(size=D)
        for _ in range(steps):
            error = own - predicted(items @ user)
            items, user = items + 0.1 * np.outer(error, user), user + 0.1 * error @ items
        items += noise * rng.normal(size=items.shape)
        moved.append(items if kind is Payload.MODEL else items - table)
    one = send({"a": Dense(np.stack(moved), kind)}, {"a": table})
    return make_view(one, users=DEVICES, items=PLACES, settings={"negatives": negatives})


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [Payload.MODEL, Payload.CHANGE])
def test_sets_are_read_from_training_on_all_items(loss: str, kind: Payload) -> None:
    readers, found = read_all(make_descents(LOSSES[loss], kind=kind))
    assert readers == ["RankOneChangesReader"]
    np.testing.assert_array_equal(found > 0, SETS)


def test_noise_that_hides_the_direction_is_left_to_another_reader() -> None:
    assert read_all(make_descents(LOSSES["squared error"], noise=0.1))[0] == ["NoisyRowsReader"]


def test_messages_with_negatives_are_refused() -> None:
    view = make_descents(LOSSES["squared error"], negatives=4.0)
    assert "move along one direction" in RankOneChangesReader().refusal(view)


@pytest.mark.parametrize(
    ("uphill", "rate"), [(False, None), (True, None), (False, 1.0), (True, -1.0)]
)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_gradient_is_read_whatever_its_loss_and_sign(
    loss: str, uphill: bool, rate: float | None
) -> None:
    """The device states the kind "gradient", or also its sign."""
    view = make_descents(LOSSES[loss], steps=1, kind=Payload.CHANGE)
    (one,) = view.rounds
    values = (-10.0 if uphill else 10.0) * one.uploads.components["a"].to_dense(np.arange(DEVICES))
    one = send({"a": Dense(values, Payload.GRADIENT, rate)}, one.broadcast)
    view = make_view(one, users=DEVICES, items=PLACES)
    readers, found = read_all(view)
    squared = loss == "squared error"
    assert readers == ["RankOneGradientsReader" if squared else "RankOneChangesReader"]
    np.testing.assert_array_equal(found > 0, SETS)


SENDERS, COLUMNS = 30, 40


RNG = np.random.default_rng(0)


def test_evidence_with_nan_raises() -> None:
    with pytest.raises(ArithmeticError, match="Correct the read method"):
        Evidence(users=np.arange(1), log_ratio=np.array([[0.0, np.nan]]))


def move_rows(own: np.ndarray) -> np.ndarray:
    """Changes of an item table in own rows."""
    return own[:, :, None] * RNG.normal(size=(len(own), 1, 8))


def move_columns(own: np.ndarray) -> np.ndarray:
    """Changes of the weights of own items."""
    return RNG.normal(size=(len(own), 8, 1)) * own[:, None]


@pytest.mark.parametrize(
    ("reader", "change", "negatives", "pool"),
    [
        ("ItemRowsReader", move_rows, 0, np.maximum),
        ("ItemRowsReader", move_rows, 4, np.add),
        ("InputWeightsReader", move_columns, 0, np.maximum),
    ],
)
def test_rounds_of_one_user_are_pooled(
    reader: str,
    change: Callable[[np.ndarray], np.ndarray],
    negatives: int,
    pool: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> None:
    """Two rounds of the same users give the combined evidence of the rounds.

    But for rows that stay, where either round moves others: see ``ItemRowsReader``.
    """
    some = np.arange(0, SENDERS, 2)
    rounds = []
    for _ in range(2):
        moved = change(RNG.random((len(some), COLUMNS)) < 0.2).astype(np.float32)
        part = {"v": Dense(moved, Payload.CHANGE)}
        rounds.append(send(part, {"v": np.zeros(moved.shape[1:])}, some))

    def read_rounds(*ns: int) -> np.ndarray:
        settings = {"negatives": negatives}
        view = make_view(*(rounds[n] for n in ns), users=SENDERS, items=COLUMNS, settings=settings)
        readers, ratio = read_all(view)
        assert readers == [reader]
        return ratio

    together, expected = read_rounds(0, 1), pool(read_rounds(0), read_rounds(1))
    moved = (expected > 0) | (pool is np.add)
    np.testing.assert_allclose(together[moved], expected[moved], rtol=1e-5)
    assert (together[~moved] <= 0).all()


@pytest.mark.parametrize(("count", "read"), [(SENDERS, True), (SENDERS - 1, False)])
def test_a_table_of_users_has_a_row_per_user(count: int, read: bool) -> None:
    public = PublicInfo(algorithm="made", n_users=SENDERS, n_items=COLUMNS)
    model = {"items": np.ones((COLUMNS, 2)), "users": np.ones((count, 2))}
    view = View(vantage=Vantage.PEERS, public=public, rounds=(RoundView(broadcast=model),))
    assert UserRowsReader().can_read(view) is read


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 16),
    st.sampled_from([1.0, 10.0, 40.0]),
    st.sampled_from([np.float32, np.float64]),
)
def test_uploads_without_noise_reveal_all_interactions(
    seed: int, factors: int, alpha: float, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.02, 0.7, 25)
    truth = rng.random((25, 200)) < share[:, None]
    truth[np.arange(25), rng.integers(200, size=25)] = True
    view, vectors = run_fcf(truth, rng, factors=factors, alpha=alpha, dtype=dtype)
    found = reconstruct(view)
    np.testing.assert_array_equal(found.items, truth)
    error = np.linalg.norm(found.user_vectors - vectors, axis=1) / np.linalg.norm(vectors, axis=1)
    assert error.max() < (1e-4 if dtype is np.float32 else 1e-10)


@pytest.mark.parametrize("touched", [1, 150, 240, 268])
def test_few_untouched_items_suffice(touched: int) -> None:
    """Up to about nine tenths of 300 items touched; the docstring states where it breaks down."""
    rng = np.random.default_rng(touched)
    truth = rng.permuted(np.tile(np.arange(300) < touched, (20, 1)), axis=1)
    view, _ = run_fcf(truth, rng)
    np.testing.assert_array_equal(reconstruct(view).items, truth)


def test_f1_with_noise_exceeds_that_of_the_prototype() -> None:
    """The prototype of the rank-one attack reached F1 of .999, .980 and .642.

    Noise is .1, .3 and 1.0 standard deviations of the entries.
    """
    wide = np.tile(SKEWED, (1, 6))
    wide[:, 150:] &= np.random.default_rng(1).random((120, 750)) < 0.2
    for noise, reached in ((0.1, 0.999), (0.3, 0.98), (1.0, 0.642)):
        view, _ = run_fcf(wide, np.random.default_rng(2), noise=noise)
        assert compute_set_f1(reconstruct(view).items, wide).mean() > reached


def test_a_user_without_items_has_none() -> None:
    truth = np.zeros((3, 40), dtype=bool)
    truth[1, [3, 5]] = True
    view, _ = run_fcf(truth, np.random.default_rng(0))
    found = reconstruct(view)
    np.testing.assert_array_equal(found.items, truth)
    assert not found.user_vectors[0].any()


def test_directions_are_singular_vectors() -> None:
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(6, 30, 4))
    found = compute_directions(matrices)
    for matrix, direction in zip(matrices, found, strict=True):
        expected = np.linalg.svd(matrix)[2][0]
        assert abs(direction @ expected) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_gradients_are_recognised_whatever_their_last_bits(seed: int) -> None:
    """Users with nearly all of six items leave few items to test, and no noise but rounding."""
    rng = np.random.default_rng(seed)
    items, touched = rng.normal(size=(6, 5)), rng.random((16, 6)) < 0.75
    vectors, corrections = closed_form(touched, items, 1.0, 1e-6)
    exact = (corrections - vectors @ items.T)[:, :, None] * vectors[:, None]
    signs = set()
    for _ in range(8):
        last_bits = np.finfo(float).eps * rng.integers(-1, 2, exact.shape)
        sent = Dense(exact * (1 + last_bits), Payload.GRADIENT, 0.5)
        view = make_view(send({"gradient": sent}, {"items": items}), users=16, items=6)
        (messages,) = read_item_messages(view, (Payload.GRADIENT,))
        signs.add(find_gradient_sign(messages))
    assert len(signs) == 1
