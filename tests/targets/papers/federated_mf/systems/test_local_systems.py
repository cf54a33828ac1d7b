"""Local systems: devices' messages, claims, costs, and failed remedies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    get_epsilon_gaussian,
)
from dp_accounting.pld import privacy_loss_distribution as library
from scipy import optimize, sparse, stats

from fedrec_auditor.accountants.events.leaves import RevealedSamplingDpEvent
from fedrec_auditor.accountants.statements import Adjacency, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import compute_exact_bounds
from fedrec_auditor.targets.components import RandomizedMessages
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgdMf
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import (
    LflLdp,
    LflPretrained,
    LflSgdmf,
    LocalOnly,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import GOLDEN_RATIO, Clipping
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import DropoutMechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    find_message_distance,
    get_authors_epsilon,
)
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import VflSgdmf
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.tables import judge, make_data

SMALL = Population(n_users=40, n_items=25)


ONE = 2 * 5**1.5


def make_ratings() -> Interactions:
    return Synthetic(n_users=40, n_items=25, profile=8.0, tastes=3).load()


def test_every_entry_has_the_noise_of_ldp() -> None:
    """To six standard errors; and the server sums the messages."""
    target = LflLdp(rounds=2, noise_multiplier=3.0)
    rounds = target.run(make_ratings(), np.random.default_rng(0)).transcript.rounds
    update = rounds[0].uploads.components["update"]
    assert isinstance(update, RandomizedMessages)
    every = np.arange(40)
    noise = update.to_dense(every) - update.clean_messages.to_dense(every)
    assert noise.std() == pytest.approx(3 * ONE, rel=6 / math.sqrt(2 * noise.size))
    lengths = np.linalg.norm(update.clean_messages.to_dense(every).reshape(40, -1), axis=1)
    assert lengths.max() <= ONE * (1 + 1e-6)
    assert (np.count_nonzero(update.clean_messages.to_dense(every).any(axis=2), axis=1) <= 1).all()
    before, after = (np.asarray(one.broadcast["items"], float) for one in rounds)
    moved = before - update.to_dense(every).sum(axis=0) / 40
    moved = np.maximum(moved, 0)
    norm = np.linalg.norm(moved, axis=1, keepdims=True) / math.sqrt(5)
    np.testing.assert_allclose(after, moved / np.maximum(norm, 1), atol=1e-4)


def test_the_local_epsilon_is_that_of_ten_gaussians() -> None:
    target = LflLdp()
    other = library.from_gaussian_mechanism(1.64).self_compose(10).get_epsilon_for_delta(1e-5)
    assert target.claimed_epsilon == pytest.approx(other, rel=1e-3)
    assert 9 < target.claimed_epsilon < 11
    presence, pair = target.get_claims(SMALL)
    assert target.get_event(presence.scope, SMALL) == SelfComposedDpEvent(GaussianDpEvent(1.64), 10)
    golden = (1 + math.sqrt(5)) / 2  # any two users, whose embeddings differ
    of_pair = target.get_event(pair.scope, SMALL).event
    assert of_pair.noise_multiplier == pytest.approx(1.64 / golden)
    exact = compute_exact_bounds(target, SMALL)[0].epsilon
    assert exact == pytest.approx(target.claimed_epsilon, rel=1e-6)
    found = judge(target, SMALL)
    assert found[0].verdict is Verdict.CONSISTENT
    assert found[1].verdict is Verdict.INCOMPARABLE


def test_no_distribution_for_other_adjacencies_and_vantages() -> None:
    scope = LflLdp().get_claims(SMALL)[0].scope
    assert LflLdp().get_mechanism(scope, SMALL) is not None
    for other in (replace(scope, unit=Unit.RATING), replace(scope, vantage=Vantage.RELEASE)):
        assert LflLdp().get_mechanism(other, SMALL) is None
    silent = LflLdp(noise_multiplier=0.0)
    assert silent.get_mechanism(scope, SMALL) is None
    assert silent.get_event(scope, SMALL) == NonPrivateDpEvent()
    assert math.isinf(silent.claimed_epsilon)


POPULATION = Population(n_users=1000, n_items=500)


DATA = make_data(40, 15, 0.4)


def get_verdicts(target: LflSgdmf) -> dict[tuple[Unit, Vantage], tuple[Verdict, float | None]]:
    return {
        (found.scope.unit, found.scope.vantage): (
            found.verdict,
            None if found.accounted is None else found.accounted.epsilon,
        )
        for found in judge(target, POPULATION)
    }


@pytest.mark.parametrize(
    ("multiplier", "omega", "claimed", "true"),
    [
        (1.0, 0.3, 17.86, 25.40),
        (1.0, 0.6, 17.86, 22.29),
        (5.0, 0.3, 2.59, 3.51),
        (5.0, 0.6, 2.59, 3.14),
    ],
)
def test_theorem_5_is_violated_by_the_catalogues_numbers(
    multiplier: float, omega: float, claimed: float, true: float
) -> None:
    target = LflSgdmf(noise_multiplier=multiplier, omega=omega)
    assert target.claimed_epsilon == pytest.approx(claimed, abs=0.006)
    verdict, epsilon = get_verdicts(target)[Unit.USER, Vantage.AGGREGATE]
    assert verdict is Verdict.VIOLATED
    assert epsilon == pytest.approx(true, abs=0.006)


def test_the_repair_holds_at_equal_cost() -> None:
    target = LflSgdmf(as_published=False)
    verdict, epsilon = get_verdicts(target)[Unit.USER, Vantage.AGGREGATE]
    assert verdict is Verdict.CONSISTENT
    assert epsilon == pytest.approx(target.claimed_epsilon)
    assert get_verdicts(LflSgdmf())[Unit.USER, Vantage.PEERS][0] is Verdict.CONSISTENT


@pytest.mark.parametrize("as_published", [True, False])
@pytest.mark.parametrize(("colluding", "announced"), [(0.1, 1.0), (0.0, 2.0), (0.25, 1.5)])
def test_colluders_and_false_counts_cost_their_part_of_the_noise(
    colluding: float, announced: float, as_published: bool
) -> None:
    """mu^2 = T/(v z^2), v = (1 - colluding)/(1 - omega + announced), repaired over announced."""
    target = LflSgdmf(colluding=colluding, overstated=announced, as_published=as_published)
    left = (1 - colluding) / (announced + (0.7 if as_published else 0.0))
    found = get_verdicts(target)
    for vantage, variance in (
        (Vantage.AGGREGATE, left),
        (Vantage.PEERS, (1 - colluding) / announced),
    ):
        verdict, epsilon = found[Unit.USER, vantage]
        multiplier = 12.0 * math.sqrt(variance / target.rounds)
        assert epsilon == pytest.approx(get_epsilon_gaussian(multiplier, 1e-5), rel=1e-6)
        assert verdict is not Verdict.CONSISTENT
    # section 1.1: no party has to trust another, nor the server
    assert found[Unit.USER, Vantage.AGGREGATE][0] is Verdict.VIOLATED
    assert not target.get_claims(POPULATION)[0].unstated_quantity
    note = target.get_claims(POPULATION)[0].note
    assert ("reveals its noise" in note, "announces" in note) == (colluding > 0, announced > 1)


@pytest.mark.parametrize(("as_published", "verdict"), [(True, "VIOLATED"), (False, "CONSISTENT")])
def test_dropouts_neither_save_the_theorem_nor_break_the_repair(
    as_published: bool, verdict: str
) -> None:
    found = get_verdicts(LflSgdmf(noise_multiplier=1.0, dropout=0.1, as_published=as_published))
    assert found[Unit.USER, Vantage.AGGREGATE][0] == verdict
    assert found[Unit.USER, Vantage.PEERS][0] == "CONSISTENT"


@pytest.mark.calibration
def test_survivors_have_the_stated_distribution() -> None:
    """Numbers of 3,000 rounds of 12 devices that device 0 survived, with p-values above 1e-7."""
    target = LflSgdmf(factors=1, rounds=3000, dropout=0.2, omega=0.6, noise_multiplier=1.0)
    run = target.run(Interactions.create(np.ones((12, 1))), np.random.default_rng(5)).transcript
    population = Population(n_users=12, n_items=1)
    law = target.get_mechanism(make_claim_scope("user", Vantage.AGGREGATE), population)
    seen = np.zeros((13, 13))
    for crossed in run.rounds:
        there = 0 in crossed.uploads.users
        seen[(len(crossed.uploads.users), len(crossed.cleartext.users)) if there else (0, 0)] += 1
    expected = np.zeros((13, 13))
    masked, replaced, chance = law.list_survivor_probs()
    expected[masked, replaced] = 3000 * chance
    expected[0, 0] = 3000 * (1 - chance.sum())
    common = expected > 5
    rest = [array[~common].sum() for array in (seen, expected)]
    cells = [np.append(array[common], r) for array, r in zip((seen, expected), rest, strict=True)]
    assert stats.chisquare(*cells).pvalue > 1e-7


def test_devices_use_the_announced_number() -> None:
    """The sum of the new noise xi' has 1/3 of the variance if thrice the number is announced."""
    honest, lying = (
        LflSgdmf(factors=2, overstated=lie, rounds=1, learning_rate=1e-9) for lie in (1.0, 3.0)
    )
    idle, spread = Interactions.create(np.zeros((40, 500))), []
    for target in (honest, lying):
        first = target.run(idle, np.random.default_rng(0)).transcript.rounds[0]
        total = first.uploads.components["update"].sum_all()
        total = total + first.cleartext.components["replacement"].sum_all()
        spread.append(float(np.square(total).sum()) / target.sigma**2)
        assert first.broadcast["survivors"] == 40 * target.overstated
    # 1,000 entries: chi squares of 1,000 degrees of freedom, times 1 and 1/3.
    for seen, share in zip(spread, (1.0, 1 / 3), strict=True):
        assert 1e-7 < stats.chi2.cdf(seen / share, 1000) < 1 - 1e-7


