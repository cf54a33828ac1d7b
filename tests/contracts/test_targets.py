"""Runs the public ``TargetContract`` on every target system, with further tests."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.auditor.judging.accounting import compute_exact_bounds
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.run.workload import estimate_cost
from fedrec_auditor.auditor.testing import targets
from fedrec_auditor.auditor.testing.targets import TEST_POPULATION, TargetCase, make_interactions
from fedrec_auditor.targets.components import Dense, Floats, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.systems import FederatedSystem
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.memory_mapping import count_bytes
from fedrec_auditor.targets.papers.dplcf.systems import DplcfSp, LcfUb
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgdMf, ObjPertb
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LocalOnly
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.systems.base import Model, Population, ScopedClaim, Target, TrainingRun
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads
from tests.contracts.laws import BROKEN, catches, hold
from tests.contracts.trainings import narrow
from tests.points import later

NAMES = FAMILIES["targets"].list_names()
# Tests of statements alone, which run on every system; other tests train it.
STATED = (
    "test_scoped_claims",
    "test_exact_bounds_stay_below_proofs",
    "test_wider_scopes_prove_no_smaller_epsilon",
    "test_events_compose_in_every_scope",
)
# Tests of users' messages, or of any messages; targets that send none, or only those of parties.
OF_USERS = (
    "test_exact_bounds_are_of_what_is_sent",
    "test_batches_send_what_single_clients_send",
    "test_a_message_depends_on_its_sender_only",
)
OF_MESSAGES = (*OF_USERS, "test_messages_are_of_parts_of_the_model")
SILENT = ("hfl-local-sgd", "lfl-pretrained", "mf-np", "privrec-cen", "random")
PARTIES = (
    *("dp-sgd-mf", "dp-sgld", "fedpergnn", "fmf-hfl", "fmf-vfl", "hfl-local-sgd", "hfl-sgdmf"),
    *("hfl-synsgd", "local-only", "obj-pertb", "vfl-sgdmf"),
)


@functools.cache
def make_stated(name: str) -> TargetCase:
    """Case of the named system with its default settings."""
    return TargetCase(FAMILIES["targets"].load_class(name)())


@functools.cache
def make_trained(name: str) -> TargetCase:
    """Case of the named system with small embeddings, whose training all tests share."""
    return TargetCase(narrow(name))


def list_components(target: FederatedSystem) -> set[tuple[object, ...]]:
    """Learner, protection and route of a system, each as a tuple that ignores numbers."""
    return {
        (type(part), *(v for v in vars(part).values() if isinstance(v, bool | str)))
        for part in (target.learner, target.protection, target.route)
    }


@functools.cache
def list_recomposed() -> set[str]:
    """Names of systems whose learner, protection and route all occur in earlier systems."""
    # Only ``make calibrate`` tests their trainings.
    known: set[tuple[object, ...]] = set()
    again = set()
    for name in NAMES:
        target = make_stated(name).target
        if isinstance(target, FederatedSystem):
            again |= {name} if list_components(target) <= known else set()
            known |= list_components(target)
    return again


def list_unsent_units(case: TargetCase) -> list[Unit]:
    """Units (attribute, rating) whose values do not change the users' first messages.

    The random generator is the same.
    """
    interactions, broadcast = case.get_round_inputs(0)
    ratings = interactions.ratings.copy()
    ratings.data[:] = np.where(ratings.data > 2, 1.0, 5.0)

    def sent(some: Interactions) -> dict[str, np.ndarray]:
        uploads = case.target.upload(some, broadcast, np.random.default_rng(3))
        return dict(targets.iter_messages(uploads))

    shifted = targets.shift_categories(interactions)
    before, changed = (
        sent(interactions),
        {
            Unit.ATTRIBUTE: sent(replace(interactions, attributes=shifted)),
            Unit.RATING: sent(replace(interactions, ratings=ratings)),
        },
    )
    return [
        unit
        for unit, after in changed.items()
        if all(np.array_equal(values, after[part]) for part, values in before.items())
    ]


def applies(law: str, name: str) -> bool:
    """Whether the contract test ``law`` applies to the system ``name``."""
    target = make_stated(name).target
    if law == "test_sampled_uploads_agree_with_the_stated_distribution":
        return bool(target.design_pairs())
    if law == "test_exact_bounds_stay_below_proofs":
        return bool(compute_exact_bounds(target, TEST_POPULATION))
    if law == "test_wider_scopes_prove_no_smaller_epsilon":
        known = (target.get_mechanism(scope, TEST_POPULATION) for scope in targets.ALL_SCOPES)
        return any(mechanism is not None for mechanism in known)
    if law == "test_exact_bounds_are_of_what_is_sent" and isinstance(target, FederatedSystem):
        return False  # attributes and values are features of the learner
    return not (law in OF_USERS and name in PARTIES) and not (law in OF_MESSAGES and name in SILENT)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes each contract test by the systems to which it applies."""
    if metafunc.cls is not TestTargets:
        return
    law = metafunc.function.__name__
    names = [name for name in NAMES if applies(law, name)]
    waiting = () if law in STATED else list_recomposed()
    points = [later(name) if name in waiting else name for name in names]
    metafunc.parametrize("name", points, ids=names)


