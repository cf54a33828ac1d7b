"""DP-PrivRec: many steps side by side are the system's step, and the step size is not paid for.

Random figures are refused beyond 5.5 standard deviations (4e-8).
"""

from __future__ import annotations

import math

import numpy as np

from fedrec_auditor.auditor.judging.demonstrations import claim_of
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec.demonstrations import (
    dense,
    dp_privrec_step,
    following,
    small,
)
from fedrec_auditor.targets.papers.privrec.systems.dp_privrec import BIT, CLIP

RUNS = 10_000


def test_without_noise_every_copy_takes_the_systems_step() -> None:
    """Noise of multiplier 1e-12 is below what a float32 holds."""
    system = small(multiplier=1e-12, server_rate=3.0)
    held = Interactions.of(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), name="two")
    model = system.first(held, np.random.default_rng(0))
    runs = [system.upload(held, model, np.random.default_rng(seed)) for seed in range(3)]
    messages = {
        name: np.stack([dense(one)[name] for one in runs], axis=1) for name in runs[0].components
    }
    found = following(
        system, model, messages | {BIT: messages[BIT][:, 0]}, np.random.default_rng(1)
    )
    assert CLIP not in found
    for run, one in enumerate(runs):
        expected = system.step(model, one, np.random.default_rng(1))
        for name, part in found.items():
            np.testing.assert_allclose(part[run], expected[name], rtol=1e-6, atol=1e-7)


def test_changes_lie_on_the_bound_and_apart_by_half_of_what_two_users_can() -> None:
    """alpha3 S / M in units of (2 S z / M) / sqrt(1 - h): 16 sqrt(0.3) / 2 = 4.38."""
    side = dp_privrec_step().violation
    near, far = (side.draw(w, RUNS, np.random.default_rng(w)) for w in (0, 1))
    expected = 16 * math.sqrt(0.3) / 2
    apart = (near.mean() - far.mean()) / far.std()
    assert abs(apart - expected) < 5.5 * math.sqrt((2 + expected**2 / 2) / RUNS)
    assert abs(near.std() / far.std() - 1) < 5.5 / math.sqrt(RUNS)


def test_repaired_the_step_multiplies_the_noise() -> None:
    side = dp_privrec_step().control
    near, far = (side.draw(w, RUNS, np.random.default_rng(w)) for w in (0, 1))
    expected = math.sqrt(0.3) / 2
    apart = (near.mean() - far.mean()) / far.std()
    assert abs(apart - expected) < 5.5 * math.sqrt((2 + expected**2 / 2) / RUNS)
    assert claim_of(side).epsilon == claim_of(dp_privrec_step().violation).epsilon
