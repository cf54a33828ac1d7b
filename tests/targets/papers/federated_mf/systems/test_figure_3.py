"""Whole trainings of Figure 3, compared with loops that follow its lines.

Without noise and with every row drawn, only the initial embeddings are random, and they are taken
from the systems; divisors, weights, learning rates and the order of steps are the paper's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.targets.papers.federated_mf.systems import horizontal_systems
from fedrec_auditor.targets.papers.federated_mf.systems.parts import sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import FmfVfl, VflSgdmf
from tests.targets.papers.tables import make_data

N, M, P, ROUNDS, RATE = 15, 11, 3, 3, 0.05
# Fifteen users do not divide by two parties: weights differ.
DATA = make_data(N, M, 0.4, seed=8)
NOISELESS = {"noise_multiplier": 0.0, "tuning": 2}


def make_system(kind: Any, local_steps: int, **more: float) -> Any:
    usual = {"rounds": ROUNDS, "factors": P, "rate": 1.0, "parties": 2, "learning_rate": RATE}
    return kind(local_steps=local_steps, **usual, **more)


def clip(table: np.ndarray) -> np.ndarray:
    """Equation 6 at R = 5: negative entries to 0, then the norm."""
    table = np.maximum(table, 0)
    norm = np.sqrt((table * table).sum(axis=1, keepdims=True))
    return np.asarray(table / np.maximum(1, norm / np.sqrt(5)))


def get_rate(step: int, steps: int, rate: float = RATE) -> float:
    """Section 4.3: falls linearly over 80% of the steps. g n' is gamma, and n' is all rows."""
    return rate * (1 - 0.48 * min(1, step / (0.8 * steps)))


def sum_slopes(x: np.ndarray, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of -2 (x - u.v) v and -2 (x - u.v) u over the ratings, divided by n' m' tau."""
    rated = x > 0
    error = 2 * (u @ v.T - x) * rated
    return error @ v / rated.sum(), error.T @ u / rated.sum()


@pytest.mark.parametrize(("kind", "more"), [(FmfVfl, {}), (VflSgdmf, NOISELESS)])
def test_vertical_training_follows_figures_3a_and_3b(kind: Any, more: dict[str, float]) -> None:
    target, table, x = make_system(kind, 2, **more), DATA, DATA.ratings.toarray()
    project = clip if kind is VflSgdmf else np.asarray
    run = target.run(table, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    users = sgd_mf.init_embeddings(rng.random((N, P)), 5.0).astype(float)
    parties = target.make_parties(table, None, rng)
    columns = [party.member_ids for party in parties]
    assert len(columns[0]) != len(columns[1])
    items = [party.own_embeddings.astype(float) for party in parties]
    for number, one in enumerate(run.transcript.rounds):
        np.testing.assert_allclose(one.broadcast["users"], users, atol=1e-5)
        sent = []
        for k in range(2):
            u, share = users, len(columns[k]) / M
            for step in range(2 * number, 2 * number + 2):
                gamma = get_rate(step, 2 * ROUNDS) * N
                of_u, of_v = sum_slopes(x[:, columns[k]], u, items[k])
                u, items[k] = project(u - gamma * of_u), project(items[k] - gamma * share * of_v)
            sent.append(u)
            message = one.uploads.components["users"].to_dense(np.array([k]))[0]
            np.testing.assert_allclose(message, u, atol=1e-5)
        users = sum(len(columns[k]) / M * sent[k] for k in range(2))
    for k in range(2):
        for _ in range(int(more.get("tuning", 0))):
            gamma = get_rate(10**6, 2 * ROUNDS) * N * len(columns[k]) / M
            items[k] = project(items[k] - gamma * sum_slopes(x[:, columns[k]], users, items[k])[1])
    expected = np.empty((M, P))
    for k in range(2):
        expected[columns[k]] = items[k]
    np.testing.assert_allclose(run.transcript.published_model["items"], expected, atol=1e-5)
    scores = target.score(run.model, table, np.arange(N))
    np.testing.assert_allclose(scores, users @ expected.T, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "local_steps", "more"),
    [
        (horizontal_systems.FmfHfl, 2, {}),
        (horizontal_systems.HflSgdmf, 2, NOISELESS),
        (horizontal_systems.HflSgdmf, 2, {**NOISELESS, "train_both": True}),
        (horizontal_systems.HflSynsgd, 1, NOISELESS),
    ],
)
def test_horizontal_training_follows_figures_3a_and_3c(
    kind: Any, local_steps: int, more: dict[str, float]
) -> None:
    """HFL-synSGD sends sums of gradients (section 5.3) and the server takes the step."""
    target, table, x = make_system(kind, local_steps, **more), DATA, DATA.ratings.toarray()
    project = np.asarray if kind is horizontal_systems.FmfHfl else clip
    run = target.run(table, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    first = sgd_mf.init_embeddings(rng.random((M, P)), 5.0)
    parties = target.make_parties(table, first, rng)
    users = [party.own_embeddings.astype(float) for party in parties]
    shares = [len(party.member_ids) / N for party in parties]
    assert shares[0] != shares[1]
    items = np.asarray(first, float)
    for number, single in enumerate(run.transcript.rounds):
        np.testing.assert_allclose(single.broadcast["items"], items, atol=1e-5)
        sent, step = [], np.zeros((M, P))
        for k, party in enumerate(parties):
            own, v = x[party.member_ids], items
            for local in range(number * local_steps, (number + 1) * local_steps):
                gamma = get_rate(local, ROUNDS * local_steps) * len(own)
                of_u, of_v = sum_slopes(own, users[k], v)
                if target.exchange.has_user_embedding_steps:  # else user embeddings are fixed
                    users[k] = project(users[k] - gamma * shares[k] * of_u)
                v = project(v - gamma * of_v)
            step = step + shares[k] * gamma * of_v
            sent.append(of_v * (own > 0).sum() if kind is horizontal_systems.HflSynsgd else v)
            messages = single.uploads.components[target.exchange.message_name]
            message = messages.to_dense(np.array([k]))[0]
            np.testing.assert_allclose(message, sent[k], rtol=1e-5, atol=1e-4)
        mean = shares[0] * sent[0] + shares[1] * sent[1]
        items = clip(items - step) if kind is horizontal_systems.HflSynsgd else mean
    np.testing.assert_allclose(run.transcript.published_model["items"], items, atol=1e-5)
    for party in parties if more else []:  # only protected parties are tuned
        own, steps = x[party.member_ids], target.n_fit_steps or 20
        v = np.asarray(items, np.float32)
        u = sgd_mf.fit_user_embeddings(DATA.ratings[party.member_ids], v, bound=5.0, steps=steps)
        for step in range(2):
            gamma = get_rate(step, 2, target.tuning_rate) * len(own)
            of_u, of_v = sum_slopes(own, u, v)
            u, v = clip(u - gamma * of_u), clip(v - gamma * of_v)
        scores = target.score(run.model, table, party.member_ids)
        np.testing.assert_allclose(scores, u @ v.T, atol=1e-4)
