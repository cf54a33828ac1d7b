"""The estimator contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.auditor.estimators.base import Estimator
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.estimators import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES["estimators"].names())
def test_estimator_keeps_the_contract(name: str, check: Callable[[Estimator], None]) -> None:
    check(FAMILIES["estimators"].member(name)())
