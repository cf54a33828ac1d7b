"""Clocks are columns that follow the order of calls, alike for every input."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.auditor.verification.checks.repeated_calls import following

# Who called: two inputs in turn, four outputs a call.
PLACES = np.repeat([*[0, 1] * 33, 0], 4)


@pytest.mark.parametrize("changes", [(40, 84), (40, 80), (42, 90), ()], ids=str)
def test_an_epoch_is_a_clock_wherever_it_ends(changes: tuple[int, ...]) -> None:
    """Also where it ended as often before calls of both, of which a test of ranks says nothing."""
    epoch = np.searchsorted(changes, np.arange(len(PLACES)), side="right").astype(float)
    counter = np.arange(len(PLACES))
    found = following(np.stack([epoch, counter], axis=1), PLACES)
    assert found == ((0, 1) if changes else (1,))


def test_what_tells_the_input_is_no_clock() -> None:
    rng = np.random.default_rng(0)
    places = np.repeat(rng.integers(2, size=80), 4)
    told = places + np.arange(len(places)) // 100
    fresh = rng.integers(7, size=len(places))
    assert following(np.stack([told, fresh], axis=1), places) == ()
