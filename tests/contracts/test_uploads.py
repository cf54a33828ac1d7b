"""Contract tests of every protection of uploads, and of every route to the server.

A route is direct, through a shuffler, or by secure aggregation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from dp_accounting import DpEvent, LaplaceDpEvent, NonPrivateDpEvent, SelfComposedDpEvent
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.judging.accounting import find_event_bound, list_accountants
from fedrec_auditor.targets.components import Component, Dense, Payload, SparseRows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.base import Clients, LocalSettings, Protection, Route
from fedrec_auditor.targets.streams import Streams
from tests.contracts.laws import make_fixture, members, only

CLIENTS, ITEMS = 6, 5
GROUPS = ("user", "item", "mlp1", "mlp2")
PARTS = ("user.E", "item", "mlp1.weight", "mlp2.bias")
SIZES = {"user": 12, "item": 10, "mlp1": 2, "mlp2": 1}
SCOPE = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
Arrays = dict[str, NDArray[Any]]
PROTECTIONS: dict[str, Protection] = members("protections")
ROUTES: dict[str, Route] = members("routes")
noisy = only("protection", PROTECTIONS, lambda each: each.get_entry_randomizer("user") is not None)


protection = make_fixture(PROTECTIONS)


route = make_fixture(ROUTES)


def _clients(count: int = CLIENTS) -> Clients:
    rng = np.random.default_rng(0)
    return Clients(
        interactions=Interactions.create((rng.random((count, ITEMS)) < 0.5).astype(float)),
        features=rng.random((count, 8)).astype(np.float32),
        streams=Streams.spawn(rng, count),
    )


def _model() -> tuple[dict[str, Component], Arrays]:
    """One trained model per client, beyond usual clipping bounds, and the broadcast model."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(ITEMS, 2)).astype(np.float32)
    ids = np.concatenate([np.sort(rng.permutation(ITEMS)[:2]) for _ in range(CLIENTS)])
    upload: dict[str, Component] = {
        "user.E": Dense(rng.normal(size=(CLIENTS, 3, 4)).astype(np.float32), Payload.MODEL),
        "item": SparseRows(
            indptr=2 * np.arange(CLIENTS + 1),
            row_ids=ids,
            values=rng.normal(size=(2 * CLIENTS, 2)).astype(np.float32),
            n_rows=ITEMS,
            kind=Payload.MODEL,
            broadcast=table,
        ),
        "mlp1.weight": Dense(rng.normal(size=(CLIENTS, 1, 2)).astype(np.float32), Payload.MODEL),
        "mlp2.bias": Dense(rng.normal(size=(CLIENTS, 1)).astype(np.float32), Payload.MODEL),
    }
    broadcast = {
        name: table if name == "item" else np.zeros(component.shape, np.float32)
        for name, component in upload.items()
    }
    return upload, broadcast


def _wire(sent: dict[str, Component], some: NDArray[np.int64]) -> Arrays:
    return {name: component.to_dense(some) for name, component in sent.items()}


def _close(found: float, expected: float, what: str) -> None:
    assert math.isclose(found, expected, rel_tol=1e-6), f"{what}: {found}, {expected} expected"


def test_settings(protection: Protection) -> None:
    """Checks that protections are hashable, and that their settings are floats."""
    assert hash(protection) == hash(replace(protection)), "its copy has another hash"  # type: ignore[type-var]
    assert all(isinstance(value, float) for value in protection.settings.values())


def test_input_stays(protection: Protection) -> None:
    """Checks that a protection does not change the models and features that it is given."""
    upload, broadcast = _model()
    before = _wire(upload, np.arange(CLIENTS))
    given = _clients()
    features = given.features.copy()
    protection.protect(upload, broadcast, protection.prepare_data(given))
    np.testing.assert_array_equal(given.features, features)
    np.testing.assert_equal(_wire(upload, np.arange(CLIENTS)), before)


def test_training(protection: Protection) -> None:
    """Checks that a protection adds only noise and a linear loss term to the local training."""
    shapes = {"user.E": (3, 4), "item": (ITEMS, 2), "mlp1.weight": (1, 2), "mlp2.bias": (1,)}
    plain = LocalSettings(epochs=2, batch=7, negatives=3, learning_rate=0.1)
    trained = protection.adapt_training(plain, shapes)
    assert replace(trained, linear_term_scales={}, epoch_noise={}) == plain, f"{trained} of {plain}"
    assert set(trained.epoch_noise) <= set(shapes), f"noise for {list(trained.epoch_noise)}"
    assert set(trained.linear_term_scales) <= set(shapes), (
        f"a linear term for {list(trained.linear_scales)}"
    )
    assert all(scale > 0 for scale in trained.linear_term_scales.values()), (
        f"scales {trained.linear_scales}"
    )


