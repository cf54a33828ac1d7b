"""Ratings behind the rows that local descent on a squared error moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.readers.rating_rows import RatingRows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import FmfLfl
from fedrec_auditor.targets.transcript import View

USERS, ITEMS = 30, 160
EVERYBODY = np.arange(USERS)


def played(**settings: float) -> tuple[View, np.ndarray]:
    """One round of devices that rate about half of the items evenly from 1 to 5."""
    rng = np.random.default_rng(0)
    held = (rng.random((USERS, ITEMS)) < 0.5) * rng.integers(1, 6, (USERS, ITEMS))
    run = FmfLfl(rounds=1, **settings).run(Interactions.of(held.astype(float)), rng)
    return run.transcript.view(Vantage.SERVER), held


def told(view: View) -> np.ndarray:
    return RatingRows().read(view, EVERYBODY).ratings


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_short_steps_give_every_rating_away(rate: float) -> None:
    view, held = played(learning_rate=rate)
    np.testing.assert_array_equal(told(view), held)


def test_steps_that_meet_the_bounds_give_nearly_all_away() -> None:
    """At the published rate; guesses at random are right once in five."""
    view, held = played()
    right = (told(view) == held)[held > 0].mean()
    assert right > 0.9


def test_it_is_refused_without_what_is_public_of_the_steps() -> None:
    view, _ = played()
    assert not RatingRows().refusal(view)
    for name in ("bound", "learning_rate", "local_steps"):
        rest = {key: value for key, value in view.public.settings.items() if key != name}
        blind = replace(view, public=replace(view.public, settings=rest))
        assert "local steps" in RatingRows().refusal(blind)
