"""FedGNN and FedPerGNN: gradients, messages, bounds, and leakage."""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from fedrec_auditor.accountants.methods.accounting_methods import Rdp
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.components import SparseRows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fedgnn import numbers
from fedrec_auditor.targets.papers.fedgnn.systems.fedgnn import FedGnn
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads
from tests.two_worlds import UploadReader, get_claim, measure_bound

DATA = Synthetic(n_users=6, n_items=9, profile=4).load()


def loss(
    system: FedGnn,
    ratings: np.ndarray,
    model: dict[str, np.ndarray],
    near: np.ndarray,
    kept: np.ndarray,
) -> float:
    """Mean squared error of one user's ratings, from the formula."""
    own = ratings > 0
    m = (model["item"][own].mean(axis=0) + near) / 2
    predicted = model["item"][own] @ (model["gnn.A"] @ m + kept)
    return float(np.mean((predicted - (ratings[own] - system.level) / system.best) ** 2))


def test_gradients_are_those_of_the_loss() -> None:
    system, rng = FedGnn(dimension=4), np.random.default_rng(0)
    model = {"item": rng.normal(size=(9, 4)), "gnn.A": rng.normal(size=(4, 4))}
    near, kept = rng.normal(size=(2, 6, 4))
    one, ratings = system.compute_gradients(DATA.ratings, model, near, kept), DATA.ratings.toarray()
    items = one.is_rated[..., None] * (
        one.item_weights[..., None] * one.hidden_vectors[:, None] + one.item_row_offsets[:, None]
    )
    for user in range(6):
        of_user = one.user_embedding_gradients[user] / one.is_rated[user].sum()
        layer = one.layer_gradients[user]
        for name, found in (("item", items[user]), ("gnn.A", layer), ("kept", of_user)):
            for place in np.ndindex(found.shape):
                moved = {n: part.copy() for n, part in {**model, "kept": kept[user]}.items()}
                ends = []
                for step in (1e-5, -2e-5):
                    moved[name][place] += step
                    ends.append(loss(system, ratings[user], moved, near[user], moved["kept"]))
                slope = (ends[0] - ends[1]) / 2e-5
                assert found[place] == pytest.approx(slope, abs=1e-6)


