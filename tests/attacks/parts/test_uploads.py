"""Messages as model changes; fits of profiles and of participants in sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
from fedrec_auditor.attacks.membership_attacks import InteractionMembership
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.profile_fit import (
    can_infer_participation,
    has_readable_model,
    infer_participation,
    measure_profile_fit,
)
from fedrec_auditor.attacks.parts.uploads import (
    assign_pseudonyms,
    compute_sender_probs,
    estimate_popularity,
    iter_table_changes,
    read_item_messages,
    read_model_messages,
    select_rounds,
)
from fedrec_auditor.auditor.games import membership, metrics, reconstruction
from fedrec_auditor.auditor.games.game import Trial
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.reports.record.rows import AttackRow
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import (
    ComponentView,
    Payload,
    PublicInfo,
    Round,
    RoundView,
    Uploads,
    View,
)
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem
from tests.attacks.synthetic import SKEWED, Flip, make_view, report, score, send


def shuffle(truth: np.ndarray, rng: np.random.Generator, flip: float) -> View:
    """A shuffled view of the users' bits, each wrong with probability ``flip``."""
    bits = (truth ^ (rng.random(truth.shape) < flip)).astype(np.int8)
    return make_view(
        send({"bits": Dense(bits, Payload.BITS)}),
        users=truth.shape[0],
        items=truth.shape[1],
        vantage=Vantage.SHUFFLED,
        rng=rng,
        noise_channel=Flip(1 - flip, flip),
        protocol_vantage=Vantage.SHUFFLED,
    )


def run_game(
    truth: np.ndarray, view: View, play: Callable[[Trial], tuple[AttackRow, ...]]
) -> AttackRow:
    whole = play is membership.score_attack
    game = Trial(
        target_name="bits",
        attack_name="made",
        attack=InteractionMembership() if whole else InteractionReconstruction(),
        view=view,
        interactions=Interactions.create(truth.astype(np.float32)),
        is_quick=True,
        confidence=0.95,
        rng=np.random.default_rng(8),
    )
    return play(game)[0]


def test_known_items_identify_a_message() -> None:
    """By Bayes' rule: two messages that contain a known item with probability .9 and .3."""
    posterior = np.array([[0.9, 0.5], [0.3, 0.5]])
    known = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    found = compute_sender_probs(posterior, known)
    np.testing.assert_allclose(found, [[0.75, 0.25], [0.5, 0.5], [0.75, 0.25]])


def test_sets_and_memberships_come_back_and_weaken_with_flipping() -> None:
    sets, areas = [], []
    for flip in (0.001, 0.05, 0.2, 0.5):
        view = shuffle(SKEWED, np.random.default_rng(2), flip)
        sets.append(run_game(SKEWED, view, reconstruction.score_attack).value)
        areas.append(run_game(SKEWED, view, membership.score_attack).value)
    assert sets[0] > 0.8
    assert sets == sorted(sets, reverse=True)
    assert areas[0] > 0.95
    assert areas == sorted(areas, reverse=True)
    assert sets[-1] == 0


def test_messages_of_popular_items_do_not_beat_popularity() -> None:
    """Messages that depend on the popularity of items only, not on a user's set."""
    rng = np.random.default_rng(3)
    other = np.stack([rng.permutation(column) for column in SKEWED.T], axis=1)
    row = run_game(SKEWED, shuffle(other, rng, 0.01), membership.score_attack)
    assert row.gain_over_baseline.ci_low <= 0.0
    assert "The adversary knows 5 items per user" in row.note
    assert run_game(SKEWED, shuffle(other, rng, 0.01), reconstruction.score_attack).value < 0.02


def test_unlinked_messages_are_numbered_and_reports_left_out() -> None:
    hidden = assign_pseudonyms(shuffle(SKEWED, np.random.default_rng(4), 0.1))
    (only,) = hidden.rounds
    assert only.uploads.users.tolist() == list(range(len(SKEWED)))
    assert assign_pseudonyms(report(SKEWED, np.random.default_rng(0))) is None


