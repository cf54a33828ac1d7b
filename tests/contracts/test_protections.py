"""Every protection of an upload: what it sends, spends and promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.judging.accounting import all_accountants, least_of_event
from fedrec_auditor.targets.components import Component, Dense, Kind, Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.streams import Streams
from tests.contracts.laws import members

CLIENTS, ITEMS = 6, 5
GROUPS = ("user", "item", "mlp1", "mlp2")
PARTS = ("user.E", "item", "mlp1.weight", "mlp2.bias")
SIZES = {"user": 12, "item": 10, "mlp1": 2, "mlp2": 1}
SCOPE = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
Arrays = dict[str, NDArray[Any]]
PROTECTIONS: dict[str, Protection] = members("protections")
NOISY = {name: each for name, each in PROTECTIONS.items() if each.coordinate("user") is not None}


@pytest.fixture(params=PROTECTIONS)
def protection(request: pytest.FixtureRequest) -> Protection:
    return PROTECTIONS[request.param]


def _clients(count: int = CLIENTS) -> Clients:
    rng = np.random.default_rng(0)
    return Clients(
        interactions=Interactions.of((rng.random((count, ITEMS)) < 0.5).astype(float)),
        features=rng.random((count, 8)).astype(np.float32),
        streams=Streams.spawn(rng, count),
    )


def _model() -> tuple[dict[str, Component], Arrays]:
    """A trained model a client, far beyond usual clipping bounds, and what was broadcast."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(ITEMS, 2)).astype(np.float32)
    ids = np.concatenate([np.sort(rng.permutation(ITEMS)[:2]) for _ in range(CLIENTS)])
    upload: dict[str, Component] = {
        "user.E": Dense(rng.normal(size=(CLIENTS, 3, 4)).astype(np.float32), Kind.MODEL),
        "item": Rows(
            indptr=2 * np.arange(CLIENTS + 1),
            ids=ids,
            values=rng.normal(size=(2 * CLIENTS, 2)).astype(np.float32),
            count=ITEMS,
            kind=Kind.MODEL,
            rest=table,
        ),
        "mlp1.weight": Dense(rng.normal(size=(CLIENTS, 1, 2)).astype(np.float32), Kind.MODEL),
        "mlp2.bias": Dense(rng.normal(size=(CLIENTS, 1)).astype(np.float32), Kind.MODEL),
    }
    broadcast = {
        name: table if name == "item" else np.zeros(component.shape, np.float32)
        for name, component in upload.items()
    }
    return upload, broadcast


def _wire(sent: dict[str, Component], some: NDArray[np.int64]) -> Arrays:
    return {name: component.dense(some) for name, component in sent.items()}


def _close(found: float, expected: float, what: str) -> None:
    assert math.isclose(found, expected, rel_tol=1e-6), f"{what}: {found}, {expected} expected"


def test_settings(protection: Protection) -> None:
    """It is hashable, and its settings are numbers."""
    assert hash(protection) == hash(replace(protection)), "its copy has another hash"  # type: ignore[type-var]
    assert all(isinstance(value, float) for value in protection.settings.values())


def test_messages(protection: Protection) -> None:
    """Names and shapes of the upload stay, and equal generators give equal messages."""
    upload, broadcast = _model()
    every = np.arange(CLIENTS)
    first, again = (_wire(protection.protect(upload, broadcast, _clients()), every) for _ in "ab")
    assert list(first) == list(upload), f"sent {list(first)} of {list(upload)}"
    for name, component in upload.items():
        assert first[name].shape == (CLIENTS, *component.shape), name
    np.testing.assert_equal(again, first)


def test_batch(protection: Protection) -> None:
    """A batch sends what its clients would send alone."""
    upload, broadcast = _model()
    whole = _wire(protection.protect(upload, broadcast, _clients()), np.arange(CLIENTS))
    everyone = _clients()
    for i in range(CLIENTS):
        some = np.array([i])
        one = everyone.take(some)
        mine = {name: component.take(some) for name, component in upload.items()}
        alone = _wire(protection.protect(mine, broadcast, one), np.array([0]))
        np.testing.assert_equal(alone, {name: sent[some] for name, sent in whole.items()})
        prepared, together = protection.prepare(one), protection.prepare(everyone)
        np.testing.assert_array_equal(prepared.features[0], together.features[i])