def test_device_code_attains_the_sensitivity() -> None:
    """The first V turns the embedding one way, the second lies across it: 2 R^(3/2)."""
    target = LflSgdmf(factors=3, noise_multiplier=0.0, fitting=200)
    profile = Interactions.create(np.array([[5.0, 0.0]]))
    broadcast = {
        "first": np.array([[0.01, 0, 0], [0, 0, 0]], np.float32),
        "items": np.array([[0, math.sqrt(5), 0], [0, 0, 0]], np.float32),
    }
    sent = target.upload(profile, broadcast, np.random.default_rng(0))
    gradient = sent.components["update"].to_dense(np.array([0]))
    assert np.linalg.norm(gradient) == pytest.approx(target.sensitivity, rel=1e-3)
    assert target.sensitivity == pytest.approx(2 * 5**1.5)


def test_a_broadcast_out_of_range_is_projected_before_use() -> None:
    target = LflSgdmf(factors=2, noise_multiplier=0.0)
    profiles = make_data(20, 6, 0.4)
    wild = np.random.default_rng(0).normal(scale=100, size=(6, 2)).astype(np.float32)
    sent = target.upload(profiles, {"items": wild}, np.random.default_rng(0))
    gradients = sent.components["update"].to_dense(np.arange(20))
    norms = np.linalg.norm(gradients.reshape(20, -1), axis=1)
    assert norms.max() <= target.sensitivity * (1 + 1e-5)


