"""Which items are popular, by how all messages together move the model."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts.uploads import popularity
from fedrec_auditor.targets.transcript import Round, Uploads
from tests.attacks.made import view_of

COUNTS = np.random.default_rng(0).pareto(1.0, size=50)


@pytest.mark.parametrize(("broken", "known"), [((), True), ((3, 4), True), (range(5), False)])
def test_rounds_that_broke_down_tell_nothing_and_end_nothing(broken: range, known: bool) -> None:
    """Models that move by popularity along one direction; some are not finite, as after 1e308."""
    way = np.array([0.5, -1.0, 2.0])
    models = [np.outer(COUNTS, way) * (1 + number) for number in range(5)]
    for number in broken:
        models[number][number % 2 :, 1] = np.inf if number % 2 else np.nan
    view = view_of(
        *(Round({"item": model}, Uploads(np.arange(0), {})) for model in models),
        users=9,
        items=50,
        vantage=Vantage.PEERS,
        settings={"negatives": 4.0},
    )
    order = popularity(view)
    assert np.isfinite(order).all()
    assert order.any() == known
    assert not known or np.corrcoef(order, COUNTS)[0, 1] > 0.99
