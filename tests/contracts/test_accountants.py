"""The accountant contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.accountants import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES["accountants"].names())
def test_accountant_keeps_the_contract(name: str, check: Callable[[Accountant], None]) -> None:
    check(FAMILIES["accountants"].member(name)())
