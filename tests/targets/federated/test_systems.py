"""Composed systems.

The server's Adam step is compared with Algorithm 2 of Reddi et al., entry by entry. Rounds, means,
distributions, claims and games follow from learner, protection and route. A paper's table of
composed systems yields ordinary classes; errors in the table are named.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import cloudpickle
import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import PureDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.statements import Horizon, Scope, Unit, Vantage, make_local_scope
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.judging.accounting import find_upper_bound, list_accountants
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import make_plan, make_target
from fedrec_auditor.auditor.testing.targets import measure_bound
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.federated import learners, protections
from fedrec_auditor.targets.federated.base import Learner
from fedrec_auditor.targets.federated.protections import LaplaceProtection, ObjectiveProtection
from fedrec_auditor.targets.federated.routes import SecureAggregation, Shuffler
from fedrec_auditor.targets.federated.systems import FedAdam, FederatedSystem
from fedrec_auditor.targets.papers.fedrec_apm import systems as fedrec_apm
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRec, FedRecApm, FGerai
from fedrec_auditor.targets.systems.base import DesignedPair, HoldOut, Population, UtilityTest
from fedrec_auditor.targets.transcript import Uploads


def test_the_step_is_that_of_the_algorithm() -> None:
    rng, adam = np.random.default_rng(0), FedAdam(0.1)
    model = {"item": rng.normal(size=(3, 2)).astype(np.float32), "user.b": np.zeros(1, np.float32)}
    state = {(n, at): (float(x), 0.0, 0.0) for n, t in model.items() for at, x in np.ndenumerate(t)}
    for _ in range(5):
        mean = {n: rng.normal(size=t.shape).astype(np.float32) for n, t in model.items()}
        for (name, at), (x, m, v) in state.items():
            delta = float(mean[name][at]) - x
            m, v = 0.9 * m + 0.1 * delta, 0.99 * v + 0.01 * delta**2
            state[name, at] = x + 0.1 * m / (v**0.5 + 1e-8), m, v
        model = adam.update_model(model, mean)
        for (name, at), (x, _, _) in state.items():
            np.testing.assert_allclose(model[name][at], x, rtol=1e-4, atol=1e-5)


def test_adam_moves_rows_equally_and_keeps_unmoved_rows() -> None:
    model = {"item": np.zeros((3, 2), np.float32)}
    mean = {"item": np.array([[0.5, -0.5], [5e-4, -5e-4], [0.0, 0.0]], np.float32)}
    moved = FedAdam(0.1).update_model(model, mean)["item"]
    np.testing.assert_allclose(moved, [[0.1, -0.1], [0.1, -0.1], [0.0, 0.0]], rtol=1e-3)


ML_100K = Population(n_users=943, n_items=1682)
LEARNERS = (learners.GcnLearner, learners.NcfLearner, learners.MfLearner, learners.LightGcnLearner)


@dataclass(frozen=True, kw_only=True)
class Small(FederatedSystem):
    """A small system of any composition."""

    learner: Learner = field(default_factory=lambda: learners.GcnLearner(dimension=3))
    rounds: int = 3

    name = "small"
    paper = "nobody's"
    place = "nowhere"


def make_data(users: int = 12, items: int = 15) -> Interactions:
    return Synthetic(n_users=users, n_items=items, profile=4.0, tastes=2).load()


def make_server_scope(unit: Unit, horizon: Horizon = Horizon.ROUND) -> Scope:
    return make_local_scope(unit, Vantage.SERVER, horizon)


def test_the_next_model_is_the_mean_of_the_uploads() -> None:
    system = Small(protection=LaplaceProtection(epsilon=2.0))
    transcript = system.run(make_data(), np.random.default_rng(0)).transcript
    after = [*(r.broadcast for r in transcript.rounds[1:]), transcript.published_model]
    for one, model in zip(transcript.rounds, after, strict=True):
        for name, component in one.uploads.components.items():
            mean = component.to_dense(np.arange(len(component))).mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(model[name], mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("share", "count"), [(0.5, 6), (0.1, 1), (1.0, 12), (0.01, 1)])
def test_participants_are_redrawn_every_round(share: float, count: int) -> None:
    system = Small(share=share, rounds=8)
    rounds = system.run(make_data(), np.random.default_rng(0)).transcript.rounds
    senders = [one.uploads.users for one in rounds]
    assert {len(users) for users in senders} == {count}
    assert all((np.diff(users) > 0).all() for users in senders)
    assert len({tuple(users) for users in senders}) > (1 if count < 12 else 0)


def test_vantages_see_what_each_route_reveals() -> None:
    """Sums and pools do not depend on the order of the senders."""
    for route in (SecureAggregation(), Shuffler()):
        system = Small(route=route, protection=LaplaceProtection(), rounds=1)
        transcript = system.run(make_data(), np.random.default_rng(0)).transcript
        assert transcript.public.protocol_vantage is route.vantage
        (one,) = transcript.rounds
        order = np.random.default_rng(1).permutation(len(one.uploads.users))
        swapped = Uploads(
            one.uploads.users, {n: c.take(order) for n, c in one.uploads.components.items()}
        )
        other = replace(transcript, rounds=(replace(one, uploads=swapped),))
        glimpses = [
            t.view(route.vantage, np.random.default_rng(2)).rounds[0] for t in (transcript, other)
        ]
        assert all(glimpse.uploads is None for glimpse in glimpses)
        for name in one.uploads.components:
            if glimpses[0].aggregate is not None:
                sums = [glimpse.aggregate[name] for glimpse in glimpses]
                np.testing.assert_allclose(*sums, rtol=1e-6, atol=1e-9)
            else:
                pools = [g.shuffled[name].to_dense(np.arange(len(order))) for g in glimpses]
                rows = [np.sort(p.reshape(len(order), -1), axis=0) for p in pools]
                np.testing.assert_array_equal(*rows)


def test_entries_of_an_upload_include_the_features_of_table_i() -> None:
    counts = FedRecApm().count_entries(ML_100K)
    assert counts == {
        "user": 64 * 44 + 2 * 64 * 64 + 64,
        "item": 64 * 1682,
        "mlp1": 64 * 128 + 64,
        "mlp2": 64 + 1,
    }
    bare = Population(n_users=30, n_items=20, n_features=18)
    assert FedRecApm().count_entries(bare)["user"] == 64 * 18 + 2 * 64 * 64 + 64


def test_apm_keeps_the_claim_per_parameter_but_not_per_upload() -> None:
    """Entry 17: 60 per entry of the item table, and of order 10^6 to 10^7 per round in all."""
    system = FedRecApm(rounds=3)
    claims = system.get_claims(ML_100K)
    assert [(q.scope.unit, q.scope.horizon) for q in claims] == [
        (Unit.COORDINATE, Horizon.ROUND),
        (Unit.USER, Horizon.ROUND),
        (Unit.USER, Horizon.TRAINING),
        (Unit.ATTRIBUTE, Horizon.ROUND),
    ]
    findings = [
        accounting.judge_scoped_claim(
            system,
            scoped,
            ML_100K,
            exact_bounds=accounting.compute_exact_bounds(system, ML_100K),
            accountants=list_accountants(),
        )
        for scoped in claims
    ]
    assert [f.verdict for f in findings] == ["CONSISTENT"] + 3 * ["INCOMPARABLE"]
    whole = 64 * 44 * 30 + 247_680 + 64 * 1682 * 60 + (64 * 128 + 64) * 40 + 65 * 50
    mechanism = system.get_mechanism(make_server_scope(Unit.USER), ML_100K)
    assert find_exact_bound(mechanism, make_server_scope(Unit.USER)).epsilon == pytest.approx(whole)
    for horizon, rounds in ((Horizon.ROUND, 1), (Horizon.TRAINING, 3)):
        proved = find_upper_bound(
            system, make_server_scope(Unit.USER, horizon), ML_100K, 0.0, list_accountants()
        )
        assert proved.epsilon == pytest.approx(rounds * whole)
    assert f"{whole:,}" in claims[1].note
    assert f"{3 * whole:,}" in claims[2].note


def test_an_entry_is_charged_for_every_round_of_its_user() -> None:
    system = Small(protection=protections.AdaptiveLaplace(), rounds=4)
    scope = make_server_scope(Unit.COORDINATE, Horizon.TRAINING)
    mechanism = system.get_mechanism(scope, ML_100K)
    assert find_exact_bound(mechanism, scope).epsilon == pytest.approx(4 * 60.0)
    assert system.get_event(scope, ML_100K).count == 4


def test_epsilon_without_noise_is_infinite_from_every_vantage() -> None:
    for changed in ({}, {"route": SecureAggregation()}, {"protection": ObjectiveProtection()}):
        for vantage in Vantage:
            scope = make_local_scope(Unit.USER, vantage, Horizon.TRAINING)
            assert Small(**changed).get_event(scope, ML_100K) == NonPrivateDpEvent()


def test_noise_does_not_hide_participation() -> None:
    scope = Scope.parse("user / add-remove / server / round")
    assert Small(protection=LaplaceProtection()).get_event(scope, ML_100K) == NonPrivateDpEvent()
    assert Small(protection=LaplaceProtection()).get_mechanism(scope, ML_100K) is None


def test_shuffling_amplifies_only_whole_uploads_of_small_budget() -> None:
    counts = sum(Small().count_entries(ML_100K).values())
    scope = make_local_scope(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)
    cheap = Small(protection=LaplaceProtection(epsilon=1.0 / counts), route=Shuffler())
    dear = Small(protection=LaplaceProtection(epsilon=30.0), route=Shuffler())
    assert cheap.get_event(scope, ML_100K) == SelfComposedDpEvent(
        ShuffledDpEvent(cheap.protection.get_upload_epsilon(cheap.count_entries(ML_100K)), 472), 3
    )
    shuffled = [
        find_upper_bound(system, scope, ML_100K, 1e-6, list_accountants())
        for system in (cheap, dear)
    ]
    assert shuffled[0].epsilon < 2.0  # 3 rounds of epsilon 1, unshuffled
    assert shuffled[1].epsilon > 0.9 * 3 * 30 * counts
    # the proxy shuffles messages, not entries: the other entries identify an entry's message
    entry = make_local_scope(Unit.COORDINATE, Vantage.SHUFFLED, Horizon.ROUND)
    assert dear.get_event(entry, ML_100K) == PureDpEvent(30.0)
    # whoever colludes with the proxy has the server's view
    assert not isinstance(dear.get_event(make_server_scope(Unit.USER), ML_100K), ShuffledDpEvent)


def test_many_noises_are_charged_separately_and_large_ones_jointly() -> None:
    small, large = (Small(protection=LaplaceProtection(epsilon=e)) for e in (0.01, 30.0))
    exact = find_upper_bound(small, make_server_scope(Unit.USER), ML_100K, 1e-6, list_accountants())
    assert exact.epsilon < 0.5 * small.protection.get_upload_epsilon(small.count_entries(ML_100K))
    assert large.get_event(make_server_scope(Unit.USER), ML_100K) == PureDpEvent(
        large.protection.get_upload_epsilon(large.count_entries(ML_100K))
    )


def test_gaussian_noise_needs_a_delta() -> None:
    system = Small(protection=protections.GaussianProtection(sigma=5.0))
    asked = system.get_claims(Population(n_users=9, n_items=4))
    assert [q.delta for q in asked] == [0.0, 1e-5, 1e-5]
    bounds = accounting.compute_exact_bounds(system, Population(n_users=9, n_items=4))
    by_scope = {(b.scope.unit, b.delta): b.epsilon for b in bounds}
    assert by_scope[Unit.USER, 0.0] == math.inf
    assert 0 < by_scope[Unit.COORDINATE, 1e-5] < by_scope[Unit.USER, 1e-5] < math.inf


def measure(pair: DesignedPair) -> float:
    """Lower bound from the local game on the messages of a pair."""
    return measure_bound(pair.target, Population(n_users=2, n_items=2), pair).epsilon


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    "protection", [LaplaceProtection(epsilon=2.0), protections.AdaptiveLaplace(item=2.0)]
)
def test_designed_pairs_reach_both_ends_for_every_learner(
    learner: type, protection: LaplaceProtection | protections.AdaptiveLaplace
) -> None:
    """With small budgets samples suffice: epsilon 2 is measured as nearly 2."""
    (pair,) = Small(learner=learner(dimension=8), protection=protection).design_pairs()
    assert 1.8 < measure(pair) <= 2.0
    clip, size = protection.get_group_noise("item").clip, 2000
    sent = pair.target.upload(pair.profiles, pair.broadcast, np.random.default_rng(4), size)
    entries = pair.reducer(sent.components).reshape(2, size)
    np.testing.assert_allclose((entries[0] > clip).mean(), 0.5, atol=0.08)
    np.testing.assert_allclose((entries[1] < -clip).mean(), 0.5, atol=0.08)


def test_designed_pairs_detect_half_the_noise() -> None:
    """Noise of scale delta / epsilon instead of 2 delta / epsilon doubles epsilon."""

    @dataclass(frozen=True, kw_only=True)
    class HalfNoise(LaplaceProtection):
        """Broken: half the noise that the budget needs."""

        def get_group_noise(self, group: str) -> object:
            right = super().get_group_noise(group)
            return replace(right, scale=right.scale / 2)

    (pair,) = Small(protection=HalfNoise(epsilon=1.0)).design_pairs()
    assert measure(pair) > 1.5


@pytest.mark.parametrize("learner", LEARNERS)
def test_rows_without_noise_show_which_items_were_not_trained_on(learner: type) -> None:
    """Objective perturbation claims 10; 4 negatives of 11 items leave 7 rows unchanged."""
    (pair,) = Small(learner=learner(), protection=ObjectiveProtection()).design_pairs()
    assert measure(pair) > 6.0
    sent = pair.target.upload(pair.profiles, pair.broadcast, np.random.default_rng(4), 2000)
    moved = sent.components["item"].to_dense(np.arange(4000))[:, 0].any(axis=1).reshape(2, -1)
    assert moved[0].all()
    np.testing.assert_allclose(moved[1].mean(), 4 / 11, atol=0.08)
    scope = make_server_scope(Unit.INTERACTION)
    mechanism = Small(protection=ObjectiveProtection()).get_mechanism(scope, ML_100K)
    assert find_exact_bound(mechanism, scope).epsilon == math.inf


def test_unprinted_objectives_are_not_refuted() -> None:
    system = FGerai()
    exact = accounting.compute_exact_bounds(system, ML_100K)
    findings = {
        scoped.claim.scope.unit: accounting.judge_scoped_claim(
            system, scoped, ML_100K, exact_bounds=exact, accountants=list_accountants()
        )
        for scoped in system.get_claims(ML_100K)
    }
    objective = findings[Unit.INTERACTION]
    assert objective.verdict == "INCOMPARABLE"
    assert "the paper does not print" in objective.reason
    assert math.isinf(objective.measured.epsilon)
    assert findings[Unit.ATTRIBUTE].verdict == "CONSISTENT"


def test_features_are_perturbed_once_per_training() -> None:
    """Perturbing in every round would spend the epsilon of an attribute again."""
    prepared: list[int] = []

    @dataclass(frozen=True, kw_only=True)
    class Counting(ObjectiveProtection):
        def prepare_data(self, clients: object) -> object:
            prepared.append(len(clients))
            return super().prepare_data(clients)

    Small(protection=Counting(features=True)).run(make_data(), np.random.default_rng(0))
    assert prepared == [12]


def test_long_trainings_can_keep_their_last_rounds_only() -> None:
    whole = Small().run(make_data(), np.random.default_rng(0))
    for keep in (0, 1):
        run = Small().run(make_data(), np.random.default_rng(0), n_kept_rounds=keep)
        assert len(run.transcript.rounds) == keep
        for name, array in whole.model.arrays.items():
            np.testing.assert_array_equal(run.model.arrays[name], array)
    last, same = run.transcript.rounds[-1], whole.transcript.rounds[-1]
    every = np.arange(len(last.uploads.users))
    for name, component in same.uploads.components.items():
        np.testing.assert_array_equal(
            last.uploads.components[name].to_dense(every), component.to_dense(every)
        )


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_any_table_trains_and_scores(users: int, items: int, seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 8, (users, items)) - 2.0
    interactions = Interactions.create(np.maximum(table, 0.0))
    system = Small(learner=learners.MfLearner(dimension=2), rounds=1)
    run = system.run(interactions, np.random.default_rng(seed))
    scores = system.score(run.model, interactions, np.arange(users))
    assert scores.shape == (users, items)
    assert np.isfinite(scores).all()


def test_ratings_above_the_scale_count_as_the_best_rating() -> None:
    table = np.array([[1.0, 5.0, 40.0]])
    rated, limited = (Interactions.create(each) for each in (table, np.minimum(table, 5.0)))
    capped = FedRec().compute_user_features(limited)
    np.testing.assert_array_equal(FedRec().compute_user_features(rated), capped)
    assert (FedRec(best=40.0).compute_user_features(rated) != capped).any()


def test_plans_name_the_parts() -> None:
    plan = make_plan(
        {
            "targets": ["fedncf"],
            "settings": {
                "fedncf": {
                    "rounds": 5,
                    "protection": {"name": "laplace", "epsilon": 5.0},
                    "route": "shuffler",
                    "learner": {"name": "mf", "dimension": 4},
                }
            },
        }
    )
    target = make_target("fedncf", plan)
    parts = (target.rounds, target.protection, target.route)
    assert parts == (5, LaplaceProtection(epsilon=5.0), Shuffler())
    assert target.learner == learners.MfLearner(dimension=4)


def test_a_training_that_diverges_is_refused() -> None:
    """Scores of NaN would be ranked first."""
    with pytest.raises(InputError, match="learning_rate"):
        Small(learner=learners.GcnLearner(), learning_rate=100.0, optimizer="sgd").run(
            make_data(), np.random.default_rng(0)
        )


def test_clients_need_a_model() -> None:
    with pytest.raises(InputError, match="got none"):
        Small().upload(make_data(), None, np.random.default_rng(0))


CLAIMS = """
claim = []
[paper]
title = "Somebody: Theirs, 2030"
symbols = {}
threat = { place = "section 1", adversary = "the server", trusted = "nobody" }
"""
PRINTED = """
[[table]]
place = "Table 1"
data = "theirs"
protocol = "all items"
columns = ["HR@5"]
[table.rows]
Their-MF = [0.5]
"""
TABLE = """
evaluation = { split = "held-out ratings", cutoffs = [5] }
[system.their-mf]
type = "TheirMf"
summary = "Theirs."
doc = "And more."
place = "section 2"
unprotected = "fedmf"
settings.rounds = 3
settings.route = "shuffler"
settings.learner = { name = "mf", dimension = 4 }
settings.protection = { name = "laplace", epsilon = 2.0, every_epoch = true }
"""
MODULE = """
from fedrec_auditor.targets.federated.systems import make_class_loader
__getattr__ = make_class_loader(__name__)
"""
Write = Callable[[str], ModuleType]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes the table as a paper of another distribution; returns its module ``systems``."""
    folder = tmp_path / f"paper_{tmp_path.name}"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(table: str) -> ModuleType:
        files = {"__init__.py": "", "systems.py": MODULE, "systems.toml": table}
        for name, text in (files | {"claims.toml": CLAIMS, "printed.toml": PRINTED}).items():
            (folder / name).write_text(text, "utf-8")
        return importlib.import_module(f"{folder.name}.systems")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]