def test_devices_send_the_gradient_of_one_rating() -> None:
    """All ratings are equally frequent: 6 standard errors over 20,000 messages."""
    target = LflSgdmf(factors=2, noise_multiplier=0.0)
    profile = Interactions.create(np.array([[0, 4.0, 2.0, 0, 1.0, 0]]))
    items = np.random.default_rng(1).random((6, 2)).astype(np.float32)
    rng = np.random.default_rng(0)
    sent = target.upload(profile, {"items": items}, rng, messages_per_client=20_000)
    touched = np.any(sent.components["update"].to_dense(np.arange(20_000)) != 0, axis=2)
    assert (touched.sum(axis=1) == 1).all()
    shares = touched.mean(axis=0)
    np.testing.assert_array_equal(shares[[0, 3, 5]], 0)
    assert np.abs(shares[[1, 2, 4]] - 1 / 3).max() < 6 * math.sqrt(2 / 9 / 20_000)
    user = target.init_user_embeddings(profile.ratings, items)[0]
    for j, x in ((1, 4.0), (2, 2.0), (4, 1.0)):
        at = np.flatnonzero(touched[:, j])[:1]
        row = sent.components["update"].to_dense(at)[0, j]
        np.testing.assert_allclose(row, 2 * (user @ items[j] - x) * user, rtol=1e-4)