class TestTargets(targets.TargetContract):
    @pytest.fixture(autouse=True)
    def _given(self, name: str, request: pytest.FixtureRequest) -> None:
        self.subject = (make_stated if request.function.__name__ in STATED else make_trained)(name)

    def test_scores(self) -> None:
        """Checks that scores are finite, cover all items, and do not depend on other users."""
        target, run, some = self.subject.target, self.subject.run, np.array([5, 2])
        every = target.score(run.model, make_interactions(), np.arange(targets.USERS))
        assert every.shape == (targets.USERS, targets.ITEMS), f"scores of shape {every.shape}"
        assert np.isfinite(every).all(), "scores are not finite"
        alone = target.score(run.model, make_interactions(), some)
        np.testing.assert_allclose(alone, every[some], rtol=1e-4, atol=1e-5)

    def test_messages_are_of_parts_of_the_model(self) -> None:
        """Checks that a model, change or gradient in a message has the shape of a model part."""
        for one in self.subject.rounds:
            shapes = [np.shape(part) for part in (one.broadcast or {}).values()]
            for name, component in one.uploads.components.items():
                if component.kind in (Payload.GRADIENT, Payload.CHANGE, Payload.MODEL) and shapes:
                    assert component.shape in shapes, f"{name} is a {component.kind} of no part"

    def test_exact_bounds_are_of_what_is_sent(self) -> None:
        """Checks that no mechanism is stated for attributes or rating values that are not sent."""
        units = list_unsent_units(self.subject)
        for scope in targets.ALL_SCOPES:
            if scope.unit in units and scope.adjacency is Adjacency.REPLACE:
                mechanism = self.subject.target.get_mechanism(scope, TEST_POPULATION)
                assert mechanism is None, f"{mechanism} is stated in [{scope}], which is not sent"

    def test_odd_data_are_handled_or_refused(self) -> None:
        """Checks that unusual data end in a training, or in an InputError with a remedy."""
        for name, interactions in make_unusual_data(make_interactions()).items():
            try:
                run = targets.train(self.subject.short_target, interactions)
            except InputError as error:
                refusal = str(error)
            else:
                check_finite(self.subject.target, run, interactions, name)
                continue
            assert refusal.startswith("Expected"), f"{name}: {refusal}"
            assert ". " in refusal, f"{name}: no remedy in: {refusal}"
            assert name not in PLAIN, f"{name} must be handled, got: {refusal}"
        check_finite(self.subject.target, self.subject.run, make_interactions(), "explicit")


PLAIN = ("an idle user", "a user with all items", "implicit")


def make_unusual_data(full: Interactions) -> dict[str, Interactions]:
    """Unusual data by name, such as one user, no interactions, or all interactions."""
    ratings = full.ratings.toarray()
    idle, busy = ratings.copy(), ratings.copy()
    idle[3] = 0
    busy[3] = np.maximum(busy[3], 3)
    known: dict[str, Any] = {
        "attributes": full.attributes,
        "genres": full.genres,
        "genre_names": full.genre_names,
    }
    return {
        "an idle user": Interactions.create(idle, **known),
        "a user with all items": Interactions.create(busy, **known),
        "implicit": Interactions.create((ratings > 0) * 1.0, **known),
        "no attributes": Interactions.create(ratings),
        "one user": full.take_users(np.array([2])),
        "one item": Interactions.create(ratings[:, :1] + 1.0, attributes=full.attributes),
        "nothing": Interactions.create(np.zeros((4, 5))),
        "everything": Interactions.create(np.full((4, 5), 2.0)),
    }


def check_finite(target: Target, run: TrainingRun, interactions: Interactions, name: str) -> None:
    scores = target.score(run.model, interactions, np.arange(interactions.n_users))
    assert scores.shape == interactions.ratings.shape, f"{name}: scores of {scores.shape}"
    assert np.isfinite(scores).all(), f"{name}: scores are not finite"
    for one in run.transcript.view(Vantage.SERVER).rounds:
        for part, values in targets.iter_arrays(one):
            assert np.isfinite(values).all(), f"{name}: {part} is not finite"