def test_known_items_are_not_candidates() -> None:
    data = Interactions.create(SKEWED.astype(np.float32))
    met, rest = membership.split_known_items(data, np.random.default_rng(5))
    assert ((met + rest.ratings) != data.ratings).nnz == 0
    sizes = np.diff(data.ratings.indptr)
    assert np.array_equal(np.diff(met.indptr), np.minimum(membership.N_KNOWN_ITEMS, sizes // 2))


def test_several_rounds_are_read_if_few_users_send_in_each() -> None:
    """With a sixth of the users per round, the last six rounds are read, not only the last one."""
    rng = np.random.default_rng(8)
    senders = [np.sort(rng.permutation(120)[:20]) for _ in range(6)]
    rounds = [
        send({"bits": Dense(SKEWED[users].astype(np.int8), Payload.BITS)}, users=users)
        for users in senders
    ]
    rng = np.random.default_rng(9)
    view = make_view(*rounds, users=120, items=150, vantage=Vantage.SHUFFLED, rng=rng)
    hidden = assign_pseudonyms(view)
    assert len(hidden.rounds) == 6
    assert hidden.public.n_users == 6 * 20
    row = run_game(SKEWED, view, reconstruction.score_attack)
    assert row.value == pytest.approx(len(set().union(*senders)) / 120, abs=0.01)
    assert "of the last 6 rounds" in row.note


BASE = np.arange(10.0).reshape(5, 2)


STEP = np.zeros((3, 5, 2))


STEP[:, 1] = 0.5


STEP[1, 4] = -0.25


def server_view(*messages: ComponentView, users: int = 3) -> View:
    model = {"V": BASE, "other": np.zeros((2, 2))}
    return make_view(*(send({"sent": wire}, model) for wire in messages), users=users, items=5)


@pytest.mark.parametrize(
    ("wire", "sign"),
    [
        (ComponentView.create(BASE + STEP, Payload.MODEL, 0.1), 1),
        (ComponentView.create(STEP, Payload.CHANGE, 0.1), 1),
        (ComponentView.create(STEP, Payload.GRADIENT, 0.5), 1),  # downhill already
        (ComponentView.create(STEP, Payload.GRADIENT, -1.0), -1),
    ],
)
def test_every_kind_gives_the_change_of_the_model(wire: ComponentView, sign: int) -> None:
    (table,) = read_item_messages(server_view(wire))
    ((_, change, moved),) = table.iter_changes()
    np.testing.assert_array_equal(change, sign * STEP)
    np.testing.assert_array_equal(moved, STEP != 0)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (
            ComponentView.create(np.zeros((3, 5, 3)), Payload.MODEL),
            "“sent” (an array of size 5 x 3 and kind “model”)",
        ),  # an unknown part
        (ComponentView.create(STEP, "hashes"), "“sent” (an array of size 5 x 2 and kind “hashes”)"),
    ],
)
def test_messages_of_unknown_form_are_refused(wire: ComponentView, expected: str) -> None:
    assert not read_model_messages(server_view(wire))
    assert expected in reading.explain_no_reader(server_view(wire))


def test_rounds_are_read_up_to_one_message_per_user() -> None:
    wires = [ComponentView.create(STEP, Payload.CHANGE) for _ in range(5)]
    for users, rounds in ((2, 1), (3, 1), (8, 2), (15, 5)):
        assert len(select_rounds(server_view(*wires, users=users), "sent")) == rounds
    bits = [ComponentView.create(np.ones((3, 5)), Payload.BITS) for _ in range(5)]
    assert len(select_rounds(server_view(*bits), "sent")) == 5


def test_ratings_are_read_as_they_are() -> None:
    ratings = ComponentView.create(np.array([[0, 5, 0, 3, 0]] * 3), Payload.RATINGS)
    pairs = np.array([[0, 1], [2, 0], [1, 3]])
    found = score(server_view(ratings), pairs)
    assert found[0] == found[2] > found[1]
    rated = reading.read_evidence(server_view(ratings), np.array([0])).ratings
    np.testing.assert_array_equal(rated, [[0, 5, 0, 3, 0]])


def test_messages_that_move_nothing_score_nothing() -> None:
    still = server_view(ComponentView.create(np.zeros((3, 5, 2)), Payload.CHANGE))
    pairs = np.array([[0, 1], [2, 0]])
    for negatives in (0, 1, 4):
        public = replace(still.public, settings={"negatives": negatives})
        assert np.ptp(score(replace(still, public=public), pairs)) == 0


COUNTS = np.random.default_rng(0).pareto(1.0, size=50)


@pytest.mark.parametrize(("broken", "known"), [((), True), ((3, 4), True), (range(5), False)])
def test_rounds_that_broke_down_are_skipped(broken: range, known: bool) -> None:
    """Models move by popularity along one direction, and some of them are not finite."""
    way = np.array([0.5, -1.0, 2.0])
    models = [np.outer(COUNTS, way) * (1 + number) for number in range(5)]
    for number in broken:
        models[number][number % 2 :, 1] = np.inf if number % 2 else np.nan
    view = make_view(
        *(Round({"item": model}, Uploads(np.arange(0), {})) for model in models),
        users=9,
        items=50,
        vantage=Vantage.PEERS,
        settings={"negatives": 4.0},
    )
    order = estimate_popularity(view)
    assert np.isfinite(order).all()
    assert order.any() == known
    assert not known or np.corrcoef(order, COUNTS)[0, 1] > 0.99


N, M, D = 6, 15, 3


RNG = np.random.default_rng(0)


TABLES = [RNG.normal(size=(M, D)) for _ in range(3)]