def test_all_rows_are_noisy_even_without_ratings() -> None:
    target = LflSgdmf(factors=2)
    idle = Interactions.create(np.zeros((1, 4)))
    sent = target.upload(idle, {"items": np.ones((4, 2), np.float32)}, np.random.default_rng(0))
    for component in sent.components.values():
        assert isinstance(component, RandomizedMessages)
        assert (component.to_dense(np.array([0])) != 0).all()


@pytest.mark.parametrize("as_published", [True, False])
def test_the_next_model_follows_from_the_aggregate_view(as_published: bool) -> None:
    """Rounds are replayed from what the aggregate vantage sees, dropouts and cleartext included."""
    target = LflSgdmf(dropout=0.1, omega=0.4, rounds=4, as_published=as_published)
    run = target.run(DATA, np.random.default_rng(3))
    glimpses = run.transcript.view(Vantage.AGGREGATE).rounds
    models = (*(g.broadcast for g in glimpses[1:]), run.transcript.published_model)
    for k, (glimpse, after) in enumerate(zip(glimpses, (m["items"] for m in models), strict=True)):
        crossed = run.transcript.rounds[k]
        survivors = len(crossed.uploads.users)
        assert glimpse.broadcast["survivors"] == survivors
        assert set(glimpse.cleartext.users) <= set(crossed.uploads.users)
        assert len(glimpse.cleartext.users) < survivors < 40
        total = glimpse.aggregate["update"] + glimpse.cleartext.components["replacement"].sum_all()
        rate = target.learning_rate * (1 - 0.48 * min(1, k / 3.2))
        moved = np.maximum(glimpse.broadcast["items"] - rate / survivors * total, 0)
        norm = np.sqrt(np.square(moved).sum(axis=1, keepdims=True) / 5)
        np.testing.assert_allclose(moved / np.maximum(norm, 1), after, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dropout", [0.5, 0.9])
def test_too_many_dropouts_halt_a_round_and_keep_the_model(dropout: float) -> None:
    """Fewer than 1 - omega = .7 of the users."""
    run = LflSgdmf(dropout=dropout, rounds=2).run(DATA, np.random.default_rng(0))
    first = run.transcript.rounds[0]
    assert len(first.uploads.users) == len(first.cleartext.users) == 0
    np.testing.assert_array_equal(run.transcript.published_model["items"], first.broadcast["items"])
    assert not first.uploads.components["update"].sum_all().any()


def test_all_messages_arrive_without_dropouts() -> None:
    run = LflSgdmf(dropout=0.0, rounds=1).run(DATA, np.random.default_rng(0))
    crossed = run.transcript.rounds[0]
    for uploads in (crossed.uploads, crossed.cleartext):
        np.testing.assert_array_equal(uploads.users, np.arange(40))


def test_worst_dropouts_leave_half_the_noise() -> None:
    """Half of sigma^2 in the worst case; random dropouts are another mechanism."""
    vantages = Vantage.AGGREGATE, Vantage.PEERS
    aggregate, peers = (make_claim_scope("user", vantage) for vantage in vantages)
    for target, left in ((LflSgdmf(dropout=0.1), 0.5), (LflSgdmf(), 1 / 1.7)):
        event = target.get_event(aggregate, POPULATION)
        assert event.event.noise_multiplier == pytest.approx(12.0 * math.sqrt(left))
        assert event.count == 10
        assert target.get_event(peers, POPULATION).event.noise_multiplier == pytest.approx(12.0)
    event = LflSgdmf(dropout=0.1, colluding=0.1, overstated=2).get_event(aggregate, POPULATION)
    assert event.event.noise_multiplier == pytest.approx(12.0 * math.sqrt(0.6 / 0.7 / 3))
    event = LflSgdmf(dropout=0.1, colluding=0.1).get_event(peers, POPULATION)
    assert event.event.noise_multiplier == pytest.approx(12.0 * math.sqrt(0.6 / 0.7))
    nothing = LflSgdmf(dropout=0.1, colluding=0.8).get_event(aggregate, POPULATION)
    assert isinstance(nothing, NonPrivateDpEvent)
    assert isinstance(LflSgdmf(dropout=0.1).get_mechanism(aggregate, POPULATION), DropoutMechanism)
    assert LflSgdmf().get_mechanism(peers, POPULATION) is None
    assert LflSgdmf().get_mechanism(aggregate, POPULATION) is not None
    moved = LflSgdmf().get_event(make_claim_scope("rating", Vantage.AGGREGATE), POPULATION)
    assert moved.event.noise_multiplier == pytest.approx(12.0 / GOLDEN_RATIO / math.sqrt(1.7))


def test_every_user_is_fitted_to_the_same_random_items() -> None:
    target, table = LflPretrained(factors=3, fitting=2000, bound=50.0), make_data(12, 30)
    run = target.run(table, np.random.default_rng(1))
    items = run.model.arrays["items"].astype(float)
    assert (items >= 0).all()
    scores = target.score(run.model, table, np.arange(12))
    for i, row in enumerate(table.ratings.toarray()):
        best, _ = optimize.nnls(items[row > 0], row[row > 0])
        np.testing.assert_allclose(scores[i], items @ best, rtol=1e-3, atol=1e-3)


SOME = Population(n_users=900, n_items=100)


def test_parties_publish_once_and_predict_their_own_items() -> None:
    interactions, target = make_data(12, 10), LocalOnly(parties=3, rounds=2)
    told: list[tuple[int, int]] = []
    run = target.run(
        interactions, np.random.default_rng(0), lambda done, total: told.append((done, total))
    )
    (one,) = run.transcript.rounds
    assert told == [(1, 1)]
    assert one.broadcast is None
    users = one.uploads.components["users"].to_dense(np.arange(3))
    items = one.uploads.components["items"]
    sent = items.flag_sent_rows(np.arange(3))
    np.testing.assert_array_equal(sent.sum(axis=0), 1)  # every item belongs to one party
    assert sorted(sent.sum(axis=1)) == [3, 3, 4]
    tables = items.to_dense(np.arange(3))
    slow = sum(users[k] @ tables[k].T for k in range(3))
    np.testing.assert_allclose(
        target.score(run.model, interactions, np.arange(12)), slow, atol=1e-5
    )


def test_parties_do_not_depend_on_each_other() -> None:
    """If the ratings of one party's items change, the other parties publish the same."""
    interactions, target = make_data(12, 10), LocalOnly(parties=2, rounds=2)
    before = target.run(interactions, np.random.default_rng(0)).transcript.rounds[0].uploads
    mine = before.components["items"].flag_sent_rows(np.arange(2))[0]
    dense = interactions.ratings.toarray()
    other = Interactions.create(np.where(mine, np.where(dense > 0, 1.0, 0.0), dense))
    after = target.run(other, np.random.default_rng(0)).transcript.rounds[0].uploads
    for name in ("users", "items"):
        one, two = (u.components[name].to_dense(np.arange(2)) for u in (before, after))
        np.testing.assert_array_equal(one[1], two[1])
        assert not np.array_equal(one[0], two[0])


def test_the_claim_is_that_of_the_moments_accountant_for_a_user() -> None:
    one = get_authors_epsilon(1.8, 0.01, 1000, 1e-5)
    (rating,) = LocalOnly().get_claims(SOME)
    (user,) = LocalOnly(unit="user").get_claims(SOME)
    (central,) = DpSgdMf(unit="user").get_claims(SOME)
    assert rating.claim.epsilon == one == central.claim.epsilon
    assert user.claim.epsilon == pytest.approx(math.sqrt(10) * one)
    assert (rating.claim.scope.unit, user.claim.scope.unit) == (Unit.RATING, Unit.USER)


def test_charges_follow_from_the_clip() -> None:
    def compute(z: float) -> SelfComposedDpEvent:
        return SelfComposedDpEvent(RevealedSamplingDpEvent(0.01, GaussianDpEvent(z)), 1000)

    assert LocalOnly().get_event(make_claim_scope("rating"), SOME) == compute(1.8)
    # an added user takes another's place in the batch, which nobody else's ratings show
    user = DpSgdMf(unit="user").get_event(make_claim_scope("user"), SOME)
    assert user == SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(0.9)), 1000)
    parties = LocalOnly(unit="user", as_published=False).get_event(make_claim_scope("user"), SOME)
    assert parties == SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.8)), 10_000)
    # another value may reverse a clipped gradient
    value = LocalOnly().get_event(make_claim_scope("rating", adjacency=Adjacency.REPLACE), SOME)
    assert value == compute(0.9)
    # clipped one by one, the ten ratings of a party's items add up
    whole = LocalOnly().get_event(make_claim_scope("user"), SOME)
    assert whole.event.sampling_probability == 0.01
    assert whole.event.event == GaussianDpEvent(pytest.approx(0.09))


