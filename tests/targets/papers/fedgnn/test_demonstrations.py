"""What violates is shown, and its control is not above its claim."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.demonstrations import show
from fedrec_auditor.targets.papers.fedgnn.demonstrations import DEMONSTRATIONS


@pytest.mark.parametrize(("name", "least"), [("rows", 4.0), ("numbers", 4.0), ("batch", 4.5)])
def test_shown(name: str, least: float) -> None:
    (full,) = (known for known in DEMONSTRATIONS if known.endswith(name))
    shown = show(
        full,
        DEMONSTRATIONS[full](samples=4_000),
        confidence=0.95,
        quick=False,
        rng=np.random.default_rng(1),
    )
    assert shown.row.shown
    assert shown.row.violation.bound.epsilon > least
    verdict = Verdict.NO_CLAIM if name == "batch" else Verdict.VIOLATED  # a budget of no unit
    assert [finding.verdict for finding in shown.findings] == [verdict]
