"""A device's code in an adversary's hands, with nothing that a user has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.games.simulated_client import SimulatedClient
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.dplcf.systems.lcf_sp import LcfSp as Lcf
from fedrec_auditor.targets.transcript import HistoriesRefused
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem


def test_made_up_users_have_what_is_public_and_no_users_data_are_held() -> None:
    data = Synthetic(n_users=30, n_items=20, profile=8).load()
    system = WrappedSystem(client=lambda history, model, rng: history.dense())
    client = SimulatedClient.of(system, data)
    assert client.nobody.n_users == client.nobody.ratings.nnz == 0
    met = np.random.default_rng(0).random((50, 20)) < 0.4
    (sent,) = client(met, None, np.random.default_rng(1)).components.values()
    ratings = sent.dense(np.arange(50))
    np.testing.assert_array_equal(ratings != 0, met)
    assert set(np.unique(ratings[met])) == set(np.unique(data.ratings.data))


def test_histories_at_which_a_target_fails_are_told_from_the_others() -> None:
    """A target of somebody's, whose devices draw an item that they have not met."""

    class Drawing(Lcf):
        def upload(self, profiles: Any, *given: Any, **more: Any) -> Any:
            if np.diff(profiles.ratings.indptr).max() == profiles.n_items:
                raise ValueError("'a' cannot be empty")
            return super().upload(profiles, *given, **more)

    client = SimulatedClient.of(Drawing(), Synthetic(n_users=30, n_items=20, profile=8).load())
    met = np.random.default_rng(0).random((5, 20)) < 0.4
    met[3] = True
    with pytest.raises(HistoriesRefused, match="ValueError: 'a' cannot be empty") as refused:
        client(met, None, np.random.default_rng(1))
    np.testing.assert_array_equal(refused.value.takes, [True, True, True, False, True])
