"""One-coordinate reports, as far as an epsilon may go."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
from tests.attacks.made import told

DATA = Synthetic(n_users=60, n_items=50, profile=10).load()


@pytest.mark.parametrize("epsilon", [30.0, 40.0, 600.0])
def test_reports_that_hardly_lie_prove_nothing_and_tell_much(epsilon: float) -> None:
    target = FmfLdp(epsilon=epsilon, rounds=4)
    view = target.run(DATA, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
    _, found = told(view)
    assert np.isfinite(found).all()
    assert auc(found.ravel(), DATA.ratings.toarray().ravel() != 0) > 0.7