def test_removing_a_rating_may_reverse_a_clipped_gradient() -> None:
    """Per user one rating moves the sum by almost 2 C; so the charge per rating is for 2 C."""
    u, v, clip = np.full((1, 1), 1e-3), np.array([[5.0], [5.0]]), 0.1
    found = []
    for kept in ([[0.005 - 9.0, 5.005]], [[0.0, 5.005]]):  # errors 9 and -5
        table: Any = sparse.csr_array(np.array(kept))
        of_u, of_v = descent.sum_gradients(u, v, table, Clipping.make_scaling(clip, "user"))
        found.append(np.concatenate([of_u, of_v]).ravel())
    moved = float(np.linalg.norm(found[0] - found[1]))
    assert 1.99 * clip < moved <= 2 * clip
    z = LocalOnly().noise_multiplier
    for target in (LocalOnly(unit="user"), VflSgdmf(unit="user", tuning=0)):
        event: Any = target.get_event(make_claim_scope("rating"), SOME)
        while not isinstance(event, GaussianDpEvent):
            event = event.event
        # VFL's noise is for theta = 5 ratings of a user; a trimmed rating takes one's place
        room = 1.0 if isinstance(target, LocalOnly) else target.trim
        assert event.noise_multiplier == pytest.approx(z * room / 2)


