"""Required background of attacks, leaks of unprotected uploads, and membership of users."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.attacks import membership_attacks
from fedrec_auditor.attacks.attribute_attacks import AttributeKnn, AttributeRows
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.interaction_reconstruction import choose_sets
from fedrec_auditor.attacks.membership_attacks import InteractionMembership, UserMembership
from fedrec_auditor.attacks.parts.uploads import find_senders
from fedrec_auditor.attacks.readers.report_readers import _fit_gradients
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import HalfTrainings, Trial
from fedrec_auditor.auditor.games.membership import score_user_attack
from fedrec_auditor.auditor.games.metrics import get_auc, make_roc
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.reports.record.rows import AttackRow
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.compute import DEFAULT_MACHINE
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.dplcf.systems import LcfAp, LcfUb
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import FmfHfl
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.papers.privrec.systems import NnSelf, Privrec
from fedrec_auditor.targets.systems.base import Population, Target
from fedrec_auditor.targets.transcript import DeviceCode, PublicInfo, RoundView, View
from tests.attacks.synthetic import SKEWED, make_view, rename, report, score, send

BITS = send({"bits": Dense(np.eye(2, 3), Payload.BITS)}, {"items": np.eye(3, 2)})


ONE_PAIR = Background(candidate_pairs=np.zeros((1, 2), dtype=np.int64))


@pytest.mark.parametrize(
    ("attack", "vantage", "background", "lacks"),
    [
        (AttributeKnn(), Vantage.SERVER, Background(), "Give one class per user"),
        (InteractionMembership(), Vantage.SERVER, Background(), "background.candidate_pairs"),
        (InteractionMembership(), Vantage.SHUFFLED, ONE_PAIR, "known_items"),
        (UserMembership(), Vantage.PEERS, Background(), ">= 2 reference_views"),
    ],
)
def test_missing_background_is_refused(
    attack: Any, vantage: Vantage, background: Background, lacks: str
) -> None:
    rng = np.random.default_rng(0)
    view = make_view(BITS, users=2, items=3, vantage=vantage, rng=rng, protocol_vantage=vantage)
    assert not attack.refusal(view)
    with pytest.raises(InputError, match=lacks):
        attack.infer(view, background, rng)


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_best_f1_sets_against_all_sets(row: list[float]) -> None:
    posterior = np.array([row])
    chosen = choose_sets(posterior)[0]
    total = posterior.sum()

    def worth(mask: np.ndarray) -> float:
        if not mask.any():
            return float(np.prod(1 - posterior[0]))
        return 2 * posterior[0][mask].sum() / (mask.sum() + total)

    subsets = (np.arange(2 ** len(row))[:, None] >> np.arange(len(row))) & 1
    assert worth(chosen) == pytest.approx(max(worth(s.astype(bool)) for s in subsets), abs=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = np.random.default_rng(0).random((11, 30))
    whole = choose_sets(posterior)
    monkeypatch.setattr("fedrec_auditor.attacks.interaction_reconstruction._BLOCK", 70)
    np.testing.assert_array_equal(choose_sets(posterior), whole)


DATA = Synthetic(n_users=150, n_items=200, profile=20, signal=1.0).load()


OWN = DATA.ratings.toarray() != 0


POPULATION = Population(n_users=150, n_items=200)


# Systems with noise in the loss, for which no epsilon is proved.
NOISY_OBJECTIVE = {"f-dpmf", "f-gerai", "f-gerai-nl"}


@cache
def server_view(name: str) -> View:
    """The server's view of one round; systems with optional item embeddings use them."""
    target = FAMILIES["targets"].load_class(name)().limit_rounds(1)
    if isinstance(target, Privrec | NnSelf):
        target = replace(target, item_ids=True)
    transcript = target.run(DATA, np.random.default_rng(0)).transcript
    return transcript.view(Vantage.SERVER)


