"""Synthetic uploads with known interactions; some are drawn by a loop over clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background, Reconstruction
from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction, choose_sets
from fedrec_auditor.attacks.membership_attacks import InteractionMembership
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.readers.base import compute_posterior
from fedrec_auditor.targets.components import Component, Dense, Payload, RankOneMessages, Reports
from fedrec_auditor.targets.transcript import PublicInfo, Round, Transcript, Uploads, View


@dataclass(frozen=True)
class Flip:
    """Randomized response by definition, independent of the project's own mechanism."""

    p: float
    q: float

    def log_prob(self, output: Any, value: Any) -> np.ndarray:
        one = np.where(np.asarray(value) == 1, self.p, self.q)
        with np.errstate(divide="ignore"):
            return np.log(np.where(np.asarray(output) == 1, one, 1 - one))


def send(
    components: dict[str, Component], broadcast: Any = None, users: np.ndarray | None = None
) -> Round:
    """A round with these messages, from ``users`` or else the first users."""
    count = len(next(iter(components.values())))
    return Round(broadcast, Uploads(np.arange(count) if users is None else users, components))


def make_view(
    *rounds: Round,
    users: int,
    items: int,
    vantage: Vantage = Vantage.SERVER,
    rng: np.random.Generator | None = None,
    **public: Any,
) -> View:
    known = PublicInfo(**{"algorithm": "made", "n_users": users, "n_items": items, **public})
    return Transcript(public=known, rounds=rounds).view(vantage, rng)


def read_all(view: View) -> tuple[list[str], np.ndarray]:
    """Names of a view's readers, and their log-likelihood ratios for all users (n, M)."""
    readers = [type(reader).__name__ for reader in reading.find_readers(view)]
    return readers, reading.read_evidence(view, np.arange(view.public.n_users)).log_ratio


def get_sets(view: View) -> np.ndarray:
    """The sets with the largest expected F1, from all evidence of a view (n, M)."""
    evidence = reading.read_evidence(view, np.arange(view.public.n_users))
    return choose_sets(compute_posterior(evidence))


def reconstruct(view: View) -> Reconstruction:
    return InteractionReconstruction().infer(view, Background(), np.random.default_rng(0))


def score(view: View, pairs: np.ndarray | None = None) -> np.ndarray:
    """Membership scores of ``pairs`` (m, 2) of users and items, or of all pairs: (n, M)."""
    n, m = view.public.n_users, view.public.n_items
    asked = np.stack(np.unravel_index(np.arange(n * m), (n, m)), axis=1) if pairs is None else pairs
    background, rng = Background(candidate_pairs=asked), np.random.default_rng(0)
    values = InteractionMembership().infer(view, background, rng).values
    return values.reshape(n, m) if pairs is None else values


def rename(view: View) -> View:
    """A copy whose model parts and messages have other names, in reverse order."""
    rounds = []
    for seen in view.rounds:
        model, sent = seen.broadcast, seen.uploads.components
        names = {name: f"part {k}" for k, name in enumerate(reversed({**model, **sent}))}
        uploads = Uploads(seen.uploads.users, {names[n]: part for n, part in sent.items()})
        broadcast = {names[n]: part for n, part in model.items()}
        rounds.append(replace(seen, broadcast=broadcast, uploads=uploads))
    return replace(view, rounds=tuple(rounds))


def closed_form(
    truth: np.ndarray, items: np.ndarray, alpha: float, regularization: float = 1e-3
) -> tuple[np.ndarray, np.ndarray]:
    """User vectors (n, F) and corrections (n, M) of FCF clients, by a loop (Minto et al., eq. 4 and
    5).
    """
    vectors = np.zeros((len(truth), items.shape[1]))
    corrections = np.zeros(truth.shape)
    for user, held in enumerate(truth.astype(float)):
        c = 1 + alpha * held
        gram = items.T @ (c[:, None] * items) + regularization * np.eye(items.shape[1])
        x = np.linalg.solve(gram, items.T @ (c * held))
        vectors[user] = x
        corrections[user] = c * held - (c - 1) * (items @ x)
    return vectors, corrections


def run_fcf(
    truth: np.ndarray,
    rng: np.random.Generator,
    *,
    factors: int = 5,
    alpha: float = 2.0,
    dtype: Any = np.float32,
    noise: float = 0.0,
) -> tuple[View, np.ndarray]:
    """A view of one FCF round with the interactions ``truth`` (n, M), and its user vectors."""
    n, m = truth.shape
    items = rng.normal(0, 0.3, (m, factors)).astype(dtype)
    vectors, corrections = closed_form(truth, items.astype(float), alpha)
    gradient: Component = RankOneMessages(
        vectors.astype(dtype), items, sparse.csr_array(corrections.astype(dtype))
    )
    if noise:
        clean = gradient.to_dense(np.arange(n))
        scale = noise * clean.std(axis=(1, 2), keepdims=True)
        gradient = Dense(clean + scale * rng.normal(size=clean.shape), Payload.GRADIENT, 0.5)
    one = send({"gradient": gradient}, {"items": items})
    return make_view(one, users=n, items=m, algorithm="fcf", settings={"alpha": alpha}), vectors


def flip(
    truth: np.ndarray, rng: np.random.Generator, *, p: float, q: float, rounds: int = 1
) -> View:
    """A view of ``rounds`` uploads of flipped bits of ``truth`` (n, M)."""
    messages = [
        (rng.random(truth.shape) < np.where(truth, p, q)).astype(np.int8) for _ in range(rounds)
    ]
    return make_view(
        *(send({"bits": Dense(bits, Payload.BITS)}) for bits in messages),
        users=truth.shape[0],
        items=truth.shape[1],
        settings={"p": p, "q": q},
        noise_channel=Flip(p, q),
    )


def report(
    truth: np.ndarray,
    rng: np.random.Generator,
    *,
    epsilon: float = 2.5,
    reports: int = 2000,
    alpha: float = 10.0,
    factors: int = 4,
) -> View:
    """A view of one round of one-coordinate reports about ``truth``, each drawn by definition."""
    n, m = truth.shape
    items = rng.normal(0, 0.1, (m, factors))
    vectors, corrections = closed_form(truth, items, alpha)
    gradient = (corrections - vectors @ items.T)[:, :, None] * vectors[:, None, :]
    flat = gradient.reshape(n, -1).clip(-1, 1)
    index = rng.integers(m * factors, size=(n, reports))
    kappa = np.tanh(epsilon / 2)
    chance = (1 + kappa * np.take_along_axis(flat, index, axis=1)) / 2
    positive = rng.random(index.shape) < chance
    return make_view(
        send(
            {"reports": Reports(index, positive, m * factors / kappa, (m, factors))},
            {"items": items},
        ),
        users=n,
        items=m,
        algorithm="fmf-ldp",
        settings={"alpha": alpha, "epsilon": epsilon, "reports": float(reports)},
    )


def _draw_skewed() -> np.ndarray:
    rng = np.random.default_rng(5)
    popularity = 0.6 / (1 + np.arange(150) / 8)
    activity = rng.uniform(0.3, 1.6, 120)
    truth = rng.random((120, 150)) < (activity[:, None] * popularity).clip(0, 0.95)
    truth[np.arange(120), rng.integers(150, size=120)] = True
    return truth


# Interactions (120, 150) with items of different popularity and users of different activity.
SKEWED = _draw_skewed()
