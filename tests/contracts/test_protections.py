"""What every protection of an upload must keep: run over all of them, plug-ins included."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.accounting import all_accountants
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.targets.components import Component, Dense, Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.streams import Streams

CLIENTS, ITEMS = 6, 5
GROUPS = ("user", "item", "mlp1", "mlp2")
SIZES = {"user": 12, "item": 10, "mlp1": 2, "mlp2": 1}
SCOPE = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)


@pytest.fixture(params=FAMILIES["protections"].names())
def protection(request: pytest.FixtureRequest) -> Protection:
    made: Protection = FAMILIES["protections"].member(request.param)()
    return made


def clients(seed: int = 0, count: int = CLIENTS) -> Clients:
    rng = np.random.default_rng(seed)
    return Clients(
        interactions=Interactions.of((rng.random((count, ITEMS)) < 0.5).astype(float)),
        features=rng.random((count, 8)).astype(np.float32),
        streams=Streams.spawn(rng, count),
    )


def model(
    count: int = CLIENTS, seed: int = 1
) -> tuple[dict[str, Component], dict[str, np.ndarray]]:
    """A trained model a client, far beyond usual clipping bounds, and what was broadcast."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(ITEMS, 2)).astype(np.float32)
    ids = np.concatenate([np.sort(rng.permutation(ITEMS)[:2]) for _ in range(count)])
    upload: dict[str, Component] = {
        "user.E": Dense(rng.normal(size=(count, 3, 4)).astype(np.float32)),
        "item": Rows(
            indptr=2 * np.arange(count + 1),
            ids=ids,
            values=rng.normal(size=(2 * count, 2)).astype(np.float32),
            count=ITEMS,
            rest=table,
        ),
        "mlp1.weight": Dense(rng.normal(size=(count, 1, 2)).astype(np.float32)),
        "mlp2.bias": Dense(rng.normal(size=(count, 1)).astype(np.float32)),
    }
    broadcast = {
        name: table if name == "item" else np.zeros(component.shape, np.float32)
        for name, component in upload.items()
    }
    return upload, broadcast


def wire(sent: dict[str, Component], some: np.ndarray) -> dict[str, np.ndarray]:
    return {name: component.dense(some) for name, component in sent.items()}


def test_it_is_frozen_and_tells_its_settings_as_numbers(protection: Protection) -> None:
    for field in fields(protection):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(protection, field.name, None)
    assert hash(protection) == hash(replace(protection))  # type: ignore[type-var]
    for name, value in protection.settings.items():
        assert isinstance(value, float), name


def test_names_and_shapes_stay_and_equal_coins_give_equal_messages(protection: Protection) -> None:
    upload, broadcast = model()
    every = np.arange(CLIENTS)
    first, again = (wire(protection.protect(upload, broadcast, clients()), every) for _ in "ab")
    assert list(first) == list(upload)
    for name, component in upload.items():
        assert first[name].shape == (CLIENTS, *component.shape)
        np.testing.assert_array_equal(first[name], again[name])


def test_a_batch_sends_what_its_clients_would_alone(protection: Protection) -> None:
    upload, broadcast = model()
    whole = wire(protection.protect(upload, broadcast, clients()), np.arange(CLIENTS))
    everyone = clients()
    for i in range(CLIENTS):
        some = np.array([i])
        one = Clients(
            interactions=everyone.interactions.take(some),
            features=everyone.features[some],
            streams=everyone.streams.take(some),
        )
        mine = {name: component.take(some) for name, component in upload.items()}
        alone = wire(protection.protect(mine, broadcast, one), np.array([0]))
        for name, values in alone.items():
            np.testing.assert_array_equal(values[0], whole[name][i])
        prepared, together = protection.prepare(one), protection.prepare(everyone)
        np.testing.assert_array_equal(prepared.features[0], together.features[i])


def test_what_it_takes_in_is_left_alone(protection: Protection) -> None:
    upload, broadcast = model()
    before = wire(upload, np.arange(CLIENTS))
    given = clients()
    features = given.features.copy()
    protection.protect(upload, broadcast, protection.prepare(given))
    np.testing.assert_array_equal(given.features, features)
    for name, values in wire(upload, np.arange(CLIENTS)).items():
        np.testing.assert_array_equal(values, before[name])


def test_training_keeps_everything_but_the_linear_term(protection: Protection) -> None:
    shapes = {"user.E": (3, 4), "item": (ITEMS, 2), "mlp1.weight": (1, 2), "mlp2.bias": (1,)}
    plain = LocalTraining(epochs=2, batch=7, negatives=3, learning_rate=0.1)
    trained = protection.training(plain, shapes)
    assert replace(trained, linear_term={}) == plain
    assert set(trained.linear_term) <= set(shapes)
    assert all(scale > 0 for scale in trained.linear_term.values())


def test_an_upload_spends_what_its_law_says_and_at_least_its_dearest_entry(
    protection: Protection,
) -> None:
    law = protection.upload(SIZES)
    spent = protection.spent(SIZES)
    if law is None:
        assert math.isinf(spent)
        return
    assert exact_lower_bound(law, SCOPE).epsilon == pytest.approx(spent)
    for group in GROUPS:
        entry = protection.coordinate(group)
        assert entry is not None
        assert exact_lower_bound(entry, SCOPE).epsilon <= spent
    proved = [
        accountant.bound(law.event(), delta=0.0, scope=SCOPE).epsilon
        for accountant in all_accountants()
        if accountant.supports(law.event())
    ]
    assert min(proved) == pytest.approx(spent)


def test_sampled_messages_have_the_stated_law(protection: Protection) -> None:
    """Every group's entry, far above the clipping bound: the mechanism's own draws look alike."""
    count = 4000
    for group, name in zip(GROUPS, ("user.E", "item", "mlp1.weight", "mlp2.bias"), strict=True):
        law = protection.coordinate(group)
        if law is None:
            continue
        upload: dict[str, Component] = {name: Dense(np.full((count, 2), 0.1))}
        sent = protection.protect(upload, {}, clients(count=count))[name].dense(np.arange(count))
        drawn = law.randomize(np.full(count, 0.1), np.random.default_rng(5))
        assert stats.ks_2samp(sent[:, 0], drawn).pvalue > 1e-9
        assert stats.ks_2samp(sent[:, 0] + sent.std(), drawn).pvalue < 1e-9  # it has power
        assert stats.ks_2samp(sent[:, 0], sent[:, 1]).pvalue > 1e-9
        assert abs(np.corrcoef(sent.T)[0, 1]) < 6.5 / math.sqrt(count)


def test_an_entry_without_noise_has_no_law(protection: Protection) -> None:
    """Whoever states a law must change every entry; whoever states none must not be asked."""
    upload, broadcast = model()
    sent = protection.protect(upload, broadcast, clients())
    for name, component in upload.items():
        law = protection.coordinate(name.partition(".")[0])
        same = sent[name].dense(np.arange(CLIENTS)) == component.dense(np.arange(CLIENTS))
        assert law is None or not same.any()


def test_promises_are_in_words_and_numbers(protection: Protection) -> None:
    promises = protection.promises(GROUPS)
    assert promises
    for promise in promises:
        assert promise.epsilon > 0
        assert len(promise.statement) > 30
        assert 0.0 <= promise.notable < 1.0
        if promise.unit is Unit.COORDINATE:
            laws = [protection.coordinate(group) for group in GROUPS]
            worst = max(exact_lower_bound(law, SCOPE).epsilon for law in laws if law is not None)
            assert promise.epsilon == pytest.approx(worst)