def test_a_table_row_is_a_system_of_its_paper(build: Write) -> None:
    module = build(TABLE)
    kind = module.TheirMf
    system = kind()
    assert system == kind(
        rounds=3,
        learner=learners.MfLearner(dimension=4),
        protection=LaplaceProtection(epsilon=2.0, every_epoch=True),
        route=Shuffler(),
    )
    assert (kind.__name__, kind.__module__) == ("TheirMf", module.__name__)
    assert inspect.getdoc(kind) == "Theirs.\n\nAnd more."
    assert (system.name, system.unprotected_name) == ("their-mf", "fedmf")
    assert system.evaluation == UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=(5,))
    assert system.paper == "Somebody: Theirs, 2030"
    assert [(one.metric, one.value, one.note) for one in system.reported_metrics] == [
        ("HR@5", 0.5, "data: theirs")
    ]
    claims = system.get_claims(Population(n_users=9, n_items=4))
    assert claims[0].claim.epsilon == 2.0
    assert {scoped.claim.source for scoped in claims} == {"Somebody: Theirs, 2030, section 2"}


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_table_systems_are_pickled_by_name(build: Write, dumps: Callable[[object], bytes]) -> None:
    changed = build(TABLE).TheirMf(rounds=7)
    assert pickle.loads(dumps(changed)) == changed  # noqa: S301
    assert len(dumps(changed)) < 2_000  # pickled by reference


