"""A stranger's system: planted bugs are caught, honest twins are not accused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import audit_system
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record import Record
from tests.specimens.clients import PLANTED, Planted

TABLE = (np.random.default_rng(0).random((40, 16)) < 0.3).astype(float)
HONEST = {planted.honest: planted for planted in PLANTED.values()}


def audited(planted: Planted, client: Callable[..., Any]) -> Record:
    attacks = ["linkage"] if planted.shown_by == "linkage" else []
    return audit_system(
        client,
        data=TABLE,
        claim=planted.claim,
        games=planted.games,
        attacks=attacks,
        quick=True,
        jobs=1,
        **planted.settings,
        **planted.audit,
    )


def accused(planted: Planted, record: Record) -> bool:
    assert not record.errors
    if planted.shown_by == "claim":
        assert any(finding.measured for finding in record.findings)
        return any(finding.verdict is Verdict.VIOLATED for finding in record.findings)
    (first, *_) = record.attacks
    return first.ci_low > first.baseline


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug: str) -> None:
    planted = PLANTED[bug]
    assert accused(planted, audited(planted, planted.broken))


@pytest.mark.parametrize("planted", HONEST.values(), ids=[each.__name__ for each in HONEST])
def test_an_honest_twin_is_not_accused(planted: Planted) -> None:
    assert not accused(planted, audited(planted, planted.honest))
