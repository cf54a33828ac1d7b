"""Secure aggregation: only the sum is seen, and it is charged as what it is made of."""

from __future__ import annotations

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.routes.secure_aggregation import SecureAggregation


def test_a_sum_is_charged_as_its_terms() -> None:
    assert SecureAggregation().vantage is Vantage.AGGREGATE
    assert SecureAggregation().event(PureDpEvent(2.0), 2.0, 500) == PureDpEvent(2.0)