def test_omitted_targets_send_nothing_or_are_parties() -> None:
    public = {name: make_trained(name).run.transcript for name in {*SILENT, *PARTIES}}
    assert all(public[name].public.n_silos is not None for name in PARTIES)
    assert not any(public[name].rounds for name in SILENT)
    for name in sorted({*SILENT} - {*PARTIES}):
        sent = make_stated(name).target.upload(
            make_interactions(), None, np.random.default_rng(0), messages_per_client=2
        )
        assert sent.components == {}
        np.testing.assert_array_equal(sent.users, np.repeat(np.arange(targets.USERS), 2))


def test_every_target_has_the_name_of_its_file() -> None:
    assert all(make_stated(name).target.name == name for name in NAMES)


@pytest.mark.parametrize(
    "target",
    [
        LocalOnly(rounds=1),
        DpSgdMf(rounds=1, unit="user", trim=2),
        *(
            ObjPertb(as_published=published, unit=unit, trim=2, factors=4)
            for published, unit in product((True, False), ("rating", "user"))
        ),
    ],
    ids=repr,
)
def test_uploads_of_parties_depend_on_one_user_only(target: Target) -> None:
    targets.assert_batch_sends_same(target, make_interactions(), None)


@pytest.mark.parametrize("name", NAMES)
def test_messages_take_their_predicted_memory(name: str) -> None:
    """Checks the predicted memory of messages: within a factor of 2, plus 64 bytes per message."""
    short = make_trained(name)
    cost = estimate_cost(short.short_target, short.interactions)
    rounds = short.run.transcript.rounds
    messages = sum(len(one.uploads.users) for one in rounds)
    shared = {id(part) for one in rounds for part in (one.broadcast or {}).values()}
    parts = [part for one in rounds for part in one.uploads.components.values()]
    kept = sum(count_bytes(part, shared) for part in parts)
    assert cost.n_messages == pytest.approx(messages, abs=2)
    assert kept <= cost.n_messages * (2 * cost.message_bytes + 64)
    if name != "hfl-synsgd":  # its noise is drawn on reading
        assert cost.n_messages * cost.message_bytes <= 2 * kept + 64 * messages


class WatchedCompute:
    """A stand-in for ``Machine`` that records whether its ``device`` is read."""

    threads, memory, folder = 1, 1 << 31, None
    is_read = False

    @property
    def device(self) -> str:
        self.is_read = True
        return "cpu:0"  # torch's name of the processor


@pytest.mark.parametrize("name", NAMES)
def test_the_device_is_used_as_declared(name: str) -> None:
    target: Target = FAMILIES["targets"].load_class(name)()
    compute: Any = WatchedCompute()
    target.limit_rounds(1).run(make_interactions(), np.random.default_rng(0), compute=compute)
    assert compute.is_read == target.uses_compute_device


@dataclass(frozen=True, kw_only=True)
class Short(Fcf):
    """A correct system: FCF with two rounds."""

    rounds: int = 2


class WantsTheClock(Short):
    """Faulty system: draws from the operating system's generator."""

    def upload(self, profiles: Any, broadcast: Any, rng: Any, *more: Any, **how: Any) -> Uploads:
        shaken = _shaken(broadcast, np.random.default_rng())
        return super().upload(profiles, shaken, rng, *more, **how)


class NoisyInBulk(Short):
    """Faulty system: sorts the noisy messages of a batch, so that each depends on the others."""

    def upload(self, profiles: Any, broadcast: Any, rng: Any, *more: Any, **how: Any) -> Uploads:
        sent = super().upload(profiles, broadcast, rng, *more, **how)
        values = sent.components["gradient"].to_dense(np.arange(len(sent.users)))
        return Uploads(
            sent.users, {"gradient": Dense(np.sort(rng.normal(values), axis=0), Payload.GRADIENT)}
        )


class SharesSecrets(Short):
    """Faulty system: every message has the mean of all users' histories."""

    def upload(self, profiles: Any, broadcast: Any, rng: Any, *more: Any, **how: Any) -> Uploads:
        sent = super().upload(profiles, broadcast, rng, *more, **how)
        mean = np.tile(profiles.ratings.mean(axis=0), (len(sent.users), 1))
        return Uploads(sent.users, {**sent.components, "mean": Dense(mean, Payload.RATINGS)})


class Mislabels(Short):
    """Faulty system: marks a number as a gradient, although no part of the model has its shape."""

    def upload(self, profiles: Any, broadcast: Any, rng: Any, *more: Any, **how: Any) -> Uploads:
        sent = super().upload(profiles, broadcast, rng, *more, **how)
        count = np.diff(profiles.ratings.indptr)[sent.users].astype(np.float64)
        return Uploads(sent.users, {**sent.components, "count": Dense(count, Payload.GRADIENT)})


