"""PrivRec, its baselines and DP-PrivRec: messages, steps, clipping, noise, utility."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Vantage
from fedrec_auditor.accountants.theorems.neighbours import compute_attained_epsilon
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.papers.privrec import systems
from fedrec_auditor.targets.papers.privrec.meta_learned import compute_l2_norms as lengths
from fedrec_auditor.targets.papers.privrec.network import DeviceExamples
from fedrec_auditor.targets.papers.privrec.systems import BIT, CLIP, DpPrivrec, FcfMeta, Privrec
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import HoldOut, Population
from fedrec_auditor.targets.transcript import Uploads

PAPER = Paper.load("fedrec_auditor.targets.papers.privrec")
SMALL = Privrec(rounds=2, clients=6, local_epochs=2, embedding=4, width=16, item_ids=True)


def make_data(users: int = 20, items: int = 25, seed: int = 0) -> Interactions:
    return Synthetic(n_users=users, n_items=items, profile=6.0, tastes=3, seed=seed).load()


def test_uploads_name_items_and_attributes_of_their_user() -> None:
    data, system = make_data(), replace(SMALL, width=64)
    broadcast = system.init_model(data, np.random.default_rng(1))
    uploads = system.upload(data, broadcast, np.random.default_rng(2))
    examples = DeviceExamples.draw_examples(
        data, Streams.spawn(np.random.default_rng(2), 20), negatives=system.negatives
    )
    item = uploads.components["item"]
    for user in range(20):
        trained = np.sort(examples.item_ids[user, : examples.n_examples[user]])
        sent = np.flatnonzero(item.flag_sent_rows(np.array([user])))
        np.testing.assert_array_equal(sent, trained)
        assert (np.diff(item.row_ids[item.indptr[user] : item.indptr[user + 1]]) > 0).all()
    for key, attribute in data.attributes.items():
        part = uploads.components[f"user.{key}"]
        np.testing.assert_array_equal(part.row_ids, attribute.codes)


def test_the_server_moves_by_the_mean_change() -> None:
    data, system = make_data(), replace(SMALL, server_rate=0.7, rounds=3)
    run = system.run(data, np.random.default_rng(3))
    models = [r.broadcast for r in run.transcript.rounds] + [run.transcript.published_model]
    for one, before, after in zip(run.transcript.rounds, models[:-1], models[1:], strict=True):
        assert len(one.uploads.users) == 6
        for name, component in one.uploads.components.items():
            mean = component.to_dense(np.arange(6)).mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(
                after[name], before[name] + 0.7 * mean, rtol=1e-5, atol=1e-6, err_msg=name
            )


def test_clients_are_drawn_without_replacement() -> None:
    data = make_data(users=9)
    run = replace(SMALL, rounds=40, clients=4, local_epochs=1).run(data, np.random.default_rng(0))
    drawn = [r.uploads.users for r in run.transcript.rounds]
    assert all(len(set(users.tolist())) == 4 for users in drawn)
    assert set(np.concatenate(drawn).tolist()) == set(range(9))  # missed: 9 (5/9)^40 = 5e-10


@pytest.mark.parametrize("kind", [Privrec, systems.PrivrecCen, DpPrivrec, systems.NnSelf])
def test_the_default_reads_features_only(kind: type[Privrec]) -> None:
    """As section 2.1 has it; embeddings of item numbers are a setting."""
    data = make_data()
    first = kind().init_model(data, np.random.default_rng(0))
    assert "genre" in first
    assert "item" not in first
    assert "item" in kind(item_ids=True).init_model(data, np.random.default_rng(0))


def test_items_of_equal_genres_tie_without_item_embeddings() -> None:
    data, system = make_data(), replace(SMALL, item_ids=False)
    run = system.run(data, np.random.default_rng(0))
    assert "item" not in (run.transcript.published_model or {})
    genres = data.genres.copy()
    genres[1] = genres[0]
    scores = system.score(run.model, replace(data, genres=genres), np.arange(20))
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], rtol=1e-5)


def test_the_central_version_learns_the_same_and_reveals_the_result() -> None:
    data = Synthetic(n_users=15, n_items=12, profile=5.0, tastes=2).load()
    settings = {"rounds": 3, "clients": 5, "local_epochs": 2, "embedding": 4, "width": 16}
    steps: list[tuple[int, int]] = []
    central = systems.PrivrecCen(**settings).run(
        data, np.random.default_rng(4), lambda done, of: steps.append((done, of))
    )
    federated = Privrec(**settings).run(data, np.random.default_rng(4))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert central.transcript.rounds == ()
    assert central.transcript.public.protocol_vantage is Vantage.RELEASE
    one, two = central.transcript.published_model, federated.transcript.published_model
    assert one.keys() == two.keys()
    for name, part in one.items():
        np.testing.assert_array_equal(part, two[name])


SUMMED = systems.NnSelf(rounds=2, clients=4, embedding=4, width=64)


def test_the_server_adds_the_sum_of_the_messages() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    run = replace(SUMMED, server_rate=0.3).run(data, np.random.default_rng(1))
    first, second = run.transcript.rounds
    for name, component in first.uploads.components.items():
        np.testing.assert_allclose(
            (second.broadcast or {})[name],
            (first.broadcast or {})[name] + 0.3 * component.sum_all(),
            rtol=1e-5,
            atol=1e-6,
        )


def test_users_with_one_item_have_a_query_and_no_support() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    one = data.keep_ratings(
        np.diff(data.ratings.indptr)
        .cumsum()
        .searchsorted(np.arange(data.ratings.nnz), side="right")
        != 3
    )
    broadcast = SUMMED.init_model(one, np.random.default_rng(0))
    sent = SUMMED.upload(one, broadcast, np.random.default_rng(0))
    assert one.ratings[[3]].nnz == 0
    assert not sent.components["mlp1.weight"].to_dense(np.array([3])).any()
    assert sent.components["mlp1.weight"].to_dense(np.array([0])).any()


def test_side_features_are_not_read() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    system = systems.FoflSelf(rounds=2, clients=4, local_epochs=2, embedding=4, width=16)
    bare = replace(data, attributes={}, genres=None, genre_names=())
    one, two = (system.run(d, np.random.default_rng(1)) for d in (data, bare))
    assert set(one.transcript.published_model) == {"item", "output.weight", "output.bias"} | {
        f"mlp{layer}.{part}" for layer in range(1, 5) for part in ("weight", "bias")
    }
    for name, part in one.transcript.published_model.items():
        np.testing.assert_array_equal(part, (two.transcript.published_model or {})[name])
    assert system.training_settings.proximal_weight == 0.0


def test_fcf_meta_trains_as_fcf_and_is_evaluated_as_privrec() -> None:
    data = Synthetic(n_users=20, n_items=15, profile=5.0, tastes=2).load()
    one, two = (kind(rounds=3).run(data, np.random.default_rng(0)) for kind in (FcfMeta, Fcf))
    np.testing.assert_array_equal(*(run.transcript.published_model["items"] for run in (one, two)))
    assert FcfMeta.evaluation == Privrec.evaluation
    assert Fcf.evaluation.split is HoldOut.LEAVE_LAST_OUT


def test_a_new_device_fits_its_vector_to_half_of_its_items() -> None:
    """Two tastes without a common item: a new user's held-out item is of the user's own taste."""
    data = Synthetic(n_users=120, n_items=60, profile=12.0, tastes=2).load()
    system, rng = FcfMeta(), np.random.default_rng(0)
    held = utility.hold_out(system.evaluation, data, rng)
    assert held.training_data.n_users == 96
    model = system.run(held.training_data, rng).model
    rows = held.evaluate(system, model, confidence=0.95, rng=rng)
    (hits,) = (row for row in rows if row.metric == "HR@20")
    assert hits.ci_low > hits.random
    printed = PAPER.find_table("Table 1").get_row("FCF")
    assert (hits.paper_value, hits.protocol) == (printed["HR@20"], "held-out users")


PRIVATE = DpPrivrec(rounds=2, clients=6, local_epochs=2, embedding=4, width=16)


PEERS = Scope.parse("user / replace / peers / training")


class Fixed:
    """Replacement for a generator: every normal draw is ``value``."""

    def __init__(self, value: float) -> None:
        self.value = value

    def standard_normal(self, size: Any = None) -> Any:
        return self.value if size is None else np.full(size, self.value)


def make_uploads(system: DpPrivrec, clip: float) -> tuple[Uploads, Uploads]:
    """Messages of devices with this clipping bound, and messages of PrivRec."""
    data = make_data()
    broadcast = system.init_model(data, np.random.default_rng(0)) | {CLIP: np.array(clip)}
    plain = Privrec(**{f.name: getattr(system, f.name) for f in fields(Privrec)})
    model = {k: v for k, v in broadcast.items() if k != CLIP}
    return (
        system.upload(data, broadcast, np.random.default_rng(1)),
        plain.upload(data, model, np.random.default_rng(1)),
    )


def flatten(sent: Uploads) -> np.ndarray:
    n = np.arange(len(sent.users))
    parts = [c.to_dense(n).reshape(len(n), -1) for k, c in sent.components.items() if k != BIT]
    return np.concatenate(parts, axis=1).astype(np.float64)


@pytest.mark.parametrize("as_published", [True, False])
def test_the_whole_change_is_scaled_to_the_bound(as_published: bool) -> None:
    system = replace(PRIVATE, as_published=as_published)
    _, plain = make_uploads(system, 1.0)
    norms = np.linalg.norm(flatten(plain), axis=1)
    np.testing.assert_allclose(lengths(plain.components), norms)
    clip = float(np.median(norms))
    sent, _ = make_uploads(system, clip)
    expected = flatten(plain) * np.minimum(1.0, clip / norms)[:, None]
    np.testing.assert_allclose(flatten(sent), expected, rtol=1e-6, atol=1e-9)
    bits = sent.components[BIT].to_dense(np.arange(20))
    np.testing.assert_array_equal(bits, np.ones(20) if as_published else norms <= clip)


def test_negative_printed_bounds_reverse_changes() -> None:
    sent, plain = make_uploads(PRIVATE, -0.5)
    norms = np.linalg.norm(flatten(plain), axis=1, keepdims=True)
    np.testing.assert_allclose(flatten(sent), -0.5 * flatten(plain) / norms, rtol=1e-6, atol=1e-9)
    assert not sent.components[BIT].to_dense(np.arange(20)).any()


@pytest.mark.parametrize("as_published", [True, False])
def test_the_server_does_what_the_mechanism_states(as_published: bool) -> None:
    """Center and noise of a round, computed with normal draws of 0 and 1."""
    system = replace(
        PRIVATE, server_rate=0.6, as_published=as_published, clients=20, initial_clip=2.0
    )
    sent, _ = make_uploads(system, 2.0)
    model = system.init_model(make_data(), np.random.default_rng(0))
    at_0, at_1 = (system.update_model(model, sent, Fixed(v)) for v in (0.0, 1.0))
    mechanism = system.make_round_mechanism(Population(n_users=20, n_items=25))
    average, share = mechanism.noise_scale
    step = 1.0 if as_published else 0.6  # the mechanism's average, before the step size
    mean = flatten(sent).mean(axis=0)
    assert at_0.keys() == model.keys()
    at = 0
    for name, part in sent.components.items():
        if name != BIT:
            size = int(np.prod(part.shape))
            moved = (at_0[name] - model[name]).ravel()
            np.testing.assert_allclose(moved, 0.6 * mean[at : at + size], atol=1e-6)
            np.testing.assert_allclose(at_1[name] - at_0[name], step * average, rtol=1e-4)
            at += size
    turned = system.update_model({**model, CLIP: -model[CLIP]}, sent, Fixed(1.0))  # S below zero
    assert all(np.array_equal(turned[name], at_1[name]) for name in model if name != CLIP)
    bits = sent.components[BIT].to_dense(np.arange(20))
    moved = float(at_0[CLIP] - model[CLIP])
    assert moved == pytest.approx(-system.clip_rate * (bits.mean() - 0.9))
    assert float(at_1[CLIP] - at_0[CLIP]) == pytest.approx(-system.clip_rate * share)
    assert average == pytest.approx(2 * 2.0 * 1.0 / 20 / math.sqrt(0.3))
    assert share == pytest.approx(2 * 1.0 / 20 / math.sqrt(0.7))


def run_bounds(system: DpPrivrec, norm: float, rounds: int) -> list[float]:
    """Bounds over a noiseless training in which every change has this norm."""
    bounds, model = [], {"output.bias": np.zeros(()), CLIP: np.array(system.initial_clip)}
    fits: Callable[[float], bool] = (
        (lambda s: s >= 0) if system.as_published else (lambda s: norm <= s)
    )
    for _ in range(rounds):
        bits = Dense(np.full(6, float(fits(float(model[CLIP])))), Payload.BITS)
        sent = Uploads(np.arange(6), {"output.bias": Dense(np.zeros(6), Payload.CHANGE), BIT: bits})
        model = system.update_model(model, sent, Fixed(0.0))
        bounds.append(float(model[CLIP]))
    return bounds


def test_the_printed_bound_drifts_through_zero() -> None:
    system = DpPrivrec(initial_clip=40.0)
    found = run_bounds(system, norm=10.0, rounds=600)
    np.testing.assert_allclose(found[:399], 40 - 0.1 * np.arange(1, 400), atol=1e-9)
    assert min(found) < 0
    assert max(found[420:]) < 1.0  # about zero from there on
    mended = run_bounds(replace(system, as_published=False), norm=10.0, rounds=600)
    assert mended[-1] == pytest.approx(10.0, abs=1.0)


def test_the_servers_noise_is_not_in_uploads() -> None:
    data = make_data()
    run = PRIVATE.run(data, np.random.default_rng(0))
    first, second = run.transcript.rounds
    mean = first.uploads.components["mlp1.weight"].sum_all() / 6
    noise = second.broadcast["mlp1.weight"] - first.broadcast["mlp1.weight"] - mean
    scale = 2 * 40.0 / 6 / math.sqrt(0.3)
    # 320 weights or more: the spread is within 35%, except with probability 1e-15
    assert noise.std() == pytest.approx(scale, rel=0.35)
    assert lengths({k: c for k, c in second.uploads.components.items() if k != BIT}).max() < 41
    assert np.isfinite(PRIVATE.score(run.model, data, np.arange(20))).all()


def test_events_by_vantage_and_sampling() -> None:
    system, population = DpPrivrec(), Population(n_users=4800, n_items=3706)
    first = GaussianDpEvent(1 / math.sqrt(1 - 0.7))
    for vantage, others in ((Vantage.PEERS, 4799), (Vantage.RELEASE, 4800)):
        event = system.get_event(replace(PEERS, vantage=vantage), population)
        sampled = SampledWithoutReplacementDpEvent(others, 30, first)
        assert event == SelfComposedDpEvent(sampled, 1000)  # a client knows its own participation
    make_local_scope = replace(PEERS, adjacency=Adjacency.ANY_PAIR)
    assert system.get_event(make_local_scope, population) == SelfComposedDpEvent(first, 1000)
    gone = replace(PEERS, adjacency=Adjacency.ADD_REMOVE)
    poisson = PoissonSampledDpEvent(30 / 4799, first)
    assert system.get_event(gone, population) == SelfComposedDpEvent(poisson, 1000)
    one_round = replace(PEERS, horizon=Horizon.ROUND)
    sampled = SampledWithoutReplacementDpEvent(4799, 30, first)
    assert system.get_event(one_round, population) == SelfComposedDpEvent(sampled, 1)
    for vantage in (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE):
        event = system.get_event(replace(PEERS, vantage=vantage), population)
        assert isinstance(event, NonPrivateDpEvent)
    everyone = Population(n_users=30, n_items=20)
    assert system.get_event(PEERS, everyone) == SelfComposedDpEvent(first, 1000)
    mended = replace(system, as_published=False, server_rate=5.0)
    joint = mended.get_event(make_local_scope, population).event.noise_multiplier
    assert joint == pytest.approx(1 / math.sqrt(0.3 + 0.7 / 4))
    printed = replace(system, server_rate=5.0)  # line 9: the step size costs nothing
    assert printed.get_event(make_local_scope, population).event.noise_multiplier < 0.4


def test_full_participation_has_the_distribution_of_its_event() -> None:
    system, everyone = replace(PRIVATE, rounds=7), Population(n_users=6, n_items=20)
    mechanism = system.get_mechanism(PEERS, everyone)
    mu = math.sqrt(7 * 0.3)
    assert mechanism.delta(1.3) == pytest.approx(compute_gaussian_delta(mu, 1.3))
    assert system.get_mechanism(replace(PEERS, vantage=Vantage.SERVER), everyone) is not None
    gone = replace(PEERS, adjacency=Adjacency.ADD_REMOVE)
    assert system.get_mechanism(gone, everyone) is None  # distance 2S/M of two users


@pytest.mark.parametrize(("step", "violated"), [(5.0, True), (1.0, False)])
def test_a_sampled_training_has_a_lower_bound(step: float, violated: bool) -> None:
    """30 of 4,800 in 1,000 rounds: the bound of ``compute_attained_epsilon``, near the library's
    upper.
    """
    system, population = DpPrivrec(server_rate=step), Population(n_users=4800, n_items=3706)
    (scoped,) = [q for q in system.get_claims(population) if q.delta == 1e-6 and q.scope == PEERS]
    mechanism = system.get_mechanism(PEERS, population)
    bound = find_exact_bound(mechanism, PEERS, 1e-6).epsilon
    multiplier = 1 / (step * math.sqrt(0.3))
    drawn = dp.SampledWithoutReplacementDpEvent(4800, 30, dp.GaussianDpEvent(multiplier))
    attained = compute_attained_epsilon(dp.SelfComposedDpEvent(drawn, 1000), 1e-6)
    assert bound == pytest.approx(attained, rel=1e-3)
    library = from_gaussian_mechanism(
        multiplier,
        value_discretization_interval=1e-4 * step,
        sampling_prob=30 / 4800,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    ).self_compose(1000)
    assert 0.995 < bound / library.get_epsilon_for_delta(1e-6) < 1.0005
    assert (bound > scoped.claim.epsilon) is violated


def test_devices_without_change_return_none() -> None:
    system, nobody = PRIVATE, Interactions.create(np.zeros((1, 25)))
    broadcast = system.init_model(nobody, np.random.default_rng(0)) | {CLIP: np.array(-50.0)}
    assert not flatten(system.upload(nobody, broadcast, np.random.default_rng(1))).any()


def test_the_printed_figures_are_claimed() -> None:
    system, population = DpPrivrec(), Population(n_users=4800, n_items=3706)
    row = PAPER.find_table("Table 3").get_row("30 / 4800")
    printed = {float(delta): epsilon for delta, epsilon in row.items()}
    asked = [scoped for scoped in system.get_claims(population) if scoped.scope == PEERS]
    assert [scoped.delta for scoped in asked] == [1e-6, 1e-8, 1e-4]
    for scoped in asked:
        assert (scoped.claim.scope, scoped.claim.delta) == (PEERS, scoped.delta)
        assert scoped.claim.epsilon == pytest.approx(printed[scoped.delta], abs=2e-4)
    assert [scoped.epsilon_by_delta is None for scoped in asked] == [False, True, True]


def test_questions_cover_the_upload() -> None:
    claims = DpPrivrec().get_claims(Population(n_users=4800, n_items=3706))
    server = [q for q in claims if q.scope.vantage is Vantage.SERVER]
    assert len(server) == 1
    assert "introduction" in server[0].note
    assert server[0].claim == claims[0].claim  # claims on models; the paper has no other
    assert server[0].claim.scope == PEERS


@pytest.mark.parametrize(
    ("step", "as_published", "violated"),
    [(4.0, True, True), (4.0, False, False), (1.0, True, False)],
)
def test_a_step_above_one_breaks_the_multiplier_of_a_round(
    step: float, as_published: bool, violated: bool
) -> None:
    """Entry 12 of the catalogue: multiplier z/(alpha3 sqrt(1-h)), where the proof has z."""
    system = DpPrivrec(server_rate=step, as_published=as_published)
    everyone = Population(n_users=30, n_items=10)
    (scoped,) = [q for q in system.get_claims(everyone) if q.scope.horizon is Horizon.ROUND]
    assert scoped.claim.epsilon == pytest.approx(4.8866, abs=1e-4)  # one Gaussian of z = 1
    mechanism = system.get_mechanism(scoped.scope, everyone)
    bound = find_exact_bound(mechanism, scoped.scope, scoped.delta)
    assert (bound.epsilon > scoped.claim.epsilon) is violated


@pytest.mark.parametrize(("multiplier", "is_broken"), [(1.0, True), (0.003, False)])
def test_the_noise_of_the_tables_breaks_the_training(multiplier: float, is_broken: bool) -> None:
    """A 300th of the noise does not; devices that start from broken weights overflow."""
    system = DpPrivrec(rounds=3, multiplier=multiplier)
    rounds = system.run(make_data(60), np.random.default_rng(0)).transcript.rounds
    first, *later = (
        lengths({k: v for k, v in one.uploads.components.items() if k != BIT}) for one in rounds
    )
    assert first.all()
    assert np.mean(np.concatenate(later) == 0) == pytest.approx(float(is_broken), abs=0.1)
