"""The fused noise, entry by entry, against streams and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.targets.noise_kernel import laplace, laplace_rows, log
from fedrec_auditor.targets.streams import Streams

ULPS = 3  # two of ours, one of numpy's


@given(st.floats(2.0**-53, 1.0, exclude_max=True))
def test_the_logarithm_is_numpys_to_its_last_bits(x: float) -> None:
    _check_log(x)


@pytest.mark.parametrize("center", [0.5, 0.5**0.5, 0.25, 1.0, *(2.0 ** -np.arange(3.0, 54.0))])
def test_the_logarithm_has_no_seam(center: float) -> None:
    for x in (np.nextafter(center, 0.0), center, np.nextafter(center, 2.0)):
        _check_log(float(x))


def _check_log(x: float) -> None:
    expected = np.log(x)
    assert abs(log(x) - expected) <= ULPS * np.spacing(abs(expected))


def test_draws_are_those_of_streams_wherever_they_stand() -> None:
    streams = Streams.spawn(np.random.default_rng(0), 5)
    drawn = np.empty((5, 20_000))
    laplace(np.zeros_like(drawn), streams.seeds, 1.0, 1.0, drawn)
    expected = streams.laplace(20_000)
    assert (np.abs(drawn - expected) <= ULPS * np.spacing(np.abs(expected))).all()

    width, ids = 7, np.array([3, 4, 2_000])
    rows = np.empty((3, width))
    last = streams.take(np.array([4]))
    laplace_rows(np.zeros_like(rows), np.array([0, 3]), ids, last.seeds, 1.0, 1.0, rows)
    places = ids[:, None] * width + np.arange(width)
    assert np.array_equal(rows, drawn[4, places])


def test_entries_are_clipped_before_their_noise() -> None:
    seeds = np.array([7], dtype=np.uint64)
    sent = np.empty((2, 1, 3))
    laplace(np.array([[-9.0, 0.25, 9.0]]), seeds, 0.5, 0.1, sent[0])
    laplace(np.zeros((1, 3)), seeds, 0.5, 0.1, sent[1])
    np.testing.assert_allclose(sent[0] - sent[1], [[-0.5, 0.25, 0.5]], rtol=1e-12)
