"""Stage 1 alone: users fitted to a random V, and silence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflPretrained
from tests.targets.papers.made import rated


def test_every_user_is_fitted_to_the_same_random_items() -> None:
    target, table = LflPretrained(factors=3, fitting=2000, bound=50.0), rated(12, 30)
    run = target.run(table, np.random.default_rng(1))
    items = run.model.arrays["items"].astype(float)
    assert (items >= 0).all()
    scores = target.score(run.model, table, np.arange(12))
    for i, row in enumerate(table.ratings.toarray()):
        best, _ = optimize.nnls(items[row > 0], row[row > 0])
        np.testing.assert_allclose(scores[i], items @ best, rtol=1e-3, atol=1e-3)


def test_devices_are_silent() -> None:
    data, rng = rated(12, 30), np.random.default_rng(0)
    run = LflPretrained().run(data, rng)
    assert run.transcript.rounds == ()
    assert run.transcript.release is None
    assert LflPretrained().upload(data, None, rng, size=2).components == {}


def test_ratings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="Expected ratings in"):
        LflPretrained(bound=4.0).run(rated(12, 30), np.random.default_rng(0))
