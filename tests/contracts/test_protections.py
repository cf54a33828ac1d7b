"""The protection contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.protections import CHECKS
from fedrec_auditor.targets.protections.base import Protection


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES["protections"].names())
def test_protection_keeps_the_contract(name: str, check: Callable[[Protection], None]) -> None:
    check(FAMILIES["protections"].member(name)())
