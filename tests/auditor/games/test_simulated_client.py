"""A device's code in an adversary's hands, with nothing that a user has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.dplcf.systems.neighbourhood_systems import LcfSp as Lcf
from fedrec_auditor.targets.transcript import HistoriesRefused, Kind
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


class Drawing(Lcf):
    """Devices that draw an item which they have not met."""

    def upload(self, profiles: Any, *given: Any, **more: Any) -> Any:
        if np.diff(profiles.ratings.indptr).max() == profiles.n_items:
            raise ValueError("'a' cannot be empty")
        return super().upload(profiles, *given, **more)


class Diverging(WrappedSystem):
    """Devices whose steps go on for as long as a history is."""

    def upload(self, profiles: Any, *given: Any, **more: Any) -> Any:
        sent = super().upload(profiles, *given, **more)
        (part,) = sent.components.values()
        values = part.dense(np.arange(profiles.n_users)).astype(float)
        values[np.diff(profiles.ratings.indptr) == profiles.n_items] = np.nan
        return replace(sent, components={"sent": Dense(values, Kind.CHANGE)})


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (Drawing(), "ValueError: 'a' cannot be empty"),
        (Diverging(client=lambda history, model, rng: history.dense()), "above 1e\\+13 or NaN"),
    ],
)
def test_histories_at_which_a_target_fails_are_told_from_the_others(target: Any, why: str) -> None:
    client = SimulatedClient.of(target, Synthetic(n_users=30, n_items=20, profile=8).load())
    met = np.random.default_rng(0).random((5, 20)) < 0.4
    met[3] = True
    with pytest.raises(HistoriesRefused, match=why) as refused:
        client(met, None, np.random.default_rng(1))
    np.testing.assert_array_equal(refused.value.takes, [True, True, True, False, True])
