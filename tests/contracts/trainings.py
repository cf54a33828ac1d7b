"""Short trainings, one per form of message that users of the audited systems send.

Tests of attacks and readers use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.games.game import HalfTrainings
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.components import Component, Dense, SparseRows
from fedrec_auditor.targets.compute import DEFAULT_MACHINE
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Target, TrainingRun
from fedrec_auditor.targets.transcript import Uploads, View

TARGETS = (
    "bpr-mf", "dp-privrec", "f-dpmf", "f-gerai", "fcf", "fedncf", "fmf-ldp", "fmf-lfl",
    "fofl-self", "gd-dr", "lfl-sgdmf", "nn-self", "fedgnn",
)  # fmt: skip


@cache
def data() -> Interactions:
    """Synthetic data of 90 users and 70 items, in which tastes depend on attributes."""
    return Synthetic(n_users=90, n_items=70, profile=14, signal=1.0).load()


def narrow(name: str, rounds: int = 2) -> Target:
    """The named system with at most ``rounds`` rounds, and embeddings of 8 numbers."""
    target: Any = FAMILIES["targets"].load_class(name)()
    settings = {f.name for f in fields(target)}
    if "learner" in settings:
        target = replace(target, learner=replace(target.learner, dimension=8))
    if "embedding" in settings:
        target = replace(target, embedding=8, width=16)
    short: Target = target.limit_rounds(rounds)
    return short


@cache
def training(name: str) -> TrainingRun:
    """Two rounds of the ``narrow`` system on ``data``; all tests share the result unchanged."""
    return narrow(name).run(data(), np.random.default_rng(0))


@cache
def halves(name: str) -> HalfTrainings:
    """Three trainings of the ``narrow`` system on random halves of the users.

    The result has their views without the server's: shuffled, other clients', release.
    """
    return HalfTrainings.train(
        narrow(name),
        data(),
        (Vantage.SHUFFLED, Vantage.PEERS, Vantage.RELEASE),
        count=3,
        compute=DEFAULT_MACHINE,
        rng=np.random.default_rng(1),
    )


def rewritten(view: View, change: Callable[[Component], Component]) -> View:
    """Returns the view with ``change`` applied to every message component, linked or not."""

    def each(parts: Mapping[str, Component] | None) -> dict[str, Component] | None:
        return None if parts is None else {name: change(part) for name, part in parts.items()}

    def linked(uploads: Uploads | None) -> Uploads | None:
        return uploads and Uploads(uploads.users, each(uploads.components) or {})

    rounds = (
        replace(
            one,
            uploads=linked(one.uploads),
            cleartext=linked(one.cleartext),
            shuffled=each(one.shuffled_parts),
        )
        for one in view.rounds
    )
    return replace(view, rounds=tuple(rounds))


def as_arrays(view: View) -> View:
    """Returns the view with every message component as a plain array."""
    return rewritten(view, plain)


def plain(component: Component) -> Dense | SparseRows:
    """Returns the component as a plain array, or as the rows of the array that are sent."""
    everyone = np.arange(len(component))
    values, sent = component.to_dense(everyone), component.flag_sent_rows(everyone)
    kind, rate = component.kind, component.learning_rate
    if sent.all():
        return Dense(values, kind, rate)
    indptr = np.concatenate([[0], np.cumsum(sent.sum(axis=1))])
    ids = np.nonzero(sent)[1]
    return SparseRows(indptr, ids, values[sent], component.shape[0], kind, rate)