RATINGS = np.where(RNG.random((N, M)) < 0.4, RNG.integers(1, 6, (N, M)), 0).astype(float)


PUBLIC = PublicInfo(algorithm="made", n_users=N, n_items=M)


def make_peers_view(*tables: np.ndarray, **more: np.ndarray) -> View:
    rounds = tuple(RoundView(broadcast={"items": table, **more}) for table in tables)
    return View(vantage=Vantage.PEERS, public=PUBLIC, rounds=rounds)


def fit_user(table: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Ridge regression of 0 and 1 on the rows, by its normal equations."""
    ridge = 0.01 * np.square(table).sum() / D
    return np.linalg.solve(table.T @ table + ridge * np.eye(D), table.T @ own)


def test_features_follow_their_definitions() -> None:
    users = RNG.normal(size=(4, D))
    found = measure_profile_fit(make_peers_view(*TABLES, users=users), sparse.csr_array(RATINGS))
    assert found.shape == (N, 3)
    last = TABLES[-1]
    for row, ratings in zip(found, RATINGS, strict=True):
        held = (ratings > 0).astype(float)
        size = held.sum()
        own = last[held > 0]
        ridge = 0.01 * np.square(last).sum() / M * size
        best = np.linalg.solve(own.T @ own + ridge * np.eye(D), own.T @ ratings[held > 0])
        rated = best @ (own.T @ ratings[held > 0]) / np.square(ratings).sum()
        predicted = users @ last.T
        cosines = predicted @ held / np.linalg.norm(predicted, axis=1) / np.sqrt(size)
        explained = held @ last @ fit_user(last, held) / size
        np.testing.assert_allclose(row, [explained, rated, cosines.max()])


def test_similarities_are_summed_over_pairs_of_a_profile() -> None:
    places = np.array([[1, 2], [0, 2], [0, 3], [0, 1]])
    values = np.array([[0.5, 0.25], [0.5, 0.125], [0.25, 1.0], [2.0, 4.0]])
    public = replace(PUBLIC, n_items=4)
    model = {"neighbours": places, "similarity": values}
    view = View(vantage=Vantage.RELEASE, public=public, rounds=(RoundView(broadcast=model),))
    assert has_readable_model(view)
    profiles = sparse.csr_array(np.array([[1.0, 1, 1, 0], [0, 0, 0, 3]]))
    found = measure_profile_fit(view, profiles)
    np.testing.assert_allclose(found[:, 0], [(0.5 + 0.25 + 0.5 + 0.125 + 0.25) / 3, 0.0])


def test_nothing_is_read_without_items() -> None:
    assert not has_readable_model(View(vantage=Vantage.RELEASE, public=PUBLIC, rounds=()))
    only = View(
        vantage=Vantage.RELEASE,
        public=PUBLIC,
        rounds=(RoundView(broadcast={"users": np.ones((N, D)), "items": np.ones(M)}),),
    )
    assert not has_readable_model(only)


@pytest.mark.parametrize("kind", [Payload.MODEL, Payload.CHANGE])
@pytest.mark.parametrize("vantage", [Vantage.SHUFFLED, Vantage.AGGREGATE])
def test_a_step_is_the_sum_of_all_changes(kind: Payload, vantage: Vantage) -> None:
    """This holds for models and for changes, although a sum does not state its kind."""
    changes = 0.1 * RNG.normal(size=(4, M, D))
    moved = changes + TABLES[0] if kind is Payload.MODEL else changes
    one = send({"items": ComponentView.create(moved, kind)}, {"items": TABLES[0]})
    rng = np.random.default_rng(1)
    view = make_view(one, users=N, items=M, vantage=vantage, rng=rng)
    ((table, (step,)),) = iter_table_changes(view)
    np.testing.assert_allclose(table, TABLES[0])
    np.testing.assert_allclose(step, changes.sum(axis=0), atol=1e-12)


def test_messages_of_parties_are_separate_steps() -> None:
    changes, table = RNG.normal(size=(2, M, D)), TABLES[0]
    one = send({"items": ComponentView.create(changes + table, Payload.MODEL)}, {"items": table})
    ((_, steps),) = iter_table_changes(make_view(one, users=N, items=M, n_silos=2))
    np.testing.assert_allclose(steps, changes, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"negatives": 4.0}, {"alpha": 1.0}])
def test_the_order_of_popularity_is_found_if_users_agree(settings: dict[str, float]) -> None:
    """Users' vectors share a direction; each moves the rows of its own items along its vector.

    A loss over all items moves all rows by the model itself, too.
    """
    rng = np.random.default_rng(3)
    share = 0.9 / (1 + np.arange(M))
    truth = rng.random((400, M)) < share
    vectors = np.array([2.0, 0, 0]) + 0.5 * rng.normal(size=(400, D))
    moved = TABLES[0] + truth.T @ vectors / 400
    if "alpha" in settings:
        moved -= TABLES[0] @ np.diag([3.0, 1.0, 1.0])
    view = make_peers_view(TABLES[0], moved)
    found = estimate_popularity(replace(view, public=replace(PUBLIC, settings=settings)))
    assert np.corrcoef(found, truth.sum(axis=0))[0, 1] > (0.8 if "alpha" in settings else 0.98)


DATA = Synthetic(n_users=80, n_items=60, profile=8).load()


MEMBERS = np.random.default_rng(1).random(DATA.n_users) < 0.5


FACTORS = 6


def init_model(n_items: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(n_items, FACTORS))


def compute_step(history: Any, model: Any) -> np.ndarray:
    """Gradient of a squared loss over the user's ratings, with the user vector that fits them."""
    rows = model[history.items]
    vector = np.linalg.solve(rows.T @ rows + np.eye(FACTORS), rows.T @ history.ratings)
    moved = np.zeros_like(model)
    moved[history.items] = np.outer(history.ratings - rows @ vector, vector)
    return moved - 0.01 * np.outer(model @ vector, vector)


def send_step(history: Any, model: Any, rng: Any) -> np.ndarray:
    return compute_step(history, model)


def send_model(history: Any, model: Any, rng: Any) -> np.ndarray:
    return model + 0.1 * compute_step(history, model)


def send_noisy_step(history: Any, model: Any, rng: Any) -> np.ndarray:
    return compute_step(history, model) + rng.normal(size=model.shape)


def decay(model: np.ndarray, uploads: Any) -> np.ndarray:
    return 0.99 * model + 0.02 * np.sum(list(uploads), axis=0)


class Momentum:
    """A server with momentum, which the models show."""

    def __init__(self) -> None:
        self.velocity: Any = 0.0

    def __call__(self, model: np.ndarray, uploads: Any) -> np.ndarray:
        self.velocity = 0.9 * self.velocity + 0.02 * np.sum(list(uploads), axis=0)
        return np.asarray(model + self.velocity)


def sum_signs(model: np.ndarray, uploads: Any) -> np.ndarray:
    """A server whose step is not a function of the sum."""
    return np.asarray(model + 0.01 * np.sum(np.sign(list(uploads)), axis=0))


def view_training(
    client: Callable[..., Any], vantage: Vantage = Vantage.PEERS, **settings: Any
) -> View:
    """The view of a training on the members, for an adversary with the devices' code."""
    settings = {"rounds": 4, "kinds": {"": Payload.GRADIENT}, **settings}
    system: Target = WrappedSystem(client=client, model=init_model, **settings)
    run = system.run(DATA.take_users(np.flatnonzero(MEMBERS)), np.random.default_rng(3))
    view = run.transcript.view(vantage, np.random.default_rng(4))
    public = replace(view.public, device_code=SimulatedClient.from_data(system, DATA))
    return replace(view, public=public)


@pytest.mark.parametrize(
    "view",
    [
        view_training(send_step, server=decay),
        view_training(send_step, server=Momentum()),
        view_training(send_model, kinds={"": Payload.MODEL}),
        view_training(send_step, share=0.4, rounds=15, server=decay),
        view_training(send_step, Vantage.SHUFFLED),
        view_training(send_model, Vantage.AGGREGATE, kinds={"": Payload.MODEL}),
        view_training(send_step, Vantage.AGGREGATE, share=0.4, rounds=15),
    ],
    ids=["decay", "momentum", "averaging", "turns", "shuffled", "sum of models", "sums of turns"],
)
def test_members_are_distinguished_for_any_linear_server(view: View) -> None:
    assert can_infer_participation(view)
    found = infer_participation(view, DATA.ratings)
    assert found[MEMBERS].min() > 0.9 * found[MEMBERS].max() > 10 * abs(found[~MEMBERS]).max()


def test_unknown_profiles_act_as_noise() -> None:
    """With half of the profiles known, the result is better than chance but not exact."""
    view, known = view_training(send_step, server=decay), np.arange(0, DATA.n_users, 2)
    area = metrics.get_auc(infer_participation(view, DATA.ratings[known]), MEMBERS[known])
    assert 0.6 < area < 1.0


def test_views_without_computable_sums_are_refused() -> None:
    view = view_training(send_step, server=decay)
    assert not can_infer_participation(view_training(send_noisy_step, server=decay))  # random steps
    assert not can_infer_participation(replace(view, public=replace(view.public, device_code=None)))
    single_model = replace(view, rounds=view.rounds[-1:])  # no step between models
    assert not can_infer_participation(single_model)
    assert not can_infer_participation(view, 10**6)  # more than fits in memory
    found = infer_participation(view_training(send_step, server=sum_signs), DATA.ratings)
    assert metrics.get_auc(found, MEMBERS) < 1.0
