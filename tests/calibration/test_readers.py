"""Evidence of readers makes no posterior worse than its prior, on several trainings."""

from __future__ import annotations

from unittest import SkipTest

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.auditor.testing.attacks import TARGETS, data, narrow
from fedrec_auditor.auditor.testing.readers import ReaderCase, check_evidence_beside_the_true_prior

pytestmark = pytest.mark.calibration


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("target", TARGETS)
def test_evidence_of_several_trainings(target: str, seed: int) -> None:
    run = narrow(target, rounds=4).run(data(), np.random.default_rng(seed))
    asked = reading.reading(run.transcript.view(Vantage.SERVER))
    checked = 0
    for reader in asked:
        try:
            check_evidence_beside_the_true_prior(ReaderCase(reader, run, data()))
        except SkipTest:
            continue
        checked += 1
    if asked and not checked:
        pytest.skip("no reader tells of interactions")