def test_input_stays(protection: Protection) -> None:
    """The models and features that it is given stay as they are."""
    upload, broadcast = _model()
    before = _wire(upload, np.arange(CLIENTS))
    given = _clients()
    features = given.features.copy()
    protection.protect(upload, broadcast, protection.prepare(given))
    np.testing.assert_array_equal(given.features, features)
    np.testing.assert_equal(_wire(upload, np.arange(CLIENTS)), before)


def test_training(protection: Protection) -> None:
    """It changes nothing of the local training but the objective's linear term and the noise."""
    shapes = {"user.E": (3, 4), "item": (ITEMS, 2), "mlp1.weight": (1, 2), "mlp2.bias": (1,)}
    plain = LocalTraining(epochs=2, batch=7, negatives=3, learning_rate=0.1)
    trained = protection.training(plain, shapes)
    assert replace(trained, linear_term={}, noise={}) == plain, f"{trained} of {plain}"
    assert set(trained.noise) <= set(shapes), f"noise for {list(trained.noise)}"
    assert set(trained.linear_term) <= set(shapes), f"a linear term for {list(trained.linear_term)}"
    assert all(scale > 0 for scale in trained.linear_term.values()), f"scales {trained.linear_term}"


def test_spending(protection: Protection) -> None:
    """An upload spends what its mechanism says, and no less than its dearest entry."""
    mechanism = protection.upload(SIZES)
    spent = protection.spent(SIZES)
    if mechanism is None:
        assert math.isinf(spent), f"{spent} is spent by an upload without a mechanism"
        return
    _close(
        exact_lower_bound(mechanism, SCOPE).epsilon, spent, "exact bound of the upload's mechanism"
    )
    for group in GROUPS:
        entry = protection.coordinate(group)
        assert entry is not None, f"no mechanism for an entry of {group}"
        assert exact_lower_bound(entry, SCOPE).epsilon <= spent, f"an entry of {group} spends more"
    proved = least_of_event(mechanism.event(), SCOPE, 0.0, all_accountants())
    assert proved is not None, f"no accountant reads {mechanism.event()}"
    _close(proved.epsilon, spent, "least proved bound of the upload's mechanism")


@pytest.mark.parametrize("protection", NOISY.values(), ids=NOISY.keys())
def test_sampled_distribution(protection: Protection) -> None:
    """Every group's entry, far above the clipping bound: the mechanism's own draws look alike."""
    count = 4000
    for group, name in zip(GROUPS, PARTS, strict=True):
        mechanism = protection.coordinate(group)
        assert mechanism is not None, f"no mechanism for an entry of {group}"
        upload: dict[str, Component] = {name: Dense(np.full((count, 2), 0.1), Kind.MODEL)}
        sent = protection.protect(upload, {}, _clients(count))[name].dense(np.arange(count))
        drawn = mechanism.randomize(np.full(count, 0.1), np.random.default_rng(5))
        assert stats.ks_2samp(sent[:, 0], drawn).pvalue > 1e-9, f"{name} has another distribution"
        power = stats.ks_2samp(sent[:, 0] + sent.std(), drawn).pvalue
        assert power < 1e-9, f"{name}: the comparison has no power"
        assert stats.ks_2samp(sent[:, 0], sent[:, 1]).pvalue > 1e-9, f"{name}: entries differ"
        correlation = np.corrcoef(sent.T)[0, 1]
        assert abs(correlation) < 6.5 / math.sqrt(count), f"{name}: entries are correlated"


@pytest.mark.parametrize("protection", NOISY.values(), ids=NOISY.keys())
def test_every_entry_is_sent_with_noise(protection: Protection) -> None:
    upload, broadcast = _model()
    everyone = np.arange(CLIENTS)
    sent = _wire(protection.protect(upload, broadcast, _clients()), everyone)
    for name, component in upload.items():
        assert not (sent[name] == component.dense(everyone)).any(), f"{name}: without noise"


def test_promises(protection: Protection) -> None:
    """Promises are in words and numbers; that of an entry is what its mechanism loses."""
    promises = protection.promises(GROUPS)
    assert promises, "nothing is promised"
    for promise in promises:
        assert promise.epsilon > 0, f"an epsilon of {promise.epsilon} is promised"
        assert len(promise.statement) > 30, f"too short a statement: {promise.statement!r}"
        assert 0.0 <= promise.notable < 1.0, f"notable from {promise.notable}"
        if promise.unit is Unit.COORDINATE:
            entries = [protection.coordinate(group) for group in GROUPS]
            worst = max(exact_lower_bound(one, SCOPE).epsilon for one in entries if one is not None)
            _close(promise.epsilon, worst, "promise for an entry")
