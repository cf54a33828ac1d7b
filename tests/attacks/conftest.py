"""Uploads made by hand from a planted truth, one client at a time where that is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.targets.components import Dense, Kind, RankOne, Reports
from fedrec_auditor.targets.transcript import Public, Round, Transcript, Uploads, View


@dataclass(frozen=True)
class Flip:
    """Randomized response by its definition, independent of the project's own mechanism."""

    p: float
    q: float

    def log_prob(self, output: Any, value: Any) -> np.ndarray:
        one = np.where(np.asarray(value) == 1, self.p, self.q)
        with np.errstate(divide="ignore"):
            return np.log(np.where(np.asarray(output) == 1, one, 1 - one))


def seen(transcript: Transcript) -> View:
    return transcript.view(Vantage.SERVER)


def closed_form(
    truth: np.ndarray, items: np.ndarray, alpha: float, regularization: float = 1e-3
) -> tuple[np.ndarray, np.ndarray]:
    """User vectors (n, F) and corrections (n, M) of FCF clients, one by one (Minto, eq. 4, 5)."""
    vectors = np.zeros((len(truth), items.shape[1]))
    corrections = np.zeros(truth.shape)
    for user, held in enumerate(truth.astype(float)):
        c = 1 + alpha * held
        gram = items.T @ (c[:, None] * items) + regularization * np.eye(items.shape[1])
        x = np.linalg.solve(gram, items.T @ (c * held))
        vectors[user] = x
        corrections[user] = c * held - (c - 1) * (items @ x)
    return vectors, corrections


@pytest.fixture
def fcf() -> Callable[..., tuple[View, np.ndarray]]:
    """A view of one FCF round on ``truth`` (n, M), and the user vectors behind it."""

    def make(
        truth: np.ndarray,
        rng: np.random.Generator,
        *,
        factors: int = 5,
        alpha: float = 2.0,
        dtype: Any = np.float32,
        noise: float = 0.0,
    ) -> tuple[View, np.ndarray]:
        items = rng.normal(0, 0.3, (truth.shape[1], factors)).astype(dtype)
        vectors, corrections = closed_form(truth, items.astype(float), alpha)
        sent = RankOne(vectors.astype(dtype), items, sparse.csr_array(corrections.astype(dtype)))
        component: RankOne | Dense = sent
        if noise:
            clean = sent.dense(np.arange(len(truth)))
            scale = noise * clean.std(axis=(1, 2), keepdims=True)
            component = Dense(clean + scale * rng.normal(size=clean.shape), Kind.GRADIENT, 0.5)
        return seen(
            Transcript(
                public=Public(
                    algorithm="fcf",
                    n_users=truth.shape[0],
                    n_items=truth.shape[1],
                    settings={"alpha": alpha},
                ),
                rounds=(
                    Round(
                        broadcast={"items": items},
                        uploads=Uploads(np.arange(len(truth)), {"gradient": component}),
                    ),
                ),
            )
        ), vectors

    return make


@pytest.fixture
def flipped() -> Callable[..., View]:
    """A view of ``rounds`` uploads of flipped bits of ``truth`` (n, M)."""

    def make(
        truth: np.ndarray, rng: np.random.Generator, *, p: float, q: float, rounds: int = 1
    ) -> View:
        messages = [
            (rng.random(truth.shape) < np.where(truth, p, q)).astype(np.int8) for _ in range(rounds)
        ]
        return seen(
            Transcript(
                public=Public(
                    algorithm="flip",
                    n_users=truth.shape[0],
                    n_items=truth.shape[1],
                    settings={"p": p, "q": q},
                    channel=Flip(p, q),
                ),
                rounds=tuple(
                    Round(
                        broadcast=None,
                        uploads=Uploads(np.arange(len(truth)), {"bits": Dense(m, Kind.BITS)}),
                    )
                    for m in messages
                ),
            )
        )

    return make


@pytest.fixture
def reported() -> Callable[..., View]:
    """A view of one round of one-coordinate reports on ``truth``, each sampled by its law."""

    def make(
        truth: np.ndarray,
        rng: np.random.Generator,
        *,
        epsilon: float = 2.5,
        reports: int = 2000,
        alpha: float = 10.0,
        factors: int = 4,
    ) -> View:
        n, m = truth.shape
        items = rng.normal(0, 0.1, (m, factors))
        vectors, corrections = closed_form(truth, items, alpha)
        gradient = (corrections - vectors @ items.T)[:, :, None] * vectors[:, None, :]
        flat = gradient.reshape(n, -1).clip(-1, 1)
        index = rng.integers(m * factors, size=(n, reports))
        kappa = np.tanh(epsilon / 2)
        chance = (1 + kappa * np.take_along_axis(flat, index, axis=1)) / 2
        component = Reports(
            index=index,
            positive=rng.random(index.shape) < chance,
            magnitude=m * factors / kappa,
            shape=(m, factors),
        )
        return seen(
            Transcript(
                public=Public(
                    algorithm="fmf-ldp",
                    n_users=n,
                    n_items=m,
                    settings={"alpha": alpha, "epsilon": epsilon, "reports": float(reports)},
                ),
                rounds=(
                    Round(
                        broadcast={"items": items},
                        uploads=Uploads(np.arange(n), {"reports": component}),
                    ),
                ),
            )
        )

    return make


@pytest.fixture
def skewed() -> np.ndarray:
    """A planted truth (120, 150) in which items differ in popularity and users in activity."""
    rng = np.random.default_rng(5)
    popularity = 0.6 / (1 + np.arange(150) / 8)
    activity = rng.uniform(0.3, 1.6, 120)
    truth = rng.random((120, 150)) < (activity[:, None] * popularity).clip(0, 0.95)
    truth[np.arange(120), rng.integers(150, size=120)] = True
    return truth
