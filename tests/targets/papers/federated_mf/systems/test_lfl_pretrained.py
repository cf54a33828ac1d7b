"""Stage 1 alone: users fitted to a random V, and silence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.lfl_pretrained import LflPretrained
from fedrec_auditor.targets.systems.base import Population


def data() -> Interactions:
    rng = np.random.default_rng(0)
    return Interactions.of((rng.random((12, 30)) < 0.5) * rng.integers(1, 6, (12, 30)))


def test_every_user_is_fitted_to_the_same_random_items() -> None:
    target, table = LflPretrained(factors=3, fitting=2000, bound=50.0), data()
    run = target.run(table, np.random.default_rng(1))
    items = run.model.arrays["items"].astype(float)
    assert (items >= 0).all()
    scores = target.score(run.model, table, np.arange(12))
    for i, row in enumerate(table.ratings.toarray()):
        best, _ = optimize.nnls(items[row > 0], row[row > 0])
        np.testing.assert_allclose(scores[i], items @ best, rtol=1e-3, atol=1e-3)


def test_devices_are_silent() -> None:
    run = LflPretrained().run(data(), np.random.default_rng(0))
    assert run.transcript.rounds == ()
    assert run.transcript.release is None
    assert LflPretrained().upload(data(), None, np.random.default_rng(0), size=2).components == {}
    (scoped,) = LflPretrained().scoped_claims(Population(n_users=12, n_items=30))
    assert scoped.scope.vantage is Vantage.SERVER


def test_ratings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="Expected ratings in"):
        LflPretrained(bound=4.0).run(data(), np.random.default_rng(0))
