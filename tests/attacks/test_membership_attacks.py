"""Whole users: planted models that moved for some, and trainings of our targets on halves."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.membership_attacks import UserMembership, log_ratios
from fedrec_auditor.attacks.readers.coordinate_reports import _typical
from fedrec_auditor.auditor.games import membership, metrics
from fedrec_auditor.auditor.games.game import Game, Halves
from fedrec_auditor.auditor.games.metrics import auc, roc
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.reports.rows import AttackRow
from fedrec_auditor.targets.compute import DEFAULT
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.dplcf.systems.neighbourhood_systems import LcfAp, LcfUb
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import FmfHfl
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import DeviceCode, Public, RoundView, View
from tests.attacks.made import SKEWED, fcf, flipped, reported, scored


def area(values: np.ndarray, truth: np.ndarray) -> float:
    return auc(values.ravel(), truth.ravel())


@pytest.mark.parametrize(("noise", "least"), [(0.0, 1.0), (1.0, 0.9)])
def test_a_gradient_tells_own_items_from_others(noise: float, least: float) -> None:
    view, _ = fcf(SKEWED, np.random.default_rng(0), noise=noise)
    assert area(scored(view), SKEWED) >= least


def test_bits_add_to_popularity() -> None:
    """The log-odds are the channel's, exactly: ln(p/q) and ln((1-p)/(1-q)) on one item's scores."""
    view = flipped(SKEWED, np.random.default_rng(0), p=0.75, q=0.25)
    found = scored(view)
    bits = view.rounds[0].uploads.components["bits"].dense(np.arange(120)) == 1
    for item in (0, 40):
        column, seen = found[:, item], bits[:, item]
        assert column[seen].mean() - column[~seen].mean() == pytest.approx(2 * np.log(3))
    popularity = np.broadcast_to(SKEWED.sum(axis=0), SKEWED.shape)
    assert area(found, SKEWED) > max(area(popularity, SKEWED), area(1.0 * bits, SKEWED))


def test_reports_tell_members() -> None:
    """Alike users, as the attack assumes: items held by most of them, and many by few."""
    rng = np.random.default_rng(0)
    truth = rng.random((300, 60)) < 0.9 / (1 + np.arange(60) / 8)
    found = scored(reported(truth, rng, reports=1000, alpha=2.0))
    # Within an item the users' own reports decide, not the item's popularity.
    users = np.repeat(np.arange(300), 60)
    for values in (found, (found - found.mean(axis=0)).round(9)):
        measured = roc(values.ravel(), truth.ravel(), users, fprs=[0.01], confidence=0.999, rng=rng)
        assert measured.auc.low > 0.5


def test_no_privacy_budget_no_score() -> None:
    view = reported(SKEWED, np.random.default_rng(0), epsilon=1e-6)
    assert np.ptp(scored(view)) < 1e-3


def test_typical_vector_from_an_exact_mean() -> None:
    """Alike users and a noiseless mean gradient give the shares back, up to the grid of lengths."""
    rng = np.random.default_rng(0)
    items, x, alpha = rng.normal(0, 0.2, (300, 4)), np.array([0.6, -0.4, 0.3, 0.2]), 1.0
    share = 0.5 / (1 + np.arange(300) / 20)[:, None]
    prediction = items @ x
    touched = np.outer((1 + alpha) * (1 - prediction), x).clip(-1, 1)
    untouched = np.outer(-prediction, x).clip(-1, 1)
    mean = share * touched + (1 - share) * untouched
    found = _typical(mean, items, alpha, noise=1e-8)
    assert np.corrcoef(found[2], share[:, 0])[0, 1] > 0.95


WEAKER = (Vantage.PEERS, Vantage.RELEASE)


@pytest.mark.parametrize("width", [1, 3])
def test_the_ratio_is_the_normal_one_where_shift_and_spread_are_learned(width: int) -> None:
    """Members are a shift away: with many users the score is the exact ratio of known densities."""
    rng = np.random.default_rng(1)
    n, k, shift = 4000, 9, np.linspace(1.0, 0.5, width)
    included = rng.random((k + 1, n)) < 0.5
    own = rng.normal(0, 5, (n, width))
    values = own + included[:, :, None] * shift + rng.normal(size=(k + 1, n, width))
    found = log_ratios(values[0], values[1:], included[1:])
    # The mean without the user is itself uncertain, by 1/k + mean square of the share over k.
    exact = (values[0] - own - shift / 2) @ shift
    assert np.corrcoef(found, exact)[0, 1] > 0.9
    best = metrics.auc(exact, included[0])
    assert best - 0.04 < metrics.auc(found, included[0]) < best + 0.01


def test_references_that_tell_nothing_score_nobody() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(4, 30, 2))
    for included in (np.ones((3, 30), dtype=bool), np.zeros((3, 30), dtype=bool)):
        assert not log_ratios(values[0], values[1:], included).any()


def shown(vantage: Vantage, items: np.ndarray) -> View:
    """A model of items, trained on two users."""
    public = Public(algorithm="made", n_users=2, n_items=len(items))
    return View(vantage=vantage, public=public, rounds=(RoundView(broadcast={"items": items}),))


@pytest.mark.parametrize("vantage", [Vantage.SERVER, Vantage.AGGREGATE])
def test_who_knows_the_senders_has_nothing_to_infer(vantage: Vantage) -> None:
    view = shown(vantage, np.eye(3, 2))
    assert "knows who takes part" in UserMembership().refusal(view)
    parties = replace(view, public=replace(view.public, parties=2))
    assert UserMembership().refusal(parties) == ""


DATA = Synthetic(n_users=300, n_items=80, profile=14).load()


@cache
def halves(target: Target) -> Halves:
    """Trained once for whoever looks at it."""
    rng = np.random.default_rng(3)
    return Halves.of(target, DATA, WEAKER, count=5, compute=DEFAULT, rng=rng)


def rows(
    target: Target, vantage: Vantage, client: DeviceCode | None = None, made: Halves | None = None
) -> dict[str, AttackRow]:
    """What its game tells, of an adversary who has the devices' code if it is given."""
    made = made or halves(target)
    view = made.views[vantage][0]
    game = Game(
        target=target.name,
        name="user-membership",
        attack=UserMembership(),
        view=replace(view, public=replace(view.public, client=client)),
        interactions=DATA,
        halves=made,
        quick=True,
        confidence=0.95,
        rng=np.random.default_rng(4),
    )
    return {row.metric: row for row in membership.play_users(game)}


