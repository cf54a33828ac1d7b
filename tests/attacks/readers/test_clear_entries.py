"""Numbers an item, sent as they are or with noise of no known distribution."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.readers.clear_entries import ClearEntries
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.transcript import Public, Round, Transcript, Uploads

N, M = 30, 50


@pytest.mark.parametrize("zeros", [0, 5])
@pytest.mark.parametrize("silent", [0, 1])
def test_a_few_zeros_and_a_silent_user_leave_the_order_of_noisy_ratings(
    zeros: int, silent: int
) -> None:
    rng = np.random.default_rng(0)
    own = rng.random((N, M)) < 0.2
    values = own + 0.3 * rng.normal(size=(N, M))
    values.flat[rng.permutation(N * M)[:zeros]] = 0
    rated = Uploads(np.arange(N - silent), {"r": Dense(values[: N - silent], Kind.RATINGS)})
    other = Uploads(np.arange(N), {"b": Dense(rng.normal(size=(N, 4)), Kind.CHANGE)})
    public = Public(algorithm="planted", n_users=N, n_items=M)
    transcript = Transcript(public=public, rounds=(Round(None, rated), Round(None, other)))
    view = transcript.view(Vantage.SERVER)
    assert [type(each) for each in reading.reading(view)] == [ClearEntries]
    found = reading.evidence(view, np.arange(N)).log_ratio
    assert auc(found[: N - silent].ravel(), own[: N - silent].ravel()) > 0.97
    assert not found[N - silent :].any()