class MarksItsInput(Short):
    """Faulty system: changes the ratings that it was given."""

    def run(self, interactions: Interactions, rng: Any, *more: Any, **how: Any) -> TrainingRun:
        interactions.ratings.data[:] = 1.0
        return super().run(interactions, rng, *more, **how)


class SendsItsName(Short):
    """Faulty system: publishes the users' identifiers with the model."""

    def run(self, interactions: Interactions, rng: Any, *more: Any, **how: Any) -> TrainingRun:
        run = super().run(interactions, rng, *more, **how)
        named = {**(run.transcript.published_model or {}), "who": interactions.users}
        return replace(run, transcript=replace(run.transcript, published_model=named))


class UnsortedSenders(Short):
    """Faulty system: senders are not in ascending order."""

    def run(self, interactions: Interactions, rng: Any, *more: Any, **how: Any) -> TrainingRun:
        run = super().run(interactions, rng, *more, **how)
        order = rng.permutation(interactions.n_users)
        rounds = tuple(_reordered(one, order) for one in run.transcript.rounds)
        return replace(run, transcript=replace(run.transcript, rounds=rounds))


class ScoresTheFirst(Short):
    """Faulty system: a user's scores depend on the first user asked for."""

    def score(self, model: Model, interactions: Interactions, users: Any) -> Floats:
        scores = super().score(model, interactions, users)
        return np.asarray(scores - scores[0])


class ClaimsElsewhere(Short):
    """Faulty system: its claim is not judged in the claim's own scope."""

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        (scoped,) = super().get_claims(population)
        return (replace(scoped, scope=replace(scoped.scope, unit=Unit.BIT)),)


@dataclass(frozen=True, kw_only=True)
class StatesAnotherDistribution(LcfUb):
    """Faulty system: its event has half the epsilon of its mechanism."""

    def get_mechanism(self, scope: Scope, population: Population) -> Any:
        return BitFlip.symmetric(1.0)

    def get_event(self, scope: Scope, population: Population) -> Any:
        return BitFlip.symmetric(0.5).event()


@dataclass(frozen=True, kw_only=True)
class FlipsLess(DplcfSp):
    """Faulty system: sends bits at twice the epsilon that it states."""

    def upload(self, profiles: Any, broadcast: Any, rng: Any, *more: Any, **how: Any) -> Uploads:
        honest = DplcfSp(epsilon=2 * self.epsilon)
        return honest.upload(profiles, broadcast, rng, *more, **how)


class KnowsOfSecrets(Short):
    """Faulty system: states that it sends data in the clear which it never sends."""

    def get_mechanism(self, scope: Scope, population: Population) -> Any:
        return Identity()


@dataclass(frozen=True, kw_only=True)
class ForgetsTheUser(LcfUb):
    """Faulty system: proves a smaller epsilon for a whole user than for one interaction."""

    def get_event(self, scope: Scope, population: Population) -> Any:
        if scope.unit is Unit.USER and scope.adjacency is Adjacency.REPLACE:
            return BitFlip.symmetric(0.5).event()
        return super().get_event(scope, population)


def _shaken(broadcast: Broadcast | None, rng: np.random.Generator) -> Broadcast | None:
    if broadcast is None:
        return None
    return {
        name: part + rng.normal(scale=1e-3, size=part.shape) for name, part in broadcast.items()
    }


def _reordered(one: Round, order: np.ndarray) -> Round:
    components = {name: c.take(order) for name, c in one.uploads.components.items()}
    return replace(one, uploads=Uploads(users=one.uploads.users[order], components=components))


@catches(
    ("equal_generators_give_equal_bytes", WantsTheClock()),
    ("batches_send_what_single_clients_send", NoisyInBulk()),
    ("a_message_depends_on_its_sender_only", SharesSecrets()),
    ("messages_are_of_parts_of_the_model", Mislabels()),
    ("runs_do_not_change_their_input", MarksItsInput()),
    ("unread_columns_change_no_view", SendsItsName()),
    ("senders_and_progress", UnsortedSenders()),
    ("scores", ScoresTheFirst()),
    ("scoped_claims", ClaimsElsewhere()),
    ("exact_bounds_are_of_what_is_sent", KnowsOfSecrets()),
    ("exact_bounds_stay_below_proofs", StatesAnotherDistribution()),
    ("sampled_uploads_agree_with_the_stated_distribution", FlipsLess()),
    ("wider_scopes_prove_no_smaller_epsilon", ForgetsTheUser()),
)
def test_the_law_catches(law: str, broken: Target) -> None:
    with pytest.raises(BROKEN):
        hold(TestTargets, TargetCase(broken), f"test_{law}")


def test_the_contract_passes_a_correct_system() -> None:
    hold(TestTargets, TargetCase(Short()))
