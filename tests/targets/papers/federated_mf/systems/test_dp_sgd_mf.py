"""Central DP-SGD: one party, and utility that noise takes away."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgdMf
from tests.targets.papers.made import low_rank


def test_a_central_system_has_one_party() -> None:
    with pytest.raises(InputError, match="got parties=2"):
        DpSgdMf(parties=2)


def test_noise_costs_accuracy_and_little_noise_costs_little() -> None:
    truth, seen = low_rank(np.random.default_rng(0))
    interactions = Interactions.of(truth * seen)
    errors = []
    for z in (0.0, 0.01, 3.0):
        target = DpSgdMf(noise_multiplier=z, factors=6, rate=0.1, learning_rate=0.05)
        run = target.run(interactions, np.random.default_rng(1))
        guess = target.score(run.model, interactions, np.arange(200))
        errors.append(np.square(guess - truth)[~seen].mean())
    assert errors[0] < 0.4 * truth[~seen].var()
    assert errors[1] < 1.2 * errors[0]
    assert errors[2] > 3 * errors[0]
