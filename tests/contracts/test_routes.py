"""The route contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.routes import CHECKS
from fedrec_auditor.targets.routes.base import Route


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES["routes"].names())
def test_route_keeps_the_contract(name: str, check: Callable[[Route], None]) -> None:
    check(FAMILIES["routes"].member(name)())
