"""Votes of coordinates accuse no honest client, and scores of discrete distributions are taken."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.losses.divergences import gaussian_epsilon
from fedrec_auditor.auditor.worlds.decision_rules import SampleBudget
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.pilot_rules import CoordinateVotes, logistic, rule_or_vote
from fedrec_auditor.auditor.worlds.scores import check_repeats
from tests.contracts.worlds import worlds_of

pytestmark = pytest.mark.calibration
RUNS = 300
_WIDTH, _DRAWS = 30, 600


def _bound(noise: str, mean: NDArray[np.float64], delta: float, rng: np.random.Generator) -> float:
    """A bound by the number that a pilot chooses, of messages with noise of scale 1."""

    def sent(world: int, size: int, stream: np.random.Generator) -> NDArray[np.float64]:
        drawn: NDArray[np.float64] = getattr(stream, noise)(0.0, 1.0, (size, _WIDTH))
        return drawn + (mean if world == 0 else 0.0)

    learning, piloting, measuring = rng.spawn(3)
    seed = int(learning.integers(2**32))
    voter = CoordinateVotes.of(*(sent(w, 300, np.random.default_rng(seed)) for w in (0, 1)))

    def features(messages: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([messages @ mean, voter(messages)])

    pilot = [features(sent(world, 150, piloting)) for world in (0, 1)]
    budget = SampleBudget(draws=2 * _DRAWS, delta=delta, alpha=0.05)
    rule, _ = rule_or_vote(logistic, pilot[0], pilot[1], 3, budget)
    worlds = worlds_of(
        lambda stream, n: rule(features(sent(0, n, stream))),
        lambda stream, n: rule(features(sent(1, n, stream))),
    )
    return (
        JointBinomial()
        .bound(worlds, delta=delta, confidence=0.95, samples=_DRAWS, rng=measuring)
        .epsilon
    )


@pytest.mark.parametrize("noise", ["normal", "laplace"])
@pytest.mark.parametrize("shift", [0.0, 0.05, 0.2])
def test_honest_noise_is_accused_no_more_often_than_allowed(noise: str, shift: float) -> None:
    mean = np.full(_WIDTH, shift)
    delta = 0.01 if noise == "normal" else 0.0
    truth = shift * _WIDTH
    if noise == "normal":
        truth = gaussian_epsilon(delta, shift * _WIDTH**0.5)
    found = [_bound(noise, mean, delta, rng) for rng in np.random.default_rng(7).spawn(RUNS)]
    above = int(np.count_nonzero(np.array(found) > truth + 1e-12))
    print(f"\n{noise}, {shift}: over {truth:.4g} in {above}, median {np.median(found):.4g}")
    assert stats.binomtest(above, RUNS, 0.05, "greater").pvalue >= 0.001


@pytest.mark.parametrize("values", [1, 2, 3, 10, 40, 200])
def test_no_independent_scores_of_a_discrete_distribution_are_refused(values: int) -> None:
    """However even or uneven it is; atoms of many digits that both sides have are no repeats."""
    for rng in np.random.default_rng(values).spawn(RUNS):
        atoms = rng.normal(size=values)
        chances = rng.dirichlet(np.full(values, rng.choice([0.3, 1.0, 1e6])))
        size = int(rng.integers(20, 1_000))
        check_repeats(*(rng.choice(atoms, size, p=chances).round(4) for _ in range(2)))
