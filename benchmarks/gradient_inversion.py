"""Inputs and interaction sets from gradients: closed forms against optimisation.

One sample of an MLP with 32 inputs, 64 hidden sigmoids and 4 classes, as a plain gradient (the
error is the mean square of the input found less the true one), then users of ML-100K: the closed
form of the readers, label optimisation through simulated local steps, and a shadow client trained
on guesses. The shadow client follows the published description of IMIA (Yuan et al., Interaction-
level membership inference attack against federated recommender systems, 2023), not its code: train
as a client would on as many of the moved rows as are own items, at random; keep the half whose rows
end up nearest to the upload, draw the others again, five times. The optimised are timed once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks import Row, best_of
from benchmarks import _inversion as inversion
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import Attack, Background, Reconstruction
from fedrec_auditor.attacks.gradient_inversion import GradientInversion
from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
from fedrec_auditor.attacks.parts.model_messages import item_messages
from fedrec_auditor.attacks.readers.first_layer import first_layer_input
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Run, Target
from fedrec_auditor.targets.transcript import View

USERS, GUESSES, ROUNDS = 8, 5, 2


def measure() -> tuple[Row, ...]:
    with threadpool_limits(1):
        return (*_inputs(), *_sets("fedmf"), *_sets("fedncf"))


def _inputs() -> tuple[Row, ...]:
    rng = np.random.default_rng(0)
    shapes = ((64, 32), (4, 64))
    network = inversion.Mlp(
        [rng.standard_normal(shape) / np.sqrt(shape[1]) for shape in shapes],
        [0.1 * rng.standard_normal(shape[0]) for shape in shapes],
    )
    x = rng.standard_normal(32)
    observed = network.gradients(x, 2)
    ways: dict[str, Callable[[], NDArray[np.float64]]] = {
        "first layer": lambda: first_layer_input(observed[0][None], observed[1][None])[0]
    }
    for method in (inversion.dlg, inversion.idlg, inversion.cosine):
        ways[method.__name__] = lambda method=method: (
            method(network, observed, np.random.default_rng(1)).x
        )
    seconds = best_of(ways, repeats=3)
    return tuple(
        Row(
            job="one sample of a 32-64-4 MLP",
            way=way,
            seconds=seconds[way],
            work=1,
            unit="samples",
            note=f"error {np.mean((find() - x) ** 2):.0e}",
        )
        for way, find in ways.items()
    )


def _sets(name: str) -> tuple[Row, ...]:
    data = FAMILIES["datasets"].member("ml-100k")().load()
    target = FAMILIES["targets"].member(name)(rounds=ROUNDS)
    run: Run = target.run(data, np.random.default_rng(0))
    view = run.transcript.view(Vantage.SERVER)
    users = np.sort(view.rounds[-1].uploads.users[:USERS])
    truth = data.ratings[users].toarray() != 0

    def attacked(attack: Attack) -> NDArray[np.bool_]:
        guess = attack.infer(view, Background(subjects=users), np.random.default_rng(1))
        assert isinstance(guess, Reconstruction)
        assert guess.items is not None
        return guess.items

    ways: dict[str, Callable[[], NDArray[np.bool_]]] = {
        "closed form": lambda: attacked(InteractionReconstruction()),
        "label optimisation": lambda: attacked(GradientInversion(most=USERS)),
        "shadow client": lambda: _shadows(target, data, view, users),
        "every moved row": lambda: _moved(view, users)[1],
    }
    rows = []
    for way, find in ways.items():
        start = time.perf_counter()
        found = find()
        rows.append(
            Row(
                job=f"interaction set, {name}, ML-100K",
                way=way,
                seconds=time.perf_counter() - start,
                work=USERS,
                unit="users",
                note=f"F1 {metrics.set_f1(found, truth).mean():.3f}",
            )
        )
    return tuple(rows)


def _moved(view: View, users: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """How the last message of each user moves the item table, and which rows of it."""
    table, _ = item_messages(view)[-1].of(users)
    ((_, change, moved),) = table.changes()
    return change, moved.any(axis=2)


def _shadows(
    target: Target, data: Interactions, view: View, users: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Clients trained on guesses: own are those rows that end up near where the upload has them."""
    rng = np.random.default_rng(2)
    change, moved = _moved(view, users)
    broadcast = view.rounds[-1].broadcast
    assert broadcast is not None
    negatives = int(view.public.settings["negatives"])
    chosen = moved & (rng.random(moved.shape) < 1 / (1 + negatives))
    for _ in range(GUESSES):
        guess = replace(
            data.take(users), ratings=sparse.csr_array(np.where(chosen, 5, 0).astype(np.float32))
        )
        sent = target.upload(guess, broadcast, rng).components["item"].dense(np.arange(len(users)))
        away = np.linalg.norm(sent - broadcast["item"] - change, axis=2)
        # the share of own items is public: one to so many negatives
        order = np.argsort(np.where(chosen, away, np.inf), axis=1)
        kept = np.zeros_like(chosen)
        half = chosen.sum(axis=1) // 2
        np.put_along_axis(kept, order, np.arange(chosen.shape[1]) < half[:, None], axis=1)
        others = moved & ~chosen
        wanted = (moved.sum(axis=1) // (1 + negatives) - half)[:, None]
        draw = np.argsort(np.where(others, rng.random(others.shape), 2.0), axis=1)
        fresh = np.zeros_like(chosen)
        np.put_along_axis(fresh, draw, np.arange(chosen.shape[1]) < wanted, axis=1)
        chosen = kept | fresh
    return chosen
