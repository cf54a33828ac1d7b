"""APM: the budgets of section 5.7 and of equation 11, an entry's law and an upload's sum."""

from __future__ import annotations

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace

GROUPS = ("user", "item", "mlp1", "mlp2")
SCOPE = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)


def test_section_57_and_equation_11_assign_different_budgets() -> None:
    """Entry 19: (30, 60, 40, 50) against equal steps in the order user, item, MLP 1, MLP 2."""
    printed, rule = AdaptiveLaplace(), AdaptiveLaplace.by_resistance(least=30.0, most=60.0)
    assert [printed.budget(group) for group in GROUPS] == [30.0, 60.0, 40.0, 50.0]
    assert [rule.budget(group) for group in GROUPS] == [30.0, 40.0, 50.0, 60.0]


def test_the_noise_factors_are_the_printed_ones() -> None:
    factors = {group: AdaptiveLaplace().noise(group).scale for group in GROUPS}
    printed = {"user": 0.033, "item": 0.017, "mlp1": 0.025, "mlp2": 0.020}
    assert {group: round(scale, 3) for group, scale in factors.items()} == printed


@pytest.mark.parametrize("group", GROUPS)
def test_an_entry_spends_its_groups_budget_exactly(group: str) -> None:
    protection = AdaptiveLaplace()
    bound = exact_lower_bound(protection.coordinate(group), SCOPE)
    assert bound.epsilon == pytest.approx(protection.budget(group))


def test_an_upload_spends_the_sum_over_all_entries() -> None:
    """W1, W2 and b alone cost 247,680 (entry 17 of the catalogue)."""
    protection = AdaptiveLaplace()
    assert protection.spent({"user": 64 * 64 * 2 + 64}) == pytest.approx(247_680)
    sizes = {"user": 5, "item": 7, "mlp1": 2, "mlp2": 1}
    assert protection.spent(sizes) == 5 * 30 + 7 * 60 + 2 * 40 + 50
    exact = exact_lower_bound(protection.upload(sizes), SCOPE)
    assert exact.epsilon == pytest.approx(protection.spent(sizes))


def test_the_promise_names_only_what_the_model_has() -> None:
    (both,) = AdaptiveLaplace().promises(("user", "item"))
    assert (both.epsilon, both.unit) == (60.0, Unit.COORDINATE)
    assert "mlp" not in both.statement


def test_a_group_without_a_budget_is_refused() -> None:
    with pytest.raises(InputError, match="'conv'"):
        AdaptiveLaplace().noise("conv")
