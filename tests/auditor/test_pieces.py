"""Pieces of one target follow each other, and share its training."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from auditor import pieces
from auditor.plan import Plan
from targets.datasets.synthetic import Synthetic
from targets.systems.base import Run
from targets.systems.dplcf_sp import DplcfSp
from targets.systems.fcf import Fcf


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
