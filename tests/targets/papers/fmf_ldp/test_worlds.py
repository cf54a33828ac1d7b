"""FMF-LDP: every report tells the two users apart as well as one can, in every round."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.targets.components import Reports
from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
from fedrec_auditor.targets.transcript import Uploads
from tests.two_worlds import ReadUploads

RUNS = 20_000


@pytest.mark.parametrize("rounds", [10, 1])
def test_reports_are_independent_and_of_the_rate_of_epsilon(rounds: int) -> None:
    """Entries 2b and 2c: 4 reports of epsilon 1/4 are spent in each round, not once.

    The server broadcasts the same V each time, under which the gradients of the two halves of the
    catalogue are projected to opposite corners. Mean and variance of the count of +B are the
    binomial's, within 5.5 standard deviations.
    """
    system = FmfLdp(epsilon=0.25, reports=4, rounds=rounds, factors=1)
    half, reports = system.corner_items(), 4 * rounds

    def positives(uploads: Uploads) -> np.ndarray:
        sent = uploads.components["reports"]
        assert isinstance(sent, Reports)
        return np.asarray(sent.positive.reshape(-1, reports).sum(axis=1), np.float64)

    first, second = np.repeat(np.eye(2), half, axis=1)
    draw = ReadUploads(
        system=system,
        histories=(first, second),
        read=positives,
        broadcast={"items": system.opposite_rows(2 * half)},
        each=rounds,
        block=1 << 18,
    )
    for world, sign in ((0, 1), (1, -1)):
        rate = 1 / (1 + math.exp(-sign * 0.25))
        counts = draw(world, RUNS, np.random.default_rng(world))
        variance = reports * rate * (1 - rate)
        assert counts.max() <= reports
        assert abs(counts.mean() - reports * rate) < 5.5 * math.sqrt(variance / RUNS)
        assert abs(counts.var() / variance - 1) < 5.5 * math.sqrt(2 / RUNS)