def test_neighbours_are_the_mean_over_users_of_shared_items() -> None:
    system = FedGnn(dimension=4)
    model = system.draw_initial_model(9, np.random.default_rng(0))
    met = DATA.ratings.toarray() > 0
    users = [model["item"][row].mean(axis=0) for row in met]
    for user, found in enumerate(system.compute_neighbour_means(DATA.ratings, model)):
        others = [users[v] for i in np.flatnonzero(met[user]) for v in np.flatnonzero(met[:, i])]
        np.testing.assert_allclose(found, np.mean(others, axis=0), atol=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("rate", [1e-3, 1.0, 1e3])
def test_a_step_on_a_users_own_vector_never_raises_its_errors(size: float, rate: float) -> None:
    """Item vectors may be as large as noise makes them."""
    system, rng = FedGnn(dimension=4, user_rate=rate), np.random.default_rng(2)
    model = {"item": size * rng.normal(size=(9, 4)), "gnn.A": np.eye(4)}
    near, kept = rng.normal(size=(2, 6, 4))
    ratings = DATA.ratings.toarray()
    found = system.compute_gradients(DATA.ratings, model, near, kept)
    step = system.compute_user_step(found, model)
    for user in range(6):
        before, after = (
            loss(system, ratings[user], model, near[user], vector)
            for vector in (kept[user], kept[user] - step[user])
        )
        assert after <= before * (1.0 + 1e-9)


@pytest.mark.parametrize("largest", ["max", "l2"])
def test_noiseless_messages_are_clipped_own_and_pseudo_rows(largest: str) -> None:
    system = FedGnn(dimension=4, pseudo=3, clip=0.01, noise=1e-9, norm=largest)
    model = system.draw_initial_model(9, np.random.default_rng(0))
    uploads = system.upload(DATA, model, np.random.default_rng(1))
    every, item = np.arange(6), uploads.components["item"]
    assert isinstance(item, SparseRows)
    met, sent = DATA.ratings.toarray() > 0, item.flag_sent_rows(every)
    assert (sent[met]).all()
    assert ((sent & ~met).sum(axis=1) == np.minimum(3, (~met).sum(axis=1))).all()
    flat = [uploads.components[n].to_dense(every).reshape(6, -1) for n in ("item", "gnn.A")]
    whole = np.concatenate(flat, axis=1)
    size = np.abs(whole).max() if largest == "max" else np.linalg.norm(whole, axis=1).max()
    assert size == pytest.approx(0.01, rel=1e-5)


def test_a_released_step_has_the_batchs_l2_norm() -> None:
    system = FedPerGnn(dimension=4, clip=1e-3, epsilon=1e9, pseudo=10**9)
    model = system.draw_initial_model(9, np.random.default_rng(0))
    plain = system.compute_gradients(DATA.ratings, model)
    sent = system.take_batch_step(plain, model, Streams.spawn(np.random.default_rng(1), 1))
    change = np.concatenate([(sent[n].values[0] - model[n]).ravel() for n in model])
    assert np.linalg.norm(change) == pytest.approx(1e-5, rel=1e-2)
    share = plain.is_rated.sum(axis=1) / plain.is_rated.sum()
    layer = np.einsum("n,nde->de", share, plain.layer_gradients).ravel()
    moved = (sent["gnn.A"].values[0] - model["gnn.A"]).ravel()
    assert moved @ -layer / np.linalg.norm(moved) / np.linalg.norm(layer) > 0.99


@pytest.mark.calibration
@pytest.mark.parametrize("narrow", [0.0, 1.0, pytest.param(0.5, marks=pytest.mark.calibration)])
def test_normal_noise_adds_at_most_the_charge(narrow: float) -> None:
    """Densities of N(w, s^2) + Laplace(1) by quadrature, at the largest deviation s and below."""
    system = FedPerGnn(dimension=1, pseudo=1)  # the deviation is half a Laplace scale
    widest, shift = 0.5, 0.3

    def density(y: float, mean: float, spread: float) -> float:
        if not spread:
            return 0.5 * math.exp(-abs(y - mean))
        return quad(
            lambda z: norm.pdf(z) * 0.5 * math.exp(-abs(y - mean - spread * z)),
            -9,
            9,
            points=[(y - mean) / spread] if abs(y - mean) < 9 * spread else None,
        )[0]

    losses = [
        abs(math.log(density(y, shift, widest) / density(y, 0.0, narrow * widest)))
        for y in np.linspace(-8, 8, 65)
    ]
    assert max(losses) <= shift + system.data_noise_epsilon
    assert max(losses) >= shift - 1e-6


def test_a_user_is_in_one_batch_per_epoch() -> None:
    """The users that remain wait for the next epoch."""
    run = FedPerGnn(dimension=2, batch=2, rounds=5).run(
        Interactions.create(DATA.ratings[:5].toarray()), np.random.default_rng(0)
    )
    assert run.transcript.public.n_silos == 2
    assert [r.uploads.users.tolist() for r in run.transcript.rounds] == [[0], [1], [0], [1], [0]]


@pytest.mark.parametrize("system", [FedGnn(dimension=2), FedPerGnn(dimension=2, batch=2)])
def test_user_vectors_begin_at_zero_and_are_not_sent(system: Any) -> None:
    """The first messages are equal with and without a user vector."""
    systems = [replace(system, rounds=2, user_rate=rate) for rate in (0.0, 0.1)]
    runs = [each.run(DATA, np.random.default_rng(0)) for each in systems]
    sent = [run.transcript.rounds[0].uploads.components for run in runs]
    assert all(set(each) == {"item", "gnn.A"} for each in sent)
    assert np.array_equal(*(each["gnn.A"].to_dense(np.arange(1)) for each in sent))
    kept = [run.model.arrays["kept"] for run in runs]
    assert not kept[0].any()
    assert kept[1].any()


def test_pseudo_items_fall_to_the_intersection_of_three_messages() -> None:
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        kept = np.ones(10677 - 106, dtype=bool)
        for _ in range(3):
            drawn = np.zeros_like(kept)
            drawn[rng.choice(len(kept), 1000, replace=False)] = True
            kept &= drawn
        shares.append(kept.sum())
    expected = 106 / (106 + np.mean(shares))
    assert numbers.compute_own_item_share(10677, 106, 1000, 3) == pytest.approx(expected, abs=0.01)
    assert numbers.compute_own_item_share(10677, 106, 1000, 1) == 106 / 1106


def test_the_l2_norm_bounds_epsilon_at_positive_delta() -> None:
    """Entry 30e states 5.3: an entry of shift t and scale 1 is t-private, so t^2/2-concentrated."""
    scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    assert 4.5 < Rdp().bound(ZCDpEvent(rho=0.5), delta=1e-6, scope=scope).epsilon <= 5.3
    shifts = np.random.default_rng(0).dirichlet(np.ones(50)) ** 0.5  # L2 norm 1
    losses = shifts - 1 + np.exp(-shifts)  # Kullback-Leibler divergence of a shifted Laplace
    assert losses.sum() <= 0.5


def test_codes_without_randomness_are_readable() -> None:
    history = {3, 17, 1200}
    codes = {numbers.encrypt_item(i) for i in history}
    assert numbers.decode_encrypted_items(codes, 1682) == history
    assert numbers.decode_signed_items({numbers.sign_item(i) for i in history}, 1682) == history
    keyed = {int.from_bytes(hmac.digest(b"key", str(i).encode(), hashlib.sha256)) for i in history}
    assert not numbers.decode_encrypted_items(keyed, 1682)
    assert not numbers.decode_signed_items(keyed, 1682)


def test_steps_of_equal_norm_move_predictions_no_further() -> None:
    """The bound of entry 30f, compared with steps along the gradient of a prediction."""
    system, rng = FedPerGnn(), np.random.default_rng(0)
    _, (four, largest) = numbers.compare_label_count_and_rating_change()
    path = system.rounds * system.learning_rate * system.clip
    size = system.init_scale * math.sqrt(system.dimension)
    ends = []
    for _ in range(20):
        item, mean = rng.normal(size=(2, system.dimension))
        item, mean = size * item / np.linalg.norm(item), mean / np.linalg.norm(mean)
        mean *= size / math.sqrt(106)
        layer, own = np.outer(item, mean), item / math.sqrt(106)
        length = math.sqrt((layer**2).sum() + (own**2).sum() + (mean**2).sum())
        turned = np.eye(system.dimension) + path * layer / length
        hidden = turned @ (mean + path * own / length / math.sqrt(106))
        ends.append(system.best * (hidden @ (item + path * mean / length) - mean @ item))
    assert largest / 3 < max(ends) < largest < four


ITEMS = 4


SMALL = FedGnn(dimension=2, pseudo=2, rounds=1)


ALL_ROWS = replace(SMALL, pseudo=ITEMS)


PUSHING = SMALL.make_malicious_broadcast(ITEMS)


USERS = Population(n_users=2, n_items=ITEMS)


ONE = {"item": PUSHING["item"] * np.eye(1, 2), "gnn.A": 0 * PUSHING["gnn.A"]}


HELD = ((4.0, 4.0, 0.0, 0.0), (0.0, 4.0, 0.0, 0.0))


RATED = ((1.0, 0.0, 0.0, 0.0), (5.0, 0.0, 0.0, 0.0))


def has_row_0(uploads: Uploads) -> NDArray[np.float64]:
    """Whether row 0 is sent."""
    rows = uploads.components["item"].flag_sent_rows(np.arange(len(uploads.users)))
    return rows[:, 0].astype(float)


def get_first_number(uploads: Uploads) -> NDArray[np.float64]:
    layer = uploads.components["gnn.A"].to_dense(np.arange(len(uploads.users)))
    return layer[:, 0, 0].astype(float)


def get_signs(uploads: Uploads) -> NDArray[np.float64]:
    """Signs of all 12 numbers, relative to the direction in which a low rating pushes them."""
    every = np.arange(len(uploads.users))
    items, layer = (uploads.components[n].to_dense(every) for n in ("item", "gnn.A"))
    return np.asarray(np.sign(items * [1.0, -1.0]).sum((1, 2)) + np.sign(layer).sum((1, 2)))


@pytest.mark.parametrize(
    ("system", "entry", "draw", "min_epsilon"),
    [
        (SMALL, "29b", {"histories": HELD, "read": has_row_0, "broadcast": PUSHING}, 4.0),
        (ALL_ROWS, "29b", {"histories": RATED, "read": get_signs, "broadcast": PUSHING}, 4.0),
        (
            FedPerGnn(dimension=2, rounds=1),
            "30",
            {"histories": RATED, "read": get_first_number, "broadcast": ONE},
            4.5,
        ),
    ],
)
def test_lower_bounds_exceed_the_claims(
    system: FedGnn | FedPerGnn, entry: str, draw: dict, min_epsilon: float
) -> None:
    unit = Unit.COORDINATE if entry == "30" else Unit.USER
    scope = make_local_scope(unit, Vantage.SERVER, Horizon.ROUND)
    bound = measure_bound(UploadReader(system=system, **draw), scope, 4_000)
    assert bound > max(min_epsilon, get_claim(system, USERS, entry).epsilon)


@pytest.mark.parametrize("system", [ALL_ROWS, replace(ALL_ROWS, norm="l2")])
def test_one_number_stays_within_its_budget(system: FedGnn) -> None:
    scope = make_local_scope(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
    draw = UploadReader(system=system, histories=RATED, read=get_first_number, broadcast=ONE)
    claimed = get_claim(system, USERS, "29").epsilon
    assert 0.5 * claimed < measure_bound(draw, scope, 20_000) <= claimed