@pytest.mark.parametrize("vantage", WEAKER)
@pytest.mark.parametrize("target", [Fcf(), LcfUb(), FmfHfl()], ids=lambda target: target.name)
def test_unprotected_models_tell_who_was_trained_on(target: Target, vantage: Vantage) -> None:
    found = rows(target, vantage)["AUC"]
    assert found.ci_low > max(found.baseline, 0.52)
    assert found.vantage is vantage


def test_who_can_compute_messages_without_noise_reads_members_for_sure() -> None:
    client = SimulatedClient.of(Fcf(), DATA)
    found = rows(Fcf(), Vantage.PEERS, client)
    assert {row.value for row in found.values()} == {1.0}
    assert "draw nothing at random" in found["AUC"].note
    # Of the models alone, where no step is seen, they are as anybody's.
    assert rows(Fcf(), Vantage.RELEASE, client) == rows(Fcf(), Vantage.RELEASE)


def test_coins_that_no_training_heard_of_are_not_told() -> None:
    rng, true = np.random.default_rng(6), halves(Fcf())
    views = {v: tuple(replace(view) for view in views) for v, views in true.views.items()}
    coins = Halves(included=rng.random(true.included.shape) < 0.5, views=views)
    found = rows(Fcf(), Vantage.PEERS, SimulatedClient.of(Fcf(), DATA), coins)["AUC"]
    assert found.ci_low < 0.5 < found.ci_high


def test_it_weakens_as_bits_flip_more() -> None:
    """Similarities of the same profiles, from all bits, from bits flipped at epsilon 4, and 1."""
    targets = (LcfUb(), LcfAp(epsilon=4.0), LcfAp(epsilon=1.0))
    found = [rows(target, Vantage.RELEASE)["AUC"].value for target in targets]
    assert found[0] > found[1] > found[2] - 0.02
    assert found[0] > found[2] + 0.1


def test_a_rate_below_the_resolution_is_said_not_to_be_resolvable() -> None:
    """About 750 non-members: 1% and 10% are resolved, 0.1% is not."""
    found = rows(Fcf(), Vantage.RELEASE)
    assert set(found) == {"AUC", "TPR at FPR 0.1", "TPR at FPR 0.01"}
    assert "TPR at FPR 0.001 is not resolvable" in found["AUC"].note


def test_halves_are_fair_coins_and_made_again_by_the_same_seed() -> None:
    made = [
        Halves.of(
            Fcf(rounds=1), DATA, WEAKER, count=4, compute=DEFAULT, rng=np.random.default_rng(7)
        )
        for _ in range(2)
    ]
    assert np.array_equal(made[0].included, made[1].included)
    assert 0.4 < made[0].included.mean() < 0.6
    for vantage in WEAKER:
        for one, two in zip(made[0].views[vantage], made[1].views[vantage], strict=True):
            first, second = one.rounds[-1].broadcast, two.rounds[-1].broadcast
            assert np.array_equal(first["items"], second["items"])
        sizes = [view.public.n_users for view in made[0].views[vantage]]
        assert sizes == made[0].included.sum(axis=1).tolist()


def test_profiles_without_ratings_are_scored() -> None:
    view = shown(Vantage.RELEASE, np.random.default_rng(0).normal(size=(4, 2)))
    profiles = sparse.csr_array(np.array([[0, 0, 0, 0], [1.0, 0, 1, 0], [0, 1.0, 1, 1]]))
    guess = UserMembership().infer(
        view,
        Background(
            profiles=profiles,
            references=(view, view),
            included=np.array([[True, False, True], [False, True, False]]),
        ),
        np.random.default_rng(0),
    )
    assert np.isfinite(guess.values).all()
    assert guess.values.shape == (3,)