def test_spending(protection: Protection) -> None:
    """Checks that the stated epsilon of an upload is that of its mechanism."""
    # The epsilon of a single entry must not be larger.
    mechanism = protection.get_upload_randomizer(SIZES)
    spent = protection.get_upload_epsilon(SIZES)
    if mechanism is None:
        assert math.isinf(spent), f"{spent} is spent by an upload without a mechanism"
        return
    exact = find_exact_bound(mechanism, SCOPE).epsilon
    _close(exact, spent, "exact bound of the upload's mechanism")
    for group in GROUPS:
        entry = protection.get_entry_randomizer(group)
        assert entry is not None, f"no mechanism for an entry of {group}"
        assert find_exact_bound(entry, SCOPE).epsilon <= spent, f"an entry of {group} spends more"
    proved = find_event_bound(mechanism.event(), SCOPE, 0.0, list_accountants())
    assert proved is not None, f"no accountant reads {mechanism.event()}"
    _close(proved.epsilon, spent, "least proved bound of the upload's mechanism")


@noisy
def test_sampled_distribution(protection: Protection) -> None:
    """Checks that protected entries have the distribution of the stated mechanism."""
    count = 4000
    for group, name in zip(GROUPS, PARTS, strict=True):
        mechanism = protection.get_entry_randomizer(group)
        assert mechanism is not None, f"no mechanism for an entry of {group}"
        upload: dict[str, Component] = {name: Dense(np.full((count, 2), 0.1), Payload.MODEL)}
        sent = protection.protect(upload, {}, _clients(count))[name].to_dense(np.arange(count))
        drawn = mechanism.randomize(np.full(count, 0.1), np.random.default_rng(5))
        assert stats.ks_2samp(sent[:, 0], drawn).pvalue > 1e-9, f"{name} has another distribution"
        power = stats.ks_2samp(sent[:, 0] + sent.std(), drawn).pvalue
        assert power < 1e-9, f"{name}: the comparison has no power"
        assert stats.ks_2samp(sent[:, 0], sent[:, 1]).pvalue > 1e-9, f"{name}: entries differ"
        correlation = np.corrcoef(sent.T)[0, 1]
        assert abs(correlation) < 6.5 / math.sqrt(count), f"{name}: entries are correlated"


@noisy
def test_every_entry_is_sent_with_noise(protection: Protection) -> None:
    upload, broadcast = _model()
    everyone = np.arange(CLIENTS)
    sent = _wire(protection.protect(upload, broadcast, _clients()), everyone)
    for name, component in upload.items():
        assert not (sent[name] == component.to_dense(everyone)).any(), f"{name}: without noise"


def test_promises(protection: Protection) -> None:
    """Checks that claims have text and numbers, and that an entry's epsilon is its mechanism's."""
    promises = protection.make_claims(GROUPS)
    assert promises, "nothing is promised"
    for promise in promises:
        assert promise.epsilon > 0, f"an epsilon of {promise.epsilon} is promised"
        assert len(promise.statement) > 30, f"too short a statement: {promise.statement!r}"
        assert 0.0 <= promise.positive_delta < 1.0, f"notable from {promise.positive_delta}"
        if promise.unit is Unit.COORDINATE:
            entries = [protection.get_entry_randomizer(group) for group in GROUPS]
            worst = max(find_exact_bound(one, SCOPE).epsilon for one in entries if one is not None)
            _close(promise.epsilon, worst, "promise for an entry")


def _proved(event: DpEvent, route: Route, delta: float) -> float:
    scope = make_local_scope(Unit.USER, route.vantage, Horizon.ROUND)
    bound = find_event_bound(event, scope, delta, list_accountants())
    assert bound is not None, f"no accountant reads {event}"
    return bound.epsilon


def test_vantage(route: Route) -> None:
    """Checks that a route's adversary sees messages, shuffled messages, or sums of messages."""
    expected = (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE)
    assert route.vantage in expected, f"a vantage of {route.vantage}"


def test_never_dearer(route: Route) -> None:
    """Checks that a route never has a larger epsilon than the direct upload."""
    for epsilon in (0.1, 4.0, 7e6):
        for senders in (1, 2, 1000):
            event = route.get_event(PureDpEvent(epsilon), epsilon, senders)
            for delta, slack in ((0.0, 1e-12), (1e-6, 1e-9)):
                proved = _proved(event, route, delta)
                assert proved <= epsilon * (1 + slack), (
                    f"{senders} senders: {proved} at delta {delta}, the upload alone {epsilon}"
                )


def test_single_sender(route: Route) -> None:
    """Checks that a route does not reduce the epsilon of a single sender."""
    event = route.get_event(PureDpEvent(2.0), 2.0, 1)
    proved = _proved(event, route, 1e-9)
    assert abs(proved - 2.0) <= 2e-3, f"{proved} for one sender whose upload costs 2"


def test_unprotected(route: Route) -> None:
    """Checks that epsilon remains infinite for uploads without protection."""
    event = route.get_event(NonPrivateDpEvent(), math.inf, 1000)
    proved = _proved(event, route, 1e-6)
    assert proved == math.inf, f"{proved} for uploads without protection"


def test_rounds_compose(route: Route) -> None:
    """Checks that two rounds cost at least as much as one, and twice as much at delta 0."""
    once = route.get_event(LaplaceDpEvent(1.0), 1.0, 50)
    twice = SelfComposedDpEvent(once, 2)
    assert _proved(twice, route, 1e-6) >= _proved(once, route, 1e-6), "two rounds are cheaper"
    two, one = _proved(twice, route, 0.0), _proved(once, route, 0.0)
    assert two == 2 * one or abs(two - 2 * one) <= 2e-6 * one, f"one round {one}, two {two}"