def list_unprotected() -> list[str]:
    """Systems without protection whose uploads the server receives user by user."""
    scope, found = make_local_scope(Unit.INTERACTION, Vantage.SERVER, Horizon.ROUND), []
    for name in FAMILIES["targets"].list_names():
        event = FAMILIES["targets"].load_class(name)().get_event(scope, POPULATION)
        if isinstance(event, NonPrivateDpEvent) and name not in NOISY_OBJECTIVE:
            view = server_view(name)
            if view.public.n_silos is None and any(one.uploads for one in view.rounds):
                found.append(name)
    return found


UNPROTECTED = [
    "dp-privrec", "fcf", "fcf-meta", "fedlightgcn", "fedmf", "fedncf", "fedrec", "fmf-lfl",
    "fofl-self", "lcf-ub", "nn-self", "privrec",
]  # fmt: skip


EMBEDDED = ["dp-privrec", "fedlightgcn", "fedmf", "fedncf", "fedrec", "nn-self", "privrec"]


def test_the_list_is_complete() -> None:
    assert list_unprotected() == UNPROTECTED


def score_membership(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all items for every sender, (n, M), and True for own items, (n, M)."""
    users = find_senders(view)
    return score(view)[users], OWN[users]


@pytest.mark.parametrize("name", UNPROTECTED)
def test_own_items_score_above_others(name: str) -> None:
    values, own = score_membership(server_view(name))
    assert get_auc(values.ravel(), own.ravel()) > 0.95


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("attribute", ["gender", "age_group", "occupation"])
def test_attributes_with_an_embedding_are_read_with_nobody_known(name: str, attribute: str) -> None:
    codes = DATA.attributes[attribute].codes
    classes = len(DATA.attributes[attribute].categories)
    background, rng = Background(n_classes=classes), np.random.default_rng(0)
    found = AttributeRows().infer(server_view(name), background, rng)
    np.testing.assert_array_equal(found.users, find_senders(server_view(name)))
    np.testing.assert_array_equal(found.classes, codes[found.users])


@pytest.mark.parametrize("name", sorted({*UNPROTECTED} - {*EMBEDDED}))
def test_attributes_without_an_embedding_are_not_guessed(name: str) -> None:
    view = server_view(name)
    attack, background = AttributeRows(), Background(n_classes=2)
    if not attack.refusal(view):
        assert not len(attack.infer(view, background, np.random.default_rng(0)).users)


@pytest.mark.parametrize("name", ["fedmf-ldp", "fedmf-apm", "fedrec-gn"])
def test_noise_leaves_no_row_unmoved(name: str) -> None:
    assert AttributeRows().refusal(server_view(name))


@pytest.mark.parametrize("name", ["fcf", "fedmf", "fmf-lfl", "privrec"])
def test_names_of_messages_do_not_matter(name: str) -> None:
    """A system with renamed broadcast and messages gives equal scores."""
    view = server_view(name)
    np.testing.assert_array_equal(score_membership(rename(view))[0], score_membership(view)[0])


def test_reports_reveal_members() -> None:
    """Similar users, as the attack assumes: a few items of most users, and many of few users."""
    rng = np.random.default_rng(0)
    truth = rng.random((300, 60)) < 0.9 / (1 + np.arange(60) / 8)
    found = score(report(truth, rng, reports=1000, alpha=2.0))
    # Within an item the user's own reports decide, not the item's popularity.
    users = np.repeat(np.arange(300), 60)
    for values in (found, (found - found.mean(axis=0)).round(9)):
        asked = {"fprs": [0.01], "confidence": 0.999, "rng": rng, "baseline": values.ravel()}
        measured = make_roc(values.ravel(), truth.ravel(), users, **asked)
        assert measured.auc.low > 0.5


def test_no_privacy_budget_no_score() -> None:
    view = report(SKEWED, np.random.default_rng(0), epsilon=1e-6)
    assert np.ptp(score(view)) < 1e-3


def test_typical_vector_from_an_exact_mean() -> None:
    """Shares follow from similar users and a noiseless mean gradient, up to the grid of lengths."""
    rng = np.random.default_rng(0)
    items, x, alpha = rng.normal(0, 0.2, (300, 4)), np.array([0.6, -0.4, 0.3, 0.2]), 1.0
    share = 0.5 / (1 + np.arange(300) / 20)[:, None]
    prediction = items @ x
    touched = np.outer((1 + alpha) * (1 - prediction), x).clip(-1, 1)
    untouched = np.outer(-prediction, x).clip(-1, 1)
    mean = share * touched + (1 - share) * untouched
    found = _fit_gradients(mean, items, alpha, noise=1e-8)
    assert np.corrcoef(found[2], share[:, 0])[0, 1] > 0.95


WEAKER = (Vantage.PEERS, Vantage.RELEASE)


@pytest.mark.parametrize("width", [1, 3])
def test_the_score_is_the_ratio_of_normal_densities(width: int) -> None:
    """Members differ by a shift; with many users the score is the exact ratio of densities."""
    rng = np.random.default_rng(1)
    n, k, shift = 4000, 9, np.linspace(1.0, 0.5, width)
    included = rng.random((k + 1, n)) < 0.5
    own = rng.normal(0, 5, (n, width))
    values = own + included[:, :, None] * shift + rng.normal(size=(k + 1, n, width))
    found = membership_attacks.score_profiles(values[0], values[1:], included[1:])
    # The mean without the user is itself uncertain, by 1/k + mean square of the share over k.
    exact = (values[0] - own - shift / 2) @ shift
    assert np.corrcoef(found, exact)[0, 1] > 0.9
    best = metrics.get_auc(exact, included[0])
    assert best - 0.04 < metrics.get_auc(found, included[0]) < best + 0.01


def test_uninformative_references_give_zero_scores() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(4, 30, 2))
    for included in (np.ones((3, 30), dtype=bool), np.zeros((3, 30), dtype=bool)):
        assert not membership_attacks.score_profiles(values[0], values[1:], included).any()


def make_item_view(vantage: Vantage, items: np.ndarray) -> View:
    """A view of a model of items, trained on two users."""
    public = PublicInfo(algorithm="made", n_users=2, n_items=len(items))
    return View(vantage=vantage, public=public, rounds=(RoundView(broadcast={"items": items}),))


@pytest.mark.parametrize("vantage", [Vantage.SERVER, Vantage.AGGREGATE])
def test_an_adversary_who_knows_the_senders_is_refused(vantage: Vantage) -> None:
    view = make_item_view(vantage, np.eye(3, 2))
    assert "knows who takes part" in UserMembership().refusal(view)
    parties = replace(view, public=replace(view.public, n_silos=2))
    assert UserMembership().refusal(parties) == ""


HALVED = Synthetic(n_users=300, n_items=80, profile=14).load()


@cache
def train_halves(target: Target) -> HalfTrainings:
    """Trainings on halves of the users, shared by the tests."""
    rng = np.random.default_rng(3)
    return HalfTrainings.train(target, HALVED, WEAKER, count=5, compute=DEFAULT_MACHINE, rng=rng)


def run_game(
    target: Target,
    vantage: Vantage,
    client: DeviceCode | None = None,
    made: HalfTrainings | None = None,
) -> dict[str, AttackRow]:
    """Rows of the game by metric; the adversary has the devices' code if ``client`` is given."""
    made = made or train_halves(target)
    view = made.views[vantage][0]
    game = Trial(
        target_name=target.name,
        attack_name="user-membership",
        attack=UserMembership(),
        view=replace(view, public=replace(view.public, device_code=client)),
        interactions=HALVED,
        trainings_on_user_halves=made,
        is_quick=True,
        confidence=0.95,
        rng=np.random.default_rng(4),
    )
    return {row.metric: row for row in score_user_attack(game)}


@pytest.mark.parametrize("vantage", WEAKER)
@pytest.mark.parametrize("target", [Fcf(), LcfUb(), FmfHfl()], ids=lambda target: target.name)
def test_unprotected_models_reveal_members(target: Target, vantage: Vantage) -> None:
    found = run_game(target, vantage)["AUC"]
    assert found.ci_low > max(found.baseline, 0.52)
    assert found.vantage is vantage


def test_computable_messages_without_noise_reveal_members_exactly() -> None:
    client = SimulatedClient.from_data(Fcf(), HALVED)
    found = run_game(Fcf(), Vantage.PEERS, client)
    assert {row.value for row in found.values()} == {1.0}
    assert "draw nothing at random" in found["AUC"].note
    # Without the steps between models, the code gives no advantage.
    assert run_game(Fcf(), Vantage.RELEASE, client) == run_game(Fcf(), Vantage.RELEASE)


def test_membership_unrelated_to_the_training_is_not_inferred() -> None:
    rng, true = np.random.default_rng(6), train_halves(Fcf())
    views = {v: tuple(replace(view) for view in views) for v, views in true.views.items()}
    coins = HalfTrainings(is_included=rng.random(true.is_included.shape) < 0.5, views=views)
    found = run_game(Fcf(), Vantage.PEERS, SimulatedClient.from_data(Fcf(), HALVED), coins)["AUC"]
    assert found.ci_low < 0.5 < found.ci_high


def test_membership_inference_weakens_as_bits_flip_more() -> None:
    """Similarities of the same profiles, from unflipped bits, and from epsilon 4 and epsilon 1."""
    targets = (LcfUb(), LcfAp(epsilon=4.0), LcfAp(epsilon=1.0))
    found = [run_game(target, Vantage.RELEASE)["AUC"].value for target in targets]
    assert found[0] > found[1] > found[2] - 0.02
    assert found[0] > found[2] + 0.1


def test_a_note_says_that_a_low_rate_is_not_resolvable() -> None:
    """About 750 non-members: 1% and 10% are resolved, 0.1% is not."""
    found = run_game(Fcf(), Vantage.RELEASE)
    assert set(found) == {"AUC", "TPR at FPR 0.1", "TPR at FPR 0.01"}
    assert "TPR at FPR 0.001 is missing:" in found["AUC"].note


def test_halves_are_fair_draws_and_repeat_with_the_seed() -> None:
    target, rngs = Fcf(rounds=1), [np.random.default_rng(7) for _ in range(2)]
    made = [
        HalfTrainings.train(target, HALVED, WEAKER, count=4, compute=DEFAULT_MACHINE, rng=rng)
        for rng in rngs
    ]
    assert np.array_equal(made[0].is_included, made[1].is_included)
    assert 0.4 < made[0].is_included.mean() < 0.6
    for vantage in WEAKER:
        for one, two in zip(made[0].views[vantage], made[1].views[vantage], strict=True):
            first, second = one.rounds[-1].broadcast, two.rounds[-1].broadcast
            assert np.array_equal(first["items"], second["items"])
        sizes = [view.public.n_users for view in made[0].views[vantage]]
        assert sizes == made[0].is_included.sum(axis=1).tolist()


def test_profiles_without_ratings_are_scored() -> None:
    view = make_item_view(Vantage.RELEASE, np.random.default_rng(0).normal(size=(4, 2)))
    profiles = sparse.csr_array(np.array([[0, 0, 0, 0], [1.0, 0, 1, 0], [0, 1.0, 1, 1]]))
    included = np.array([[True, False, True], [False, True, False]])
    known = Background(profiles=profiles, reference_views=(view, view), is_in_training=included)
    guess = UserMembership().infer(view, known, np.random.default_rng(0))
    assert np.isfinite(guess.values).all()
    assert guess.values.shape == (3,)