def test_device_messages_differ_by_the_charged_distance() -> None:
    """One mean per input, along the direction that does not depend on the drawn rating."""
    size, factors = 4000, 3
    target = LflSgdmf(factors=factors, noise_multiplier=1.0, fitting=200)
    first = np.zeros((2, factors), np.float32)
    first[0, 1], first[1, 0] = 1e-4 * math.sqrt(5), math.sqrt(5)
    sent = target.upload(
        Interactions.create(np.array([[5.0, 5.0], [5.0, 0.0]])),
        {"items": np.zeros((2, factors), np.float32), "first": first},
        np.random.default_rng(3),
        messages_per_client=size,
    ).components["update"]
    messages = sent.to_dense(np.arange(2 * size)).astype(float).reshape(2, size, -1)
    b, a = np.eye(factors)[1], np.eye(factors)[0]
    along = np.concatenate([a / 2 - b, a / 2])
    along /= np.linalg.norm(along)
    seen = -(messages @ along)
    noise = target.sigma * math.sqrt(1 / 0.7)  # of the only device
    moved = seen[0].mean() - seen[1].mean()
    error = 6 * noise * math.sqrt(2 / size)
    assert moved == pytest.approx(find_message_distance(5.0, factors, 200), abs=error + 0.05 * ONE)
    assert seen[0].std() == pytest.approx(noise, rel=6 / math.sqrt(2 * size) + 0.01)


def test_turned_embeddings_differ_by_root_three_halves() -> None:
    assert find_message_distance(5.0, 2, 10_000) == pytest.approx(math.sqrt(1.5) * ONE, rel=0.03)
    assert ONE < find_message_distance(5.0, 20, 20) < math.sqrt(1.5) * ONE
    assert find_message_distance(5.0, 1, 20) == ONE
    low, high = (find_message_distance(most, 2, 500) for most in (2.0, 5.0))
    assert low == pytest.approx(high * 0.4**1.5)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_repaired_noise_does_not_save_the_promise_for_a_rating(dropout: float) -> None:
    target, scope = LflSgdmf(as_published=False, dropout=dropout), ("rating", Vantage.AGGREGATE)
    found, one = (
        next(f for f in judge(target, sizes) if f.scope == make_claim_scope(*scope))
        for sizes in (Population(n_users=200, n_items=items) for items in (50, 1))
    )
    assert found.verdict is Verdict.NO_CLAIM  # Theorem 5 names no unit
    assert found.measured.epsilon > found.claim.epsilon
    assert one.verdict is Verdict.UNSUBSTANTIATED
