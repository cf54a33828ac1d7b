"""Noise on rows drawn by lot is on these rows alone; noise on all covers every change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.targets.components import Dense, Kind, Randomized
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Clients
from fedrec_auditor.targets.protections.laplace_rows import DrawnRows, LaplaceRows
from fedrec_auditor.targets.streams import Streams

_CLIENTS = 400


def clients(count: int = _CLIENTS) -> Clients:
    return Clients(
        interactions=Interactions.of(np.ones((count, 3))),
        features=np.ones((count, 1)),
        streams=Streams.spawn(np.random.default_rng(0), count),
    )


def test_rows_are_drawn_with_replacement_and_all_others_are_sent_as_they_are() -> None:
    table = np.random.default_rng(1).normal(size=(_CLIENTS, 30, 4))
    sent = LaplaceRows(noisy_rows=20, scale=2.0).protect(
        {"item": Dense(table, Kind.MODEL), "mlp1.bias": Dense(table[:, 0], Kind.MODEL)},
        {},
        clients(),
    )
    noise = sent["item"].dense(np.arange(_CLIENTS)) - table
    moved = noise.any(axis=2)
    assert (noise[moved] != 0).all()
    assert moved.mean() == pytest.approx(1 - (29 / 30) ** 20, abs=0.03)
    # a row that is drawn k times has the sum of k draws: 20 draws in all, of variance 2 scale^2
    assert (noise**2).sum(axis=(1, 2)).mean() == pytest.approx(20 * 4 * 2 * 2.0**2, rel=0.1)
    np.testing.assert_array_equal(sent["mlp1.bias"].dense(np.arange(_CLIENTS)), table[:, 0])


def test_the_sum_of_all_is_that_of_what_each_sends() -> None:
    table = np.random.default_rng(1).normal(size=(50, 12, 3))
    part = Randomized(Dense(table, Kind.MODEL), DrawnRows(7, 0.5), clients(50).streams)
    np.testing.assert_allclose(part.total(), part.dense(np.arange(50)).sum(axis=0))


def test_noise_on_all_numbers_hides_a_change_that_is_clipped() -> None:
    noisy, base = LaplaceRows(every_row=True, clip=0.5, scale=2.0), np.full((3, 4), 7.0)
    sent = noisy.protect({"item": Dense(np.full((4000, 3, 4), 9.0), Kind.MODEL)}, {"item": base},
                         clients(4000))  # fmt: skip
    noise = sent["item"].dense(np.arange(4000)) - 7.5
    assert stats.kstest(noise[:, 0, 0], stats.laplace(scale=2.0).cdf).pvalue > 1e-6
    assert abs(np.corrcoef(noise[:, 0, 0], noise[:, 2, 3])[0, 1]) < 0.1
    assert noisy.spent({"item": 12}) == 12 * 0.5
    assert noisy.coordinate("item") is not None


def test_without_noise_on_all_no_number_is_promised() -> None:
    (promise,) = LaplaceRows().promises(("item",))
    assert promise.epsilon == LaplaceRows().spent({"item": 1}) == math.inf
    assert LaplaceRows().coordinate("item") is None
