"""The numbers behind headings 1 to 5, each by a second way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated, Shuffled

PAPER, DPLCF = (Paper.of(f"fedrec_auditor.targets.papers.{name}") for name in ("fmf_ldp", "dplcf"))


def of(number: str) -> tuple[Computed, ...]:
    return PAPER.computed(PAPER.entry(number))


def test_one_interaction_costs_what_a_report_does() -> None:
    """The user vectors by hand (equation 4): of either sign, and so are all gradients."""
    items = np.array([-5e-3, *[3e-4] * 6])
    for first, sign in ((0.0, 1), (1.0, -1)):
        held = np.array([first, *[1.0] * 6])
        vector = 2 * (held @ items) / (((1 + held) * items**2).sum() + 1e-6)
        gradient = (1 + held) * (held - vector * items) * vector
        assert (sign * gradient[1:] > 1).all()


def test_unlinked_reports_tell_histories_apart_in_a_simulation_too() -> None:
    """Sums of 2,000 shuffled counts of 1,000 users, in either world: 20,000 guesses of each."""
    few, many = of("4d")
    rng, rate = np.random.default_rng(2), 1 / (1 + math.exp(2.5))
    others = rng.binomial(999 * 2000, rate, (2, 20_000))
    mine = np.stack([rng.binomial(2000, p, 20_000) for p in (1 - rate, rate)])
    middle = 999 * 2000 * rate + 1000
    sums = others + mine
    right = ((sums[0] > middle).mean() + (sums[1] < middle).mean()) / 2
    assert right == pytest.approx(few.right, abs=0.003)
    exact = Repeated(Shuffled(2.5, 50_000), 2000)
    bound = exact_lower_bound(exact, any_pair(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING), 0.2)
    assert 2 * many.right - 1 > 0.2  # at epsilon 0 the divergence is the advantage of a guess
    assert bound.epsilon > 0


def test_figure_5_has_dplcf_at_its_own_epsilon() -> None:
    theirs = DPLCF.table("Tables 4, 5").row("DPLCF-SP")
    row = PAPER.table("Figure 5").row("DPLCF")
    assert {metric: row[metric] for metric in row if metric in theirs} == {
        metric: theirs[metric] for metric in ("HR@2", "HR@10")
    }


@pytest.mark.parametrize(
    ("reason", "epsilon", "reports", "told"),
    [
        (PAPER.entry("2b").reason, 2.5, 2000, "4,505 at delta 1e-6"),
        (DPLCF.entry("8b").reason, 1.0, 1682, "945.7 at delta 1e-6"),
    ],
    ids=["2b", "8b"],
)
def test_a_user_at_a_delta_has_the_epsilon_that_is_told(
    reason: str, epsilon: float, reports: int, told: str
) -> None:
    """Delta of so many randomized responses, summed over their binomial numbers."""
    right = np.arange(reports + 1)
    rate = 1 / (1 + math.exp(-epsilon))
    loss, mass = epsilon * (2 * right - reports), stats.binom.pmf(right, reports, rate)
    at = float(told.split(" ")[0].replace(",", ""))

    def delta(at: float) -> float:
        return float(mass @ np.maximum(0.0, -np.expm1(np.minimum(at - loss, 0.0))))

    assert told in reason
    assert delta(at * (1 + 2e-4)) < 1e-6 < delta(at * (1 - 2e-4))