def test_subclasses_of_table_systems_have_their_own_name() -> None:
    class Subclass(fedrec_apm.FedRec):
        """A subclass of a table's system."""

    assert Subclass().name == "subclass"  # the name of its class
    assert Subclass().paper == fedrec_apm.FedRec().paper


def test_a_family_lists_and_loads_table_systems() -> None:
    family = FAMILIES["targets"]
    assert family.load_class("fedncf-apm") is fedrec_apm.FedNcfApm
    assert family.read_summary("fedncf-apm") == fedrec_apm.FedNcfApm.__doc__.partition("\n")[0]


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ('"mf"', '"mff"', "mff"),
        ("dimension", "dimensions", "dimensions"),
        ("epsilon = 2.0", "epsilon = -2.0", "epsilon=-2.0"),
        ("rounds", "turns", "turns"),
        ("place", "plaice", "plaice"),
    ],
)
def test_errors_in_a_table_are_named(build: Write, right: str, wrong: str, expected: str) -> None:
    module = build(TABLE.replace(right, wrong))
    with pytest.raises(InputError, match=expected) as caught:
        _ = module.TheirMf
    assert "systems.toml" in str(caught.value)


def test_a_module_has_no_other_names(build: Write) -> None:
    module = build(TABLE)
    assert not hasattr(module, "TheirNcf")
