"""Pieces of one target follow each other, and share its training."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Horizon, Unit
from fedrec_auditor.auditor import pieces
from fedrec_auditor.auditor.plan import Plan
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import DEFAULT, Run
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp
from fedrec_auditor.targets.systems.federated_mf.fmf_lfl import FmfLfl
from fedrec_auditor.targets.systems.fedrec.fedrec_apm import FedRecApm
from fedrec_auditor.targets.systems.fmf_ldp.fcf import Fcf


def test_in_one_process_every_target_is_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: Counter[str] = Counter()

    def counted(kind: type[Fcf] | type[DplcfSp]) -> None:
        run = kind.run

        def one(self: Fcf, *given: Any) -> Run:
            trained[self.name] += 1
            return run(self, *given)

        monkeypatch.setattr(kind, "run", one)

    counted(Fcf)
    counted(DplcfSp)
    pieces._trained.clear()
    plan = Plan(targets=("fcf", "dplcf-sp"), attacks=("bit-decoding", "interaction-membership"))
    data = Synthetic(n_users=40, n_items=30, profile=8).load()
    work = pieces.split(plan, plan.targets)
    assert len(set(work)) == len(work) == 2 * (2 + 2)
    for piece in work:
        pieces.run(piece, plan, data)
    assert trained == {"fcf": 1, "dplcf-sp": 1}


def test_a_quick_training_is_not_taken_for_a_whole_one() -> None:
    """In one process, one after the other, with the same settings, seed and data."""
    pieces._trained.clear()
    data = Synthetic(n_users=40, n_items=30, profile=8).load()
    plans = (Plan(targets=("fmf-lfl",), attacks=(), quick=quick) for quick in (True, False))
    target = FmfLfl(rounds=pieces.QUICK_ROUNDS + 5)
    lengths = [
        len(pieces._train(target, plan, data, DEFAULT)[1].transcript.rounds) for plan in plans
    ]
    assert lengths == [pieces.QUICK_ROUNDS, pieces.QUICK_ROUNDS + 5]


def test_bounds_of_an_upload_count_the_features_that_these_data_have() -> None:
    """A user of no known attributes sends d x 18 entries of E_U, not the d x 44 of MovieLens."""
    data = Synthetic(n_users=12, n_items=10, profile=4).load()
    data = replace(data, attributes={})
    plan = Plan(targets=("fedrec-apm",), attacks=(), quick=True)
    found = pieces.run(pieces.Piece("fedrec-apm", pieces.BOUNDS), plan, data)
    sent = FedRecApm(rounds=1).run(data, np.random.default_rng(0)).transcript.rounds[0].uploads
    budgets = {"user": 30.0, "item": 60.0, "mlp1": 40.0, "mlp2": 50.0}
    spent = sum(
        budgets[name.partition(".")[0]] * part.dense(np.arange(1)).size
        for name, part in sent.components.items()
    )
    (whole,) = (
        row.bound.epsilon
        for row in found.measurements
        if (row.bound.scope.unit, row.bound.scope.horizon) == (Unit.USER, Horizon.ROUND)
    )
    assert whole == pytest.approx(spent)
